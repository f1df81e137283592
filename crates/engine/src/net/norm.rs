//! Batch normalization: y = γ·(x − μ)/√(σ² + ϵ) + β per channel (Ioffe & Szegedy, 2015).
//!
//! Training uses the batch's mean and variance and keeps running ones for
//! evaluation: r ← 0.9·r + 0.1·(batch), the variance there with n − 1 as PyTorch has it.
//! Sums run within a row of pixels in single precision and over rows in double.
//!
//! Values per channel are repeated to blocks of whole vectors, so that a pixel of few
//! channels is not a short loop of its own: lane i of a block belongs to channel
//! i mod channels.

use super::elementwise::Gradient;
use super::learner::Learner;
use super::plane::Plane;
use crate::kernels::Isa;
use crate::kernels::per_isa;
use crate::kernels::rowwise::{self, Write};

const EPSILON: f64 = 1e-5;
const MOMENTUM: f64 = 0.9;

/// A batch norm, compiled.
#[derive(Debug)]
pub struct Norm {
    pub(super) input: Plane,
    pub(super) output: Plane,
    /// Whether max(0, y) follows.
    pub relu: bool,
    /// Start of γ in the flat weights.
    pub(super) scale: usize,
    /// Start of β in the flat weights.
    pub(super) shift: usize,
    /// Start of the running mean in the flat statistics; the variance follows it.
    pub(super) statistics: usize,
}

/// What the forward pass of one norm leaves for its backward pass, and room to work in.
#[derive(Debug, Clone)]
pub struct NormState {
    /// By block.
    mean: Vec<f32>,
    /// 1/√(σ² + ϵ), by channel.
    inverse: Vec<f32>,
    /// By channel.
    totals: [Vec<f64>; 2],
    /// Sums over one row of pixels, by block.
    partial: [Vec<f32>; 2],
    /// Factors and offset, by block.
    line: [Vec<f32>; 3],
}

impl NormState {
    /// Room for so many channels.
    pub fn new(channels: usize) -> Self {
        let block = || vec![0.0; rowwise::whole_vectors(channels)];
        Self {
            mean: block(),
            inverse: vec![0.0; channels],
            totals: [vec![0.0; channels], vec![0.0; channels]],
            partial: [block(), block()],
            line: [block(), block(), block()],
        }
    }
}

/// How a pass is made: with which instructions, over how many images.
#[derive(Debug, Clone, Copy)]
pub struct Call {
    /// Instruction set.
    pub isa: Isa,
    /// Images.
    pub n: usize,
}

impl Norm {
    fn channels(&self) -> usize {
        self.input.shape.channels
    }

    /// y from x with the statistics of the batch, which also move the running ones.
    pub fn forward_training(
        &self,
        call: Call,
        y: &mut [f32],
        x: &[f32],
        weights: &[f32],
        statistics: &mut [f32],
        state: &mut NormState,
    ) {
        let Call { isa, n } = call;
        let count = (n * self.input.shape.height * self.input.shape.width) as f64;
        let [total, squares] = &mut state.totals;
        let [sum, sum2] = &mut state.partial;
        total.fill(0.0);
        for row in self.input.rows(n) {
            sum.fill(0.0);
            add_values(isa, sum, &x[row]);
            add_to(total, sum);
        }
        for (mean, total) in state.mean.iter_mut().zip(total) {
            *mean = (*total / count) as f32;
        }
        repeat(&mut state.mean, self.channels());
        squares.fill(0.0);
        for row in self.input.rows(n) {
            sum2.fill(0.0);
            add_deviations(isa, sum2, &x[row], &state.mean);
            add_to(squares, sum2);
        }
        let running = &mut statistics[self.statistics..][..2 * self.channels()];
        let (running_mean, running_variance) = running.split_at_mut(self.channels());
        for c in 0..self.channels() {
            state.inverse[c] = (1.0 / (squares[c] / count + EPSILON).sqrt()) as f32;
            let unbiased = squares[c] / (count - 1.0).max(1.0);
            blend(&mut running_mean[c], f64::from(state.mean[c]));
            blend(&mut running_variance[c], unbiased);
        }
        self.apply(call, y, x, weights, state);
    }

