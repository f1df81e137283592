//! Running a study: plan, train what is missing, grow the grid, until nothing is left.
//!
//! The loop goes one way round: records → findings → points wanted → runs
//! missing → records. What it does next depends on the ledger alone, so a run that
//! was killed, or that shares its folder with another process, goes on from there.

mod cost;
mod progress;
mod queue;

pub use cost::{Machine, made_up, step_products};
pub use progress::{Display, human_duration};

use crate::device::Trainer;
use crate::folder::{Folder, Grown};
use analysis::extension::extended_points;
use anyhow::Result;
use queue::{Ended, Queue};
use spec::{Record, Run, RunId};
use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

/// How running a study ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Finish {
    /// Every run that the study asks for is recorded.
    Complete,
    /// Every run but those at which the study's own command failed.
    WithFailures,
    /// Somebody asked to stop.
    Interrupted,
}

/// Trains what is missing from a study's folder.
pub fn execute(
    folder: &mut Folder,
    trainer: &Trainer,
    save_every: Duration,
    stop: &AtomicBool,
    display: &Display,
) -> Result<Finish> {
    folder.ledger.checkpoints().sweep(SystemTime::now())?;
    // Runs that failed as often as they may: the same command, given again, tries again.
    let mut given_up: HashSet<RunId> = HashSet::new();
    loop {
        folder.ledger.refresh()?;
        let mut todo = next_runs(folder);
        let wanted = todo.len();
        todo.retain(|run| !given_up.contains(&run.id()));
        if todo.is_empty() {
            return Ok(match wanted {
                0 => Finish::Complete,
                _ => Finish::WithFailures,
            });
        }
        failed_last(folder, &mut todo)?;
        display.plan(&todo, folder.ledger.records());
        let ids: Vec<RunId> = todo.iter().map(Run::id).collect();
        let queue = Queue::new(
            &folder.ledger,
            todo,
            trainer.name(),
            save_every,
            stop,
            display,
        )?;
        trainer.train(&queue)?;
        given_up.extend(queue.given_up());
        match queue.finish()? {
            Ended::Done => {}
            Ended::Stopped => return Ok(Finish::Interrupted),
            Ended::Waiting => wait_for_others(folder, &ids, stop)?,
        }
    }
}

/// Other processes have claimed what is left: waits until one of them brings a record or
/// gives up a run.
fn wait_for_others(folder: &mut Folder, runs: &[RunId], stop: &AtomicBool) -> Result<()> {
    let mut claims = folder.ledger.claims();
    loop {
        std::thread::sleep(Duration::from_secs(1));
        if stop.load(Ordering::Relaxed) || folder.ledger.refresh()? > 0 {
            return Ok(());
        }
        let taken = claims.others_claims(SystemTime::now())?;
        let is_free = |run: &RunId| folder.ledger.get(*run).is_none() && !taken.contains(run);
        if runs.iter().any(is_free) {
            return Ok(());
        }
    }
}

/// Puts runs that have failed behind those that have not been tried: a run that always
/// fails must not keep the others from being trained.
fn failed_last(folder: &Folder, runs: &mut [Run]) -> Result<()> {
    if folder.study.command_rules.is_some() {
        let failures = folder.ledger.failures().read()?;
        let failed: HashSet<RunId> = failures.iter().map(|failure| failure.run).collect();
        runs.sort_by_key(|run| failed.contains(&run.id()));
    }
    Ok(())
}

/// The runs that the study asks for next and that are not recorded, seeds
/// outermost so that every width has a first result early, long runs first so
/// that no thread is left alone with one at the end.
fn next_runs(folder: &Folder) -> Vec<Run> {
    let records: Vec<&Record> = folder.ledger.records().collect();
    let Grown {
        points,
        wanted,
        grown,
        ..
    } = folder.grown(&records);
    let study = &folder.study;
    let mut runs = analysis::wanted(study, &points, records.iter().copied());
    if runs.is_empty() && !wanted.is_empty() {
        let all: Vec<_> = grown.into_iter().chain(wanted).collect();
        runs = analysis::wanted(study, &extended_points(study, &all), records);
    }
    let cost = |run: &Run| run.steps * u64::from(run.batch_size.get()) * u64::from(run.width.get());
    runs.sort_by_key(|run| (run.seed, std::cmp::Reverse(cost(run))));
    runs
}
