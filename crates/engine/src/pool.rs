//! Training many runs on the CPU: one run per thread, taken from a common supply.
//!
//! Each run stays on one thread and in that core's cache; threads share the
//! data, and the compiled programs of runs of one network and batch size, and
//! nothing that changes. A run's result is therefore the same bits for any
//! number of threads and any company.

use crate::checkpoint::Checkpoint;
use crate::data::Dataset;
use crate::kernels::Isa;
use crate::train::{Compiled, Progress, Status, TrainError, Training};
use spec::{BatchSize, Record, Run, Width};
use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::Builder;
use std::time::{Duration, Instant};

/// How often a run reports and can be stopped.
const REPORT_EVERY: Duration = Duration::from_millis(100);

/// How many steps to take before the next report, from how long the last ones took.
pub(crate) struct Pace {
    every: Duration,
    fewest: u64,
    /// Steps to take now.
    pub steps: u64,
}

impl Pace {
    /// Reports so often, but not before so many steps.
    pub fn new(every: Duration, fewest: u64) -> Self {
        Self {
            every,
            fewest,
            steps: fewest,
        }
    }

    /// As many steps as fit into the time, at most twice as many as before.
    pub fn took(&mut self, time: Duration) {
        let fitting = self.steps as f64 * self.every.as_secs_f64() / time.as_secs_f64().max(1e-9);
        self.steps = (fitting as u64).clamp(self.fewest, self.steps.saturating_mul(2));
    }
}

/// Where runs come from and where their results go. Called from many threads.
pub trait Supply: Sync {
    /// The next run to train; `None` ends the thread that asks.
    fn take(&self) -> Option<Run>;

    /// Up to `most` more runs that can share a cohort with this one: of the same network,
    /// batch size and length.
    fn take_alike(&self, run: &Run, most: usize) -> Vec<Run>;

    /// A saved state of a run, if there is one to go on from.
    fn resume(&self, run: &Run) -> Option<Checkpoint>;

    /// Where a run stands. `Break` asks the device to save and stop; a GPU stops the whole cohort.
    fn advanced(&self, run: &Run, progress: &Progress) -> ControlFlow<()>;

    /// Whether this is the time to save the run, so many seconds after it was last saved.
    fn wants_checkpoint(&self, unsaved: Duration) -> bool;

    /// A state to save: asked for, or because the run was stopped. Without it all would be lost since the
    /// run was last saved, or taken: so much time, whoever else was trained in it.
    fn save(&self, run: &Run, checkpoint: Checkpoint, unsaved: Duration);

    /// A run has ended.
    fn ended(&self, run: &Run, record: Record);
}

/// The CPU as a device.
#[derive(Debug, Clone, Copy)]
pub struct Pool {
    /// Instruction set of the kernels.
    pub isa: Isa,
    /// Runs trained at once.
    pub threads: usize,
}

/// Programs of the networks met so far; runs that share one are a cohort.
struct Programs(Mutex<HashMap<(Width, BatchSize), Arc<Compiled>>>);

impl Programs {
    fn of(&self, run: &Run) -> Result<Arc<Compiled>, TrainError> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (run.width, run.batch_size);
        if let Some(found) = known.get(&key).filter(|found| found.fits(run)) {
            return Ok(Arc::clone(found));
        }
        let made = Arc::new(Compiled::new(run)?);
        known.insert(key, Arc::clone(&made));
        Ok(made)
    }
}

/// Raised by a thread that ends in an error or a panic: the others save what they have and end.
#[derive(Debug, Default)]
pub(crate) struct Alarm(AtomicBool);

impl Alarm {
    /// Does the work of a thread.
    pub fn watch<T, E>(&self, work: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
        let raise = Raise(self);
        let done = work();
        if done.is_ok() {
            std::mem::forget(raise);
        }
        done
    }

    /// Whether a thread has failed.
    pub fn is_raised(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Raises the alarm when it is dropped.
struct Raise<'a>(&'a Alarm);

impl Drop for Raise<'_> {
    fn drop(&mut self) {
        self.0.0.store(true, Ordering::Relaxed);
    }
}

