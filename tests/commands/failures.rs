//! Commands that give no outcome: each is a clear failure, and costs no other run anything.

use super::{Place, errors};
use serde_json::json;

/// One run, tried once.
const ONE: [&str; 6] = [
    "--seeds",
    "1",
    "--set",
    "search.batch_sizes=[4]",
    "--set",
    "trainer.retries=0",
];

#[test]
fn every_way_to_fail_is_told() {
    let cases = [
        ("echo why >&2; exit 3", "crash", "it ended with exit code 3"),
        ("trained 0.9; exit 1", "crash", "it ended with exit code 1"),
        (
            "kill -SEGV $$",
            "crash",
            "it ended by signal 11, a wrong memory access",
        ),
        ("kill -KILL $$", "crash", "it was killed (signal 9)"),
        (
            "report 10 0.5",
            "no-outcome",
            "without a line that has `outcome`",
        ),
        (
            "echo outcome: trained",
            "no-outcome",
            "without a line that has `outcome`",
        ),
        (
            "echo '{\"outcome\": \"trai'",
            "output",
            "not a message in JSON",
        ),
        (
            "report 10 NaN; trained 0.5",
            "output",
            "`test_accuracy` is a share between 0 and 1, not NaN",
        ),
        (
            "trained 97.5",
            "output",
            "`test_accuracy` is a share between 0 and 1, not 97.5",
        ),
        (
            "report 20 0.5; report 10 0.5; trained 0.5",
            "output",
            "it reported step 10 after step 20",
        ),
        (
            "report 101 0.5; trained 0.5",
            "output",
            "step 101 is beyond the 100 steps",
        ),
        (
            "trained 0.5; trained 0.5",
            "output",
            "it wrote more messages after its outcome",
        ),
        (
            "printf '{'; head -c 70000 /dev/zero | tr '\\0' x; trained 0.5",
            "output",
            "longer than 65536 bytes",
        ),
        ("sleep 60", "timeout", "it ran for longer than 0.5 s"),
    ];
    for (script, kind, reason) in cases {
        let place = Place::new(script);
        let timeout = ["--set", "trainer.timeout_seconds=0.5"];
        let options = match kind {
            "timeout" => [&ONE[..], &timeout].concat(),
            _ => ONE.to_vec(),
        };
        let output = place.run(&options);
        let told = errors(&output);
        assert_eq!(output.status.code(), Some(1), "{script}: {told}");
        let last = told.lines().last().unwrap();
        assert!(
            last.contains("1 run gave no outcome") && last.contains(reason),
            "{script}: {told}"
        );
        assert!(place.records().is_empty(), "{script}");
        let failures = place.failures();
        assert_eq!(failures.len(), 1, "{script}");
        assert_eq!(failures[0]["failure"], kind, "{script}");
        assert!(
            failures[0]["reason"].as_str().unwrap().contains(reason),
            "{}",
            failures[0]
        );
        let status = place.status();
        assert_eq!(status["failed"]["by_kind"], json!({kind: 1}), "{script}");
    }
}

/// What it takes together with its children counts.
#[cfg(target_os = "linux")]
#[test]
fn too_much_memory_is_a_failure() {
    // The shell holds a string of 64 MB; its child does.
    let place = Place::new(
        "sh -c 'x=$(head -c 67108864 /dev/zero | tr \"\\0\" x); sleep 60; echo ${#x}' & wait; trained 0.5",
    );
    let output = place.run(&[&ONE[..], &["--set", "trainer.memory_mb=32"]].concat());
    assert_eq!(output.status.code(), Some(1), "{}", errors(&output));
    let failures = place.failures();
    assert_eq!(failures[0]["failure"], "memory");
    let reason = failures[0]["reason"].as_str().unwrap();
    assert!(
        reason.starts_with("it took ") && reason.ends_with("and may take 32 MB"),
        "{reason}"
    );
    // A modest one is let be.
    place.script("sleep 1; trained 0.5");
    let output = place.run(&[&ONE[..], &["--set", "trainer.memory_mb=32"]].concat());
    assert!(output.status.success(), "{}", errors(&output));
}

#[test]
fn a_crash_is_tried_again() {
    let place = Place::new(
        r#"
        echo "attempt of $b $seed" >> attempts
        [ "$b$seed" = 41 ] && ! [ -e mended ] && { touch mended; echo "Traceback: oh" >&2; exit 7; }
        trained 0.5"#,
    );
    let output = place.run(&[]);
    assert!(output.status.success(), "{}", errors(&output));
    assert!(
        errors(&output).contains("it ended with exit code 7; it is tried again"),
        "{}",
        errors(&output)
    );
    assert_eq!(place.records().len(), 4);
    assert_eq!(place.read("attempts").lines().count(), 5);
    let failures = place.failures();
    assert_eq!((failures.len(), &failures[0]["attempt"]), (1, &json!(1)));
    let log = place.read(&format!("out/{}", failures[0]["log"].as_str().unwrap()));
    assert!(
        log.starts_with("--- attempt 1: sh train.sh 2 4 1 1 100 "),
        "{log}"
    );
    assert!(log.contains("Traceback: oh"), "{log}");
    // Nothing is missing, so there is nothing to tell.
    assert_eq!(place.status()["failed"]["runs"], 0);
    let text = place.succeed(&["status", "out"]);
    assert!(!text.contains("failed"), "{text}");
}

