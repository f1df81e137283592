//! Pooling over windows that lie side by side; rows and columns that do not
//! fill a window are left out.
//!
//! Channels are taken eight at a time, past the end of a pixel where it has fewer:
//! what is read there is the next pixel, and what is written is put right. Planes have room
//! for that behind them.

use super::elementwise::Gradient;
use super::plane::Plane;
use crate::buffer::LINE;
use crate::kernels::rowwise::Write;
use crate::kernels::{Isa, per_isa};
use spec::Shape;

/// How a window becomes one value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Its largest value; NaN if it holds one.
    Max,
    /// Its mean.
    Mean,
}

/// A pooling layer, compiled.
#[derive(Debug, Clone, Copy)]
pub struct Pool {
    pub(super) kind: Kind,
    pub(super) input: Plane,
    pub(super) output: Plane,
    /// Window of `window.0` rows and `window.1` columns.
    pub(super) window: (usize, usize),
}

/// Channels at a time.
const LANES: usize = 8;
const _: () = assert!(LANES <= LINE);

impl Pool {
    /// y from x, for `n` images; both reach a spare line beyond their planes.
    pub fn forward(&self, isa: Isa, y: &mut [f32], x: &[f32], n: usize) {
        match self.kind {
            Kind::Max => max_forward(isa, y, x, *self, n),
            Kind::Mean => mean_forward(isa, y, x, *self, n),
        }
    }

    /// dx from dy. The gradient of a maximum goes to the first value that has it.
    pub fn backward(&self, isa: Isa, pass: PoolPass<'_>, n: usize) {
        match self.kind {
            Kind::Max => max_backward(isa, pass, *self, n),
            Kind::Mean => mean_backward(isa, pass, *self, n),
        }
    }

    /// Rows of inputs that belong to a row of outputs; the last one has the rest.
    fn input_rows(&self, row: usize) -> std::ops::Range<usize> {
        let first = row * self.window.0;
        match row + 1 == self.output.shape.height {
            true => first..self.input.shape.height,
            false => first..first + self.window.0,
        }
    }
}

/// Runs a block for every vector of outputs: `$to` is its place, `$from` that of its
/// window's first pixel, and `$lanes` of its lanes are channels of this pixel; before every
/// row of outputs runs another. A macro, because a closure of this size is compiled by
/// itself and then without the instruction set of its caller.
macro_rules! for_vectors {
    ($pool:ident, $n:ident, |$image:ident, $row:ident| $before:block,
     |$to:ident, $from:ident, $lanes:ident| $body:block) => {
        let channels = $pool.output.shape.channels;
        for $image in 0..$n {
            for $row in 0..$pool.output.shape.height {
                $before
                let row_to = $pool.output.at($image, $row);
                let row_from = $pool.input.at($image, $row * $pool.window.0);
                for column in 0..$pool.output.shape.width {
                    for channel in (0..channels).step_by(LANES) {
                        let $to = row_to + column * channels + channel;
                        let $from = row_from + column * $pool.window.1 * channels + channel;
                        let $lanes = LANES.min(channels - channel);
                        $body
                    }
                }
            }
        }
    };
}

/// Runs a block for the pixels of a window, row by row: `$at` is a pixel's place.
macro_rules! for_window {
    ($pool:ident, $from:ident, |$at:ident| $body:block) => {
        for row in 0..$pool.window.0 {
            for column in 0..$pool.window.1 {
                let $at = $from + row * $pool.input.row() + column * $pool.input.shape.channels;
                $body
            }
        }
    };
}

/// The activations and gradients around a pooling layer, each with its spare line.
pub struct PoolPass<'a> {
    /// ∂loss/∂x.
    pub to: Gradient<'a>,
    /// ∂loss/∂y.
    pub dy: &'a [f32],
    /// Output of the forward pass.
    pub y: &'a [f32],
    /// Its input.
    pub x: &'a [f32],
    /// Whether the input went through an activation whose part in the gradient a maximum
    /// takes as well: where the largest value is 0, none of the window has a gradient.
    pub after_relu: bool,
}

type Vector = [f32; LANES];

#[inline(always)]
fn read(x: &[f32], at: usize) -> Vector {
    std::array::from_fn(|lane| x[at..at + LANES][lane])
}

