//! Training one run on the CPU: a state that advances step by step, can be
//! saved and brought back at any step, and ends in a record.

use crate::batch::{Gather, Order, draw_change};
use crate::buffer::Buffer;
use crate::checkpoint::Checkpoint;
use crate::data::{Dataset, Examples};
use crate::fit::check_reach;
use crate::kernels::rowwise::Step;
use crate::kernels::{Isa, softmax};
use crate::net::{Descent, Learner, Mode, Model, Program, Use, Workspace};
use spec::{Augmentation, BatchSize, CurvePoint, Network, Outcome, Record, Run, Setting, Width};
use std::collections::TryReserveError;
use std::sync::Arc;
use std::time::{Duration, Instant};

pub use crate::fit::TrainError;
pub(crate) use crate::fit::check_fit;

/// Examples that an evaluation pushes through the network at a time.
const EVALUATION_BATCH: usize = 128;

/// Where a run stands.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Status {
    /// It has steps left.
    Running,
    /// It has ended so.
    Ended(Outcome),
}

/// The programs of a network at one batch size: runs that share them are a cohort.
#[derive(Debug)]
pub struct Compiled {
    setting: Arc<Setting>,
    width: Width,
    batch_size: BatchSize,
    network: Network,
    train: Program,
    evaluate: Program,
}

impl Compiled {
    /// Compiles what a run needs.
    pub fn new(run: &Run) -> Result<Self, TrainError> {
        let network = run.network()?;
        check_reach(&network, run, EVALUATION_BATCH)?;
        let program = |batch| Program::compile(&network, run.setting.scheme, batch);
        Ok(Self {
            setting: Arc::clone(&run.setting),
            width: run.width,
            batch_size: run.batch_size,
            train: program(run.batch_size.get() as usize),
            evaluate: program(EVALUATION_BATCH),
            network,
        })
    }

    /// Whether a run is of this network and batch size.
    pub fn fits(&self, run: &Run) -> bool {
        self.width == run.width && self.batch_size == run.batch_size && self.setting == run.setting
    }

    /// The network.
    pub fn network(&self) -> &Network {
        &self.network
    }

    /// The training program.
    pub fn program(&self) -> &Program {
        &self.train
    }

    /// Bytes that one run takes while it trains, without the data.
    pub fn bytes_per_run(&self) -> usize {
        // Weights, velocity, gradient.
        3 * 4 * self.train.weights().len()
            + Workspace::bytes(&self.train, Use::Training)
            + Workspace::bytes(&self.evaluate, Use::Evaluation)
    }
}

/// A run in training.
pub struct Training<'a> {
    run: &'a Run,
    data: &'a Dataset,
    programs: &'a Compiled,
    isa: Isa,
    model: Model,
    velocity: Buffer,
    gradients: Buffer,
    workspace: Workspace,
    evaluation: Workspace,
    order: Order,
    indices: Vec<u32>,
    labels: Vec<u16>,
    schedule: Vec<u64>,
    progress: Progress,
}

/// What has happened so far: with the values of the model, all that a resumed run needs.
#[derive(Debug, Clone, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Progress {
    /// Steps taken.
    pub step: u64,
    /// Evaluations so far.
    pub curve: Vec<CurvePoint>,
    /// Sum of the losses since the last evaluation.
    pub loss_sum: f64,
    /// Steps since the last evaluation.
    pub loss_count: u64,
    /// Time spent so far.
    pub spent: Duration,
}

/// Longer than any run takes: more than a century.
const LONGEST: Duration = Duration::from_secs(1 << 32);

impl Progress {
    /// Whether a run can have come so far and not have ended. A file that says otherwise is no
    /// state to go on from.
    pub fn is_within(&self, run: &Run) -> bool {
        self.step < run.steps && self.loss_count <= self.step && self.spent < LONGEST
    }
}

