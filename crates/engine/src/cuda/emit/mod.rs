//! From a blueprint to the launches of a training step and of an evaluation.

mod backward;
mod batch;
mod forward;
mod norm;

use crate::cuda::affine::Layer;
use crate::cuda::args::{Address, Array, DescentArgs, EndArgs, ExamplesArgs};
use crate::cuda::blueprint::{Affine, Blueprint, Node, Op};
use crate::cuda::launch::{Kernel, Lane, Launch, Memory, Source, Tables};
use crate::cuda::plane::Plane;
use crate::cuda::product::{Epilogue, Room, Size, Units, array, packed_floats, parts};
use spec::{Optimizer, Regularizers, UpdateRule};

/// Threads of kernels that take one value each.
const THREADS: usize = 256;
/// Threads of kernels that take one channel, row or image each.
const FEW_THREADS: usize = 128;

/// What a cohort shares, and where it lies.
#[derive(Debug, Clone, Copy)]
pub struct Common {
    /// (replicas) of `Replica`.
    pub replicas: Address,
    /// Learned values.
    pub weights: Array,
    /// Laid out as the weights.
    pub velocity: Address,
    /// Running statistics of norms.
    pub statistics: Array,
}

/// What the launches of a cohort are made from.
#[derive(Debug, Clone, Copy)]
pub struct Setup<'a> {
    /// The network.
    pub print: &'a Blueprint,
    /// Runs.
    pub replicas: usize,
    /// What takes products.
    pub units: Units,
    /// The descent.
    pub optimizer: Optimizer,
    /// Dropout is in the blueprint; the rest is here.
    pub regularizers: Regularizers,
    /// Common buffers.
    pub common: Common,
}

impl Setup<'_> {
    /// The descent, as kernels want it.
    pub fn descent(&self) -> DescentArgs {
        let Optimizer { rule, momentum } = self.optimizer;
        DescentArgs {
            momentum: momentum.get() as f32,
            nesterov: u32::from(rule == UpdateRule::Nesterov),
        }
    }
}

/// A part of the data set on the device.
#[derive(Debug, Clone, Copy)]
pub struct Part {
    /// Where it is.
    pub args: ExamplesArgs,
    /// How many there are.
    pub examples: usize,
}

/// Emits launches for batches of one size.
pub struct Emitter<'a> {
    setup: Setup<'a>,
    batch: usize,
    training: bool,
    launches: Vec<Launch>,
    memory: &'a mut Memory,
    tables: &'a mut Tables,
    /// Values by plane.
    values: Vec<Address>,
    /// Gradients by plane, 0 where another plane's is used or none is needed.
    gradients: Vec<Address>,
    /// Whether a gradient has been written in this step: later writers add.
    written: Vec<bool>,
    /// Gradients that weight gradients on the side lane may still be reading.
    read_aside: Vec<bool>,
    /// Whether the next launch has to wait for the side lane.
    waits: bool,
    /// By norm, what its forward pass leaves.
    lines: Vec<Address>,
    sums: Address,
    line_back: Address,
    partial: Address,
    /// Room for factors to be packed: on the main lane, and on the side.
    packed: [Room; 2],
}

/// The launches of one training step: draw, forward, loss, backward with the update.
pub fn training_step(
    setup: Setup<'_>,
    data: Part,
    batch: usize,
    memory: &mut Memory,
    tables: &mut Tables,
) -> Vec<Launch> {
    let mut emitter = Emitter::new(setup, batch, true, memory, tables);
    let labels = emitter.memory.take(setup.replicas * batch);
    emitter.draw(data, labels);
    emitter.forward();
    emitter.loss(labels);
    emitter.backward();
    let end = EndArgs {
        replicas: setup.common.replicas,
        count: setup.replicas as i32,
        pad: 0,
    };
    let kernel = Kernel::plain(Source::Loss, "end_step");
    let blocks = setup.replicas.div_ceil(FEW_THREADS);
    emitter.waits = true;
    emitter.launch(Launch::new(kernel, [blocks, 1, 1], FEW_THREADS, &end));
    emitter.launches
}

/// The launches that count what is classified right in these parts of the data, `batch` images at
/// a time: the count of part i goes to `correct[i]`.
pub fn evaluation(
    setup: Setup<'_>,
    parts: [Part; 2],
    batch: usize,
    memory: &mut Memory,
    tables: &mut Tables,
) -> Vec<Launch> {
    let mut emitter = Emitter::new(setup, batch, false, memory, tables);
    for (which, part) in parts.into_iter().enumerate() {
        for first in (0..part.examples).step_by(batch) {
            emitter.put_examples(part, first);
            emitter.forward();
            emitter.count(part, first, which);
        }
    }
    emitter.launches
}

impl<'a> Emitter<'a> {
    fn new(
        setup: Setup<'a>,
        batch: usize,
        training: bool,
        memory: &'a mut Memory,
        tables: &'a mut Tables,
    ) -> Self {
        let planes = setup.print.planes.len();
        let mut emitter = Self {
            setup,
            batch,
            training,
            launches: Vec::new(),
            memory,
            tables,
            values: vec![0; planes],
            gradients: vec![0; planes],
            written: vec![false; planes],
            read_aside: vec![false; planes],
            waits: false,
            lines: Vec::new(),
            sums: 0,
            line_back: 0,
            partial: 0,
            packed: [Room::default(); 2],
        };
        emitter.take_memory();
        emitter
    }

