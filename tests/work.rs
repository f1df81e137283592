//! Workers on one folder that do not talk to each other: shares, kills, stale claims, signals.
#![cfg(unix)]

mod program;

use program::{noisescale, results, results_of, signal, succeed, wait_for};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

const STUDY: &str = r#"
title = "Small"
seeds = 3
[task]
dataset = "digits"
[family]
kind = "mlp"
hidden = [1]
widths = [8, 16, 32]
scheme = "ntk"
[search]
kind = "batch-size"
learning_rate = 5.0
batch_sizes = [8, 16, 32, 64]
extend = 0
[time]
epochs = 30
"#;

/// A folder in which the study was run as `alone`, and a folder `shared` that has the
/// study and no record.
fn folder() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path();
    fs::write(at.join("small.toml"), STUDY).unwrap();
    succeed(at, &["run", "small.toml", "--out", "alone", "--quiet"]);
    let text = succeed(at, &["prepare", "small.toml", "--out", "shared"]);
    assert!(text.contains("0 runs recorded, 36 to train"), "{text}");
    dir
}

/// Claims of a process on another machine that seems to live: what a lost node leaves.
fn leave_claims(folder: &Path, runs: &[&String]) -> PathBuf {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let claim = serde_json::json!({ "at_ms": since.as_millis() as u64, "claim": runs });
    let name = "20260131T235959Z-elsewhere-1-00000000";
    let header = serde_json::json!({
        "noisescale_ledger": 1, "writer": name, "host": "elsewhere", "pid": 1, "version": "0",
    });
    let path = folder.join(format!("claims/{name}.jsonl"));
    fs::write(&path, format!("{header}\n{claim}\n")).unwrap();
    path
}

/// Starts a command whose words are kept.
fn heard(mut command: Command) -> Child {
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().unwrap()
}

#[test]
fn shards_with_one_killed_and_run_again_are_the_whole_study() {
    let dir = folder();
    let at = dir.path();
    let shared = at.join("shared");
    let alone = results(&at.join("alone"));
    // Every other run seems to be trained elsewhere: no shard ends before one is killed.
    let claimed: Vec<&String> = alone.keys().step_by(2).collect();
    let claims = leave_claims(&shared, &claimed);
    let worker = |shard: &str| {
        let mut args = vec!["work", "shared", "--shard", shard];
        args.extend(["--threads", "1", "--patience", "600", "--quiet"]);
        heard(noisescale(at, &args))
    };
    let mut children = [worker("1/3"), worker("2/3"), worker("3/3")];
    let pid = children[1].id();
    wait_for(&mut children[1], "a record", || {
        !results_of(&shared, pid).is_empty()
    });
    children[1].kill().unwrap();
    fs::remove_file(claims).unwrap();
    let pids = [children[0].id(), children[2].id()];
    let ended = children.map(|child| child.wait_with_output().unwrap().status.success());
    assert_eq!(ended, [true, false, true]);
    // Nobody does another's share.
    let shares = pids.map(|pid| results_of(&shared, pid));
    assert!(shares[0].keys().all(|run| !shares[1].contains_key(run)));
    assert!(results(&shared).len() < alone.len());
    let text = succeed(at, &["work", "shared", "--shard", "2/3"]);
    assert!(text.contains("shard 2/3: done"), "{text}");
    assert_eq!(results(&shared), alone);
    // What is done is done.
    let files = || fs::read_dir(shared.join("records")).unwrap().count();
    let before = files();
    for shard in ["1/3", "2/3", "3/3"] {
        let text = succeed(at, &["work", "shared", "--shard", shard]);
        assert!(text.contains("are recorded already"), "{text}");
    }
    assert_eq!(files(), before);
}

#[test]
fn a_worker_without_a_shard_takes_everything() {
    let dir = folder();
    let text = succeed(dir.path(), &["work", "shared", "--quiet"]);
    assert!(text.contains("all runs: done"), "{text}");
    let [shared, alone] = ["shared", "alone"].map(|name| results(&dir.path().join(name)));
    assert_eq!(shared, alone);
}

