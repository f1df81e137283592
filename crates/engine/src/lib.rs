//! The engine: data sets, random streams, layers with forward and backward,
//! CPU kernels, and the training of runs.

pub mod batch;
pub mod buffer;
pub mod checkpoint;
#[cfg(feature = "cuda")]
pub mod cuda;
pub mod data;
mod fit;
pub mod kernels;
pub mod net;
pub mod pool;
pub mod random;
pub mod reference;
pub mod threads;
pub mod trace;
pub mod train;
