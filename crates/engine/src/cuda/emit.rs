//! From a blueprint to the launches of a training step and of an evaluation.

use super::affine::Layer;
use super::args::{
    Address, Array, DescentArgs, DrawArgs, ElementwiseArgs, EndArgs, ExamplesArgs, FinishArgs,
    LossArgs, NormArgs, PoolArgs,
};
use super::blueprint::{Affine, Blueprint, Node, Op};
use super::launch::{Kernel, Lane, Launch, Memory, Source, Tables};
use super::plane::Plane;
use super::product::{Epilogue, Precision, Size, array, parts};
use spec::{Optimizer, Regularizers, UpdateRule};

/// Threads of kernels that take one value each.
const THREADS: usize = 256;
/// Threads of kernels that take one channel, row or image each.
const FEW_THREADS: usize = 128;
/// Pixels that a slice of a norm's sum should at least have.
const PIXELS_PER_SLICE: usize = 64;
/// Most slices of a norm's sum over all replicas: enough blocks to fill a large GPU.
const MOST_SLICES: usize = 528;

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
    /// How exactly products are taken.
    pub precision: Precision,
    /// The descent.
    pub optimizer: Optimizer,
    /// Dropout is in the blueprint; the rest is here.
    pub regularizers: Regularizers,
    /// Common buffers.
    pub common: Common,
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
            let slices = MOST_SLICES.max(replicas);
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
    }

    /// Floats of a weight gradient in parts.
    fn partial_floats(&self, node: &Node) -> usize {
        let Op::Affine(affine) = &node.op else {
            return 0;
        };
        let layer = self.layer(affine, node);
        match self.parts(&layer) {
            None => 0,
            Some((parts, _)) => parts * self.part_floats(&layer) * self.setup.replicas,
        }
    }

    fn part_floats(&self, layer: &Layer<'_>) -> usize {
        (layer.rows() + usize::from(layer.affine.bias)) * layer.output.pixel
    }

    fn parts(&self, layer: &Layer<'_>) -> Option<(usize, usize)> {
        parts(Size {
            m: layer.rows(),
            n: layer.output.pixel,
            k: self.batch * layer.output.pixels(),
            replicas: self.setup.replicas,
        })
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
            precision: self.setup.precision,
        }
    }

    fn plane(&self, at: usize) -> &'a Plane {
        &self.setup.print.planes[at]
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

    fn descent(&self) -> DescentArgs {
        let Optimizer { rule, momentum } = self.setup.optimizer;
        DescentArgs {
            momentum: momentum.get() as f32,
            nesterov: u32::from(rule == UpdateRule::Nesterov),
        }
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

    // Drawing and loss.

    fn draw_args(&self, data: Part) -> DrawArgs {
        let plane = self.plane(0);
        let augmentation = self.setup.regularizers.augmentation;
        DrawArgs {
            from: data.args,
            inputs: self.value(0),
            labels: 0,
            replicas: self.setup.common.replicas,
            image: plane.image() as i32,
            row: plane.row() as i32,
            pixel: plane.pixel as i32,
            corner: plane.place(0, 0, 0),
            examples: data.examples as u32,
            batch: self.batch as i32,
            crop_padding: augmentation.crop_padding as i32,
            flip: u32::from(augmentation.flip),
            first: 0,
            pad: 0,
        }
    }

    fn draw(&mut self, data: Part, labels: Address) {
        let args = DrawArgs {
            labels,
            ..self.draw_args(data)
        };
        let grid = [self.batch, 1, self.setup.replicas];
        let kernel = Kernel::plain(Source::Batch, "draw_batch");
        (self.launches).push(Launch::new(kernel, grid, FEW_THREADS, &args));
    }

    fn put_examples(&mut self, part: Part, first: usize) {
        let args = DrawArgs {
            first: first as i32,
            ..self.draw_args(part)
        };
        let kernel = Kernel::plain(Source::Batch, "put_examples");
        let grid = [self.batch.min(part.examples - first), 1, 1];
        (self.launches).push(Launch::new(kernel, grid, FEW_THREADS, &args));
    }

    fn loss_args(&self) -> LossArgs {
        let last = self.values.len() - 1;
        let logits = self.value(last);
        LossArgs {
            logits: logits.values,
            gradient: self.gradients[last],
            replica: logits.replica,
            labels: 0,
            replicas: self.setup.common.replicas,
            batch: self.batch as i32,
            classes: self.setup.print.classes as i32,
            stride: self.plane(last).image() as i32,
            smoothing: self.setup.regularizers.label_smoothing as f32,
            which: 0,
            pad: 0,
        }
    }

    fn loss(&mut self, labels: Address) {
        let args = LossArgs {
            labels,
            ..self.loss_args()
        };
        self.write_gradient(self.values.len() - 1);
        self.push(Source::Loss, "cross_entropy", 1, FEW_THREADS, &args);
    }

    fn count(&mut self, part: Part, first: usize, which: usize) {
        let images = self.batch.min(part.examples - first);
        let args = LossArgs {
            labels: part.args.labels + 4 * first as u64,
            batch: images as i32,
            which: which as i32,
            ..self.loss_args()
        };
        self.push(Source::Loss, "count_correct", images, FEW_THREADS, &args);
    }

    // Forward.

    fn forward(&mut self) {
        let mut norms = 0;
        for node in &self.setup.print.nodes {
            let (x, y) = (node.inputs[0], node.output);
            match &node.op {
                Op::Affine(affine) => self.affine_forward(affine, node),
                Op::Norm { .. } => {
                    self.norm_forward(node, norms);
                    norms += 1;
                }
                Op::Relu => {
                    let args = self.elementwise(self.value(x), x, self.value(y), y);
                    self.push_elementwise("activate", &args);
                }
                Op::Pool { maximum, .. } => {
                    let args = PoolArgs {
                        out: self.values[y],
                        count: self.plane(y).values(self.batch) as i32,
                        ..self.pool_args(node)
                    };
                    let name = if *maximum {
                        "max_forward"
                    } else {
                        "mean_forward"
                    };
                    self.push(Source::Pool, name, args.count as usize, THREADS, &args);
                }
                Op::Dropout { .. } => {
                    let args = self.elementwise(self.value(x), x, self.value(y), y);
                    match self.training {
                        true => self.push_elementwise("drop", &with_mask(args, node, self)),
                        false => self.push_elementwise("pass_back", &args),
                    }
                }
                Op::Add => {
                    let mut args = self.elementwise(self.value(x), x, self.value(y), y);
                    self.mask_by(&mut args, node.inputs[1]);
                    self.push_elementwise("add", &args);
                }
            }
        }
    }

    fn weights_at(&self, start: usize) -> Array {
        let Array { values, replica } = self.setup.common.weights;
        Array {
            values: values + 4 * start as u64,
            replica,
        }
    }

    fn affine_forward(&mut self, affine: &Affine, node: &Node) {
        let layer = self.layer(affine, node);
        let weights = self.weights_at(affine.weight);
        let mut product =
            layer.forward(self.value(node.inputs[0]), weights, self.value(node.output));
        product.args.replicas = self.setup.common.replicas;
        if affine.bias {
            product.args.bias = self.weights_at(affine.weight + layer.rows() * layer.output.pixel);
        }
        let print = self.setup.print;
        let elsewhere = |plane: usize| Layer {
            output: &print.planes[plane],
            ..layer
        };
        if let Some(term) = affine.added {
            product.args.other = self.value(term);
            product.args.other_x = self.tables.put(&elsewhere(term).writes());
        }
        if let Some(active) = affine.active {
            product.args.active = self.value(active);
            product.args.active_x = self.tables.put(&elsewhere(active).writes());
        }
        let launch = product.launch(self.tables);
        self.launches.push(launch);
    }

    fn elementwise(&self, x: Array, x_plane: usize, z: Array, z_plane: usize) -> ElementwiseArgs {
        ElementwiseArgs {
            x: x.values,
            x_replica: x.replica,
            x_plane: self.plane(x_plane).args(),
            z: z.values,
            z_replica: z.replica,
            z_plane: self.plane(z_plane).args(),
            replicas: self.setup.common.replicas,
            count: self.plane(z_plane).values(self.batch) as i32,
            ..ElementwiseArgs::default()
        }
    }

    /// Gives a pass the values of a plane as its second input.
    fn mask_by(&self, args: &mut ElementwiseArgs, plane: usize) {
        let value = self.value(plane);
        (args.y, args.y_replica) = (value.values, value.replica);
        args.y_plane = self.plane(plane).args();
    }

    fn push_elementwise(&mut self, function: &'static str, args: &ElementwiseArgs) {
        self.push(
            Source::Elementwise,
            function,
            args.count as usize,
            THREADS,
            args,
        );
    }

    fn pool_args(&self, node: &Node) -> PoolArgs {
        let Op::Pool { window, .. } = node.op else {
            unreachable!("called for pools");
        };
        let (x, y) = (node.inputs[0], node.output);
        PoolArgs {
            x: self.values[x],
            y: self.values[y],
            x_replica: self.stride(x) as i64,
            y_replica: self.stride(y) as i64,
            replicas: self.setup.common.replicas,
            x_plane: self.plane(x).args(),
            y_plane: self.plane(y).args(),
            rows: window.0 as i32,
            columns: window.1 as i32,
            ..PoolArgs::default()
        }
    }

    fn norm_args(&self, node: &Node, norm: usize) -> NormArgs {
        let Op::Norm {
            relu,
            scale,
            statistics,
        } = node.op
        else {
            unreachable!("called for norms");
        };
        let common = self.setup.common;
        let (x, y) = (node.inputs[0], node.output);
        let pixels = self.batch * self.plane(x).pixels();
        let most = (MOST_SLICES / self.setup.replicas).max(1);
        let per_slice = pixels.div_ceil(most).max(PIXELS_PER_SLICE);
        NormArgs {
            x: self.values[x],
            x_replica: self.stride(x) as i64,
            y_replica: self.stride(y) as i64,
            weights: common.weights.values,
            velocity: common.velocity,
            weights_replica: common.weights.replica,
            statistics: Array {
                values: common.statistics.values + 4 * statistics as u64,
                replica: common.statistics.replica,
            },
            sums: self.sums,
            line: self.lines[norm],
            line_back: self.line_back,
            replicas: common.replicas,
            x_plane: self.plane(x).args(),
            y_plane: self.plane(y).args(),
            scale: scale as i32,
            shift: (scale + self.plane(x).pixel) as i32,
            pixels: pixels as i32,
            slices: pixels.div_ceil(per_slice) as i32,
            per_slice: per_slice as i32,
            relu: u32::from(relu),
            descent: self.descent(),
            ..NormArgs::default()
        }
    }

    fn norm_forward(&mut self, node: &Node, norm: usize) {
        let args = NormArgs {
            out: self.values[node.output],
            ..self.norm_args(node, norm)
        };
        let channels = self.plane(node.inputs[0]).pixel;
        if self.training {
            self.push_norm_sums("norm_sums", &args);
            self.push(
                Source::Norm,
                "norm_statistics",
                channels,
                FEW_THREADS,
                &args,
            );
        } else {
            self.push(Source::Norm, "norm_running", channels, FEW_THREADS, &args);
        }
        let quads = args.pixels as usize * channels / 4;
        self.push(Source::Norm, "norm_apply", quads, THREADS, &args);
    }

    fn push_norm_sums(&mut self, function: &'static str, args: &NormArgs) {
        let slices = args.slices as usize;
        self.push(Source::Norm, function, slices * THREADS, THREADS, args);
        if let Some(launch) = self.launches.last_mut() {
            launch.shared = 4 * 2 * THREADS;
        }
    }

    // Backward.

    fn backward(&mut self) {
        let mut norms = self.lines.len();
        for node in self.setup.print.nodes.iter().rev() {
            match &node.op {
                Op::Affine(affine) => self.affine_backward(affine, node),
                Op::Norm { .. } => {
                    norms -= 1;
                    self.norm_backward(node, norms);
                }
                // Whoever wrote the gradient of y has masked it and put it where that of x is.
                Op::Relu => {}
                Op::Pool { maximum, .. } if self.wanted(node, 0) => {
                    self.pool_backward(node, *maximum);
                }
                Op::Dropout { .. } if self.wanted(node, 0) => {
                    let args = self.pass_back_args(node.output, node.inputs[0]);
                    self.push_elementwise("drop", &with_mask(args, node, self));
                }
                Op::Add => {
                    for which in 0..2 {
                        if self.wanted(node, which) {
                            let args = self.pass_back_args(node.output, node.inputs[which]);
                            self.push_elementwise("pass_back", &args);
                        }
                    }
                }
                Op::Pool { .. } | Op::Dropout { .. } => {}
            }
        }
    }

    fn wanted(&self, node: &Node, which: usize) -> bool {
        self.setup.print.learned[node.inputs[which]]
    }

    /// A pass from the gradient of one plane to that of another, masked by the other's activation.
    fn pass_back_args(&mut self, from: usize, to: usize) -> ElementwiseArgs {
        let mut args = self.elementwise(self.gradient(from), from, self.gradient(to), to);
        if let Some(mask) = self.setup.print.mask[to] {
            self.mask_by(&mut args, mask);
        }
        args.add = u32::from(self.write_gradient(to));
        args
    }

    fn pool_backward(&mut self, node: &Node, maximum: bool) {
        let (x, y) = (node.inputs[0], node.output);
        // A window that does not reach the end leaves pixels that nobody writes: they stay 0.
        let (function, counted) = match maximum {
            true => ("max_backward", y),
            false => ("mean_backward", x),
        };
        let args = PoolArgs {
            dy: self.gradient(y).values,
            out: self.gradient(x).values,
            count: self.plane(counted).values(self.batch) as i32,
            masked: u32::from(self.setup.print.mask[x].is_some()),
            add: u32::from(self.write_gradient(x)),
            ..self.pool_args(node)
        };
        self.push(Source::Pool, function, args.count as usize, THREADS, &args);
    }

    fn norm_backward(&mut self, node: &Node, norm: usize) {
        let (x, y) = (node.inputs[0], node.output);
        let mut args = NormArgs {
            dy: self.gradient(y).values,
            masked: u32::from(self.setup.print.mask[x].is_some()),
            ..self.norm_args(node, norm)
        };
        let channels = self.plane(x).pixel;
        self.push_norm_sums("norm_back_sums", &args);
        self.push(Source::Norm, "norm_back_line", channels, FEW_THREADS, &args);
        if self.wanted(node, 0) {
            args.out = self.gradient(x).values;
            args.add = u32::from(self.write_gradient(x));
            let quads = args.pixels as usize * channels / 4;
            self.push(Source::Norm, "norm_back_apply", quads, THREADS, &args);
        }
    }

    fn affine_backward(&mut self, affine: &Affine, node: &Node) {
        let layer = self.layer(affine, node);
        let (x, z) = (node.inputs[0], node.output);
        let print = self.setup.print;
        if let Some(term) = affine.added
            && print.learned[term]
            && print.gradient[term] != print.gradient[z]
        {
            let args = self.pass_back_args(z, term);
            self.push_elementwise("pass_back", &args);
        }
        let (dz, weights) = (self.gradient(z), self.weights_at(affine.weight));
        if print.learned[x] {
            let add = self.write_gradient(x);
            for mut product in layer.data_gradients(dz, weights) {
                product.args.replicas = self.setup.common.replicas;
                product.args.c = self.gradient(x);
                product.args.add = u32::from(add);
                if let Some(mask) = print.mask[x] {
                    // The mask lies as the gradient does: both have the same borders.
                    product.args.other = self.value(mask);
                }
                let launch = product.launch(self.tables);
                self.launch(launch);
            }
        }
        let first = self.launches.len();
        self.weights_backward(&layer, x, dz);
        // Nothing before the next step waits for new weights, but whoever writes what they are
        // computed from.
        for launch in &mut self.launches[first..] {
            launch.lane = Lane::Side;
        }
        self.read_aside[print.gradient[z]] = true;
    }

    fn weights_backward(&mut self, layer: &Layer<'_>, x: usize, dz: Array) {
        let affine = layer.affine;
        let parts = self.parts(layer);
        let weights = self.weights_at(affine.weight);
        let velocity = self.setup.common.velocity + 4 * affine.weight as u64;
        let epilogue = match parts {
            None => Epilogue::Descend,
            Some(_) => Epilogue::Partial,
        };
        let mut product = layer.weight_gradient(self.value(x), dz, epilogue);
        let count = self.part_floats(layer);
        product.args.replicas = self.setup.common.replicas;
        product.args.descent = self.descent();
        match parts {
            None => (product.args.c, product.args.velocity) = (weights, velocity),
            Some((parts, per_part)) => {
                product.args.c = array(self.partial, parts * count);
                product.args.part = count as i64;
                (product.args.parts, product.args.k_per_part) = (parts as i32, per_part as i32);
            }
        }
        let launch = product.launch(self.tables);
        self.launches.push(launch);
        if let Some((parts, _)) = parts {
            let args = FinishArgs {
                weights: weights.values,
                velocity,
                weights_replica: weights.replica,
                partial: array(self.partial, parts * count),
                part: count as i64,
                replicas: self.setup.common.replicas,
                count: count as i32,
                parts: parts as i32,
                scale: affine.scale,
                descent: self.descent(),
                pad: 0,
            };
            self.push(Source::Weights, "finish_weights", count / 4, THREADS, &args);
        }
    }
}

/// The mask of a dropout layer, for its pass either way.
fn with_mask(args: ElementwiseArgs, node: &Node, emitter: &Emitter<'_>) -> ElementwiseArgs {
    let Op::Dropout { rate, index } = node.op else {
        unreachable!("called for dropout");
    };
    ElementwiseArgs {
        channels: emitter.plane(node.output).shape.channels as i32,
        layer: index,
        threshold: (rate * 4_294_967_296.0) as u32,
        kept: (1.0 / (1.0 - rate)) as f32,
        ..args
    }
}
