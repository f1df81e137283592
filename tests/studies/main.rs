//! Studies through the program: run, kill, resume, share, report, predict.

mod course;
#[cfg(unix)]
mod interruptions;
#[path = "../program/mod.rs"]
mod program;

use program::{noisescale, results, succeed};
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

const STUDY: &str = r#"
title = "Small"
seeds = 4
[task]
dataset = "digits"
[family]
kind = "mlp"
hidden = [1]
widths = [8, 16, 32]
scheme = "ntk"
[search]
kind = "paired"
learning_rate = 5.0
batch_sizes = [8, 16, 32, 64]
batch_size = 32
learning_rates = [2.5, 5.0, 10.0]
extend = 1
[time]
epochs = 8
"#;

fn run(dir: &Path, args: &[&str]) -> Output {
    noisescale(dir, args).output().unwrap()
}

fn study_folder() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("small.toml"), STUDY).unwrap();
    dir
}

#[test]
fn a_study_gives_a_law_a_report_and_a_prediction() {
    let dir = study_folder();
    let at = dir.path();
    let text = succeed(at, &["run", "small.toml", "--out", "out"]);
    assert!(text.contains("report.html"), "{text}");
    for file in ["out/report.html", "out/results.json", "out/study.toml"] {
        assert!(at.join(file).exists(), "{file}");
    }
    let figures = std::fs::read_dir(at.join("out/figures")).unwrap().count();
    assert!(figures >= 6, "{figures} figure files");
    // The same again trains nothing and says the same.
    let before = results(&at.join("out"));
    let again = succeed(at, &["run", "small.toml", "--out", "out"]);
    assert!(again.contains("0 runs trained"), "{again}");
    assert_eq!(results(&at.join("out")), before);
    let status: Value = serde_json::from_str(&succeed(at, &["status", "out", "--json"])).unwrap();
    assert_eq!(status["recorded"], status["planned"]);
    // One row per run.
    let rows = succeed(at, &["export", "out"]);
    assert_eq!(rows.lines().count(), before.len() + 1);
    // More seeds reuse every run.
    succeed(at, &["run", "small.toml", "--out", "out", "--seeds", "5"]);
    let more = results(&at.join("out"));
    assert!(
        before
            .iter()
            .all(|(run, result)| more.get(run) == Some(result))
    );
    assert!(more.len() > before.len());
}

/// Kills the program at odd moments until it has ended by itself; the ledger is
/// then that of a study that was never touched.
#[cfg(unix)]
#[test]
fn kills_lose_nothing() {
    let dir = study_folder();
    let at = dir.path();
    succeed(at, &["run", "small.toml", "--out", "whole", "--quiet"]);
    let expected = results(&at.join("whole"));
    let mut kills = 0;
    for attempt in 0u64.. {
        assert!(attempt < 200, "it never ends");
        let args = ["run", "small.toml", "--out", "killed", "--quiet"];
        let mut child = noisescale(at, &args)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        // Longer and longer, so that it gets through in the end.
        std::thread::sleep(Duration::from_millis(
            40 + 37 * (attempt % 11) + 15 * attempt,
        ));
        if child
            .try_wait()
            .unwrap()
            .is_some_and(|status| status.success())
        {
            break;
        }
        child.kill().unwrap();
        child.wait().unwrap();
        kills += 1;
    }
    assert!(kills > 0, "the study ended before it could be killed");
    assert_eq!(results(&at.join("killed")), expected);
}

