//! Dense layers and convolutions: z = s·(W∗y + b), forward and backward.
//!
//! A dense layer is a convolution whose filter covers the whole image; where the
//! image has no border it is read as one pixel of many channels.

use super::plane::Plane;
use super::workspace::Scratch;
use crate::kernels::product::{Product, Rows, Segment, Store, Sum};
use crate::kernels::{Isa, rowwise};

/// A dense layer or convolution, compiled for a batch size.
#[derive(Debug)]
pub struct Affine {
    input: Plane,
    output: Plane,
    /// First float, in an image, that the filter's top left tap reads.
    corner: usize,
    kernel_rows: usize,
    /// Floats of one filter row: taps × channels, contiguous in the image.
    filter_row: usize,
    /// From one output to the next, in pixels of the input.
    stride: usize,
    /// The scheme's factor s.
    scale: f32,
    /// Whether max(0, z) follows.
    pub relu: bool,
    weight: usize,
    weight_step: usize,
    /// Start of b, if there is one.
    bias: Option<usize>,
    tables: Tables,
}

/// Addresses, computed once.
#[derive(Debug)]
struct Tables {
    /// Images that one product covers, so that small images still fill its rows.
    group: usize,
    /// Where each output of a group reads its input, from the filter's corner.
    reads: Rows,
    /// Where each output of a group lies.
    writes: Rows,
    /// Filter rows, for the forward sum.
    filter: Vec<Segment>,
    /// Images whose weight gradient is summed in one product: few enough to stay in cache.
    weight_group: usize,
    /// Output rows of a weight group, for the weight gradient's sum.
    output_rows: Vec<Segment>,
    /// Positions in a filter row.
    taps: Rows,
    /// Their rows in W.
    tap_weights: Rows,
    /// Row length of the transposed batch of a dense layer.
    batch_step: usize,
    /// Rows of the transposed input gradient of a dense layer.
    transposed_inputs: Rows,
}

/// What a layer needs besides its geometry.
#[derive(Debug, Clone, Copy)]
pub struct AffineParts {
    /// Side of the filter; `None` for a dense layer.
    pub kernel: Option<usize>,
    /// From one output to the next.
    pub stride: usize,
    /// Zeros around the image.
    pub padding: usize,
    /// The scheme's factor.
    pub scale: f32,
    /// Start of W in the flat weights.
    pub weight: usize,
    /// Row length of W.
    pub weight_step: usize,
    /// Start of b in the flat weights.
    pub bias: Option<usize>,
}

/// Outputs that one product should at least cover.
const ROWS_PER_PRODUCT: usize = 192;
/// Floats of input that a weight gradient should sum over at a time: half a typical L2.
const WEIGHT_GROUP_FLOATS: usize = 64 * 1024;

impl Affine {
    /// Compiles the layer for batches of up to `batch` images.
    pub fn new(parts: AffineParts, input: Plane, output: Plane, batch: usize) -> Self {
        // A dense layer over an image without border reads it as one pixel.
        let flat = Plane {
            shape: spec::Shape::flat(input.shape.size()),
            border: 0,
        };
        let (input, kernel_rows, kernel_columns) = match parts.kernel {
            Some(side) => (input, side, side),
            None if input.border == 0 => (flat, 1, 1),
            None => (input, input.shape.height, input.shape.width),
        };
        let inset = input.border - parts.padding;
        let corner = inset * input.row() + inset * input.shape.channels;
        let filter_row = kernel_columns * input.shape.channels;
        let step = parts.weight_step;
        let outputs = output.shape.height * output.shape.width;
        let group = (ROWS_PER_PRODUCT / outputs).clamp(1, batch);
        let weight_group = (WEIGHT_GROUP_FLOATS / input.image()).clamp(1, batch);
        let pixels = |images: usize| {
            (0..images).flat_map(move |image| {
                (0..output.shape.height)
                    .flat_map(move |y| (0..output.shape.width).map(move |x| (image, y, x)))
            })
        };
        let stride = parts.stride;
        let tables = Tables {
            group,
            reads: Rows::new(pixels(group).map(|(image, y, x)| {
                image * input.image() + stride * (y * input.row() + x * input.shape.channels)
            })),
            writes: Rows::new(
                pixels(group).map(|(image, y, x)| output.at(image, y) + x * output.shape.channels),
            ),
            filter: (0..kernel_rows)
                .map(|ky| Segment {
                    a: ky * input.row(),
                    b: ky * filter_row * step,
                })
                .collect(),
            weight_group,
            output_rows: (0..weight_group)
                .flat_map(|image| (0..output.shape.height).map(move |y| (image, y)))
                .map(|(image, y)| Segment {
                    a: image * input.image() + y * stride * input.row(),
                    b: output.at(image, y),
                })
                .collect(),
            taps: Rows::even(filter_row, 1),
            tap_weights: Rows::even(filter_row, step),
            batch_step: batch.next_multiple_of(8),
            transposed_inputs: Rows::even(filter_row, batch.next_multiple_of(8)),
        };
        Self {
            input,
            output,
            corner,
            kernel_rows,
            filter_row,
            stride,
            scale: parts.scale,
            relu: false,
            weight: parts.weight,
            weight_step: step,
            bias: parts.bias,
            tables,
        }
    }

