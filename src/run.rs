//! `noisescale run`: plan a study, train what is missing, and report.

use crate::cli::RunStudyArgs;
use crate::failure::Interrupted;
use crate::folder::Folder;
use crate::runner::{self, Display, Finish, human_duration};
use crate::{report, studies};
use anyhow::{Context, Result};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
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
    let stop = stop_on_signal()?;
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
    let save_every = Duration::from_secs_f64(args.checkpoint_every);
    let finish = runner::execute(&mut folder, &data, &trainer, save_every, &stop, &display);
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

/// A flag that Ctrl-C and SIGTERM raise; a second one ends the program at once.
fn stop_on_signal() -> Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    let raised = Arc::clone(&stop);
    ctrlc::set_handler(move || {
        if raised.swap(true, Ordering::Relaxed) {
            std::process::exit(130);
        }
    })
    .context("cannot listen for Ctrl-C")?;
    Ok(stop)
}
