//! The one matrix product behind every dense layer and convolution.
//!
//! C\[m, n\] ← store( Σₛ Σₖ A\[rows(m) + s.a + k·a_step\] · B\[s.b + k·b_step + n\] )
//!
//! Elements of A are broadcast, rows of B are read as vectors, and nothing is
//! unfolded: a row of A is addressed by a table, and the sum runs over
//! segments. With channels last, the taps (kx, c) of one filter row are
//! contiguous in the image, so a convolution is a product of `kernel` segments;
//! its weight gradient sums over segments that are output rows; its data
//! gradient scatters into overlapping rows of C. Dense layers have one segment.
//!
//! Columns come in panels of [`PANEL`]. In an ordinary matrix one panel follows the
//! other within a row; in one that is stored by panels (all rows of the first 16
//! columns, then all rows of the next) what a tile reads is one contiguous stretch,
//! whatever the width: no pages to miss, no cache sets to fight over.

#[cfg(test)]
mod tests;
mod tile;

use super::rowwise::Step;
use crate::buffer::LINE;
use spec::UpdateRule;

/// Columns of a panel: a cache line.
pub const PANEL: usize = LINE;

/// Offsets of the rows of a matrix from its base.
#[derive(Debug, Clone)]
pub struct Rows {
    offsets: Vec<u32>,
}

impl Rows {
    /// The rows at these offsets.
    ///
    /// # Panics
    /// If an offset exceeds 32 bits (16 GiB of floats).
    pub fn new(offsets: impl IntoIterator<Item = usize>) -> Self {
        let narrow = |offset| u32::try_from(offset).expect("a buffer stays under 16 GiB");
        Self {
            offsets: offsets.into_iter().map(narrow).collect(),
        }
    }

    /// `count` rows, `step` apart.
    pub fn even(count: usize, step: usize) -> Self {
        Self::new((0..count).map(|at| at * step))
    }

    /// How many.
    pub fn len(&self) -> usize {
        self.offsets.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.offsets.is_empty()
    }

    /// The rows of one tile.
    #[inline(always)]
    fn tile<const ROWS: usize>(&self, first: usize) -> [usize; ROWS] {
        let offsets = &self.offsets[first..first + ROWS];
        std::array::from_fn(|i| offsets[i] as usize)
    }

    /// The farthest of the first `count`.
    fn farthest(&self, count: usize) -> usize {
        self.offsets[..count]
            .iter()
            .max()
            .map_or(0, |offset| *offset as usize)
    }
}

/// One stretch of the sum.
#[derive(Debug, Clone, Copy)]
pub struct Segment {
    /// Added to the row's offset in A.
    pub a: usize,
    /// Start in B.
    pub b: usize,
    /// Its terms.
    pub len: usize,
}

/// The stretches of the sum.
#[derive(Debug, Clone, Copy)]
pub struct Sum<'a> {
    /// One after the other.
    pub segments: &'a [Segment],
    /// From one k to the next in A.
    pub a_step: usize,
    /// From one k to the next in B.
    pub b_step: usize,
}

/// What becomes of a sum s for column n.
#[derive(Debug)]
pub enum Store<'a> {
    /// c ← scale·s.
    Set {
        /// The factor.
        scale: f32,
    },
    /// c ← c + scale·s. Rows of C may overlap: they are added one after the other.
    Add {
        /// The factor.
        scale: f32,
    },
    /// c ← scale·(s + bias\[n\]), then max(0, c) if `relu`.
    Affine {
        /// The factor.
        scale: f32,
        /// (n) and a spare line.
        bias: &'a [f32],
        /// Whether the activation follows.
        relu: bool,
    },
    /// C are weights and scale·s is their gradient g: v ← m·v + g, then
    /// c ← c − ε(g + m·v), or c ← c − ε·v.
    Descend {
        /// The factor.
        scale: f32,
        /// How the step is taken.
        step: Step,
        /// v, laid out as C.
        velocity: &'a mut [f32],
    },
}

