//! Dense layers and convolutions: z = s·(W∗y + b), forward and backward.
//!
//! A dense layer is a convolution whose filter covers the whole image; where the
//! image has no border it is read as one pixel of many channels.
//!
//! W (inputs, outputs) is stored by panels of 16 outputs. The forward product reads it
//! so, the weight gradient writes it so, and the data gradient of a dense layer reads
//! its rows as sums over panels: none of them needs another copy of W.

use super::learner::Learner;
use super::plane::Plane;
use super::workspace::Scratch;
use crate::kernels::product::{PANEL, Product, Rows, Segment, Store, Sum};
use crate::kernels::transpose::{self, Matrix};
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
    /// Start of b, if there is one.
    bias: Option<usize>,
    tables: Tables,
}

/// Addresses, computed once.
#[derive(Debug)]
struct Tables {
    /// Largest batch.
    batch: usize,
    /// Images that one product covers, so that small images still fill its rows.
    group: usize,
    /// Where each output of a group reads its input, from the filter's corner.
    reads: Rows,
    /// Where each output of a group lies.
    writes: Rows,
    /// The same outputs for the data gradient, in an order in which neighbours do not
    /// overlap: adding to what was just stored would have to wait for it.
    scatter: [Rows; 2],
    /// Filter rows, for the forward sum.
    filter: Vec<Segment>,
    /// Output rows of all images, for the weight gradient's sum.
    output_rows: Vec<Segment>,
    /// Output rows that are summed at a time: few enough to stay in cache.
    rows_at_a_time: usize,
    /// Where each input of one output lies, from the filter's corner.
    taps: Rows,
    /// Its row in W.
    tap_weights: Rows,
    /// Panels of W, for the sum over outputs.
    weight_panels: Vec<Segment>,
    /// Panels of a batch, for the sum over images.
    batch_panels: Vec<Segment>,
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
    /// Start of b in the flat weights.
    pub bias: Option<usize>,
}

