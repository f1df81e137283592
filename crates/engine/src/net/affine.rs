//! Dense layers and convolutions: z = s·(W∗y + b), forward and backward.
//!
//! A dense layer is a convolution whose filter covers the whole image; where the
//! image has no border it is read as one pixel of many channels.
//!
//! W (inputs, outputs) is stored by panels of 16 outputs. The forward product reads it
//! so, the weight gradient writes it so, and the data gradient of a dense layer reads
//! its rows as sums over panels: none of them needs another copy of W.

use super::conv_data::{DataGradient, DataPass};
use super::conv_weight::{WeightGradient, WeightPass};
use super::elementwise::Gradient;
use super::geometry::{Geometry, Tables};
use super::learner::Learner;
use super::norm::Call;
use super::plane::Plane;
use super::workspace::Scratch;
use crate::kernels::product::{PANEL, Product, Segment, Store, Sum};
use crate::kernels::transpose::{self, Matrix};
use crate::kernels::{Isa, rowwise};

/// Weights that stay in a second-level cache while others pass through it.
const CACHED_WEIGHTS: usize = 48 * 1024;

/// A dense layer or convolution, compiled for a batch size.
#[derive(Debug)]
pub struct Affine {
    geometry: Geometry,
    /// The scheme's factor s.
    scale: f32,
    /// Whether max(0, z) follows; only where there is a bias.
    pub relu: bool,
    weight: usize,
    /// Start of b, if there is one.
    bias: Option<usize>,
    tables: Tables,
    backward: Backward,
}

