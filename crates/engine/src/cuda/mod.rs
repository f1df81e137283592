//! Training on NVIDIA GPUs: a whole cohort at once.
//!
//! Small networks starve a GPU, and a study trains the same network with many seeds and
//! learning rates. So every kernel has a leading replica axis, and a step of all runs is one
//! captured graph: draw the batches, forward, loss, backward with the update. Random streams
//! are the host's, so a run sees the same weights, batches and masks on every device.
//!
//! The kernels are the `.cu` files beside this one, compiled when they are first needed by NVRTC and
//! kept. Only the driver and NVRTC are loaded, when the program runs: none is needed to build it.

mod affine;
mod args;
mod blueprint;
mod cache;
mod cohort;
mod compiler;
mod data;
mod device;
mod emit;
mod error;
mod launch;
mod nvrtc;
mod plan;
mod plane;
mod product;
mod resident;
mod survey;
#[cfg(test)]
mod tests;
mod trainer;

pub use cohort::{Cohort, device_name};
pub use data::DeviceData;
pub use device::{Device, count};
pub use error::CudaError;
pub use launch::Launch;
pub use plan::CohortPlan;
pub use product::Precision;
pub use resident::Limits;
pub use survey::{Gpu, compiler_version, driver_version, gpus};
pub use trainer::Gpus;
