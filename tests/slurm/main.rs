//! Slurm without Slurm: `sbatch`, `squeue`, `scontrol` and `scancel` are scripts that
//! write down how they were called and answer from files. What they are called with, what
//! is made of their answers, and the generated scripts, which are run, are the program's own.
//! `scripts/slurm-test.sh` has the real thing.
#![cfg(unix)]

mod chain;
mod cluster;
mod edges;

use cluster::{Cluster, STUDY};
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::Output;

/// 2 widths × 3 batch sizes × 3 seeds.
const RUNS: usize = 18;

const SUBMIT: [&str; 7] = [
    "slurm",
    "submit",
    "small.toml",
    "--out",
    "out",
    "--array",
    "3",
];

/// One refusal in one sentence.
fn refused(output: &Output, code: i32) -> String {
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(code), "{errors}");
    assert_eq!(errors.trim_end().lines().count(), 1, "{errors}");
    errors
}

#[test]
fn a_submission_is_an_array_and_a_job_after_it() {
    let cluster = Cluster::new();
    let flags = [
        "--partition",
        "short",
        "--mem",
        "2G",
        "--time",
        "90",
        "--cpus-per-task",
        "2",
    ];
    let extra = ["--", "--account=my lab", "--array=9-9"];
    let text = cluster.succeed(&[&SUBMIT[..], &flags, &extra].concat());
    assert!(text.contains("18 runs in 3 tasks"), "{text}");
    assert!(text.contains("Array 100, and job 101"), "{text}");
    let (array, finish) = (cluster.calls("sbatch.100"), cluster.calls("sbatch.101"));
    let at = cluster.at.display();
    let logs = format!("{at}/out/slurm/0001/logs").replace('%', "%%");
    for flag in [
        "--partition=short",
        "--mem=2G",
        "--time=01:30:00",
        "--cpus-per-task=2",
        "--requeue",
        "--open-mode=append",
        "--signal=B:USR1@120",
        "--account=my lab",
        "--parsable",
        &format!("--output={logs}/%A_%a.out"),
        &format!("{at}/out/slurm/0001/task.sh"),
    ] {
        assert!(array.lines().any(|line| line == flag), "{flag} in\n{array}");
    }
    // Flags of one's own may change much, but not what the array is.
    let last = array.lines().rfind(|line| line.starts_with("--array="));
    assert_eq!(last, Some("--array=1-3"));
    for flag in [
        "--dependency=afterany:100",
        "--account=my lab",
        "--partition=short",
    ] {
        assert!(
            finish.lines().any(|line| line == flag),
            "{flag} in\n{finish}"
        );
    }
    assert!(!finish.contains("--signal"));
    // Every run is in one shard, and the scripts name them.
    let submission = cluster.submission("0001");
    let shards = submission["shards"].as_array().unwrap();
    let runs: usize = shards
        .iter()
        .map(|shard| shard.as_array().unwrap().len())
        .sum();
    assert_eq!((shards.len(), runs), (3, RUNS));
    let script = cluster.calls("out/slurm/0001/task.sh");
    assert!(
        script.contains("trap '' USR1\n") && script.contains("\nexec "),
        "{script}"
    );
    assert!(script.contains("--device cpu"), "{script}");
}

#[test]
fn the_tasks_bring_the_runs_and_the_last_job_the_report() {
    let cluster = Cluster::new();
    cluster.succeed(&SUBMIT);
    for task in 1..=3 {
        let output = cluster.run_task("0001", task);
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{errors}");
    }
    let again = String::from_utf8(cluster.run_task("0001", 2).stdout).unwrap();
    assert!(again.contains("are recorded already"), "{again}");
    let finish = ["slurm", "finish", "out", "--submission", "0001"];
    let text = cluster.succeed(&finish);
    assert!(text.contains("18 of 18 runs recorded"), "{text}");
    assert!(cluster.at.join("out/report.html").exists());
    assert!(!cluster.at.join("out/slurm/0001-round2").exists());
    // What one process gives.
    cluster.succeed(&["run", "small.toml", "--out", "alone/out", "--quiet"]);
    let findings = |dir: &str| {
        let text = cluster.succeed(&["report", dir, "--json"]);
        let timeless = text.lines().filter(|line| !line.contains("\"seconds\":"));
        timeless.collect::<Vec<_>>().join("\n")
    };
    assert_eq!(findings("out"), findings("alone/out"));
    let standing = cluster.status();
    assert_eq!(standing["missing"], 0);
    let next = cluster.succeed(&["slurm", "resubmit", "out"]);
    assert!(next.contains("Nothing is missing: 18 runs"), "{next}");
}

