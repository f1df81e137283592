//! An array from a file, IDX or NPY, plain or gzip, before anything is known of its meaning.
//!
//! The values stay the bytes of the file until it is settled what they are:
//! images become [`Values`], labels become small integers. A header is never
//! believed: memory is taken for what the file really holds.

use super::{Values, idx, npy};
use flate2::read::MultiGzDecoder;
use std::fmt;
use std::io::{self, Read};

/// What one value of a file is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Element {
    /// `false` or `true` in one byte.
    Bool,
    /// A byte, as images mostly have it.
    U8,
    /// Signed, 8 bits.
    I8,
    /// Unsigned, 16 bits.
    U16,
    /// Signed, 16 bits.
    I16,
    /// Unsigned, 32 bits.
    U32,
    /// Signed, 32 bits.
    I32,
    /// Unsigned, 64 bits.
    U64,
    /// Signed, 64 bits, as labels mostly are.
    I64,
    /// Float, 32 bits.
    F32,
    /// Float, 64 bits; read as one of 32.
    F64,
}

impl Element {
    /// Bytes of one value.
    pub fn size(self) -> usize {
        match self {
            Self::Bool | Self::U8 | Self::I8 => 1,
            Self::U16 | Self::I16 => 2,
            Self::U32 | Self::I32 | Self::F32 => 4,
            Self::U64 | Self::I64 | Self::F64 => 8,
        }
    }
}

/// Which byte of a value comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ByteOrder {
    /// The smallest, as NPY files mostly have it.
    LittleEndian,
    /// The largest, as IDX files have it.
    BigEndian,
}

/// The lengths of an array's axes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Axes(pub Vec<usize>);

impl fmt::Display for Axes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lengths: Vec<String> = self.0.iter().map(ToString::to_string).collect();
        write!(f, "({})", lengths.join(", "))
    }
}

/// What is wrong with an array's file. Where it is, and what to do about it, is
/// added by those who know: see [`super::DataError`].
#[derive(Debug, thiserror::Error)]
pub enum ArrayError {
    /// The system or the decompressor gives up.
    #[error("cannot be read ({0})")]
    Unreadable(#[from] io::Error),
    /// Neither of the formats.
    #[error("is neither an IDX nor an NPY file")]
    UnknownFormat,
    /// The header makes no sense.
    #[error("has a damaged header ({0})")]
    Header(String),
    /// Values that cannot be examples.
    #[error("holds values of type {0}, where integers or floats of 32 or 64 bits are needed")]
    Element(String),
    /// A product of lengths that no memory holds.
    #[error("claims the impossible size {0}")]
    TooLarge(Axes),
    /// Fewer values than announced.
    #[error("is truncated: {expected} bytes of values were announced and {found} are there")]
    Truncated {
        /// By the header.
        expected: usize,
        /// In the file.
        found: usize,
    },
    /// More values than announced.
    #[error("goes on after the {expected} bytes of values that its header announces")]
    Overlong {
        /// By the header.
        expected: usize,
    },
    /// Not a number, or infinite.
    #[error("holds {value} at position {position}, where every value must be finite")]
    NotFinite {
        /// The value, as an `f32`.
        value: f32,
        /// Counted over the whole array.
        position: usize,
    },
    /// A float of 64 bits that none of 32 can hold.
    #[error(
        "holds {value:e} at position {position}, which is beyond the {:e} that a 32-bit float can hold",
        f32::MAX
    )]
    BeyondFloat {
        /// The value.
        value: f64,
        /// Counted over the whole array.
        position: usize,
    },
    /// Labels with fractions.
    #[error("holds floats, where labels must be integers")]
    FloatLabels,
    /// Labels on more than one axis.
    #[error("has shape {0}, where labels must be (n)")]
    LabelAxes(Axes),
    /// A label below 0 or beyond what is kept.
    #[error("holds the label {label} at position {position}, where labels go from 0 to 65535")]
    Label {
        /// The label.
        label: i128,
        /// Which example.
        position: usize,
    },
}

