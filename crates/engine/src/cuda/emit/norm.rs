//! Batch norm, both ways.

use super::{Emitter, FEW_THREADS, THREADS};
use crate::cuda::args::{Array, NormArgs};
use crate::cuda::blueprint::{Node, Op};
use crate::cuda::launch::Source;

/// Pixels that a slice of a norm's sum should at least have.
const PIXELS_PER_SLICE: usize = 64;
/// Most slices of a norm's sum over all replicas: enough blocks to fill a large GPU.
pub(super) const MOST_SLICES: usize = 528;
/// Pixels that a thread reads before it uses the first (`AHEAD` of `norm.cu`).
const PIXELS_AHEAD: usize = 4;
/// Channels whose slices a block adds up (`Channel` of `norm.cu`).
const CHANNELS_PER_BLOCK: usize = 32;

impl Emitter<'_> {
    pub(super) fn norm_args(&self, node: &Node, norm: usize) -> NormArgs {
        let Op::Norm {
            relu,
            scale,
            statistics,
        } = node.op
        else {
            unreachable!("called for norms");
        };
        let common = self.setup.common;
        let (x, y) = (node.inputs[0], node.output);
        let pixels = self.batch * self.plane(x).pixels();
        let most = (MOST_SLICES / self.setup.replicas).max(1);
        let per_slice = pixels.div_ceil(most).max(PIXELS_PER_SLICE);
        NormArgs {
            x: self.values[x],
            x_replica: self.stride(x) as i64,
            y_replica: self.stride(y) as i64,
            weights: common.weights.values,
            velocity: common.velocity,
            weights_replica: common.weights.replica,
            statistics: Array {
                values: common.statistics.values + 4 * statistics as u64,
                replica: common.statistics.replica,
            },
            sums: self.sums,
            line: self.lines[norm],
            line_back: self.line_back,
            replicas: common.replicas,
            x_plane: self.plane(x).args(),
            y_plane: self.plane(y).args(),
            scale: scale as i32,
            shift: (scale + self.plane(x).pixel) as i32,
            pixels: pixels as i32,
            slices: pixels.div_ceil(per_slice) as i32,
            per_slice: per_slice as i32,
            relu: u32::from(relu),
            descent: self.setup.descent(),
            ..NormArgs::default()
        }
    }

    pub(super) fn norm_forward(&mut self, node: &Node, norm: usize) {
        let args = NormArgs {
            out: self.values[node.output],
            ..self.norm_args(node, norm)
        };
        if self.training {
            self.push_norm_sums("norm_sums", &args);
            self.push_norm_channels("norm_statistics", &args);
        } else {
            let channels = self.plane(node.inputs[0]).pixel;
            self.push(Source::Norm, "norm_running", channels, FEW_THREADS, &args);
        }
        self.push_norm_pixels("norm_apply", args);
    }

    /// A pass over all pixels: blocks have as many as threads read at once.
    fn push_norm_pixels(&mut self, function: &'static str, mut args: NormArgs) {
        let lanes = (args.x_plane.channels as usize / 4).min(THREADS);
        let per_block = PIXELS_AHEAD * (THREADS / lanes);
        args.per_slice = per_block as i32;
        let blocks = (args.pixels as usize).div_ceil(per_block);
        self.push(Source::Norm, function, blocks * THREADS, THREADS, &args);
    }

    /// What adds up the slices of each channel.
    fn push_norm_channels(&mut self, function: &'static str, args: &NormArgs) {
        let blocks = (args.x_plane.channels as usize).div_ceil(CHANNELS_PER_BLOCK);
        self.push(Source::Norm, function, blocks * THREADS, THREADS, args);
    }

    fn push_norm_sums(&mut self, function: &'static str, args: &NormArgs) {
        let slices = args.slices as usize;
        self.push(Source::Norm, function, slices * THREADS, THREADS, args);
        if let Some(launch) = self.launches.last_mut() {
            launch.shared = 4 * 8 * THREADS;
        }
    }

    pub(super) fn norm_backward(&mut self, node: &Node, norm: usize) {
        let (x, y) = (node.inputs[0], node.output);
        let mut args = NormArgs {
            dy: self.gradient(y).values,
            masked: u32::from(self.setup.print.mask[x].is_some()),
            ..self.norm_args(node, norm)
        };
        self.push_norm_sums("norm_back_sums", &args);
        self.push_norm_channels("norm_back_line", &args);
        if self.wanted(node, 0) {
            args.out = self.gradient(x).values;
            args.add = u32::from(self.write_gradient(x));
            self.push_norm_pixels("norm_back_apply", args);
        }
    }
}