impl<'a> Training<'a> {
    /// A run before its first step.
    pub fn new(
        run: &'a Run,
        data: &'a Dataset,
        programs: &'a Compiled,
        isa: Isa,
    ) -> Result<Self, TrainError> {
        let (batch, examples) = (run.batch_size.get(), data.train.labels.len());
        check_fit(batch, examples, programs.network.input, data.shape)?;
        let (train, evaluate) = (&programs.train, &programs.evaluate);
        let short = |_: TryReserveError| TrainError::TooLittleMemory {
            width: run.width,
            batch: run.batch_size,
            mebibytes: programs.bytes_per_run() >> 20,
        };
        let (setting, weights) = (&run.setting, train.weights());
        let zeros = || Buffer::try_zeros(weights.len()).map_err(short);
        let workspace = |program, purpose| Workspace::new(program, isa, purpose).map_err(short);
        Ok(Self {
            run,
            data,
            programs,
            isa,
            velocity: zeros()?,
            gradients: zeros()?,
            workspace: workspace(train, Use::Training)?,
            evaluation: workspace(evaluate, Use::Evaluation)?,
            // Last, because it takes time to draw them.
            model: Model {
                weights: weights
                    .initial(setting.scheme, setting.weight_scale, run.seed)
                    .map_err(short)?,
                statistics: train.initial_statistics(),
            },
            order: Order::new(run.seed, examples as u32, batch),
            indices: vec![0; batch as usize],
            labels: vec![0; batch as usize],
            schedule: run.setting.evaluation.schedule(run.steps),
            progress: Progress::default(),
        })
    }

    /// What has happened so far.
    pub fn progress(&self) -> &Progress {
        &self.progress
    }

    /// The values of the network.
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// The activations of the last step.
    pub fn workspace(&self) -> &Workspace {
        &self.workspace
    }

    /// Labels of the last step's batch.
    pub fn labels(&self) -> &[u16] {
        &self.labels
    }

    /// The state to save.
    pub fn checkpoint(&self) -> Checkpoint {
        Checkpoint {
            run: self.run.id(),
            device: device_name(self.isa),
            model: self.model.clone(),
            velocity: self.velocity.clone(),
            progress: self.progress.clone(),
        }
    }

    /// Goes on from a saved state of this run. One that does not fit is left aside.
    pub fn restore(&mut self, saved: Checkpoint) {
        let fits = saved.fits(self.model.weights.len(), self.model.statistics.len())
            && saved.progress.is_within(self.run);
        if fits && saved.continues(self.run.id(), &device_name(self.isa)) {
            self.model = saved.model;
            self.velocity = saved.velocity;
            self.progress = saved.progress;
        }
    }

    /// One step of the descent; its loss, before the update.
    pub fn step(&mut self) -> f64 {
        let mut indices = std::mem::take(&mut self.indices);
        self.order.batch(self.progress.step, &mut indices);
        self.load(&indices);
        self.indices = indices;
        let loss = self.descend();
        self.progress.step += 1;
        self.progress.loss_sum += loss;
        self.progress.loss_count += 1;
        loss
    }

    /// Puts the batch of these examples into the workspace.
    fn load(&mut self, indices: &[u32]) {
        let gather = Gather::new(self.isa, self.programs.train.input(), self.data);
        let rule = self.run.setting.regularizers.augmentation;
        let inputs = self.workspace.input();
        for (place, index) in indices.iter().enumerate() {
            let index = *index as usize;
            self.labels[place] = self.data.train.labels[index];
            if rule == Augmentation::default() {
                gather.put(inputs, place, &self.data.train, index);
            } else {
                let change = draw_change(rule, self.run.seed, self.progress.step, place);
                gather.put_changed(inputs, place, &self.data.train, index, change);
            }
        }
    }

    /// Forward, backward and update on the batch in the workspace; its loss.
    fn descend(&mut self) -> f64 {
        let (program, n) = (&self.programs.train, self.labels.len());
        let mode = Mode::Training {
            seed: self.run.seed,
            step: self.progress.step,
        };
        self.workspace.forward(program, &mut self.model, mode, n);
        let (logits, gradient) = self.workspace.logits_and_gradient();
        let smoothing = self.run.setting.regularizers.label_smoothing as f32;
        let loss =
            softmax::cross_entropy(gradient, logits, &self.labels, program.classes(), smoothing);
        let optimizer = self.run.setting.optimizer;
        let step = Step {
            rule: optimizer.rule,
            learning_rate: self.run.learning_rate.get() as f32,
            momentum: optimizer.momentum.get() as f32,
        };
        let mut learner = Learner {
            weights: &mut self.model.weights,
            gradients: &mut self.gradients,
            descent: Some(Descent {
                velocity: &mut self.velocity,
                step,
            }),
        };
        self.workspace.backward(program, &mut learner, n);
        loss
    }

