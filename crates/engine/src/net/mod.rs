//! Networks made ready to train: a [`spec::Network`] compiled into operations
//! over planes of activations, each with its forward and backward side by side.
//!
//! There is no general autodiff. The operations are few, so sizes, memory and
//! the order of everything are known when a program is compiled, and a step
//! allocates nothing.

mod affine;
mod conv_data;
mod conv_weight;
mod elementwise;
mod geometry;
mod learner;
mod norm;
mod plane;
mod pool;
mod program;
mod slots;
mod weights;
mod workspace;

pub use learner::{Descent, Learner};
pub use plane::Plane;
#[cfg(feature = "cuda")]
pub(crate) use program::{Draft, DraftStep};
pub use program::{Program, Statistic};
pub use weights::{Place, Weights};
pub use workspace::{Mode, Model, Use, Workspace};
