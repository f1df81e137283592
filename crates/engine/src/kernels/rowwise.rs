//! Passes over contiguous floats: activations, sums and the update.
//!
//! Plain loops that the compiler vectorizes for each instruction set; but for the
//! update no fused multiply–add, so every instruction set gives the same bits.

use super::per_isa;
use super::simd::Simd;
use spec::UpdateRule;

per_isa!(
    /// y = max(0, x), NaN for NaN.
    pub fn relu(y: &mut [f32], x: &[f32]) = plain relu_kernel
);
per_isa!(
    /// dy ← 0 where y is not above 0; NaN outputs keep their gradient.
    pub fn relu_backward(dy: &mut [f32], y: &[f32]) = plain relu_backward_kernel
);
per_isa!(
    /// z = x + y.
    pub fn add(z: &mut [f32], x: &[f32], y: &[f32]) = plain add_kernel
);
per_isa!(
    /// y ← x, or y + x.
    pub fn pass_on(y: &mut [f32], x: &[f32], write: Write) = plain pass_on_kernel
);
per_isa!(
    /// dx ← dy where y is above 0 or NaN and else 0, or dx + that.
    pub fn pass_relu(dx: &mut [f32], dy: &[f32], y: &[f32], write: Write) = plain pass_relu_kernel
);
per_isa!(
    /// y = x·mask.
    pub fn masked(y: &mut [f32], x: &[f32], mask: &[f32]) = plain masked_kernel
);
per_isa!(
    /// y ← x·mask, or y + x·mask.
    pub fn pass_masked(y: &mut [f32], x: &[f32], mask: &[f32], write: Write) = plain pass_masked_kernel
);
per_isa!(
    /// sums ← sums + the rows of x, each of sums.len() values.
    pub fn add_rows(sums: &mut [f32], x: &[f32]) = plain add_rows_kernel
);
per_isa!(
    /// v ← m·v + g, then θ ← θ − ε(g + m·v) or θ ← θ − ε·v.
    pub fn update(weights: &mut [f32], velocity: &mut [f32], gradient: &[f32], step: Step)
        = update_kernel
);

/// What becomes of what was there. The first to write a gradient sets it, so that nobody
/// has to clear it; the others add.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Write {
    /// It is forgotten.
    Set,
    /// It is added to.
    Add,
}

/// Longest block of rows that is summed at a time.
const MOST_BLOCK: usize = 512;

/// One step of the descent.
#[derive(Debug, Clone, Copy)]
pub struct Step {
    /// How the velocity enters.
    pub rule: UpdateRule,
    /// ε.
    pub learning_rate: f32,
    /// m.
    pub momentum: f32,
}

#[inline(always)]
fn relu_kernel(y: &mut [f32], x: &[f32]) {
    for (y, x) in y.iter_mut().zip(x) {
        *y = if *x < 0.0 { 0.0 } else { *x };
    }
}

#[inline(always)]
fn relu_backward_kernel(dy: &mut [f32], y: &[f32]) {
    for (dy, y) in dy.iter_mut().zip(y) {
        *dy = if *y <= 0.0 { 0.0 } else { *dy };
    }
}

#[inline(always)]
fn add_kernel(z: &mut [f32], x: &[f32], y: &[f32]) {
    for ((z, x), y) in z.iter_mut().zip(x).zip(y) {
        *z = x + y;
    }
}

#[inline(always)]
fn pass_on_kernel(y: &mut [f32], x: &[f32], write: Write) {
    match write {
        Write::Set => y.copy_from_slice(x),
        Write::Add => y.iter_mut().zip(x).for_each(|(y, x)| *y += x),
    }
}

#[inline(always)]
fn pass_relu_kernel(dx: &mut [f32], dy: &[f32], y: &[f32], write: Write) {
    let values = dx.iter_mut().zip(dy).zip(y);
    match write {
        Write::Set => values.for_each(|((dx, dy), y)| *dx = if *y <= 0.0 { 0.0 } else { *dy }),
        Write::Add => values.for_each(|((dx, dy), y)| *dx += if *y <= 0.0 { 0.0 } else { *dy }),
    }
}

#[inline(always)]
fn masked_kernel(y: &mut [f32], x: &[f32], mask: &[f32]) {
    for ((y, x), mask) in y.iter_mut().zip(x).zip(mask) {
        *y = x * mask;
    }
}