/// A run that always crashes is left out; all others go on, and the next call tries it again.
#[test]
fn a_run_that_always_crashes_is_left_out() {
    let place = Place::new(
        r#"
        echo x >> calls
        [ "$b$seed" = 80 ] && { echo "no such file: weights" >&2; exit 5; }
        trained 0.5"#,
    );
    let output = place.run(&[]);
    let told = errors(&output);
    assert_eq!(output.status.code(), Some(1), "{told}");
    assert_eq!(place.records().len(), 3);
    // Two retries.
    assert_eq!(place.read("calls").lines().count(), 6);
    let last = told.lines().last().unwrap();
    assert!(
        last.contains("1 run gave no outcome") && last.contains("exit code 5"),
        "{last}"
    );
    // The first and the last attempt, and a line on the one between.
    let warnings: Vec<&str> = told.lines().filter(|l| l.contains("warning:")).collect();
    assert_eq!(warnings.len(), 3, "{told}");
    assert!(warnings[0].ends_with("it ended with exit code 5; it is tried again"));
    assert!(
        warnings[1].contains("failed 3 times, the last time"),
        "{told}"
    );
    assert!(warnings[2].contains("1 failed attempt between"), "{told}");
    let log = last
        .split_once("(see ")
        .unwrap()
        .1
        .split_once(')')
        .unwrap()
        .0;
    assert!(place.read(log).contains("no such file: weights"), "{log}");
    let text = place.succeed(&["status", "out"]);
    assert!(text.contains("3 of 4 runs recorded"), "{text}");
    assert!(
        text.contains("1 run failed so far, in 3 attempts: 1 crashed"),
        "{text}"
    );
    assert!(
        text.contains(&format!("log of its stderr: {log}")),
        "{text}"
    );
    let report = place.read("out/report.html");
    assert!(
        report.contains("the command failed at 1 run"),
        "the report tells"
    );
    // Again, to no avail: three more calls and no other.
    assert_eq!(place.run(&[]).status.code(), Some(1));
    assert_eq!(place.read("calls").lines().count(), 9);
    place.script("trained 0.5");
    let output = place.run(&[]);
    assert!(output.status.success(), "{}", errors(&output));
    assert_eq!(place.records().len(), 4);
    assert_eq!(place.status()["failed"]["runs"], 0);
}

/// A command that never works is given up before it has been called for every run.
#[test]
fn a_command_that_never_works_is_given_up() {
    let place = Place::new("echo x >> calls; exit 1");
    let output = place.run(&["--seeds", "50", "--set", "trainer.retries=0"]);
    let told = errors(&output);
    assert_eq!(output.status.code(), Some(1), "{told}");
    assert_eq!(place.read("calls").lines().count(), 3);
    let last = told.lines().last().unwrap();
    assert!(
        last.contains("has failed 3 times and never given an outcome"),
        "{last}"
    );
    assert!(last.contains("it ended with exit code 1"), "{last}");
}

#[test]
fn a_command_that_cannot_start_stops_the_study_at_once() {
    let place = Place::new("");
    place.write("no-program", "neither a script nor a program");
    let cases = [
        (
            "trainer.command=[\"no-such-interpreter\", \"{width}{batch_size}{learning_rate}{seed}{steps}\"]",
            "`no-such-interpreter` cannot be started",
        ),
        (
            "trainer.command=[\"./no-program\", \"{width}{batch_size}{learning_rate}{seed}{steps}\"]",
            "`./no-program` cannot be started",
        ),
        (
            "trainer.folder=\"nowhere\"",
            "nowhere: the command's working folder is not there",
        ),
    ];
    for (set, expected) in cases {
        let output = place.run(&["--set", set]);
        let told = errors(&output);
        assert_eq!(output.status.code(), Some(2), "{set}: {told}");
        assert_eq!(told.lines().count(), 1, "{told}");
        assert!(told.contains(expected), "{told}");
    }
    assert!(place.failures().is_empty());
}

/// A grid that has grown to where the command fails: there is no record there, and yet the runs
/// are asked for and counted.
#[test]
fn failures_at_values_that_the_grid_has_grown_to_are_told() {
    let place = Place::new(
        r#"
        [ "$b" -gt 64 ] && exit 1
        case $b in 8) trained 0.5;; 16) trained 0.6;; 32) trained 0.7;; 64) trained 0.8;; esac"#,
    );
    let options = [
        "--set",
        "search.batch_sizes=[8,16,32,64]",
        "--set",
        "search.extend=2",
        "--set",
        "task.training_examples=10000",
        "--set",
        "trainer.retries=0",
    ];
    let output = place.run(&options);
    let told = errors(&output);
    assert_eq!(output.status.code(), Some(1), "{told}");
    let last = told.lines().last().unwrap();
    assert!(last.contains("2 runs gave no outcome"), "{told}");
    let again = place.call(&["work", "out", "--quiet"]);
    assert_eq!(again.status.code(), Some(1), "{}", errors(&again));
    let status = place.status();
    assert_eq!(
        (&status["recorded"], &status["planned"]),
        (&json!(8), &json!(10))
    );
    assert_eq!(status["failed"]["runs"], 2);
    assert_eq!(status["failed"]["attempts"], 4);
}