/// An array as its file has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Array {
    /// Lengths of the axes, the last one varying fastest.
    pub axes: Axes,
    element: Element,
    order: ByteOrder,
    raw: Vec<u8>,
}

impl Array {
    /// Reads an IDX or NPY file, plain or gzip: its first bytes tell which.
    pub fn read(reader: impl Read) -> Result<Self, ArrayError> {
        let mut plain = decompressed(reader)?;
        let mut magic = Vec::new();
        plain.by_ref().take(4).read_to_end(&mut magic)?;
        match magic[..] {
            [0, 0, element, axes] => idx::read_after_magic(element, axes, plain),
            [0x93, b'N', b'U', b'M'] => npy::read_after_magic(plain),
            _ => Err(ArrayError::UnknownFormat),
        }
    }

    /// Reads the values that a header announces, and nothing may follow.
    pub(super) fn read_values(
        axes: Vec<usize>,
        element: Element,
        order: ByteOrder,
        reader: impl Read,
    ) -> Result<Self, ArrayError> {
        let count = axes.iter().try_fold(1_usize, |n, len| n.checked_mul(*len));
        let expected = count.and_then(|n| n.checked_mul(element.size()));
        // Vectors end at this many bytes.
        let Some(expected) = expected.filter(|bytes| *bytes < isize::MAX as usize) else {
            return Err(ArrayError::TooLarge(Axes(axes)));
        };
        let mut raw = Vec::new();
        match reader.take(expected as u64 + 1).read_to_end(&mut raw) {
            Err(error) if error.kind() != io::ErrorKind::UnexpectedEof => Err(error)?,
            _ if raw.len() > expected => Err(ArrayError::Overlong { expected }),
            _ if raw.len() < expected => Err(ArrayError::Truncated {
                expected,
                found: raw.len(),
            }),
            Err(error) => Err(error)?,
            Ok(_) => Ok(Self {
                axes: Axes(axes),
                element,
                order,
                raw,
            }),
        }
    }

    /// The same array with its last axis varying fastest, from one in which the first does.
    pub(super) fn with_last_axis_fastest(self) -> Self {
        if self.raw.is_empty() {
            return self;
        }
        let size = self.element.size();
        let mut steps = Vec::with_capacity(self.axes.0.len());
        let mut step = size;
        for length in &self.axes.0 {
            steps.push(step);
            step *= length;
        }
        let mut raw = Vec::with_capacity(self.raw.len());
        let mut index = vec![0; steps.len()];
        let mut from = 0;
        while raw.len() < self.raw.len() {
            raw.extend_from_slice(&self.raw[from..from + size]);
            from = next_place(&mut index, &self.axes, &steps, from);
        }
        Self { raw, ..self }
    }

    /// What one value is.
    pub fn element(&self) -> Element {
        self.element
    }

    /// The values as images are kept: bytes as they are, all others as floats.
    pub fn into_values(self) -> Result<Values, ArrayError> {
        if self.element == Element::U8 {
            return Ok(Values::Bytes(self.raw));
        }
        let floats = self.floats();
        match floats.iter().position(|value| !value.is_finite()) {
            None => Ok(Values::Floats(floats)),
            Some(position) => Err(self.not_kept(floats[position], position)),
        }
    }

    /// Why a value is not finite: it was so in the file, or has become so in 32 bits.
    fn not_kept(&self, value: f32, position: usize) -> ArrayError {
        let as_written = match self.element {
            Element::F64 => self
                .each(f64::from_le_bytes, f64::from_be_bytes)
                .nth(position),
            _ => None,
        };
        match as_written.filter(|value| value.is_finite()) {
            Some(value) => ArrayError::BeyondFloat { value, position },
            None => ArrayError::NotFinite { value, position },
        }
    }