/// The operands. Slices A and B (and a bias) reach at least a spare line beyond what is used.
pub struct Product<'a> {
    /// Broadcast operand.
    pub a: &'a [f32],
    /// Its rows; the first `m` are used.
    pub a_rows: &'a Rows,
    /// Whether A is a matrix by panels that comes from far, in which case the lines of the
    /// next tile are asked for: as many short stretches as there are panels are more than
    /// the processor foresees.
    pub rows_ahead: bool,
    /// Vector operand.
    pub b: &'a [f32],
    /// From one panel of its columns to the next; [`PANEL`] in an ordinary matrix.
    pub b_panel: usize,
    /// What is summed.
    pub sum: Sum<'a>,
    /// Result.
    pub c: &'a mut [f32],
    /// From one panel of its columns to the next.
    pub c_panel: usize,
    /// Its rows.
    pub c_rows: &'a Rows,
    /// Number of rows.
    pub m: usize,
    /// Number of columns.
    pub n: usize,
    /// What becomes of the sums.
    pub store: Store<'a>,
}

impl Product<'_> {
    /// Computes C.
    ///
    /// # Panics
    /// If a row, a segment or a vector load would leave its slice.
    pub fn run(self, isa: super::Isa) {
        if self.m == 0 || self.n == 0 {
            return;
        }
        self.check();
        tile::tiles(isa, self);
    }

    /// Everything the kernels rely on when they turn slices into pointers. What leaves the numbers leaves
    /// the slices, so sums and products saturate.
    fn check(&self) {
        let Sum {
            segments,
            a_step,
            b_step,
        } = self.sum;
        let last = |start: usize, len: usize, step: usize| {
            start.saturating_add(len.saturating_sub(1).saturating_mul(step))
        };
        let (mut a_far, mut b_far) = (0, 0);
        for segment in segments {
            a_far = a_far.max(last(segment.a, segment.len, a_step));
            b_far = b_far.max(last(segment.b, segment.len, b_step));
        }
        let (a_row, c_row) = (self.a_rows.farthest(self.m), self.c_rows.farthest(self.m));
        assert!(a_row.saturating_add(a_far) < self.a.len(), "A is short");
        // Whole panels of B are read, if only part of the last one is used.
        let panels = self.n.div_ceil(PANEL);
        let b_panel = last(b_far, panels, self.b_panel);
        assert!(b_panel.saturating_add(PANEL) <= self.b.len(), "B is short");
        // The last column lies farthest, unless panels overlap.
        assert!(panels == 1 || self.c_panel >= PANEL, "panels of C overlap");
        let c_panel = last(c_row, panels, self.c_panel);
        let c_end = c_panel.saturating_add((self.n - 1) % PANEL + 1);
        assert!(c_end <= self.c.len(), "C is short");
        match &self.store {
            Store::Affine { bias, .. } => assert!(self.n.saturating_add(LINE) <= bias.len()),
            Store::Descend { velocity, .. } => assert!(c_end <= velocity.len()),
            Store::Set { .. } | Store::Add { .. } => {}
        }
    }

    /// The definition, plainly.
    pub fn reference(mut self) {
        for m in 0..self.m {
            let (a_row, c_row) = (self.a_rows.offsets[m], self.c_rows.offsets[m]);
            for n in 0..self.n {
                let (panel, lane) = (n / PANEL, n % PANEL);
                let mut s = 0.0;
                for segment in self.sum.segments {
                    let b = segment.b + panel * self.b_panel + lane;
                    for k in 0..segment.len {
                        s += self.a[a_row as usize + segment.a + k * self.sum.a_step]
                            * self.b[b + k * self.sum.b_step];
                    }
                }
                let at = c_row as usize + panel * self.c_panel + lane;
                let c = &mut self.c[at];
                *c = match &mut self.store {
                    Store::Set { scale } => *scale * s,
                    Store::Add { scale } => *c + *scale * s,
                    Store::Affine { scale, bias, relu } => {
                        let z = *scale * (s + bias[n]);
                        if *relu { z.max(0.0) } else { z }
                    }
                    Store::Descend {
                        scale,
                        step,
                        velocity,
                    } => {
                        let gradient = *scale * s;
                        let v = step.momentum * velocity[at] + gradient;
                        velocity[at] = v;
                        *c - step.learning_rate
                            * match step.rule {
                                UpdateRule::Nesterov => gradient + step.momentum * v,
                                UpdateRule::HeavyBall => v,
                            }
                    }
                };
            }
        }
    }
}
