//! The command line.

#![allow(
    rustdoc::broken_intra_doc_links,
    reason = "doc comments here are help texts"
)]

use crate::data_cli::DataCommand;
use crate::device::{Choice, DeviceArgs, Precision};
use crate::examples;
use crate::prepare::PrepareArgs;
use crate::slurm::SlurmCommand;
use crate::values::{
    address, batch_size, count, instructions, learning_rate, override_, positive, seconds, share,
    threads, whole, width,
};
use crate::work::WorkArgs;
use clap::{Args, Parser, Subcommand};
use engine::kernels::Isa;
use spec::{BatchSize, LearningRate, Override, Width};
use std::net::IpAddr;
use std::path::PathBuf;

/// Finds the SGD noise scale at which a family of networks generalizes best,
/// and how it grows with width
#[derive(Parser)]
#[command(version, arg_required_else_help = true, after_help = examples::PROGRAM)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Subcommand)]
pub enum Command {
    /// Run a study: train what is missing, find the law, write the report
    #[command(after_help = examples::RUN)]
    Run(RunStudyArgs),
    /// Show what a study would do and what it would cost on this machine
    #[command(after_help = examples::CHECK)]
    Check(CheckArgs),
    /// List the built-in studies
    #[command(after_help = examples::LIST)]
    List(ListArgs),
    /// Show where a study stands
    #[command(after_help = examples::STATUS)]
    Status(StatusArgs),
    /// Write report, figures and results of one or several studies
    #[command(after_help = examples::REPORT)]
    Report(ReportArgs),
    /// Show how optimum and law moved in the course of training
    #[command(after_help = examples::COURSE)]
    Course(CourseArgs),
    /// Show studies on a page that updates as they run
    #[command(after_help = examples::SERVE)]
    Serve(ServeArgs),
    /// Write one row per run as CSV
    #[command(after_help = examples::EXPORT)]
    Export(ExportArgs),
    /// Give batch size and learning rate for a width, from a study's law
    #[command(after_help = examples::PREDICT)]
    Predict(PredictArgs),
    /// Train one network of a study, or a few seeds of it
    #[command(after_help = examples::TRAIN)]
    Train(TrainArgs),
    /// Write the first steps of a run with all inputs and results, for an independent check
    #[command(after_help = examples::TRACE)]
    Trace(TraceArgs),
    /// Measure the speed of training steps against this machine's limit
    #[command(after_help = examples::BENCH)]
    Bench(BenchArgs),
    /// Make a study's folder for `work` to fill
    #[command(after_help = examples::PREPARE)]
    Prepare(PrepareArgs),
    /// Train what is missing from a study's folder, or one share of it
    #[command(after_help = examples::WORK)]
    Work(WorkArgs),
    /// Run a study on a Slurm cluster
    #[command(subcommand, after_help = examples::SLURM)]
    Slurm(SlurmCommand),
    /// See, download or import data sets
    #[command(subcommand, after_help = examples::DATA)]
    Data(DataCommand),
    /// Show program, machine, GPUs, data sets and environment, for bug reports
    #[command(after_help = examples::INFO)]
    Info(InfoArgs),
    /// Print a script that lets a shell complete commands and flags
    #[command(after_help = examples::COMPLETIONS)]
    Completions(CompletionsArgs),
    /// Print the manual page, or write those of all commands
    #[command(after_help = examples::MAN)]
    Man(ManArgs),
    /// End this process group when the process at the other end of standard input has ended
    #[cfg(unix)]
    #[command(hide = true)]
    Guard(GuardArgs),
}

/// Which study, and how it is shortened or changed.
#[derive(Args)]
pub struct SelectArgs {
    /// A study file, the folder of a study, or the name of a built-in study (see `noisescale list`)
    pub study: String,
    /// Random repetitions of every point
    #[arg(long, value_name = "N", value_parser = count, allow_negative_numbers = true)]
    pub seeds: Option<u32>,
    /// The widths to study
    #[arg(long, value_name = "W,W,…", value_delimiter = ',', value_parser = width, allow_negative_numbers = true)]
    pub widths: Vec<Width>,
    /// Multiply every training time by this
    #[arg(long, value_name = "F", value_parser = positive, allow_negative_numbers = true)]
    pub time_scale: Option<f64>,
    /// Spend seeds where the best interval may still lie, instead of everywhere
    #[arg(long)]
    pub adaptive: bool,
    /// Change a key of the study, e.g. search.batch_sizes=[16,32]
    #[arg(long = "set", value_name = "KEY=VALUE", value_parser = override_)]
    pub set: Vec<Override>,
}

