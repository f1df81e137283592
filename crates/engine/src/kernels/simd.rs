//! The few vector operations that kernels are written in, for each instruction set.
//!
//! Kernels are generic over [`Simd`] and always inlined into a function that
//! enables the instruction set, so the operations become single instructions there.

/// Asks for the cache line of x, which may lie anywhere: a hint, never an error.
#[inline(always)]
pub fn prefetch(x: *const f32) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch reads nothing that the program could see, and faults nowhere.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(x.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = x;
}

/// Side of the block that is transposed at a time.
pub const BLOCK: usize = 8;

/// Vectors of `LANES` floats.
///
/// # Safety
/// An implementation's loads and stores touch exactly `LANES` floats, aligned or not,
/// those of a part exactly `count`.
/// For the caller, every operation needs a processor with the instruction set of the
/// implementation; loads and stores need `LANES` valid floats at the pointer.
#[allow(
    clippy::missing_safety_doc,
    reason = "the trait states it once for all"
)]
pub unsafe trait Simd: Copy {
    /// One vector.
    type V: Copy;
    /// The same instructions on the shortest vectors, for matrices of few columns.
    type Narrow: Simd;
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
    /// The first `count` < LANES floats from memory; the other lanes hold anything.
    unsafe fn load_part(from: *const f32, count: usize) -> Self::V;
    /// The first `count` < LANES lanes to memory, and nothing behind them.
    unsafe fn store_part(to: *mut f32, x: Self::V, count: usize);
    /// a·b + c.
    unsafe fn mul_add(a: Self::V, b: Self::V, c: Self::V) -> Self::V;
    /// a + b.
    unsafe fn add(a: Self::V, b: Self::V) -> Self::V;
    /// a·b.
    unsafe fn mul(a: Self::V, b: Self::V) -> Self::V;
    /// max(0, x), and NaN for NaN: divergence must not hide behind a ReLU.
    unsafe fn relu(x: Self::V) -> Self::V;
    /// y = xᵀ of [`BLOCK`] rows and columns; rows of y and x are so many floats apart.
    unsafe fn transpose(y: *mut f32, y_step: usize, x: *const f32, x_step: usize);
}

/// Any processor: arrays that the compiler vectorizes as it can.
#[derive(Clone, Copy)]
pub struct Portable;

// SAFETY: needs no instruction set; loads and stores touch LANES floats.
unsafe impl Simd for Portable {
    type V = [f32; 8];
    type Narrow = Self;
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
    unsafe fn load_part(from: *const f32, count: usize) -> [f32; 8] {
        let mut x = [0.0; 8];
        for (i, x) in x.iter_mut().enumerate().take(count) {
            // SAFETY: the caller gives `count` valid floats.
            *x = unsafe { *from.add(i) };
        }
        x
    }
    #[inline(always)]
    unsafe fn store_part(to: *mut f32, x: [f32; 8], count: usize) {
        for (i, x) in x.iter().enumerate().take(count) {
            // SAFETY: the caller gives `count` valid floats.
            unsafe { *to.add(i) = *x };
        }
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
    #[inline(always)]
    unsafe fn transpose(y: *mut f32, y_step: usize, x: *const f32, x_step: usize) {
        for r in 0..BLOCK {
            for c in 0..BLOCK {
                // SAFETY: the caller gives 8 rows of 8 valid floats at both.
                unsafe { *y.add(c * y_step + r) = *x.add(r * x_step + c) };
            }
        }
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
        type Narrow = Self;
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
        unsafe fn load_part(from: *const f32, count: usize) -> __m256 {
            // SAFETY: see the impl; the mask has `count` lanes set.
            unsafe {
                let lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
                let mask = _mm256_cmpgt_epi32(_mm256_set1_epi32(count as i32), lanes);
                _mm256_maskload_ps(from, mask)
            }
        }
        #[inline(always)]
        unsafe fn store_part(to: *mut f32, x: __m256, count: usize) {
            // SAFETY: see the impl; 4, 2 and 1 lanes make up `count`. Masked stores
            // are slow on some processors, these branches always go the same way.
            unsafe {
                let (mut to, mut x) = (to, x);
                let mut part = _mm256_castps256_ps128(x);
                if count & 4 != 0 {
                    _mm_storeu_ps(to, part);
                    to = to.add(4);
                    x = _mm256_permute2f128_ps(x, x, 1);
                    part = _mm256_castps256_ps128(x);
                }
                if count & 2 != 0 {
                    _mm_storel_pd(to.cast(), _mm_castps_pd(part));
                    to = to.add(2);
                    part = _mm_movehl_ps(part, part);
                }
                if count & 1 != 0 {
                    _mm_store_ss(to, part);
                }
            }
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
        #[inline(always)]
        unsafe fn transpose(y: *mut f32, y_step: usize, x: *const f32, x_step: usize) {
            // SAFETY: see the impl.
            unsafe { transpose(y, y_step, x, x_step) }
        }
    }

    /// Pairs, then quadruples, then halves change places.
    ///
    /// # Safety
    /// Needs AVX; 8 rows of 8 valid floats at both.
    #[inline(always)]
    pub unsafe fn transpose(y: *mut f32, y_step: usize, x: *const f32, x_step: usize) {
        // SAFETY: by the contract.
        unsafe {
            let row: [__m256; 8] = std::array::from_fn(|r| _mm256_loadu_ps(x.add(r * x_step)));
            let pair: [__m256; 8] = std::array::from_fn(|i| {
                let (a, b) = (row[i & !1], row[i | 1]);
                match i & 1 {
                    0 => _mm256_unpacklo_ps(a, b),
                    _ => _mm256_unpackhi_ps(a, b),
                }
            });
            let four: [__m256; 8] = std::array::from_fn(|i| {
                let (half, which) = (i / 4 * 4, i % 4);
                let (a, b) = (pair[half + which / 2], pair[half + 2 + which / 2]);
                match which & 1 {
                    0 => _mm256_shuffle_ps(a, b, 0x44),
                    _ => _mm256_shuffle_ps(a, b, 0xee),
                }
            });
            for i in 0..4 {
                let (low, high) = (four[i], four[i + 4]);
                _mm256_storeu_ps(y.add(i * y_step), _mm256_permute2f128_ps(low, high, 0x20));
                let to = y.add((i + 4) * y_step);
                _mm256_storeu_ps(to, _mm256_permute2f128_ps(low, high, 0x31));
            }
        }
    }
}

/// x86 with AVX-512: 32 registers of 16 floats.
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy)]
pub struct Avx512;