/// A node that is lost leaves claims that look alive for ten minutes. Its runs are this
/// worker's to bring: it waits a while and trains them.
#[test]
fn claims_from_a_lost_node_hold_a_shard_up_for_as_long_as_its_patience() {
    let dir = folder();
    let at = dir.path();
    let alone = results(&at.join("alone"));
    leave_claims(&at.join("shared"), &alone.keys().collect::<Vec<_>>());
    let start = Instant::now();
    succeed(at, &["work", "shared", "--shard", "1/1", "--patience", "2"]);
    assert!(start.elapsed() >= Duration::from_secs(2), "it did not wait");
    assert_eq!(results(&at.join("shared")), alone);
    let files = fs::read_dir(at.join("shared/records")).unwrap().count();
    assert_eq!(files, 1, "waiting leaves no files");
}

/// SIGUSR1, as Slurm sends it before the limit: the run under way is saved, the task of the array
/// is named in the request to come again, and the next attempt goes on from there.
#[test]
fn a_warning_saves_and_requeues_and_a_termination_only_saves() {
    let dir = folder();
    let at = dir.path();
    let script = at.join("scontrol");
    fs::write(&script, "#!/bin/sh\necho \"$@\" >> \"${0%/*}/calls\"\n").unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    // Runs that do not end before they are disturbed, one at a time.
    let study = fs::read_to_string(at.join("shared/study.toml")).unwrap();
    let long = study.replace("epochs = 30", "epochs = 15000");
    fs::write(at.join("shared/study.toml"), long).unwrap();
    let shared = at.join("shared");
    let mut records = fs::read_dir(at.join("alone/records")).unwrap().flatten();
    let some_records = records.next().unwrap().path();
    let worker = || {
        let mut command = noisescale(at, &["work", "shared", "--shard", "1/2", "--threads", "1"]);
        command.args(["--checkpoint-every", "0.2"]);
        let path = std::env::var("PATH").unwrap();
        command.env("PATH", format!("{}:{path}", at.display()));
        command
            .env("SLURM_ARRAY_JOB_ID", "7")
            .env("SLURM_ARRAY_TASK_ID", "3");
        command.env("SLURM_JOB_ID", "9");
        heard(command)
    };
    // When work under way was last saved; files have other names until they are whole.
    let saved = || {
        let files = fs::read_dir(shared.join("checkpoints")).unwrap().flatten();
        let whole = files.filter(|file| !file.file_name().to_string_lossy().starts_with('.'));
        whole
            .filter_map(|file| file.metadata().ok()?.modified().ok())
            .max()
    };
    let disturbed = |name: &str| {
        let before = saved();
        let mut child = worker();
        wait_for(&mut child, "a checkpoint", || saved() > before);
        // Somebody has brought a record since: without progress nobody asks to be run again.
        let copy = format!("records/by-{}.jsonl", child.id());
        fs::copy(&some_records, shared.join(copy)).unwrap();
        signal(name, &child);
        child.wait_with_output().unwrap()
    };
    let output = disturbed("USR1");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(0), "{text}");
    assert!(text.contains("Slurm will run task 7_3 again"), "{text}");
    let calls = || fs::read_to_string(at.join("calls")).unwrap_or_default();
    assert_eq!(calls(), "requeue 7_3\n");
    assert!(saved().is_some());
    assert_eq!(fs::read_dir(shared.join("claims")).unwrap().count(), 0);
    let output = disturbed("TERM");
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(130), "{errors}");
    assert!(errors.contains("nothing is lost"), "{errors}");
    assert_eq!(calls(), "requeue 7_3\n");
    assert!(saved().is_some());
}

/// What a killed process left half-written is removed; what cannot be stops nobody.
#[test]
fn a_leftover_that_cannot_be_removed_stops_nobody() {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path();
    fs::write(at.join("small.toml"), STUDY).unwrap();
    succeed(at, &["prepare", "small.toml", "--out", "shared"]);
    let checkpoints = at.join("shared/checkpoints");
    // A folder is no file to remove.
    fs::create_dir_all(checkpoints.join(".one.tmp")).unwrap();
    fs::write(checkpoints.join(".two.tmp"), "").unwrap();
    for name in [".one.tmp", ".two.tmp"] {
        let old = SystemTime::now() - Duration::from_secs(86_400);
        let leftover = fs::File::open(checkpoints.join(name)).unwrap();
        leftover.set_modified(old).unwrap();
    }
    let args = ["work", "shared", "--shard", "1/36", "--quiet"];
    let output = noisescale(at, &args).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    assert!(errors.contains("warning: "), "{errors}");
    assert!(errors.contains(".one.tmp"), "{errors}");
    assert!(!checkpoints.join(".two.tmp").exists(), "the other is gone");
}
