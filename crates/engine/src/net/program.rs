//! A network compiled for a batch size: operations over planes, in order.

use super::affine::{Affine, AffineParts};
use super::elementwise::{Add, Dropout, Relu};
use super::norm::Norm;
use super::plane::Plane;
use super::pool::{Kind, Pool};
use super::slots::{Slots, order_writes};
use super::weights::{Place, Weights};
use crate::buffer::LINE;
use crate::kernels::rowwise::Write;
use spec::{Layer, Network, Scheme, Shape};
use std::collections::HashMap;

/// An operation with its forward and backward.
#[derive(Debug)]
pub(super) enum Op {
    Affine(Box<Affine>),
    Norm(Norm),
    Relu(Relu),
    Pool(Pool),
    Dropout(Dropout),
    Add(Add),
}

/// An operation in its place: planes are numbered, 0 is the input.
#[derive(Debug)]
pub(super) struct Node {
    pub op: Op,
    /// Planes it reads; one, or two for a sum.
    pub inputs: Vec<usize>,
    /// Plane it writes.
    pub output: usize,
    /// What becomes of the gradient of each input: who comes first, from the end, sets it.
    pub writes: Vec<Write>,
    /// Whether its backward also applies the ReLU mask of its input, so that the operation before
    /// skips it.
    pub takes_activation: bool,
    /// Whether the gradient of its output comes with the activation's part taken.
    pub activation_taken: bool,
}

/// A compiled network. It holds no values: many runs share one.
#[derive(Debug)]
pub struct Program {
    pub(super) planes: Vec<Plane>,
    pub(super) nodes: Vec<Node>,
    /// Where the gradients of planes are kept.
    pub(super) slots: Slots,
    pub(super) scratch: [usize; 2],
    weights: Weights,
    statistics: Vec<Statistic>,
    batch: usize,
    classes: usize,
}

/// Where the running mean and variance of one norm lie.
#[derive(Debug, Clone)]
pub struct Statistic {
    /// Name of the norm.
    pub name: String,
    /// First float of the mean; the variance follows it.
    pub start: usize,
    /// Floats of each.
    pub channels: usize,
}

impl Program {
    /// Compiles a network for batches of up to `batch` examples.
    pub fn compile(network: &Network, scheme: Scheme, batch: usize) -> Self {
        let draft = Draft::of(network);
        let weights = Weights::layout(network);
        let places = weights.places().iter();
        let places = places.map(|place| (place.parameter.name.as_str(), place));
        let planes = draft.planes();
        let mut finish = Finish {
            planes: &planes,
            places: places.collect(),
            scheme,
            batch,
            statistics: Vec::new(),
            dropouts: 0,
        };
        // Planes whose gradient somebody needs: those that a parameter reaches.
        let mut learned = vec![false; planes.len()];
        let mut nodes = Vec::with_capacity(draft.steps.len());
        for step in draft.steps {
            let parametric = matches!(
                step.layer,
                Some(Layer::Dense { .. } | Layer::Conv { .. } | Layer::BatchNorm { .. })
            );
            learned[step.output] = parametric || step.inputs.iter().any(|input| learned[*input]);
            let op = finish.op(&step);
            nodes.push(Node {
                op,
                writes: vec![Write::Add; step.inputs.len()],
                inputs: step.inputs,
                output: step.output,
                takes_activation: false,
                activation_taken: false,
            });
        }
        order_writes(&mut nodes, planes.len());
        let floats: Vec<usize> = planes.iter().map(|plane| plane.image() * batch).collect();
        let slots = Slots::assign(&nodes, &learned, &floats);
        share_activations(&mut nodes);
        let mut scratch = [0; 2];
        for node in &nodes {
            if let Op::Affine(affine) = &node.op {
                let needed = affine.scratch(batch);
                scratch = std::array::from_fn(|i| scratch[i].max(needed[i]));
            }
        }
        let statistics = finish.statistics;
        Self {
            planes,
            nodes,
            slots,
            scratch,
            weights,
            statistics,
            batch,
            classes: network.classes,
        }
    }

    /// Layout of the learned values.
    pub fn weights(&self) -> &Weights {
        &self.weights
    }

