//! The plan of a study: its points and their runs, in a fixed order.

use crate::quantity::{BatchSize, LearningRate, Width};
use crate::run::{Run, RunId};
use crate::study::{GridSearch, LearningRateSearch, ReferenceTime, Search, Study};
use crate::time::steps_at_rate;
use serde::{Deserialize, Serialize};
use std::collections::HashSet;
use std::sync::Arc;

/// Which scan a point belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SearchKind {
    /// Batch sizes at a fixed learning rate.
    BatchSize,
    /// Learning rates at a fixed batch size.
    LearningRate,
    /// Every pair of both.
    Grid,
    /// How often runs diverge.
    Stability,
}

/// The runs that differ in their seed alone.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Point {
    /// The scan it belongs to.
    pub search: SearchKind,
    /// w.
    pub width: Width,
    /// B.
    pub batch_size: BatchSize,
    /// ε.
    pub learning_rate: LearningRate,
    /// T.
    pub steps: u64,
}

impl Point {
    /// The run of one seed.
    pub fn run(&self, study: &Study, seed: u64) -> Run {
        Run {
            setting: Arc::clone(&study.setting),
            width: self.width,
            batch_size: self.batch_size,
            learning_rate: self.learning_rate,
            seed,
            steps: self.steps,
        }
    }

    /// Its runs, by seed.
    pub fn runs<'a>(&'a self, study: &'a Study) -> impl Iterator<Item = Run> + 'a {
        (0..u64::from(study.seeds)).map(|seed| self.run(study, seed))
    }
}

/// Every point of the study, by search and width, ascending along the scanned axis.
pub fn points(study: &Study) -> Vec<Point> {
    let per_search: Vec<fn(&Study, Width) -> Vec<Point>> = match study.search {
        Search::BatchSize(_) => vec![batch_size_points],
        Search::LearningRate(_) => vec![learning_rate_points],
        Search::Paired(..) => vec![batch_size_points, learning_rate_points],
        Search::Grid(_) => vec![grid_points],
        Search::Stability(_) => vec![stability_points],
    };
    per_search
        .into_iter()
        .flat_map(|make| {
            study
                .widths
                .iter()
                .flat_map(move |width| make(study, *width))
        })
        .collect()
}

/// Every run of the study, by width, point, seed, each once: a point of a
/// batch-size search may be one of the learning-rate search too.
/// No clock, no I/O, no randomness.
pub fn plan(study: &Study) -> Vec<Run> {
    let mut seen: HashSet<RunId> = HashSet::new();
    points(study)
        .iter()
        .flat_map(|point| point.runs(study).collect::<Vec<_>>())
        .filter(|run| seen.insert(run.id()))
        .collect()
}

fn batch_size_points(study: &Study, width: Width) -> Vec<Point> {
    let (Search::BatchSize(search) | Search::Paired(search, _)) = &study.search else {
        return Vec::new();
    };
    let learning_rate = study.rate_at(width, search.learning_rate);
    let point = |batch_size: &BatchSize| Point {
        search: SearchKind::BatchSize,
        width,
        batch_size: *batch_size,
        learning_rate,
        steps: bounded_steps(study, width, *batch_size),
    };
    search.batch_sizes.iter().map(point).collect()
}

fn learning_rate_points(study: &Study, width: Width) -> Vec<Point> {
    let (Search::LearningRate(search) | Search::Paired(_, search)) = &study.search else {
        return Vec::new();
    };
    let LearningRateSearch {
        batch_size,
        learning_rates,
        reference,
    } = search;
    let from = reference_steps(study, width, *batch_size, *reference);
    let point = |learning_rate: &LearningRate| Point {
        search: SearchKind::LearningRate,
        width,
        batch_size: *batch_size,
        learning_rate: *learning_rate,
        steps: steps_at_rate(from, reference.learning_rate, *learning_rate),
    };
    learning_rates.iter().map(point).collect()
}

/// T = max(E_min·N/B, T₀·ε₀/ε).
fn grid_points(study: &Study, width: Width) -> Vec<Point> {
    let Search::Grid(GridSearch {
        batch_sizes,
        learning_rates,
        reference,
    }) = &study.search
    else {
        return Vec::new();
    };
    let point = |learning_rate: LearningRate, batch_size: BatchSize| {
        let by_epochs = bounded_steps(study, width, batch_size);
        let from = reference.steps.unwrap_or(by_epochs) as f64;
        let stretched = from * reference.learning_rate.get() / learning_rate.get();
        Point {
            search: SearchKind::Grid,
            width,
            batch_size,
            learning_rate,
            steps: by_epochs.max(stretched.ceil() as u64),
        }
    };
    learning_rates
        .iter()
        .flat_map(|rate| batch_sizes.iter().map(move |batch| (*rate, *batch)))
        .map(|(rate, batch)| point(rate, batch))
        .collect()
}

fn stability_points(study: &Study, width: Width) -> Vec<Point> {
    let Search::Stability(search) = &study.search else {
        return Vec::new();
    };
    let point = |learning_rate: &LearningRate| Point {
        search: SearchKind::Stability,
        width,
        batch_size: search.batch_size,
        learning_rate: *learning_rate,
        steps: bounded_steps(study, width, search.batch_size),
    };
    search.learning_rates.iter().map(point).collect()
}

fn bounded_steps(study: &Study, width: Width, batch: BatchSize) -> u64 {
    study
        .time_at(width)
        .steps(study.setting.training_examples(), batch)
}

fn reference_steps(study: &Study, width: Width, batch: BatchSize, time: ReferenceTime) -> u64 {
    time.steps
        .unwrap_or_else(|| bounded_steps(study, width, batch))
}
