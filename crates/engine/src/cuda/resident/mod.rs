//! Perceptrons trained for many steps without leaving the chip.
//!
//! A cluster of blocks trains one run: each block keeps a slice of every hidden layer's units, with
//! their weights and as a rule the velocities of those. `kernels/resident.cuh` says what networks of
//! one, two and three hidden layers share; here it is decided whether a network fits, in
//! [`shallow`] and [`deep`] how it is cut up.

mod deep;
mod shallow;

use super::args::{DenseArgs, PicksArgs, ResidentArgs};
use super::blueprint::{Affine, Blueprint, Op};
use super::emit::{Part, Setup};
use super::launch::{Kernel, Launch, Memory, Source};
use super::plane::Plane;
use super::product::Precision;
use spec::{Augmentation, UpdateRule};

/// What a GPU offers to one block, and how many there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of shared memory.
    pub shared: usize,
    /// Most blocks of a cluster; 1 where there are no clusters.
    pub cluster: usize,
    /// Multiprocessors.
    pub processors: usize,
    /// Whether four warps can multiply together.
    pub groups: bool,
}

/// GPUs that tests cut networks for.
#[cfg(test)]
pub const H200: Limits = Limits {
    shared: 232_448,
    cluster: 16,
    processors: 132,
    groups: true,
};
#[cfg(test)]
pub const A100: Limits = Limits {
    shared: 166_912,
    cluster: 1,
    processors: 108,
    groups: false,
};

/// Most hidden layers.
const MOST_LAYERS: usize = 3;
/// Most classes: a row of logits is held by so many lanes.
const MOST_CLASSES: usize = 16;
/// Largest batch for which it pays: beyond it, products take longer than moving weights.
const MOST_BATCH: usize = 96;
/// Registers of a multiprocessor, and of a thread at most.
const REGISTERS: usize = 65_536;
const MOST_REGISTERS: usize = 255;
/// Most warps of a block.
const MOST_WARPS: usize = 16;
/// Examples drawn ahead for one run in one launch.
const PICKS_AHEAD: usize = 1 << 15;
/// Most steps of one launch.
const MOST_STEPS: usize = 2048;
/// Multiprocessors among which a cluster must find its place.
const NEIGHBOURHOOD: usize = 16;

/// What is cut up.
#[derive(Debug, Clone, Copy)]
struct Size {
    inputs: usize,
    /// Hidden layers, each of the same width.
    layers: usize,
    width: usize,
    classes: usize,
    batch: usize,
    precision: Precision,
    rule: UpdateRule,
}

impl Size {
    /// Rows of a batch, padding included.
    fn rows(&self) -> usize {
        self.batch.next_multiple_of(8)
    }

    /// Numbers that keep a factor.
    fn factor(&self) -> usize {
        self.precision.terms().min(2)
    }

    /// Inputs of a row with what keeps rows apart in the banks.
    fn stride(&self) -> usize {
        self.inputs + if self.inputs % 32 == 16 { 0 } else { 16 }
    }

    /// Bytes of `struct Ends`, with what alignment may take.
    fn ends(&self, units: usize, buffers: usize) -> usize {
        let (rows, classes) = (self.rows(), self.classes);
        let rest = 2 * (units * classes + self.layers * units + classes);
        let floats = units * (rows + 1) + rest + 4 * rows * classes;
        let (inputs, picks, alignment) = (buffers * rows * self.stride(), 16 * self.batch, 64);
        4 * floats + inputs + picks + alignment
    }

