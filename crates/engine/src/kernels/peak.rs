//! The machine's limit: how many multiply–adds one core does when nothing holds it up.

use super::simd::Simd;
use super::{Isa, per_isa};
use std::hint::black_box;
use std::time::{Duration, Instant};

/// Chains of multiply–adds that do not wait for each other: enough to hide the
/// latency of two units (4 to 5 cycles), few enough for 16 registers.
const CHAINS: usize = 10;
/// Multiply–adds in each chain between two looks at the clock.
const ROUNDS: usize = 20_000;

/// Floating-point operations per second of one core, the best of slices over `time`;
/// a multiply–add counts as two.
pub fn measure(isa: Isa, time: Duration) -> f64 {
    let start = Instant::now();
    let mut best = 0.0f64;
    while best == 0.0 || start.elapsed() < time {
        let slice = Instant::now();
        let mut operations = 0;
        chains(isa, &mut operations);
        best = best.max(operations as f64 / slice.elapsed().as_secs_f64());
    }
    best
}

per_isa!(fn chains(operations: &mut usize) = all_chains);

#[inline(always)]
fn all_chains<S: Simd>(operations: &mut usize) {
    // SAFETY: `per_isa` showed that the processor has the instructions; `sink` is a vector long.
    unsafe {
        let (factor, term) = (S::splat(black_box(0.999)), S::splat(black_box(1e-3)));
        let mut sums = [S::splat(black_box(1.0)); CHAINS];
        for _ in 0..ROUNDS {
            for sum in &mut sums {
                *sum = S::mul_add(*sum, factor, term);
            }
        }
        let mut sink = [0.0f32; crate::buffer::LINE];
        for sum in sums {
            S::store(sink.as_mut_ptr(), sum);
            black_box(&sink);
        }
    }
    *operations = 2 * S::LANES * CHAINS * ROUNDS;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_instruction_set_has_a_peak() {
        for isa in Isa::available() {
            assert!(measure(isa, Duration::from_millis(1)) > 1e6, "{isa}");
        }
    }
}
