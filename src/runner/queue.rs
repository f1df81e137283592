//! The supply of runs to the trainer, and the way of their records into the ledger.

use super::Means;
use super::cost::step_products;
use super::hints::Hints;
use super::progress::Display;
use crate::command::{After, Desk, Kept, Sink, scratch};
use crate::output::counted;
use anyhow::Result;
use engine::checkpoint::Checkpoint;
use engine::pool::Supply;
use engine::train::Progress;
use ledger::{Checkpoints, Failures, Ledger, LedgerError, Writer};
use spec::{Failure, Record, Run, RunId};
use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A stopped run is saved when so much time would be lost without the file.
const WORTH_SAVING: Duration = Duration::from_secs(5);
/// Runs are claimed in parcels of about so many multiply–adds, some seconds of work.
const PARCEL_PRODUCTS: f64 = 1e11;
/// Most runs in a parcel.
const PARCEL_RUNS: usize = 32;

/// How a queue ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// Every run was trained.
    Done,
    /// Somebody asked to stop.
    Stopped,
    /// What is left has been claimed by other processes.
    Waiting,
}

/// What to do about runs that another process has claimed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Courtesy {
    /// Leave them to it.
    LeaveClaimed,
    /// Train them all the same: one record will count.
    TakeClaimed,
}

/// The runs to train, shared by the trainer's threads.
pub struct Queue<'a> {
    state: Mutex<State<'a>>,
    writer: &'a Mutex<Writer>,
    courtesy: Courtesy,
    /// A run is saved when so much work would be lost.
    save_every: Duration,
    checkpoints: Mutex<Checkpoints>,
    /// What the trainer calls itself.
    device: String,
    /// The study's folder, and where commands keep the folders of their runs.
    dir: PathBuf,
    scratch: PathBuf,
    has_precedent: bool,
    stop: &'a AtomicBool,
    display: &'a Display,
}

struct State<'a> {
    waiting: VecDeque<Run>,
    claimed: VecDeque<Run>,
    left_to_others: usize,
    ledger: &'a mut Ledger,
    hints: &'a mut Hints,
    failure: Option<LedgerError>,
    failures: Failures,
    given_up: Vec<RunId>,
    /// Failed attempts that were not told one by one.
    untold: usize,
}

impl<'a> Queue<'a> {
    /// A queue of these runs, whose records go to the writer.
    pub fn new(
        ledger: &'a mut Ledger,
        runs: Vec<Run>,
        writer: &'a Mutex<Writer>,
        hints: &'a mut Hints,
        courtesy: Courtesy,
        means: &Means<'a>,
    ) -> Self {
        Self {
            writer,
            courtesy,
            save_every: means.save_every,
            dir: ledger.dir().into(),
            scratch: scratch::within(ledger.dir()),
            has_precedent: ledger.runs() > 0,
            checkpoints: Mutex::new(ledger.checkpoints()),
            device: means.trainer.name(),
            stop: means.stop,
            display: means.display,
            state: Mutex::new(State {
                waiting: runs.into(),
                claimed: VecDeque::new(),
                left_to_others: 0,
                failures: ledger.failures(),
                ledger,
                hints,
                failure: None,
                given_up: Vec::new(),
                untold: 0,
            }),
        }
    }

    /// What became of the queue, after the trainer has ended.
    pub fn finish(self) -> Result<Ended> {
        let state = self
            .state
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner);
        if state.untold > 0 {
            self.display.warn(&format!(
                "{} between the first and the last of a run not shown; failures/ has them all",
                counted(state.untold, "failed attempt")
            ));
        }
        if let Some(failure) = state.failure {
            return Err(failure.into());
        }
        Ok(
            match (self.stop.load(Ordering::Relaxed), state.left_to_others) {
                (true, _) => Ended::Stopped,
                (false, 0) => Ended::Done,
                (false, _) => Ended::Waiting,
            },
        )
    }

    /// Runs that have failed as often as they may.
    pub fn given_up(&self) -> Vec<RunId> {
        self.state().given_up.clone()
    }

    fn state(&self) -> MutexGuard<'_, State<'a>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn checkpoints(&self) -> MutexGuard<'_, Checkpoints> {
        self.checkpoints
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn warn(&self, error: &LedgerError) {
        self.display.warn(&error.to_string());
    }
}

