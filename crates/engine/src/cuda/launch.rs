//! Launches of kernels, and the memory that they speak of, before there is a device.
//!
//! What a step needs is worked out twice: once from address 0 on, which tells how much
//! memory it takes, and once more where that memory lies.

use super::args::Address;
use bytemuck::Pod;
use std::collections::HashMap;
use std::fmt;

/// A file of kernels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Source {
    /// Dense layers and convolutions.
    Product,
    /// Factors of products that four warps compute together.
    Pack,
    /// Drawing batches.
    Batch,
    /// Cross-entropy and counting.
    Loss,
    /// Start and steps of weights.
    Weights,
    /// Activation, sum, dropout.
    Elementwise,
    /// Pooling.
    Pool,
    /// Batch norm.
    Norm,
    /// Networks that stay on the chip: one hidden layer.
    Resident,
    /// Two or three.
    Deep,
}

impl Source {
    /// The CUDA C++ of the file, with what all share before it.
    pub fn text(self) -> String {
        let own = match self {
            Self::Product => concat!(
                include_str!("kernels/product.cuh"),
                include_str!("kernels/tensor.cuh"),
                include_str!("kernels/mover.cuh"),
                include_str!("kernels/single.cuh"),
                include_str!("kernels/grouped.cuh"),
                include_str!("kernels/epilogue.cuh"),
                include_str!("kernels/product.cu"),
            ),
            Self::Pack => concat!(
                include_str!("kernels/product.cuh"),
                include_str!("kernels/pack.cu"),
            ),
            Self::Batch => include_str!("kernels/batch.cu"),
            Self::Loss => include_str!("kernels/loss.cu"),
            Self::Weights => include_str!("kernels/weights.cu"),
            Self::Elementwise => include_str!("kernels/elementwise.cu"),
            Self::Pool => include_str!("kernels/pool.cu"),
            Self::Norm => include_str!("kernels/norm.cu"),
            Self::Resident => concat!(
                include_str!("kernels/tensor.cuh"),
                include_str!("kernels/resident.cuh"),
                include_str!("kernels/resident.cu"),
                include_str!("kernels/train.cu"),
            ),
            Self::Deep => concat!(
                include_str!("kernels/tensor.cuh"),
                include_str!("kernels/resident.cuh"),
                include_str!("kernels/deep.cuh"),
                include_str!("kernels/deep.cu"),
                include_str!("kernels/train.cu"),
            ),
        };
        let shared = concat!(
            include_str!("kernels/common.cuh"),
            include_str!("kernels/fours.cuh"),
            include_str!("kernels/machine.cuh"),
        );
        [shared, own].concat()
    }
}

/// A macro of a kernel's variant and its value.
pub type Define = (&'static str, u32);

/// One kernel: a function of a file, compiled with these macros.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Kernel {
    /// Its file.
    pub source: Source,
    /// Its function.
    pub function: &'static str,
    /// Its variant.
    pub defines: Vec<Define>,
}

impl Kernel {
    /// A kernel without variants.
    pub fn plain(source: Source, function: &'static str) -> Self {
        Self {
            source,
            function,
            defines: Vec::new(),
        }
    }
}

/// One launch, with its arguments.
#[derive(Debug, Clone)]
pub struct Launch {
    /// What is launched.
    pub kernel: Kernel,
    /// Blocks along x and y, and replicas.
    pub grid: [usize; 3],
    /// Threads of a block.
    pub threads: usize,
    /// Bytes of dynamic shared memory.
    pub shared: usize,
    /// Blocks that run together and read each other's shared memory, as the kernel declares.
    pub cluster: usize,
    /// The argument, passed by value.
    pub args: Vec<u64>,
    /// Beside which others it may run.
    pub lane: Lane,
}

/// Launches of one lane run one after the other; those of different lanes may run together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Lane {
    /// After all of the main lane before it.
    #[default]
    Main,
    /// After all of both lanes before it.
    Both,
    /// After all of the main lane before it, on the side: the main lane goes on.
    Side,
}

impl Launch {
    /// A launch with one argument, a struct.
    pub fn new<A: Pod>(kernel: Kernel, grid: [usize; 3], threads: usize, args: &A) -> Self {
        let bytes = bytemuck::bytes_of(args);
        let mut words = vec![0; bytes.len().div_ceil(8)];
        bytemuck::cast_slice_mut(&mut words)[..bytes.len()].copy_from_slice(bytes);
        Self {
            kernel,
            grid,
            threads,
            shared: 0,
            cluster: 1,
            args: words,
            lane: Lane::Main,
        }
    }
}

impl fmt::Display for Launch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} {:?} × {}",
            self.kernel.function, self.grid, self.threads
        )?;
        for (name, value) in &self.kernel.defines {
            write!(f, " {}={value}", name.to_lowercase())?;
        }
        Ok(())
    }
}

/// Buffers of floats one after the other, each at a whole 256 bytes.
#[derive(Debug)]
pub struct Memory {
    base: Address,
    bytes: u64,
}

impl Memory {
    /// Memory from an address on.
    pub fn at(base: Address) -> Self {
        // Nothing lies at address 0, which means absent.
        Self { base, bytes: 256 }
    }

    /// Takes room for so many floats.
    pub fn take(&mut self, floats: usize) -> Address {
        let address = self.base + self.bytes;
        self.bytes += (4 * floats as u64).next_multiple_of(256);
        address
    }

    /// Bytes taken so far.
    pub fn bytes(&self) -> usize {
        self.bytes as usize
    }
}

/// Tables of offsets, equal ones kept once.
#[derive(Debug)]
pub struct Tables {
    base: Address,
    /// All of them, one after the other.
    pub values: Vec<i32>,
    known: HashMap<Vec<i32>, Address>,
}

impl Tables {
    /// Tables from an address on.
    pub fn at(base: Address) -> Self {
        Self {
            base: base + 16,
            values: Vec::new(),
            known: HashMap::new(),
        }
    }

    /// Address of a table.
    pub fn put(&mut self, table: &[i32]) -> Address {
        if let Some(known) = self.known.get(table) {
            return *known;
        }
        let address = self.base + 4 * self.values.len() as u64;
        self.values.extend(table);
        self.known.insert(table.to_vec(), address);
        address
    }
}
