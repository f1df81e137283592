//! A small network on a small batch, seen by the engine and by the reference.

use engine::buffer::Buffer;
use engine::kernels::{Isa, softmax};
use engine::net::{Learner, Mode, Model, Plane, Program, Use, Workspace};
use engine::reference::{self, Named};
use spec::{Layer, Network, Scheme, Shape};

pub struct Case {
    pub network: Network,
    pub scheme: Scheme,
    pub batch: usize,
    pub smoothing: f64,
}

/// Numbers in [−0.5, 0.5) that need no generator: a hash of their position.
pub fn noise(salt: u64, position: usize) -> f64 {
    let mut x = (position as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ salt;
    x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    ((x ^ (x >> 31)) >> 11) as f64 / (1u64 << 53) as f64 - 0.5
}

impl Case {
    pub fn new(input: Shape, layers: Vec<Layer>, scheme: Scheme) -> Self {
        let classes = 3;
        let readout = Layer::Dense {
            name: "readout".into(),
            units: classes,
            bias: true,
        };
        let layers = layers.into_iter().chain([readout]).collect();
        let network = Network::new(input, classes, layers).unwrap();
        Self {
            network,
            scheme,
            batch: 5,
            smoothing: 0.1,
        }
    }

    pub fn labels(&self) -> Vec<u16> {
        (0..self.batch).map(|i| (i * 7 % 3) as u16).collect()
    }

    /// Learned values of a sensible size, biases and shifts included.
    pub fn values(&self) -> Named {
        let parameters = self.network.parameters();
        parameters
            .iter()
            .enumerate()
            .map(|(p, parameter)| {
                let spread = match self.scheme {
                    Scheme::Ntk => 3.0,
                    Scheme::Standard => 3.0 / (parameter.fan_in as f64).sqrt(),
                };
                let value = |i| f64::from((spread * noise(p as u64 + 1, i)) as f32);
                (
                    parameter.name.clone(),
                    (0..parameter.size()).map(value).collect(),
                )
            })
            .collect()
    }

    /// One example, (channel, row, column).
    pub fn input(&self, example: usize) -> Vec<f64> {
        let size = self.network.input.size();
        let at = |i| f64::from((2.0 * noise(99, example * size + i)) as f32);
        (0..size).map(at).collect()
    }

    pub fn program(&self) -> Program {
        Program::compile(&self.network, self.scheme, self.batch)
    }

    pub fn model(&self, program: &Program, values: &Named) -> Model {
        let mut weights = Buffer::zeros(program.weights().len());
        for place in program.weights().places() {
            let outside: Vec<f32> = values[&place.parameter.name]
                .iter()
                .map(|x| *x as f32)
                .collect();
            place.put(weights.get_mut(), &outside);
        }
        Model {
            weights,
            statistics: program.initial_statistics(),
        }
    }

    /// Loss and gradients by name, as the engine has them.
    pub fn engine(&self, isa: Isa, values: &Named) -> Pass {
        let program = self.program();
        let mut model = self.model(&program, values);
        let mut workspace = Workspace::new(&program, isa, Use::Training).unwrap();
        for example in 0..self.batch {
            let input = self.input(example);
            put_input(workspace.input(), program.input(), example, &input);
        }
        let mode = Mode::Training { seed: 11, step: 3 };
        workspace.forward(&program, &mut model, mode, self.batch);
        let (logits, gradient) = workspace.logits_and_gradient();
        let smoothing = self.smoothing as f32;
        let loss = softmax::cross_entropy(gradient, logits, &self.labels(), 3, smoothing);
        let mut gradients = Buffer::zeros(program.weights().len());
        let mut learner = Learner {
            weights: &mut model.weights,
            gradients: &mut gradients,
            descent: None,
        };
        workspace.backward(&program, &mut learner, self.batch);
        let named = program.weights().places().iter().map(|place| {
            let values = place
                .read(gradients.get())
                .into_iter()
                .map(f64::from)
                .collect();
            (place.parameter.name.clone(), values)
        });
        let shapes = program.dropout_shapes();
        let masks = workspace.masks().zip(shapes);
        let masks = masks
            .map(|(mask, shape)| split_mask(mask, shape, self.batch))
            .collect();
        Pass {
            loss,
            gradients: named.collect(),
            masks,
        }
    }

    /// Loss by the definition, under given dropout masks.
    pub fn reference(&self, values: &Named, masks: &[Vec<Vec<f64>>]) -> f64 {
        let inputs: Vec<Vec<f64>> = (0..self.batch).map(|example| self.input(example)).collect();
        let labels = self.labels();
        let batch = reference::Batch {
            inputs: &inputs,
            labels: &labels,
            masks,
            smoothing: self.smoothing,
        };
        reference::loss(&self.network, self.scheme, values, &batch)
    }
}

pub struct Pass {
    pub loss: f64,
    pub gradients: Named,
    pub masks: Vec<Vec<Vec<f64>>>,
}

/// Writes one example, (channel, row, column), into an input plane.
pub fn put_input(inputs: &mut [f32], plane: Plane, place: usize, example: &[f64]) {
    let Shape {
        height,
        width,
        channels,
    } = plane.shape;
    for y in 0..height {
        for x in 0..width {
            for c in 0..channels {
                let value = example[(c * height + y) * width + x];
                inputs[plane.at(place, y) + x * channels + c] = value as f32;
            }
        }
    }
}

/// From (batch, row, column, channel) to (channel, row, column) per example.
fn split_mask(mask: &[f32], shape: Shape, batch: usize) -> Vec<Vec<f64>> {
    let Shape {
        height,
        width,
        channels,
    } = shape;
    let one = |example: usize| {
        let mask = &mask[example * shape.size()..(example + 1) * shape.size()];
        let at = |i: usize| {
            let (c, pixel) = (i / (height * width), i % (height * width));
            f64::from(mask[pixel * channels + c])
        };
        (0..shape.size()).map(at).collect()
    };
    (0..batch).map(one).collect()
}
