//! Trainings that PyTorch did in double precision, and the same ones by the engine.
//!
//! `scripts/goldens/make.py` writes the files beside this one. Inputs, labels and
//! initial values are in none of them: both sides compute them by the formulas here.

use crate::support::{noise, put_input};
use engine::buffer::Buffer;
use engine::kernels::rowwise::{self, Step};
use engine::kernels::{Isa, softmax};
use engine::net::{Learner, Mode, Model, Program, Use, Workspace};
use serde::Deserialize;
use spec::family::{Family, Variant};
use spec::network::Role;
use spec::{LearningRate, Network, Optimizer, Parameter, Scheme, Shape, Width};
use std::path::Path;

pub const STEPS: u64 = 20;
const BATCH: usize = 8;
const EXAMPLES: usize = 24;
const CLASSES: usize = 10;
/// An evaluation's program may be larger than what is evaluated.
const EVALUATION_BATCH: usize = 32;

/// One case of a golden file.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Golden {
    pub name: String,
    pub recipe: Recipe,
    /// Loss of every step, before its update.
    pub losses: Vec<f64>,
    /// Loss over all examples after the last step, without regularizers.
    pub evaluation_loss: f64,
    /// Parameters in the network's order, then running statistics.
    pub tensors: Vec<Sketch>,
}

/// What is trained, and how.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recipe {
    pub family: Family,
    pub width: Width,
    pub input: Shape,
    pub scheme: Scheme,
    pub batch_norm: bool,
    pub dropout: f64,
    pub label_smoothing: f64,
    pub optimizer: Optimizer,
    pub learning_rate: LearningRate,
    /// Seed of the dropout masks.
    pub seed: u64,
    /// Number of the first step, for the dropout masks.
    pub first_step: u64,
}

/// What is kept of a tensor after the last step.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sketch {
    pub name: String,
    pub shape: Vec<usize>,
    /// Norm of the values.
    pub norm: f64,
    /// Norm of their change over the training.
    pub moved: f64,
    pub sum: f64,
    /// Σ noise·value, which no exchange of values leaves as it is.
    pub weighted_sum: f64,
    /// All values of a small tensor; of a larger one those at (7919·i + 13) mod size.
    pub sample: Vec<f64>,
}

/// The multilayer perceptrons.
pub fn mlp() -> Vec<Golden> {
    let names = ["standard", "ntk", "standard-heavy-ball", "ntk-plain"];
    read("mlp", &names)
}

/// The convolutional networks.
pub fn cnn() -> Vec<Golden> {
    let names = ["max-standard", "max-ntk", "average-standard", "average-ntk"];
    read("cnn", &names)
}

/// The Wide ResNets.
pub fn wrn() -> Vec<Golden> {
    let names = [
        "standard",
        "ntk",
        "norm-standard",
        "norm-ntk",
        "regularized-standard",
        "regularized-ntk",
    ];
    read("wrn", &names)
}

/// The cases of a file, which must be these.
fn read(file: &str, expected: &[&str]) -> Vec<Golden> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/goldens");
    let path = folder.join(file).with_extension("json");
    let text = std::fs::read_to_string(&path)
        .unwrap_or_else(|error| panic!("{file}: {error}; scripts/goldens/make.py writes it"));
    let cases: Vec<Golden> =
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{file}: {error}"));
    let names: Vec<&str> = cases.iter().map(|case| case.name.as_str()).collect();
    let expected: Vec<String> = expected
        .iter()
        .map(|name| format!("{file}-{name}"))
        .collect();
    assert_eq!(names, expected, "{file} holds other cases");
    for case in &cases {
        assert_eq!(case.losses.len() as u64, STEPS, "{}", case.name);
    }
    cases
}

impl Recipe {
    pub fn network(&self) -> Network {
        let variant = Variant {
            batch_norm: self.batch_norm,
            dropout: self.dropout,
        };
        self.family
            .network(self.width, variant, self.input, CLASSES)
            .unwrap()
    }

    /// Every parameter before the first step, in the network's order: uniform of
    /// variance 2/n (standard) or 2 (NTK), scales about 1 and shifts about 0.
    pub fn initial(&self) -> Vec<Vec<f32>> {
        let one = |(index, parameter): (usize, &Parameter)| {
            let spread = match self.scheme {
                Scheme::Standard => (24.0 / parameter.fan_in as f64).sqrt(),
                Scheme::Ntk => 24f64.sqrt(),
            };
            let value = |i| {
                let noise = noise(index as u64 + 1, i);
                (match parameter.role {
                    Role::Weight | Role::Bias => spread * noise,
                    Role::Scale => 1.0 + 0.5 * noise,
                    Role::Shift => 0.5 * noise,
                }) as f32
            };
            (0..parameter.size()).map(value).collect()
        };
        let parameters = self.network().parameters();
        parameters.iter().enumerate().map(one).collect()
    }

    /// One example, (channel, row, column): its class's pattern and some of its own.
    fn example(&self, example: usize) -> Vec<f64> {
        let (size, class) = (self.input.size(), usize::from(label(example)));
        let value = |i| 2.0 * noise(198, class * size + i) + 2.5 * noise(199, example * size + i);
        (0..size).map(value).collect()
    }
}