impl Pool {
    /// Trains what the supply gives until it gives no more.
    pub fn train(&self, data: &Dataset, supply: &dyn Supply) -> Result<(), TrainError> {
        let worker = Worker {
            isa: self.isa,
            data,
            supply,
            programs: Programs(Mutex::default()),
            alarm: Alarm::default(),
        };
        let work = || worker.alarm.watch(|| worker.train_all());
        std::thread::scope(|scope| {
            // A system that gives fewer threads than asked for trains fewer runs at once.
            let start = |_| Builder::new().spawn_scoped(scope, work).ok();
            let threads: Vec<_> = (0..self.threads.max(1)).map_while(start).collect();
            if threads.is_empty() {
                return work();
            }
            threads
                .into_iter()
                .try_for_each(|thread| match thread.join() {
                    Ok(result) => result,
                    Err(panic) => std::panic::resume_unwind(panic),
                })
        })
    }
}

/// Trains one run at a time; all threads share one.
struct Worker<'a> {
    isa: Isa,
    data: &'a Dataset,
    supply: &'a dyn Supply,
    programs: Programs,
    alarm: Alarm,
}

impl Worker<'_> {
    fn train_all(&self) -> Result<(), TrainError> {
        while !self.alarm.is_raised()
            && let Some(run) = self.supply.take()
        {
            let compiled = self.programs.of(&run)?;
            self.train(&run, &compiled)?;
        }
        Ok(())
    }

    /// Trains one run, reporting and saving as it goes.
    fn train(&self, run: &Run, compiled: &Compiled) -> Result<(), TrainError> {
        let supply = self.supply;
        let mut training = Training::new(run, self.data, compiled, self.isa)?;
        if let Some(checkpoint) = supply.resume(run) {
            training.restore(checkpoint);
        }
        let mut pace = Pace::new(REPORT_EVERY, 1);
        let mut saved = Instant::now();
        loop {
            let start = Instant::now();
            if let Status::Ended(outcome) = training.advance(pace.steps) {
                supply.ended(run, training.record(outcome));
                return Ok(());
            }
            let stop = supply.advanced(run, training.progress()).is_break();
            if stop || self.alarm.is_raised() {
                supply.save(run, training.checkpoint(), saved.elapsed());
                return Ok(());
            }
            if supply.wants_checkpoint(saved.elapsed()) {
                supply.save(run, training.checkpoint(), saved.elapsed());
                saved = Instant::now();
            }
            pace.took(start.elapsed());
        }
    }
}

/// Called with the index of a run and where it stands; may stop it there.
pub type Watch<'a> = &'a (dyn Fn(usize, &Progress) -> ControlFlow<()> + Sync);

/// A fixed list of runs, without checkpoints: the simplest supply.
pub struct Listed<'a> {
    runs: &'a [Run],
    next: AtomicUsize,
    records: Mutex<Vec<Option<Record>>>,
    watch: Watch<'a>,
}

impl<'a> Listed<'a> {
    /// These runs, in this order.
    pub fn new(runs: &'a [Run], watch: Watch<'a>) -> Self {
        Self {
            runs,
            next: AtomicUsize::new(0),
            records: Mutex::new(vec![None; runs.len()]),
            watch,
        }
    }

    /// Their records; a run that was stopped has none.
    pub fn into_records(self) -> Vec<Option<Record>> {
        self.records
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn position(&self, run: &Run) -> Option<usize> {
        self.runs.iter().position(|listed| listed == run)
    }
}

impl Supply for Listed<'_> {
    fn take(&self) -> Option<Run> {
        self.runs
            .get(self.next.fetch_add(1, Ordering::Relaxed))
            .cloned()
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

    fn ended(&self, run: &Run, record: Record) {
        if let Some(at) = self.position(run) {
            self.records.lock().unwrap_or_else(PoisonError::into_inner)[at] = Some(record);
        }
    }
}

impl Pool {
    /// Trains a list of runs; a run that was stopped has no record.
    pub fn train_list(
        &self,
        data: &Dataset,
        runs: &[Run],
        watch: Watch<'_>,
    ) -> Result<Vec<Option<Record>>, TrainError> {
        let list = Listed::new(runs, watch);
        self.train(data, &list)?;
        Ok(list.into_records())
    }
}
