//! Synthetic studies of every kind, made from a known law.

#![allow(dead_code)] // each user takes a part of it

use analysis::resample::Random;
use analysis::{Findings, analyse};
use spec::{CurvePoint, Outcome, Point, Record, Study, points};
use std::path::Path;

/// A study with its records.
pub struct Sample {
    pub study: Study,
    pub records: Vec<Record>,
}

impl Sample {
    pub fn findings(&self) -> Findings {
        analyse(&self.study, &self.records)
    }
}

pub fn parse(name: &str, text: &str) -> Study {
    Study::parse(name, Path::new("sample.toml"), text, &[]).unwrap()
}

/// A study file in short.
pub fn study(name: &str, head: &str, family: &str, search: &str) -> Study {
    parse(
        name,
        &format!("{head}\n[family]\n{family}\n[search]\n{search}\n[time]\nepochs = 10\n"),
    )
}

/// Twenty evaluations that approach `accuracy` and stay.
fn curve(accuracy: f64, steps: u64, noise: &mut Random) -> Vec<CurvePoint> {
    let evaluation = |at: u64| {
        let rising = 1.0 - 0.4 * (-(at as f64)).exp();
        CurvePoint {
            step: steps * at / 20,
            training_loss: Some(2.0 * (-(at as f64) / 4.0).exp()),
            test_accuracy: (accuracy * rising).clamp(0.0, 1.0),
            validation_accuracy: (accuracy * rising + 0.002 * noise.normal()).clamp(0.0, 1.0),
        }
    };
    (1..=20).map(evaluation).collect()
}

/// A record of every run, in the order of the plan.
pub fn records(study: &Study, mut outcome: impl FnMut(&Point, u64) -> Outcome) -> Vec<Record> {
    let mut noise = Random::stream(7, 7);
    let mut all = Vec::new();
    for point in points(study) {
        for run in point.runs(study) {
            let outcome = outcome(&point, run.seed);
            let accuracy = outcome.trained().unwrap_or(0.1);
            let curve = curve(accuracy, run.steps, &mut noise);
            let seconds = 0.5 + run.steps as f64 * 1e-4;
            all.push(Record::new(
                &run,
                outcome,
                curve,
                seconds,
                "cpu avx2".into(),
            ));
        }
    }
    all
}

/// ln of ḡ (or of what stands for it) over its optimum a·w.
fn distance(study: &Study, point: &Point, a: f64) -> f64 {
    let run = point.run(study, 0);
    (run.normalized_noise().get() / (a * f64::from(point.width.get()))).ln()
}

/// Accuracy that rises with the width, peaks at ḡ = a·w and falls faster beyond it.
pub fn peaked(study: &Study, point: &Point, a: f64, noise: &mut Random) -> Outcome {
    let d = distance(study, point, a);
    let width = f64::from(point.width.get());
    let best = 0.985 - 0.05 / width.sqrt();
    let loss = if d > 0.0 {
        0.012 * d * d + 0.01 * d * d * d
    } else {
        0.006 * d * d
    };
    let accuracy = best - loss + 0.002 * noise.normal();
    if d > 3.2 {
        Outcome::Diverged { step: 3 }
    } else if accuracy < 0.2 {
        Outcome::Stalled {
            step: 40,
            test_accuracy: 0.11,
        }
    } else {
        Outcome::Trained {
            test_accuracy: accuracy.min(1.0),
        }
    }
}

fn made(study: Study, a: f64) -> Sample {
    let mut noise = Random::stream(1, 0);
    let records = records(&study, |point, _| peaked(&study, point, a, &mut noise));
    Sample { study, records }
}

const DIGITS: &str =
    "title = \"Digits, one hidden layer, NTK\"\nseeds = 20\n[task]\ndataset = \"digits\"";
const DIGITS_FAMILY: &str =
    "kind = \"mlp\"\nhidden = [1]\nwidths = [8, 12, 16, 24, 32, 48, 64]\nscheme = \"ntk\"";

/// Both searches, NTK, digits; all optima bracketed.
pub fn paired() -> Sample {
    let search = "kind = \"paired\"\nlearning_rate = 5.0\n\
        batch_sizes = [2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192]\n\
        batch_size = 16\nlearning_rates = [0.35, 0.5, 0.7, 1, 1.4, 2, 2.8, 4, 5.6, 8, 11, 16]";
    made(study("digits-paired", DIGITS, DIGITS_FAMILY, search), 60.0)
}

/// The same with a grid so short that some optima are not bracketed.
pub fn unbracketed() -> Sample {
    let search = "kind = \"batch-size\"\nlearning_rate = 5.0\n\
        batch_sizes = [8, 12, 16, 24, 32, 48]";
    made(study("digits-short", DIGITS, DIGITS_FAMILY, search), 60.0)
}

/// Standard scheme, CIFAR-10 WRN, with rates that differ by width.
pub fn standard() -> Sample {
    let study = parse(
        "cifar10-wrn-standard",
        "title = \"CIFAR-10, WRN, standard\"\nexperiment = \"B\"\nseeds = 10\n[task]\ndataset = \"cifar10\"\n\
         [family]\nkind = \"wrn\"\nwidths = [2, 3, 4, 6, 8]\nscheme = \"standard\"\n[search]\n\
         kind = \"batch-size\"\nlearning_rate = 0.0025\nbatch_sizes = [4, 6, 8, 12, 16, 24, 32, 48, 64]\n\
         [time]\nepochs = 540\nsteps = 160000\n[[by_width]]\nwidths = [6, 8]\nlearning_rate = 0.00125\nepochs = 1080\nsteps = 320000\n",
    );
    made(study, 36.0)
}

