//! What was found at one point: where it is, how its runs ended, how accurate they are.

use crate::late::Late;
use crate::measure::{Place, normalized_noise, normalized_rate};
use crate::observation::Observed;
use crate::sample::{Sample, Tally, trained_accuracy};
use serde::Serialize;
use spec::{BatchSize, LearningRate, NormalizedLearningRate, NormalizedNoiseScale, Setting, Width};

/// One point with its statistics.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PointFindings {
    /// w.
    pub width: Width,
    /// B.
    pub batch_size: BatchSize,
    /// ε, in \[weight\]²/\[loss\].
    pub learning_rate: LearningRate,
    /// ḡ, in 1/\[loss\]; `None` with batch norm, where it is not defined.
    pub normalized_noise: Option<NormalizedNoiseScale>,
    /// ε̄, in 1/\[loss\].
    pub normalized_learning_rate: NormalizedLearningRate,
    /// T.
    pub steps: u64,
    /// How its runs ended.
    pub runs: Tally,
    /// Test accuracy at the last step, over the trained runs.
    pub accuracy: Option<Sample>,
    /// Mean test accuracy of the last five evaluations, over the trained runs.
    pub late_accuracy: Option<Sample>,
    /// Whether validation accuracy has settled.
    pub late: Late,
    /// Fewer than 75 % of the planned runs trained.
    pub few_trained: bool,
    /// Training time of all recorded runs together, in seconds.
    pub seconds: f64,
}

impl PointFindings {
    /// The statistics of a point.
    pub fn of(setting: &Setting, observed: &Observed<'_>) -> Self {
        let place = observed.place();
        let runs = observed.tally();
        let accuracies: Vec<f64> = observed.accuracies().into_iter().flatten().collect();
        let late: Vec<f64> = observed
            .records()
            .filter(|record| trained_accuracy(record).is_some())
            .filter_map(|record| record.late_test_accuracy())
            .filter(|accuracy| accuracy.is_finite())
            .collect();
        Self {
            width: place.width,
            batch_size: place.batch_size,
            learning_rate: place.learning_rate,
            normalized_noise: (!setting.has_batch_norm()).then(|| normalized_noise(setting, place)),
            normalized_learning_rate: normalized_rate(setting, place),
            steps: observed.point.steps,
            runs,
            accuracy: Sample::of(&accuracies),
            late_accuracy: Sample::of(&late),
            late: Late::of(observed.records()),
            few_trained: runs.few_trained(),
            // An empty sum of floats is −0.
            seconds: observed
                .records()
                .fold(0.0, |sum, record| sum + record.seconds),
        }
    }

    /// Where it is.
    pub fn place(&self) -> Place {
        Place {
            width: self.width,
            batch_size: self.batch_size,
            learning_rate: self.learning_rate,
        }
    }
}
