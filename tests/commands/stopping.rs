//! What a stop leaves of a run: the command saves its work, and what it has said by its end counts.

use super::processes::{signal, spawn, wait_until};
use super::{Place, errors};
use serde_json::json;
use std::process::{Output, Stdio};

/// One run, and more time to end in than any test needs.
const ONE: [&str; 6] = [
    "--set",
    "search.batch_sizes=[4]",
    "--seeds",
    "1",
    "--set",
    "trainer.grace_seconds=600",
];

/// Runs the study until the script has made this file, then interrupts.
fn interrupted(place: &Place, file: &str) -> Output {
    let child = spawn(place, &ONE);
    wait_until(file, || place.path(file).exists());
    signal("-INT", &child);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", errors(&output));
    output
}

/// Begins a process that takes its time to save, once the script that started it is gone.
fn slow_saver(place: &Place) {
    place.write(
        "inner.sh",
        r#"
        trap '
            while kill -0 $PPID 2> /dev/null; do sleep 0.05; done
            sleep 0.5
            echo state > "$1/state"
            exit 1' TERM
        touch started
        while :; do sleep 0.05; done"#,
    );
}

/// A shell dies of the request to end; the process that it waits for has the grace period.
#[test]
fn what_a_wrapper_has_started_saves_its_state() {
    let place = Place::new(
        r#"
        [ -e "$folder/state" ] && { trained 0.5; exit; }
        sh inner.sh "$folder"
        exit $?"#,
    );
    slow_saver(&place);
    interrupted(&place, "started");
    assert!(place.failures().is_empty() && place.records().is_empty());
    std::fs::remove_file(place.path("inner.sh")).unwrap();
    let output = place.run(&ONE);
    assert!(output.status.success(), "{}", errors(&output));
    assert_eq!(place.records().len(), 1);
}

/// The same where the shell has crashed by itself: the next attempt goes on from what was saved.
#[test]
fn what_a_crashed_wrapper_has_started_saves_its_state() {
    let place = Place::new(
        r#"
        [ -e "$folder/state" ] && { trained 0.5; exit; }
        sh inner.sh "$folder" &
        while ! [ -e started ]; do sleep 0.05; done
        exit 3"#,
    );
    slow_saver(&place);
    let output = place.run(&[&ONE[..], &["--set", "trainer.retries=1"]].concat());
    assert!(output.status.success(), "{}", errors(&output));
    assert_eq!((place.failures().len(), place.records().len()), (1, 1));
}

/// Told to end, a script reports what it has trained meanwhile, and does not train that again.
#[test]
fn evaluations_after_a_stop_are_kept() {
    let place = Place::new(
        r#"
        [ -e "$folder/state" ] && { report 40 0.7; trained 0.7; exit; }
        trap 'stop=1' TERM
        report 10 0.5
        touch started
        until [ "$stop" ]; do sleep 0.05; done
        report 20 0.55
        sleep 0.2
        report 30 0.6
        echo state > "$folder/state""#,
    );
    interrupted(&place, "started");
    assert!(place.failures().is_empty() && place.records().is_empty());
    let output = place.run(&ONE);
    assert!(output.status.success(), "{}", errors(&output));
    let records = place.records();
    let curve = records[0]["curve"].as_array().unwrap();
    let steps: Vec<_> = curve.iter().map(|point| &point["step"]).collect();
    assert_eq!(steps, [&json!(10), &json!(20), &json!(30), &json!(40)]);
}

/// The stop finds a script that has told its outcome and not ended, or one that does both in its
/// own last moment.
#[test]
fn an_outcome_counts_though_a_stop_comes_before_the_end() {
    for script in [
        "trained 0.5; touch told; while :; do sleep 0.05; done",
        "trap 'trained 0.5; exit 1' TERM; touch told; while :; do sleep 0.05; done",
    ] {
        let place = Place::new(script);
        let output = interrupted(&place, "told");
        let errors = errors(&output);
        assert!(errors.contains("stopped; 1 run recorded"), "{errors}");
        assert_eq!(place.records()[0]["test_accuracy"], 0.5);
    }
    // The signal reaches the script first.
    let place = Place::new("trained 0.5; kill -TERM $PPID; exit 143");
    let output = place.run(&ONE);
    assert_eq!(output.status.code(), Some(130), "{}", errors(&output));
    assert_eq!((place.records().len(), place.failures().len()), (1, 0));
}

/// `train` keeps nothing, and a stop leaves nothing: the script is asked to end, its folder goes.
#[test]
fn a_trial_that_is_stopped_leaves_nothing() {
    let place = Place::new(
        r#"
        echo "$seed" >> calls
        [ "$seed" = 0 ] && { trained 0.5; exit; }
        trap 'touch asked; exit 0' TERM
        echo state > "$folder/state"
        touch started
        while :; do sleep 0.05; done"#,
    );
    std::fs::create_dir(place.path("tmp")).unwrap();
    let mut command = place.command(&["train", "study.toml", "--width", "2", "--seeds", "3"]);
    command.args(["--set", "trainer.grace_seconds=600", "--json"]);
    command.env("TMPDIR", place.path("tmp"));
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().unwrap();
    wait_until("the second run", || place.path("started").exists());
    signal("-INT", &child);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", errors(&output));
    let errors = errors(&output);
    assert!(errors.contains("stopped after 1 of 3 runs"), "{errors}");
    let records = String::from_utf8(output.stdout).unwrap();
    assert_eq!(records.lines().count(), 1, "{records}");
    assert!(place.path("asked").exists());
    assert_eq!(place.read("calls"), "0\n1\n");
    let left = std::fs::read_dir(place.path("tmp")).unwrap();
    assert_eq!(left.count(), 0);
}
