//! CPU kernels. Each has its plain reference beside it and is compiled once per
//! instruction set; which one runs is decided when the program starts.
//!
//! This is the only part of the engine with `unsafe`: here slices become
//! pointers, after their bounds were checked.

pub mod product;
pub mod rowwise;
pub mod simd;
pub mod softmax;

use std::fmt;

/// An instruction set that kernels are compiled for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Isa {
    /// Whatever the target has at least.
    Portable,
    /// x86-64 with AVX2 and FMA.
    Avx2,
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
            found.push(Self::Avx2);
        }
        found.push(Self::Portable);
        found
    }
}

impl fmt::Display for Isa {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Portable => "portable",
            Self::Avx2 => "avx2",
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
                ($kernel::<$crate::kernels::simd::Avx2>),
                ($kernel::<$crate::kernels::simd::Portable>)
        }
    };
    ($(#[$doc:meta])* $vis:vis fn $name:ident($($arg:ident: $ty:ty),* $(,)?) = plain $kernel:ident) => {
        $crate::kernels::per_isa! {
            @ $(#[$doc])* $vis fn $name($($arg: $ty),*) = ($kernel), ($kernel)
        }
    };
    (@ $(#[$doc:meta])* $vis:vis fn $name:ident($($arg:ident: $ty:ty),*) =
        ($avx2:expr), ($portable:expr)
    ) => {
        $(#[$doc])*
        $vis fn $name(isa: $crate::kernels::Isa, $($arg: $ty),*) {
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2,fma")]
            fn avx2($($arg: $ty),*) {
                $avx2($($arg),*)
            }
            match isa {
                // SAFETY: an `Isa` other than the portable one comes from detection.
                #[cfg(target_arch = "x86_64")]
                $crate::kernels::Isa::Avx2 => unsafe { avx2($($arg),*) },
                _ => $portable($($arg),*),
            }
        }
    };
}
pub(crate) use per_isa;