/// How gradients are made.
#[derive(Debug)]
enum Backward {
    /// From all of an image.
    Dense,
    /// From parts of it.
    Conv {
        data: Box<DataGradient>,
        weight: Box<WeightGradient>,
    },
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
        let geometry = Geometry {
            input,
            output,
            corner: inset * input.row() + inset * input.shape.channels,
            kernel_rows,
            filter_row: kernel_columns * input.shape.channels,
            stride: parts.stride,
        };
        let backward = match geometry.is_dense() {
            true => Backward::Dense,
            false => Backward::Conv {
                data: Box::new(DataGradient::new(&geometry, batch)),
                weight: Box::new(WeightGradient::new(&geometry, batch)),
            },
        };
        Self {
            tables: Tables::new(&geometry, batch),
            backward,
            geometry,
            scale: parts.scale,
            relu: false,
            weight: parts.weight,
            bias: parts.bias,
        }
    }

    /// Whether its data gradient can take the part of an activation before it.
    pub fn takes_activation(&self) -> bool {
        matches!(self.backward, Backward::Conv { .. })
    }

    /// Floats of the two scratch buffers that the backward passes need for a batch.
    pub fn scratch(&self, batch: usize) -> [usize; 2] {
        match &self.backward {
            Backward::Dense => {
                let outputs = self.geometry.channels().next_multiple_of(PANEL);
                let columns = batch.next_multiple_of(PANEL);
                [outputs * columns, self.geometry.fan_in() * columns]
            }
            Backward::Conv { weight, .. } => {
                let [dz, y] = weight.scratch();
                [dz.max(DataGradient::scratch(&self.geometry)), y]
            }
        }
    }

    /// z from y, for `n` images; z reaches a spare line beyond its plane.
    pub fn forward(&self, isa: Isa, z: &mut [f32], y: &[f32], weights: &[f32], n: usize) {
        // Few channels are stored as whole vectors, beyond the end of their pixel: what
        // they spoil is the next pixel, which is stored after it.
        let columns = match self.geometry.channels() {
            few if few < PANEL && self.geometry.output.border == 0 => few.next_multiple_of(8),
            many => many,
        };
        for first in (0..n).step_by(self.tables.group) {
            let images = self.tables.group.min(n - first);
            Product {
                a: &y[first * self.geometry.input.image() + self.geometry.corner..],
                a_rows: &self.tables.reads,
                rows_ahead: false,
                b: &weights[self.weight..],
                b_panel: self.geometry.weight_panel(),
                sum: Sum {
                    segments: &self.tables.filter,
                    a_step: 1,
                    b_step: PANEL,
                },
                c: &mut z[first * self.geometry.output.image()..],
                c_rows: &self.tables.writes,
                c_panel: PANEL,
                m: images * self.geometry.outputs(),
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
    }

    /// Gradient through the activation, in place: dz from dy.
    pub fn activation_backward(&self, isa: Isa, dz: &mut [f32], z: &[f32], n: usize) {
        if self.relu {
            self.geometry
                .output
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
            let values = at..at + self.geometry.channels();
            let sums = &mut learner.gradients.get_mut()[values.clone()];
            sums.fill(0.0);
            self.geometry
                .output
                .runs(n)
                .for_each(|run| rowwise::add_rows(isa, sums, &dz[run]));
            sums.iter_mut().for_each(|sum| *sum *= self.scale);
            learner.finish(isa, values);
        }
        match &self.backward {
            Backward::Conv { weight, .. } => {
                let values = self.weight..self.weight + self.geometry.weight_len();
                let pass = WeightPass {
                    isa,
                    gradients: &mut learner.gradients.get_mut()[values.clone()],
                    dz,
                    y,
                    scale: self.scale,
                };
                weight.set(pass, &self.geometry, scratch, n);
                learner.finish(isa, values);
            }
            Backward::Dense if n == self.tables.batch && n >= PANEL => {
                self.transposed_weight_backward(isa, learner, dz, y, scratch);
            }
            Backward::Dense => self.dense_weight_backward(isa, learner, dz, y, n),
        }
    }

    /// An image is one term of the sum.
    fn dense_weight_backward(
        &self,
        isa: Isa,
        learner: &mut Learner<'_>,
        dz: &[f32],
        y: &[f32],
        n: usize,
    ) {
        let (c, store) = learner.target(self.weight, self.scale);
        Product {
            a: y,
            a_rows: &self.tables.inputs,
            rows_ahead: false,
            b: dz,
            b_panel: PANEL,
            sum: Sum {
                segments: &[Segment { a: 0, b: 0, len: n }],
                a_step: self.geometry.input.image(),
                b_step: self.geometry.output.image(),
            },
            c,
            c_rows: &self.tables.weight_rows,
            c_panel: self.geometry.weight_panel(),
            m: self.geometry.fan_in(),
            n: self.geometry.channels(),
            store,
        }
        .run(isa);
    }

    /// With yᵀ and dz both by panels, what a tile reads is contiguous: a large batch
    /// would otherwise touch a page for every image.
    fn transposed_weight_backward(
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
        let outputs = rows(self.geometry.channels(), self.geometry.output.image());
        transpose::rows_by_panels(isa, dz_panels.get_mut(), n * PANEL, dz, outputs);
        let inputs = rows(self.geometry.fan_in(), self.geometry.input.image());
        transpose::rows_to_panels(isa, y_t.get_mut(), y, inputs, self.geometry.fan_in());
        let (c, store) = learner.target(self.weight, self.scale);
        Product {
            a: y_t.with_spare(),
            a_rows: &self.tables.weight_rows,
            rows_ahead: false,
            b: dz_panels.with_spare(),
            b_panel: n * PANEL,
            sum: Sum {
                segments: &self.tables.batch_panels,
                a_step: 1,
                b_step: PANEL,
            },
            c,
            c_rows: &self.tables.weight_rows,
            c_panel: self.geometry.weight_panel(),
            m: self.geometry.fan_in(),
            n: self.geometry.channels(),
            store,
        }
        .run(isa);
    }

    /// dy from dz. Border pixels of dy receive what nobody reads. Given an `activation`, y
    /// after a ReLU, a convolution takes the part of that in the gradient as well.
    pub fn data_backward(
        &self,
        call: Call,
        to: Gradient<'_>,
        dz: &[f32],
        weights: &[f32],
        scratch: &mut Scratch,
        activation: Option<&[f32]>,
    ) {
        let Call { isa, n } = call;
        match &self.backward {
            Backward::Dense => self.dense_data_backward(call, to, dz, weights, scratch),
            Backward::Conv { data, .. } => {
                let pass = DataPass {
                    isa,
                    to,
                    dz,
                    w: &weights[self.weight..],
                    scale: self.scale,
                    activation,
                };
                let w_t = scratch.0[0].with_spare_mut();
                data.run(pass, &self.geometry, w_t, n);
            }
        }
    }

    /// dyᵀ = W·dzᵀ: both transposes are of small matrices, W is read as it lies.
    fn dense_data_backward(
        &self,
        call: Call,
        to: Gradient<'_>,
        dz: &[f32],
        weights: &[f32],
        scratch: &mut Scratch,
    ) {
        let Call { isa, n } = call;
        let fan_in = self.geometry.fan_in();
        let outputs = self.geometry.channels().next_multiple_of(PANEL);
        let [dz_t, dy_t] = &mut scratch.0;
        let dz_rows = Matrix {
            rows: n,
            columns: self.geometry.channels(),
            step: self.geometry.output.image(),
        };
        transpose::rows_to_panels(isa, dz_t.get_mut(), dz, dz_rows, outputs);
        // So many inputs at a time that their weights stay in cache from one panel of
        // images to the next.
        let at_a_time = (CACHED_WEIGHTS / outputs).max(1).next_multiple_of(12);
        for first in (0..fan_in).step_by(at_a_time) {
            Product {
                a: &weights[self.weight + first * PANEL..],
                a_rows: &self.tables.weight_rows,
                rows_ahead: true,
                b: dz_t.with_spare(),
                b_panel: outputs * PANEL,
                sum: Sum {
                    segments: &self.tables.weight_panels,
                    a_step: 1,
                    b_step: PANEL,
                },
                c: &mut dy_t.get_mut()[first * PANEL..],
                c_rows: &self.tables.weight_rows,
                c_panel: fan_in * PANEL,
                m: at_a_time.min(fan_in - first),
                n,
                store: Store::Set { scale: self.scale },
            }
            .run(isa);
        }
        let dy_rows = Matrix {
            rows: n,
            columns: fan_in,
            step: self.geometry.input.image(),
        };
        transpose::panels_to_rows(isa, to.dx, dy_t.get(), dy_rows, to.write);
    }
}
