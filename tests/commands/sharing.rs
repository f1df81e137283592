//! Several processes on one folder: each run is trained once.

use super::{Place, errors};
use serde_json::{Value, json};
use std::process::{Child, Stdio};

/// A worker whose runs take as long as the pace says.
fn worker(place: &Place, pace: &str) -> Child {
    let mut command = place.command(&["work", "out", "--quiet"]);
    command.env("PACE", pace).stdout(Stdio::null());
    command.stderr(Stdio::piped()).spawn().unwrap()
}

/// The fast one brings everything but the run that the slow one has, and goes through its list
/// before that ends. What it has recorded is then nobody's claim, and still not to be trained.
#[test]
fn a_slow_and_a_fast_process_train_each_run_once() {
    let place = Place::new(
        r#"
        echo "$b $seed" >> calls
        touch "begun-$PACE"
        recorded() { cat out/records/*.jsonl | grep -c outcome; }
        if [ "$PACE" = slow ]; then
            while [ "$(recorded)" -lt 3 ]; do sleep 0.05; done
            sleep 0.5
        fi
        trained 0.5"#,
    );
    place.succeed(&["prepare", "study.toml", "--out", "out"]);
    let slow = worker(&place, "slow");
    super::processes::wait_until("the slow one has a run", || {
        place.path("begun-slow").exists()
    });
    let fast = worker(&place, "fast");
    for child in [fast, slow] {
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", errors(&output));
    }
    assert_eq!(place.records().len(), 4);
    assert_eq!(place.read("calls").lines().count(), 4);
}

/// Two ledgers in one folder, as after `cp`: what is there twice counts once, and is counted.
#[test]
fn runs_that_were_recorded_twice_are_told() {
    let place = Place::new("trained 0.5");
    assert!(place.run(&[]).status.success());
    let text = place.succeed(&["status", "out"]);
    assert!(!text.contains("more than once"), "{text}");
    let folder = place.path("out/records");
    let file = std::fs::read_dir(&folder).unwrap().next().unwrap().unwrap();
    std::fs::copy(file.path(), folder.join("copied.jsonl")).unwrap();
    let status = place.status();
    assert_eq!(
        (&status["recorded"], &status["duplicates"]),
        (&json!(4), &json!(4))
    );
    let text = place.succeed(&["status", "out"]);
    assert!(
        text.contains("4 records more are of runs that were recorded before"),
        "{text}"
    );
    let results: Value =
        serde_json::from_str(&place.succeed(&["report", "out", "--json"])).unwrap();
    let runs = &results["studies"][0]["runs"];
    assert_eq!(
        (&runs["recorded"], &runs["duplicates"]),
        (&json!(4), &json!(4)),
        "{runs}"
    );
    let report = place.read("out/report.html");
    assert!(
        report.contains("4 records of runs recorded before"),
        "the report tells"
    );
}
