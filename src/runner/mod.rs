//! Running a study: plan, train what is missing, grow the grid, until nothing is left.
//!
//! The loop goes one way round: records → findings → points wanted → runs
//! missing → records. What it does next depends on the ledger alone, so a run that
//! was killed, or that shares its folder with another process, goes on from there.

mod cost;
mod hints;
mod progress;
mod queue;

pub use cost::{
    ASSUMED_SPEEDUP, DeviceKind, Machine, Rates, SUPPOSED_SECONDS, Source, made_up, middle_runs,
    products, step_products,
};
pub use progress::{Display, human_duration};

use crate::command::scratch;
use crate::device::Trainer;
use crate::folder::Folder;
use anyhow::Result;
use hints::Hints;
use ledger::{Ledger, LedgerError, Writer};
use queue::{Courtesy, Ended, Queue};
use spec::{Point, Run, RunId};
use std::collections::HashSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

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

/// What runs are trained with.
pub struct Means<'a> {
    /// The device, or the study's own command, with its data.
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

/// What to train in a folder.
#[derive(Debug, Clone, Copy)]
pub enum Task<'a> {
    /// What the study asks for, and what it asks for then, until nothing is left.
    Study,
    /// Those of these runs that are missing, and no others.
    ///
    /// What another process has claimed is left for the end. Then this one waits for as
    /// long as its patience lasts and trains it all the same: the claimant may be dead, or
    /// on a machine that nobody reaches any more, and this one was told to bring these runs.
    Listed {
        /// The runs.
        runs: &'a [Run],
        /// How long it waits.
        patience: Duration,
    },
}

/// Trains what is missing from a study's folder.
pub fn execute(folder: &mut Folder, task: Task<'_>, means: &Means<'_>) -> Result<Finish> {
    let mut hints = Hints::new(&folder.ledger);
    sweep(folder, &mut hints, means.display);
    let mut writer = None;
    let mut waiting_since: Option<Instant> = None;
    // Runs that failed as often as they may: the same command, given again, tries again.
    let mut given_up: HashSet<RunId> = HashSet::new();
    loop {
        folder.ledger.refresh()?;
        let mut todo = task.missing(folder);
        let missing = todo.len();
        todo.retain(|run| !given_up.contains(&run.id()));
        if todo.is_empty() {
            return Ok(Finish::of_missing(missing));
        }
        failed_last(folder, &mut todo)?;
        let ids: Vec<RunId> = todo.iter().map(Run::id).collect();
        let recorded = folder.ledger.runs();
        let courtesy = task.courtesy(waiting_since);
        let writer = opened(&mut writer, &folder.ledger)?;
        let (ended, failed) = means.train(folder, todo, writer, &mut hints, courtesy)?;
        given_up.extend(failed);
        match ended {
            Ended::Done => {}
            Ended::Stopped => return Ok(Finish::Interrupted),
            Ended::Waiting => {
                let since = *waiting_since.get_or_insert_with(Instant::now);
                let until = task.end_of_patience(since);
                wait_for_others(folder, &ids, recorded, until, &mut hints, means)?;
            }
        }
    }
}

impl Task<'_> {
    fn missing(self, folder: &Folder) -> Vec<Run> {
        match self {
            Self::Study => next_runs(folder),
            Self::Listed { runs, .. } => folder.ledger.missing(runs.to_vec()),
        }
    }

    /// After waiting for others since then, if at all.
    fn courtesy(self, waiting_since: Option<Instant>) -> Courtesy {
        let end = waiting_since.and_then(|since| self.end_of_patience(since));
        match end.is_some_and(|end| end <= Instant::now()) {
            true => Courtesy::TakeClaimed,
            false => Courtesy::LeaveClaimed,
        }
    }

    /// When it no longer waits for others, having begun then; never, if there is no such time.
    fn end_of_patience(self, since: Instant) -> Option<Instant> {
        match self {
            Self::Study => None,
            Self::Listed { patience, .. } => since.checked_add(patience),
        }
    }
}

/// Other processes have claimed what is left: waits until one of them brings a record or
/// gives up a run, or time is up. There were so many records when the runs were planned.
fn wait_for_others(
    folder: &mut Folder,
    runs: &[RunId],
    recorded: usize,
    until: Option<Instant>,
    hints: &mut Hints,
    means: &Means<'_>,
) -> Result<()> {
    loop {
        let left = until.map(|end| end.saturating_duration_since(Instant::now()));
        std::thread::sleep(left.map_or(LOOK_EVERY, |left| left.min(LOOK_EVERY)));
        folder.ledger.refresh()?;
        let is_over = until.is_some_and(|end| end <= Instant::now());
        let is_told = means.stop.load(Ordering::Relaxed) || folder.ledger.runs() != recorded;
        if is_over || is_told {
            return Ok(());
        }
        let taken = hints.of_others(means.display);
        let is_free = |run: &RunId| folder.ledger.get(*run).is_none() && !taken.contains(run);
        if runs.iter().any(is_free) {
            return Ok(());
        }
    }
}

/// Removes what killed processes left: files that are half-written, and checkpoints and folders of
/// runs that have a record and that nobody trains. What cannot be removed is in nobody's way.
fn sweep(folder: &Folder, hints: &mut Hints, display: &Display) {
    let checkpoints = folder.ledger.checkpoints();
    let told = |error: LedgerError| display.warn(&error.to_string());
    if let Err(error) = checkpoints.sweep(SystemTime::now()) {
        told(error);
    }
    let taken = hints.of_others(display);
    let is_done = |run: &RunId| folder.ledger.get(*run).is_some() && !taken.contains(run);
    let names = checkpoints.ids().unwrap_or_else(|error| {
        told(error);
        Vec::new()
    });
    let saved = names
        .into_iter()
        .filter_map(|name| RunId::try_from(name).ok());
    for run in saved.filter(is_done) {
        if let Err(error) = checkpoints.delete(&run.to_string()) {
            told(error);
        }
    }
    let scratch = scratch::within(folder.ledger.dir());
    for run in scratch::runs(&scratch).into_iter().filter(is_done) {
        scratch::tidy(&scratch, run);
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

impl Finish {
    /// After all that could be trained was: so many runs are still missing.
    fn of_missing(runs: usize) -> Self {
        match runs {
            0 => Self::Complete,
            _ => Self::WithFailures,
        }
    }
}

impl Means<'_> {
    /// Trains runs; also says which ones a command has failed at for good.
    fn train(
        &self,
        folder: &mut Folder,
        todo: Vec<Run>,
        writer: &Mutex<Writer>,
        hints: &mut Hints,
        courtesy: Courtesy,
    ) -> Result<(Ended, Vec<RunId>)> {
        self.display.plan(&todo, folder.ledger.records());
        let queue = Queue::new(&mut folder.ledger, todo, writer, hints, courtesy, self);
        let trained = self.trainer.train(&queue);
        let given_up = queue.given_up();
        let ended = queue.finish();
        hints.withdraw();
        trained?;
        Ok((ended?, given_up))
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
pub fn next_runs(folder: &Folder) -> Vec<Run> {
    next_runs_at(folder, &folder.asked_now())
}

/// As [`next_runs`], where the points to train now are known.
pub fn next_runs_at(folder: &Folder, points: &[Point]) -> Vec<Run> {
    let mut runs = analysis::wanted(&folder.study, points, folder.ledger.records());
    let examples = |run: &Run| run.steps.saturating_mul(run.batch_size.get().into());
    let cost = |run: &Run| examples(run).saturating_mul(run.width.get().into());
    runs.sort_by_key(|run| (run.seed, std::cmp::Reverse(cost(run))));
    runs
}
