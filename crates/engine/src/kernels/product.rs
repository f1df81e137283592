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

use super::per_isa;
use super::rowwise::Step;
use super::simd::Simd;
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
        tiles(isa, self);
    }

    /// Everything the kernels rely on when they turn slices into pointers.
    fn check(&self) {
        let Sum {
            segments,
            a_step,
            b_step,
        } = self.sum;
        let last = |start: usize, len: usize, step: usize| start + len.saturating_sub(1) * step;
        let (mut a_far, mut b_far) = (0, 0);
        for segment in segments {
            a_far = a_far.max(last(segment.a, segment.len, a_step));
            b_far = b_far.max(last(segment.b, segment.len, b_step));
        }
        let (a_row, c_row) = (self.a_rows.farthest(self.m), self.c_rows.farthest(self.m));
        assert!(a_row + a_far < self.a.len());
        // Whole panels of B are read, if only part of the last one is used.
        let last = (self.n - 1) / PANEL;
        assert!(b_far + last * self.b_panel + PANEL <= self.b.len());
        let c_end = c_row + last * self.c_panel + (self.n - 1) % PANEL + 1;
        assert!(c_end <= self.c.len());
        match &self.store {
            Store::Affine { bias, .. } => assert!(self.n + LINE <= bias.len()),
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
        } else if left > S::Narrow::LANES {
            panel::<S, 1>(&mut product, column);
            column += S::LANES;
        } else {
            panel::<S::Narrow, 1>(&mut product, column);
            column += S::Narrow::LANES;
        }
    }
}

/// All rows of one panel of `VECTORS` vectors, in tiles of about equal height: a
/// low last tile would wait for its own sums.
#[inline(always)]
fn panel<S: Simd, const VECTORS: usize>(product: &mut Product<'_>, column: usize) {
    let most = if VECTORS == 2 { S::ROWS_2 } else { S::ROWS_1 };
    let mut tiles = product.m.div_ceil(most);
    let mut row = 0;
    while tiles > 0 {
        let rows = (product.m - row).div_ceil(tiles);
        // The row count must be a constant for the tile to live in registers.
        match rows.min(most) {
            1 => tile::<S, 1, VECTORS>(product, row, column),
            2 => tile::<S, 2, VECTORS>(product, row, column),
            3 => tile::<S, 3, VECTORS>(product, row, column),
            4 => tile::<S, 4, VECTORS>(product, row, column),
            5 => tile::<S, 5, VECTORS>(product, row, column),
            6 => tile::<S, 6, VECTORS>(product, row, column),
            7 => tile::<S, 7, VECTORS>(product, row, column),
            8 => tile::<S, 8, VECTORS>(product, row, column),
            9 => tile::<S, 9, VECTORS>(product, row, column),
            10 => tile::<S, 10, VECTORS>(product, row, column),
            11 => tile::<S, 11, VECTORS>(product, row, column),
            _ => tile::<S, 12, VECTORS>(product, row, column),
        }
        row += rows;
        tiles -= 1;
    }
}

/// Runs a block for i = 0, 1, … below ROWS ≤ 12. Written out, because an array of
/// vectors stays in registers only if every index is a constant.
macro_rules! for_rows {
    ($rows:ident, |$i:ident| $body:block) => {
        for_rows!(@ $rows, $i, $body, 0 1 2 3 4 5 6 7 8 9 10 11)
    };
    (@ $rows:ident, $i:ident, $body:block, $($at:literal)*) => {
        {
            $({
                const $i: usize = $at;
                if $i < $rows $body
            })*
        }
    };
}

