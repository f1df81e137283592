//! `noisescale slurm`: a study over the machines of a Slurm cluster.
//!
//! Slurm schedules and the ledger remembers. `submit` shares out the missing runs
//! between the tasks of a job array, each a plain `noisescale work` on the same
//! folder, and submits a job after them that looks what came of it. That job sends
//! again what was lost and sends what the study asks for next; when nothing is
//! left it writes the report. Whether a run is done is never asked of Slurm: a task
//! may fail after its last record, or run twice at once on a node that was thought lost.
//!
//! | file | holds |
//! |---|---|
//! | `cluster.rs` | Slurm's commands |
//! | `parameters.rs`, `packing.rs` | what is asked for; how many tasks, and their time |
//! | `submission.rs`, `script.rs` | what a submission leaves on disk |
//! | `send.rs`, `finish.rs` | sending runs; what the job after an array does |
//! | `overview.rs`, `status.rs` | what is on its way; saying so |

mod cluster;
mod finish;
mod overview;
mod packing;
mod parameters;
mod script;
mod send;
mod status;
mod submission;

pub use cluster::requeue;
pub use submission::Submission;

use crate::cli::SelectArgs;
use crate::examples;
use crate::failure::Mistake;
use crate::folder::Folder;
use crate::output::say;
use crate::quoting;
use crate::studies;
use anyhow::Result;
use clap::{Args, Subcommand};
use ledger::Ledger;
use overview::Overview;
use parameters::{Parameters, ResourceArgs};
use send::{Claim, Mode, Order, Sent};
use std::path::{Path, PathBuf};

/// The commands under `noisescale slurm`.
#[derive(Subcommand)]
pub enum SlurmCommand {
    /// Share out a study's missing runs among the tasks of a job array
    #[command(after_help = examples::SLURM_SUBMIT)]
    Submit(SubmitArgs),
    /// Show where a study on a cluster stands, and what to do next
    #[command(after_help = examples::SLURM_STATUS)]
    Status(FolderArgs),
    /// Submit again what is missing and not on its way
    #[command(after_help = examples::SLURM_RESUBMIT)]
    Resubmit(ResubmitArgs),
    /// Cancel the jobs of a study's folder, and no others
    #[command(after_help = examples::SLURM_CANCEL)]
    Cancel(CancelArgs),
    /// Do what the job after an array does: submit what is left, or write the report
    #[command(after_help = examples::SLURM_FINISH)]
    Finish(FinishArgs),
}

/// A study for the cluster.
#[derive(Args)]
pub struct SubmitArgs {
    #[command(flatten)]
    select: SelectArgs,
    /// Folder for records and report, seen by all nodes [default: runs/STUDY]
    #[arg(long, short, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Say what would be submitted, and submit nothing
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    resources: ResourceArgs,
}

/// A folder.
#[derive(Args)]
pub struct FolderArgs {
    /// Folder of a study
    dir: PathBuf,
    /// As JSON, for programs
    #[arg(long)]
    json: bool,
}

/// What is missing from a folder.
#[derive(Args)]
pub struct ResubmitArgs {
    /// Folder of a study
    dir: PathBuf,
    /// Also submit the runs of pending or running tasks, to be trained twice
    #[arg(long)]
    force: bool,
    /// Say what would be submitted, and submit nothing
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    resources: ResourceArgs,
}

/// A folder whose jobs are to end.
#[derive(Args)]
pub struct CancelArgs {
    /// Folder of a study
    dir: PathBuf,
}

/// A submission whose tasks have ended.
#[derive(Args)]
pub struct FinishArgs {
    /// Folder of a study
    dir: PathBuf,
    /// The submission
    #[arg(long, value_name = "NAME")]
    submission: String,
}

/// What Slurm says of its version.
pub fn version() -> Result<String> {
    Ok(cluster::version()?.trim().to_owned())
}