impl State<'_> {
    /// Whether a run has a record, as far as the ledger was read.
    fn is_recorded(&self, run: &Run) -> bool {
        self.ledger.get(run.id()).is_some()
    }

    /// Claims the next parcel.
    fn claim_parcel(&mut self, courtesy: Courtesy, display: &Display) {
        let mut products = 0.0;
        let mut parcel = Vec::new();
        while parcel.len() < PARCEL_RUNS && products < PARCEL_PRODUCTS {
            let Some(run) = self.waiting.pop_front() else {
                break;
            };
            if self.is_recorded(&run) {
                continue;
            }
            if run.setting.command().is_some() {
                // What a command takes is not known, and surely longer than a claim.
                products = PARCEL_PRODUCTS;
            }
            products += step_products(&run) * run.steps as f64;
            parcel.push(run);
        }
        let ours = self.claim(parcel, courtesy, display);
        self.claimed.extend(ours);
    }

    /// Claims these runs and returns those to train: the ones nobody else has claimed, or all of
    /// them under `TakeClaimed`, less those that somebody has recorded meanwhile.
    ///
    /// The ledger is read after the claim: others give up their claims after they have recorded, so
    /// what they have trained of these runs is in it by then.
    fn claim(&mut self, mut parcel: Vec<Run>, courtesy: Courtesy, display: &Display) -> Vec<Run> {
        if parcel.is_empty() {
            return parcel;
        }
        let ids: Vec<RunId> = parcel.iter().map(Run::id).collect();
        let ours = match courtesy {
            Courtesy::LeaveClaimed => self.hints.claim(&ids, display),
            // Whoever has them has to know: a command's folder stays while somebody uses it.
            Courtesy::TakeClaimed => {
                self.hints.claim_too(&ids, display);
                ids
            }
        };
        self.hints.told(self.ledger.refresh(), display);
        parcel.retain(|run| !self.is_recorded(run));
        let before = parcel.len();
        parcel.retain(|run| ours.contains(&run.id()));
        self.left_to_others += before - parcel.len();
        parcel
    }

    /// Whether another process trains a run that one of ours trains in a folder.
    fn is_shared(&mut self, run: &Run, display: &Display) -> bool {
        run.setting.command().is_some() && self.hints.of_others(display).contains(&run.id())
    }
}

/// Takes up to `most` runs that can share a cohort with this one, in their order.
fn take_matching(runs: &mut VecDeque<Run>, run: &Run, most: usize) -> Vec<Run> {
    let mut taken = Vec::new();
    for other in std::mem::take(runs) {
        match taken.len() < most && other.shares_cohort(run) {
            true => taken.push(other),
            false => runs.push_back(other),
        }
    }
    taken
}

