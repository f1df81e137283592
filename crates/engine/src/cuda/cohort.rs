//! A cohort in training: runs of one network and batch size that take every step together.
//!
//! Each has its own seed, learning rate and end. A step is a captured graph, and so is an
//! evaluation; between them the host only reads how each replica stands.

use super::args::{Address, Array, CheckArgs, ExamplesArgs, InitialArgs, Replica};
use super::blueprint::Blueprint;
use super::device::Device;
use super::emit::{self, Common, Part, Setup};
use super::error::CudaError;
use super::launch::{Kernel, Launch, Memory, Source, Tables};
use super::product::{Precision, array};
use crate::buffer::Buffer;
use crate::checkpoint::Checkpoint;
use crate::data::{Dataset, Examples, Values};
use crate::net::Model;
use crate::train::{Progress, TrainError, judge};
use bytemuck::Pod;
use cudarc::driver::{CudaGraph, CudaSlice, CudaStream, DevicePtr, DeviceRepr, ValidAsZeroBits};
use spec::{CurvePoint, Outcome, Record, Run};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Steps of the longer graph: few launches for the host, and still often a chance to stop.
const STEPS_PER_GRAPH: u64 = 16;
/// Most images of an evaluation at a time.
const EVALUATION_BATCH: usize = 1024;
/// Bytes that an evaluation's activations should stay under.
const EVALUATION_BYTES: usize = 2 << 30;

// SAFETY: plain numbers, for which all bits 0 are a value.
unsafe impl DeviceRepr for Replica {}
// SAFETY: as above.
unsafe impl ValidAsZeroBits for Replica {}

/// A data set on a device, as bytes where it was bytes.
pub struct DeviceData {
    train: Part,
    validation: Part,
    test: Part,
    shape: spec::Shape,
    _bytes: Vec<CudaSlice<u8>>,
    _floats: Vec<CudaSlice<f32>>,
    _labels: Vec<CudaSlice<i32>>,
}

fn address<T>(slice: &CudaSlice<T>, stream: &CudaStream) -> Address {
    slice.device_ptr(stream).0
}

impl DeviceData {
    /// Copies a data set to a device.
    pub fn new(data: &Dataset, device: &Device) -> Result<Self, CudaError> {
        let stream = device.stream()?;
        let (mut bytes, mut floats, mut labels) = (Vec::new(), Vec::new(), Vec::new());
        let rule = [&data.normalization.offset, &data.normalization.factor];
        for values in rule {
            floats.push(stream.clone_htod(values)?);
        }
        let [offset, factor] = [&floats[0], &floats[1]].map(|slice| address(slice, &stream));
        let mut part = |examples: &Examples| -> Result<Part, CudaError> {
            let own: Vec<i32> = examples
                .labels
                .iter()
                .map(|label| i32::from(*label))
                .collect();
            // Nothing can be copied that is not there.
            labels.push(stream.clone_htod(if own.is_empty() { &[0][..] } else { &own })?);
            let mut args = ExamplesArgs {
                labels: labels.last().map_or(0, |slice| address(slice, &stream)),
                offset,
                factor,
                height: data.shape.height as i32,
                width: data.shape.width as i32,
                channels: data.shape.channels as i32,
                ..ExamplesArgs::default()
            };
            match &examples.values {
                Values::Bytes(values) if !values.is_empty() => {
                    let slice = stream.clone_htod(values)?;
                    args.bytes = address(&slice, &stream);
                    bytes.push(slice);
                }
                Values::Floats(values) if !values.is_empty() => {
                    let slice = stream.clone_htod(values)?;
                    args.floats = address(&slice, &stream);
                    floats.push(slice);
                }
                Values::Bytes(_) | Values::Floats(_) => {}
            }
            Ok(Part {
                args,
                examples: examples.len(),
            })
        };
        let (train, validation, test) = (
            part(&data.train)?,
            part(&data.validation)?,
            part(&data.test)?,
        );
        stream.synchronize()?;
        Ok(Self {
            train,
            validation,
            test,
            shape: data.shape,
            _bytes: bytes,
            _floats: floats,
            _labels: labels,
        })
    }
}

