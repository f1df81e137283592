//! `noisescale run`: plan a study, train what is missing, and report.

use crate::cli::RunStudyArgs;
use crate::failure::Interrupted;
use crate::folder::Folder;
use crate::runner::{self, Display, Finish, Means, human_duration};
use crate::{report, signals, studies};
use anyhow::Result;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Runs the study and writes its report.
pub fn run(args: &RunStudyArgs) -> Result<()> {
    let overrides = args.select.overrides();
    let source = studies::open(&args.select.study, &overrides)?;
    let dir = args
        .out
        .clone()
        .unwrap_or_else(|| PathBuf::from("runs").join(&source.study.name));
    let data = studies::data(&source.study)?;
    let mut folder = Folder::create(&dir, source.study, &source.text, &overrides)?;
    let stop = signals::stop_on_signal()?;
    let display = Display::new(args.quiet);
    let trainer = args.device.open()?;
    let start = Instant::now();
    let before = folder.ledger.runs();
    if !args.quiet {
        println!(
            "{}: on {}, into {}",
            folder.study.title,
            trainer.name(),
            dir.display()
        );
    }
    let means = Means {
        data: &data,
        trainer: &trainer,
        save_every: Duration::from_secs_f64(args.checkpoint_every),
        stop: &stop,
        display: &display,
    };
    let finish = runner::execute(&mut folder, &means);
    display.clear();
    let finish = finish?;
    folder.ledger.refresh()?;
    let trained = folder.ledger.runs() - before;
    if finish == Finish::Interrupted {
        let again = std::env::args().collect::<Vec<_>>().join(" ");
        return Err(Interrupted {
            recorded: folder.ledger.runs(),
            again,
        }
        .into());
    }
    if !args.quiet {
        let resumed = match display.runs_resumed() {
            0 => String::new(),
            some => format!(", {some} of them from a checkpoint"),
        };
        println!(
            "{trained} runs trained in {}{resumed}, {} recorded",
            human_duration(start.elapsed().as_secs_f64()),
            folder.ledger.runs()
        );
    }
    report::write(&[folder], &dir, args.json)
}
