//! Records to write and folders to write them in.
#![allow(dead_code)] // Each test file uses some of these.

use ledger::{Ledger, Moment};
use spec::{BatchSize, CurvePoint, LearningRate, Outcome, Record, RunId, Width};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, UNIX_EPOCH};

pub fn run_id(number: u64) -> RunId {
    RunId::try_from(format!("{number:032x}")).unwrap()
}

/// A record that is a function of its number, with a longer or shorter curve.
pub fn record(number: u64) -> Record {
    let point = |at: u64| CurvePoint {
        step: 100 * at,
        training_loss: Some(2.3 / (at + number) as f64),
        test_accuracy: 1.0 / 3.0 + at as f64 / 1e4,
        validation_accuracy: 0.1 + 0.2,
    };
    let test_accuracy = 0.9 + number as f64 / 1e7;
    Record {
        run: run_id(number),
        width: Width::new(16).unwrap(),
        batch_size: BatchSize::new(32).unwrap(),
        learning_rate: LearningRate::new(5.0).unwrap(),
        seed: number,
        steps: 5000,
        outcome: match number % 3 {
            0 => Outcome::Diverged { step: number },
            1 => Outcome::Trained { test_accuracy },
            _ => Outcome::Stalled {
                step: number,
                test_accuracy,
            },
        },
        curve: (1..=number * 7 % 50).map(point).collect(),
        seconds: 1.25,
        device: "cpu avx2".into(),
    }
}

/// A fixed time on the wall; the other clock goes on.
pub fn now() -> Moment {
    Moment {
        wall: UNIX_EPOCH + Duration::from_secs(1_800_000_000),
        steady: Instant::now(),
    }
}

/// A records file as someone else left it.
pub fn leave_file(dir: &Path, name: &str, lines: &[String]) -> PathBuf {
    let path = dir.join("records").join(format!("{name}.jsonl"));
    let header = format!(r#"{{"noisescale_ledger":1,"writer":"{name}","version":"0"}}"#);
    let mut text = header + "\n";
    for line in lines {
        text.push_str(line);
        text.push('\n');
    }
    std::fs::write(&path, text).unwrap();
    path
}

pub fn line(record: &Record) -> String {
    serde_json::to_string(record).unwrap()
}

pub fn numbers(ledger: &Ledger) -> Vec<u64> {
    ledger.records().map(|record| record.seed).collect()
}