/// Writes the lanes that are channels of this pixel.
#[inline(always)]
fn write_lanes(y: &mut [f32], at: usize, values: Vector, lanes: usize) {
    let y = &mut y[at..at + LANES];
    if lanes == LANES {
        return y.copy_from_slice(&values);
    }
    // Lanes one by one would be a loop of unforeseen length.
    let mut done = 0;
    for part in [4, 2, 1] {
        if lanes & part != 0 {
            y[done..done + part].copy_from_slice(&values[done..done + part]);
            done += part;
        }
    }
}

per_isa!(fn max_forward(y: &mut [f32], x: &[f32], pool: Pool, n: usize) = plain max_forward_kernel);
per_isa!(fn mean_forward(y: &mut [f32], x: &[f32], pool: Pool, n: usize) = plain mean_forward_kernel);
per_isa!(fn max_backward(pass: PoolPass<'_>, pool: Pool, n: usize) = plain max_backward_kernel);
per_isa!(fn mean_backward(pass: PoolPass<'_>, pool: Pool, n: usize) = plain mean_backward_kernel);

#[inline(always)]
fn max_forward_kernel(y: &mut [f32], x: &[f32], pool: Pool, n: usize) {
    for_vectors!(pool, n, |image, row| {}, |to, from, lanes| {
        let mut best = read(x, from);
        for_window!(pool, from, |at| {
            let values = read(x, at);
            for lane in 0..LANES {
                // A NaN is neither larger nor smaller, and must win; once there it stays.
                let keeps = values[lane] <= best[lane] || best[lane].is_nan();
                best[lane] = if keeps { best[lane] } else { values[lane] };
            }
        });
        write_lanes(y, to, best, whole(pool, lanes));
    });
}

#[inline(always)]
fn mean_forward_kernel(y: &mut [f32], x: &[f32], pool: Pool, n: usize) {
    let share = 1.0 / (pool.window.0 * pool.window.1) as f32;
    for_vectors!(pool, n, |image, row| {}, |to, from, lanes| {
        let mut sum = [0.0; LANES];
        for_window!(pool, from, |at| {
            let values = read(x, at);
            for lane in 0..LANES {
                sum[lane] += values[lane] * share;
            }
        });
        write_lanes(y, to, sum, whole(pool, lanes));
    });
}

/// Without a border the lanes behind a pixel are those of the next, which is written after
/// it, or the spare line.
#[inline(always)]
fn whole(pool: Pool, lanes: usize) -> usize {
    if pool.output.border == 0 {
        LANES
    } else {
        lanes
    }
}

#[inline(always)]
fn max_backward_kernel(pass: PoolPass<'_>, pool: Pool, n: usize) {
    let PoolPass {
        to: Gradient { dx, write },
        dy,
        y,
        x,
        after_relu,
    } = pass;
    for_vectors!(
        pool,
        n,
        |image, row| { clear(dx, write, pool, image, row) },
        |to, from, lanes| {
            let best = read(y, to);
            // What is left to give.
            let mut left = read(dy, to);
            for (left, best) in left.iter_mut().zip(best) {
                *left = if after_relu && best <= 0.0 {
                    0.0
                } else {
                    *left
                };
            }
            for_window!(pool, from, |at| {
                let values = read(x, at);
                let mut gradient = before(dx, write, at);
                for lane in 0..LANES {
                    let chosen = values[lane] == best[lane];
                    gradient[lane] += if chosen { left[lane] } else { 0.0 };
                    left[lane] = if chosen { 0.0 } else { left[lane] };
                }
                write_lanes(dx, at, gradient, lanes);
            });
        }
    );
}

#[inline(always)]
fn mean_backward_kernel(pass: PoolPass<'_>, pool: Pool, n: usize) {
    let PoolPass {
        to: Gradient { dx, write },
        dy,
        ..
    } = pass;
    let share = 1.0 / (pool.window.0 * pool.window.1) as f32;
    for_vectors!(
        pool,
        n,
        |image, row| { clear(dx, write, pool, image, row) },
        |to, from, lanes| {
            let part = read(dy, to).map(|dy| dy * share);
            for_window!(pool, from, |at| {
                let mut gradient = before(dx, write, at);
                for lane in 0..LANES {
                    gradient[lane] += part[lane];
                }
                write_lanes(dx, at, gradient, lanes);
            });
        }
    );
}

/// What was there, as far as it counts.
#[inline(always)]
fn before(dx: &[f32], write: Write, at: usize) -> Vector {
    match write {
        Write::Set => [0.0; LANES],
        Write::Add => read(dx, at),
    }
}

/// Clears the inputs of a row of outputs, if they are to be set and windows leave some out.
#[inline(always)]
fn clear(dx: &mut [f32], write: Write, pool: Pool, image: usize, row: usize) {
    let Shape { height, width, .. } = pool.input.shape;
    let covered = height.is_multiple_of(pool.window.0) && width.is_multiple_of(pool.window.1);
    if write == Write::Set && !covered {
        for y in pool.input_rows(row) {
            dx[pool.input.at(image, y)..][..pool.input.run()].fill(0.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool(kind: Kind, channels: usize) -> Pool {
        let plane = |side, border| Plane {
            shape: Shape {
                height: side,
                width: side,
                channels,
            },
            border,
        };
        Pool {
            kind,
            input: plane(5, 1),
            output: plane(2, 0),
            window: (2, 2),
        }
    }

    /// The definition: value by value, the first of equals.
    fn reference(pool: Pool, x: &[f32], dy: &[f32]) -> [Vec<f32>; 2] {
        let channels = pool.output.shape.channels;
        let mut y = vec![0.0; 2 * pool.output.image()];
        let mut dx = vec![1.0; 2 * pool.input.image() + LINE];
        for image in 0..2 {
            for (row, column) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
                for channel in 0..channels {
                    let to = pool.output.at(image, row) + column * channels + channel;
                    let first = pool.input.at(image, 2 * row) + 2 * column * channels + channel;
                    let mut places = Vec::new();
                    for_window!(pool, first, |at| { places.push(at) });
                    match pool.kind {
                        Kind::Max => {
                            let mut best = places[0];
                            for &place in &places {
                                if x[place] > x[best] {
                                    best = place;
                                }
                            }
                            y[to] = x[best];
                            dx[best] += dy[to];
                        }
                        Kind::Mean => {
                            y[to] = places.iter().map(|place| 0.25 * x[*place]).sum();
                            places.iter().for_each(|place| dx[*place] += 0.25 * dy[to]);
                        }
                    }
                }
            }
        }
        [y, dx]
    }

    #[test]
    fn pools_match_their_definition() {
        for kind in [Kind::Max, Kind::Mean] {
            for channels in [1, 6, 8, 13, 16] {
                let pool = pool(kind, channels);
                // Few different values, so that there are equals.
                let value = |i: usize| ((i * 7919) % 5) as f32 - 2.0;
                let x: Vec<f32> = (0..2 * pool.input.image() + LINE).map(value).collect();
                let dy: Vec<f32> = (0..2 * pool.output.image() + LINE).map(value).collect();
                let [expected, expected_dx] = reference(pool, &x, &dy);
                for isa in Isa::available() {
                    let mut y = vec![9.0; 2 * pool.output.image() + LINE];
                    pool.forward(isa, &mut y, &x, 2);
                    assert_eq!(y[..expected.len()], expected, "{kind:?} {channels}");
                    let backward = |dx: &mut [f32], write, after_relu| {
                        let pass = PoolPass {
                            to: Gradient { dx, write },
                            dy: &dy,
                            y: &y,
                            x: &x,
                            after_relu,
                        };
                        pool.backward(isa, pass, 2);
                    };
                    let mut dx = vec![1.0; x.len()];
                    backward(&mut dx, Write::Add, false);
                    assert_eq!(dx, expected_dx, "{kind:?} {channels}");
                    backward(&mut dx, Write::Set, true);
                    for row in pool.input.rows(2) {
                        for at in row {
                            let taken = kind == Kind::Max && x[at] <= 0.0;
                            let set = if taken { 0.0 } else { expected_dx[at] - 1.0 };
                            assert_eq!(dx[at], set, "{kind:?} {channels}");
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn a_nan_in_a_window_is_its_maximum() {
        let pool = pool(Kind::Max, 1);
        for place in 0..4 {
            let mut x = vec![1.0; pool.input.image() + LINE];
            let pixel = place / 2 * pool.input.row() + place % 2;
            x[pool.input.at(0, 0) + pixel] = f32::NAN;
            for isa in Isa::available() {
                let mut y = vec![0.0; pool.output.image() + LINE];
                pool.forward(isa, &mut y, &x, 1);
                assert!(y[0].is_nan() && y[1] == 1.0);
            }
        }
    }
}
