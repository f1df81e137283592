//! Training a cohort on the CPU: a parallel loop over its runs.
//!
//! Each run stays on one thread and in that core's cache; threads share the
//! data and the compiled programs and nothing that changes. A run's result is
//! therefore the same bits for any number of threads and any company.

use crate::data::Dataset;
use crate::kernels::Isa;
use crate::train::{Compiled, Progress, Status, TrainError, Training};
use spec::{Record, Run};
use std::ops::ControlFlow;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// How often a run reports and can be stopped.
const REPORT_EVERY: Duration = Duration::from_millis(100);

/// Called with the index of a run and where it stands; may stop it there.
pub type Watch<'a> = &'a (dyn Fn(usize, &Progress) -> ControlFlow<()> + Sync);

/// Runs of one network and batch size, with what they share.
pub struct Cohort<'a> {
    runs: &'a [Run],
    data: &'a Dataset,
    programs: Compiled,
    isa: Isa,
}

impl<'a> Cohort<'a> {
    /// Compiles the network that the runs share.
    ///
    /// # Panics
    /// If there are no runs, or they differ in more than seed, learning rate and steps.
    pub fn new(runs: &'a [Run], data: &'a Dataset, isa: Isa) -> Result<Self, TrainError> {
        let first = &runs[0];
        let alike = |run: &Run| {
            run.setting == first.setting
                && run.width == first.width
                && run.batch_size == first.batch_size
        };
        assert!(
            runs.iter().all(alike),
            "the runs of a cohort share network and batch size"
        );
        Ok(Self {
            runs,
            data,
            programs: Compiled::new(first)?,
            isa,
        })
    }

    /// What the runs share.
    pub fn programs(&self) -> &Compiled {
        &self.programs
    }

    /// Trains every run on up to `threads` threads. A run that was stopped has no record.
    pub fn train(
        &self,
        threads: usize,
        watch: Watch<'_>,
    ) -> Result<Vec<Option<Record>>, TrainError> {
        let next = AtomicUsize::new(0);
        let results = Mutex::new(vec![None; self.runs.len()]);
        let work = || -> Result<(), TrainError> {
            loop {
                let at = next.fetch_add(1, Ordering::Relaxed);
                if at >= self.runs.len() {
                    return Ok(());
                }
                let record = self.train_one(at, watch)?;
                results
                    .lock()
                    .expect("no thread panics while it holds the lock")[at] = record;
            }
        };
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..threads.clamp(1, self.runs.len()))
                .map(|_| scope.spawn(work))
                .collect();
            threads
                .into_iter()
                .try_for_each(|thread| match thread.join() {
                    Ok(result) => result,
                    Err(panic) => std::panic::resume_unwind(panic),
                })
        })?;
        Ok(results.into_inner().expect("all threads have ended"))
    }

    /// Trains one run, reporting as it goes.
    fn train_one(&self, at: usize, watch: Watch<'_>) -> Result<Option<Record>, TrainError> {
        let mut training = Training::new(&self.runs[at], self.data, &self.programs, self.isa)?;
        let mut stride = 1;
        loop {
            let start = Instant::now();
            if let Status::Ended(outcome) = training.advance(stride) {
                watch(at, training.progress()).is_break();
                return Ok(Some(training.record(outcome)));
            }
            if watch(at, training.progress()).is_break() {
                return Ok(None);
            }
            // As many steps as fit into the reporting time, at most twice as many as before.
            let took = start.elapsed().as_secs_f64().max(1e-9);
            let fitting = stride as f64 * REPORT_EVERY.as_secs_f64() / took;
            stride = (fitting as u64).clamp(1, 2 * stride);
        }
    }
}
