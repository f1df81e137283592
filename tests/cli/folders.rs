//! A study's folder, or the copy of the study in it, where a study is asked for.

use super::{json, run_tiny, succeed, text};
use std::fs;
use std::path::Path;

#[test]
fn a_folder_goes_on_and_its_copy_repeats_it() {
    let dir = tempfile::tempdir().unwrap();
    run_tiny(dir.path(), &["--out", "my runs", "--quiet"]);
    let copy = dir.path().join("my runs/study.toml");
    let noted = fs::read_to_string(&copy).unwrap();

    // As it was run, with its overrides: as a folder and as a file.
    let folder = json(dir.path(), &["check", "my runs", "--json"]);
    let whole = json(dir.path(), &["check", "digits-mlp", "--json"]);
    assert!(folder["runs"].as_u64() < whole["runs"].as_u64());
    assert_eq!(folder["widths"], serde_json::json!([8, 16]));
    assert_eq!(folder["study"], "my runs");
    let file = json(dir.path(), &["check", "my runs/study.toml", "--json"]);
    assert_eq!(file["runs"], folder["runs"]);

    // Nothing is left to do, and its own folder is where it is done.
    succeed(dir.path(), &["run", "my runs", "--quiet"]);
    assert_eq!(fs::read_to_string(&copy).unwrap(), noted);
    assert!(!dir.path().join("runs").exists());

    // A new change takes the place of the old one.
    succeed(dir.path(), &["run", "my runs", "--seeds", "3", "--quiet"]);
    let changed = fs::read_to_string(&copy).unwrap();
    assert!(changed.contains("--set seeds=3") && !changed.contains("--set seeds=2"));
    let status = json(dir.path(), &["status", "my runs", "--json"]);
    assert_eq!(status["planned"], status["recorded"]);

    // The report names the command.
    let page = fs::read_to_string(dir.path().join("my runs/report.html")).unwrap();
    assert!(page.contains("<code>noisescale run &#39;my runs&#39;</code>"));
}

#[test]
fn a_folder_with_records_of_other_networks_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    run_tiny(dir.path(), &["--out", "mine", "--quiet"]);
    let noted = fs::read(dir.path().join("mine/study.toml")).unwrap();
    let standard = ["--set", "family.scheme=standard", "--out", "mine"];
    let args = [&["run"], super::TINY, &standard].concat();
    let output = super::noisescale(dir.path(), &args).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let errors = text(&output.stderr);
    assert!(
        errors.contains("mine: contains 52 runs of another study (1LP on Digits, NTK scheme"),
        "{errors}"
    );
    assert_eq!(fs::read(dir.path().join("mine/study.toml")).unwrap(), noted);
}

/// Within its folder the copy of a study has no folder in its name.
#[test]
fn a_copy_that_is_named_from_within_its_folder_goes_on_there() {
    let dir = tempfile::tempdir().unwrap();
    run_tiny(dir.path(), &["--out", "mine", "--quiet"]);
    let mine = dir.path().join("mine");
    let said = succeed(&mine, &["run", "study.toml"]).stdout;
    assert!(text(&said).contains("runs/mine/report.html"));
    assert_eq!(
        json(&mine, &["check", "study.toml", "--json"])["study"],
        "mine"
    );
}

/// Eight examples of 2×2 pixels in files of one's own.
const OWN: &str = r#"
seeds = 1
[task.files]
path = "data"
train_images = "x"
train_labels = "y"
test_images = "x"
test_labels = "y"
validation = 2
[family]
kind = "mlp"
hidden = [1]
widths = [2]
scheme = "ntk"
[search]
kind = "batch-size"
learning_rate = 0.1
batch_sizes = [1, 2]
extend = 0
[time]
epochs = 2
"#;

/// The study of these data as it was run into `out`.
fn run_on_own_data(at: &Path, pixels: &[u8]) {
    fs::create_dir(at.join("data")).unwrap();
    write_idx(&at.join("data/x"), &[8, 2, 2], pixels);
    write_idx(&at.join("data/y"), &[8], &[0, 1, 0, 1, 0, 1, 0, 1]);
    fs::write(at.join("own.toml"), OWN).unwrap();
    succeed(at, &["run", "own.toml", "--out", "out", "--quiet"]);
}

/// An array of bytes as IDX has it.
fn write_idx(path: &Path, lengths: &[u32], bytes: &[u8]) {
    let mut file = vec![0, 0, 8, u8::try_from(lengths.len()).unwrap()];
    file.extend(lengths.iter().flat_map(|length| length.to_be_bytes()));
    file.extend(bytes);
    fs::write(path, file).unwrap();
}

fn pixels() -> Vec<u8> {
    (0..32).map(|at| at * 7).collect()
}

/// Data are the same wherever they lie, and a folder whose data are gone is not free to take.
#[test]
fn a_folder_of_own_data_stays_with_its_networks() {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path();
    run_on_own_data(at, &pixels());
    fs::rename(at.join("data"), at.join("moved")).unwrap();
    let args = ["run", "own.toml", "--out", "out", "--set"];
    let moved = [&args[..], &["task.files.path=\"moved\""]].concat();
    assert!(text(&succeed(at, &moved).stdout).contains("0 runs trained"));
    // The copy in the folder names the moved data now: away with them, too.
    fs::rename(at.join("moved"), at.join("data")).unwrap();
    let other = [&args[..], &["family.hidden=[1, 1]"]].concat();
    let output = super::noisescale(at, &other).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let errors = text(&output.stderr);
    assert!(
        errors.contains("out: contains 2 runs of another study (1LP"),
        "{errors}"
    );
}

#[test]
fn data_that_changed_are_suspected_of_it() {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path();
    run_on_own_data(at, &pixels());
    let status = || text(&succeed(at, &["status", "out"]).stdout);
    assert!(!status().contains("further"), "{}", status());
    let mut others = pixels();
    others[0] = 1;
    write_idx(&at.join("data/x"), &[8, 2, 2], &others);
    let changed = status();
    assert!(changed.contains("0 of 2 runs recorded"), "{changed}");
    assert!(changed.contains("its data were"), "{changed}");
    // As the documents say, nothing is lost.
    write_idx(&at.join("data/x"), &[8, 2, 2], &pixels());
    assert!(status().contains("2 of 2 runs recorded"), "{}", status());
}

#[test]
fn a_folder_without_a_study_is_named() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("empty")).unwrap();
    let output = super::noisescale(dir.path(), &["run", "empty"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    let errors = text(&output.stderr);
    assert!(errors.contains("empty: contains no study"), "{errors}");
}