/// A network at one batch size, ready for cohorts of any size.
pub struct CohortPlan {
    print: Blueprint,
    batch: usize,
    precision: Precision,
    first: Run,
}

/// All launches of a cohort, and what they need.
struct Emitted {
    step: Vec<Launch>,
    evaluation: Vec<Launch>,
    common: Common,
    memory: usize,
    tables: Vec<i32>,
}

impl CohortPlan {
    /// Plans for runs like this one.
    pub fn new(run: &Run, precision: Precision) -> Result<Self, TrainError> {
        let network = run.network()?;
        Ok(Self {
            print: Blueprint::new(&network, run.setting.scheme, run.setting.weight_scale),
            batch: run.batch_size.get() as usize,
            precision,
            first: run.clone(),
        })
    }

    fn weights_stride(&self) -> usize {
        self.print.weights.len().next_multiple_of(4)
    }

    fn statistics_len(&self) -> usize {
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
            .clamp(16, EVALUATION_BATCH)
            .min(most)
    }

    fn emit(&self, replicas: usize, data: &DeviceData, base: Address, tables: Address) -> Emitted {
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
            precision: self.precision,
            optimizer: self.first.setting.optimizer,
            regularizers: self.first.setting.regularizers,
            common,
        };
        let step = emit::training_step(setup, data.train, self.batch, &mut memory, &mut tables);
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

    /// Bytes of device memory that a cohort of so many runs takes.
    pub fn bytes(&self, replicas: usize, data: &DeviceData) -> usize {
        let emitted = self.emit(replicas, data, 0, 0);
        emitted.memory + 4 * emitted.tables.len()
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

/// One run of a cohort.
struct Member {
    run: Run,
    progress: Progress,
    outcome: Option<Outcome>,
}

/// A cohort on a device.
pub struct Cohort<'a> {
    device: &'a Device,
    stream: Arc<CudaStream>,
    plan: &'a CohortPlan,
    device_name: String,
    members: Vec<Member>,
    common: Common,
    memory: CudaSlice<u8>,
    _tables: CudaSlice<i32>,
    one_step: CudaGraph,
    many_steps: CudaGraph,
    evaluation: CudaGraph,
    launches: Vec<Launch>,
    check: Vec<Launch>,
    schedule: Vec<u64>,
    /// Test and validation examples.
    parts: [usize; 2],
    step: u64,
}

impl<'a> Cohort<'a> {
    /// A cohort before its first step, or where its saved states stand: all at the same step.
    pub fn new(
        device: &'a Device,
        data: &DeviceData,
        plan: &'a CohortPlan,
        runs: Vec<(Run, Option<Checkpoint>)>,
    ) -> Result<Self, CudaError> {
        let (batch, examples) = (plan.batch as u32, data.train.examples);
        if plan.batch > examples {
            return Err(TrainError::BatchTooLarge { batch, examples }.into());
        }
        let (planned, found) = (plan.print.planes[0].shape.size(), data.shape.size());
        if planned != found {
            return Err(TrainError::OtherData { planned, found }.into());
        }
        let _alone = device.setting_up();
        let stream = device.stream()?;
        let replicas = runs.len();
        let sizes = plan.emit(replicas, data, 0, 0);
        let memory = stream.alloc_zeros::<u8>(sizes.memory)?;
        let mut tables = stream.alloc_zeros::<i32>(sizes.tables.len() + 4)?;
        let emitted = plan.emit(
            replicas,
            data,
            address(&memory, &stream),
            address(&tables, &stream),
        );
        stream.memcpy_htod(&emitted.tables, &mut tables.slice_mut(4..))?;
        let graph = |launches: &[Launch], times| {
            let graph = device.graph(&stream, launches, times)?;
            graph.ok_or(CudaError::EmptyGraph)
        };
        let mut cohort = Self {
            one_step: graph(&emitted.step, 1)?,
            many_steps: graph(&emitted.step, STEPS_PER_GRAPH as usize)?,
            evaluation: graph(&emitted.evaluation, 1)?,
            check: check_launches(plan, &emitted.common, replicas),
            launches: emitted.step,
            schedule: plan.first.setting.evaluation.schedule(plan.first.steps),
            device_name: device_name(device, plan.precision),
            device,
            plan,
            members: runs
                .iter()
                .map(|(run, saved)| member(run, saved.as_ref()))
                .collect(),
            common: emitted.common,
            memory,
            _tables: tables,
            parts: [data.test.examples, data.validation.examples],
            stream,
            step: 0,
        };
        cohort.device.prepare(cohort.check.iter())?;
        cohort.begin(runs.into_iter().map(|(_, saved)| saved))?;
        Ok(cohort)
    }