fn label(example: usize) -> u16 {
    (7 * example % CLASSES) as u16
}

/// Examples of a step's batch: all in turn, over and over.
fn batch(step: u64) -> impl Iterator<Item = usize> {
    (0..BATCH).map(move |place| (place + BATCH * step as usize) % EXAMPLES)
}

/// A recipe in training by the engine.
pub struct Descent<'a> {
    recipe: &'a Recipe,
    isa: Isa,
    program: Program,
    model: Model,
    velocity: Buffer,
    gradients: Buffer,
    workspace: Workspace,
    step: u64,
}

impl<'a> Descent<'a> {
    /// Before the first step, from these values of the parameters.
    pub fn new(recipe: &'a Recipe, isa: Isa, initial: &[Vec<f32>]) -> Self {
        let program = Program::compile(&recipe.network(), recipe.scheme, BATCH);
        let zeros = || Buffer::zeros(program.weights().len());
        let mut weights = zeros();
        for (place, values) in program.weights().places().iter().zip(initial) {
            place.put(weights.get_mut(), values);
        }
        Self {
            recipe,
            isa,
            model: Model {
                weights,
                statistics: program.initial_statistics(),
            },
            velocity: zeros(),
            gradients: zeros(),
            workspace: Workspace::new(&program, isa, Use::Training).unwrap(),
            program,
            step: 0,
        }
    }

    /// One step, each parameter at its own rate; the loss before it.
    pub fn step(&mut self, rate: impl Fn(&Parameter) -> f64) -> f64 {
        let Self {
            program, workspace, ..
        } = self;
        for (place, example) in batch(self.step).enumerate() {
            let values = self.recipe.example(example);
            put_input(workspace.input(), program.input(), place, &values);
        }
        let labels: Vec<u16> = batch(self.step).map(label).collect();
        let mode = Mode::Training {
            seed: self.recipe.seed,
            step: self.recipe.first_step + self.step,
        };
        workspace.forward(program, &mut self.model, mode, BATCH);
        let (logits, gradient) = workspace.logits_and_gradient();
        let smoothing = self.recipe.label_smoothing as f32;
        let loss = softmax::cross_entropy(gradient, logits, &labels, CLASSES, smoothing);
        let mut learner = Learner {
            weights: &mut self.model.weights,
            gradients: &mut self.gradients,
            descent: None,
        };
        workspace.backward(program, &mut learner, BATCH);
        self.update(rate);
        self.step += 1;
        loss
    }

    fn update(&mut self, rate: impl Fn(&Parameter) -> f64) {
        let places = self.program.weights().places();
        let ends = places[1..].iter().map(|place| place.start);
        let ends = ends.chain([self.program.weights().len()]);
        for (place, end) in places.iter().zip(ends) {
            let step = Step {
                rule: self.recipe.optimizer.rule,
                learning_rate: rate(&place.parameter) as f32,
                momentum: self.recipe.optimizer.momentum.get() as f32,
            };
            let range = place.start..end;
            rowwise::update(
                self.isa,
                &mut self.model.weights.get_mut()[range.clone()],
                &mut self.velocity.get_mut()[range.clone()],
                &self.gradients.get()[range],
                step,
            );
        }
    }

    /// Loss over all examples, without regularizers.
    pub fn evaluation_loss(&mut self) -> f64 {
        let (network, scheme) = (self.recipe.network(), self.recipe.scheme);
        let program = Program::compile(&network, scheme, EVALUATION_BATCH);
        let mut workspace = Workspace::new(&program, self.isa, Use::Evaluation).unwrap();
        for example in 0..EXAMPLES {
            let values = self.recipe.example(example);
            put_input(workspace.input(), program.input(), example, &values);
        }
        workspace.forward(&program, &mut self.model, Mode::Evaluation, EXAMPLES);
        let labels: Vec<u16> = (0..EXAMPLES).map(label).collect();
        let mut gradient = vec![0.0; EXAMPLES * CLASSES];
        softmax::cross_entropy(&mut gradient, workspace.logits(), &labels, CLASSES, 0.0)
    }

    /// Every parameter in the network's order, then every running mean and variance.
    pub fn tensors(&self) -> Vec<Tensor> {
        let weights = self.model.weights.get();
        let places = self.program.weights().places().iter();
        let parameters = places.map(|place| Tensor {
            name: place.parameter.name.clone(),
            shape: place.parameter.shape.clone(),
            values: place.read(weights).into_iter().map(f64::from).collect(),
        });
        let running = self.program.statistics().iter().flat_map(|norm| {
            let tensor = |what: &str, start: usize| Tensor {
                name: format!("{}.{what}", norm.name),
                shape: vec![norm.channels],
                values: self.model.statistics[start..][..norm.channels]
                    .iter()
                    .map(|value| f64::from(*value))
                    .collect(),
            };
            [
                tensor("mean", norm.start),
                tensor("variance", norm.start + norm.channels),
            ]
        });
        parameters.chain(running).collect()
    }
}

/// A tensor of the engine, as the outside knows it.
#[derive(Debug, Clone)]
pub struct Tensor {
    pub name: String,
    pub shape: Vec<usize>,
    pub values: Vec<f64>,
}