#[cfg(target_arch = "x86_64")]
mod avx512 {
    use super::{Avx512, Simd};
    use std::arch::x86_64::*;

    /// A mask of the first `count` lanes.
    #[inline(always)]
    fn first(count: usize) -> __mmask16 {
        ((1_u32 << count) - 1) as __mmask16
    }

    // SAFETY: the caller guarantees AVX-512F; loads and stores are the unaligned or masked ones.
    unsafe impl Simd for Avx512 {
        type V = __m512;
        type Narrow = super::Avx2;
        const LANES: usize = 16;
        // 24 accumulators, two vectors of B and one broadcast out of 32 registers.
        const ROWS_2: usize = 12;
        const ROWS_1: usize = 12;

        #[inline(always)]
        unsafe fn splat(x: f32) -> __m512 {
            // SAFETY: see the impl.
            unsafe { _mm512_set1_ps(x) }
        }
        #[inline(always)]
        unsafe fn load(from: *const f32) -> __m512 {
            // SAFETY: see the impl.
            unsafe { _mm512_loadu_ps(from) }
        }
        #[inline(always)]
        unsafe fn store(to: *mut f32, x: __m512) {
            // SAFETY: see the impl.
            unsafe { _mm512_storeu_ps(to, x) }
        }
        #[inline(always)]
        unsafe fn load_part(from: *const f32, count: usize) -> __m512 {
            // SAFETY: see the impl; lanes outside the mask are not touched.
            unsafe { _mm512_maskz_loadu_ps(first(count), from) }
        }
        #[inline(always)]
        unsafe fn store_part(to: *mut f32, x: __m512, count: usize) {
            // SAFETY: see the impl; lanes outside the mask are not touched.
            unsafe { _mm512_mask_storeu_ps(to, first(count), x) }
        }
        #[inline(always)]
        unsafe fn mul_add(a: __m512, b: __m512, c: __m512) -> __m512 {
            // SAFETY: see the impl.
            unsafe { _mm512_fmadd_ps(a, b, c) }
        }
        #[inline(always)]
        unsafe fn add(a: __m512, b: __m512) -> __m512 {
            // SAFETY: see the impl.
            unsafe { _mm512_add_ps(a, b) }
        }
        #[inline(always)]
        unsafe fn mul(a: __m512, b: __m512) -> __m512 {
            // SAFETY: see the impl.
            unsafe { _mm512_mul_ps(a, b) }
        }
        #[inline(always)]
        unsafe fn relu(x: __m512) -> __m512 {
            // SAFETY: see the impl. The second operand is what a NaN yields.
            unsafe { _mm512_max_ps(_mm512_setzero_ps(), x) }
        }
        #[inline(always)]
        unsafe fn transpose(y: *mut f32, y_step: usize, x: *const f32, x_step: usize) {
            // SAFETY: see the impl; with AVX-512 there is AVX.
            unsafe { super::avx2::transpose(y, y_step, x, x_step) }
        }
    }
}