impl SelectArgs {
    /// All changes as overrides of the study file.
    pub fn overrides(&self) -> Vec<Override> {
        let key = |key: &str, value: String| Override {
            key: key.into(),
            value,
        };
        let mut all = self.set.clone();
        all.extend(self.seeds.map(|seeds| key("seeds", seeds.to_string())));
        if !self.widths.is_empty() {
            let widths: Vec<String> = self.widths.iter().map(Width::to_string).collect();
            all.push(key("family.widths", format!("[{}]", widths.join(", "))));
        }
        all.extend(
            self.time_scale
                .map(|scale| key("time.scale", format!("{scale:?}"))),
        );
        all.extend(self.adaptive.then(|| key("search.adaptive", "true".into())));
        all
    }
}

#[derive(Args)]
pub struct RunStudyArgs {
    #[command(flatten)]
    pub select: SelectArgs,
    /// Folder for records and report [default: runs/STUDY]
    #[arg(long, short, value_name = "DIR")]
    pub out: Option<PathBuf>,
    #[command(flatten)]
    pub device: DeviceArgs,
    /// Save running work every SECONDS seconds, in case it is killed
    #[arg(long, value_name = "SECONDS", value_parser = seconds, allow_negative_numbers = true, default_value_t = 60.0)]
    pub checkpoint_every: f64,
    /// Show no progress
    #[arg(long, short)]
    pub quiet: bool,
    /// Print the findings as JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Args)]
pub struct CheckArgs {
    #[command(flatten)]
    pub select: SelectArgs,
    /// As JSON, for programs
    #[arg(long)]
    pub json: bool,
}

#[derive(Args)]
pub struct BenchArgs {
    /// Only the network of this name, or networks whose name contains TEXT
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub only: String,
    /// Time for each network
    #[arg(long, value_name = "SECONDS", value_parser = seconds, allow_negative_numbers = true, default_value_t = 1.0)]
    pub seconds: f64,
    /// Runs at once in the last column [default: one per core]
    #[arg(long, value_name = "N", value_parser = threads, allow_negative_numbers = true)]
    pub threads: Option<usize>,
    /// Instruction set of the kernels [default: the best of this processor]
    #[arg(long, value_name = "SET", value_parser = instructions)]
    pub instructions: Option<Isa>,
    /// What to measure: cpu, or the steps of a whole cohort on cuda or cuda:N
    #[arg(long, value_name = "DEVICE", default_value_t = Choice::Cpu)]
    pub device: Choice,
    /// Precision of matrix products on GPUs [default: tf32]
    #[arg(long, value_enum)]
    pub precision: Option<Precision>,
    /// List the time of every kernel of a step on a GPU
    #[arg(long, conflicts_with = "json")]
    pub kernels: bool,
    /// Runs of a cohort on a GPU [default: 20]
    #[arg(long, value_name = "N", value_parser = threads, allow_negative_numbers = true)]
    pub replicas: Option<usize>,
    /// As JSON, for programs
    #[arg(long)]
    pub json: bool,
}

#[derive(Args)]
pub struct ListArgs {
    /// As JSON, for programs
    #[arg(long)]
    pub json: bool,
}

#[derive(Args)]
pub struct StatusArgs {
    /// Folder of a study
    pub dir: PathBuf,
    /// As JSON, for programs
    #[arg(long)]
    pub json: bool,
}

#[derive(Args)]
pub struct ReportArgs {
    /// Folders of studies
    #[arg(required = true, value_name = "DIR")]
    pub dirs: Vec<PathBuf>,
    /// Where to write [default: the study's folder]
    #[arg(long, short, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Print the findings as JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Args)]
pub struct CourseArgs {
    /// Folder of a study
    pub dir: PathBuf,
    /// Shares of the training time, each at an evaluation
    #[arg(
        long,
        value_name = "F,F,…",
        value_delimiter = ',',
        default_value = "0.25,0.5,0.75,1",
        value_parser = share, allow_negative_numbers = true
    )]
    pub shares: Vec<f64>,
    /// Compare with the other search of this study, each width after the same training time
    #[arg(long, value_name = "DIR", conflicts_with = "shares")]
    pub against: Option<PathBuf>,
    /// Print the findings as JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Args)]
pub struct ServeArgs {
    /// Folders of studies
    #[arg(required = true, value_name = "DIR")]
    pub dirs: Vec<PathBuf>,
    /// Port to listen on; 0 takes any free one
    #[arg(long, short, default_value_t = 8420, value_parser = whole::<u16>(0..=65_535), allow_negative_numbers = true)]
    pub port: u16,
    /// Address to listen on; any but this machine's own asks readers for a token
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1", value_parser = address)]
    pub host: IpAddr,
    /// Ask for a token on this machine too, where others have accounts
    #[arg(long)]
    pub token: bool,
}

#[derive(Args)]
pub struct ExportArgs {
    /// Folder of a study
    pub dir: PathBuf,
    // CSV is the only format; older scripts give the flag.
    #[arg(long, hide = true)]
    pub csv: bool,
    /// File to write [default: standard output]
    #[arg(long, short, value_name = "FILE")]
    pub out: Option<PathBuf>,
}

#[derive(Args)]
pub struct PredictArgs {
    /// Folder of a study
    pub dir: PathBuf,
    /// The width to predict for
    #[arg(long, short, value_parser = width, allow_negative_numbers = true)]
    pub width: Width,
    /// Fix the batch size
    #[arg(long, short, value_name = "B", value_parser = batch_size, allow_negative_numbers = true, conflicts_with = "learning_rate")]
    pub batch_size: Option<BatchSize>,
    /// Fix the learning rate
    #[arg(long, short, value_name = "E", value_parser = learning_rate, allow_negative_numbers = true)]
    pub learning_rate: Option<LearningRate>,
    /// Folder of a stability study of the same networks
    #[arg(long, value_name = "DIR")]
    pub stability: Option<PathBuf>,
    /// As JSON, for programs
    #[arg(long)]
    pub json: bool,
}

/// Which run of a study.
#[derive(Args)]
pub struct RunArgs {
    /// A study file, the folder of a study, or the name of a built-in study (see `noisescale list`)
    pub study: String,
    /// Width of the network; need not be one of the study's
    #[arg(long, short, value_parser = width, allow_negative_numbers = true)]
    pub width: Width,
    /// Batch size [default: the study's fixed or middle one]
    #[arg(long, short, value_name = "B", value_parser = batch_size, allow_negative_numbers = true)]
    pub batch_size: Option<BatchSize>,
    /// Learning rate [default: the study's fixed or reference one]
    #[arg(long, short, value_name = "E", value_parser = learning_rate, allow_negative_numbers = true)]
    pub learning_rate: Option<LearningRate>,
    /// Seed of the random numbers
    #[arg(long, short, default_value_t = 0, value_parser = whole::<u64>(0..=u64::MAX), allow_negative_numbers = true)]
    pub seed: u64,
    /// Change a key of the study, e.g. family.batch_norm=true
    #[arg(long = "set", value_name = "KEY=VALUE", value_parser = override_)]
    pub overrides: Vec<Override>,
}

#[derive(Args)]
pub struct TrainArgs {
    #[command(flatten)]
    pub run: RunArgs,
    /// Train for N epochs [default: as the study says]
    #[arg(long, value_name = "N", conflicts_with = "steps", value_parser = positive, allow_negative_numbers = true)]
    pub epochs: Option<f64>,
    /// Train for N steps
    #[arg(long, value_name = "N", value_parser = whole::<u64>(1..=u64::MAX), allow_negative_numbers = true)]
    pub steps: Option<u64>,
    /// How many seeds, counting up from --seed
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = whole::<u64>(1..=100_000), allow_negative_numbers = true)]
    pub seeds: u64,
    #[command(flatten)]
    pub device: DeviceArgs,
    /// Print one JSON record per run
    #[arg(long)]
    pub json: bool,
}

#[derive(Args)]
pub struct TraceArgs {
    #[command(flatten)]
    pub run: RunArgs,
    /// How many steps
    #[arg(long, value_name = "K", default_value_t = 20, value_parser = whole::<u64>(1..=100_000), allow_negative_numbers = true)]
    pub steps: u64,
    /// The safetensors file to write
    #[arg(long, short, value_name = "FILE")]
    pub out: PathBuf,
}

#[derive(Args)]
pub struct InfoArgs {
    /// As JSON, for programs
    #[arg(long)]
    pub json: bool,
}

#[derive(Args)]
pub struct CompletionsArgs {
    /// The shell
    pub shell: clap_complete::Shell,
}

#[derive(Args)]
pub struct ManArgs {
    /// Folder for a page of the program and of every command
    #[arg(long, short, value_name = "DIR")]
    pub out: Option<PathBuf>,
}

#[cfg(unix)]
#[derive(Args)]
pub struct GuardArgs {
    /// Time between asking the group to end and killing it
    #[arg(long, value_name = "SECONDS")]
    pub grace: f64,
}
