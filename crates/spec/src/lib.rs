//! What a study is: quantities with their units, families of networks, study
//! files, the plan of runs that follows from one, and the records that runs leave.
//!
//! Nothing here trains, reads a clock or draws a random number. The words are
//! those of the paper *The Effect of Network Width on Stochastic Gradient
//! Descent and Generalization* (Park, Sohl-Dickstein, Le, Smith; ICML 2019).

pub mod command;
pub mod failure;
pub mod family;
pub mod network;
pub mod plan;
pub mod quantity;
pub mod record;
pub mod run;
pub mod scheme;
pub mod study;
pub mod task;
pub mod template;
pub mod time;

pub use command::{CommandFamily, CommandRules};
pub use failure::{FailedAttempt, Failure, FailureKind, Fault};
pub use family::{Family, FamilyError};
pub use network::{Layer, Network, Parameter, Shape};
pub use plan::{Point, SearchKind, plan, points};
pub use quantity::{
    BatchSize, InvalidQuantity, LearningRate, Momentum, NoiseScale, NormalizedLearningRate,
    NormalizedNoiseScale, WeightScale, Width,
};
pub use record::{CurvePoint, LATE_EVALUATIONS, Outcome, Record};
pub use run::{Augmentation, Optimizer, Regularizers, Run, RunId, Setting, UpdateRule};
pub use scheme::Scheme;
pub use study::{Override, Search, Spending, Study, StudyError};
pub use task::{DatasetName, Task};
pub use template::{Call, Place, Template};
pub use time::{Evaluation, TimeBounds};
