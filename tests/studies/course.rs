//! `noisescale course`: what shorter studies would have found.

use super::{run, study_folder, succeed};
use serde_json::Value;
use std::path::Path;

const SEARCH: [&str; 5] = [
    "run",
    "small.toml",
    "--quiet",
    "--set=search.kind=batch-size",
    "--set=search.extend=0",
];

fn json(dir: &Path, args: &[&str]) -> Value {
    serde_json::from_str(&succeed(dir, args)).unwrap()
}

/// Best intervals with their accuracies, and the means of all points, of the first search.
fn found(findings: &Value) -> Vec<(Value, Value, Vec<Value>)> {
    let widths = findings["searches"][0]["widths"].as_array().unwrap();
    let means = |width: &Value| {
        let points = width["points"].as_array().unwrap();
        points
            .iter()
            .map(|point| point["accuracy"]["mean"].clone())
            .collect()
    };
    (widths.iter())
        .map(|width| {
            let optimum = &width["optimum"];
            (optimum["at"].clone(), optimum["peak"].clone(), means(width))
        })
        .collect()
}

#[test]
fn half_of_a_study_is_a_study_half_as_long() {
    let dir = study_folder();
    let at = dir.path();
    succeed(at, &[&SEARCH[..], &["--out", "long"]].concat());
    let short = ["--time-scale", "0.5", "--out", "short", "--json"];
    let short = json(at, &[&SEARCH[..], &short].concat());
    let stages = json(at, &["course", "long", "--shares", "0.5,1", "--json"]);
    let long = json(at, &["report", "long", "--json"]);
    assert_eq!(found(&stages[0]), found(&short["studies"][0]));
    assert_eq!(found(&stages[1]), found(&long["studies"][0]));
    assert_eq!(found(&stages[0]).len(), 3);
    assert_ne!(found(&stages[0]), found(&stages[1]));

    let text = succeed(at, &["course", "long", "--shares", "0.5,1"]);
    let rows: Vec<&str> = text.lines().skip(1).take(3).collect();
    assert!(
        rows[0].contains("w = 8") && rows[0].contains("w = 32"),
        "{text}"
    );
    assert!(rows[1].trim_start().starts_with("50 "), "{text}");
    assert!(rows[2].trim_start().starts_with("100 "), "{text}");
}

#[test]
fn shares_that_were_not_evaluated_are_one_sentence() {
    let dir = study_folder();
    let at = dir.path();
    succeed(at, &["prepare", "small.toml", "--out", "empty"]);
    let output = run(at, &["course", "empty", "--shares", "0.33"]);
    assert_eq!(output.status.code(), Some(2));
    let errors = String::from_utf8(output.stderr).unwrap();
    assert_eq!(errors.lines().count(), 1, "{errors}");
    assert!(errors.contains("multiple of 1/20"), "{errors}");
    // Nothing is recorded, which is no mistake.
    let text = succeed(at, &["course", "empty"]);
    assert!(text.contains("–"), "{text}");
}