    fn outputs(&self) -> usize {
        self.output.shape.height * self.output.shape.width
    }

    fn channels(&self) -> usize {
        self.output.shape.channels
    }

    /// Rows of W: inputs of one output.
    fn fan_in(&self) -> usize {
        self.kernel_rows * self.filter_row
    }

    /// Whether there is one output per image, read from all of it.
    fn is_dense(&self) -> bool {
        self.outputs() == 1 && self.kernel_rows == 1
    }

    /// Floats of the two scratch buffers that `backward` needs.
    pub fn scratch(&self) -> [usize; 2] {
        if self.is_dense() {
            let columns = self.tables.batch_step;
            [self.channels() * columns, self.fan_in() * columns]
        } else {
            [self.channels() * self.fan_in(), 0]
        }
    }

    /// z from y, for `n` images.
    pub fn forward(&self, isa: Isa, z: &mut [f32], y: &[f32], weights: &[f32], n: usize) {
        let store = match self.bias {
            Some(at) => Store::Affine {
                scale: self.scale,
                bias: &weights[at..],
                relu: self.relu,
            },
            None => Store::Set { scale: self.scale },
        };
        for first in (0..n).step_by(self.tables.group) {
            let images = self.tables.group.min(n - first);
            Product {
                a: &y[first * self.input.image() + self.corner..],
                a_rows: &self.tables.reads,
                b: &weights[self.weight..],
                sum: Sum {
                    segments: &self.tables.filter,
                    len: self.filter_row,
                    a_step: 1,
                    b_step: self.weight_step,
                },
                c: &mut z[first * self.output.image()..],
                c_rows: &self.tables.writes,
                m: images * self.outputs(),
                n: self.channels(),
                store,
            }
            .run(isa);
        }
        if self.relu && self.bias.is_none() {
            self.output.runs(n).for_each(|run| {
                for z in &mut z[run] {
                    *z = if *z < 0.0 { 0.0 } else { *z };
                }
            });
        }
    }

    /// Gradient through the activation, in place: dz from dy.
    pub fn activation_backward(&self, isa: Isa, dz: &mut [f32], z: &[f32], n: usize) {
        if self.relu {
            self.output
                .runs(n)
                .for_each(|run| rowwise::relu_backward(isa, &mut dz[run.clone()], &z[run]));
        }
    }