/// One register tile: ROWS × VECTORS accumulators over the whole sum.
#[inline(always)]
#[allow(
    unconditional_panic,
    reason = "rows that a tile does not have are skipped"
)]
fn tile<S: Simd, const ROWS: usize, const VECTORS: usize>(
    product: &mut Product<'_>,
    row: usize,
    column: usize,
) {
    let Sum {
        segments,
        a_step,
        b_step,
    } = product.sum;
    let a_rows: [usize; ROWS] = product.a_rows.tile(row);
    let b_columns: [usize; VECTORS] =
        std::array::from_fn(|j| in_panels(column + j * S::LANES, product.b_panel));
    // SAFETY: `check` showed that every row, segment and step stays inside A, that
    // every panel which begins before column n stays inside B, and `per_isa` that the
    // processor has the instructions.
    unsafe {
        let mut acc = [[S::splat(0.0); VECTORS]; ROWS];
        for segment in segments {
            let a: [*const f32; ROWS] =
                std::array::from_fn(|i| product.a.as_ptr().add(a_rows[i] + segment.a));
            let mut b = product.b.as_ptr().add(segment.b);
            for k in 0..segment.len {
                let row_b: [S::V; VECTORS] =
                    std::array::from_fn(|j| S::load(b.wrapping_add(b_columns[j])));
                for_rows!(ROWS, |I| {
                    let x = S::splat(*a[I].add(k * a_step));
                    for j in 0..VECTORS {
                        acc[I][j] = S::mul_add(x, row_b[j], acc[I][j]);
                    }
                });
                b = b.wrapping_add(b_step);
            }
        }
        let c_rows: [usize; ROWS] = product.c_rows.tile(row);
        if column + VECTORS * S::LANES <= product.n {
            let c_columns: [usize; VECTORS] =
                std::array::from_fn(|j| in_panels(column + j * S::LANES, product.c_panel));
            let target = Target::new(product);
            // One loop for each kind of store, so that a tile decides but once.
            macro_rules! store_all {
                (|$at:ident, $n:ident, $sum:ident| $value:expr) => {
                    for_rows!(ROWS, |I| {
                        for j in 0..VECTORS {
                            let ($at, $n) = (c_rows[I] + c_columns[j], column + j * S::LANES);
                            let $sum = acc[I][j];
                            S::store(target.c.add($at), $value);
                        }
                    })
                };
            }
            match target.kind {
                Kind::Set => store_all!(|_at, _n, sum| target.set::<S>(sum)),
                Kind::Add => {
                    store_all!(|at, _n, sum| target.add::<S>(sum, S::load(target.c.add(at))))
                }
                Kind::Affine => store_all!(|_at, n, sum| target.affine::<S>(sum, n)),
                Kind::Descend => store_all!(|at, _n, sum| {
                    let old = S::load(target.velocity.add(at));
                    let (v, w) = target.descend::<S>(sum, old, S::load(target.c.add(at)));
                    S::store(target.velocity.add(at), v);
                    w
                }),
            }
        } else {
            let mut sums = [[[0.0f32; LINE]; VECTORS]; ROWS];
            for_rows!(ROWS, |I| {
                for j in 0..VECTORS {
                    S::store(sums[I][j].as_mut_ptr(), acc[I][j]);
                }
            });
            for (sums, c_row) in sums.iter().zip(c_rows) {
                for (j, sums) in sums.iter().enumerate() {
                    let n = column + j * S::LANES;
                    if n < product.n {
                        let at = c_row + in_panels(n, product.c_panel);
                        store_part::<S>(S::load(sums.as_ptr()), product, at, n);
                    }
                }
            }
        }
    }
}

/// Where column n lies in a row whose panels are so far apart.
#[inline(always)]
fn in_panels(n: usize, panel: usize) -> usize {
    n / PANEL * panel + n % PANEL
}

/// Stores the columns of a vector of sums that exist, from column `n` on.
///
/// # Safety
/// Those columns lie inside C from `at` on, and inside the velocity.
#[inline(always)]
unsafe fn store_part<S: Simd>(sum: S::V, product: &mut Product<'_>, at: usize, n: usize) {
    let lanes = product.n - n;
    let whole = lanes >= S::LANES;
    let target = Target::new(product);
    // SAFETY: by the contract.
    unsafe {
        let load = |from: *mut f32| match whole {
            true => S::load(from.add(at)),
            false => S::load_part(from.add(at), lanes),
        };
        let store = |to: *mut f32, x: S::V| match whole {
            true => S::store(to.add(at), x),
            false => S::store_part(to.add(at), x, lanes),
        };
        let value = match target.kind {
            Kind::Set => target.set::<S>(sum),
            Kind::Add => target.add::<S>(sum, load(target.c)),
            Kind::Affine => target.affine::<S>(sum, n),
            Kind::Descend => {
                let old = load(target.velocity);
                let (v, w) = target.descend::<S>(sum, old, load(target.c));
                store(target.velocity, v);
                w
            }
        };
        store(target.c, value);
    }
}

/// A [`Store`] with its C, as pointers.
struct Target {
    kind: Kind,
    c: *mut f32,
    scale: f32,
    bias: *const f32,
    relu: bool,
    velocity: *mut f32,
    step: Step,
}

/// Which [`Store`].
#[derive(Clone, Copy)]
enum Kind {
    Set,
    Add,
    Affine,
    Descend,
}

impl Target {
    #[inline(always)]
    fn new(product: &mut Product<'_>) -> Self {
        let mut target = Self {
            kind: Kind::Set,
            c: product.c.as_mut_ptr(),
            scale: 0.0,
            bias: std::ptr::null(),
            relu: false,
            velocity: std::ptr::null_mut(),
            step: Step {
                rule: UpdateRule::Nesterov,
                learning_rate: 0.0,
                momentum: 0.0,
            },
        };
        match &mut product.store {
            Store::Set { scale } => target.scale = *scale,
            Store::Add { scale } => (target.kind, target.scale) = (Kind::Add, *scale),
            Store::Affine { scale, bias, relu } => {
                (target.kind, target.scale) = (Kind::Affine, *scale);
                (target.bias, target.relu) = (bias.as_ptr(), *relu);
            }
            Store::Descend {
                scale,
                step,
                velocity,
            } => {
                (target.kind, target.scale) = (Kind::Descend, *scale);
                (target.velocity, target.step) = (velocity.as_mut_ptr(), *step);
            }
        }
        target
    }

    /// scale·s.
    #[inline(always)]
    unsafe fn set<S: Simd>(&self, sum: S::V) -> S::V {
        // SAFETY: the caller has the instructions.
        unsafe { S::mul(S::splat(self.scale), sum) }
    }