#[test]
fn two_processes_share_a_study() {
    let dir = study_folder();
    let at = dir.path();
    succeed(at, &["run", "small.toml", "--out", "alone", "--quiet"]);
    let spawn = || {
        let args = [
            "run",
            "small.toml",
            "--out",
            "shared",
            "--quiet",
            "--threads",
            "1",
        ];
        noisescale(at, &args)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    };
    let children = [spawn(), spawn(), spawn()];
    for child in children {
        let output = child.wait_with_output().unwrap();
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
    assert_eq!(results(&at.join("shared")), results(&at.join("alone")));
}

/// A full disk stops the study with a sentence; what was recorded stays, and with
/// room it goes on to the same results. A limit on the size of a file stands for the
/// full disk: writing beyond it fails in the same place.
#[cfg(unix)]
#[test]
fn a_full_disk_loses_nothing() {
    let dir = study_folder();
    let at = dir.path();
    succeed(at, &["run", "small.toml", "--out", "roomy", "--quiet"]);
    let script = "trap '' XFSZ; ulimit -f 16; exec \"$0\" run small.toml --out full --quiet";
    let output = Command::new("bash")
        .args(["-c", script, env!("CARGO_BIN_EXE_noisescale")])
        .current_dir(at)
        .env("CUDA_VISIBLE_DEVICES", "")
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{errors}");
    assert_eq!(errors.lines().count(), 1, "{errors}");
    assert!(errors.contains("records"), "{errors}");
    let (all, kept) = (results(&at.join("roomy")), results(&at.join("full")));
    assert!(!kept.is_empty() && kept.len() < all.len(), "{}", kept.len());
    succeed(at, &["run", "small.toml", "--out", "full", "--quiet"]);
    assert_eq!(results(&at.join("full")), all);
}

#[test]
fn a_folder_that_cannot_be_made_is_one_sentence() {
    let dir = study_folder();
    let at = dir.path();
    std::fs::write(at.join("file"), "").unwrap();
    let output = run(at, &["run", "small.toml", "--out", "file/out"]);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{errors}");
    assert_eq!(errors.lines().count(), 1, "{errors}");
    assert!(errors.contains("file/out"), "{errors}");
}

#[test]
fn adaptive_seeds_cost_less() {
    let dir = study_folder();
    let at = dir.path();
    let options = ["run", "small.toml", "--quiet", "--seeds", "12", "--out"];
    succeed(at, &[&options[..], &["full"]].concat());
    succeed(at, &[&options[..], &["adaptive", "--adaptive"]].concat());
    let (full, adaptive) = (results(&at.join("full")), results(&at.join("adaptive")));
    assert!(
        adaptive.len() < full.len(),
        "{} of {}",
        adaptive.len(),
        full.len()
    );
    // What the rule does without is not missing.
    let status = succeed(at, &["status", "adaptive", "--json"]);
    let status: Value = serde_json::from_str(&status).unwrap();
    assert_eq!(status["recorded"], status["planned"]);
    assert!(status["skipped"].as_u64() > Some(0), "{status}");
}

#[test]
fn mistakes_are_one_sentence_and_exit_2() {
    let dir = study_folder();
    let at = dir.path();
    std::fs::write(at.join("typo.toml"), STUDY.replace("scheme", "sceme")).unwrap();
    let cases: [(&[&str], &str); 6] = [
        (
            &["run", "typo.toml"],
            "typo.toml:10: unknown key `sceme`; did you mean `scheme`?",
        ),
        (&["run", "quickstrat"], "did you mean `quickstart`?"),
        (
            &["check", "small.toml", "--set", "seeds=0"],
            "0 repetitions measure nothing",
        ),
        (&["status", "nowhere"], "contains no study"),
        (
            &[
                "train",
                "small.toml",
                "--width",
                "8",
                "--batch-size",
                "5000",
            ],
            "exceeds the 1197",
        ),
        (&["report", "small.toml"], "contains no study"),
    ];
    for (args, expected) in cases {
        let output = run(at, args);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {errors}");
        assert!(errors.contains(expected), "{args:?}: {errors}");
        assert_eq!(errors.trim_end().lines().count(), 1, "{errors}");
    }
}

#[test]
fn train_and_trace_tell_what_happened() {
    let dir = study_folder();
    let at = dir.path();
    let args = [
        "train",
        "small.toml",
        "--width",
        "16",
        "--epochs",
        "5",
        "--seeds",
        "2",
        "--json",
    ];
    let records: Vec<Value> = succeed(at, &args)
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(records.len(), 2);
    for record in &records {
        assert_eq!(record["outcome"], "trained");
        assert!(record["test_accuracy"].as_f64().unwrap() > 0.5);
        assert!(record["steps_per_second"].as_f64().unwrap() > 0.0);
        assert_eq!(record["curve"].as_array().unwrap().len(), 20);
    }
    succeed(
        at,
        &[
            "trace",
            "small.toml",
            "--width",
            "8",
            "--steps",
            "3",
            "--out",
            "t.safetensors",
        ],
    );
    let bytes = std::fs::read(at.join("t.safetensors")).unwrap();
    let length = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    let header: Value = serde_json::from_slice(&bytes[8..8 + length]).unwrap();
    assert_eq!(
        header["inputs"]["shape"],
        serde_json::json!([3, 32, 1, 8, 8])
    );
    assert_eq!(
        header["init.dense1.weight"]["shape"],
        serde_json::json!([8, 64])
    );
    assert_eq!(header["__metadata__"]["format"], "noisescale trace 1");
}

#[test]
fn lists_and_plans() {
    let dir = study_folder();
    let plan: Value =
        serde_json::from_str(&succeed(dir.path(), &["check", "small.toml", "--json"])).unwrap();
    // 3 widths × (4 batch sizes + 3 rates) × 4 seeds, less what both searches share.
    assert_eq!(
        (plan["points"].as_u64(), plan["runs"].as_u64()),
        (Some(21), Some(72))
    );
    let text = succeed(dir.path(), &["check", "small.toml"]);
    assert!(text.contains("21 points × 4 seeds: 72 runs"), "{text}");
}

/// Learns the law from three widths and meets the next one, which it has not seen.
#[test]
fn the_law_predicts_a_held_out_width() {
    let dir = study_folder();
    let at = dir.path();
    let search = [
        "--set",
        "search.kind=batch-size",
        "--set",
        "search.batch_sizes=[6,8,12,16,24,32,48,64,96]",
        "--set",
        "search.extend=3",
        "--set",
        "time.epochs=40",
        "--seeds",
        "8",
        "--quiet",
    ];
    succeed(
        at,
        &[
            &[
                "run",
                "small.toml",
                "--widths",
                "16,24,32",
                "--out",
                "narrow",
            ],
            &search[..],
        ]
        .concat(),
    );
    succeed(
        at,
        &[
            &["run", "small.toml", "--widths", "64", "--out", "wide"],
            &search[..],
        ]
        .concat(),
    );
    let predicted: Value = serde_json::from_str(&succeed(
        at,
        &["predict", "narrow", "--width", "64", "--json"],
    ))
    .unwrap();
    assert_eq!(predicted["reach"], "extrapolates");
    let text = std::fs::read_to_string(at.join("wide/results.json")).unwrap();
    let results: Value = serde_json::from_str(&text).unwrap();
    let optimum = &results["studies"][0]["searches"][0]["widths"][0]["optimum"];
    let interval = |of: &Value| {
        let end = |name: &str| of["interval"][name].as_f64().unwrap();
        (end("low"), end("high"))
    };
    let (low, high) = interval(&predicted["noise"]);
    let (measured_low, measured_high) = interval(&optimum["confidence"]);
    assert!(
        low <= measured_high && measured_low <= high,
        "predicted {low} to {high}, measured {measured_low} to {measured_high}"
    );
}