/// Runs a command.
pub fn run(command: &SlurmCommand) -> Result<()> {
    match command {
        SlurmCommand::Submit(args) => submit(args),
        SlurmCommand::Status(args) => status::run(&args.dir, args.json),
        SlurmCommand::Resubmit(args) => resubmit(args),
        SlurmCommand::Cancel(args) => cancel(&args.dir),
        SlurmCommand::Finish(args) => finish::run(&absolute(&args.dir)?, &args.submission),
    }
}

fn submit(args: &SubmitArgs) -> Result<()> {
    let parameters = Parameters::usual()?.with(&args.resources)?;
    let overrides = args.select.overrides();
    let source = studies::open(&args.select.study, &overrides)?;
    let dir = source.folder(args.out.as_deref());
    let dir = absolute(&dir)?;
    // Better missing here than in a hundred tasks.
    studies::check_data(&source.study)?;
    let mode = mode(args.dry_run);
    let folder = match mode {
        Mode::Submit => {
            cluster::version()?;
            Folder::create(&dir, source)?
        }
        Mode::DryRun => Folder {
            study: source.study,
            ledger: Ledger::peek(&dir)?,
        },
    };
    send_missing(&folder, parameters, Claim::Respected, mode)
}

fn resubmit(args: &ResubmitArgs) -> Result<()> {
    let dir = absolute(&args.dir)?;
    let folder = Folder::open(&dir)?;
    let last = Submission::all(&dir)?.pop().ok_or_else(|| {
        Mistake(format!(
            "{}: nothing was submitted from here; `noisescale slurm submit STUDY --out FOLDER` does",
            dir.display()
        ))
    })?;
    let parameters = last.parameters.with(&args.resources)?;
    let claim = match args.force {
        true => Claim::Ignored,
        false => Claim::Respected,
    };
    send_missing(&folder, parameters, claim, mode(args.dry_run))
}

fn mode(dry_run: bool) -> Mode {
    match dry_run {
        true => Mode::DryRun,
        false => Mode::Submit,
    }
}

fn send_missing(folder: &Folder, parameters: Parameters, claim: Claim, mode: Mode) -> Result<()> {
    let order = Order {
        parameters,
        claim,
        after: None,
    };
    match send::send(folder, order, mode)? {
        Sent::Submitted(submission) => submission.announce(folder.ledger.dir()),
        Sent::Shown => say!("Nothing was submitted."),
        Sent::NothingMissing => say!(
            "Nothing is missing: {} runs are recorded. `noisescale report {}` writes the report.",
            folder.ledger.runs(),
            quoting::path(folder.ledger.dir())
        ),
        Sent::OnItsWay { runs } => say!(
            "Nothing to send: the {runs} missing runs are with pending or running tasks. \
             `noisescale slurm status {}` shows them; --force of `resubmit` sends them a second time.",
            quoting::path(folder.ledger.dir())
        ),
        Sent::Taken(name) => say!("Submission {name} has been made already."),
    }
    Ok(())
}

/// Cancels the jobs of a folder, the ones after the arrays first: they would send more.
fn cancel(dir: &Path) -> Result<()> {
    let dir = absolute(dir)?;
    Folder::open(&dir)?;
    let overview = Overview::ask(&dir)?;
    let (finishes, arrays) = overview.living_jobs();
    if finishes.is_empty() && arrays.is_empty() {
        say!(
            "{}: no job of this folder is pending or running",
            dir.display()
        );
        return Ok(());
    }
    for ids in [&finishes, &arrays] {
        if !ids.is_empty() {
            cluster::cancel(ids)?;
        }
    }
    say!(
        "Cancelled {} arrays and {} jobs after them. What is recorded stays; running tasks save \
         their work. `noisescale slurm resubmit {}` goes on.",
        arrays.len(),
        finishes.len(),
        quoting::path(&dir)
    );
    Ok(())
}

fn absolute(dir: &Path) -> Result<PathBuf> {
    let absolute = std::path::absolute(dir);
    Ok(absolute.map_err(|error| Mistake(format!("{}: {error}", dir.display())))?)
}
