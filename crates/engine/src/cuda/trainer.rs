//! Training what a supply gives, on one or several GPUs.
//!
//! Each GPU has a few workers, and each worker one cohort at a time on a stream of its own: while
//! one waits for its host, or its kernels do not fill the GPU, the others use it.

use super::cohort::{Cohort, CohortPlan, DeviceData, device_name};
use super::device::Device;
use super::error::CudaError;
use super::product::Precision;
use crate::checkpoint::Checkpoint;
use crate::data::Dataset;
use crate::pool::Supply;
use spec::Run;
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::{Mutex, PoisonError};
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
        let taking = Mutex::new(());
        std::thread::scope(|scope| {
            let mut threads = Vec::new();
            for (device, data) in self.devices.iter().zip(&placed) {
                let free = (device.free_bytes()? as f64 * MEMORY_SHARE) as usize;
                for _ in 0..WORKERS {
                    let worker = Worker {
                        device,
                        data,
                        precision: self.precision,
                        bytes: free / WORKERS,
                        supply,
                        taking: &taking,
                    };
                    threads.push(scope.spawn(move || worker.work()));
                }
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

/// Trains one cohort at a time.
struct Worker<'a> {
    device: &'a Device,
    data: &'a DeviceData,
    precision: Precision,
    /// Memory that its cohort may take.
    bytes: usize,
    supply: &'a dyn Supply,
    /// Held while a cohort is gathered: two workers would share out what belongs together.
    taking: &'a Mutex<()>,
}

impl Worker<'_> {
    fn work(&self) -> Result<(), CudaError> {
        while let Some((plan, runs)) = self.gather()? {
            for cohort in self.by_step(runs) {
                self.train(&plan, cohort)?;
            }
        }
        Ok(())
    }

    /// The next run and those that can train with it, as many as memory allows.
    fn gather(&self) -> Result<Option<(CohortPlan, Vec<Run>)>, CudaError> {
        let _alone = self.taking.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(first) = self.supply.take() else {
            return Ok(None);
        };
        let plan = CohortPlan::new(&first, self.precision)?;
        let most = plan.largest(MOST_RUNS, self.data, self.bytes);
        if most == 0 {
            return Err(CudaError::TooLittleMemory {
                needed: plan.bytes(1, self.data) >> 20,
                free: self.bytes >> 20,
            });
        }
        let mut runs = vec![first];
        runs.extend(self.supply.take_alike(&runs[0], most - 1));
        Ok(Some((plan, runs)))
    }

    /// Runs that were saved at different steps cannot take theirs together.
    fn by_step(&self, runs: Vec<Run>) -> impl Iterator<Item = Vec<(Run, Option<Checkpoint>)>> {
        let mut steps: BTreeMap<u64, Vec<(Run, Option<Checkpoint>)>> = BTreeMap::new();
        for run in runs {
            let saved = self.supply.resume(&run);
            let step = saved.as_ref().map_or(0, |saved| saved.progress.step);
            steps.entry(step).or_default().push((run, saved));
        }
        steps.into_values()
    }

    fn train(
        &self,
        plan: &CohortPlan,
        runs: Vec<(Run, Option<Checkpoint>)>,
    ) -> Result<(), CudaError> {
        let mut cohort = Cohort::new(self.device, self.data, plan, runs)?;
        let mut stride = 16;
        let mut saved = Instant::now();
        while cohort.running().next().is_some() {
            let start = Instant::now();
            for (at, outcome) in cohort.advance(stride)? {
                let record = cohort.record(at, outcome);
                self.supply.ended(cohort.run(at), record);
            }
            let mut stop = false;
            for (_, run, progress) in cohort.running() {
                stop |= self.supply.advanced(run, progress) == ControlFlow::Break(());
            }
            if stop || self.supply.wants_checkpoint(saved.elapsed()) {
                self.save(&cohort)?;
                saved = Instant::now();
            }
            if stop {
                return Ok(());
            }
            // As many steps as fit into the reporting time, at most twice as many as before.
            let took = start.elapsed().as_secs_f64().max(1e-9);
            let fitting = stride as f64 * REPORT_EVERY.as_secs_f64() / took;
            stride = (fitting as u64).clamp(16, 2 * stride);
        }
        Ok(())
    }

    fn save(&self, cohort: &Cohort<'_>) -> Result<(), CudaError> {
        for (at, run, _) in cohort.running() {
            self.supply.save(run, cohort.checkpoint(at)?);
        }
        Ok(())
    }
}