    fn take_memory(&mut self) {
        let Setup {
            print, replicas, ..
        } = self.setup;
        for (at, plane) in print.planes.iter().enumerate() {
            let floats = plane.image() * self.batch * replicas;
            let shared = at == 0 && !self.training;
            if !print.unused[at] {
                let floats = if shared {
                    plane.image() * self.batch
                } else {
                    floats
                };
                self.values[at] = self.memory.take(floats);
            }
            if self.training && print.gradient[at] == at && print.learned[at] {
                self.gradients[at] = self.memory.take(floats);
            }
        }
        let channels = &print.norm_channels;
        for channels in channels {
            self.lines.push(self.memory.take(4 * channels * replicas));
        }
        if let Some(most) = channels.iter().max() {
            let slices = norm::MOST_SLICES.max(replicas);
            self.sums = self.memory.take(2 * most * slices);
            self.line_back = self.memory.take(4 * most * replicas);
        }
        if self.training {
            let needed = print
                .nodes
                .iter()
                .map(|node| self.partial_floats(node))
                .max();
            self.partial = self.memory.take(needed.unwrap_or(0));
        }
        for aside in [false, true] {
            let needed = (print.nodes.iter()).map(|node| self.packed_floats(node, aside));
            let floats = needed.max().unwrap_or(0);
            self.packed[usize::from(aside)] = Room {
                at: self.memory.take(floats),
                floats,
            };
        }
    }

    /// Floats that the products of a node pack at most, those of the main lane or the others.
    fn packed_floats(&self, node: &Node, aside: bool) -> usize {
        let Op::Affine(affine) = &node.op else {
            return 0;
        };
        let layer = self.layer(affine, node);
        let weights = (layer.weights_size(), Epilogue::Partial);
        let forward = (layer.forward_size(), Epilogue::Forward);
        let data = (layer.data_size(), Epilogue::Data);
        let products: &[_] = match (aside, self.training) {
            (true, true) => &[weights],
            (true, false) => &[],
            // What has images as columns is not packed.
            (false, _) if affine.dense => &[],
            (false, true) => &[forward, data],
            (false, false) => &[forward],
        };
        let floats =
            |(size, epilogue): &(Size, Epilogue)| packed_floats(*size, *epilogue, self.setup.units);
        products.iter().map(floats).max().unwrap_or(0)
    }

    /// Floats of a weight gradient in parts.
    fn partial_floats(&self, node: &Node) -> usize {
        let Op::Affine(affine) = &node.op else {
            return 0;
        };
        let layer = self.layer(affine, node);
        match parts(layer.weights_size(), self.setup.units) {
            None => 0,
            Some((parts, _)) => parts * self.part_floats(&layer) * self.setup.replicas,
        }
    }

    fn part_floats(&self, layer: &Layer<'_>) -> usize {
        (layer.rows() + usize::from(layer.affine.bias)) * layer.output.pixel
    }

    fn layer<'b>(&self, affine: &'b Affine, node: &Node) -> Layer<'b>
    where
        'a: 'b,
    {
        Layer {
            affine,
            input: &self.setup.print.planes[node.inputs[0]],
            output: &self.setup.print.planes[node.output],
            batch: self.batch,
            replicas: self.setup.replicas,
            units: self.setup.units,
        }
    }

    fn plane(&self, at: usize) -> &'a Plane {
        &self.setup.print.planes[at]
    }

    /// Whether values and gradients of a plane are rounded when they are written, for the tensor cores to
    /// read them by themselves.
    fn rounds(&self, plane: usize) -> bool {
        self.setup.units.together() && self.setup.print.factor[plane]
    }

    /// Floats from one replica's plane to the next.
    fn stride(&self, plane: usize) -> usize {
        match plane == 0 && !self.training {
            true => 0,
            false => self.plane(plane).image() * self.batch,
        }
    }

    fn value(&self, plane: usize) -> Array {
        array(self.values[plane], self.stride(plane))
    }

    fn gradient(&self, plane: usize) -> Array {
        let root = self.setup.print.gradient[plane];
        array(self.gradients[root], self.stride(root))
    }

    /// Notes that a gradient is written; whether it was before.
    fn write_gradient(&mut self, plane: usize) -> bool {
        let root = self.setup.print.gradient[plane];
        if self.read_aside[root] {
            self.waits = true;
            self.read_aside.fill(false);
        }
        std::mem::replace(&mut self.written[root], true)
    }

    /// Adds a launch of the main lane.
    fn launch(&mut self, mut launch: Launch) {
        if std::mem::take(&mut self.waits) {
            launch.lane = Lane::Both;
        }
        self.launches.push(launch);
    }

    fn push<A: bytemuck::Pod>(
        &mut self,
        source: Source,
        function: &'static str,
        count: usize,
        threads: usize,
        args: &A,
    ) {
        let grid = [count.div_ceil(threads), 1, self.setup.replicas];
        let kernel = Kernel::plain(source, function);
        self.launch(Launch::new(kernel, grid, threads, args));
    }
}
