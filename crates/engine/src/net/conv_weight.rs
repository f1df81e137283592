//! The weight gradient of a convolution: a sum over all outputs of all images.
//!
//! With many channels, neighbouring pixels of 16 of them lie so far apart that a few
//! rows of an image fill some sets of the first-level cache and leave the others empty.
//! So a few images at a time are copied to panels of 16 channels; the copy costs one
//! pass, the product reads it many times.

use super::geometry::Geometry;
use super::plane::Plane;
use super::workspace::Scratch;
use crate::buffer::Buffer;
use crate::kernels::Isa;
use crate::kernels::product::{PANEL, Product, Rows, Segment, Store, Sum};
use crate::kernels::transpose::{self, Matrix};

/// Bytes that a sum should work on: a first-level cache.
const BYTES: usize = 32 * 1024;
/// Outputs that it should at least have before it goes back to memory.
const OUTPUTS: usize = 64;

/// Addresses of the weight gradient, computed once.
#[derive(Debug)]
pub(super) struct WeightGradient {
    /// Images that are copied at a time.
    group: usize,
    input: Side,
    output: Side,
    /// Where the filter's top left tap reads the first image.
    corner: usize,
    /// Where each input of one output lies, from there on, 16 channels of all taps at a
    /// time: they are the same lines of the image.
    taps: Rows,
    /// The rows of these inputs in W.
    tap_weights: Rows,
    /// Output rows of a group.
    rows: Vec<Segment>,
    /// Output rows that are summed at a time.
    rows_at_a_time: usize,
}

/// How a plane lies when it is summed: as it is, or copied to panels.
#[derive(Debug, Clone, Copy)]
struct Side {
    plane: Plane,
    copied: bool,
    /// Floats from a pixel to the next.
    pixel: usize,
    /// Floats from 16 channels to the next.
    panel: usize,
}

impl WeightGradient {
    /// The tables of a layer for batches of up to `batch` images.
    pub fn new(layer: &Geometry, batch: usize) -> Self {
        let (stride, output) = (layer.stride, layer.output);
        let lanes = layer.input.shape.channels.min(PANEL);
        let most = (BYTES / (4 * lanes * stride * stride + 4 * PANEL)).max(OUTPUTS);
        let group = (most / layer.outputs()).clamp(1, batch);
        let copies = layer.kernel_rows > 1;
        let input = Side::new(layer.input, group, copies);
        let output_side = Side::new(output, group, copies);
        // Sums of about equal length.
        let total = group * layer.outputs();
        let sums = total.div_ceil(most);
        let row = |(image, y): (usize, usize)| Segment {
            a: (image * input.pixels() + y * stride * input.row_pixels()) * input.pixel,
            b: output.at(image, y) / output.shape.channels * output_side.pixel,
            len: output.shape.width,
        };
        let mut taps: Vec<[usize; 2]> = (0..layer.kernel_rows)
            .flat_map(|ky| (0..layer.filter_row).map(move |tap| [ky, tap]))
            .collect();
        let channels = layer.input.shape.channels;
        taps.sort_by_key(|[_, tap]| tap % channels / PANEL);
        let place = |[ky, tap]: &[usize; 2]| {
            let (kx, channel) = (tap / channels, tap % channels);
            (ky * input.row_pixels() + kx) * input.pixel
                + channel / PANEL * input.panel
                + channel % PANEL
        };
        let weight = |[ky, tap]: &[usize; 2]| (ky * layer.filter_row + tap) * PANEL;
        Self {
            group,
            input,
            output: output_side,
            corner: layer.corner / channels * input.pixel,
            taps: Rows::new(taps.iter().map(place)),
            tap_weights: Rows::new(taps.iter().map(weight)),
            rows: (0..group)
                .flat_map(|image| (0..output.shape.height).map(move |y| (image, y)))
                .map(row)
                .collect(),
            rows_at_a_time: (group * output.shape.height).div_ceil(sums),
        }
    }

    /// Floats of scratch for the copies of dz and y.
    pub fn scratch(&self) -> [usize; 2] {
        [self.output.scratch(), self.input.scratch()]
    }

    /// gradients ← scale·Σ dz·y over `n` images.
    pub fn set(&self, pass: WeightPass<'_>, layer: &Geometry, scratch: &mut Scratch, n: usize) {
        let WeightPass {
            isa,
            gradients,
            dz,
            y,
            scale,
        } = pass;
        let [dz_copy, y_copy] = &mut scratch.0;
        for first in (0..n).step_by(self.group) {
            let images = self.group.min(n - first);
            let dz = self.output.group(isa, dz, dz_copy, first, images);
            let y = self.input.group(isa, y, y_copy, first, images);
            let rows = &self.rows[..images * layer.output.shape.height];
            for (at, segments) in rows.chunks(self.rows_at_a_time).enumerate() {
                Product {
                    a: &y[self.corner..],
                    a_rows: &self.taps,
                    rows_ahead: false,
                    b: dz,
                    b_panel: self.output.panel,
                    sum: Sum {
                        segments,
                        a_step: layer.stride * self.input.pixel,
                        b_step: self.output.pixel,
                    },
                    c: gradients,
                    c_rows: &self.tap_weights,
                    c_panel: layer.weight_panel(),
                    m: layer.fan_in(),
                    n: layer.channels(),
                    store: match first + at {
                        0 => Store::Set { scale },
                        _ => Store::Add { scale },
                    },
                }
                .run(isa);
            }
        }
    }
}

/// What a weight gradient is made from. Planes reach a spare line beyond their end.
pub(super) struct WeightPass<'a> {
    pub isa: Isa,
    /// ∂loss/∂W, set.
    pub gradients: &'a mut [f32],
    /// ∂loss/∂z.
    pub dz: &'a [f32],
    /// The layer's input.
    pub y: &'a [f32],
    /// The scheme's factor.
    pub scale: f32,
}

impl Side {
    fn new(plane: Plane, group: usize, copies: bool) -> Self {
        let channels = plane.shape.channels;
        let copied = copies && channels > PANEL;
        let pixels = plane.image() / channels;
        Self {
            plane,
            copied,
            pixel: if copied { PANEL } else { channels },
            panel: if copied {
                group * pixels * PANEL
            } else {
                PANEL
            },
        }
    }

    /// Pixels of an image, border included.
    fn pixels(&self) -> usize {
        self.plane.image() / self.plane.shape.channels
    }

    /// Pixels of a row, border included.
    fn row_pixels(&self) -> usize {
        self.plane.row() / self.plane.shape.channels
    }

    fn scratch(&self) -> usize {
        match self.copied {
            true => self.plane.shape.channels.div_ceil(PANEL) * self.panel,
            false => 0,
        }
    }

    /// The images of a group, copied if they have to be.
    fn group<'a>(
        &self,
        isa: Isa,
        plane: &'a [f32],
        copy: &'a mut Buffer,
        first: usize,
        images: usize,
    ) -> &'a [f32] {
        let plane = &plane[first * self.plane.image()..];
        if !self.copied {
            return plane;
        }
        let pixels = Matrix {
            rows: images * self.pixels(),
            columns: self.plane.shape.channels,
            step: self.plane.shape.channels,
        };
        transpose::rows_by_panels(isa, copy.get_mut(), self.panel, plane, pixels);
        copy.with_spare()
    }
}
