//! Several processes on one folder: each run is trained once.

use super::{Place, errors};
use serde_json::{Value, json};
use std::process::{Child, Stdio};
use std::time::{SystemTime, UNIX_EPOCH};

/// A worker whose runs take as long as the pace says.
fn worker(place: &Place, pace: &str, options: &[&str]) -> Child {
    let mut command = place.command(&[&["work", "out", "--quiet"], options].concat());
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
    let slow = worker(&place, "slow", &[]);
    super::processes::wait_until("the slow one has a run", || {
        place.path("begun-slow").exists()
    });
    let fast = worker(&place, "fast", &[]);
    for child in [fast, slow] {
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", errors(&output));
    }
    assert_eq!(place.records().len(), 4);
    assert_eq!(place.read("calls").lines().count(), 4);
}

/// One process takes over a run that another still trains. The first to record it leaves the
/// run's folder to the other, whose failure afterwards is none: the run is there.
#[test]
fn a_run_that_two_processes_train_keeps_its_folder() {
    let place = Place::new(
        r#"
        echo "$PACE" >> calls
        if [ "$PACE" = first ]; then
            while ! [ -e "$folder/second" ]; do sleep 0.05; done
            trained 0.5
        else
            touch "$folder/second"
            while ! [ -e first-is-gone ]; do sleep 0.05; done
            [ -e "$folder/second" ] || touch lost
            exit 3
        fi"#,
    );
    let one = [
        "prepare",
        "study.toml",
        "--out",
        "out",
        "--seeds",
        "1",
        "--set",
        "search.batch_sizes=[4]",
    ];
    place.succeed(&one);
    let share = ["--shard", "1/1", "--patience", "0.1"];
    let calls = |count| place.read("calls").lines().count() == count;
    let first = worker(&place, "first", &share);
    super::processes::wait_until("the first has the run", || calls(1));
    let second = worker(&place, "second", &share);
    let output = first.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", errors(&output));
    place.write("first-is-gone", "");
    let output = second.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", errors(&output));
    assert_eq!(errors(&output), "");
    assert!(!place.path("lost").exists(), "the folder of a live run");
    assert!(calls(2), "{}", place.read("calls"));
    assert_eq!((place.records().len(), place.failures().len()), (1, 0));
    // What stayed goes when the folder is next run.
    place.succeed(&["work", "out", "--quiet"]);
    let scratch = std::fs::read_dir(place.path("out/scratch")).unwrap();
    assert_eq!(scratch.count(), 0);
}

/// Two ledgers in one folder, as after `cp`: what is there twice counts once, and is counted.
#[test]
fn runs_that_were_recorded_twice_are_told() {
    let place = Place::new("trained 0.5");
    assert!(place.run(&[]).status.success());
    let text = place.succeed(&["status", "out"]);
    assert!(!text.contains("recorded before"), "{text}");
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
        text.contains("4 further records belong to runs that were recorded before"),
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
        report.contains("4 records of runs that were recorded before"),
        "the report tells"
    );
}

/// A kill between a record and the tidying after it leaves the run's files. Those of runs that
/// are still to be trained, or that somebody trains, stay.
#[test]
fn what_recorded_runs_have_left_is_removed() {
    let place = Place::new("trained 0.5");
    assert!(place.run(&[]).status.success());
    let records = place.records();
    let run = |at: usize| records[at]["run"].as_str().unwrap().to_owned();
    let (recorded, claimed, missing) = (run(0), run(1), "ab".repeat(16));
    let left = |run: &str| {
        [
            format!("out/scratch/{run}/state"),
            format!("out/scratch/{run}.evaluations.jsonl"),
            format!("out/checkpoints/{run}.safetensors"),
        ]
    };
    for run in [&recorded, &claimed, &missing] {
        std::fs::create_dir_all(place.path(&format!("out/scratch/{run}"))).unwrap();
        for name in left(run) {
            place.write(&name, "left");
        }
    }
    place.write("out/scratch/notes", "of somebody's own");
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let header = json!({
        "noisescale_ledger": 1, "writer": "other", "host": "elsewhere", "pid": 1, "version": "0",
    });
    let claim = json!({"at_ms": since.as_millis() as u64, "claim": [claimed]});
    place.write("out/claims/other.jsonl", &format!("{header}\n{claim}\n"));
    place.succeed(&["work", "out", "--quiet"]);
    for (run, stays) in [(&recorded, false), (&claimed, true), (&missing, true)] {
        for name in left(run) {
            assert_eq!(place.path(&name).exists(), stays, "{name}");
        }
    }
    let folder = place.path(&format!("out/scratch/{recorded}"));
    assert!(!folder.exists(), "the folder itself");
    assert!(place.path("out/scratch/notes").exists());
}