#[test]
fn what_is_missing_is_sent_again_and_nothing_else() {
    let cluster = Cluster::new();
    cluster.succeed(&[&SUBMIT[..], &["--mem", "1G", "--patience", "0.1"]].concat());
    assert!(cluster.run_task("0001", 1).status.success());
    let name = "noisescale-out-0001";
    // Task 2 is under way, task 3 failed.
    let queue = format!(
        "100|1|COMPLETED|0:00|{name}|None\n100|2|RUNNING|5:00|{name}|n1\n\
         100|3|FAILED|0:00|{name}|NonZeroExitCode\n101|N/A|PENDING|30:00|{name}|(Dependency)\n"
    );
    cluster.answer("queue", &queue);
    let standing = cluster.status();
    assert_eq!(
        (&standing["recorded"], &standing["missing"]),
        (&6.into(), &12.into())
    );
    assert_eq!(standing["on_their_way"], 6);
    let sent = &standing["submissions"][0];
    assert_eq!(
        sent["states"],
        serde_json::json!({"COMPLETED": 1, "RUNNING": 1, "FAILED": 1})
    );
    assert_eq!(sent["seconds_left"], 300);
    let logs = sent["logs"].as_array().unwrap();
    assert!(logs.len() == 1 && logs[0].as_str().unwrap().ends_with("logs/100_3.out"));
    // The parameters are those of before, but for what is said now.
    let args = ["slurm", "resubmit", "out", "--array", "2", "--mem", "4G"];
    let text = cluster.succeed(&args);
    assert!(
        text.contains("Submission 0002: 6 runs in 2 tasks"),
        "{text}"
    );
    let array = cluster.calls("sbatch.102");
    assert!(
        array.contains("--mem=4G") && array.contains("--array=1-2"),
        "{array}"
    );
    let (first, second) = (cluster.submission("0001"), cluster.submission("0002"));
    assert_eq!(
        second["parameters"]["patience"],
        first["parameters"]["patience"]
    );
    let runs = |shards: &[Value]| {
        let all = shards
            .iter()
            .flat_map(|shard| shard.as_array().unwrap().clone());
        let mut ids: Vec<String> = all.map(|run| run["run"].to_string()).collect();
        ids.sort();
        ids
    };
    let third = &first["shards"].as_array().unwrap()[2..];
    assert_eq!(runs(second["shards"].as_array().unwrap()), runs(third));
    // Now all is on its way; force sends it all the same.
    let name = "noisescale-out-0002";
    let more =
        format!("102|1|PENDING|1:00|{name}|(Priority)\n102|2|PENDING|1:00|{name}|(Priority)\n");
    cluster.answer("queue", &(queue + &more));
    let text = cluster.succeed(&["slurm", "resubmit", "out"]);
    assert!(
        text.contains("Nothing to send: the 12 missing runs"),
        "{text}"
    );
    let text = cluster.succeed(&["slurm", "resubmit", "out", "--force"]);
    assert!(text.contains("Submission 0003: 12 runs"), "{text}");
}

#[test]
fn the_last_job_sends_rounds_while_they_bring_something() {
    let cluster = Cluster::new();
    // On one core a cohort may be cut down to single runs.
    let flags = ["--patience", "0.1", "--cpus-per-task", "1"];
    cluster.succeed(&[&SUBMIT[..], &flags].concat());
    let finish = |name: &str| cluster.run(&["slurm", "finish", "out", "--submission", name]);
    // Nothing came of it.
    let errors = refused(&finish("0001"), 1);
    assert!(
        errors.contains("18 runs are missing") && errors.contains("resubmit"),
        "{errors}"
    );
    assert!(!cluster.at.join("out/slurm/0001-round2").exists());
    // Two tasks brought something.
    for task in [1, 3] {
        assert!(cluster.run_task("0001", task).status.success());
    }
    let output = finish("0001");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("Submission 0001-round2: 6 runs"), "{text}");
    // The job was killed after that and runs again.
    let text = String::from_utf8(finish("0001").stdout).unwrap();
    assert!(text.contains("0001-round2 has been made already"), "{text}");
    // Somebody cancelled the tasks.
    let name = "noisescale-out-0001-round2";
    cluster.answer("queue", &format!("102|1|CANCELLED|0:00|{name}|None\n"));
    assert!(cluster.run_task("0001-round2", 2).status.success());
    let errors = refused(&finish("0001-round2"), 1);
    assert!(errors.contains("cancelled"), "{errors}");
    // Enough rounds.
    cluster.answer("queue", "");
    cluster.succeed(&["slurm", "resubmit", "out", "--rounds", "1"]);
    assert!(cluster.run_task("0002", 1).status.success());
    let errors = refused(&finish("0002"), 1);
    assert!(errors.contains("this was the last round"), "{errors}");
}

