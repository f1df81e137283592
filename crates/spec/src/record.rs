//! What a run leaves behind: its outcome, its curve and what it cost.

use crate::quantity::{BatchSize, LearningRate, Width};
use crate::run::{Run, RunId};
use serde::{Deserialize, Serialize};

/// How a run ended. Divergence is a measurement.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "kebab-case")]
pub enum Outcome {
    /// It ended with a test accuracy above the stall accuracy.
    Trained {
        /// At the last step.
        test_accuracy: f64,
    },
    /// It was below the stall accuracy late in training, or at its end.
    Stalled {
        /// When that was seen.
        step: u64,
        /// What was seen.
        test_accuracy: f64,
    },
    /// Its loss or a weight was no longer a finite number.
    Diverged {
        /// The step at which that was seen.
        step: u64,
    },
}

impl Outcome {
    /// The accuracy of a trained run.
    pub fn trained(self) -> Option<f64> {
        match self {
            Self::Trained { test_accuracy } => Some(test_accuracy),
            Self::Stalled { .. } | Self::Diverged { .. } => None,
        }
    }
}

/// One evaluation.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct CurvePoint {
    /// After how many steps.
    pub step: u64,
    /// Mean loss of the steps since the previous evaluation; a user's own command
    /// need not tell it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub training_loss: Option<f64>,
    /// Share of the test set classified right.
    pub test_accuracy: f64,
    /// Share of the validation set classified right.
    pub validation_accuracy: f64,
}

/// How many evaluations at the end of a curve stand for late training.
pub const LATE_EVALUATIONS: usize = 5;

/// The record of one run: one line of the ledger.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// The run's id.
    pub run: RunId,
    /// w.
    pub width: Width,
    /// B.
    pub batch_size: BatchSize,
    /// ε.
    pub learning_rate: LearningRate,
    /// The seed.
    pub seed: u64,
    /// The steps it was to train for, T.
    pub steps: u64,
    /// How it ended.
    #[serde(flatten)]
    pub outcome: Outcome,
    /// Its evaluations.
    pub curve: Vec<CurvePoint>,
    /// Time spent training and evaluating.
    pub seconds: f64,
    /// What trained it, e.g. `cpu avx2`.
    pub device: String,
}

impl Record {
    /// The record of `run`.
    pub fn new(
        run: &Run,
        outcome: Outcome,
        curve: Vec<CurvePoint>,
        seconds: f64,
        device: String,
    ) -> Self {
        Self {
            run: run.id(),
            width: run.width,
            batch_size: run.batch_size,
            learning_rate: run.learning_rate,
            seed: run.seed,
            steps: run.steps,
            outcome,
            curve,
            seconds,
            device,
        }
    }

    /// Steps that were really trained.
    pub fn steps_trained(&self) -> u64 {
        match self.outcome {
            Outcome::Trained { .. } => self.steps,
            Outcome::Stalled { step, .. } | Outcome::Diverged { step } => step,
        }
    }

    /// Mean test accuracy of the last [`LATE_EVALUATIONS`].
    pub fn late_test_accuracy(&self) -> Option<f64> {
        let late = &self.curve[self.curve.len().saturating_sub(LATE_EVALUATIONS)..];
        let sum: f64 = late.iter().map(|point| point.test_accuracy).sum();
        (!late.is_empty()).then(|| sum / late.len() as f64)
    }

    /// Validation accuracy at the last evaluation.
    pub fn validation_accuracy(&self) -> Option<f64> {
        self.curve.last().map(|point| point.validation_accuracy)
    }
}
