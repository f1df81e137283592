//! A cohort in training: runs of one network and batch size that take every step together.
//!
//! Each has its own seed, learning rate and end. A step is a captured graph, and so is an
//! evaluation; between them the host only reads how each replica stands.

use super::args::{Address, Array, CheckArgs, InitialArgs, Replica};
use super::data::DeviceData;
use super::device::{Device, address};
use super::emit::Common;
use super::error::CudaError;
use super::launch::{Kernel, Launch, Source};
use super::plan::{CohortPlan, Stepping};
use super::product::Precision;
use super::resident::Resident;
use crate::buffer::Buffer;
use crate::checkpoint::Checkpoint;
use crate::net::Model;
use crate::train::{Progress, check_fit, judge};
use bytemuck::Pod;
use cudarc::driver::{CudaGraph, CudaSlice, CudaStream};
use spec::{CurvePoint, Outcome, Record, Run};
use std::sync::Arc;
use std::time::Instant;

/// Steps of the longer graph: few launches for the host, and still often a chance to stop.
const STEPS_PER_GRAPH: u64 = 16;
/// One run of a cohort.
struct Member {
    run: Run,
    progress: Progress,
    outcome: Option<Outcome>,
}

/// How the cohort takes its steps.
enum Steps {
    Layered {
        one: CudaGraph,
        many: CudaGraph,
        launches: Vec<Launch>,
    },
    Resident(Box<Resident>),
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
    steps: Steps,
    evaluation: CudaGraph,
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
        let planned = plan.print.planes[0].shape;
        check_fit(plan.batch as u32, data.train.examples, planned, data.shape)?;
        let replicas = runs.len();
        let sizes = plan.emit(replicas, data, 0, 0);
        let check = check_launches(plan, &sizes.common, replicas);
        device.compile(sizes.launches().iter().chain(&check))?;
        let _alone = device.setting_up();
        let stream = device.stream()?;
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
            steps: match emitted.step {
                Stepping::Resident(resident) => {
                    device.load_all(&resident.launches(1))?;
                    Steps::Resident(resident)
                }
                Stepping::Layered(launches) => Steps::Layered {
                    one: graph(&launches, 1)?,
                    many: graph(&launches, STEPS_PER_GRAPH as usize)?,
                    launches,
                },
            },
            evaluation: graph(&emitted.evaluation, 1)?,
            check: check_launches(plan, &emitted.common, replicas),
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
        device.load_all(&cohort.check)?;
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
        match &self.steps {
            Steps::Layered { one, many, .. } => {
                for _ in 0..steps / STEPS_PER_GRAPH {
                    many.launch()?;
                }
                for _ in 0..steps % STEPS_PER_GRAPH {
                    one.launch()?;
                }
            }
            Steps::Resident(resident) => {
                let mut left = steps;
                while left > 0 {
                    let now = left.min(resident.most_steps());
                    self.device.launch(&self.stream, &resident.launches(now))?;
                    left -= now;
                }
            }
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
                training_loss: Some(progress.loss_sum / progress.loss_count as f64),
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

    /// Seconds that each kernel of a step takes on its own, mean of several launches in a row; a
    /// kernel that takes many steps, by the step.
    pub fn profile(&mut self) -> Result<Vec<(Launch, f64)>, CudaError> {
        const TIMES: usize = 20;
        let (launches, steps) = match &self.steps {
            Steps::Layered { launches, .. } => (launches.clone(), 1),
            Steps::Resident(resident) => {
                (resident.launches(STEPS_PER_GRAPH).to_vec(), STEPS_PER_GRAPH)
            }
        };
        let mut times = Vec::new();
        for launch in launches {
            let one = std::slice::from_ref(&launch);
            let graph = self.device.graph(&self.stream, one, TIMES)?;
            let graph = graph.ok_or(CudaError::EmptyGraph)?;
            graph.launch()?;
            self.stream.synchronize()?;
            let start = Instant::now();
            graph.launch()?;
            self.stream.synchronize()?;
            let taken = TIMES as f64 * steps as f64;
            times.push((launch, start.elapsed().as_secs_f64() / taken));
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
    Member {
        run: run.clone(),
        progress: saved.map_or_else(Progress::default, |saved| saved.progress.clone()),
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
