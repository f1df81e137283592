//! Arguments of the kernels, as the `.cu` files declare them. Addresses are those of the
//! device; 0 is absent.

use bytemuck::{Pod, Zeroable};

/// Address of a buffer on the device.
pub type Address = u64;

/// `struct Replica` of `common.cuh`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Pod, Zeroable, Default)]
pub struct Replica {
    pub seed: u64,
    pub step: u64,
    pub diverged_at: u64,
    pub loss_sum: f64,
    pub learning_rate: f32,
    pub active: u32,
    pub correct: [u32; 2],
}

/// `struct Plane` of `common.cuh`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Pod, Zeroable, Default)]
pub struct PlaneArgs {
    pub height: i32,
    pub width: i32,
    pub channels: i32,
    pub border: i32,
    pub row: i32,
    pub image: i32,
}

/// `struct Descent` of `common.cuh`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Pod, Zeroable, Default)]
pub struct DescentArgs {
    pub momentum: f32,
    pub nesterov: u32,
}

/// A buffer with its replica axis.
#[repr(C)]
#[derive(Debug, Clone, Copy, Pod, Zeroable, Default)]
pub struct Array {
    pub values: Address,
    /// Floats from one replica to the next.
    pub replica: i64,
}

/// `struct Operand` of `product.cu`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Pod, Zeroable, Default)]
pub struct OperandArgs {
    pub array: Array,
    pub x: Address,
    pub k: Address,
    pub x_step: i32,
    pub k_step: i32,
    pub tile_step: i32,
    pub tile_jump: i32,
    pub few: i32,
    pub pad: u32,
}

/// `struct Product` of `product.cu`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Pod, Zeroable, Default)]
pub struct ProductArgs {
    pub a: OperandArgs,
    pub b: OperandArgs,
    pub c: Array,
    pub c_m: Address,
    pub c_n: Address,
    pub bias: Array,
    pub other: Array,
    pub other_x: Address,
    pub active: Array,
    pub active_x: Address,
    pub velocity: Address,
    pub replicas: Address,
    pub part: i64,
    pub halo_end: i32,
    pub halo_first: i32,
    pub m: i32,
    pub n: i32,
    pub k: i32,
    pub parts: i32,
    pub k_per_part: i32,
    pub bias_row: i32,
    pub scale: f32,
    pub relu: u32,
    pub add: u32,
    pub descent: DescentArgs,
    pub rounds: u32,
    pub ahead: u32,
    pub c_step: i32,
}

/// `struct Pack` of `pack.cu`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Pod, Zeroable, Default)]
pub struct PackArgs {
    pub b: OperandArgs,
    pub to: Array,
    pub replicas: Address,
    pub n: i32,
    pub k: i32,
}

/// `struct Draw` of `batch.cu`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Pod, Zeroable, Default)]
pub struct DrawArgs {
    pub from: ExamplesArgs,
    pub inputs: Array,
    pub labels: Address,
    pub replicas: Address,
    pub image: i32,
    pub row: i32,
    pub pixel: i32,
    pub corner: i32,
    pub examples: u32,
    pub batch: i32,
    pub crop_padding: i32,
    pub flip: u32,
    pub first: i32,
    pub rounds: u32,
}

/// `struct Examples` of `batch.cu`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Pod, Zeroable, Default)]
pub struct ExamplesArgs {
    pub bytes: Address,
    pub floats: Address,
    pub labels: Address,
    pub offset: Address,
    pub factor: Address,
    pub height: i32,
    pub width: i32,
    pub channels: i32,
    pub pad: u32,
}

/// `struct Loss` of `loss.cu`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Pod, Zeroable, Default)]
pub struct LossArgs {
    pub logits: Address,
    pub gradient: Address,
    pub replica: i64,
    pub labels: Address,
    pub replicas: Address,
    pub batch: i32,
    pub classes: i32,
    pub stride: i32,
    pub smoothing: f32,
    pub which: i32,
    pub pad: u32,
}

