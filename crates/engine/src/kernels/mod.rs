//! CPU kernels. Each has its plain reference beside it and is compiled once per
//! instruction set; which one runs is decided when the program starts.
//!
//! `unsafe` is here and in `cuda` alone: here slices become pointers, after their
//! bounds were checked.

pub mod peak;
pub mod product;
pub mod rowwise;
pub mod simd;
pub mod softmax;
pub mod transpose;

use std::fmt;

/// An instruction set that kernels are compiled for, and that this processor has:
/// there is no way to make one that it lacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Isa(pub(crate) Set);

/// The instruction sets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Set {
    /// Whatever the target has at least.
    Portable,
    /// x86-64 with AVX2 and FMA.
    #[cfg(target_arch = "x86_64")]
    Avx2,
    /// x86-64 with AVX-512 (F and VL) as well.
    #[cfg(target_arch = "x86_64")]
    Avx512,
}

impl Isa {
    /// The best one of this processor.
    pub fn detect() -> Self {
        Self::available()[0]
    }

    /// All that this processor has, best first.
    pub fn available() -> Vec<Self> {
        let mut found = Vec::new();
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
            if is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512vl") {
                found.push(Self(Set::Avx512));
            }
            found.push(Self(Set::Avx2));
        }
        found.push(Self(Set::Portable));
        found
    }
}

impl fmt::Display for Isa {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            Set::Portable => "portable",
            #[cfg(target_arch = "x86_64")]
            Set::Avx2 => "avx2",
            #[cfg(target_arch = "x86_64")]
            Set::Avx512 => "avx512",
        })
    }
}

/// Makes `$name(isa, …)` out of an `#[inline(always)]` kernel: one copy per
/// instruction set. A kernel is generic over [`simd::Simd`], or, marked `plain`,
/// a loop that the compiler vectorizes by itself.
macro_rules! per_isa {
    ($(#[$doc:meta])* $vis:vis fn $name:ident($($arg:ident: $ty:ty),* $(,)?) = $kernel:ident) => {
        $crate::kernels::per_isa! {
            @ $(#[$doc])* $vis fn $name($($arg: $ty),*) =
                ($kernel::<$crate::kernels::simd::Avx512>),
                ($kernel::<$crate::kernels::simd::Avx2>),
                ($kernel::<$crate::kernels::simd::Portable>)
        }
    };
    ($(#[$doc:meta])* $vis:vis fn $name:ident($($arg:ident: $ty:ty),* $(,)?) = plain $kernel:ident) => {
        $crate::kernels::per_isa! {
            @ $(#[$doc])* $vis fn $name($($arg: $ty),*) = ($kernel), ($kernel), ($kernel)
        }
    };
    (@ $(#[$doc:meta])* $vis:vis fn $name:ident($($arg:ident: $ty:ty),*) =
        ($avx512:expr), ($avx2:expr), ($portable:expr)
    ) => {
        $(#[$doc])*
        $vis fn $name(isa: $crate::kernels::Isa, $($arg: $ty),*) {
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2,fma")]
            fn avx2($($arg: $ty),*) {
                $avx2($($arg),*)
            }
            // With VL, kernels of 256 bits have all 32 registers.
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx512f,avx512vl,avx2,fma")]
            fn avx512($($arg: $ty),*) {
                $avx512($($arg),*)
            }
            match isa.0 {
                // SAFETY: an `Isa` of AVX-512 is only made after its detection.
                #[cfg(target_arch = "x86_64")]
                $crate::kernels::Set::Avx512 => unsafe { avx512($($arg),*) },
                // SAFETY: an `Isa` of AVX2 is only made after its detection.
                #[cfg(target_arch = "x86_64")]
                $crate::kernels::Set::Avx2 => unsafe { avx2($($arg),*) },
                $crate::kernels::Set::Portable => $portable($($arg),*),
            }
        }
    };
}
pub(crate) use per_isa;