#[test]
fn only_jobs_of_the_folder_are_cancelled_and_the_last_ones_first() {
    let cluster = Cluster::new();
    cluster.succeed(&SUBMIT);
    let text = cluster.succeed(&["slurm", "cancel", "out"]);
    assert!(text.contains("no job of this folder"), "{text}");
    assert_eq!(cluster.calls("scancel.calls"), "");
    let name = "noisescale-out-0001";
    cluster.answer(
        "queue",
        &format!("100|2|RUNNING|5:00|{name}|n1\n101|N/A|PENDING|30:00|{name}|(Dependency)\n"),
    );
    cluster.succeed(&["slurm", "cancel", "out"]);
    assert_eq!(cluster.calls("scancel.calls"), "101\n100\n");
    // The number has been given out again, to somebody else.
    cluster.answer("queue", "100|N/A|RUNNING|5:00|chess|n1\n");
    cluster.succeed(&["slurm", "cancel", "out"]);
    assert_eq!(cluster.calls("scancel.calls"), "101\n100\n");
}

#[test]
fn the_largest_array_is_respected() {
    let cluster = Cluster::new();
    cluster.answer("max", "3\n");
    let errors = refused(&cluster.run(&SUBMIT), 2);
    assert!(
        errors.contains("MaxArraySize 3") && errors.contains("at most 2"),
        "{errors}"
    );
    let args = [
        "slurm",
        "submit",
        "small.toml",
        "--out",
        "out",
        "--task-minutes",
        "0.00001",
    ];
    let text = cluster.succeed(&args);
    assert!(text.contains("18 runs in 2 tasks"), "{text}");
}

#[test]
fn gpus_are_asked_for_and_used() {
    let cluster = Cluster::new();
    let flags = ["--gpus-per-task", "2", "--precision", "fp32"];
    let text = cluster.succeed(&[&SUBMIT[..], &flags].concat());
    assert!(text.contains("Nothing was trained on GPUs yet"), "{text}");
    assert!(cluster.calls("sbatch.100").contains("--gpus-per-task=2"));
    assert!(!cluster.calls("sbatch.101").contains("gpus"));
    let script = cluster.calls("out/slurm/0001/task.sh");
    assert!(
        script.contains("--device cuda --precision fp32"),
        "{script}"
    );
}

#[test]
fn a_dry_run_submits_and_writes_nothing() {
    let cluster = Cluster::new();
    let text = cluster.succeed(&[&SUBMIT[..], &["--dry-run"]].concat());
    assert!(
        text.contains("#!/bin/sh") && text.contains("\nsbatch '--chdir="),
        "{text}"
    );
    assert!(text.contains("--dependency=afterany:ARRAY"), "{text}");
    assert!(!cluster.at.join("out").exists());
    assert_eq!(cluster.calls("last"), "");
}

#[test]
fn mistakes_and_refusals_are_one_sentence() {
    let cluster = Cluster::new();
    let errors = refused(&cluster.run(&["slurm", "status", "nowhere"]), 2);
    assert!(errors.contains("contains no study"), "{errors}");
    cluster.succeed(&["run", "small.toml", "--out", "own", "--quiet"]);
    let errors = refused(&cluster.run(&["slurm", "resubmit", "own"]), 2);
    assert!(
        errors.contains("nothing was submitted from here"),
        "{errors}"
    );
    cluster.answer(
        "refuse",
        "sbatch: error: invalid partition specified: shrot\n",
    );
    let errors = refused(&cluster.run(&SUBMIT), 1);
    assert!(
        errors.contains("`sbatch` refused: ") && errors.contains("shrot"),
        "{errors}"
    );
    // It is on disk that nothing was sent, and the next attempt has a name of its own.
    fs::remove_file(cluster.at.join("refuse")).unwrap();
    assert_eq!(cluster.status()["submissions"][0]["array"], Value::Null);
    assert!(
        cluster
            .succeed(&SUBMIT)
            .contains("Submission 0002: 18 runs")
    );
    let mut elsewhere = cluster.command(&SUBMIT);
    let errors = refused(&elsewhere.env("PATH", "/nonexistent").output().unwrap(), 2);
    assert!(errors.contains("`sbatch` was not found"), "{errors}");
    for shard in ["0/3", "4/3", "two"] {
        let output = cluster.run(&["work", "out", "--shard", shard]);
        assert_eq!(output.status.code(), Some(2), "{shard}");
    }
    let errors = refused(
        &cluster.run(&["work", "out", "--shard", "1/9", "--submission", "0002"]),
        2,
    );
    assert!(errors.contains("has 3 shards"), "{errors}");
}

