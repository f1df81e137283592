//! What a cohort needs, before there is one: launches, memory, and how many runs fit.

use super::args::{Address, Replica};
use super::blueprint::Blueprint;
use super::data::DeviceData;
use super::emit::{self, Common, Part, Setup};
use super::error::CudaError;
use super::launch::{Launch, Memory, Tables};
use super::product::{Precision, Units, array};
use super::resident::{Limits, Resident};
use crate::train::TrainError;
use spec::{Parameter, Run};

/// Most images of an evaluation at a time.
const EVALUATION_BATCH: usize = 1024;
const LEAST_EVALUATION_BATCH: usize = 16;
/// Most initial weights that are drawn at a time.
const DRAWN_AT_A_TIME: usize = 1 << 20;
/// Bytes that an evaluation's activations should stay under.
const EVALUATION_BYTES: usize = 2 << 30;

/// A network at one batch size, ready for cohorts of any size.
pub struct CohortPlan {
    pub(super) print: Blueprint,
    pub(super) batch: usize,
    pub(super) precision: Precision,
    limits: Limits,
    /// One of its runs.
    pub(super) first: Run,
}

/// How a cohort takes its steps.
pub(super) enum Stepping {
    /// One after the other, each by many kernels.
    Layered(Vec<Launch>),
    /// Many at a time, by one kernel.
    Resident(Box<Resident>),
}

/// All launches of a cohort, and what they need.
pub(super) struct Emitted {
    pub step: Stepping,
    pub evaluation: Vec<Launch>,
    pub common: Common,
    /// Bytes.
    pub memory: usize,
    pub tables: Vec<i32>,
}

impl Emitted {
    /// Every launch.
    pub fn launches(&self) -> Vec<Launch> {
        let mut all = match &self.step {
            Stepping::Layered(launches) => launches.clone(),
            Stepping::Resident(resident) => resident.launches(1).to_vec(),
        };
        all.extend(self.evaluation.iter().cloned());
        all
    }
}

/// Refuses what kernels cannot count in 32 bits.
fn addressable(counts: impl IntoIterator<Item = usize>) -> Result<(), CudaError> {
    let most = i32::MAX as usize;
    match counts.into_iter().find(|floats| *floats > most) {
        Some(floats) => Err(CudaError::TooLargeLayer { floats }),
        None => Ok(()),
    }
}

impl CohortPlan {
    /// Plans for runs like this one, on GPUs with these limits.
    pub fn new(run: &Run, precision: Precision, limits: Limits) -> Result<Self, CudaError> {
        let network = run.network().map_err(TrainError::from)?;
        // Before it is laid out, which takes memory for every weight.
        addressable(network.parameters().iter().map(Parameter::size))?;
        let print = Blueprint::new(&network, run.setting.scheme, run.setting.weight_scale);
        let batch = run.batch_size.get() as usize;
        addressable(print.layer_weights())?;
        let images = batch.max(LEAST_EVALUATION_BATCH);
        addressable(print.planes.iter().map(|plane| images * plane.image()))?;
        Ok(Self {
            print,
            batch,
            precision,
            limits,
            first: run.clone(),
        })
    }

    pub(super) fn weights_stride(&self) -> usize {
        self.print.weights.len().next_multiple_of(4)
    }

    pub(super) fn statistics_len(&self) -> usize {
        self.print
            .norm_channels
            .iter()
            .map(|channels| 2 * channels)
            .sum()
    }

    fn evaluation_batch(&self, replicas: usize, parts: [Part; 2]) -> usize {
        let image: usize = self
            .print
            .planes
            .iter()
            .map(|plane| 4 * plane.image())
            .sum();
        let most = parts
            .iter()
            .map(|part| part.examples)
            .max()
            .unwrap_or(1)
            .max(1);
        (EVALUATION_BYTES / (image * replicas))
            .clamp(LEAST_EVALUATION_BATCH, EVALUATION_BATCH)
            .min(most)
    }

    pub(super) fn emit(
        &self,
        replicas: usize,
        data: &DeviceData,
        base: Address,
        tables: Address,
    ) -> Emitted {
        let mut memory = Memory::at(base);
        let mut tables = Tables::at(tables);
        let words = size_of::<Replica>() / 4;
        let stride = self.weights_stride();
        let common = Common {
            replicas: memory.take(words * replicas),
            weights: array(memory.take(stride * replicas), stride),
            velocity: memory.take(stride * replicas),
            statistics: array(
                memory.take(self.statistics_len() * replicas),
                self.statistics_len(),
            ),
        };
        let setup = Setup {
            print: &self.print,
            replicas,
            units: Units {
                precision: self.precision,
                groups: self.limits.groups,
                processors: self.limits.processors,
            },
            optimizer: self.first.setting.optimizer,
            regularizers: self.first.setting.regularizers,
            common,
        };
        let (train, batch) = (data.train, self.batch);
        let step = match Resident::fit(&setup, train, batch, &self.limits, &mut memory) {
            Some(resident) => Stepping::Resident(Box::new(resident)),
            None => {
                let step = emit::training_step(setup, train, batch, &mut memory, &mut tables);
                Stepping::Layered(step)
            }
        };
        let parts = [data.test, data.validation];
        let images = self.evaluation_batch(replicas, parts);
        let evaluation = emit::evaluation(setup, parts, images, &mut memory, &mut tables);
        Emitted {
            step,
            evaluation,
            common,
            memory: memory.bytes(),
            tables: tables.values,
        }
    }

    /// Initial weights that are drawn at a time.
    pub(super) fn drawn_at_a_time(&self) -> usize {
        self.print.weights.len().clamp(1, DRAWN_AT_A_TIME)
    }

    /// Bytes of device memory that a cohort of so many runs takes, most of them until it ends. While
    /// initial weights are drawn, two tables by weight and one by parameter are there besides.
    pub fn bytes(&self, replicas: usize, data: &DeviceData) -> usize {
        let emitted = self.emit(replicas, data, 0, 0);
        let drawing = 8 * (self.drawn_at_a_time() + self.print.weights.deviation.len());
        emitted.memory + 4 * emitted.tables.len() + drawing
    }

    /// The largest cohort of at most `wanted` runs that stays under so many bytes.
    pub fn largest(&self, wanted: usize, data: &DeviceData, bytes: usize) -> usize {
        let mut fits = 0;
        let mut step = wanted.next_power_of_two();
        while step > 0 {
            if fits + step <= wanted && self.bytes(fits + step, data) <= bytes {
                fits += step;
            }
            step /= 2;
        }
        fits
    }
}