    /// Where a buffer lies in the cohort's memory, in bytes.
    fn offset(&self, buffer: Address) -> usize {
        (buffer - address(&self.memory, &self.stream)) as usize
    }

    fn upload<T: Pod>(&mut self, buffer: Address, values: &[T]) -> Result<(), CudaError> {
        let (start, bytes) = (self.offset(buffer), bytemuck::cast_slice::<T, u8>(values));
        if !bytes.is_empty() {
            let mut to = self.memory.slice_mut(start..start + bytes.len());
            self.stream.memcpy_htod(bytes, &mut to)?;
        }
        Ok(())
    }

    fn download<T: Pod>(&self, buffer: Address, count: usize) -> Result<Vec<T>, CudaError> {
        let mut values = vec![T::zeroed(); count];
        let start = self.offset(buffer);
        let bytes = bytemuck::cast_slice_mut::<T, u8>(&mut values);
        if !bytes.is_empty() {
            let from = self.memory.slice(start..start + bytes.len());
            self.stream.memcpy_dtoh(&from, bytes)?;
            self.stream.synchronize()?;
        }
        Ok(values)
    }

    /// Weights, statistics and counters as each run begins or goes on.
    fn begin(&mut self, saved: impl Iterator<Item = Option<Checkpoint>>) -> Result<(), CudaError> {
        self.step = self.members[0].progress.step;
        self.upload_replicas()?;
        self.draw_weights()?;
        let norms = &self.plan.print.norm_channels;
        let one: Vec<f32> = norms
            .iter()
            .flat_map(|n| [vec![0.0; *n], vec![1.0; *n]].concat())
            .collect();
        self.upload(
            self.common.statistics.values,
            &one.repeat(self.members.len()),
        )?;
        for (at, saved) in saved.enumerate() {
            if let Some(saved) = saved {
                let (weights, velocity, statistics) = self.addresses(at);
                self.upload(weights, saved.model.weights.get())?;
                self.upload(velocity, saved.velocity.get())?;
                self.upload(statistics, &saved.model.statistics)?;
            }
        }
        Ok(())
    }

    /// Where weights, velocity and statistics of a member lie.
    fn addresses(&self, at: usize) -> (Address, Address, Address) {
        let Common {
            weights,
            velocity,
            statistics,
            ..
        } = self.common;
        let of = |start: Address, stride: i64| start + 4 * at as u64 * stride as u64;
        (
            of(weights.values, weights.replica),
            of(velocity, weights.replica),
            of(statistics.values, statistics.replica),
        )
    }

    fn draw_weights(&mut self) -> Result<(), CudaError> {
        let weights = &self.plan.print.weights;
        let parameter = self.stream.clone_htod(&weights.parameter)?;
        let index = self.stream.clone_htod(&weights.index)?;
        let deviation = self.stream.clone_htod(&weights.deviation)?;
        let args = InitialArgs {
            weights: self.common.weights,
            replicas: self.common.replicas,
            parameter: address(&parameter, &self.stream),
            index: address(&index, &self.stream),
            deviation: address(&deviation, &self.stream),
            count: weights.len() as i64,
        };
        let grid = [weights.len().div_ceil(256), 1, self.members.len()];
        let kernel = Kernel::plain(Source::Weights, "initial_weights");
        let launch = Launch::new(kernel, grid, 256, &args);
        self.device.launch(&self.stream, &[launch])?;
        self.stream.synchronize()?;
        Ok(())
    }