#[inline(always)]
fn pass_masked_kernel(y: &mut [f32], x: &[f32], mask: &[f32], write: Write) {
    match write {
        Write::Set => masked_kernel(y, x, mask),
        Write::Add => {
            for ((y, x), mask) in y.iter_mut().zip(x).zip(mask) {
                *y += x * mask;
            }
        }
    }
}

/// Rows that do not fill whole vectors are added in blocks of rows that do.
#[inline(always)]
fn add_rows_kernel(sums: &mut [f32], x: &[f32]) {
    let columns = sums.len();
    let block = whole_vectors(columns);
    let mut partial = [0.0f32; MOST_BLOCK];
    if block == columns || block > MOST_BLOCK || x.len() < 4 * block {
        return add_blocks(sums, x);
    }
    let whole = x.len() - x.len() % block;
    add_blocks(&mut partial[..block], &x[..whole]);
    add_blocks(sums, &partial[..block]);
    add_blocks(sums, &x[whole..]);
}

#[inline(always)]
fn add_blocks(sums: &mut [f32], x: &[f32]) {
    for row in x.chunks_exact(sums.len()) {
        for (sum, x) in sums.iter_mut().zip(row) {
            *sum += x;
        }
    }
}

/// Floats of the smallest block of rows of so many columns that is a multiple of 8 long.
pub fn whole_vectors(columns: usize) -> usize {
    columns * (8 >> columns.trailing_zeros().min(3))
}

#[inline(always)]
fn update_kernel<S: Simd>(weights: &mut [f32], velocity: &mut [f32], gradient: &[f32], step: Step) {
    let len = weights.len();
    assert!(velocity.len() == len && gradient.len() == len);
    let (w, v, g) = (
        weights.as_mut_ptr(),
        velocity.as_mut_ptr(),
        gradient.as_ptr(),
    );
    let whole = len - len % S::LANES;
    // SAFETY: all three slices are `len` long, and `per_isa` showed that the processor
    // has the instructions.
    unsafe {
        for at in (0..whole).step_by(S::LANES) {
            let old = (S::load(v.add(at)), S::load(w.add(at)));
            let (new_v, new_w) = step.take::<S>(S::load(g.add(at)), old.0, old.1);
            S::store(v.add(at), new_v);
            S::store(w.add(at), new_w);
        }
        let rest = len - whole;
        if rest > 0 {
            let part = |from: *const f32| S::load_part(from.add(whole), rest);
            let (new_v, new_w) = step.take::<S>(part(g), part(v), part(w));
            S::store_part(v.add(whole), new_v, rest);
            S::store_part(w.add(whole), new_w, rest);
        }
    }
}

impl Step {
    /// The new velocity and weight from the gradient and the old ones.
    ///
    /// # Safety
    /// The processor has the instructions of S.
    #[inline(always)]
    pub(super) unsafe fn take<S: Simd>(self, gradient: S::V, v: S::V, w: S::V) -> (S::V, S::V) {
        // SAFETY: by the contract.
        unsafe {
            let momentum = S::splat(self.momentum);
            let v = S::mul_add(momentum, v, gradient);
            let ahead = match self.rule {
                UpdateRule::Nesterov => S::mul_add(momentum, v, gradient),
                UpdateRule::HeavyBall => v,
            };
            (v, S::mul_add(S::splat(-self.learning_rate), ahead, w))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::Isa;

    #[test]
    fn updates_by_hand() {
        let step = Step {
            rule: UpdateRule::Nesterov,
            learning_rate: 0.1,
            momentum: 0.5,
        };
        for isa in Isa::available() {
            // v = 0.5·2 + 1 = 2; θ = 1 − 0.1·(1 + 0.5·2) = 0.8.
            let (mut w, mut v) = ([1.0], [2.0]);
            update(isa, &mut w, &mut v, &[1.0], step);
            assert_eq!((w, v), ([0.8], [2.0]));
            // Heavy ball: θ = 1 − 0.1·2 = 0.8 from v = 2 as well, but from v = 4: v = 3, θ = 0.7.
            let (mut w, mut v) = ([1.0], [4.0]);
            let step = Step {
                rule: UpdateRule::HeavyBall,
                ..step
            };
            update(isa, &mut w, &mut v, &[1.0], step);
            assert_eq!((w, v), ([0.7], [3.0]));
        }
    }

    #[test]
    fn relu_lets_nan_through() {
        for isa in Isa::available() {
            let mut y = [0.0; 3];
            relu(isa, &mut y, &[-1.0, f32::NAN, 2.0]);
            assert!(y[0] == 0.0 && y[1].is_nan() && y[2] == 2.0);
        }
    }
}
