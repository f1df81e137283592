//! The one matrix product behind every dense layer and convolution.
//!
//! C\[m, n\] ← store( Σₛ Σₖ A\[rows(m) + s.a + k·a_step\] · B\[s.b + k·b_step + n\] )
//!
//! Elements of A are broadcast, rows of B are read as vectors, and nothing is
//! packed or unfolded: a row of A is addressed by a table, and the sum runs over
//! segments. With channels last, the taps (kx, c) of one filter row are
//! contiguous in the image, so a convolution is a product of `kernel` segments;
//! its weight gradient sums over segments that are output rows; its data
//! gradient scatters into overlapping rows of C. Dense layers have one segment.

use super::per_isa;
use super::simd::Simd;
use crate::buffer::LINE;

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

    /// The farthest of the first `count`.
    fn farthest(&self, count: usize) -> usize {
        self.offsets[..count]
            .iter()
            .max()
            .map_or(0, |offset| *offset as usize)
    }
}

/// Where one stretch of the sum starts in A and B.
#[derive(Debug, Clone, Copy)]
pub struct Segment {
    /// Added to the row's offset in A.
    pub a: usize,
    /// Start in B.
    pub b: usize,
}

/// The stretches of the sum, all of one length.
#[derive(Debug, Clone, Copy)]
pub struct Sum<'a> {
    /// Where they start.
    pub segments: &'a [Segment],
    /// Their length.
    pub len: usize,
    /// From one k to the next in A.
    pub a_step: usize,
    /// From one k to the next in B.
    pub b_step: usize,
}

/// What becomes of a sum s for column n.
#[derive(Debug, Clone, Copy)]
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
}

/// The operands. Slices A and B (and a bias) reach at least a spare line beyond what is used.
pub struct Product<'a> {
    /// Broadcast operand.
    pub a: &'a [f32],
    /// Its rows; the first `m` are used.
    pub a_rows: &'a Rows,
    /// Vector operand.
    pub b: &'a [f32],
    /// What is summed.
    pub sum: Sum<'a>,
    /// Result.
    pub c: &'a mut [f32],
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
        tiles(isa, self);
    }

    /// Everything the kernels rely on when they turn slices into pointers.
    fn check(&self) {
        let Sum {
            segments,
            len,
            a_step,
            b_step,
        } = self.sum;
        let far = |end: fn(&Segment) -> usize| segments.iter().map(end).max().unwrap_or(0);
        let (a_far, b_far) = (far(|s| s.a), far(|s| s.b));
        let (a_row, c_row) = (self.a_rows.farthest(self.m), self.c_rows.farthest(self.m));
        assert!(a_row + a_far + len.saturating_sub(1) * a_step < self.a.len());
        // Vectors of B may begin at any column and are at most a line long.
        assert!(b_far + len.saturating_sub(1) * b_step + self.n + LINE <= self.b.len());
        assert!(c_row + self.n <= self.c.len());
        if let Store::Affine { bias, .. } = self.store {
            assert!(self.n + LINE <= bias.len());
        }
    }

    /// The definition, plainly.
    pub fn reference(self) {
        for m in 0..self.m {
            let (a_row, c_row) = (self.a_rows.offsets[m], self.c_rows.offsets[m]);
            for n in 0..self.n {
                let mut s = 0.0;
                for segment in self.sum.segments {
                    for k in 0..self.sum.len {
                        s += self.a[a_row as usize + segment.a + k * self.sum.a_step]
                            * self.b[segment.b + k * self.sum.b_step + n];
                    }
                }
                let c = &mut self.c[c_row as usize + n];
                *c = match self.store {
                    Store::Set { scale } => scale * s,
                    Store::Add { scale } => *c + scale * s,
                    Store::Affine {
                        scale,
                        bias,
                        relu: false,
                    } => scale * (s + bias[n]),
                    Store::Affine {
                        scale,
                        bias,
                        relu: true,
                    } => (scale * (s + bias[n])).max(0.0),
                };
            }
        }
    }
}

