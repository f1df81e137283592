//! A study's folder, or the copy of the study in it, where a study is asked for.

use super::{json, run_tiny, succeed};
use std::fs;

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
    let errors = super::text(&output.stderr);
    assert!(
        errors.contains("mine: contains 52 runs of another study (1LP on Digits, NTK scheme"),
        "{errors}"
    );
    assert_eq!(fs::read(dir.path().join("mine/study.toml")).unwrap(), noted);
}

#[test]
fn a_folder_without_a_study_is_named() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("empty")).unwrap();
    let output = super::noisescale(dir.path(), &["run", "empty"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    let errors = super::text(&output.stderr);
    assert!(errors.contains("empty: contains no study"), "{errors}");
}
