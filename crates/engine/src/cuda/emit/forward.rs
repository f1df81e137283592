//! The forward pass.

use super::{Emitter, THREADS};
use crate::cuda::affine::Layer;
use crate::cuda::args::{Array, ElementwiseArgs, PoolArgs};
use crate::cuda::blueprint::{Affine, Node, Op};
use crate::cuda::launch::Source;

impl Emitter<'_> {
    pub(super) fn forward(&mut self) {
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
                        count: self.plane(y).fours(self.batch) as i32,
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
                    self.push_elementwise("add_both", &args);
                }
            }
        }
    }

    pub(super) fn weights_at(&self, start: usize) -> Array {
        let Array { values, replica } = self.setup.common.weights;
        Array {
            values: values + 4 * start as u64,
            replica,
        }
    }

    pub(super) fn affine_forward(&mut self, affine: &Affine, node: &Node) {
        let layer = self.layer(affine, node);
        let weights = self.weights_at(affine.weight);
        let mut product =
            layer.forward(self.value(node.inputs[0]), weights, self.value(node.output));
        product.args.replicas = self.setup.common.replicas;
        product.args.rounds = u32::from(self.rounds(node.output));
        product.rounded = affine.dense && self.rounds(node.inputs[0]);
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
        product.room = self.packed[0];
        let launches = product.launches(self.tables);
        self.launches.extend(launches);
    }

    pub(super) fn elementwise(
        &self,
        x: Array,
        x_plane: usize,
        z: Array,
        z_plane: usize,
    ) -> ElementwiseArgs {
        ElementwiseArgs {
            x: x.values,
            x_replica: x.replica,
            x_plane: self.plane(x_plane).args(),
            z: z.values,
            z_replica: z.replica,
            z_plane: self.plane(z_plane).args(),
            replicas: self.setup.common.replicas,
            count: self.plane(z_plane).fours(self.batch) as i32,
            ..ElementwiseArgs::default()
        }
    }

    /// Gives a pass the values of a plane as its second input.
    pub(super) fn mask_by(&self, args: &mut ElementwiseArgs, plane: usize) {
        let value = self.value(plane);
        (args.y, args.y_replica) = (value.values, value.replica);
        args.y_plane = self.plane(plane).args();
    }

    pub(super) fn push_elementwise(&mut self, function: &'static str, args: &ElementwiseArgs) {
        self.push(
            Source::Elementwise,
            function,
            args.count as usize,
            THREADS,
            args,
        );
    }

    pub(super) fn pool_args(&self, node: &Node) -> PoolArgs {
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
}

/// The mask of a dropout layer, for its pass either way.
pub(super) fn with_mask(
    args: ElementwiseArgs,
    node: &Node,
    emitter: &Emitter<'_>,
) -> ElementwiseArgs {
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