/// Standard and NTK networks of one family, for the comparison of schemes.
pub fn scheme(scheme: &str) -> Sample {
    let family =
        format!("kind = \"mlp\"\nhidden = [1]\nwidths = [8, 16, 32, 64]\nscheme = \"{scheme}\"");
    let head = format!("title = \"Digits, {scheme}\"\nseeds = 10\n[task]\ndataset = \"digits\"");
    let rate = if scheme == "ntk" { "5.0" } else { "0.2" };
    let search = format!(
        "kind = \"batch-size\"\nlearning_rate = {rate}\nbatch_sizes = [4, 6, 8, 12, 16, 24, 32, 48, 64, 96]"
    );
    made(
        study(&format!("digits-{scheme}"), &head, &family, &search),
        60.0,
    )
}

/// Batch norm: the best B falls as 1/w, the best ε grows as w.
pub fn batch_norm(scheme: &str) -> Sample {
    let family = format!(
        "kind = \"cnn\"\nwidths = [2, 3, 4, 6, 8]\nscheme = \"{scheme}\"\nbatch_norm = true"
    );
    let head = "title = \"MNIST, CNN, batch norm\"\nseeds = 10\n[task]\ndataset = \"mnist\"";
    let search = "kind = \"paired\"\nlearning_rate = 10\n\
        batch_sizes = [32, 48, 64, 96, 128, 192, 256, 384, 512, 768]\n\
        batch_size = 128\nlearning_rates = [2.5, 3.5, 5, 7, 10, 14, 20, 28, 40]";
    let study = study(
        &format!("mnist-cnn-bn-{scheme}"),
        head,
        family.as_str(),
        search,
    );
    let mut noise = Random::stream(3, 0);
    let records = records(&study, |point, _| {
        let w = f64::from(point.width.get());
        let load = point.learning_rate.get() / f64::from(point.batch_size.get()) / (w * 0.0195);
        let test_accuracy = 0.99 - 0.01 / w - 0.004 * load.ln().powi(2) + 0.0012 * noise.normal();
        Outcome::Trained { test_accuracy }
    });
    Sample { study, records }
}

/// A grid at one width.
pub fn grid() -> Sample {
    let family = "kind = \"mlp\"\nhidden = [1, 1, 1]\nwidths = [512]\nscheme = \"ntk\"";
    let head =
        "title = \"MNIST, 3LP, grid\"\nexperiment = \"F\"\nseeds = 10\n[task]\ndataset = \"mnist\"";
    let search = "kind = \"grid\"\nbatch_sizes = [12, 16, 24, 32, 48, 64, 96, 128, 192]\n\
        learning_rates = [2.5, 5, 10, 20]\nreference_learning_rate = 10";
    made(study("mnist-3lp-grid", head, family, search), 100.0)
}

/// Failure rates: the limit is constant in the NTK scheme and falls as 1/w otherwise.
pub fn stability(scheme: &str) -> Sample {
    let family =
        format!("kind = \"mlp\"\nhidden = [1, 1]\nwidths = [8, 16, 32, 64]\nscheme = \"{scheme}\"");
    let head = format!(
        "title = \"Digits, 2LP, stability, {scheme}\"\nseeds = 20\n[task]\ndataset = \"digits\""
    );
    let rates = "[0.25, 0.35, 0.5, 0.7, 1, 1.4, 2, 2.8, 4, 5.6, 8, 11, 16, 22, 32, 45, 64]";
    let search = format!("kind = \"stability\"\nbatch_size = 64\nlearning_rates = {rates}");
    let study = study(
        &format!("digits-stability-{scheme}"),
        &head,
        &family,
        &search,
    );
    let mut noise = Random::stream(5, 0);
    let records = records(&study, |point, _| {
        let w = f64::from(point.width.get());
        let limit = if scheme == "ntk" { 12.0 } else { 120.0 / w };
        let excess = (point.learning_rate.get() / limit).ln() + 0.35 * noise.normal();
        if excess > 0.2 {
            Outcome::Diverged { step: 2 }
        } else if excess > 0.0 {
            Outcome::Stalled {
                step: 30,
                test_accuracy: 0.1,
            }
        } else {
            Outcome::Trained {
                test_accuracy: 0.93,
            }
        }
    });
    Sample { study, records }
}

/// A ledger that is still growing: the wide networks have little or nothing.
pub fn incomplete() -> Sample {
    let mut sample = paired();
    sample.study.name = "digits-incomplete".into();
    sample.records.retain(|record| {
        let (w, b) = (record.width.get(), record.batch_size.get());
        match w {
            0..=16 => true,
            17..=24 => record.seed < 9 && b < 100,
            25..=32 => record.seed < 2 && b > 24,
            33..=48 => record.seed == 0 && b == 16,
            _ => false,
        }
    });
    sample
}

/// A study before its first run.
pub fn nothing() -> Sample {
    let mut sample = paired();
    sample.study.name = "digits-nothing".into();
    sample.records.clear();
    sample
}

/// One width, one seed.
pub fn single() -> Sample {
    let family = "kind = \"mlp\"\nhidden = [1]\nwidths = [32]\nscheme = \"ntk\"";
    let head = "title = \"One width\"\nseeds = 1\n[task]\ndataset = \"digits\"";
    let search = "kind = \"batch-size\"\nlearning_rate = 5.0\nbatch_sizes = [4, 8, 16, 32, 64]";
    made(study("digits-single", head, family, search), 60.0)
}

/// Every sample.
pub fn all() -> Vec<Sample> {
    vec![
        paired(),
        unbracketed(),
        standard(),
        scheme("standard"),
        scheme("ntk"),
        batch_norm("ntk"),
        batch_norm("standard"),
        grid(),
        stability("ntk"),
        stability("standard"),
        incomplete(),
        nothing(),
        single(),
    ]
}
