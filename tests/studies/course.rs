//! `noisescale course`: what shorter studies would have found.

use super::program::succeed;
use super::{run, study_folder};
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

/// The learning-rate search when it had been trained for as long as the other, and the batch-size search as it is.
#[test]
fn searches_meet_at_equal_times() {
    let dir = study_folder();
    let at = dir.path();
    let both = ["run", "small.toml", "--quiet", "--set=search.extend=0"];
    let whole = json(at, &[&both[..], &["--out", "both", "--json"]].concat());
    let equal = json(at, &["course", "both", "--against", "both", "--json"]);
    let searches = &whole["studies"][0]["searches"];
    let time = |search: usize, width: usize| {
        let found = &searches[search]["widths"][width];
        let at = &found["optimum"]["at"];
        let time = |end: &str| {
            let point = &found["points"][at[end].as_u64().unwrap() as usize];
            point["steps"].as_f64().unwrap() * point["learning_rate"].as_f64().unwrap()
        };
        (time("first") * time("last")).sqrt()
    };
    let all = equal.as_array().unwrap();
    assert_eq!(all.len(), 3);
    for (i, both) in all.iter().enumerate() {
        let (ratio, share) = (
            both["time"].as_f64().unwrap(),
            both["share"].as_f64().unwrap(),
        );
        assert!((ratio / (time(0, i) / time(1, i)) - 1.0).abs() < 1e-12);
        assert!((share - ratio.clamp(0.05, 1.0)).abs() <= 0.025 + 1e-12);
        let then = json(
            at,
            &["course", "both", "--shares", &share.to_string(), "--json"],
        );
        let optima = [
            &searches[0]["widths"][i]["optimum"],
            &then[0]["searches"][1]["widths"][i]["optimum"],
        ];
        for (side, optimum) in ["batch_size", "learning_rate"].into_iter().zip(optima) {
            let found = &both["agreement"][side];
            for part in ["estimate", "peak", "confidence"] {
                assert_eq!(found[part], optimum[part], "{side}, {part}");
            }
        }
    }
    let text = succeed(at, &["course", "both", "--against", "both"]);
    assert!(text.contains("learning-rate search: ḡ_opt"), "{text}");
}

#[test]
fn searches_of_other_networks_are_one_sentence() {
    let dir = study_folder();
    let at = dir.path();
    for (out, change) in [
        ("a", "search.kind=batch-size"),
        ("b", "family.scheme=\"standard\""),
    ] {
        succeed(
            at,
            &["prepare", "small.toml", "--out", out, "--set", change],
        );
    }
    for (other, said) in [
        ("a", "one must have a learning-rate search"),
        ("b", "differ in task"),
    ] {
        let output = run(at, &["course", "a", "--against", other]);
        assert_eq!(output.status.code(), Some(2));
        let errors = String::from_utf8(output.stderr).unwrap();
        assert_eq!(errors.lines().count(), 1, "{errors}");
        assert!(errors.contains(said), "{errors}");
    }
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
