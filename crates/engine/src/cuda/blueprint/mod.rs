//! A network as the device computes it: planes, operations, weights, and who shares whose
//! gradient. Nothing here touches a device.
//!
//! Three things are joined that are separate on the host. A sum of two branches is taken by the
//! convolution that ends the first, which also writes the activation after it. Whoever
//! writes a gradient masks it by the activation that it passes, so that no pass does only that.
//! And the gradients of a sum and of its terms are one buffer: along a chain of residual
//! blocks there is one gradient that every block adds to.

mod builder;

use crate::cuda::plane::Plane;
use crate::net::Draft;
use builder::{Builder, planes};
use spec::{Network, Scheme, Shape, WeightScale};

/// A dense layer or convolution, z = s·(W∗y + b), and what follows it.
#[derive(Debug, Clone)]
pub struct Affine {
    /// Rows and columns of the filter; those of the image for a dense layer.
    pub kernel: (usize, usize),
    /// From one output to the next.
    pub stride: usize,
    /// Zeros around the image.
    pub padding: usize,
    /// Whether there is one output per image, read from all of it.
    pub dense: bool,
    /// Whether max(0, z) follows.
    pub relu: bool,
    /// The scheme's factor s.
    pub scale: f32,
    /// Start of W (rows, outputs padded) in the flat weights; b is one more row.
    pub weight: usize,
    /// Whether there is a b.
    pub bias: bool,
    /// Plane that is added to z.
    pub added: Option<usize>,
    /// Plane that receives max(0, z) besides.
    pub active: Option<usize>,
}

/// An operation over planes.
#[derive(Debug, Clone)]
pub enum Op {
    /// Dense layer or convolution.
    Affine(Affine),
    /// Batch norm, then perhaps an activation.
    Norm {
        /// Whether max(0, y) follows.
        relu: bool,
        /// Start of γ in the flat weights; β follows it.
        scale: usize,
        /// Start of the running mean; the variance follows it.
        statistics: usize,
    },
    /// max(0, x).
    Relu,
    /// Windows side by side.
    Pool {
        /// Largest value, or mean.
        maximum: bool,
        /// Rows and columns of a window.
        window: (usize, usize),
    },
    /// Random zeros.
    Dropout {
        /// Probability of a zero.
        rate: f64,
        /// Which dropout layer it is.
        index: u32,
    },
    /// x + y, where no convolution could take it.
    Add,
}

/// An operation in its place.
#[derive(Debug, Clone)]
pub struct Node {
    /// What it does.
    pub op: Op,
    /// Planes it reads.
    pub inputs: Vec<usize>,
    /// Plane it writes.
    pub output: usize,
}

/// Where each learned value lies and how it starts.
#[derive(Debug, Default)]
pub struct Weights {
    /// Parameter that a value belongs to; `u32::MAX` is padding.
    pub parameter: Vec<u32>,
    /// Its index there, in the outside layout.
    pub index: Vec<u32>,
    /// Deviation by parameter, or −1 − constant.
    pub deviation: Vec<f64>,
}

/// A network, laid out for the device.
#[derive(Debug)]
pub struct Blueprint {
    /// Plane 0 is the input, the last one the logits.
    pub planes: Vec<Plane>,
    /// In the order of the forward pass.
    pub nodes: Vec<Node>,
    /// The learned values of one replica.
    pub weights: Weights,
    /// Channels of each norm's running statistics, in order.
    pub norm_channels: Vec<usize>,
    /// Plane whose gradient buffer each plane uses.
    pub gradient: Vec<usize>,
    /// Plane whose values tell where a plane's gradient passes its activation.
    pub mask: Vec<Option<usize>>,
    /// Planes whose gradient somebody needs.
    pub learned: Vec<bool>,
    /// Planes whose values nobody reads or writes.
    pub unused: Vec<bool>,
    /// Planes of which values, and gradients, serve as factors of a dense layer's products and for nothing else.
    pub factor: Vec<bool>,
    /// Number of classes.
    pub classes: usize,
}

