//! A made-up trainer whose optimum is known: test accuracy peaks at ḡ = 5·w. The grid
//! grows, seeds are spent where they matter, the law found is the true one, and so is the
//! prediction for a width that was not trained.

use super::{Place, errors};
use serde_json::Value;

/// With N = 1000, m = 0.9, σ₀² = 2: ḡ = ε·1000/(0.1·B)/2. The noise follows the seed.
const SCRIPT: &str = r#"
awk -v w=$w -v b=$b -v lr=$lr -v seed=$seed -v steps=$steps 'BEGIN {
    # Numbers of its own: rand() is another one in every awk. The first few of near seeds are alike.
    state = 7919 * seed + 31 * b + 17 * w + int(1000 * lr)
    for (i = 0; i < 20; i++) { state = (16807 * state) % 2147483647; random[i] = state / 2147483647 }
    noise = 0; for (i = 8; i < 20; i++) noise += random[i] - 0.5
    distance = log(lr * 1000 / (0.1 * b) / 2 / (5 * w))
    peak = 0.9 - 0.02 * distance * distance + 0.002 * noise
    for (i = 1; i <= 10; i++) {
        accuracy = peak * (1 - exp(-2 * i))
        printf "{\"step\": %d, \"training_loss\": %.6f, ", int((i * steps + 9) / 10), 1 / i
        printf "\"test_accuracy\": %.6f, \"validation_accuracy\": %.6f}\n", accuracy, accuracy
    }
    printf "{\"outcome\": \"trained\", \"test_accuracy\": %.6f}\n", accuracy
}'
"#;

const STUDY: &str = r#"
title = "Known optimum"
seeds = 8
[trainer]
command = ["sh", "train.sh", "{width}", "{batch_size}", "{learning_rate}", "{seed}", "{steps}"]
concurrency = 4
[task]
name = "Made up"
training_examples = 1000
chance_accuracy = 0.1
[family]
name = "parabola"
widths = [8, 16, 32]
scheme = "ntk"
[optimizer]
momentum = 0.9
[search]
kind = "batch-size"
learning_rate = 1.0
batch_sizes = [48, 64, 96]
extend = 6
adaptive = true
[time]
epochs = 3
"#;

#[test]
fn the_law_of_a_command_is_found_and_predicts() {
    let place = Place::new(SCRIPT);
    place.write("study.toml", STUDY);
    let output = place.run(&[]);
    assert!(output.status.success(), "{}", errors(&output));
    let results: Value = serde_json::from_str(&place.read("out/results.json")).unwrap();
    let search = &results["studies"][0]["searches"][0];
    let mut scanned = Vec::new();
    for width in search["widths"].as_array().unwrap() {
        scanned.push(width["points"].as_array().unwrap().len());
        let optimum = &width["optimum"];
        assert_eq!(
            (&optimum["low_edge"], &optimum["high_edge"]),
            (&"bracketed".into(), &"bracketed".into()),
            "{width}"
        );
        // B = 1000·ε/w at the optimum, and the grid has values a factor √2 apart.
        let truth = 5.0 * width["width"].as_f64().unwrap();
        let found = optimum["estimate"]["value"].as_f64().unwrap();
        assert!((found / truth).ln().abs() < 0.5, "ḡ {found}, truly {truth}");
    }
    // B = 125 and 31 are beyond the grid, B = 63 is on it.
    assert!(
        scanned[0] > 3 && scanned[2] > 3,
        "grids grow where they must: {scanned:?}"
    );
    let law = &search["law"];
    let interval = &law["slope_confidence"]["interval"];
    let [low, high] = ["low", "high"].map(|end| interval[end].as_f64().unwrap());
    assert!(low <= 5.0 && 5.0 <= high, "a in [{low}, {high}], truly 5");
    let slope = law["proportion"]["slope"].as_f64().unwrap();
    assert!((slope - 5.0).abs() < 1.0, "a = {slope}, truly 5");
    let predicted = place.succeed(&["predict", "out", "--width", "64", "--json"]);
    let predicted: Value = serde_json::from_str(&predicted).unwrap();
    let interval = &predicted["noise"]["interval"];
    let [low, high] = ["low", "high"].map(|end| interval[end].as_f64().unwrap());
    assert!(
        low <= 320.0 && 320.0 <= high,
        "ḡ(64) in [{low}, {high}], truly 320"
    );
    // Fewer runs than eight seeds everywhere, and nothing missing.
    let status = place.status();
    assert_eq!(status["recorded"], status["planned"]);
    assert!(status["skipped"].as_u64() > Some(0), "{status}");
    let rows = place.succeed(&["export", "out", "--csv"]);
    assert_eq!(rows.lines().count(), place.records().len() + 1);
}
