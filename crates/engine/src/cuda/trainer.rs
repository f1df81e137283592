//! Training what a supply gives, on one or several GPUs.
//!
//! Each GPU has a few workers, and each worker one cohort at a time on a stream of its own: while
//! one waits for its host, or its kernels do not fill the GPU, the others use it.

use super::cohort::{Cohort, STEPS_PER_GRAPH, device_name};
use super::data::DeviceData;
use super::device::Device;
use super::error::CudaError;
use super::plan::CohortPlan;
use super::product::Precision;
use crate::checkpoint::Checkpoint;
use crate::data::Dataset;
use crate::pool::{Alarm, Pace, Supply};
use spec::Run;
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::{Condvar, Mutex, PoisonError};
use std::thread::Builder;
use std::time::{Duration, Instant};

/// Cohorts in flight on a GPU.
const WORKERS: usize = 4;
/// Most runs of a cohort: beyond it a step gains nothing and every stop costs more.
const MOST_RUNS: usize = 128;
/// How often a cohort reports and can be stopped.
const REPORT_EVERY: Duration = Duration::from_millis(200);
/// Share of the free memory that cohorts may take together.
const MEMORY_SHARE: f64 = 0.9;

/// One or several GPUs.
pub struct Gpus {
    devices: Vec<Device>,
    precision: Precision,
}

impl Gpus {
    /// These GPUs, of one kind.
    pub fn new(devices: Vec<Device>, precision: Precision) -> Self {
        Self { devices, precision }
    }

    /// What records call them: the first, since records of GPUs of one kind agree.
    pub fn name(&self) -> String {
        let name = |device: &Device| device_name(device, self.precision);
        self.devices.first().map(name).unwrap_or_default()
    }

    /// Trains what the supply gives until it gives no more.
    pub fn train(&self, data: &Dataset, supply: &dyn Supply) -> Result<(), CudaError> {
        let placed: Vec<DeviceData> = (self.devices.iter())
            .map(|device| DeviceData::new(data, device))
            .collect::<Result<_, _>>()?;
        let common = &Common {
            supply,
            taking: Mutex::new(()),
            alarm: Alarm::default(),
            precision: self.precision,
        };
        let budgets = (self.devices.iter())
            .map(|device| {
                Ok(Budget::new(
                    (device.free_bytes()? as f64 * MEMORY_SHARE) as usize,
                ))
            })
            .collect::<Result<Vec<Budget>, CudaError>>()?;
        std::thread::scope(|scope| {
            let mut threads = Vec::new();
            for ((device, data), budget) in self.devices.iter().zip(&placed).zip(&budgets) {
                for _ in 0..WORKERS {
                    let worker = Worker {
                        device,
                        data,
                        budget,
                        common,
                    };
                    let work = move || common.alarm.watch(|| worker.train_all());
                    let thread = Builder::new().spawn_scoped(scope, work);
                    // Those that have begun end when one of them cannot.
                    threads.push(common.alarm.watch(|| thread)?);
                }
            }
            let ended = threads.into_iter().map(|thread| match thread.join() {
                Ok(result) => result,
                Err(panic) => std::panic::resume_unwind(panic),
            });
            // All are waited for before the first error is told.
            ended.collect::<Vec<_>>().into_iter().collect()
        })
    }
}

/// What all workers share.
struct Common<'a> {
    supply: &'a dyn Supply,
    /// Held while a cohort is gathered: two workers would share out what belongs together.
    taking: Mutex<()>,
    alarm: Alarm,
    precision: Precision,
}

/// The memory of a GPU that cohorts may take.
struct Budget {
    total: usize,
    left: Mutex<usize>,
    freed: Condvar,
}

impl Budget {
    fn new(total: usize) -> Self {
        Self {
            total,
            left: Mutex::new(total),
            freed: Condvar::new(),
        }
    }

    /// What a cohort may take: its part, or what one run of it needs.
    fn part(&self, one_run: usize) -> usize {
        (self.total / WORKERS).max(one_run)
    }

    /// Takes memory, when others have left enough.
    fn take(&self, bytes: usize) -> Taken<'_> {
        let left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        let enough = self.freed.wait_while(left, |left| *left < bytes);
        *enough.unwrap_or_else(PoisonError::into_inner) -= bytes;
        Taken {
            budget: self,
            bytes,
        }
    }
}

