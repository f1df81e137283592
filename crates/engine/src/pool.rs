//! Training many runs on the CPU: one run per thread, taken from a common supply.
//!
//! Each run stays on one thread and in that core's cache; threads share the
//! data, and the compiled programs of runs of one network and batch size, and
//! nothing that changes. A run's result is therefore the same bits for any
//! number of threads and any company.

use crate::checkpoint::Checkpoint;
use crate::data::Dataset;
use crate::kernels::Isa;
use crate::threads::on_threads;
use crate::train::{Compiled, Progress, Status, TrainError, Training};
use spec::{BatchSize, Record, Run, Width};
use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
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
        on_threads(self.threads, |_| worker.alarm.watch(|| worker.train_all()))
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
