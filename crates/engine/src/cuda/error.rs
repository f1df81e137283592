//! What can go wrong with a GPU, in words that say what to do.

use crate::train::TrainError;
use cudarc::driver::DriverError;

/// Why a GPU cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CudaError {
    /// The driver's library is not on this machine.
    #[error(
        "no NVIDIA driver was found (libcuda is missing); install one, or train with `--device cpu`"
    )]
    NoDriver,
    /// It is, and does not start: it may be older than its libraries, or not be loaded.
    #[error(
        "the NVIDIA driver does not start: {}; see whether `nvidia-smi` works, or train with `--device cpu`", describe(.0)
    )]
    NotStarted(DriverError),
    /// There is a driver, and no such GPU.
    #[error("there is no GPU {ordinal}: the driver sees {count}; see `nvidia-smi -L`")]
    NoDevice {
        /// The one that was asked for.
        ordinal: usize,
        /// How many there are.
        count: usize,
    },
    /// Its instruction set lacks what the kernels need.
    #[error(
        "{name} has compute capability {major}.{minor}, the kernels need 8.0 (Ampere) or newer; train with `--device cpu`"
    )]
    TooOld {
        /// What the GPU is called.
        name: String,
        /// Compute capability.
        major: i32,
        /// Its second part.
        minor: i32,
    },
    /// The run-time compiler is not on this machine.
    #[error(
        "NVRTC, CUDA's run-time compiler, was not found; install the CUDA toolkit or `pip install nvidia-cuda-nvrtc`, and if need be name its folder in NOISESCALE_NVRTC"
    )]
    NoCompiler,
    /// Nor is it where the environment says.
    #[error("{} holds no libnvrtc that can be loaded; NOISESCALE_NVRTC names it", .folder.display())]
    NoCompilerThere {
        /// The folder that was named.
        folder: std::path::PathBuf,
    },
    /// A kernel does not compile: ours is wrong, or the compiler is too old.
    #[error("the kernel {kernel} does not compile with the NVRTC of this machine: {log}")]
    Compile {
        /// Which one.
        kernel: String,
        /// What the compiler says.
        log: String,
    },
    /// One run alone is too large.
    #[error(
        "one run of this network and batch size takes {needed} MiB, the GPU has {free} MiB free; use a smaller batch size or width, or `--device cpu`"
    )]
    TooLittleMemory {
        /// Of one run.
        needed: usize,
        /// Of the GPU, left for runs.
        free: usize,
    },
    /// Kernels count floats of a layer in 32 bits.
    #[error(
        "a layer of this network has {floats} weights, or activations of a batch, and GPUs train with 2³¹ − 1 at most; use a smaller width or batch size, or `--device cpu`"
    )]
    TooLargeLayer {
        /// How many there are.
        floats: usize,
    },
    /// The system gives no thread for a cohort.
    #[error(
        "the GPU's threads cannot be started: {0}; see `ulimit -u`, or train with `--device cpu`"
    )]
    Threads(#[from] std::io::Error),
    /// A graph without kernels, which no network has.
    #[error("the GPU's driver captured no kernels")]
    EmptyGraph,
    /// The driver refuses.
    #[error("the GPU's driver says: {}", describe(.0))]
    Driver(#[from] DriverError),
    /// The run itself cannot be trained.
    #[error(transparent)]
    Train(#[from] TrainError),
}

/// The driver's own words, without the structure around them.
fn describe(error: &DriverError) -> String {
    error
        .error_string()
        .map(|text| text.to_string_lossy().into_owned())
        .unwrap_or_else(|_| format!("{error:?}"))
}