impl Blueprint {
    /// Lays out a network.
    pub fn new(network: &Network, scheme: Scheme, weight_scale: WeightScale) -> Self {
        let draft = Draft::of(network);
        let mut print = Self {
            planes: planes(&draft),
            nodes: Vec::new(),
            weights: Weights::default(),
            norm_channels: Vec::new(),
            gradient: (0..draft.shapes.len()).collect(),
            mask: vec![None; draft.shapes.len()],
            learned: vec![false; draft.shapes.len()],
            unused: vec![false; draft.shapes.len()],
            factor: Vec::new(),
            classes: network.classes,
        };
        let mut builder = Builder::new(network, scheme, weight_scale);
        for step in &draft.steps {
            let op = builder.op(step, &mut print);
            let parametric = matches!(op, Op::Affine(_) | Op::Norm { .. });
            print.learned[step.output] =
                parametric || step.inputs.iter().any(|i| print.learned[*i]);
            if step.relu {
                print.mask[step.output] = Some(step.output);
            }
            print.nodes.push(Node {
                op,
                inputs: step.inputs.clone(),
                output: step.output,
            });
        }
        print.join_sums();
        print.join_activations();
        print.share_gradients();
        print.set_borders();
        print.factor = (0..print.planes.len())
            .map(|at| print.is_factor(at))
            .collect();
        print
    }

    /// Floats of each layer's W, padding included.
    pub fn layer_weights(&self) -> impl Iterator<Item = usize> {
        self.nodes.iter().filter_map(|node| match &node.op {
            Op::Affine(affine) => {
                let (input, output) = (&self.planes[node.inputs[0]], &self.planes[node.output]);
                Some(affine.rows(input) * output.pixel)
            }
            _ => None,
        })
    }

    fn consumers(&self, plane: usize) -> usize {
        let reads = |node: &Node| node.inputs.iter().filter(|input| **input == plane).count();
        self.nodes.iter().map(reads).sum()
    }

    /// Whether one dense layer reads a plane, and another writes it or it is the input.
    fn is_factor(&self, plane: usize) -> bool {
        let dense = |node: &Node| {
            let alone = |layer: &Affine| layer.added.is_none() && layer.active.is_none();
            matches!(&node.op, Op::Affine(layer) if layer.dense && alone(layer))
        };
        let besides = |node: &Node| {
            let touches = |layer: &Affine| [layer.added, layer.active].contains(&Some(plane));
            matches!(&node.op, Op::Affine(layer) if touches(layer))
        };
        let writes = |node: &&Node| node.output == plane;
        let reads = |node: &&Node| node.inputs.contains(&plane);
        self.consumers(plane) == 1
            && self.nodes.iter().filter(writes).all(dense)
            && self.nodes.iter().filter(reads).all(dense)
            && !self.nodes.iter().any(besides)
    }

    /// A sum whose first term is a convolution's output, read by nobody else, is taken by it.
    fn join_sums(&mut self) {
        let mut at = 0;
        while at < self.nodes.len() {
            let node = &self.nodes[at];
            let producer = match node.op {
                Op::Add if self.consumers(node.inputs[0]) == 1 => {
                    let main = node.inputs[0];
                    self.nodes.iter().position(|other| other.output == main)
                }
                _ => None,
            };
            let joins = producer.filter(
                |from| matches!(&self.nodes[*from].op, Op::Affine(affine) if !affine.relu && affine.added.is_none()),
            );
            if let Some(from) = joins {
                let sum = self.nodes[at].clone();
                let mut joined = self.nodes[from].clone();
                if let Op::Affine(affine) = &mut joined.op {
                    affine.added = Some(sum.inputs[1]);
                }
                joined.output = sum.output;
                self.unused[sum.inputs[0]] = true;
                self.nodes[at] = joined;
                self.nodes.remove(from);
            } else {
                at += 1;
            }
        }
    }