    /// y from x with the running statistics.
    pub fn forward_evaluation(
        &self,
        call: Call,
        y: &mut [f32],
        x: &[f32],
        weights: &[f32],
        statistics: &[f32],
        state: &mut NormState,
    ) {
        let running = &statistics[self.statistics..][..2 * self.channels()];
        let (mean, variance) = running.split_at(self.channels());
        state.mean[..mean.len()].copy_from_slice(mean);
        for (inverse, variance) in state.inverse.iter_mut().zip(variance) {
            *inverse = (1.0 / (f64::from(*variance) + EPSILON).sqrt()) as f32;
        }
        self.apply(call, y, x, weights, state);
    }

    /// y = x·(γ·inverse) + (β − μ·γ·inverse), then the activation.
    fn apply(&self, call: Call, y: &mut [f32], x: &[f32], weights: &[f32], state: &mut NormState) {
        let Call { isa, n } = call;
        let [factor, offset, _] = &mut state.line;
        for c in 0..self.channels() {
            factor[c] = weights[self.scale + c] * state.inverse[c];
            offset[c] = weights[self.shift + c] - state.mean[c] * factor[c];
        }
        repeat(factor, self.channels());
        repeat(offset, self.channels());
        for (to, from) in self.output.rows(n).zip(self.input.rows(n)) {
            line(isa, &mut y[to], &x[from], factor, offset, self.relu);
        }
    }

    /// Gradients of γ and β, and dx.
    ///
    /// With x̂ the normalized input and means over the batch:
    /// dγ = Σ dy·x̂, dβ = Σ dy, dx = γ·inverse·(dy − mean(dy) − x̂·mean(dy·x̂)).
    pub fn backward(
        &self,
        call: Call,
        pass: NormPass<'_>,
        learner: &mut Learner<'_>,
        state: &mut NormState,
    ) {
        let Call { isa, n } = call;
        let NormPass { to, dy, y, x } = pass;
        let count = (n * self.input.shape.height * self.input.shape.width) as f64;
        let [shift_total, scale_total] = &mut state.totals;
        let [shift_sum, scale_sum] = &mut state.partial;
        shift_total.fill(0.0);
        scale_total.fill(0.0);
        for (to, from) in self.output.rows(n).zip(self.input.rows(n)) {
            shift_sum.fill(0.0);
            scale_sum.fill(0.0);
            if let Some(y) = y {
                rowwise::relu_backward(isa, &mut dy[to.clone()], &y[to.clone()]);
            }
            add_values(isa, shift_sum, &dy[to.clone()]);
            add_products(isa, scale_sum, &dy[to], &x[from], &state.mean);
            add_to(shift_total, shift_sum);
            add_to(scale_total, scale_sum);
        }
        let [of_dy, of_x, constant] = &mut state.line;
        for c in 0..self.channels() {
            let inverse = f64::from(state.inverse[c]);
            let (d_shift, d_scale) = (shift_total[c], scale_total[c] * inverse);
            learner.gradients.get_mut()[self.shift + c] = d_shift as f32;
            learner.gradients.get_mut()[self.scale + c] = d_scale as f32;
            // dx = of_dy·dy + of_x·x + constant, collected from the formula above.
            let front = f64::from(learner.weights.get()[self.scale + c]) * inverse;
            let slope = -front * inverse * d_scale / count;
            of_dy[c] = front as f32;
            of_x[c] = slope as f32;
            constant[c] = (-front * d_shift / count - slope * f64::from(state.mean[c])) as f32;
        }
        (state.line.iter_mut()).for_each(|values| repeat(values, self.channels()));
        for start in [self.scale, self.shift] {
            learner.finish(isa, start..start + self.channels());
        }
        let Some(Gradient { dx, write }) = to else {
            return;
        };
        for (to, from) in self.output.rows(n).zip(self.input.rows(n)) {
            let dx = &mut dx[from.clone()];
            input_gradient(isa, dx, &dy[to], &x[from], &state.line, write);
        }
    }
}

/// The activations and gradients around a norm.
pub struct NormPass<'a> {
    /// ∂loss/∂x; absent where nobody needs it.
    pub to: Option<Gradient<'a>>,
    /// ∂loss/∂y; the activation's part is taken in place.
    pub dy: &'a mut [f32],
    /// Output of the forward pass, if an activation followed whose part nobody has taken.
    pub y: Option<&'a [f32]>,
    /// Its input.
    pub x: &'a [f32],
}

