//! Why there is no prediction, and what to do about it.

use crate::law::NoLaw;
use spec::{BatchSize, LearningRate, Width};

/// Why there is no prediction.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum PredictError {
    /// ḡ is not defined.
    #[error(
        "`{0}` uses batch norm, where the noise scale is not defined and no law holds; \
         run a search at that width"
    )]
    BatchNorm(String),
    /// The study has no search that gives a law.
    #[error(
        "`{0}` has neither a batch-size nor a learning-rate search; predict from a study that has one"
    )]
    NoSearch(String),
    /// The search gave no law.
    #[error("`{study}` gives no law: {reason}")]
    NoLaw {
        /// Name of the study.
        study: String,
        /// Why.
        reason: NoLaw,
    },
    /// The stability study is about other networks.
    #[error(
        "`{stability}` differs from `{study}` in task, family, scheme, batch norm, optimizer, weight scale \
         or regularizers, so its stability limit does not apply"
    )]
    OtherStability {
        /// Name of the study.
        study: String,
        /// Name of the stability study.
        stability: String,
    },
    /// It is of another kind.
    #[error("`{0}` is no stability study; give the folder of one, or leave it out")]
    NotStability(String),
    /// Some runs of a width fail at every rate.
    #[error(
        "at width {width} of `{stability}` some runs fail at every learning rate, so none is known to be safe; \
         scan smaller ones"
    )]
    NoSafeRate {
        /// Name of the stability study.
        stability: String,
        /// The width.
        width: Width,
    },
    /// No learning rate is known to train.
    #[error("`{0}` has no learning rate at which three quarters of the runs train")]
    NoStableRate(String),
    /// The fixed batch size exceeds the data.
    #[error("batch size {batch_size} exceeds the {examples} training examples of {task}")]
    BatchTooLarge {
        /// The batch size.
        batch_size: BatchSize,
        /// N.
        examples: u32,
        /// Name of the task.
        task: String,
    },
    /// Even B = 1 has too little noise at the fixed rate.
    #[error(
        "at learning rate {0} even batch size 1 has less noise than the law asks for; \
         raise the learning rate"
    )]
    RateTooSmall(LearningRate),
    /// A result outside the range of numbers.
    #[error("the law of `{0}` gives no usable learning rate at this width")]
    OutOfRange(String),
}