    /// ∂loss/∂W and ∂loss/∂b into the flat gradients.
    pub fn weight_backward(
        &self,
        isa: Isa,
        gradients: &mut [f32],
        dz: &[f32],
        y: &[f32],
        n: usize,
    ) {
        if let Some(at) = self.bias {
            let sums = &mut gradients[at..at + self.channels()];
            sums.fill(0.0);
            self.output
                .runs(n)
                .for_each(|run| rowwise::add_rows(isa, sums, &dz[run]));
            sums.iter_mut().for_each(|sum| *sum *= self.scale);
        }
        // One image of one output is one term of the sum; more are a segment per output row.
        let batch_sum = [Segment { a: 0, b: 0 }];
        let dense = self.is_dense();
        let group = if dense { n } else { self.tables.weight_group };
        for first in (0..n).step_by(group) {
            let images = group.min(n - first);
            let sum = if dense {
                Sum {
                    segments: &batch_sum,
                    len: n,
                    a_step: self.input.image(),
                    b_step: self.output.image(),
                }
            } else {
                Sum {
                    segments: &self.tables.output_rows[..images * self.output.shape.height],
                    len: self.output.shape.width,
                    a_step: self.stride * self.input.shape.channels,
                    b_step: self.channels(),
                }
            };
            let scale = self.scale;
            for ky in 0..self.kernel_rows {
                let start = first * self.input.image() + self.corner + ky * self.input.row();
                Product {
                    a: &y[start..],
                    a_rows: &self.tables.taps,
                    b: &dz[first * self.output.image()..],
                    sum,
                    c: &mut gradients[self.weight + ky * self.filter_row * self.weight_step..],
                    c_rows: &self.tables.tap_weights,
                    m: self.filter_row,
                    n: self.channels(),
                    store: if first == 0 {
                        Store::Set { scale }
                    } else {
                        Store::Add { scale }
                    },
                }
                .run(isa);
            }
        }
    }

    /// dy ← dy + ∂loss/∂y. Border pixels of dy receive what nobody reads.
    pub fn data_backward(
        &self,
        isa: Isa,
        dy: &mut [f32],
        dz: &[f32],
        weights: &[f32],
        scratch: &mut Scratch,
        n: usize,
    ) {
        if self.is_dense() {
            self.dense_data_backward(isa, dy, dz, weights, scratch, n);
        } else {
            self.conv_data_backward(isa, dy, dz, weights, scratch, n);
        }
    }

    /// dyᵀ = W·dzᵀ: both transposes are of small matrices, W is read as it lies.
    fn dense_data_backward(
        &self,
        isa: Isa,
        dy: &mut [f32],
        dz: &[f32],
        weights: &[f32],
        scratch: &mut Scratch,
        n: usize,
    ) {
        let columns = self.tables.batch_step;
        let (fan_in, outputs) = (self.fan_in(), self.channels());
        let [dz_t, dy_t] = &mut scratch.0;
        let size = rowwise::Size {
            rows: n,
            columns: outputs,
        };
        rowwise::transpose(isa, dz_t.get_mut(), columns, dz, self.output.image(), size);
        Product {
            a: &weights[self.weight..],
            a_rows: &self.tables.tap_weights,
            b: dz_t.with_spare(),
            sum: Sum {
                segments: &[Segment { a: 0, b: 0 }],
                len: outputs,
                a_step: 1,
                b_step: columns,
            },
            c: dy_t.get_mut(),
            c_rows: &self.tables.transposed_inputs,
            m: fan_in,
            n,
            store: Store::Set { scale: self.scale },
        }
        .run(isa);
        let size = rowwise::Size {
            rows: fan_in,
            columns: n,
        };
        rowwise::add_transposed(isa, dy, self.input.image(), dy_t.get(), columns, size);
    }

    /// Every output scatters its gradient back over the filter rows it read.
    fn conv_data_backward(
        &self,
        isa: Isa,
        dy: &mut [f32],
        dz: &[f32],
        weights: &[f32],
        scratch: &mut Scratch,
        n: usize,
    ) {
        let (fan_in, outputs) = (self.fan_in(), self.channels());
        let [w_t, _] = &mut scratch.0;
        let size = rowwise::Size {
            rows: fan_in,
            columns: outputs,
        };
        let w = &weights[self.weight..];
        rowwise::transpose(isa, w_t.get_mut(), fan_in, w, self.weight_step, size);
        for first in (0..n).step_by(self.tables.group) {
            let images = self.tables.group.min(n - first);
            for ky in 0..self.kernel_rows {
                let start = first * self.input.image() + self.corner + ky * self.input.row();
                Product {
                    a: &dz[first * self.output.image()..],
                    a_rows: &self.tables.writes,
                    b: w_t.with_spare(),
                    sum: Sum {
                        segments: &[Segment {
                            a: 0,
                            b: ky * self.filter_row,
                        }],
                        len: outputs,
                        a_step: 1,
                        b_step: fan_in,
                    },
                    c: &mut dy[start..],
                    c_rows: &self.tables.reads,
                    m: images * self.outputs(),
                    n: self.filter_row,
                    store: Store::Add { scale: self.scale },
                }
                .run(isa);
            }
        }
    }
}