    /// The kernel of a source, with the macros of a cut.
    fn kernel<const N: usize>(&self, source: Source, cut: [(&'static str, usize); N]) -> Kernel {
        let own = [
            ("INPUTS", self.inputs),
            ("LAYERS", self.layers),
            ("CLASSES", self.classes),
            ("BATCH", self.batch),
            ("TERMS", self.precision.terms()),
            ("NESTEROV", usize::from(self.rule == UpdateRule::Nesterov)),
        ];
        let all = own.into_iter().chain(cut);
        Kernel {
            source,
            function: "train_resident",
            defines: all.map(|(name, value)| (name, value as u32)).collect(),
        }
    }
}

/// Registers that a thread of a block may have: warps get theirs by fours.
fn registers(warps: usize) -> usize {
    let threads = 32 * warps.next_multiple_of(4);
    (REGISTERS / threads / 8 * 8).min(MOST_REGISTERS)
}

/// How often the GPU is filled by so many clusters.
fn rounds(cluster: usize, replicas: usize, limits: &Limits) -> f64 {
    let places = (limits.processors / NEIGHBOURHOOD).max(1) * (NEIGHBOURHOOD / cluster);
    replicas.div_ceil(places) as f64
}

/// A network cut up.
#[derive(Debug, Clone)]
struct Fitted {
    kernel: Kernel,
    cluster: usize,
    warps: usize,
    /// Bytes of a block.
    shared: usize,
    /// Velocities of a block that lie in memory.
    far: usize,
}

/// The best cut of a network, if one fits.
fn fitted(size: &Size, replicas: usize, limits: &Limits) -> Option<Fitted> {
    match size.layers {
        1 => shallow::best(size, replicas, limits).map(|cut| cut.fitted(size)),
        _ => deep::best(size, replicas, limits).map(|cut| cut.fitted(size)),
    }
}

/// A network in its place on the chip, with all that its launches need.
#[derive(Debug, Clone)]
pub struct Resident {
    fitted: Fitted,
    batch: usize,
    args: ResidentArgs,
    picks: PicksArgs,
    replicas: usize,
}

impl Resident {
    /// The network of a cohort, if it is one that fits on the chip.
    pub fn fit(
        setup: &Setup<'_>,
        data: Part,
        batch: usize,
        limits: &Limits,
        memory: &mut Memory,
    ) -> Option<Self> {
        let chain = perceptron(setup.print)?;
        let planes = &setup.print.planes;
        let size = Size {
            inputs: planes[0].image(),
            layers: chain.len() - 1,
            width: chain[0].1.shape.channels,
            classes: setup.print.classes,
            batch,
            precision: setup.units.precision,
            rule: setup.optimizer.rule,
        };
        let plain = setup.regularizers.augmentation == Augmentation::default();
        let one_channel = data.args.bytes != 0 && data.args.channels == 1;
        let small = size.classes <= MOST_CLASSES && batch <= MOST_BATCH;
        if !(plain && one_channel && small && size.inputs.is_multiple_of(16)) {
            return None;
        }
        let fitted = fitted(&size, setup.replicas, limits)?;
        let most_steps = (PICKS_AHEAD / batch).clamp(1, MOST_STEPS);
        let picks = memory.take(2 * setup.replicas * most_steps * batch);
        let far = memory.take(setup.replicas * fitted.cluster * fitted.far);
        let args = ResidentArgs {
            bytes: data.args.bytes,
            offset: data.args.offset,
            factor: data.args.factor,
            picks,
            replicas: setup.common.replicas,
            weights: setup.common.weights.values,
            velocity: setup.common.velocity,
            far,
            weights_replica: setup.common.weights.replica,
            layers: layers(&chain, size.inputs),
            steps: 0,
            most_steps: most_steps as i32,
            smoothing: setup.regularizers.label_smoothing as f32,
            descent: setup.descent(),
            pad: 0,
        };
        let picks = PicksArgs {
            labels: data.args.labels,
            replicas: setup.common.replicas,
            picks,
            examples: data.examples as u32,
            batch: batch as i32,
            steps: 0,
            most_steps: most_steps as i32,
        };
        Some(Self {
            fitted,
            batch,
            args,
            picks,
            replicas: setup.replicas,
        })
    }

    /// Most steps of one launch.
    pub fn most_steps(&self) -> u64 {
        self.args.most_steps as u64
    }

    /// Takes so many steps.
    pub fn launches(&self, steps: u64) -> [Launch; 2] {
        let picks = PicksArgs {
            steps: steps as i32,
            ..self.picks
        };
        let count = steps as usize * self.batch;
        let grid = [count.div_ceil(128), 1, self.replicas];
        let draw = Launch::new(
            Kernel::plain(Source::Batch, "draw_picks"),
            grid,
            128,
            &picks,
        );
        let args = ResidentArgs {
            steps: steps as i32,
            ..self.args
        };
        let fitted = &self.fitted;
        let grid = [fitted.cluster * self.replicas, 1, 1];
        let mut train = Launch::new(fitted.kernel.clone(), grid, 32 * fitted.warps, &args);
        train.shared = fitted.shared;
        train.cluster = fitted.cluster;
        [draw, train]
    }
}

/// The layers of a network that is input, dense layers of one width with activations, dense layer;
/// each with the plane that it writes.
fn perceptron(print: &Blueprint) -> Option<Vec<(&Affine, &Plane)>> {
    let count = print.nodes.len();
    if !(2..=MOST_LAYERS + 1).contains(&count) {
        return None;
    }
    let mut chain = Vec::new();
    for (at, node) in print.nodes.iter().enumerate() {
        match &node.op {
            Op::Affine(affine) if affine.dense && affine.relu == (at + 1 < count) => {
                chain.push((affine, &print.planes[node.output]));
            }
            _ => return None,
        }
    }
    let width = chain[0].1.shape.channels;
    let (_, hidden) = chain.split_last()?;
    let even = hidden
        .iter()
        .all(|(_, plane)| plane.shape.channels == width);
    even.then_some(chain)
}

/// Where the layers' weights lie.
fn layers(chain: &[(&Affine, &Plane)], inputs: usize) -> [DenseArgs; MOST_LAYERS + 1] {
    let mut layers = [DenseArgs::default(); MOST_LAYERS + 1];
    let mut rows = inputs;
    for (to, (affine, plane)) in layers.iter_mut().zip(chain) {
        let columns = plane.pixel;
        *to = DenseArgs {
            weight: affine.weight as i64,
            bias: match affine.bias {
                true => (affine.weight + rows * columns) as i64,
                false => -1,
            },
            columns: columns as i32,
            scale: affine.scale,
        };
        rows = columns;
    }
    layers
}

/// MNIST at these settings.
#[cfg(test)]
fn mnist(layers: usize, width: usize, batch: usize) -> Size {
    Size {
        inputs: 784,
        layers,
        width,
        classes: 10,
        batch,
        precision: Precision::Tf32,
        rule: UpdateRule::Nesterov,
    }
}