    fn upload_replicas(&mut self) -> Result<(), CudaError> {
        let replicas: Vec<Replica> = self.members.iter().map(|m| m.replica(self.step)).collect();
        self.upload(self.common.replicas, &replicas)
    }

    /// Steps taken.
    pub fn step(&self) -> u64 {
        self.step
    }

    /// A run of the cohort.
    pub fn run(&self, at: usize) -> &Run {
        &self.members[at].run
    }

    /// What has happened to a run of the cohort.
    pub fn progress(&self, at: usize) -> &Progress {
        &self.members[at].progress
    }

    /// Runs that have not ended.
    pub fn running(&self) -> impl Iterator<Item = (usize, &Run, &Progress)> {
        let members = self.members.iter().enumerate();
        let running = members.filter(|(_, member)| member.outcome.is_none());
        running.map(|(at, member)| (at, &member.run, &member.progress))
    }

    /// Takes up to `most` steps, up to the next evaluation, with it; which runs ended, and how.
    pub fn advance(&mut self, most: u64) -> Result<Vec<(usize, Outcome)>, CudaError> {
        let start = Instant::now();
        let under_way: Vec<usize> = self.running().map(|(at, ..)| at).collect();
        let due = self.schedule.partition_point(|step| *step <= self.step);
        let next = self
            .schedule
            .get(due)
            .copied()
            .unwrap_or(self.plan.first.steps);
        let until = next.min(self.step.saturating_add(most.max(1)));
        self.launch_steps(until - self.step)?;
        let before = std::mem::replace(&mut self.step, until);
        let replicas: Vec<Replica> = self.download(self.common.replicas, self.members.len())?;
        let mut ended = Vec::new();
        for (at, (member, replica)) in self.members.iter_mut().zip(&replicas).enumerate() {
            if member.outcome.is_none() {
                member.progress.step = until;
                member.progress.loss_count += until - before;
                member.progress.loss_sum = replica.loss_sum;
                if replica.diverged_at != 0 {
                    member.progress.step = replica.diverged_at;
                    ended.push((
                        at,
                        Outcome::Diverged {
                            step: replica.diverged_at,
                        },
                    ));
                }
            }
        }
        self.end(&ended);
        if until == next && self.running().next().is_some() {
            ended.extend(self.look()?);
        }
        for at in under_way {
            self.members[at].progress.spent += start.elapsed();
        }
        Ok(ended)
    }

    fn launch_steps(&self, steps: u64) -> Result<(), CudaError> {
        for _ in 0..steps / STEPS_PER_GRAPH {
            self.many_steps.launch()?;
        }
        for _ in 0..steps % STEPS_PER_GRAPH {
            self.one_step.launch()?;
        }
        Ok(())
    }

    fn end(&mut self, ended: &[(usize, Outcome)]) {
        for (at, outcome) in ended {
            self.members[*at].outcome = Some(*outcome);
        }
    }

    /// Evaluates, and judges which runs end here.
    fn look(&mut self) -> Result<Vec<(usize, Outcome)>, CudaError> {
        self.upload_replicas()?;
        self.device.launch(&self.stream, &self.check)?;
        self.evaluation.launch()?;
        let replicas: Vec<Replica> = self.download(self.common.replicas, self.members.len())?;
        let (step, parts) = (self.step, self.parts);
        let mut ended = Vec::new();
        for (at, (member, replica)) in self.members.iter_mut().zip(&replicas).enumerate() {
            if member.outcome.is_some() {
                continue;
            }
            if replica.diverged_at != 0 {
                ended.push((at, Outcome::Diverged { step }));
                continue;
            }
            let share =
                |which: usize| f64::from(replica.correct[which]) / parts[which].max(1) as f64;
            let (test_accuracy, validation_accuracy) = (share(0), share(1));
            let progress = &mut member.progress;
            progress.curve.push(CurvePoint {
                step,
                training_loss: progress.loss_sum / progress.loss_count as f64,
                test_accuracy,
                validation_accuracy,
            });
            (progress.loss_sum, progress.loss_count) = (0.0, 0);
            ended.extend(judge(&member.run, step, test_accuracy).map(|outcome| (at, outcome)));
        }
        self.end(&ended);
        self.upload_replicas()?;
        Ok(ended)
    }

