//! Which variant of the product kernel computes what: tiles, operands, parts.

use super::args::{Address, Array, OperandArgs, ProductArgs};
use super::launch::{Define, Kernel, Launch, Source, Tables};

/// How exactly factors enter products.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Precision {
    /// Each factor as two TF32 numbers: errors as those of float32.
    Fp32,
    /// Each factor rounded to TF32, 10 bits behind the point.
    Tf32,
}

impl std::fmt::Display for Precision {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Fp32 => "fp32",
            Self::Tf32 => "tf32",
        })
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
    /// How exactly.
    pub precision: Precision,
    /// Runs.
    pub replicas: usize,
    /// All other arguments.
    pub args: ProductArgs,
}

/// Blocks that fill a large GPU about twice.
const MANY_BLOCKS: usize = 264;
/// Terms that a part of a sum should at least have.
const TERMS_PER_PART: usize = 256;
/// Most parts of a sum.
const MOST_PARTS: usize = 64;

/// The tile of a block, and how warps share it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tile {
    m: usize,
    n: usize,
    k: usize,
    warps: (usize, usize),
}

impl Tile {
    /// A tile that fits a product of this size.
    pub fn of(m: usize, n: usize, k: usize, replicas: usize) -> Self {
        let k = match k {
            0..=8 => 8,
            9..=16 => 16,
            _ => 32,
        };
        let blocks =
            |tile_m: usize, tile_n: usize| m.div_ceil(tile_m) * n.div_ceil(tile_n) * replicas;
        let (m, n, warps) = match n {
            _ if m <= 32 && n > 8 => (32, if n <= 16 { 16 } else { 32 }, (2, 2)),
            0..=8 if blocks(128, 8) >= MANY_BLOCKS => (128, 8, (4, 1)),
            0..=8 => (64, 8, (4, 1)),
            9..=16 if blocks(128, 16) >= MANY_BLOCKS => (128, 16, (4, 1)),
            9..=16 => (64, 16, (4, 1)),
            17..=32 if blocks(128, 32) >= MANY_BLOCKS => (128, 32, (4, 1)),
            17..=32 => (64, 32, (4, 1)),
            97.. if m > 64 && blocks(128, 128) >= MANY_BLOCKS => (128, 128, (2, 4)),
            _ if m > 64 && blocks(128, 64) >= MANY_BLOCKS => (128, 64, (2, 2)),
            _ => (64, 64, (2, 2)),
        };
        Self { m, n, k, warps }
    }

    fn blocks(&self, m: usize, n: usize) -> (usize, usize) {
        (m.div_ceil(self.m), n.div_ceil(self.n))
    }
}

/// How many parts a long sum over few tiles is cut into, and the terms of each.
pub fn parts(m: usize, n: usize, k: usize, replicas: usize) -> (usize, usize) {
    let tile = Tile::of(m, n, k, replicas);
    let (rows, columns) = tile.blocks(m, n);
    let blocks = rows * columns * replicas;
    let wanted = MANY_BLOCKS
        .div_ceil(blocks)
        .min(k / TERMS_PER_PART)
        .min(MOST_PARTS)
        .max(1);
    let per_part = k.div_ceil(wanted).next_multiple_of(tile.k);
    (k.div_ceil(per_part).max(1), per_part)
}

impl Product {
    /// The launch of this product.
    pub fn launch(mut self, tables: &mut Tables) -> Launch {
        let (m, n, k) = (self.a.x.len(), self.b.x.len(), self.a.k.len());
        debug_assert_eq!(k, self.b.k.len());
        let parts = (self.args.parts as usize).max(1);
        let tile = Tile::of(m, n, k, self.replicas);
        let per_part = if parts == 1 {
            k
        } else {
            self.args.k_per_part as usize
        };
        let stages = if per_part <= tile.k { 2 } else { 3 };
        let vectors = [self.a.vector(), self.b.vector()];
        let by_rows = matches!(self.target, Target::ByRows(_));
        let defines: Vec<Define> = vec![
            ("TILE_M", tile.m as u32),
            ("TILE_N", tile.n as u32),
            ("TILE_K", tile.k as u32),
            ("WARPS_M", tile.warps.0 as u32),
            ("WARPS_N", tile.warps.1 as u32),
            ("STAGES", stages),
            ("A_INNER", u32::from(self.a.inner == Inner::X)),
            ("B_INNER", u32::from(self.b.inner == Inner::X)),
            ("A_VECTOR", vectors[0]),
            ("B_VECTOR", vectors[1]),
            ("EPILOGUE", self.epilogue as u32),
            ("C_INNER", u32::from(by_rows)),
            (
                "TERMS",
                if self.precision == Precision::Fp32 {
                    3
                } else {
                    1
                },
            ),
        ];
        let floats = self.a.tile_floats(tile.m, tile.k) + self.b.tile_floats(tile.n, tile.k);
        self.args.a = self.a.args(tables);
        self.args.b = self.b.args(tables);
        (self.args.c_m, self.args.c_n) = match &self.target {
            Target::ByRows(rows) => (tables.put(rows), 0),
            Target::ByColumns(columns, rows) => {
                let rows = rows.as_ref().map_or(0, |rows| tables.put(rows));
                (rows, tables.put(columns))
            }
        };
        (self.args.m, self.args.n, self.args.k) = (m as i32, n as i32, k as i32);
        (self.args.parts, self.args.k_per_part) = (parts as i32, per_part.max(1) as i32);
        let (rows, columns) = tile.blocks(m, n);
        let kernel = Kernel {
            source: Source::Product,
            function: "product",
            defines,
        };
        let threads = 32 * tile.warps.0 * tile.warps.1;
        let mut launch = Launch::new(
            kernel,
            [rows, columns * parts, self.replicas],
            threads,
            &self.args,
        );
        launch.shared = 4 * floats * stages as usize;
        launch
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
        let aligned = self.array.replica % 4 == 0 && self.array.values % 16 == 0;
        let fours = inner.chunks(4).all(whole) && outer.iter().all(|at| at % 4 == 0);
        if aligned && fours { 4 } else { 1 }
    }

    /// Floats of a tile in shared memory, as `Mover` of `product.cu` strides it.
    fn tile_floats(&self, x: usize, k: usize) -> usize {
        match self.inner {
            Inner::K => x * (k + 4),
            Inner::X if x == 8 => k * 8,
            Inner::X => k * (x + 8),
        }
    }

    fn args(&self, tables: &mut Tables) -> OperandArgs {
        OperandArgs {
            array: self.array,
            x: tables.put(&self.x),
            k: tables.put(&self.k),
        }
    }
}

/// 0, step, 2·step, …
pub fn even(count: usize, step: usize) -> Vec<i32> {
    (0..count).map(|i| (i * step) as i32).collect()
}

/// A buffer at an address.
pub fn array(values: Address, replica: usize) -> Array {
    Array {
        values,
        replica: replica as i64,
    }
}
