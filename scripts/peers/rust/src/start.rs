//! Initial weights, inputs and labels that every contestant computes alike: the
//! formula of ../../start.py.

/// Batches that take turns.
pub const BATCHES: usize = 4;
const FIRST_BATCH: u32 = 10_000;

/// 32 random bits for value `at` (from 0) of a tensor.
fn hashed(tensor: u32, at: usize) -> u32 {
    let mut x = (at as u32 + 1)
        .wrapping_mul(0x9E37_79B1)
        .wrapping_add(tensor.wrapping_mul(0x85EB_CA77));
    x = (x ^ (x >> 16)).wrapping_mul(0x7FEB_352D);
    x = (x ^ (x >> 15)).wrapping_mul(0x846C_A68B);
    x ^ (x >> 16)
}

/// Values from -bound to bound.
fn uniform(tensor: u32, count: usize, bound: f64) -> Vec<f32> {
    let scale = bound as f32;
    (0..count)
        .map(|at| ((hashed(tensor, at) >> 8) as f32 / (1 << 23) as f32 - 1.0) * scale)
        .collect()
}

/// Numbers the weights of a network.
#[derive(Default)]
pub struct Weights {
    made: u32,
}

impl Weights {
    /// The next weight in PyTorch's layout, (out, in, ...), of variance 1 / fan-in.
    pub fn next(&mut self, outputs: usize, fan_in: usize) -> Vec<f32> {
        self.made += 1;
        uniform(
            self.made - 1,
            outputs * fan_in,
            (3.0 / fan_in as f64).sqrt(),
        )
    }
}

/// One batch.
pub struct Batch {
    /// (B, C, H, W).
    pub inputs: Vec<f32>,
    /// (B).
    pub labels: Vec<u32>,
}

/// Batch `index` of examples of `[height, width, channels]`.
pub fn batch(index: usize, size: usize, shape: [usize; 3], classes: usize) -> Batch {
    let [height, width, channels] = shape;
    let tensor = FIRST_BATCH + 2 * index as u32;
    let pixels = height * width;
    let last = uniform(tensor, size * pixels * channels, 3f64.sqrt());
    let mut inputs = Vec::with_capacity(last.len());
    for example in 0..size {
        for channel in 0..channels {
            let from = example * pixels * channels + channel;
            inputs.extend(last[from..].iter().step_by(channels).take(pixels));
        }
    }
    Batch {
        inputs,
        labels: (0..size)
            .map(|at| hashed(tensor + 1, at) % classes as u32)
            .collect(),
    }
}
