//! The product behind every dense layer and convolution: its operands and what becomes of its sums. [`tile`]
//! says how it is cut up, [`launches`] which variant of the kernel computes it.

mod launches;
mod spacing;
mod tile;

pub use tile::{Size, packed_floats, parts};

use super::args::{Address, Array, OperandArgs, ProductArgs};
use super::launch::Tables;

/// How exactly factors enter products.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Precision {
    /// Each factor as two TF32 numbers: errors as those of float32.
    Fp32,
    /// Each factor rounded to TF32, 10 bits behind the point.
    Tf32,
}

impl Precision {
    /// Products of TF32 numbers that make up one.
    pub fn terms(self) -> usize {
        match self {
            Self::Fp32 => 3,
            Self::Tf32 => 1,
        }
    }
}

impl std::fmt::Display for Precision {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Fp32 => "fp32",
            Self::Tf32 => "tf32",
        })
    }
}

/// What multiplies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Units {
    /// How exactly.
    pub precision: Precision,
    /// Whether four warps can multiply together, the second factor read from shared memory.
    pub groups: bool,
    /// Multiprocessors.
    pub processors: usize,
}

impl Units {
    /// Whether warps multiply by fours where that pays.
    pub fn together(&self) -> bool {
        self.groups && self.precision == Precision::Tf32
    }
}

/// One factor: element (x, k) lies at x\[x\] + k\[k\].
#[derive(Debug, Clone)]
pub struct Operand {
    /// Where it is.
    pub array: Array,
    /// By row of A or column of B.
    pub x: Vec<i32>,
    /// By term of the sum.
    pub k: Vec<i32>,
    /// Which of the two is contiguous.
    pub inner: Inner,
}

/// The contiguous direction of an operand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Inner {
    /// Along the sum.
    K,
    /// Along rows of A or columns of B.
    X,
}

/// What becomes of the sums.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Epilogue {
    /// Outputs of a layer.
    Forward = 0,
    /// Gradient of its inputs.
    Data = 1,
    /// Gradient of its weights, and the step.
    Descend = 2,
    /// A part of that gradient.
    Partial = 3,
}

/// Where the sums go.
#[derive(Debug, Clone)]
pub enum Target {
    /// C\[m,n\] lies at rows\[m\] + n.
    ByRows(Vec<i32>),
    /// C\[m,n\] lies at m + columns\[n\], or rows\[m\] + columns\[n\].
    ByColumns(Vec<i32>, Option<Vec<i32>>),
}

/// A product to be launched.
#[derive(Debug)]
pub struct Product {
    /// A.
    pub a: Operand,
    /// B.
    pub b: Operand,
    /// C.
    pub target: Target,
    /// What becomes of the sums.
    pub epilogue: Epilogue,
    /// What multiplies.
    pub units: Units,
    /// Runs.
    pub replicas: usize,
    /// A is read through a filter.
    pub filter: Option<Filter>,
    /// Whether values of B were rounded to TF32 when they were written.
    pub rounded: bool,
    /// Room for B to be packed.
    pub room: Room,
    /// All other arguments.
    pub args: ProductArgs,
}

/// A buffer of so many floats; none by default.
#[derive(Debug, Clone, Copy, Default)]
pub struct Room {
    /// Where it is.
    pub at: Address,
    /// How large.
    pub floats: usize,
}

/// How the sum of a convolution takes A: 32 channels through all taps, then the next.
#[derive(Debug, Clone)]
pub struct Filter {
    /// Offsets of the taps, in floats.
    pub taps: Vec<i32>,
    /// Floats from one pixel to the next.
    pub pixel: usize,
    /// Floats of A in one replica.
    pub end: usize,
}

impl Target {
    /// Floats from one row of C to the next, or from one column where it is contiguous along m, if that is
    /// all there is to say.
    fn step(&self) -> Option<i32> {
        match self {
            Self::ByRows(outer) | Self::ByColumns(outer, None) => step(outer),
            Self::ByColumns(_, Some(_)) => None,
        }
    }
}

impl Operand {
    /// Floats that a copy can move: four where they are contiguous and aligned, else one.
    fn vector(&self) -> u32 {
        let (inner, outer) = match self.inner {
            Inner::K => (&self.k, &self.x),
            Inner::X => (&self.x, &self.k),
        };
        let whole = |four: &[i32]| {
            four.len() == 4 && four[0] % 4 == 0 && (1..4).all(|i| four[i] == four[0] + i as i32)
        };
        let aligned = self.array.replica % 4 == 0 && self.array.values.is_multiple_of(16);
        let fours = inner.chunks(4).all(whole) && outer.iter().all(|at| at % 4 == 0);
        if aligned && fours { 4 } else { 1 }
    }

    /// Floats of a tile in shared memory, as `Mover` of `mover.cuh` strides it.
    fn tile_floats(&self, x: usize, k: usize) -> usize {
        match self.inner {
            Inner::K => x * (k + 4),
            Inner::X if x == 8 => k * 8,
            Inner::X => k * (x + 8),
        }
    }

    /// Whether it is a matrix, so that no table need be asked where an element lies.
    fn is_matrix(&self) -> bool {
        step(&self.x).is_some() && step(&self.k).is_some()
    }

    fn args(&self, tables: &mut Tables) -> OperandArgs {
        OperandArgs {
            array: self.array,
            x: tables.put(&self.x),
            k: tables.put(&self.k),
            x_step: step(&self.x).unwrap_or(0),
            k_step: step(&self.k).unwrap_or(0),
            ..OperandArgs::default()
        }
    }
}

/// 0, step, 2·step, …
pub fn even(count: usize, step: usize) -> Vec<i32> {
    (0..count).map(|i| (i * step) as i32).collect()
}

/// The step of a table that is 0, step, 2·step, …
fn step(table: &[i32]) -> Option<i32> {
    let step = table.get(1).map_or(0, |second| *second);
    let even = (0..).map(|i: i32| i.wrapping_mul(step));
    table
        .iter()
        .copied()
        .eq(even.take(table.len()))
        .then_some(step)
}

/// A buffer at an address.
pub fn array(values: Address, replica: usize) -> Array {
    Array {
        values,
        replica: replica as i64,
    }
}
