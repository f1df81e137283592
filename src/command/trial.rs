//! A few runs for `noisescale train`: their records are printed and not kept.

use super::desk::{After, Desk, Kept, Sink};
use engine::checkpoint::Checkpoint;
use engine::pool::{Listed, Supply, Watch};
use engine::train::Progress;
use spec::{Failure, Record, Run};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A list of runs, with what a command needs to train them.
pub struct Trial<'a> {
    list: Listed<'a>,
    stop: &'a AtomicBool,
    scratch: Passing,
    failures: Mutex<Vec<Failure>>,
}

/// A folder that goes with its owner: nobody needs those of runs that are not kept.
struct Passing(PathBuf);

impl Drop for Passing {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

impl<'a> Trial<'a> {
    /// These runs, in this order, until the flag asks to stop.
    pub fn new(runs: &'a [Run], watch: Watch<'a>, stop: &'a AtomicBool) -> Self {
        // The time keeps apart what comes to have the same pid: an old state must not be found.
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        let nanoseconds = since.map_or(0, |since| since.as_nanos());
        let name = format!("noisescale-{}-{nanoseconds}", std::process::id());
        Self {
            list: Listed::new(runs, watch),
            stop,
            scratch: Passing(std::env::temp_dir().join(name)),
            failures: Mutex::default(),
        }
    }

    /// The records, and the last failure of every run that has none.
    pub fn finish(self) -> (Vec<Record>, Vec<Failure>) {
        let failures = self.failures.into_inner();
        let records = self.list.into_records().into_iter().flatten().collect();
        (records, failures.unwrap_or_else(PoisonError::into_inner))
    }
}

impl Supply for Trial<'_> {
    fn take(&self) -> Option<Run> {
        match self.stop.load(Ordering::Relaxed) {
            true => None,
            false => self.list.take(),
        }
    }

    fn take_alike(&self, run: &Run, most: usize) -> Vec<Run> {
        self.list.take_alike(run, most)
    }

    fn resume(&self, run: &Run) -> Option<Checkpoint> {
        self.list.resume(run)
    }

    fn advanced(&self, run: &Run, progress: &Progress) -> ControlFlow<()> {
        self.list.advanced(run, progress)
    }

    fn wants_checkpoint(&self, unsaved: Duration) -> bool {
        self.list.wants_checkpoint(unsaved)
    }

    fn save(&self, run: &Run, checkpoint: Checkpoint, unsaved: Duration) {
        self.list.save(run, checkpoint, unsaved);
    }

    fn ended(&self, run: &Run, record: Record) {
        self.list.ended(run, record);
    }
}

impl Desk for Trial<'_> {
    fn scratch(&self) -> &Path {
        &self.scratch.0
    }

    fn sink(&self, _: &Run) -> Sink {
        Sink::Terminal
    }

    /// A trial goes through all of its runs.
    fn has_precedent(&self) -> bool {
        true
    }

    fn keep(&self, run: &Run, record: Record) -> Kept {
        self.list.ended(run, record);
        Kept::Yes
    }

    fn recorded_meanwhile(&self, _: &Run) -> bool {
        false
    }

    fn failed(&self, _: &Run, failure: Failure, after: After) {
        if after == After::GivenUp {
            let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
            failures.push(failure);
        }
    }
}
