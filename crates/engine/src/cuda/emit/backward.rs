//! The backward pass, and the step of the weights.

use super::forward::with_mask;
use super::{Emitter, THREADS};
use crate::cuda::affine::Layer;
use crate::cuda::args::{Array, ElementwiseArgs, FinishArgs, PoolArgs};
use crate::cuda::blueprint::{Affine, Node, Op};
use crate::cuda::launch::{Lane, Source};
use crate::cuda::product::{Epilogue, array, parts};

impl Emitter<'_> {
    pub(super) fn backward(&mut self) {
        let mut norms = self.lines.len();
        for node in self.setup.print.nodes.iter().rev() {
            match &node.op {
                Op::Affine(affine) => self.affine_backward(affine, node),
                Op::Norm { .. } => {
                    norms -= 1;
                    self.norm_backward(node, norms);
                }
                // Nothing to do: y's gradient was written, already masked, into x's buffer.
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

    pub(super) fn wanted(&self, node: &Node, which: usize) -> bool {
        self.setup.print.learned[node.inputs[which]]
    }

    /// A pass from the gradient of one plane to that of another, masked by the other's activation.
    pub(super) fn pass_back_args(&mut self, from: usize, to: usize) -> ElementwiseArgs {
        let mut args = self.elementwise(self.gradient(from), from, self.gradient(to), to);
        if let Some(mask) = self.setup.print.mask[to] {
            self.mask_by(&mut args, mask);
        }
        args.add = u32::from(self.write_gradient(to));
        args
    }

    pub(super) fn pool_backward(&mut self, node: &Node, maximum: bool) {
        let (x, y) = (node.inputs[0], node.output);
        let (function, counted) = match maximum {
            true => ("max_backward", y),
            false => ("mean_backward", x),
        };
        let args = PoolArgs {
            dy: self.gradient(y).values,
            out: self.gradient(x).values,
            count: self.plane(counted).fours(self.batch) as i32,
            masked: u32::from(self.setup.print.mask[x].is_some()),
            add: u32::from(self.write_gradient(x)),
            ..self.pool_args(node)
        };
        self.push(Source::Pool, function, args.count as usize, THREADS, &args);
    }

    pub(super) fn affine_backward(&mut self, affine: &Affine, node: &Node) {
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
                product.args.rounds = u32::from(self.rounds(x));
                product.rounded = affine.dense && self.rounds(z);
                if let Some(mask) = print.mask[x] {
                    // The mask lies as the gradient does: both have the same borders.
                    product.args.other = self.value(mask);
                }
                product.room = self.packed[0];
                for launch in product.launches(self.tables) {
                    self.launch(launch);
                }
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

    pub(super) fn weights_backward(&mut self, layer: &Layer<'_>, x: usize, dz: Array) {
        let affine = layer.affine;
        let parts = parts(layer.weights_size(), self.setup.units);
        let weights = self.weights_at(affine.weight);
        let velocity = self.setup.common.velocity + 4 * affine.weight as u64;
        let epilogue = match parts {
            None => Epilogue::Descend,
            Some(_) => Epilogue::Partial,
        };
        let mut product = layer.weight_gradient(self.value(x), dz, epilogue);
        let count = self.part_floats(layer);
        product.args.replicas = self.setup.common.replicas;
        product.args.descent = self.setup.descent();
        match parts {
            None => (product.args.c, product.args.velocity) = (weights, velocity),
            Some((parts, per_part)) => {
                product.args.c = array(self.partial, parts * count);
                product.args.part = count as i64;
                (product.args.parts, product.args.k_per_part) = (parts as i32, per_part as i32);
            }
        }
        product.room = self.packed[1];
        let launches = product.launches(self.tables);
        self.launches.extend(launches);
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
                descent: self.setup.descent(),
                pad: 0,
            };
            self.push(Source::Weights, "finish_weights", count / 4, THREADS, &args);
        }
    }
}
