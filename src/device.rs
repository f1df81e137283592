//! What trains runs: the engine on the processor or on NVIDIA GPUs, or a study's own command.

#[cfg(unix)]
use crate::command::CommandTrainer;
use crate::command::Desk;
use crate::failure::Mistake;
use crate::studies;
use crate::train::cores;
use anyhow::Result;
#[cfg(feature = "cuda")]
use engine::cuda::CudaError;
use engine::data::Dataset;
use engine::kernels::Isa;
use engine::pool::Pool;
use spec::Study;
use std::fmt;
use std::str::FromStr;

/// The device that was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Choice {
    /// GPUs where they can be used, else the processor.
    Auto,
    /// The processor.
    Cpu,
    /// One GPU, or all.
    Cuda(Option<usize>),
}

impl FromStr for Choice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match (text, text.strip_prefix("cuda:").map(str::parse)) {
            ("auto", _) => Ok(Self::Auto),
            ("cpu", _) => Ok(Self::Cpu),
            ("cuda", _) => Ok(Self::Cuda(None)),
            (_, Some(Ok(ordinal))) => Ok(Self::Cuda(Some(ordinal))),
            _ => Err("expected auto, cpu, cuda or cuda:N".into()),
        }
    }
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Cpu => f.write_str("cpu"),
            Self::Cuda(None) => f.write_str("cuda"),
            Self::Cuda(Some(ordinal)) => write!(f, "cuda:{ordinal}"),
        }
    }
}

/// Precision of matrix products on GPUs.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum, serde::Serialize, serde::Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum Precision {
    /// As exact as float32 arithmetic.
    Fp32,
    /// Factors rounded to TF32 (10-bit mantissa); sums in float32.
    Tf32,
}

/// The part of a command line that names a device.
#[derive(Debug, Clone, Copy, clap::Args)]
pub struct DeviceArgs {
    /// What to train on: auto, cpu, cuda (all GPUs) or cuda:N
    #[arg(long, value_name = "DEVICE", default_value_t = Choice::Auto)]
    pub device: Choice,
    /// Precision of matrix products on GPUs
    #[arg(long, value_enum, default_value_t = Precision::Tf32)]
    pub precision: Precision,
    /// Runs trained at once on the processor [default: one per core]
    #[arg(long, value_name = "N", value_parser = crate::values::threads, allow_negative_numbers = true)]
    pub threads: Option<usize>,
}

/// What trains a study's runs, with all it needs.
pub enum Trainer {
    /// The engine, with its data.
    Engine(Device, Dataset),
    /// The study's own command.
    #[cfg(unix)]
    Command(CommandTrainer),
}

/// A device of the engine.
pub enum Device {
    /// The processor.
    Cpu(Pool),
    /// GPUs.
    #[cfg(feature = "cuda")]
    Cuda(engine::cuda::Gpus),
}

impl DeviceArgs {
    /// Opens what trains a study.
    pub fn open(&self, study: &Study) -> Result<Trainer> {
        if study.setting.command().is_some() {
            return self.command(study);
        }
        let data = studies::data(study)?;
        Ok(Trainer::Engine(self.device()?, data))
    }

    /// The study's own command. `--device` is for the engine and is refused here.
    fn command(&self, study: &Study) -> Result<Trainer> {
        if self.device != Choice::Auto {
            let text = "the study's own command decides what it trains on; remove --device";
            return Err(Mistake(text.into()).into());
        }
        #[cfg(unix)]
        if let Some(trainer) = CommandTrainer::of(study, self.threads)? {
            return Ok(Trainer::Command(trainer));
        }
        let text = format!("{}: commands can train on Unix systems only", study.name);
        Err(Mistake(text).into())
    }

    fn device(&self) -> Result<Device> {
        let cpu = Device::Cpu(Pool {
            isa: Isa::detect(),
            threads: self.threads.unwrap_or_else(cores),
        });
        match self.device {
            Choice::Cpu => Ok(cpu),
            Choice::Auto => Ok(self.gpus_if_any().unwrap_or(cpu)),
            Choice::Cuda(ordinal) => self.gpus(ordinal),
        }
    }