per_isa!(fn tiles(product: Product<'_>) = all_tiles);

/// Covers C with register tiles, panels of columns outermost so that a panel
/// of B stays in cache while the rows pass over it.
#[inline(always)]
fn all_tiles<S: Simd>(mut product: Product<'_>) {
    let mut column = 0;
    while column < product.n {
        let left = product.n - column;
        if left > S::LANES {
            panel::<S, 2>(&mut product, column);
            column += 2 * S::LANES;
        } else {
            panel::<S, 1>(&mut product, column);
            column += S::LANES;
        }
    }
}

/// All rows of one panel of `VECTORS` vectors.
#[inline(always)]
fn panel<S: Simd, const VECTORS: usize>(product: &mut Product<'_>, column: usize) {
    let most = if VECTORS == 2 { S::ROWS_2 } else { S::ROWS_1 };
    let mut row = 0;
    while row < product.m {
        let rows = most.min(product.m - row);
        // The row count must be a constant for the tile to live in registers.
        match rows {
            1 => tile::<S, 1, VECTORS>(product, row, column),
            2 => tile::<S, 2, VECTORS>(product, row, column),
            3 => tile::<S, 3, VECTORS>(product, row, column),
            4 => tile::<S, 4, VECTORS>(product, row, column),
            5 => tile::<S, 5, VECTORS>(product, row, column),
            6 => tile::<S, 6, VECTORS>(product, row, column),
            7 => tile::<S, 7, VECTORS>(product, row, column),
            _ => tile::<S, 8, VECTORS>(product, row, column),
        }
        row += rows.min(8);
    }
}

/// One register tile: ROWS × VECTORS accumulators over the whole sum.
#[inline(always)]
fn tile<S: Simd, const ROWS: usize, const VECTORS: usize>(
    product: &mut Product<'_>,
    row: usize,
    column: usize,
) {
    let Sum {
        segments,
        len,
        a_step,
        b_step,
    } = product.sum;
    let a_rows: [usize; ROWS] = std::array::from_fn(|i| product.a_rows.offsets[row + i] as usize);
    // SAFETY: `check` showed that every row, segment and step stays inside A, that
    // vectors which begin before column n stay inside B, and `per_isa` that the
    // processor has the instructions.
    unsafe {
        let mut acc = [[S::splat(0.0); VECTORS]; ROWS];
        for segment in segments {
            let a: [*const f32; ROWS] =
                std::array::from_fn(|i| product.a.as_ptr().add(a_rows[i] + segment.a));
            let mut b = product.b.as_ptr().add(segment.b + column);
            for k in 0..len {
                let row_b: [S::V; VECTORS] =
                    std::array::from_fn(|j| S::load(b.wrapping_add(j * S::LANES)));
                for i in 0..ROWS {
                    let x = S::splat(*a[i].add(k * a_step));
                    for j in 0..VECTORS {
                        acc[i][j] = S::mul_add(x, row_b[j], acc[i][j]);
                    }
                }
                b = b.wrapping_add(b_step);
            }
        }
        for (i, sums) in acc.iter().enumerate() {
            let at = product.c_rows.offsets[row + i] as usize + column;
            for (j, sum) in sums.iter().enumerate() {
                let begin = j * S::LANES;
                let columns = (product.n - column).saturating_sub(begin).min(S::LANES);
                if columns > 0 {
                    let to = product.c.as_mut_ptr().add(at + begin);
                    store_vector::<S>(*sum, to, columns, column + begin, product.store);
                }
            }
        }
    }
}

/// Stores the first `columns` lanes of a vector of sums for columns from `n` on.
///
/// # Safety
/// `to` holds `columns` floats, a bias reaches `n` + LANES.
#[inline(always)]
unsafe fn store_vector<S: Simd>(
    sum: S::V,
    to: *mut f32,
    columns: usize,
    n: usize,
    store: Store<'_>,
) {
    // SAFETY: by the contract; a partial vector goes through a whole one on the stack.
    unsafe {
        if columns < S::LANES {
            let mut whole = [0.0f32; LINE];
            std::ptr::copy_nonoverlapping(to, whole.as_mut_ptr(), columns);
            store_whole::<S>(sum, whole.as_mut_ptr(), n, store);
            std::ptr::copy_nonoverlapping(whole.as_ptr(), to, columns);
        } else {
            store_whole::<S>(sum, to, n, store);
        }
    }
}

/// Stores a whole vector.
///
/// # Safety
/// `to` holds LANES floats, a bias reaches `n` + LANES.
#[inline(always)]
unsafe fn store_whole<S: Simd>(sum: S::V, to: *mut f32, n: usize, store: Store<'_>) {
    // SAFETY: by the contract.
    unsafe {
        let value = match store {
            Store::Set { scale } => S::mul(S::splat(scale), sum),
            Store::Add { scale } => S::mul_add(S::splat(scale), sum, S::load(to)),
            Store::Affine { scale, bias, relu } => {
                let shifted = S::add(sum, S::load(bias.as_ptr().add(n)));
                let z = S::mul(S::splat(scale), shifted);
                if relu { S::relu(z) } else { z }
            }
        };
        S::store(to, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::buffer::Buffer;
    use crate::kernels::Isa;
    use proptest::prelude::*;

    fn filled(len: usize, salt: u32) -> Buffer {
        let mut buffer = Buffer::zeros(len);
        for (i, x) in buffer.get_mut().iter_mut().enumerate() {
            let hash = (i as u32 ^ salt.wrapping_mul(0x9e37_79b9)).wrapping_mul(0x85eb_ca6b);
            *x = (hash >> 8) as f32 / (1 << 24) as f32 - 0.5;
        }
        buffer
    }

    proptest! {
        /// Every instruction set against the definition, over odd sizes, with
        /// segments, strides, overlapping rows of C and every store.
        #[test]
        fn matches_the_reference(
            m in 1usize..20, n in 1usize..40, len in 0usize..9, segments in 1usize..4,
            a_step in 1usize..4, c_step in 1usize..50, store in 0..4usize, salt: u32,
        ) {
            let a = filled(m * 7 + segments * 5 + len * a_step + 1, salt);
            let b_step = n + 3;
            let b = filled(segments * len.max(1) * b_step + n, salt ^ 1);
            let bias = filled(n, salt ^ 2);
            let scale = 0.5;
            let starts: Vec<Segment> =
                (0..segments).map(|s| Segment { a: 5 * s, b: s * len * b_step }).collect();
            let a_rows = Rows::even(m, 7);
            // Overlap is allowed when adding only.
            let c_rows = Rows::even(m, if store == 1 { c_step } else { n + c_step });
            let store = match store {
                0 => Store::Set { scale },
                1 => Store::Add { scale },
                s => Store::Affine { scale, bias: bias.with_spare(), relu: s == 3 },
            };
            let start = filled(c_rows.farthest(m) + n, salt ^ 3);
            let product = |c: &mut Buffer, run: &dyn Fn(Product<'_>)| run(Product {
                a: a.with_spare(), a_rows: &a_rows, b: b.with_spare(),
                sum: Sum { segments: &starts, len, a_step, b_step },
                c: c.get_mut(), c_rows: &c_rows, m, n, store,
            });
            let mut expected = start.clone();
            product(&mut expected, &|p| p.reference());
            for isa in Isa::available() {
                let mut got = start.clone();
                product(&mut got, &|p| p.run(isa));
                for (x, y) in got.get().iter().zip(expected.get()) {
                    prop_assert!((x - y).abs() < 1e-4, "{isa}: {x} against {y}");
                }
            }
        }
    }
}