/// A study that is changed in place would make tasks train what nobody asks for.
#[test]
fn tasks_of_another_study_refuse() {
    let cluster = Cluster::new();
    cluster.succeed(&SUBMIT);
    let changed = STUDY.replace("scheme = \"ntk\"", "scheme = \"standard\"");
    cluster.answer("small.toml", &changed);
    cluster.succeed(&["run", "small.toml", "--out", "out", "--quiet"]);
    let errors = refused(&cluster.run_task("0001", 1), 2);
    assert!(
        errors.contains("has changed since submission 0001"),
        "{errors}"
    );
}

/// The program itself is where paths of one's own matter.
#[test]
fn the_environment_of_tasks_is_kept() {
    let cluster = Cluster::new();
    let mut submit = cluster.command(&SUBMIT);
    let output = submit.env("NOISESCALE_DATA", "my data").output().unwrap();
    assert!(output.status.success());
    let script = cluster.calls("out/slurm/0001/task.sh");
    let data = cluster.at.join("my data").display().to_string();
    let expected = format!("export NOISESCALE_DATA='{}'\n", data.replace('\'', r"'\''"));
    assert!(script.contains(&expected), "{script}");
    assert!(Path::new(&data).is_absolute());
}

const COMMAND_STUDY: &str = r#"
title = "Own command"
seeds = 2
[trainer]
command = ["sh", "train.sh", "{seed}", "{width}", "{batch_size}", "{learning_rate}", "{steps}"]
concurrency = 2
retries = 0
[task]
name = "Nothing"
training_examples = 100
chance_accuracy = 0.1
[family]
widths = [2]
scheme = "ntk"
[optimizer]
momentum = 0.9
[search]
kind = "batch-size"
learning_rate = 1.0
batch_sizes = [4, 8]
extend = 0
[time]
epochs = 4
"#;

#[test]
fn a_command_of_ones_own_is_trained_by_tasks_too() {
    let cluster = Cluster::new();
    cluster.answer("small.toml", COMMAND_STUDY);
    let well = "echo '{\"outcome\": \"trained\", \"test_accuracy\": 0.9}'";
    // One of its seeds fails.
    cluster.answer("train.sh", &format!("[ \"$1\" = 0 ] || exit 3; {well}"));
    let submit = [&SUBMIT[..5], &["--array", "1", "--patience", "1"]].concat();
    let text = cluster.succeed(&submit);
    assert!(text.contains("4 runs in 1 task of about 4 min"), "{text}");
    assert!(text.contains("times suppose 2 min a run"), "{text}");
    let script = fs::read_to_string(cluster.at.join("out/slurm/0001/task.sh")).unwrap();
    assert!(
        !script.contains("--device") && !script.contains("--threads"),
        "{script}"
    );
    let output = cluster.run_task("0001", 1);
    assert_eq!(output.status.code(), Some(1));
    let failed = String::from_utf8_lossy(&output.stderr);
    assert!(failed.contains("2 runs gave no outcome"), "{failed}");
    assert!(failed.contains("exit code 3"), "{failed}");
    // Mended, the round after it brings what is missing.
    cluster.answer("train.sh", well);
    cluster.succeed(&["slurm", "finish", "out", "--submission", "0001"]);
    let output = cluster.run_task("0001-round2", 1);
    assert!(output.status.success(), "{output:?}");
    let text = cluster.succeed(&["slurm", "finish", "out", "--submission", "0001-round2"]);
    assert!(text.contains("4 of 4 planned runs recorded"), "{text}");
    // What a lost node records once more does not count.
    let records = cluster.at.join("out/records");
    let one = fs::read_dir(&records).unwrap().next().unwrap().unwrap();
    fs::copy(one.path(), records.join("copied.jsonl")).unwrap();
    let text = cluster.succeed(&["slurm", "status", "out"]);
    assert!(text.contains("4 of 4 runs recorded (100 %)"), "{text}");
    assert!(
        text.contains("belong to runs that were recorded before (not counted)"),
        "{text}"
    );
}
