//! Quantities with their units in the type, so that a learning rate cannot be
//! passed where a noise scale is meant. Each type documents its formula.

use serde::de::{Deserializer, Visitor};
use serde::{Deserialize, Serialize};
use std::fmt;

/// A value outside the range of its quantity.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{quantity} must be {range}, not {value}")]
pub struct InvalidQuantity {
    /// Name of the quantity, as users write it.
    pub quantity: &'static str,
    /// The range it must lie in, in words.
    pub range: &'static str,
    /// What was given.
    pub value: String,
}

/// Defines a newtype over a number that is checked once, when it is made.
macro_rules! quantity {
    (
        $(#[$doc:meta])* $name:ident($repr:ty) + $($order:ident)|*,
        $words:literal, $range:literal, $valid:expr
    ) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, PartialOrd, $($order,)* Serialize, Deserialize)]
        #[serde(try_from = "Written", into = "serde_json::Number")]
        pub struct $name($repr);

        impl $name {
            /// Checks the range.
            pub fn new(value: $repr) -> Result<Self, InvalidQuantity> {
                let valid: fn($repr) -> bool = $valid;
                if valid(value) {
                    Ok(Self(value))
                } else {
                    Err(Self::invalid(value.to_string()))
                }
            }

            /// The bare number.
            pub fn get(self) -> $repr {
                self.0
            }

            fn invalid(value: String) -> InvalidQuantity {
                InvalidQuantity { quantity: $words, range: $range, value }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

/// A number as it is written: `10` and `10.0` are to read alike, a fractional batch size is an
/// error rather than a truncation, and TOML's `inf` and `nan` are numbers outside of a range.
#[derive(Debug, Clone, Copy)]
enum Written {
    Whole(u64),
    Negative(i64),
    Float(f64),
}

impl Written {
    fn as_f64(self) -> f64 {
        match self {
            Self::Whole(value) => value as f64,
            Self::Negative(value) => value as f64,
            Self::Float(value) => value,
        }
    }

    fn as_u32(self) -> Option<u32> {
        match self {
            Self::Whole(value) => u32::try_from(value).ok(),
            Self::Negative(_) | Self::Float(_) => None,
        }
    }
}

impl fmt::Display for Written {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Whole(value) => value.fmt(f),
            Self::Negative(value) => value.fmt(f),
            // With the point that makes it a fraction.
            Self::Float(value) => write!(f, "{value:?}"),
        }
    }
}

impl<'de> Deserialize<'de> for Written {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Numbers;
        impl Visitor<'_> for Numbers {
            type Value = Written;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number")
            }
            fn visit_u64<E>(self, value: u64) -> Result<Written, E> {
                Ok(Written::Whole(value))
            }
            fn visit_i64<E>(self, value: i64) -> Result<Written, E> {
                Ok(u64::try_from(value).map_or(Written::Negative(value), Written::Whole))
            }
            fn visit_f64<E>(self, value: f64) -> Result<Written, E> {
                Ok(Written::Float(value))
            }
        }
        deserializer.deserialize_any(Numbers)
    }
}

macro_rules! float_conversions {
    ($($name:ident),*) => {$(
        impl TryFrom<Written> for $name {
            type Error = InvalidQuantity;
            fn try_from(number: Written) -> Result<Self, InvalidQuantity> {
                Self::new(number.as_f64())
            }
        }
        impl From<$name> for serde_json::Number {
            fn from(quantity: $name) -> Self {
                Self::from_f64(quantity.0).unwrap_or_else(|| Self::from(0))
            }
        }
    )*};
}

macro_rules! integer_conversions {
    ($($name:ident),*) => {$(
        impl TryFrom<Written> for $name {
            type Error = InvalidQuantity;
            fn try_from(number: Written) -> Result<Self, InvalidQuantity> {
                let value = (number.as_u32()).ok_or_else(|| Self::invalid(number.to_string()))?;
                Self::new(value)
            }
        }
        impl From<$name> for serde_json::Number {
            fn from(quantity: $name) -> Self {
                Self::from(quantity.0)
            }
        }
    )*};
}

