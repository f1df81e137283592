//! The command line.

use crate::data_cli::DataCommand;
use clap::{Args, Parser, Subcommand, ValueEnum};
use spec::{BatchSize, LearningRate, Override, Width};
use std::path::PathBuf;

/// Finds the SGD noise scale at which a family of networks generalizes best,
/// and how it grows with width
#[derive(Parser)]
#[command(version, arg_required_else_help = true)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Subcommand)]
pub enum Command {
    /// Train one network of a study, or a few seeds of it
    #[command(after_help = TRAIN_EXAMPLES)]
    Train(TrainArgs),
    /// Write the first steps of a run with all that goes in and comes out, for checking from outside
    #[command(after_help = TRACE_EXAMPLES)]
    Trace(TraceArgs),
    /// See, download or import data sets
    #[command(subcommand)]
    Data(DataCommand),
}

const TRAIN_EXAMPLES: &str = "\
Examples:
  noisescale train digits-mlp --width 64
  noisescale train mnist-1lp --width 512 --batch-size 16 --epochs 30 --seeds 4
  noisescale train cifar10-wrn --width 2 --steps 300 --set family.batch_norm=true --json";

const TRACE_EXAMPLES: &str = "\
Example:
  noisescale trace digits-mlp --width 32 --steps 20 --out trace.safetensors

docs/TRACE.md describes the file.";

/// Which run of a study.
#[derive(Args)]
pub struct RunArgs {
    /// A study file, or the name of a built-in study
    pub study: String,
    /// Width of the network; need not be one of the study's
    #[arg(long, short, value_parser = width)]
    pub width: Width,
    /// Batch size [default: the study's fixed or middle one]
    #[arg(long, short, value_name = "B", value_parser = batch_size)]
    pub batch_size: Option<BatchSize>,
    /// Learning rate [default: the study's fixed or reference one]
    #[arg(long, short, value_name = "E", value_parser = learning_rate)]
    pub learning_rate: Option<LearningRate>,
    /// Seed of the random numbers
    #[arg(long, short, default_value_t = 0)]
    pub seed: u64,
    /// Change a key of the study, e.g. family.batch_norm=true
    #[arg(long = "set", value_name = "KEY=VALUE", value_parser = override_)]
    pub overrides: Vec<Override>,
}

#[derive(Args)]
pub struct TrainArgs {
    #[command(flatten)]
    pub run: RunArgs,
    /// Train for so many epochs [default: as the study says]
    #[arg(long, value_name = "N", conflicts_with = "steps", value_parser = epochs)]
    pub epochs: Option<f64>,
    /// Train for so many steps
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub steps: Option<u64>,
    /// How many seeds, counting up from --seed
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    pub seeds: u64,
    /// What to train on
    #[arg(long, value_enum, default_value_t = Device::Cpu)]
    pub device: Device,
    /// Runs trained at once [default: one per core]
    #[arg(long, value_name = "N", value_parser = threads)]
    pub threads: Option<usize>,
    /// Print one JSON record per run
    #[arg(long)]
    pub json: bool,
}

#[derive(Args)]
pub struct TraceArgs {
    #[command(flatten)]
    pub run: RunArgs,
    /// How many steps
    #[arg(long, value_name = "K", default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    pub steps: u64,
    /// The safetensors file to write
    #[arg(long, short, value_name = "FILE")]
    pub out: PathBuf,
}

/// What runs are trained on.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Device {
    /// The processor, one run per core.
    Cpu,
}

fn number<T: std::str::FromStr>(text: &str, what: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("`{text}` is not {what}"))
}

fn width(text: &str) -> Result<Width, String> {
    Width::new(number(text, "a whole number")?).map_err(|error| error.to_string())
}

fn batch_size(text: &str) -> Result<BatchSize, String> {
    BatchSize::new(number(text, "a whole number")?).map_err(|error| error.to_string())
}

fn learning_rate(text: &str) -> Result<LearningRate, String> {
    LearningRate::new(number(text, "a number")?).map_err(|error| error.to_string())
}

fn epochs(text: &str) -> Result<f64, String> {
    let epochs: f64 = number(text, "a number")?;
    match epochs.is_finite() && epochs > 0.0 {
        true => Ok(epochs),
        false => Err("epochs must be finite and above 0".into()),
    }
}

fn threads(text: &str) -> Result<usize, String> {
    match number(text, "a whole number")? {
        0 => Err("at least 1 run must train at once".into()),
        threads => Ok(threads),
    }
}

fn override_(text: &str) -> Result<Override, String> {
    Override::parse(text).ok_or_else(|| "expected KEY=VALUE, e.g. search.batch_size=16".into())
}