impl Supply for Queue<'_> {
    fn take(&self) -> Option<Run> {
        let mut state = self.state();
        loop {
            if self.stop.load(Ordering::Relaxed) || state.failure.is_some() {
                return None;
            }
            if let Some(run) = state.claimed.pop_front() {
                return Some(run);
            }
            if state.waiting.is_empty() {
                return None;
            }
            state.claim_parcel(self.courtesy, self.display);
        }
    }

    fn take_alike(&self, run: &Run, most: usize) -> Vec<Run> {
        let mut state = self.state();
        let mut alike = take_matching(&mut state.claimed, run, most);
        let more = take_matching(&mut state.waiting, run, most - alike.len());
        alike.extend(state.claim(more, self.courtesy, self.display));
        alike
    }

    fn resume(&self, run: &Run) -> Option<Checkpoint> {
        let id = run.id();
        let bytes = match self.checkpoints().load(&id.to_string()) {
            Ok(bytes) => bytes?,
            Err(error) => {
                self.warn(&error);
                return None;
            }
        };
        match Checkpoint::from_bytes(&bytes) {
            Ok(checkpoint) if !checkpoint.continues(id, &self.device) => None,
            Ok(checkpoint) if !checkpoint.progress.is_within(run) => {
                self.display.warn(&format!(
                    "run {id} starts again: its checkpoint says what cannot be"
                ));
                None
            }
            Ok(checkpoint) => {
                self.display.resumed();
                Some(checkpoint)
            }
            Err(error) => {
                self.display
                    .warn(&format!("run {id} starts again: {error}"));
                None
            }
        }
    }

    fn advanced(&self, run: &Run, progress: &Progress) -> ControlFlow<()> {
        self.display.advanced(run, progress);
        let mut state = self.state();
        state.hints.beat(self.display);
        match self.stop.load(Ordering::Relaxed) || state.failure.is_some() {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    }

    fn wants_checkpoint(&self, unsaved: Duration) -> bool {
        unsaved >= self.save_every
    }

    fn save(&self, run: &Run, checkpoint: Checkpoint, unsaved: Duration) {
        if unsaved < WORTH_SAVING.min(self.save_every) {
            return;
        }
        let saved = match checkpoint.to_bytes() {
            Ok(bytes) => self.checkpoints().save(&run.id().to_string(), &bytes),
            Err(error) => return self.display.warn(&error.to_string()),
        };
        if let Err(error) = saved {
            self.warn(&error);
        }
    }

    fn ended(&self, run: &Run, record: Record) {
        // What cannot be kept ends the queue, which says so.
        let _ = self.keep(run, record);
    }
}

impl Desk for Queue<'_> {
    fn keep(&self, run: &Run, record: Record) -> Kept {
        let mut writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(error) = writer.append(&record) {
            self.state().failure = Some(error);
            return Kept::No;
        }
        drop(writer);
        self.display.ended(run, &record);
        if let Err(error) = self.checkpoints().delete(&run.id().to_string()) {
            self.warn(&error);
        }
        match self.state().is_shared(run, self.display) {
            true => Kept::AmidWork,
            false => Kept::Yes,
        }
    }

    fn recorded_meanwhile(&self, run: &Run) -> bool {
        let mut state = self.state();
        let State { ledger, hints, .. } = &mut *state;
        hints.told(ledger.refresh(), self.display);
        let is_recorded = state.is_recorded(run);
        if is_recorded {
            self.display.failed(run);
        }
        is_recorded
    }

    fn scratch(&self) -> &Path {
        &self.scratch
    }

    fn sink(&self, run: &Run) -> Sink {
        let name = format!("logs/{}.stderr", run.id());
        Sink::File {
            path: self.dir.join(&name),
            name,
        }
    }

    fn has_precedent(&self) -> bool {
        self.has_precedent
    }

    fn failed(&self, run: &Run, failure: Failure, after: After) {
        let mut state = self.state();
        if let Err(error) = state.failures.append(&failure) {
            state.failure = Some(error);
            return;
        }
        let id = run.id();
        if after == After::GivenUp {
            state.given_up.push(id);
            state.hints.release(id, self.display);
        }
        drop(state);
        self.display.failed(run);
        let reason = &failure.reason;
        match (after, failure.attempt) {
            (After::AnotherAttempt, 1) => self
                .display
                .warn(&format!("run {id} failed: {reason}; it is tried again")),
            (After::AnotherAttempt, _) => self.state().untold += 1,
            (After::GivenUp, 1) => self.display.warn(&format!(
                "run {id} failed: {reason}; it is left out for now"
            )),
            (After::GivenUp, attempts) => self.display.warn(&format!(
                "run {id} failed {attempts} times, the last time: {reason}; it is left out for now"
            )),
        }
    }
}
