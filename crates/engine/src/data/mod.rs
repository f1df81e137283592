//! Data sets in memory: raw values as stored, with the rule that turns them into inputs.
//!
//! Images stay bytes until a batch is gathered: MNIST then takes 55 MB instead
//! of 220, is shared by all runs, and goes to a GPU as it is.

use spec::Shape;

/// Raw values of all examples, (n, height, width, channels), channels last.
#[derive(Debug, Clone, PartialEq)]
pub enum Values {
    /// Bytes, as image sets store them.
    Bytes(Vec<u8>),
    /// Floats, as users' own arrays may be.
    Floats(Vec<f32>),
}

/// One part of a data set.
#[derive(Debug, Clone, PartialEq)]
pub struct Examples {
    /// (n, height, width, channels).
    pub values: Values,
    /// (n), each below the number of classes.
    pub labels: Vec<u16>,
}

/// How a raw value of channel c becomes an input: (value − offset[c]) · factor[c].
#[derive(Debug, Clone, PartialEq)]
pub struct Normalization {
    /// Subtracted, per channel.
    pub offset: Vec<f32>,
    /// Multiplied, per channel.
    pub factor: Vec<f32>,
}

/// A data set, split.
#[derive(Debug, Clone, PartialEq)]
pub struct Dataset {
    /// Shape of one example.
    pub shape: Shape,
    /// Number of classes.
    pub classes: usize,
    /// How raw values become inputs.
    pub normalization: Normalization,
    /// What is trained on.
    pub train: Examples,
    /// What late time is judged on.
    pub validation: Examples,
    /// What accuracy is measured on.
    pub test: Examples,
}
