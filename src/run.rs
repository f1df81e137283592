//! `noisescale run`: plan a study, train what is missing, and report.

use crate::cli::RunStudyArgs;
use crate::failure::{FailedRuns, Interrupted};
use crate::folder::Folder;
use crate::runner::{self, Display, Finish, human_duration};
use crate::{report, studies};
use anyhow::{Context, Result};
use spec::Record;
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
    let trainer = args.device.open(&source.study)?;
    let mut folder = Folder::create(&dir, source.study, &source.text, &overrides)?;
    let stop = stop_on_signal()?;
    let display = Display::new(args.quiet);
    let start = Instant::now();
    let before = folder.ledger.runs();
    if !args.quiet {
        println!(
            "{}: {}, into {}",
            folder.study.title,
            trainer.in_words(),
            dir.display()
        );
    }
    let save_every = Duration::from_secs_f64(args.checkpoint_every);
    let finish = runner::execute(&mut folder, &trainer, save_every, &stop, &display);
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
    let failed = match finish {
        Finish::WithFailures => failed_runs(&folder)?,
        Finish::Complete | Finish::Interrupted => None,
    };
    report::write(&[folder], &dir, args.json)?;
    match failed {
        Some(failed) => Err(failed.into()),
        None => Ok(()),
    }
}

/// The runs at which the study's own command failed, as an error; none if another process
/// has trained them meanwhile.
fn failed_runs(folder: &Folder) -> Result<Option<FailedRuns>> {
    let records: Vec<&Record> = folder.ledger.records().collect();
    let points = folder.grown(&records).points;
    let failed = folder.failed_runs(&points)?;
    let newest = failed.iter().max_by_key(|run| run.failure.at_ms);
    Ok(newest.map(|newest| FailedRuns {
        count: failed.len(),
        run: newest.failure.run,
        reason: newest.failure.reason.clone(),
        log: newest
            .failure
            .log
            .as_ref()
            .map(|log| folder.ledger.dir().join(log)),
    }))
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
