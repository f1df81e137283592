//! Sizes that may follow the width.

use crate::quantity::Width;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;

/// A size that may follow the width: `64` is fixed, `"60w"` is sixty widths.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Size {
    /// The same at every width.
    Fixed(usize),
    /// So many widths, rounded to the nearest whole number.
    Widths(f64),
}

impl Size {
    /// The size at a width.
    pub fn at(self, width: Width) -> usize {
        match self {
            Self::Fixed(size) => size,
            Self::Widths(multiple) => (multiple * f64::from(width.get())).round() as usize,
        }
    }

    fn parse(text: &str) -> Option<Self> {
        let multiple = text.trim().strip_suffix('w')?.trim();
        let multiple = if multiple.is_empty() {
            1.0
        } else {
            multiple.parse().ok()?
        };
        (f64::is_finite(multiple) && multiple > 0.0).then_some(Self::Widths(multiple))
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed(size) => write!(f, "{size}"),
            Self::Widths(multiple) => write!(f, "{multiple}w"),
        }
    }
}

impl Serialize for Size {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Fixed(size) => serializer.serialize_u64(*size as u64),
            Self::Widths(_) => serializer.collect_str(self),
        }
    }
}

impl<'de> Deserialize<'de> for Size {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl serde::de::Visitor<'_> for Visitor {
            type Value = Size;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a whole number of at least 1, or a multiple of the width like \"60w\"")
            }
            fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<Size, E> {
                match usize::try_from(value) {
                    Ok(size) if size > 0 => Ok(Size::Fixed(size)),
                    _ => Err(E::invalid_value(
                        serde::de::Unexpected::Unsigned(value),
                        &self,
                    )),
                }
            }
            fn visit_i64<E: serde::de::Error>(self, value: i64) -> Result<Size, E> {
                match u64::try_from(value) {
                    Ok(value) => self.visit_u64(value),
                    Err(_) => Err(E::invalid_value(
                        serde::de::Unexpected::Signed(value),
                        &self,
                    )),
                }
            }
            fn visit_str<E: serde::de::Error>(self, value: &str) -> Result<Size, E> {
                Size::parse(value)
                    .ok_or_else(|| E::invalid_value(serde::de::Unexpected::Str(value), &self))
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}