    /// An activation behind a convolution with a sum is written by it.
    fn join_activations(&mut self) {
        let mut at = 0;
        while at < self.nodes.len() {
            let node = self.nodes[at].clone();
            if !matches!(node.op, Op::Relu) {
                at += 1;
                continue;
            }
            self.mask[node.output] = Some(node.output);
            // Its gradient goes straight to that of its input.
            self.gradient[node.output] = node.inputs[0];
            let from = self
                .nodes
                .iter_mut()
                .find(|from| from.output == node.inputs[0]);
            match from.map(|from| &mut from.op) {
                Some(Op::Affine(affine)) if affine.active.is_none() && !affine.relu => {
                    affine.active = Some(node.output);
                    self.nodes.remove(at);
                }
                _ => at += 1,
            }
        }
    }

    /// Terms of a sum use its gradient buffer, unless an activation lies between or somebody needs it for
    /// longer.
    fn share_gradients(&mut self) {
        for at in (0..self.nodes.len()).rev() {
            let node = &self.nodes[at];
            let term = match &node.op {
                Op::Affine(affine) => affine.added,
                _ => None,
            };
            if let Some(term) = term
                && self.mask[term].is_none()
                && self.learned[term]
                && !self.writes_before(at, term)
            {
                self.gradient[term] = node.output;
            }
        }
        for plane in 0..self.planes.len() {
            let mut root = plane;
            while self.gradient[root] != root {
                root = self.gradient[root];
            }
            self.gradient[plane] = root;
        }
    }

    /// Whether the backward pass writes the gradient of a plane before it has read all of that of the sum which
    /// node `at` takes: a later node does, or this one does itself, whose own input it is.
    fn writes_before(&self, at: usize, plane: usize) -> bool {
        let leads = |mut from: usize| {
            while from != plane && self.gradient[from] != from {
                from = self.gradient[from];
            }
            from == plane
        };
        let added = |node: &Node| match &node.op {
            Op::Affine(affine) => affine.added,
            _ => None,
        };
        let reads = |node: &Node| {
            // The gradient of an activation's output is that of its input.
            !matches!(node.op, Op::Relu) && node.inputs.iter().copied().any(leads)
        };
        self.nodes[at..].iter().any(reads)
            || self.nodes[at + 1..].iter().filter_map(added).any(leads)
    }

    /// Borders as convolutions need them: their padding around what they read, and around
    /// their outputs' gradients what the data gradient reads. Planes that share a gradient have
    /// the same.
    fn set_borders(&mut self) {
        for node in &self.nodes {
            let Op::Affine(affine) = &node.op else {
                continue;
            };
            if affine.dense {
                continue;
            }
            let input = node.inputs[0];
            self.planes[input].border = self.planes[input].border.max(affine.padding);
            if self.learned[input] {
                let reach = affine.reach(self.planes[input].shape, self.planes[node.output].shape);
                self.planes[node.output].border = self.planes[node.output].border.max(reach);
            }
        }
        for plane in 0..self.planes.len() {
            let root = self.gradient[plane];
            self.planes[root].border = self.planes[root].border.max(self.planes[plane].border);
        }
        for plane in 0..self.planes.len() {
            self.planes[plane].border = self.planes[self.gradient[plane]].border;
        }
    }
}

impl Affine {
    /// How far beyond its outputs the data gradient of a convolution reads.
    fn reach(&self, input: Shape, output: Shape) -> usize {
        let along = |inputs: usize, outputs: usize, kernel: usize| {
            let (stride, padding) = (self.stride as isize, self.padding as isize);
            let mut reach = 0;
            for at in 0..inputs as isize {
                for tap in 0..kernel as isize {
                    let from = at + padding - tap;
                    if from.rem_euclid(stride) == 0 {
                        let output = from.div_euclid(stride);
                        reach = reach.max(-output).max(output - (outputs as isize - 1));
                    }
                }
            }
            reach as usize
        };
        let rows = along(input.height, output.height, self.kernel.0);
        rows.max(along(input.width, output.width, self.kernel.1))
    }

    /// Rows of W: the inputs of one output, padding included.
    pub fn rows(&self, input: &Plane) -> usize {
        self.kernel.0 * self.kernel.1 * input.pixel
    }
}