/// Parameters of `end_step` of `loss.cu`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Pod, Zeroable, Default)]
pub struct EndArgs {
    pub replicas: Address,
    pub count: i32,
    pub pad: u32,
}

/// `struct Initial` of `weights.cu`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Pod, Zeroable, Default)]
pub struct InitialArgs {
    pub weights: Array,
    pub replicas: Address,
    pub parameter: Address,
    pub index: Address,
    pub deviation: Address,
    pub count: i64,
}

/// `struct Finish` of `weights.cu`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Pod, Zeroable, Default)]
pub struct FinishArgs {
    pub weights: Address,
    pub velocity: Address,
    pub weights_replica: i64,
    pub partial: Array,
    pub part: i64,
    pub replicas: Address,
    pub count: i32,
    pub parts: i32,
    pub scale: f32,
    pub descent: DescentArgs,
    pub pad: u32,
}

/// `struct Check` of `weights.cu`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Pod, Zeroable, Default)]
pub struct CheckArgs {
    pub values: Array,
    pub replicas: Address,
    pub count: i64,
}

/// `struct Elementwise` of `elementwise.cu`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Pod, Zeroable, Default)]
pub struct ElementwiseArgs {
    pub x: Address,
    pub y: Address,
    pub z: Address,
    pub x_replica: i64,
    pub y_replica: i64,
    pub z_replica: i64,
    pub replicas: Address,
    pub x_plane: PlaneArgs,
    pub y_plane: PlaneArgs,
    pub z_plane: PlaneArgs,
    pub count: i32,
    pub add: u32,
    pub channels: i32,
    pub layer: u32,
    pub threshold: u32,
    pub kept: f32,
}

/// `struct Pool` of `pool.cu`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Pod, Zeroable, Default)]
pub struct PoolArgs {
    pub x: Address,
    pub y: Address,
    pub dy: Address,
    pub out: Address,
    pub x_replica: i64,
    pub y_replica: i64,
    pub replicas: Address,
    pub x_plane: PlaneArgs,
    pub y_plane: PlaneArgs,
    pub rows: i32,
    pub columns: i32,
    pub count: i32,
    pub masked: u32,
    pub add: u32,
    pub pad: u32,
}

/// `struct Norm` of `norm.cu`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Pod, Zeroable, Default)]
pub struct NormArgs {
    pub x: Address,
    pub dy: Address,
    pub out: Address,
    pub x_replica: i64,
    pub y_replica: i64,
    pub weights: Address,
    pub velocity: Address,
    pub weights_replica: i64,
    pub statistics: Array,
    pub sums: Address,
    pub line: Address,
    pub line_back: Address,
    pub replicas: Address,
    pub x_plane: PlaneArgs,
    pub y_plane: PlaneArgs,
    pub scale: i32,
    pub shift: i32,
    pub pixels: i32,
    pub slices: i32,
    pub per_slice: i32,
    pub relu: u32,
    pub masked: u32,
    pub add: u32,
    pub descent: DescentArgs,
}

/// `struct Picks` of `batch.cu`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Pod, Zeroable, Default)]
pub struct PicksArgs {
    pub labels: Address,
    pub replicas: Address,
    pub picks: Address,
    pub examples: u32,
    pub batch: i32,
    pub steps: i32,
    pub most_steps: i32,
}

/// `struct Dense` of `resident.cuh`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Pod, Zeroable, Default)]
pub struct DenseArgs {
    pub weight: i64,
    pub bias: i64,
    pub columns: i32,
    pub scale: f32,
}

/// `struct Resident` of `resident.cuh`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Pod, Zeroable, Default)]
pub struct ResidentArgs {
    pub bytes: Address,
    pub offset: Address,
    pub factor: Address,
    pub picks: Address,
    pub replicas: Address,
    pub weights: Address,
    pub velocity: Address,
    pub far: Address,
    pub weights_replica: i64,
    pub layers: [DenseArgs; 4],
    pub steps: i32,
    pub most_steps: i32,
    pub smoothing: f32,
    pub descent: DescentArgs,
    pub pad: u32,
}