    /// Running statistics, in the order of the layers.
    pub fn statistics(&self) -> &[Statistic] {
        &self.statistics
    }

    /// Running statistics before the first step: means 0, variances 1.
    pub fn initial_statistics(&self) -> Vec<f32> {
        let channels = self.statistics.iter().map(|statistic| statistic.channels);
        channels
            .flat_map(|n| [vec![0.0; n], vec![1.0; n]].concat())
            .collect()
    }

    /// Largest batch.
    pub fn batch(&self) -> usize {
        self.batch
    }

    /// Number of classes.
    pub fn classes(&self) -> usize {
        self.classes
    }

    /// Where inputs are put.
    pub fn input(&self) -> Plane {
        self.planes[0]
    }

    /// Shape of what each dropout layer masks, in order.
    pub fn dropout_shapes(&self) -> Vec<Shape> {
        let shape = |node: &Node| match &node.op {
            Op::Dropout(dropout) => Some(dropout.input.shape),
            _ => None,
        };
        self.nodes.iter().filter_map(shape).collect()
    }

    /// Floats that all planes of a batch take.
    pub(super) fn plane_floats(&self) -> usize {
        self.planes
            .iter()
            .map(|plane| plane.image() * self.batch + 2 * LINE)
            .sum()
    }
}

/// Where one operation alone reads what an activation gave, and can, it takes the
/// activation's part in the gradient.
fn share_activations(nodes: &mut [Node]) {
    for at in 0..nodes.len() {
        let plane = nodes[at].output;
        let activated = match &nodes[at].op {
            Op::Affine(affine) => affine.relu,
            Op::Norm(norm) => norm.relu,
            _ => false,
        };
        let mut readers = (0..nodes.len()).filter(|i| nodes[*i].inputs.contains(&plane));
        if let (true, Some(reader), None) = (activated, readers.next(), readers.next()) {
            let takes = match &nodes[reader].op {
                Op::Affine(affine) => affine.takes_activation(),
                Op::Pool(pool) => pool.kind == Kind::Max,
                _ => false,
            };
            nodes[reader].takes_activation = takes;
            nodes[at].activation_taken = takes;
        }
    }
}

/// A step before addresses are known.
pub(crate) struct DraftStep {
    /// `None` is a sum.
    pub layer: Option<Layer>,
    /// Whether an activation follows that the layer applies itself.
    pub relu: bool,
    /// Planes it reads.
    pub inputs: Vec<usize>,
    /// Plane it writes.
    pub output: usize,
}

/// Walks the layers, numbers the planes and notes what border each needs.
pub(crate) struct Draft {
    pub shapes: Vec<Shape>,
    borders: Vec<usize>,
    pub steps: Vec<DraftStep>,
}

impl Draft {
    /// The steps of a network, in order; the last one writes the logits.
    pub fn of(network: &Network) -> Self {
        let mut draft = Self::new(network.input);
        let end = draft.chain(&network.layers, 0);
        debug_assert_eq!(end, draft.shapes.len() - 1);
        draft
    }

    fn new(input: Shape) -> Self {
        Self {
            shapes: vec![input],
            borders: vec![0],
            steps: Vec::new(),
        }
    }

    fn plane(&mut self, shape: Shape) -> usize {
        self.shapes.push(shape);
        self.borders.push(0);
        self.shapes.len() - 1
    }

    /// Adds a list of layers that reads plane `from`; returns the plane of its result.
    fn chain(&mut self, layers: &[Layer], from: usize) -> usize {
        let mut at = from;
        let mut layers = layers.iter().peekable();
        while let Some(layer) = layers.next() {
            if let Layer::Residual { body, shortcut } = layer {
                let main = self.chain(body, at);
                let around = self.chain(shortcut, at);
                let output = self.plane(self.shapes[main]);
                let inputs = vec![main, around];
                self.steps.push(DraftStep {
                    layer: None,
                    relu: false,
                    inputs,
                    output,
                });
                at = output;
                continue;
            }
            // An activation right behind a layer that can apply it joins that layer.
            let joins = matches!(
                layer,
                Layer::Dense { bias: true, .. }
                    | Layer::Conv { bias: true, .. }
                    | Layer::BatchNorm { .. }
            );
            let relu = joins && layers.next_if(|next| matches!(next, Layer::Relu)).is_some();
            if let Layer::Conv { padding, .. } = layer {
                self.borders[at] = self.borders[at].max(*padding);
            }
            let shape = layer
                .output(self.shapes[at])
                .expect("a network's layers fit");
            let output = self.plane(shape);
            self.steps.push(DraftStep {
                layer: Some(layer.clone()),
                relu,
                inputs: vec![at],
                output,
            });
            at = output;
        }
        at
    }