fn blend(running: &mut f32, batch: f64) {
    *running = (MOMENTUM * f64::from(*running) + (1.0 - MOMENTUM) * batch) as f32;
}

/// totals by channel ← totals + sums by block.
fn add_to(totals: &mut [f64], sums: &[f32]) {
    for pixel in sums.chunks_exact(totals.len()) {
        for (total, sum) in totals.iter_mut().zip(pixel) {
            *total += f64::from(*sum);
        }
    }
}

/// Fills a block with what its first pixel holds.
fn repeat(block: &mut [f32], channels: usize) {
    for at in channels..block.len() {
        block[at] = block[at - channels];
    }
}

per_isa!(fn add_values(sums: &mut [f32], x: &[f32]) = plain add_values_kernel);

per_isa!(fn add_deviations(sums: &mut [f32], x: &[f32], mean: &[f32]) = plain add_deviations_kernel);
per_isa!(
    fn add_products(sums: &mut [f32], dy: &[f32], x: &[f32], mean: &[f32]) = plain add_products_kernel
);
per_isa!(
    fn line(y: &mut [f32], x: &[f32], factor: &[f32], offset: &[f32], relu: bool) = plain line_kernel
);
per_isa!(
    fn input_gradient(dx: &mut [f32], dy: &[f32], x: &[f32], line: &[Vec<f32>; 3], write: Write)
        = plain input_gradient_kernel
);

/// sums ← sums + x over blocks.
#[inline(always)]
fn add_values_kernel(sums: &mut [f32], x: &[f32]) {
    for block in x.chunks(sums.len()) {
        for (sum, x) in sums.iter_mut().zip(block) {
            *sum += x;
        }
    }
}

/// sums ← sums + (x − mean)² over blocks.
#[inline(always)]
fn add_deviations_kernel(sums: &mut [f32], x: &[f32], mean: &[f32]) {
    for pixel in x.chunks(sums.len()) {
        for ((sum, x), mean) in sums.iter_mut().zip(pixel).zip(mean) {
            *sum += (x - mean) * (x - mean);
        }
    }
}

/// sums ← sums + dy·(x − mean) over blocks.
#[inline(always)]
fn add_products_kernel(sums: &mut [f32], dy: &[f32], x: &[f32], mean: &[f32]) {
    let block = sums.len();
    for (dy, x) in dy.chunks(block).zip(x.chunks(block)) {
        for (((sum, dy), x), mean) in sums.iter_mut().zip(dy).zip(x).zip(mean) {
            *sum += dy * (x - mean);
        }
    }
}

/// y = factor·x + offset, then max(0, y) if `relu`, over blocks.
#[inline(always)]
fn line_kernel(y: &mut [f32], x: &[f32], factor: &[f32], offset: &[f32], relu: bool) {
    let block = factor.len();
    for (y, x) in y.chunks_mut(block).zip(x.chunks(block)) {
        for (((y, x), factor), offset) in y.iter_mut().zip(x).zip(factor).zip(offset) {
            let z = factor * x + offset;
            *y = if relu && z < 0.0 { 0.0 } else { z };
        }
    }
}

/// dx ← of_dy·dy + of_x·x + constant over blocks, or dx + that.
#[inline(always)]
fn input_gradient_kernel(
    dx: &mut [f32],
    dy: &[f32],
    x: &[f32],
    line: &[Vec<f32>; 3],
    write: Write,
) {
    let [of_dy, of_x, constant] = line;
    let block = constant.len();
    let blocks = dx.chunks_mut(block).zip(dy.chunks(block));
    for ((dx, dy), x) in blocks.zip(x.chunks(block)) {
        let values = dx.iter_mut().zip(dy).zip(x);
        for (((dx, dy), x), ((of_dy, of_x), constant)) in
            values.zip(of_dy.iter().zip(of_x).zip(constant))
        {
            let gradient = of_dy * dy + of_x * x + constant;
            *dx = match write {
                Write::Set => gradient,
                Write::Add => *dx + gradient,
            };
        }
    }
}