    /// GPUs, where there are some; those that cannot be used are worth a word.
    #[cfg(feature = "cuda")]
    fn gpus_if_any(&self) -> Option<Device> {
        if matches!(engine::cuda::count(), Ok(0)) {
            return None;
        }
        let found = self.gpus(None);
        if let Err(error) = &found {
            crate::output::tell!("noisescale: training on the processor: {error}");
        }
        found.ok()
    }

    #[cfg(not(feature = "cuda"))]
    fn gpus_if_any(&self) -> Option<Device> {
        None
    }

    #[cfg(feature = "cuda")]
    fn gpus(&self, ordinal: Option<usize>) -> Result<Device> {
        let gpus = open_gpus(ordinal)?;
        Ok(Device::Cuda(engine::cuda::Gpus::new(
            gpus,
            self.precision.into(),
        )))
    }

    #[cfg(not(feature = "cuda"))]
    fn gpus(&self, _: Option<usize>) -> Result<Device> {
        Err(without_cuda())
    }
}

/// Why there are no GPUs in this program.
#[cfg(not(feature = "cuda"))]
pub fn without_cuda() -> anyhow::Error {
    let text = "this program was built without CUDA; build it with the feature `cuda`";
    Mistake(text.into()).into()
}

/// Whether there is a GPU that this program could use.
pub fn any_gpu() -> bool {
    #[cfg(feature = "cuda")]
    return engine::cuda::count().is_ok_and(|count| count > 0);
    #[cfg(not(feature = "cuda"))]
    return false;
}

/// One GPU, or all that the driver sees.
#[cfg(feature = "cuda")]
pub fn open_gpus(ordinal: Option<usize>) -> Result<Vec<engine::cuda::Device>> {
    let mistake = |error: CudaError| Mistake(error.to_string());
    let ordinals = match ordinal {
        Some(ordinal) => ordinal..ordinal + 1,
        None => 0..engine::cuda::count().map_err(mistake)?.max(1),
    };
    let cache = engine::data::Store::from_environment()
        .root()
        .join("kernels");
    let open = |ordinal| engine::cuda::Device::open(ordinal, Some(cache.clone()));
    let (mut gpus, mut reason) = (Vec::new(), None);
    for opened in ordinals.map(open) {
        match opened {
            Ok(gpu) => gpus.push(gpu),
            Err(error) => reason = reason.or(Some(error)),
        }
    }
    // Among several GPUs one may be too old.
    match reason {
        Some(error) if gpus.is_empty() => Err(mistake(error).into()),
        _ => Ok(gpus),
    }
}

#[cfg(feature = "cuda")]
impl From<Precision> for engine::cuda::Precision {
    fn from(precision: Precision) -> Self {
        match precision {
            Precision::Fp32 => Self::Fp32,
            Precision::Tf32 => Self::Tf32,
        }
    }
}

impl Trainer {
    /// What records call it.
    pub fn name(&self) -> String {
        match self {
            Self::Engine(device, _) => device.name(),
            #[cfg(unix)]
            Self::Command(command) => command.name(),
        }
    }

    /// What trains, for a sentence.
    pub fn in_words(&self) -> String {
        match self {
            Self::Engine(device, _) => format!("on {}", device.name()),
            #[cfg(unix)]
            Self::Command(command) => format!("by {}", command.in_words()),
        }
    }

    /// Trains what the desk gives until it gives no more.
    pub fn train(&self, desk: &dyn Desk) -> Result<()> {
        match self {
            Self::Engine(device, data) => device.train(data, desk),
            #[cfg(unix)]
            Self::Command(command) => command.train(desk),
        }
    }
}

impl Device {
    fn name(&self) -> String {
        match self {
            Self::Cpu(pool) => engine::train::device_name(pool.isa),
            #[cfg(feature = "cuda")]
            Self::Cuda(gpus) => gpus.name(),
        }
    }

    fn train(&self, data: &Dataset, desk: &dyn Desk) -> Result<()> {
        match self {
            Self::Cpu(pool) => Ok(pool.train(data, desk)?),
            #[cfg(feature = "cuda")]
            Self::Cuda(gpus) => gpus.train(data, desk).map_err(|error| match error {
                CudaError::Train(error) => error.into(),
                error @ CudaError::TooLittleMemory { .. } => Mistake(error.to_string()).into(),
                error => error.into(),
            }),
        }
    }
}
