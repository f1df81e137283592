//! The few vector operations that kernels are written in, for each instruction set.
//!
//! Kernels are generic over [`Simd`] and always inlined into a function that
//! enables the instruction set, so the operations become single instructions there.

/// Vectors of `LANES` floats.
///
/// # Safety
/// An implementation's loads and stores touch exactly `LANES` floats, aligned or not.
/// For the caller, every operation needs a processor with the instruction set of the
/// implementation; loads and stores need `LANES` valid floats at the pointer.
#[allow(
    clippy::missing_safety_doc,
    reason = "the trait states it once for all"
)]
pub unsafe trait Simd: Copy {
    /// One vector.
    type V: Copy;
    /// Floats in a vector.
    const LANES: usize;
    /// Rows of a product's register tile that is two vectors wide.
    const ROWS_2: usize;
    /// Rows of a product's register tile that is one vector wide.
    const ROWS_1: usize;

    /// All lanes x.
    unsafe fn splat(x: f32) -> Self::V;
    /// From memory, at any alignment.
    unsafe fn load(from: *const f32) -> Self::V;
    /// To memory, at any alignment.
    unsafe fn store(to: *mut f32, x: Self::V);
    /// a·b + c.
    unsafe fn mul_add(a: Self::V, b: Self::V, c: Self::V) -> Self::V;
    /// a + b.
    unsafe fn add(a: Self::V, b: Self::V) -> Self::V;
    /// a·b.
    unsafe fn mul(a: Self::V, b: Self::V) -> Self::V;
    /// max(0, x), and NaN for NaN: divergence must not hide behind a ReLU.
    unsafe fn relu(x: Self::V) -> Self::V;
}

/// Any processor: arrays that the compiler vectorizes as it can.
#[derive(Clone, Copy)]
pub struct Portable;

// SAFETY: needs no instruction set; loads and stores touch LANES floats.
unsafe impl Simd for Portable {
    type V = [f32; 8];
    const LANES: usize = 8;
    const ROWS_2: usize = 2;
    const ROWS_1: usize = 4;

    #[inline(always)]
    unsafe fn splat(x: f32) -> [f32; 8] {
        [x; 8]
    }
    #[inline(always)]
    unsafe fn load(from: *const f32) -> [f32; 8] {
        // SAFETY: the caller gives 8 valid floats; no alignment is assumed.
        unsafe { from.cast::<[f32; 8]>().read_unaligned() }
    }
    #[inline(always)]
    unsafe fn store(to: *mut f32, x: [f32; 8]) {
        // SAFETY: the caller gives 8 valid floats; no alignment is assumed.
        unsafe { to.cast::<[f32; 8]>().write_unaligned(x) }
    }
    #[inline(always)]
    unsafe fn mul_add(a: [f32; 8], b: [f32; 8], c: [f32; 8]) -> [f32; 8] {
        // Not f32::mul_add, which is a library call where there is no instruction.
        std::array::from_fn(|i| a[i] * b[i] + c[i])
    }
    #[inline(always)]
    unsafe fn add(a: [f32; 8], b: [f32; 8]) -> [f32; 8] {
        std::array::from_fn(|i| a[i] + b[i])
    }
    #[inline(always)]
    unsafe fn mul(a: [f32; 8], b: [f32; 8]) -> [f32; 8] {
        std::array::from_fn(|i| a[i] * b[i])
    }
    #[inline(always)]
    unsafe fn relu(x: [f32; 8]) -> [f32; 8] {
        x.map(|x| if x < 0.0 { 0.0 } else { x })
    }
}

/// x86 with AVX2 and FMA: 16 registers of 8 floats.
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy)]
pub struct Avx2;

#[cfg(target_arch = "x86_64")]
mod avx2 {
    use super::{Avx2, Simd};
    use std::arch::x86_64::*;

    // SAFETY: the caller guarantees AVX2 and FMA; loads and stores are the unaligned ones.
    unsafe impl Simd for Avx2 {
        type V = __m256;
        const LANES: usize = 8;
        // 12 accumulators hide the latency of two FMA units (8 in flight) and
        // leave room for two vectors of B and one broadcast.
        const ROWS_2: usize = 6;
        const ROWS_1: usize = 8;

        #[inline(always)]
        unsafe fn splat(x: f32) -> __m256 {
            // SAFETY: see the impl.
            unsafe { _mm256_set1_ps(x) }
        }
        #[inline(always)]
        unsafe fn load(from: *const f32) -> __m256 {
            // SAFETY: see the impl.
            unsafe { _mm256_loadu_ps(from) }
        }
        #[inline(always)]
        unsafe fn store(to: *mut f32, x: __m256) {
            // SAFETY: see the impl.
            unsafe { _mm256_storeu_ps(to, x) }
        }
        #[inline(always)]
        unsafe fn mul_add(a: __m256, b: __m256, c: __m256) -> __m256 {
            // SAFETY: see the impl.
            unsafe { _mm256_fmadd_ps(a, b, c) }
        }
        #[inline(always)]
        unsafe fn add(a: __m256, b: __m256) -> __m256 {
            // SAFETY: see the impl.
            unsafe { _mm256_add_ps(a, b) }
        }
        #[inline(always)]
        unsafe fn mul(a: __m256, b: __m256) -> __m256 {
            // SAFETY: see the impl.
            unsafe { _mm256_mul_ps(a, b) }
        }
        #[inline(always)]
        unsafe fn relu(x: __m256) -> __m256 {
            // SAFETY: see the impl. The second operand is what a NaN yields.
            unsafe { _mm256_max_ps(_mm256_setzero_ps(), x) }
        }
    }
}
