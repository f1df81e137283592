//! Commands that give an outcome.

use super::{Place, errors};
use serde_json::{Value, json};

fn record(records: &[Value], batch_size: u64, seed: u64) -> &Value {
    let mut found = records
        .iter()
        .filter(|record| record["batch_size"] == batch_size && record["seed"] == seed);
    let record = found.next().expect("every run is recorded");
    assert!(found.next().is_none(), "every run is recorded once");
    record
}

#[test]
fn trained_stalled_and_diverged_are_measurements() {
    let place = Place::new(
        r#"
        echo "Loading…"
        case $b$seed in
          40) report 10 0.5; report $steps 0.75; trained 0.75 ;;
          41) report 10 0.1; report 20 0.1; report 30 0.15; touch went-on; sleep 60; trained 0.9 ;;
          80) echo '{"outcome": "diverged", "step": 7}' ;;
          81) trained 0.125 ;;
        esac"#,
    );
    let output = place.run(&[]);
    assert!(output.status.success(), "{}", errors(&output));
    let records = place.records();
    let trained = record(&records, 4, 0);
    assert_eq!(
        (&trained["outcome"], &trained["test_accuracy"]),
        (&json!("trained"), &json!(0.75))
    );
    assert_eq!(trained["device"], "command");
    let point = |step: u64, accuracy: f64| json!({"step": step, "test_accuracy": accuracy, "validation_accuracy": accuracy});
    assert_eq!(trained["curve"], json!([point(10, 0.5), point(100, 0.75)]));
    // Below 0.2 beyond a fifth of the steps: stopped there, long before its end.
    let stalled = record(&records, 4, 1);
    assert_eq!(
        (&stalled["outcome"], &stalled["step"]),
        (&json!("stalled"), &json!(30))
    );
    assert!(stalled["seconds"].as_f64() < Some(30.0), "{stalled}");
    let diverged = record(&records, 8, 0);
    assert_eq!(
        (&diverged["outcome"], &diverged["step"]),
        (&json!("diverged"), &json!(7))
    );
    // It ended at chance, whatever it calls that.
    let stalled = record(&records, 8, 1);
    assert_eq!(
        (&stalled["outcome"], &stalled["step"]),
        (&json!("stalled"), &json!(50))
    );
    let status = place.status();
    assert_eq!(
        (&status["recorded"], &status["failed"]["runs"]),
        (&json!(4), &json!(0))
    );
    assert!(place.path("out/report.html").exists());
    // The same again calls nothing.
    place.script("exit 1");
    let again = place.succeed(&["run", "study.toml", "--out", "out"]);
    assert!(again.contains("0 runs trained"), "{again}");
}

#[test]
fn a_loss_that_is_not_finite_is_divergence() {
    let place = Place::new(
        r#"
        report 5 0.5
        echo '{"step": 10, "training_loss": NaN, "test_accuracy": 0.1, "validation_accuracy": 0.1}'
        sleep 60"#,
    );
    let output = place.run(&["--seeds", "1"]);
    assert!(output.status.success(), "{}", errors(&output));
    for record in place.records() {
        assert_eq!(
            (&record["outcome"], &record["step"]),
            (&json!("diverged"), &json!(10))
        );
        assert_eq!(record["curve"].as_array().unwrap().len(), 1);
    }
}

/// A script that saves its state is cut off and goes on from there: one record with the
/// whole curve, and its folder is cleared away.
#[test]
fn a_script_goes_on_from_its_own_checkpoint() {
    let place = Place::new(
        r#"
        [ "$folder" = "$NOISESCALE_RUN_FOLDER" ] || exit 9
        if [ -e "$folder/saved" ]; then
            report 30 0.7; report $steps 0.8; trained 0.8
        else
            report 10 0.5; report 20 0.6; echo state > "$folder/saved"; exit 3
        fi"#,
    );
    let output = place.run(&["--set", "search.batch_sizes=[4]"]);
    assert!(output.status.success(), "{}", errors(&output));
    for record in place.records() {
        let steps: Vec<u64> = (record["curve"].as_array().unwrap().iter())
            .map(|point| point["step"].as_u64().unwrap())
            .collect();
        assert_eq!(steps, [10, 20, 30, 100]);
    }
    assert_eq!(place.failures().len(), 2);
    let left = std::fs::read_dir(place.path("out/scratch"))
        .unwrap()
        .count();
    assert_eq!(left, 0);
}

