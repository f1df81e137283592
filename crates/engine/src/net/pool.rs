//! Pooling over windows that lie side by side; rows and columns that do not
//! fill a window are left out.

use super::plane::Plane;

/// How a window becomes one value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Its largest value, the first of equals; NaN if it holds one.
    Max,
    /// Its mean.
    Mean,
}

/// A pooling layer, compiled.
#[derive(Debug)]
pub struct Pool {
    pub(super) kind: Kind,
    pub(super) input: Plane,
    pub(super) output: Plane,
    /// Window of `window.0` rows and `window.1` columns.
    pub(super) window: (usize, usize),
}

impl Pool {
    /// Choices that `forward` notes for `backward`: which of a window's values was largest.
    pub fn choices(&self, batch: usize) -> usize {
        match self.kind {
            Kind::Max => batch * self.output.shape.size(),
            Kind::Mean => 0,
        }
    }

    /// Pixels of the window of output pixel (row, column), as offsets into the input.
    fn window(&self, image: usize, row: usize, column: usize) -> impl Iterator<Item = usize> {
        let (rows, columns) = self.window;
        let (input, channels) = (self.input, self.input.shape.channels);
        (0..rows).flat_map(move |dy| {
            let start = input.at(image, row * rows + dy) + column * columns * channels;
            (0..columns).map(move |dx| start + dx * channels)
        })
    }

    /// Every output pixel of `n` images: image, row, column, in order.
    fn pixels(&self, n: usize) -> impl Iterator<Item = Pixel> + use<> {
        let shape = self.output.shape;
        (0..n).flat_map(move |image| {
            (0..shape.height).flat_map(move |row| {
                (0..shape.width).map(move |column| Pixel { image, row, column })
            })
        })
    }

    fn output_at(&self, pixel: Pixel) -> usize {
        self.output.at(pixel.image, pixel.row) + pixel.column * self.output.shape.channels
    }

    /// y from x, for `n` images.
    pub fn forward(&self, y: &mut [f32], x: &[f32], choices: &mut [u16], n: usize) {
        let channels = self.output.shape.channels;
        let share = 1.0 / (self.window.0 * self.window.1) as f32;
        for (at, pixel) in self.pixels(n).enumerate() {
            let to = self.output_at(pixel);
            let out = &mut y[to..to + channels];
            let window = self.window(pixel.image, pixel.row, pixel.column);
            match self.kind {
                Kind::Max => {
                    let chosen = &mut choices[at * channels..(at + 1) * channels];
                    for (index, from) in window.enumerate() {
                        take_larger(out, chosen, &x[from..from + channels], index as u16);
                    }
                }
                Kind::Mean => {
                    out.fill(0.0);
                    for from in window {
                        for (y, x) in out.iter_mut().zip(&x[from..from + channels]) {
                            *y += x * share;
                        }
                    }
                }
            }
        }
    }

    /// dx ← dx + ∂loss/∂x.
    pub fn backward(&self, dx: &mut [f32], dy: &[f32], choices: &[u16], n: usize) {
        let channels = self.output.shape.channels;
        let share = 1.0 / (self.window.0 * self.window.1) as f32;
        for (at, pixel) in self.pixels(n).enumerate() {
            let from = self.output_at(pixel);
            let dy = &dy[from..from + channels];
            for (index, to) in self
                .window(pixel.image, pixel.row, pixel.column)
                .enumerate()
            {
                let dx = &mut dx[to..to + channels];
                match self.kind {
                    Kind::Max => {
                        let chosen = &choices[at * channels..(at + 1) * channels];
                        for ((dx, dy), chosen) in dx.iter_mut().zip(dy).zip(chosen) {
                            *dx += if usize::from(*chosen) == index {
                                *dy
                            } else {
                                0.0
                            };
                        }
                    }
                    Kind::Mean => {
                        for (dx, dy) in dx.iter_mut().zip(dy) {
                            *dx += dy * share;
                        }
                    }
                }
            }
        }
    }
}

#[derive(Clone, Copy)]
struct Pixel {
    image: usize,
    row: usize,
    column: usize,
}

/// Keeps in `best` the larger of itself and x; the first candidate overwrites what was there.
fn take_larger(best: &mut [f32], chosen: &mut [u16], x: &[f32], index: u16) {
    for ((best, chosen), x) in best.iter_mut().zip(chosen).zip(x) {
        // A NaN compares as neither larger nor smaller, and must win.
        if index == 0 || *x > *best || x.is_nan() {
            *best = *x;
            *chosen = index;
        }
    }
}
