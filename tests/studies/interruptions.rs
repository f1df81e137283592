//! Studies that are killed, interrupted, or lose their folder.

use super::program::{noisescale, results, signal, wait_for};
use super::study_folder;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// A long run that is killed goes on from its last checkpoint, to the same result.
#[test]
fn a_killed_long_run_goes_on_from_its_checkpoint() {
    let dir = study_folder();
    let at = dir.path();
    let long = |out: &str| {
        let mut args = vec!["run", "small.toml", "--seeds", "1", "--widths", "32"];
        args.extend([
            "--set",
            "search.kind=batch-size",
            "--set",
            "search.extend=0",
        ]);
        args.extend(["--set", "search.batch_sizes=[8]", "--time-scale", "120"]);
        args.extend(["--checkpoint-every", "0.2", "--out"]);
        args.push(out);
        noisescale(at, &args)
    };
    let mut child = long("killed").stdout(Stdio::null()).spawn().unwrap();
    let saved = || match std::fs::read_dir(at.join("killed/checkpoints")) {
        Ok(files) => files
            .flatten()
            .any(|file| file.file_name().to_string_lossy().ends_with(".safetensors")),
        Err(_) => false,
    };
    wait_for(&mut child, "a checkpoint", saved);
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(results(&at.join("killed")).is_empty());
    let again = long("killed").output().unwrap();
    let text = String::from_utf8_lossy(&again.stdout).into_owned();
    assert!(text.contains("1 of them from a checkpoint"), "{text}");
    assert!(!saved(), "its checkpoint is not needed any more");
    assert!(long("whole").output().unwrap().status.success());
    assert_eq!(results(&at.join("killed")), results(&at.join("whole")));
}

/// A study that has begun: it listens to signals before it claims runs.
fn begun(mut command: Command, folder: &Path) -> Child {
    let mut child = command
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    wait_for(&mut child, "a claim", || has_files(&folder.join("claims")));
    child
}

fn has_files(folder: &Path) -> bool {
    std::fs::read_dir(folder).is_ok_and(|mut all| all.next().is_some())
}

/// Exit code 130, a sentence that says how to go on, and nothing lost; a terminal that is closed sends
/// more than one signal.
#[test]
fn an_interrupt_says_how_to_go_on() {
    for signals in [&["INT"][..], &["HUP", "HUP"], &["TERM", "TERM", "HUP"]] {
        if signals[0] == "HUP" && is_hangup_ignored() {
            println!("skipped: whoever began these tests wants SIGHUP ignored");
            continue;
        }
        let dir = study_folder();
        let out = dir.path().join("out");
        let args = ["run", "small.toml", "--out", "out", "--time-scale", "40"];
        let child = begun(noisescale(dir.path(), &args), &out);
        for name in signals {
            signal(name, &child);
        }
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(130), "{signals:?}");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(
            errors.contains("Go on with:") && errors.contains("small.toml"),
            "{signals:?}: {errors}"
        );
        assert!(!has_files(&out.join("claims")), "{signals:?}: claims stay");
    }
}

/// As under `nohup`, and then in all that is begun from here. SIGHUP is signal 1.
fn is_hangup_ignored() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.is_some_and(|mask| u64::from_str_radix(mask.trim(), 16).unwrap() & 1 == 1)
}

/// As `nohup` has it.
#[test]
fn a_signal_that_is_ignored_stays_ignored() {
    let dir = study_folder();
    let mut command = Command::new("sh");
    command
        .args(["-c", "trap '' HUP; exec \"$0\" \"$@\""])
        .arg(env!("CARGO_BIN_EXE_noisescale"))
        .args(["run", "small.toml", "--out", "out"])
        .current_dir(dir.path())
        .env("CUDA_VISIBLE_DEVICES", "");
    let child = begun(command, &dir.path().join("out"));
    signal("HUP", &child);
    let output = child.wait_with_output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
}

/// It must not train the same runs for ever and record them where nobody looks.
#[test]
fn a_folder_that_is_moved_away_ends_the_study() {
    let dir = study_folder();
    let at = dir.path();
    let args = ["run", "small.toml", "--out", "out", "--time-scale", "40"];
    let child = begun(noisescale(at, &args), &at.join("out"));
    std::fs::rename(at.join("out"), at.join("elsewhere")).unwrap();
    let output = child.wait_with_output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{errors}");
    assert!(errors.contains("out"), "{errors}");
}
