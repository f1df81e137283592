//! Synthetic studies: records made from a known law, for the tests of this folder.
#![allow(dead_code)] // each test file uses a part of it

use analysis::resample::Random;
use spec::{CurvePoint, Outcome, Point, Record, Study, points};
use std::path::Path;

/// A digits study of an MLP with these lines as its `[search]` table.
pub fn study(scheme: &str, widths: &[u32], seeds: u32, search: &str) -> Study {
    let text = format!(
        "seeds = {seeds}\n[task]\ndataset = \"digits\"\n[family]\nkind = \"mlp\"\nhidden = [1]\n\
         widths = {widths:?}\nscheme = \"{scheme}\"\n[search]\n{search}\n[time]\nepochs = 10\n"
    );
    parse(&text)
}

pub fn parse(text: &str) -> Study {
    Study::parse("synthetic", Path::new("synthetic.toml"), text, &[]).unwrap()
}

/// A batch-size search at ε = 5 over 2, 3, 4, 6, … up to `largest`.
pub fn batch_search(largest: u32) -> String {
    let sizes: Vec<u32> = (1..16)
        .flat_map(|k| [1 << k, 3 << (k - 1)])
        .filter(|size| *size <= largest)
        .collect();
    format!("kind = \"batch-size\"\nlearning_rate = 5.0\nbatch_sizes = {sizes:?}")
}

/// A flat curve of six evaluations.
pub fn flat_curve(accuracy: f64) -> Vec<CurvePoint> {
    let evaluation = |at: u64| CurvePoint {
        step: 10 * at,
        training_loss: Some(0.1),
        test_accuracy: accuracy,
        validation_accuracy: accuracy,
    };
    (1..=6).map(evaluation).collect()
}

/// A record of every run of some points.
pub fn records_of(
    study: &Study,
    points: &[Point],
    mut outcome: impl FnMut(&Point, u64) -> Outcome,
) -> Vec<Record> {
    let mut records = Vec::new();
    for point in points {
        for run in point.runs(study) {
            let outcome = outcome(point, run.seed);
            let accuracy = outcome.trained().unwrap_or(0.1);
            let curve = flat_curve(accuracy);
            records.push(Record::new(&run, outcome, curve, 1.0, "none".into()));
        }
    }
    records
}

/// A record of every run of a study.
pub fn records(study: &Study, outcome: impl FnMut(&Point, u64) -> Outcome) -> Vec<Record> {
    records_of(study, &points(study), outcome)
}

pub fn trained(test_accuracy: f64) -> Outcome {
    Outcome::Trained { test_accuracy }
}

/// ḡ of a point.
pub fn noise_of(study: &Study, point: &Point) -> f64 {
    point.run(study, 0).normalized_noise().get()
}

/// The shape of an accuracy curve about its peak.
#[derive(Debug, Clone, Copy)]
pub enum Peak {
    /// A parabola in ḡ/(a·w).
    Linear,
    /// A parabola in ln ḡ, and so flat that the best interval holds several points.
    Logarithmic,
}

/// Accuracy that peaks at ḡ = a·w, with seeds scattered by 0.002.
pub fn peaked(study: &Study, a: f64, peak: Peak, noise: &mut Random, point: &Point) -> f64 {
    let expected = a * f64::from(point.width.get());
    let ratio = noise_of(study, point) / expected;
    let loss = match peak {
        Peak::Linear => 0.05 * (ratio - 1.0).powi(2),
        Peak::Logarithmic => 0.003 * ratio.ln().powi(2),
    };
    (0.97 - loss + 0.002 * noise.normal()).clamp(0.3, 1.0)
}
