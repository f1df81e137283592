//! A few runs for `noisescale train`: their records are printed and not kept.

use super::desk::{After, Desk, Kept, Sink};
use engine::checkpoint::Checkpoint;
use engine::pool::Supply;
use engine::train::Progress;
use spec::{Failure, Record, Run};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Called with the index of a run and where it stands; may stop it there.
pub type Watch<'a> = &'a (dyn Fn(usize, &Progress) -> ControlFlow<()> + Sync);

/// A list of runs, without checkpoints, and what a command needs to train them.
pub struct Trial<'a> {
    runs: &'a [Run],
    next: AtomicUsize,
    records: Mutex<Vec<Option<Record>>>,
    watch: Watch<'a>,
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
            runs,
            next: AtomicUsize::new(0),
            records: Mutex::new(vec![None; runs.len()]),
            watch,
            stop,
            scratch: Passing(std::env::temp_dir().join(name)),
            failures: Mutex::default(),
        }
    }

    /// The records, and the last failure of every run that has none.
    pub fn finish(self) -> (Vec<Record>, Vec<Failure>) {
        let records = std::mem::take(&mut *lock(&self.records));
        let failures = std::mem::take(&mut *lock(&self.failures));
        (records.into_iter().flatten().collect(), failures)
    }

    fn position(&self, run: &Run) -> Option<usize> {
        self.runs.iter().position(|listed| listed == run)
    }
}

impl Supply for Trial<'_> {
    fn take(&self) -> Option<Run> {
        if self.stop.load(Ordering::Relaxed) {
            return None;
        }
        let at = self.next.fetch_add(1, Ordering::Relaxed);
        self.runs.get(at).cloned()
    }

    fn take_alike(&self, run: &Run, most: usize) -> Vec<Run> {
        let mut alike = Vec::new();
        while alike.len() < most {
            let next = self.next.load(Ordering::Relaxed);
            match self.runs.get(next) {
                // Another thread may have been quicker.
                Some(found) if found.shares_cohort(run) => {
                    let ours = self.next.compare_exchange(
                        next,
                        next + 1,
                        Ordering::Relaxed,
                        Ordering::Relaxed,
                    );
                    alike.extend(ours.is_ok().then(|| found.clone()));
                }
                _ => break,
            }
        }
        alike
    }

    fn resume(&self, _: &Run) -> Option<Checkpoint> {
        None
    }

    fn advanced(&self, run: &Run, progress: &Progress) -> ControlFlow<()> {
        self.position(run)
            .map_or(ControlFlow::Continue(()), |at| (self.watch)(at, progress))
    }

    fn wants_checkpoint(&self, _: Duration) -> bool {
        false
    }

    fn save(&self, _: &Run, _: Checkpoint, _: Duration) {}

    /// A run that was stopped has no record.
    fn ended(&self, run: &Run, record: Record) {
        if let Some(at) = self.position(run) {
            lock(&self.records)[at] = Some(record);
        }
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
        self.ended(run, record);
        Kept::Yes
    }

    fn recorded_meanwhile(&self, _: &Run) -> bool {
        false
    }

    fn failed(&self, _: &Run, failure: Failure, after: After) {
        if after == After::GivenUp {
            lock(&self.failures).push(failure);
        }
    }
}

fn lock<T>(what: &Mutex<T>) -> MutexGuard<'_, T> {
    what.lock().unwrap_or_else(PoisonError::into_inner)
}
