//! What a crash or an odd flag leaves behind: nothing that stops the folder's other submissions,
//! and nothing that a shell would run.

use super::cluster::Cluster;
use super::{SUBMIT, refused};
use serde_json::Value;
use std::fs;
use std::process::Command;

/// A submission that was never whole was never submitted: the others go on without it.
#[test]
fn a_torn_submission_stops_no_other() {
    let cluster = Cluster::new();
    cluster.succeed(&SUBMIT);
    for (name, text) in [("0002", ""), ("0003", "{\"noisescale_submission\":1,\"na")] {
        let folder = cluster.at.join("out/slurm").join(name);
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("submission.json"), text).unwrap();
    }
    let output = cluster.run(&["slurm", "status", "out"]);
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{errors}");
    for name in ["0002", "0003"] {
        let warning = errors.lines().find(|line| line.contains(name));
        assert!(
            warning.is_some_and(|line| line.contains("warning: ")),
            "{errors}"
        );
    }
    let submissions = &cluster.status()["submissions"];
    assert_eq!(submissions.as_array().unwrap().len(), 1, "{submissions}");
    // Its name stays taken.
    let text = cluster.succeed(&["slurm", "resubmit", "out"]);
    assert!(text.contains("Submission 0004: 18 runs"), "{text}");
    // One that was submitted has runs on their way, and must be read.
    fs::remove_dir_all(cluster.at.join("out/slurm/0002")).unwrap();
    fs::write(cluster.at.join("out/slurm/0003/array.job"), "77\n").unwrap();
    let errors = refused(&cluster.run(&["slurm", "status", "out"]), 1);
    assert!(
        errors.contains("0003") && errors.contains("is not a submission"),
        "{errors}"
    );
}

/// Digits that a crash has cut off would be the number of another job.
#[test]
fn a_torn_job_number_is_none() {
    let cluster = Cluster::new();
    cluster.succeed(&SUBMIT);
    let array = || cluster.status()["submissions"][0]["array"].clone();
    assert_eq!(array(), 100);
    cluster.answer("out/slurm/0001/array.job", "10");
    assert_eq!(array(), Value::Null);
}

/// A full disk leaves no part of a file under the file's name.
#[cfg(target_os = "linux")]
#[test]
fn a_file_that_cannot_be_written_is_not_there() {
    let cluster = Cluster::new();
    let whole = cluster.command(&SUBMIT);
    // Files may have 512 bytes, which a submission exceeds.
    let limited = "trap '' XFSZ; ulimit -f 1; exec \"$0\" \"$@\"";
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", limited]).arg(whole.get_program());
    shell.args(whole.get_args()).current_dir(&cluster.at);
    for (name, value) in whole.get_envs() {
        match value {
            Some(value) => shell.env(name, value),
            None => shell.env_remove(name),
        };
    }
    let errors = refused(&shell.output().unwrap(), 1);
    assert!(errors.contains("submission.json: cannot write"), "{errors}");
    let folder = fs::read_dir(cluster.at.join("out/slurm/0001")).unwrap();
    let names = folder.flatten().map(|entry| entry.file_name());
    assert_eq!(names.collect::<Vec<_>>(), ["logs"]);
    let text = cluster.succeed(&SUBMIT);
    assert!(text.contains("Submission 0002: 18 runs"), "{text}");
}

/// Scripts hold the command that submits them in a comment, which a line end would end.
#[test]
fn flags_with_control_characters_are_refused() {
    let cluster = Cluster::new();
    for flags in [
        ["--", "--comment=one\ntouch hacked"],
        ["--partition", "short\ntouch hacked"],
        ["--mem", "2G\rtouch hacked"],
    ] {
        let errors = refused(&cluster.run(&[&SUBMIT[..], &flags].concat()), 2);
        assert!(errors.contains("control character"), "{errors}");
        assert!(!cluster.at.join("out").exists(), "nothing is made");
    }
}
