//! Activation, sum and dropout: one value in, one value out.

use super::plane::Plane;
use crate::kernels::Isa;
use crate::kernels::rowwise::{self, Write};
use crate::random::{Purpose, Stream};

/// The gradient of an operation's input, with the spare line behind its plane, and
/// what becomes of what others wrote there.
pub struct Gradient<'a> {
    pub(super) dx: &'a mut [f32],
    pub(super) write: Write,
}

/// y = max(0, x), where it could not be joined to the layer before it.
#[derive(Debug)]
pub struct Relu {
    pub(super) input: Plane,
    pub(super) output: Plane,
}

impl Relu {
    /// y from x.
    pub fn forward(&self, isa: Isa, y: &mut [f32], x: &[f32], n: usize) {
        for (to, from) in self.output.rows(n).zip(self.input.rows(n)) {
            rowwise::relu(isa, &mut y[to], &x[from]);
        }
    }

    /// dx from dy.
    pub fn backward(&self, isa: Isa, to: Gradient<'_>, dy: &[f32], y: &[f32], n: usize) {
        let Gradient { dx, write } = to;
        for (from, to) in self.output.rows(n).zip(self.input.rows(n)) {
            rowwise::pass_relu(isa, &mut dx[to], &dy[from.clone()], &y[from], write);
        }
    }
}

/// z = x + y, where the branches of a residual meet.
#[derive(Debug)]
pub struct Add {
    pub(super) inputs: [Plane; 2],
    pub(super) output: Plane,
}

impl Add {
    /// z from both.
    pub fn forward(&self, isa: Isa, z: &mut [f32], x: &[f32], y: &[f32], n: usize) {
        let inputs = self.inputs[0].rows(n).zip(self.inputs[1].rows(n));
        for (to, (first, second)) in self.output.rows(n).zip(inputs) {
            rowwise::add(isa, &mut z[to], &x[first], &y[second]);
        }
    }

    /// dx from dz for one of the inputs.
    pub fn backward(&self, isa: Isa, which: usize, to: Gradient<'_>, dz: &[f32], n: usize) {
        let Gradient { dx, write } = to;
        for (from, to) in self.output.rows(n).zip(self.inputs[which].rows(n)) {
            rowwise::pass_on(isa, &mut dx[to], &dz[from], write);
        }
    }
}

/// y = x·mask, mask 0 with probability `rate` and 1/(1 − rate) otherwise.
#[derive(Debug)]
pub struct Dropout {
    pub(super) input: Plane,
    pub(super) output: Plane,
    pub(super) rate: f64,
    /// Which dropout layer of the network it is.
    pub(super) index: u32,
}

impl Dropout {
    /// Draws the mask of a step for `n` images. Value i of the batch, counted
    /// without borders, takes word i mod 4 of the block at (step, i / 4).
    pub fn draw(&self, mask: &mut [f32], seed: u64, step: u64, n: usize) {
        let stream = Stream::new(seed, Purpose::Dropout(self.index));
        let kept = (1.0 / (1.0 - self.rate)) as f32;
        let threshold = (self.rate * 4_294_967_296.0) as u32;
        let values = &mut mask[..n * self.input.shape.size()];
        for (lane, four) in values.chunks_mut(4).enumerate() {
            let words = stream.block(step, lane as u32);
            for (value, word) in four.iter_mut().zip(words) {
                *value = if word < threshold { 0.0 } else { kept };
            }
        }
    }

    /// y from x under the mask.
    pub fn forward(&self, isa: Isa, y: &mut [f32], x: &[f32], mask: &[f32], n: usize) {
        for ((to, from), mask) in self.rows(n).zip(mask.chunks_exact(self.input.run())) {
            rowwise::masked(isa, &mut y[to], &x[from], mask);
        }
    }

    /// y = x: evaluation keeps everything.
    pub fn forward_evaluation(&self, y: &mut [f32], x: &[f32], n: usize) {
        self.rows(n)
            .for_each(|(to, from)| y[to].copy_from_slice(&x[from]));
    }

    /// dx from dy.
    pub fn backward(&self, isa: Isa, to: Gradient<'_>, dy: &[f32], mask: &[f32], n: usize) {
        let Gradient { dx, write } = to;
        for ((from, to), mask) in self.rows(n).zip(mask.chunks_exact(self.input.run())) {
            rowwise::pass_masked(isa, &mut dx[to], &dy[from], mask, write);
        }
    }

    /// Matching rows of output and input.
    fn rows(
        &self,
        n: usize,
    ) -> impl Iterator<Item = (std::ops::Range<usize>, std::ops::Range<usize>)> + use<> {
        self.output.rows(n).zip(self.input.rows(n))
    }
}