    /// c + scale·s.
    #[inline(always)]
    unsafe fn add<S: Simd>(&self, sum: S::V, c: S::V) -> S::V {
        // SAFETY: the caller has the instructions.
        unsafe { S::add(c, self.set::<S>(sum)) }
    }

    /// scale·(s + bias), and the activation. The bias reaches a vector beyond `n`.
    #[inline(always)]
    unsafe fn affine<S: Simd>(&self, sum: S::V, n: usize) -> S::V {
        // SAFETY: the caller has the instructions, `check` showed the bias long enough.
        unsafe {
            let z = self.set::<S>(S::add(sum, S::load(self.bias.add(n))));
            if self.relu { S::relu(z) } else { z }
        }
    }

    /// The new velocity and weight from the old ones.
    #[inline(always)]
    unsafe fn descend<S: Simd>(&self, sum: S::V, v: S::V, w: S::V) -> (S::V, S::V) {
        // SAFETY: the caller has the instructions.
        unsafe {
            let gradient = self.set::<S>(sum);
            self.step.take::<S>(gradient, v, w)
        }
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

    /// A product over odd sizes.
    #[derive(Debug, Clone)]
    struct Case {
        m: usize,
        n: usize,
        len: usize,
        segments: usize,
        a_step: usize,
        /// Rows of C are so many floats longer than they need be, or overlap.
        c_step: usize,
        b_by_panels: bool,
        c_by_panels: bool,
        store: usize,
        salt: u32,
    }

    fn cases() -> impl Strategy<Value = Case> {
        let sizes = (1usize..30, 1usize..60, 0usize..9, 1usize..4);
        let steps = (1usize..4, 1usize..50, any::<bool>(), any::<bool>());
        (sizes, steps, 0..6usize, any::<u32>()).prop_map(
            |((m, n, len, segments), (a_step, c_step, b_by_panels, c_by_panels), store, salt)| {
                Case {
                    m,
                    n,
                    len,
                    segments,
                    a_step,
                    c_step,
                    b_by_panels,
                    c_by_panels,
                    store,
                    salt,
                }
            },
        )
    }

    /// C and the velocity after a product.
    fn outcome(case: &Case, run: impl Fn(Product<'_>)) -> [Buffer; 2] {
        let &Case {
            m,
            n,
            len,
            segments,
            a_step,
            c_step,
            salt,
            ..
        } = case;
        let a = filled(m * 7 + segments * 5 + len * a_step + 1, salt);
        let (b_step, b_panel) = match case.b_by_panels {
            true => (PANEL, (segments * len.max(1) + 1) * PANEL),
            false => (n + 3, PANEL),
        };
        let b_len = segments * len.max(1) * b_step + n.div_ceil(PANEL) * b_panel;
        let b = filled(b_len, salt ^ 1);
        let bias = filled(n, salt ^ 2);
        let starts: Vec<Segment> = (0..segments)
            .map(|s| Segment {
                a: 5 * s,
                b: s * len * b_step,
                len: len - s.min(len),
            })
            .collect();
        let (c_rows, c_panel) = match case.c_by_panels {
            true => (Rows::even(m, PANEL), (m + 1) * PANEL),
            // Overlap is allowed when adding only.
            false if case.store == 1 => (Rows::even(m, c_step), PANEL),
            false => (Rows::even(m, n + c_step), PANEL),
        };
        let c_len = c_rows.farthest(m) + (n.div_ceil(PANEL) - 1) * c_panel + (n - 1) % PANEL + 1;
        let mut c = filled(c_len, salt ^ 3);
        let mut velocity = filled(c_len, salt ^ 4);
        let scale = 0.5;
        let step = |rule| Step {
            rule,
            learning_rate: 0.1,
            momentum: 0.9,
        };
        let store = match case.store {
            0 => Store::Set { scale },
            1 => Store::Add { scale },
            2 | 3 => Store::Affine {
                scale,
                bias: bias.with_spare(),
                relu: case.store == 3,
            },
            s => Store::Descend {
                scale,
                step: step([UpdateRule::Nesterov, UpdateRule::HeavyBall][s - 4]),
                velocity: velocity.get_mut(),
            },
        };
        run(Product {
            a: a.with_spare(),
            a_rows: &Rows::even(m, 7),
            b: b.with_spare(),
            b_panel,
            sum: Sum {
                segments: &starts,
                a_step,
                b_step,
            },
            c: c.get_mut(),
            c_rows: &c_rows,
            c_panel,
            m,
            n,
            store,
        });
        [c, velocity]
    }

    proptest! {
        /// Every instruction set against the definition, over odd sizes, with
        /// segments, strides, panels, overlapping rows of C and every store.
        #[test]
        fn matches_the_reference(case in cases()) {
            let expected = outcome(&case, |product| product.reference());
            for isa in Isa::available() {
                let got = outcome(&case, |product| product.run(isa));
                for (got, expected) in got.iter().zip(&expected) {
                    for (x, y) in got.get().iter().zip(expected.get()) {
                        prop_assert!((x - y).abs() < 1e-4, "{isa}: {x} against {y}");
                    }
                }
            }
        }
    }
}
