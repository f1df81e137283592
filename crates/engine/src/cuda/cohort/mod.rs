//! A cohort in training: runs of one network and batch size that take every step together.
//!
//! Each has its own seed, learning rate and end. A step is a captured graph, and so is an
//! evaluation; between them the host only reads how each replica stands.

mod state;
mod steps;

use super::args::{Array, CheckArgs, Replica};
use super::data::DeviceData;
use super::device::{Device, address};
use super::emit::Common;
use super::error::CudaError;
use super::launch::{Kernel, Launch, Source};
use super::plan::CohortPlan;
use super::product::Precision;
use crate::checkpoint::Checkpoint;
use crate::train::{Progress, check_fit};
use cudarc::driver::{CudaGraph, CudaSlice, CudaStream};
use spec::{CurvePoint, Outcome, Record, Run};
use std::sync::Arc;
use std::time::Instant;
pub(super) use steps::STEPS_PER_GRAPH;
use steps::{Steps, graph};

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
        let mut cohort = Self {
            steps: Steps::new(device, &stream, emitted.step)?,
            evaluation: graph(device, &stream, &emitted.evaluation, 1)?,
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
        self.steps
            .take(self.device, &self.stream, until - self.step)?;
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
        // A run may go on in other company: its share is taken here, not at its end. Those that have
        // ended have none.
        let share = start.elapsed() / under_way.len().max(1) as u32;
        for at in under_way {
            self.members[at].progress.spent += share;
        }
        Ok(ended)
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
            let rule = member.run.setting.evaluation;
            let outcome = rule.judge(step, member.run.steps, test_accuracy);
            ended.extend(outcome.map(|outcome| (at, outcome)));
        }
        self.end(&ended);
        self.upload_replicas()?;
        Ok(ended)
    }

    /// Seconds that each kernel of a step takes on its own.
    pub fn profile(&self) -> Result<Vec<(Launch, f64)>, CudaError> {
        self.steps.profile(self.device, &self.stream)
    }

    /// The record of a member that ended. Its time is its share of the cohort's.
    pub fn record(&self, at: usize, outcome: Outcome) -> Record {
        let Member { run, progress, .. } = &self.members[at];
        let seconds = progress.spent.as_secs_f64();
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