    /// The values as labels, of shape (n) or (n, 1).
    pub fn labels(&self) -> Result<Vec<u16>, ArrayError> {
        if !matches!(self.axes.0[..], [_] | [_, 1]) {
            return Err(ArrayError::LabelAxes(self.axes.clone()));
        }
        let integers = self.integers().ok_or(ArrayError::FloatLabels)?;
        integers
            .enumerate()
            .map(|(position, label)| {
                u16::try_from(label).map_err(|_| ArrayError::Label { label, position })
            })
            .collect()
    }

    /// Every value, rounded to an `f32` where it is something finer.
    fn floats(&self) -> Vec<f32> {
        match self.element {
            Element::F32 => self.each(f32::from_le_bytes, f32::from_be_bytes).collect(),
            Element::F64 => {
                let doubles = self.each(f64::from_le_bytes, f64::from_be_bytes);
                doubles.map(|value| value as f32).collect()
            }
            _ => {
                let integers = self.integers().into_iter().flatten();
                integers.map(|value| value as f32).collect()
            }
        }
    }

    /// Every value, or nothing where they are floats.
    fn integers(&self) -> Option<Box<dyn Iterator<Item = i128> + '_>> {
        Some(match self.element {
            Element::Bool | Element::U8 => Box::new(self.raw.iter().map(|v| i128::from(*v))),
            Element::I8 => Box::new(
                self.each(i8::from_le_bytes, i8::from_be_bytes)
                    .map(i128::from),
            ),
            Element::U16 => Box::new(
                self.each(u16::from_le_bytes, u16::from_be_bytes)
                    .map(i128::from),
            ),
            Element::I16 => Box::new(
                self.each(i16::from_le_bytes, i16::from_be_bytes)
                    .map(i128::from),
            ),
            Element::U32 => Box::new(
                self.each(u32::from_le_bytes, u32::from_be_bytes)
                    .map(i128::from),
            ),
            Element::I32 => Box::new(
                self.each(i32::from_le_bytes, i32::from_be_bytes)
                    .map(i128::from),
            ),
            Element::U64 => Box::new(
                self.each(u64::from_le_bytes, u64::from_be_bytes)
                    .map(i128::from),
            ),
            Element::I64 => Box::new(
                self.each(i64::from_le_bytes, i64::from_be_bytes)
                    .map(i128::from),
            ),
            Element::F32 | Element::F64 => return None,
        })
    }

    /// Every value of SIZE bytes, read in the order of the file's bytes.
    fn each<const SIZE: usize, T>(
        &self,
        little: fn([u8; SIZE]) -> T,
        big: fn([u8; SIZE]) -> T,
    ) -> impl Iterator<Item = T> {
        let read = match self.order {
            ByteOrder::LittleEndian => little,
            ByteOrder::BigEndian => big,
        };
        self.raw
            .as_chunks::<SIZE>()
            .0
            .iter()
            .map(move |raw| read(*raw))
    }
}

/// Counts `index` up by one, last axis first, and returns where that value is.
fn next_place(index: &mut [usize], axes: &Axes, steps: &[usize], from: usize) -> usize {
    let mut from = from;
    for axis in (0..index.len()).rev() {
        index[axis] += 1;
        from += steps[axis];
        if index[axis] < axes.0[axis] {
            return from;
        }
        from -= steps[axis] * index[axis];
        index[axis] = 0;
    }
    from
}

/// The content itself: decompressed where the first bytes are those of gzip,
/// whatever the file is called.
pub(super) fn decompressed<'a>(mut reader: impl Read + 'a) -> io::Result<Box<dyn Read + 'a>> {
    let mut magic = Vec::new();
    reader.by_ref().take(2).read_to_end(&mut magic)?;
    let zipped = magic == [0x1f, 0x8b];
    let whole = io::Cursor::new(magic).chain(reader);
    Ok(if zipped {
        Box::new(MultiGzDecoder::new(whole))
    } else {
        Box::new(whole)
    })
}