    fn planes(&self) -> Vec<Plane> {
        let plane = |(shape, border): (&Shape, &usize)| Plane {
            shape: *shape,
            border: *border,
        };
        self.shapes.iter().zip(&self.borders).map(plane).collect()
    }
}

/// Turns steps into operations once the planes are known.
struct Finish<'a> {
    planes: &'a [Plane],
    places: HashMap<&'a str, &'a Place>,
    scheme: Scheme,
    batch: usize,
    statistics: Vec<Statistic>,
    dropouts: u32,
}

impl Finish<'_> {
    fn op(&mut self, step: &DraftStep) -> Op {
        let (input, output) = (self.planes[step.inputs[0]], self.planes[step.output]);
        let pool = |kind, window| {
            Op::Pool(Pool {
                kind,
                input,
                output,
                window,
            })
        };
        match &step.layer {
            None => {
                let inputs = [input, self.planes[step.inputs[1]]];
                Op::Add(Add { inputs, output })
            }
            Some(Layer::Dense { name, .. }) => self.affine(step, name, None, 1, 0),
            Some(Layer::Conv {
                name,
                kernel,
                stride,
                padding,
                ..
            }) => self.affine(step, name, Some(*kernel), *stride, *padding),
            Some(Layer::BatchNorm { name }) => self.norm(step, name),
            Some(Layer::Relu) => Op::Relu(Relu { input, output }),
            Some(Layer::MaxPool { size }) => pool(Kind::Max, (*size, *size)),
            Some(Layer::AveragePool { size }) => pool(Kind::Mean, (*size, *size)),
            Some(Layer::GlobalAveragePool) => {
                pool(Kind::Mean, (input.shape.height, input.shape.width))
            }
            Some(Layer::Dropout { rate }) => {
                self.dropouts += 1;
                Op::Dropout(Dropout {
                    input,
                    output,
                    rate: *rate,
                    index: self.dropouts - 1,
                })
            }
            Some(Layer::Residual { .. }) => unreachable!("residuals were taken apart"),
        }
    }

    fn affine(
        &self,
        step: &DraftStep,
        name: &str,
        kernel: Option<usize>,
        stride: usize,
        padding: usize,
    ) -> Op {
        let weight = self.places[format!("{name}.weight").as_str()];
        let bias = self
            .places
            .get(format!("{name}.bias").as_str())
            .map(|place| place.start);
        let scale = self.scheme.multiplier(weight.parameter.fan_in) as f32;
        let parts = AffineParts {
            kernel,
            stride,
            padding,
            scale,
            weight: weight.start,
            bias,
        };
        let (input, output) = (self.planes[step.inputs[0]], self.planes[step.output]);
        let mut affine = Affine::new(parts, input, output, self.batch);
        affine.relu = step.relu;
        Op::Affine(Box::new(affine))
    }

    fn norm(&mut self, step: &DraftStep, name: &str) -> Op {
        let (input, output) = (self.planes[step.inputs[0]], self.planes[step.output]);
        let start = self
            .statistics
            .last()
            .map_or(0, |last| last.start + 2 * last.channels);
        let channels = input.shape.channels;
        self.statistics.push(Statistic {
            name: name.into(),
            start,
            channels,
        });
        Op::Norm(Norm {
            input,
            output,
            relu: step.relu,
            scale: self.places[format!("{name}.scale").as_str()].start,
            shift: self.places[format!("{name}.shift").as_str()].start,
            statistics: start,
        })
    }
}