quantity!(
    /// Learning rate ε, in units of \[weight\]²/\[loss\].
    LearningRate(f64) +, "learning rate", "finite and above 0", |x| x.is_finite() && x > 0.0
);
quantity!(
    /// Momentum coefficient m.
    Momentum(f64) +, "momentum", "at least 0 and below 1", |x| (0.0..1.0).contains(&x)
);
quantity!(
    /// Weight scale σ₀², the variance of a weight at initialization before
    /// division by the fan-in. 2 is critical for ReLU.
    WeightScale(f64) +, "weight scale", "finite and above 0", |x| x.is_finite() && x > 0.0
);
quantity!(
    /// Batch size B.
    BatchSize(u32) + Eq | Ord | Hash, "batch size", "a whole number of at least 1", |x| x >= 1
);
quantity!(
    /// Widening factor w; for MLPs the hidden width itself.
    Width(u32) + Eq | Ord | Hash, "width", "a whole number of at least 1", |x| x >= 1
);
float_conversions!(LearningRate, Momentum, WeightScale);
integer_conversions!(BatchSize, Width);

/// SGD noise scale, g = εN / (B(1 − m)), in units of \[weight\]²/\[loss\].
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
pub struct NoiseScale(f64);

impl NoiseScale {
    /// The noise scale of SGD with these settings on `examples` training examples.
    pub fn of(lr: LearningRate, momentum: Momentum, batch: BatchSize, examples: u32) -> Self {
        let decay = 1.0 - momentum.get();
        Self(lr.get() * f64::from(examples) / (f64::from(batch.get()) * decay))
    }

    /// The bare number.
    pub fn get(self) -> f64 {
        self.0
    }
}

/// Normalized noise scale ḡ, in units of 1/\[loss\]: g/σ₀² in the NTK scheme,
/// g·w/σ₀² in the standard scheme. Made by [`Scheme::normalized_noise`](crate::Scheme::normalized_noise).
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(transparent)]
pub struct NormalizedNoiseScale(pub(crate) f64);

/// Normalized learning rate ε̄, in units of 1/\[loss\]: ε/σ₀² in the NTK scheme,
/// ε·w/σ₀² in the standard scheme.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(transparent)]
pub struct NormalizedLearningRate(pub(crate) f64);

impl NormalizedNoiseScale {
    /// The bare number.
    pub fn get(self) -> f64 {
        self.0
    }
}

impl NormalizedLearningRate {
    /// The bare number.
    pub fn get(self) -> f64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn noise_scale_by_hand() {
        // 10 · 55000 / (16 · 0.1) = 343750.
        let g = NoiseScale::of(
            LearningRate::new(10.0).unwrap(),
            Momentum::new(0.9).unwrap(),
            BatchSize::new(16).unwrap(),
            55_000,
        );
        assert!((g.get() - 343_750.0).abs() < 1e-6);
        // Without momentum: 0.5 · 100 / 4 = 12.5.
        let g = NoiseScale::of(
            LearningRate::new(0.5).unwrap(),
            Momentum::new(0.0).unwrap(),
            BatchSize::new(4).unwrap(),
            100,
        );
        assert!((g.get() - 12.5).abs() < 1e-12);
    }

    #[test]
    fn ranges_are_enforced() {
        for bad in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert!(LearningRate::new(bad).is_err());
        }
        assert!(Momentum::new(1.0).is_err());
        assert!(BatchSize::new(0).is_err());
        let error = serde_json::from_str::<BatchSize>("2.5").unwrap_err();
        assert!(
            error
                .to_string()
                .contains("batch size must be a whole number")
        );
        assert_eq!(
            serde_json::from_str::<LearningRate>("10").unwrap().get(),
            10.0
        );
    }
}
