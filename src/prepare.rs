//! `noisescale prepare`: make a study's folder for workers to fill.

use crate::cli::SelectArgs;
use crate::folder::Folder;
use crate::output::{Form, counted};
use crate::quoting;
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
    /// As JSON, for programs
    #[arg(long)]
    pub json: bool,
}

/// What there is to train.
#[derive(serde::Serialize)]
struct Prepared {
    folder: PathBuf,
    recorded: usize,
    to_train: usize,
}

/// Makes the folder, or brings the study in it up to date.
pub fn run(args: &PrepareArgs) -> Result<()> {
    let overrides = args.select.overrides();
    let source = studies::open(&args.select.study, &overrides)?;
    // Better missing here than on every machine.
    studies::check_data(&source.study)?;
    let dir = source.folder(args.out.as_deref());
    let folder = Folder::create(&dir, source)?;
    let prepared = Prepared {
        recorded: folder.ledger.runs(),
        to_train: next_runs(&folder).len(),
        folder: dir,
    };
    Form::of(args.json).answer(&prepared, Prepared::in_words)
}

impl Prepared {
    fn in_words(&self) -> String {
        format!(
            "{}: {} recorded, {} to train; `noisescale work {}` trains them",
            self.folder.display(),
            counted(self.recorded, "run"),
            self.to_train,
            quoting::path(&self.folder)
        )
    }
}
