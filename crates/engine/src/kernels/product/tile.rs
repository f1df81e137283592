//! The register tiles of the product, for every instruction set.

use super::{PANEL, Product, Store, Sum};
use crate::buffer::LINE;
use crate::kernels::per_isa;
use crate::kernels::rowwise::Step;
use crate::kernels::simd::{Simd, prefetch};
use spec::UpdateRule;

per_isa!(
    /// Computes C; [`Product::check`] has passed.
    pub(super) fn tiles(product: Product<'_>) = all_tiles
);

/// Covers C with register tiles, panels of columns outermost so that a panel
/// of B stays in cache while the rows pass over it.
///
/// A descent goes backwards: the forward pass before it and the one after it both go
/// forwards over the same weights, so each begins with what the other has left in cache.
#[inline(always)]
fn all_tiles<S: Simd>(mut product: Product<'_>) {
    let width = 2 * S::LANES;
    let panels = product.n.div_ceil(width);
    let backwards = matches!(product.store, Store::Descend { .. });
    for at in 0..panels {
        let column = width * if backwards { panels - 1 - at } else { at };
        let left = product.n - column;
        if left > S::LANES {
            panel::<S, 2>(&mut product, column);
        } else if left > S::Narrow::LANES {
            panel::<S, 1>(&mut product, column);
        } else {
            panel::<S::Narrow, 1>(&mut product, column);
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
            if product.rows_ahead {
                for_rows!(ROWS, |I| {
                    prefetch(a[I].wrapping_add(ROWS * PANEL));
                });
            }
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
