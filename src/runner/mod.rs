//! Running a study: plan, train what is missing, grow the grid, until nothing is left.
//!
//! The loop goes one way round: records → findings → points wanted → runs
//! missing → records. What it does next depends on the ledger alone, so a run that
//! was killed, or that shares its folder with another process, goes on from there.

mod cost;
mod progress;
mod queue;

pub use cost::{
    ASSUMED_SPEEDUP, DeviceKind, Machine, Rates, Source, made_up, middle_runs, products,
    step_products,
};
pub use progress::{Display, human_duration};

use crate::device::Trainer;
use crate::folder::{Folder, Grown};
use analysis::extension::extended_points;
use anyhow::Result;
use engine::data::Dataset;
use ledger::{Ledger, LedgerError, Writer};
use queue::{Courtesy, Ended, Queue};
use spec::{Record, Run};
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant, SystemTime};

/// How running a study ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Finish {
    /// Every run that the study asks for is recorded.
    Complete,
    /// Somebody asked to stop.
    Interrupted,
}

/// What runs are trained with.
pub struct Means<'a> {
    /// The data.
    pub data: &'a Dataset,
    /// The device.
    pub trainer: &'a Trainer,
    /// A run under way is saved when so much work would be lost.
    pub save_every: Duration,
    /// Raised when somebody asks to stop.
    pub stop: &'a AtomicBool,
    /// What a person sees.
    pub display: &'a Display,
}

/// How often a process looks whether others have recorded what it waits for.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Trains what is missing from a study's folder, and what the study asks for then.
pub fn execute(folder: &mut Folder, means: &Means<'_>) -> Result<Finish> {
    folder.ledger.checkpoints().sweep(SystemTime::now())?;
    let mut writer = None;
    loop {
        folder.ledger.refresh()?;
        let todo = next_runs(folder);
        if todo.is_empty() {
            return Ok(Finish::Complete);
        }
        let writer = opened(&mut writer, &folder.ledger)?;
        match means.train(folder, todo, writer, Courtesy::LeaveClaimed)? {
            Ended::Done => {}
            Ended::Stopped => return Ok(Finish::Interrupted),
            // Another process has claimed what is left: see what it brings.
            Ended::Waiting => std::thread::sleep(LOOK_EVERY),
        }
    }
}

/// Trains those of `runs` that are missing, and no others.
///
/// What another process has claimed is left for the end. Then this one waits for as
/// long as its patience lasts and trains it all the same: the claimant may be dead, or
/// on a machine that nobody reaches any more, and this one was told to bring these runs.
pub fn execute_listed(
    folder: &mut Folder,
    runs: &[Run],
    patience: Duration,
    means: &Means<'_>,
) -> Result<Finish> {
    folder.ledger.checkpoints().sweep(SystemTime::now())?;
    let mut writer = None;
    let mut waiting_since: Option<Instant> = None;
    loop {
        folder.ledger.refresh()?;
        let todo = folder.ledger.missing(runs.to_vec());
        if todo.is_empty() {
            return Ok(Finish::Complete);
        }
        let courtesy = match waiting_since.is_some_and(|since| since.elapsed() >= patience) {
            true => Courtesy::TakeClaimed,
            false => Courtesy::LeaveClaimed,
        };
        let writer = opened(&mut writer, &folder.ledger)?;
        match means.train(folder, todo, writer, courtesy)? {
            Ended::Done => {}
            Ended::Stopped => return Ok(Finish::Interrupted),
            Ended::Waiting => {
                waiting_since.get_or_insert_with(Instant::now);
                std::thread::sleep(LOOK_EVERY.min(patience));
            }
        }
    }
}

/// The writer of this process, from the first run that is to be trained on.
fn opened<'a>(
    writer: &'a mut Option<Mutex<Writer>>,
    ledger: &Ledger,
) -> Result<&'a Mutex<Writer>, LedgerError> {
    Ok(match writer {
        Some(writer) => writer,
        none => none.insert(Mutex::new(ledger.writer()?)),
    })
}

impl Means<'_> {
    fn train(
        &self,
        folder: &Folder,
        todo: Vec<Run>,
        writer: &Mutex<Writer>,
        courtesy: Courtesy,
    ) -> Result<Ended> {
        self.display.plan(&todo, folder.ledger.records());
        let queue = Queue::new(&folder.ledger, todo, writer, courtesy, self);
        self.trainer.train(self.data, &queue)?;
        queue.finish()
    }
}

/// The runs that the study asks for next and that are not recorded, seeds
/// outermost so that every width has a first result early, long runs first so
/// that no thread is left alone with one at the end.
pub fn next_runs(folder: &Folder) -> Vec<Run> {
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