/// Spaces, quotes and braces arrive as they are, values inside larger words too.
#[test]
fn words_and_variables_arrive_unchanged() {
    let place = Place::new("");
    let inner = place.path("a folder/with spaces");
    std::fs::create_dir_all(&inner).unwrap();
    let script = r#"
        { for word in "$@"; do echo "[$word]"; done; echo "$GREETING|$SETTING|$NOISESCALE_SLOT|$NOISESCALE_RUN"; pwd; } > "seen $SEED"
        echo '{"outcome": "trained", "test_accuracy": 0.5}'"#;
    std::fs::write(inner.join("own script.sh"), script).unwrap();
    let command = r#"command = ["sh", "own script.sh", "--w={width}x{batch_size}", "{{\"lr\": {learning_rate}}}", "it's $HOME; {steps}", "", "{run_folder}", "{scheme}-{momentum}-{weight_scale}"]
environment = { SEED = "{seed}", GREETING = "two  words", SETTING = "w{width}" }"#;
    let start = super::STUDY.find("command =").unwrap();
    let end = super::STUDY.find("grace_seconds").unwrap();
    let study = format!(
        "{}{command}\n{}",
        &super::STUDY[..start],
        &super::STUDY[end..]
    );
    std::fs::write(inner.join("study of mine.toml"), study).unwrap();
    let args = [
        "run",
        "a folder/with spaces/study of mine.toml",
        "--out",
        "an out",
        "--quiet",
    ];
    place.succeed(&[&args[..], &["--set", "search.batch_sizes=[8]"]].concat());
    let seen = std::fs::read_to_string(inner.join("seen 1")).unwrap();
    let lines: Vec<&str> = seen.lines().collect();
    assert_eq!(
        lines[..4],
        ["[--w=2x8]", "[{\"lr\": 1}]", "[it's $HOME; 50]", "[]"]
    );
    assert!(lines[4].contains("/an out/scratch/"), "{seen}");
    assert_eq!(lines[5], "[ntk-0.9-2]");
    let (before, id) = lines[6].rsplit_once('|').unwrap();
    assert_eq!(before, "two  words|w2|0");
    assert!(lines[4].trim_end_matches(']').ends_with(id), "{seen}");
    assert!(lines[7].ends_with("/a folder/with spaces"), "{seen}");
    // The folder knows its study wherever one asks from.
    let status = place.succeed(&["status", "an out"]);
    assert!(status.contains("2 of 2 runs recorded"), "{status}");
}

#[test]
fn so_many_commands_run_at_once() {
    // Each waits until another one is there, in another slot.
    let place = Place::new(
        r#"
        mkdir -p there
        touch "there/$NOISESCALE_SLOT"
        for i in $(seq 200); do
            [ -e there/0 ] && [ -e there/1 ] && { trained 0.5; exit 0; }
            sleep 0.05
        done
        exit 1"#,
    );
    let output = place.run(&["--set", "trainer.concurrency=2"]);
    assert!(output.status.success(), "{}", errors(&output));
    let mut slots: Vec<_> = std::fs::read_dir(place.path("there"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    slots.sort();
    assert_eq!(slots, ["0", "1"]);
}

#[test]
fn check_train_and_trace_know_commands() {
    let place = Place::new(r#"echo "noise $seed" >&2; report $steps 0.5; trained 0.5"#);
    let text = place.succeed(&["check", "study.toml"]);
    assert!(
        text.contains("2 points × 2 seeds: 4 runs, 300 steps in all"),
        "{text}"
    );
    assert!(
        text.contains("\n  sh train.sh 2 4 1 0 100 RUN_FOLDER\n"),
        "{text}"
    );
    let plan: Value =
        serde_json::from_str(&place.succeed(&["check", "study.toml", "--json"])).unwrap();
    assert_eq!(
        (&plan["seconds"], &plan["command"][2]),
        (&Value::Null, &json!("2"))
    );
    let output = place.call(&[
        "train",
        "study.toml",
        "--width",
        "3",
        "--steps",
        "7",
        "--seeds",
        "2",
        "--json",
    ]);
    assert!(output.status.success(), "{}", errors(&output));
    assert_eq!(errors(&output), "noise 0\nnoise 1\n");
    let text = String::from_utf8(output.stdout).unwrap();
    let records: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(records.len(), 2);
    assert_eq!(
        (&records[1]["outcome"], &records[1]["curve"][0]["step"]),
        (&json!("trained"), &json!(7))
    );
    // One attempt, and its reason.
    place.script("echo attempt >> attempts; exit 4");
    let output = place.call(&["train", "study.toml", "--width", "3"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        errors(&output).contains("exit code 4"),
        "{}",
        errors(&output)
    );
    assert_eq!(place.read("attempts"), "attempt\n");
    for (args, expected) in [
        (
            &["trace", "study.toml", "--width", "3", "--out", "t"][..],
            "a trace needs the built-in engine",
        ),
        (
            &["train", "study.toml", "--width", "3", "--device", "cpu"],
            "remove --device",
        ),
    ] {
        let output = place.call(args);
        assert_eq!(output.status.code(), Some(2), "{}", errors(&output));
        assert!(errors(&output).contains(expected), "{}", errors(&output));
        assert_eq!(errors(&output).lines().count(), 1);
    }
}