    /// Takes up to `steps` steps, with the evaluations that fall due.
    pub fn advance(&mut self, steps: u64) -> Status {
        let start = Instant::now();
        let status = self.advance_until(self.progress.step.saturating_add(steps));
        self.progress.spent += start.elapsed();
        status
    }

    fn advance_until(&mut self, end: u64) -> Status {
        let end = end.min(self.run.steps);
        while self.progress.step < end {
            if !self.step().is_finite() {
                return Status::Ended(Outcome::Diverged {
                    step: self.progress.step,
                });
            }
            if self.schedule.binary_search(&self.progress.step).is_ok()
                && let Some(outcome) = self.look()
            {
                return Status::Ended(outcome);
            }
        }
        Status::Running
    }

    /// Evaluates, and judges whether the run ends here.
    fn look(&mut self) -> Option<Outcome> {
        let step = self.progress.step;
        let weights = self.model.weights.get();
        let mut values = weights.iter().chain(&self.model.statistics);
        if !values.all(|value| value.is_finite()) {
            return Some(Outcome::Diverged { step });
        }
        let data = self.data;
        let test_accuracy = self.accuracy(&data.test);
        let validation_accuracy = self.accuracy(&data.validation);
        let training_loss = self.progress.loss_sum / self.progress.loss_count as f64;
        let point = CurvePoint {
            step,
            training_loss: Some(training_loss),
            test_accuracy,
            validation_accuracy,
        };
        self.progress.curve.push(point);
        (self.progress.loss_sum, self.progress.loss_count) = (0.0, 0);
        let rule = self.run.setting.evaluation;
        rule.judge(step, self.run.steps, test_accuracy)
    }

    /// Share of examples classified right.
    pub fn accuracy(&mut self, examples: &Examples) -> f64 {
        let program = &self.programs.evaluate;
        let gather = Gather::new(self.isa, program.input(), self.data);
        let mut correct = 0;
        for (batch, labels) in examples.labels.chunks(EVALUATION_BATCH).enumerate() {
            for place in 0..labels.len() {
                let index = batch * EVALUATION_BATCH + place;
                gather.put(self.evaluation.input(), place, examples, index);
            }
            self.evaluation
                .forward(program, &mut self.model, Mode::Evaluation, labels.len());
            correct += softmax::count_correct(self.evaluation.logits(), labels, program.classes());
        }
        correct as f64 / examples.labels.len().max(1) as f64
    }

    /// The record of the run after it ended.
    pub fn record(&self, outcome: Outcome) -> Record {
        let Progress { curve, spent, .. } = &self.progress;
        let device = device_name(self.isa);
        Record::new(
            self.run,
            outcome,
            curve.clone(),
            spent.as_secs_f64(),
            device,
        )
    }
}

/// What records call this device.
pub fn device_name(isa: Isa) -> String {
    format!("cpu {isa}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use spec::Study;
    use std::path::Path;

    const STUDY: &str = r#"
[task]
dataset = "digits"
[family]
kind = "mlp"
hidden = [1]
widths = [8]
scheme = "ntk"
[search]
kind = "batch-size"
learning_rate = 1.0
batch_sizes = [16]
[time]
epochs = 1
"#;

    #[test]
    fn a_saved_state_that_cannot_be_is_left_aside() {
        let study = Study::parse("test", Path::new("test"), STUDY, &[]).unwrap();
        let run = &spec::plan(&study)[0];
        let (last, one) = (run.steps - 1, Duration::from_secs(1));
        let within = |step, loss_count, spent| {
            let progress = Progress {
                step,
                loss_count,
                spent,
                ..Progress::default()
            };
            progress.is_within(run)
        };
        assert!(within(0, 0, Duration::ZERO) && within(last, last, one));
        assert!(!within(last + 1, 0, one) && !within(u64::MAX, 0, one));
        assert!(!within(1, 2, one) && !within(1, 1, Duration::MAX));
    }
}