/// Outputs that one product should at least cover.
const ROWS_PER_PRODUCT: usize = 192;
/// Bytes that a weight gradient should work on at a time: most of a first-level cache.
const WEIGHT_GROUP_BYTES: usize = 24 * 1024;
/// Outputs that it should at least sum before it goes back to memory.
const WEIGHT_GROUP_OUTPUTS: usize = 64;

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
        let filter_row = kernel_columns * input.shape.channels;
        let mut affine = Self {
            input,
            output,
            corner: inset * input.row() + inset * input.shape.channels,
            kernel_rows,
            filter_row,
            stride: parts.stride,
            scale: parts.scale,
            relu: false,
            weight: parts.weight,
            bias: parts.bias,
            tables: Tables::empty(),
        };
        affine.tables = affine.tables(batch);
        affine
    }

    fn tables(&self, batch: usize) -> Tables {
        let (input, output, stride) = (self.input, self.output, self.stride);
        let group = (ROWS_PER_PRODUCT / self.outputs()).clamp(1, batch);
        let pixels = || {
            (0..group).flat_map(move |image| {
                (0..output.shape.height)
                    .flat_map(move |y| (0..output.shape.width).map(move |x| (image, y, x)))
            })
        };
        let output_row = |(image, y)| Segment {
            a: image * input.image() + y * stride * input.row(),
            b: output.at(image, y),
            len: output.shape.width,
        };
        let filter_rows = 0..self.kernel_rows;
        let bytes_per_output = 4 * input.shape.channels * stride * stride + 4 * PANEL;
        let outputs = (WEIGHT_GROUP_BYTES / bytes_per_output).max(WEIGHT_GROUP_OUTPUTS);
        let panels = 0..self.channels().div_ceil(PANEL);
        let read = |(image, y, x)| {
            image * input.image() + stride * (y * input.row() + x * input.shape.channels)
        };
        let write = |(image, y, x)| output.at(image, y) + x * output.shape.channels;
        let apart = (self.filter_row / input.shape.channels).div_ceil(stride);
        let mut spread: Vec<_> = pixels().collect();
        spread.sort_by_key(|(image, _, x)| (*image, x % apart));
        Tables {
            batch,
            group,
            reads: Rows::new(pixels().map(read)),
            writes: Rows::new(pixels().map(write)),
            scatter: [
                Rows::new(spread.iter().copied().map(read)),
                Rows::new(spread.iter().copied().map(write)),
            ],
            filter: (filter_rows.clone())
                .map(|ky| Segment {
                    a: ky * input.row(),
                    b: ky * self.filter_row * PANEL,
                    len: self.filter_row,
                })
                .collect(),
            output_rows: (0..batch)
                .flat_map(|image| (0..output.shape.height).map(move |y| (image, y)))
                .map(output_row)
                .collect(),
            rows_at_a_time: (outputs / output.shape.width).max(1),
            taps: Rows::new(
                filter_rows
                    .flat_map(|ky| (0..self.filter_row).map(move |tap| ky * input.row() + tap)),
            ),
            tap_weights: Rows::even(self.fan_in(), PANEL),
            weight_panels: panels
                .map(|panel| Segment {
                    a: panel * self.fan_in() * PANEL,
                    b: panel * PANEL * PANEL,
                    len: PANEL,
                })
                .collect(),
            batch_panels: (0..batch.div_ceil(PANEL))
                .map(|panel| Segment {
                    a: panel * self.fan_in() * PANEL,
                    b: panel * PANEL * PANEL,
                    len: PANEL.min(batch - panel * PANEL),
                })
                .collect(),
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

    /// Floats from one panel of W to the next.
    fn weight_panel(&self) -> usize {
        self.fan_in() * PANEL
    }

    /// Floats of W, unused columns of its last panel included.
    fn weight_len(&self) -> usize {
        self.channels().div_ceil(PANEL) * self.weight_panel()
    }

    /// Whether there is one output per image, read from all of it.
    fn is_dense(&self) -> bool {
        self.outputs() == 1 && self.kernel_rows == 1
    }

    /// Floats of the two scratch buffers that the backward passes need for a batch.
    pub fn scratch(&self, batch: usize) -> [usize; 2] {
        let outputs = self.channels().next_multiple_of(PANEL);
        if self.is_dense() {
            let columns = batch.next_multiple_of(PANEL);
            [outputs * columns, self.fan_in() * columns]
        } else {
            let columns = self.filter_row.next_multiple_of(PANEL);
            [outputs * columns * self.kernel_rows, 0]
        }
    }

    /// z from y, for `n` images; z reaches a spare line beyond its plane.
    pub fn forward(&self, isa: Isa, z: &mut [f32], y: &[f32], weights: &[f32], n: usize) {
        // Few channels are stored as whole vectors, beyond the end of their pixel: what
        // they spoil is the next pixel, which is stored after it.
        let columns = match self.channels() {
            few if few < PANEL && self.output.border == 0 => few.next_multiple_of(8),
            many => many,
        };
        for first in (0..n).step_by(self.tables.group) {
            let images = self.tables.group.min(n - first);
            Product {
                a: &y[first * self.input.image() + self.corner..],
                a_rows: &self.tables.reads,
                b: &weights[self.weight..],
                b_panel: self.weight_panel(),
                sum: Sum {
                    segments: &self.tables.filter,
                    a_step: 1,
                    b_step: PANEL,
                },
                c: &mut z[first * self.output.image()..],
                c_rows: &self.tables.writes,
                c_panel: PANEL,
                m: images * self.outputs(),
                n: columns,
                store: match self.bias {
                    Some(at) => Store::Affine {
                        scale: self.scale,
                        bias: &weights[at..],
                        relu: self.relu,
                    },
                    None => Store::Set { scale: self.scale },
                },
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

    /// ∂loss/∂W and ∂loss/∂b, to the learner.
    pub fn weight_backward(
        &self,
        isa: Isa,
        learner: &mut Learner<'_>,
        dz: &[f32],
        y: &[f32],
        scratch: &mut Scratch,
        n: usize,
    ) {
        if let Some(at) = self.bias {
            let values = at..at + self.channels();
            let sums = &mut learner.gradients.get_mut()[values.clone()];
            sums.fill(0.0);
            self.output
                .runs(n)
                .for_each(|run| rowwise::add_rows(isa, sums, &dz[run]));
            sums.iter_mut().for_each(|sum| *sum *= self.scale);
            learner.finish(isa, values);
        }
        if !self.is_dense() {
            self.conv_weight_backward(isa, learner, dz, y, n);
        } else if n == self.tables.batch && n >= PANEL {
            self.dense_weight_backward(isa, learner, dz, y, scratch);
        } else {
            // An image is one term of the sum.
            let sum = Sum {
                segments: &[Segment { a: 0, b: 0, len: n }],
                a_step: self.input.image(),
                b_step: self.output.image(),
            };
            let (c, store) = learner.target(self.weight, self.scale);
            self.weight_product(isa, c, store, dz, y, sum);
        }
    }

    /// With yᵀ and dz both by panels, what a tile reads is contiguous: a large batch
    /// would otherwise touch a page for every image.
    fn dense_weight_backward(
        &self,
        isa: Isa,
        learner: &mut Learner<'_>,
        dz: &[f32],
        y: &[f32],
        scratch: &mut Scratch,
    ) {
        let n = self.tables.batch;
        let [dz_panels, y_t] = &mut scratch.0;
        let rows = |columns, step| Matrix {
            rows: n,
            columns,
            step,
        };
        let outputs = rows(self.channels(), self.output.image());
        transpose::rows_by_panels(isa, dz_panels.get_mut(), dz, outputs);
        let inputs = rows(self.fan_in(), self.input.image());
        transpose::rows_to_panels(isa, y_t.get_mut(), y, inputs, self.fan_in());
        let (c, store) = learner.target(self.weight, self.scale);
        Product {
            a: y_t.with_spare(),
            a_rows: &self.tables.tap_weights,
            b: dz_panels.with_spare(),
            b_panel: n * PANEL,
            sum: Sum {
                segments: &self.tables.batch_panels,
                a_step: 1,
                b_step: PANEL,
            },
            c,
            c_rows: &self.tables.tap_weights,
            c_panel: self.weight_panel(),
            m: self.fan_in(),
            n: self.channels(),
            store,
        }
        .run(isa);
    }

    /// A sum over all outputs, a few rows of them at a time.
    fn conv_weight_backward(
        &self,
        isa: Isa,
        learner: &mut Learner<'_>,
        dz: &[f32],
        y: &[f32],
        n: usize,
    ) {
        let scale = self.scale;
        let values = self.weight..self.weight + self.weight_len();
        let gradients = &mut learner.gradients.get_mut()[values.clone()];
        let rows = &self.tables.output_rows[..n * self.output.shape.height];
        for (at, segments) in rows.chunks(self.tables.rows_at_a_time).enumerate() {
            let sum = Sum {
                segments,
                a_step: self.stride * self.input.shape.channels,
                b_step: self.channels(),
            };
            let store = match at {
                0 => Store::Set { scale },
                _ => Store::Add { scale },
            };
            self.weight_product(isa, gradients, store, dz, y, sum);
        }
        learner.finish(isa, values);
    }

    fn weight_product(
        &self,
        isa: Isa,
        c: &mut [f32],
        store: Store<'_>,
        dz: &[f32],
        y: &[f32],
        sum: Sum<'_>,
    ) {
        Product {
            a: &y[self.corner..],
            a_rows: &self.tables.taps,
            b: dz,
            b_panel: PANEL,
            sum,
            c,
            c_rows: &self.tables.tap_weights,
            c_panel: self.weight_panel(),
            m: self.fan_in(),
            n: self.channels(),
            store,
        }
        .run(isa);
    }

    /// dy ← dy + ∂loss/∂y. Border pixels of dy receive what nobody reads; it reaches a
    /// spare line beyond its plane.
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
        let fan_in = self.fan_in();
        let outputs = self.channels().next_multiple_of(PANEL);
        let [dz_t, dy_t] = &mut scratch.0;
        let dz_rows = Matrix {
            rows: n,
            columns: self.channels(),
            step: self.output.image(),
        };
        transpose::rows_to_panels(isa, dz_t.get_mut(), dz, dz_rows, outputs);
        Product {
            a: &weights[self.weight..],
            a_rows: &self.tables.tap_weights,
            b: dz_t.with_spare(),
            b_panel: outputs * PANEL,
            sum: Sum {
                segments: &self.tables.weight_panels,
                a_step: 1,
                b_step: PANEL,
            },
            c: dy_t.get_mut(),
            c_rows: &self.tables.tap_weights,
            c_panel: fan_in * PANEL,
            m: fan_in,
            n,
            store: Store::Set { scale: self.scale },
        }
        .run(isa);
        let dy_rows = Matrix {
            rows: n,
            columns: fan_in,
            step: self.input.image(),
        };
        transpose::add_panels_to_rows(isa, dy, dy_t.get(), dy_rows);
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
        let outputs = self.channels().next_multiple_of(PANEL);
        let filter_len = outputs * self.filter_row.next_multiple_of(PANEL);
        let [w_t, _] = &mut scratch.0;
        for ky in 0..self.kernel_rows {
            let filter = Matrix {
                rows: self.filter_row,
                columns: self.channels(),
                step: PANEL,
            };
            let w = &weights[self.weight + ky * self.filter_row * PANEL..];
            let to = &mut w_t.get_mut()[ky * filter_len..][..filter_len];
            transpose::panels_to_panels(isa, to, w, self.weight_panel(), filter);
        }
        let [reads, writes] = &self.tables.scatter;
        for first in (0..n).step_by(self.tables.group) {
            let images = self.tables.group.min(n - first);
            for ky in 0..self.kernel_rows {
                let start = first * self.input.image() + self.corner + ky * self.input.row();
                Product {
                    a: &dz[first * self.output.image()..],
                    a_rows: writes,
                    b: &w_t.with_spare()[ky * filter_len..],
                    b_panel: outputs * PANEL,
                    sum: Sum {
                        segments: &[Segment {
                            a: 0,
                            b: 0,
                            len: self.channels(),
                        }],
                        a_step: 1,
                        b_step: PANEL,
                    },
                    c: &mut dy[start..],
                    c_rows: reads,
                    c_panel: PANEL,
                    m: images * self.outputs(),
                    // Beyond the filter row there are zeros to add.
                    n: self.filter_row.next_multiple_of(PANEL),
                    store: Store::Add { scale: self.scale },
                }
                .run(isa);
            }
        }
    }
}

impl Tables {
    /// Before they are computed.
    fn empty() -> Self {
        let rows = || Rows::even(0, 0);
        Self {
            batch: 0,
            group: 0,
            reads: rows(),
            writes: rows(),
            scatter: [rows(), rows()],
            filter: Vec::new(),
            output_rows: Vec::new(),
            rows_at_a_time: 0,
            taps: rows(),
            tap_weights: rows(),
            weight_panels: Vec::new(),
            batch_panels: Vec::new(),
        }
    }
}