/// Memory of a budget, given back when it is dropped: a worker that panics must not leave the others
/// waiting for ever.
struct Taken<'a> {
    budget: &'a Budget,
    bytes: usize,
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        let left = self.budget.left.lock();
        *left.unwrap_or_else(PoisonError::into_inner) += self.bytes;
        self.budget.freed.notify_all();
    }
}

/// Trains one cohort at a time.
struct Worker<'a> {
    device: &'a Device,
    data: &'a DeviceData,
    budget: &'a Budget,
    common: &'a Common<'a>,
}

impl Worker<'_> {
    fn train_all(&self) -> Result<(), CudaError> {
        while let Some((plan, runs)) = self.gather()? {
            for cohort in self.by_step(&plan, runs) {
                let _memory = self.budget.take(plan.bytes(cohort.len(), self.data));
                if self.train(&plan, cohort)?.is_break() {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// The next run and those that can train with it, as many as memory allows.
    fn gather(&self) -> Result<Option<(CohortPlan, Vec<Run>)>, CudaError> {
        let _alone = (self.common.taking.lock()).unwrap_or_else(PoisonError::into_inner);
        if self.common.alarm.is_raised() {
            return Ok(None);
        }
        let Some(first) = self.common.supply.take() else {
            return Ok(None);
        };
        let plan = CohortPlan::new(&first, self.common.precision, self.device.limits()?)?;
        let one = plan.bytes(1, self.data);
        if one > self.budget.total {
            return Err(CudaError::TooLittleMemory {
                needed: one >> 20,
                free: self.budget.total >> 20,
            });
        }
        let most = plan.largest(MOST_RUNS, self.data, self.budget.part(one));
        let mut runs = vec![first];
        runs.extend(self.common.supply.take_alike(&runs[0], most - 1));
        Ok(Some((plan, runs)))
    }

    /// Runs that were saved at different steps cannot take theirs together. A saved state that does not
    /// fit is left aside.
    fn by_step(
        &self,
        plan: &CohortPlan,
        runs: Vec<Run>,
    ) -> impl Iterator<Item = Vec<(Run, Option<Checkpoint>)>> {
        let device = device_name(self.device, self.common.precision);
        let mut steps: BTreeMap<u64, Vec<(Run, Option<Checkpoint>)>> = BTreeMap::new();
        for run in runs {
            let saved = self.common.supply.resume(&run);
            let saved = saved.filter(|saved| {
                saved.continues(run.id(), &device)
                    && saved.progress.is_within(&run)
                    && saved.fits(plan.weights_stride(), plan.statistics_len())
            });
            let step = saved.as_ref().map_or(0, |saved| saved.progress.step);
            steps.entry(step).or_default().push((run, saved));
        }
        steps.into_values()
    }

    /// Trains a cohort to its end, or until somebody asks to stop.
    fn train(
        &self,
        plan: &CohortPlan,
        runs: Vec<(Run, Option<Checkpoint>)>,
    ) -> Result<ControlFlow<()>, CudaError> {
        let mut cohort = Cohort::new(self.device, self.data, plan, runs)?;
        let mut pace = Pace::new(REPORT_EVERY, STEPS_PER_GRAPH);
        let mut saved = Instant::now();
        while cohort.running().next().is_some() {
            let start = Instant::now();
            for (at, outcome) in cohort.advance(pace.steps)? {
                let record = cohort.record(at, outcome);
                self.common.supply.ended(cohort.run(at), record);
            }
            let mut stop = self.common.alarm.is_raised();
            for (_, run, progress) in cohort.running() {
                stop |= self.common.supply.advanced(run, progress) == ControlFlow::Break(());
            }
            if stop || self.common.supply.wants_checkpoint(saved.elapsed()) {
                self.save(&cohort, saved.elapsed())?;
                saved = Instant::now();
            }
            if stop {
                return Ok(ControlFlow::Break(()));
            }
            pace.took(start.elapsed());
        }
        Ok(ControlFlow::Continue(()))
    }

    fn save(&self, cohort: &Cohort<'_>, unsaved: Duration) -> Result<(), CudaError> {
        for (at, run, _) in cohort.running() {
            let state = cohort.checkpoint(at)?;
            self.common.supply.save(run, state, unsaved);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    #[test]
    fn a_panic_leaves_no_memory_taken() {
        let budget = Budget::new(100);
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            let _memory = budget.take(60);
            panic!("on purpose");
        }));
        assert!(panicked.is_err());
        // It would wait for ever.
        drop(budget.take(100));
        assert_eq!(*budget.left.lock().unwrap(), 100);
    }
}
