//! `noisescale prepare`: make a study's folder for workers to fill.

use crate::cli::SelectArgs;
use crate::folder::Folder;
use crate::runner::next_runs;
use crate::studies;
use anyhow::Result;
use clap::Args;
use std::path::PathBuf;

/// The study and its folder.
#[derive(Args)]
pub struct PrepareArgs {
    #[command(flatten)]
    pub select: SelectArgs,
    /// Folder for records and report [default: runs/STUDY]
    #[arg(long, short, value_name = "DIR")]
    pub out: Option<PathBuf>,
}

/// Makes the folder, or brings the study in it up to date.
pub fn run(args: &PrepareArgs) -> Result<()> {
    let overrides = args.select.overrides();
    let source = studies::open(&args.select.study, &overrides)?;
    // Better missing here than on every machine.
    studies::check_data(&source.study)?;
    let dir = studies::folder(&source.study, args.out.as_deref());
    let folder = Folder::create(&dir, source.study, &source.text, &overrides)?;
    println!(
        "{}: {} runs recorded, {} to train; `noisescale work` in this folder trains them",
        dir.display(),
        folder.ledger.runs(),
        next_runs(&folder).len()
    );
    Ok(())
}