    /// Seconds that each kernel of a step takes on its own, mean of several launches in a row.
    pub fn profile(&mut self) -> Result<Vec<(&Launch, f64)>, CudaError> {
        const TIMES: usize = 20;
        let mut times = Vec::new();
        for launch in &self.launches {
            let one = std::slice::from_ref(launch);
            let graph = self.device.graph(&self.stream, one, TIMES)?;
            let graph = graph.ok_or(CudaError::EmptyGraph)?;
            graph.launch()?;
            self.stream.synchronize()?;
            let start = Instant::now();
            graph.launch()?;
            self.stream.synchronize()?;
            times.push((launch, start.elapsed().as_secs_f64() / TIMES as f64));
        }
        Ok(times)
    }

    /// The state of a member, to save.
    pub fn checkpoint(&self, at: usize) -> Result<Checkpoint, CudaError> {
        let (weights, velocity, statistics) = self.addresses(at);
        let len = self.plan.weights_stride();
        let member = &self.members[at];
        Ok(Checkpoint {
            run: member.run.id(),
            device: self.device_name.clone(),
            model: Model {
                weights: Buffer::from_slice(&self.download::<f32>(weights, len)?),
                statistics: self.download(statistics, self.plan.statistics_len())?,
            },
            velocity: Buffer::from_slice(&self.download::<f32>(velocity, len)?),
            progress: member.progress.clone(),
        })
    }

    /// The record of a member that ended. Its time is its share of the cohort's.
    pub fn record(&self, at: usize, outcome: Outcome) -> Record {
        let Member { run, progress, .. } = &self.members[at];
        let seconds = progress.spent.as_secs_f64() / self.members.len() as f64;
        Record::new(
            run,
            outcome,
            progress.curve.clone(),
            seconds,
            self.device_name.clone(),
        )
    }
}

impl Member {
    fn replica(&self, step: u64) -> Replica {
        Replica {
            seed: self.run.seed,
            step,
            diverged_at: 0,
            loss_sum: self.progress.loss_sum,
            learning_rate: self.run.learning_rate.get() as f32,
            active: u32::from(self.outcome.is_none()),
            correct: [0; 2],
        }
    }
}

fn member(run: &Run, saved: Option<&Checkpoint>) -> Member {
    let fresh = Progress {
        step: 0,
        curve: Vec::new(),
        loss_sum: 0.0,
        loss_count: 0,
        spent: Duration::ZERO,
    };
    Member {
        run: run.clone(),
        progress: saved.map_or(fresh, |saved| saved.progress.clone()),
        outcome: None,
    }
}

fn check_launches(plan: &CohortPlan, common: &Common, replicas: usize) -> Vec<Launch> {
    let check = |values: Array, count: usize| {
        let args = CheckArgs {
            values,
            replicas: common.replicas,
            count: count as i64,
        };
        let kernel = Kernel::plain(Source::Weights, "check_finite");
        let blocks = count.div_ceil(256 * 16).clamp(1, 64);
        Launch::new(kernel, [blocks, 1, replicas], 256, &args)
    };
    let mut launches = vec![check(common.weights, plan.print.weights.len())];
    if plan.statistics_len() > 0 {
        launches.push(check(common.statistics, plan.statistics_len()));
    }
    launches
}

/// What records call this device.
pub fn device_name(device: &Device, precision: Precision) -> String {
    format!("cuda {} {precision}", device.name())
}
