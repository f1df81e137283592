//! Running a study: plan, train what is missing, grow the grid, until nothing is left.
//!
//! The loop goes one way round: records → findings → points wanted → runs
//! missing → records. What it does next depends on the ledger alone, so a run that
//! was killed, or that shares its folder with another process, goes on from there.

mod cost;
mod progress;
mod queue;

pub use cost::{Machine, evaluation_products, made_up, step_products};
pub use progress::{Display, human_duration};

use crate::device::Trainer;
use crate::folder::{Folder, Grown};
use analysis::extension::extended_points;
use anyhow::Result;
use engine::data::Dataset;
use queue::{Ended, Queue};
use spec::{Record, Run};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, SystemTime};

/// How running a study ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Finish {
    /// Every run that the study asks for is recorded.
    Complete,
    /// Somebody asked to stop.
    Interrupted,
}

/// Trains what is missing from a study's folder.
pub fn execute(
    folder: &mut Folder,
    data: &Dataset,
    trainer: &Trainer,
    save_every: Duration,
    stop: &AtomicBool,
    display: &Display,
) -> Result<Finish> {
    folder.ledger.checkpoints().sweep(SystemTime::now())?;
    loop {
        folder.ledger.refresh()?;
        let todo = next_runs(folder);
        if todo.is_empty() {
            return Ok(Finish::Complete);
        }
        display.plan(&todo, folder.ledger.records());
        let queue = Queue::new(
            &folder.ledger,
            todo,
            trainer.name(),
            save_every,
            stop,
            display,
        )?;
        trainer.train(data, &queue)?;
        match queue.finish()? {
            Ended::Done => {}
            Ended::Stopped => return Ok(Finish::Interrupted),
            // Another process has claimed what is left: see what it brings.
            Ended::Waiting => std::thread::sleep(Duration::from_secs(1)),
        }
    }
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
