//! Where the inputs, outputs and weights of a dense layer or convolution lie.

use super::plane::Plane;
use crate::kernels::product::{PANEL, Rows, Segment};

/// The sizes of a dense layer or convolution.
#[derive(Debug)]
pub(super) struct Geometry {
    pub input: Plane,
    pub output: Plane,
    /// First float, in an image, that the filter's top left tap reads.
    pub corner: usize,
    pub kernel_rows: usize,
    /// Floats of one filter row: taps × channels, contiguous in the image.
    pub filter_row: usize,
    /// From one output to the next, in pixels of the input.
    pub stride: usize,
}

/// Addresses, computed once.
#[derive(Debug)]
pub(super) struct Tables {
    /// Largest batch.
    pub batch: usize,
    /// Images that one product covers, so that small images still fill its rows.
    pub group: usize,
    /// Where each output of a group reads its input, from the filter's corner.
    pub reads: Rows,
    /// Where each output of a group lies.
    pub writes: Rows,
    /// Filter rows, for the forward sum.
    pub filter: Vec<Segment>,
    /// Where each input of a dense layer lies.
    pub inputs: Rows,
    /// All rows of W, in order.
    pub weight_rows: Rows,
    /// Panels of W, for the sum over outputs.
    pub weight_panels: Vec<Segment>,
    /// Panels of a batch, for the sum over images.
    pub batch_panels: Vec<Segment>,
}

/// Outputs that one product should at least cover.
const ROWS_PER_PRODUCT: usize = 192;
impl Geometry {
    pub fn outputs(&self) -> usize {
        self.output.shape.height * self.output.shape.width
    }

    pub fn channels(&self) -> usize {
        self.output.shape.channels
    }

    /// Rows of W: inputs of one output.
    pub fn fan_in(&self) -> usize {
        self.kernel_rows * self.filter_row
    }

    /// Floats from one panel of W to the next.
    pub fn weight_panel(&self) -> usize {
        self.fan_in() * PANEL
    }

    /// Floats of W, unused columns of its last panel included.
    pub fn weight_len(&self) -> usize {
        self.channels().div_ceil(PANEL) * self.weight_panel()
    }

    /// Whether there is one output per image, read from all of it.
    pub fn is_dense(&self) -> bool {
        self.outputs() == 1 && self.kernel_rows == 1 && self.fan_in() == self.input.image()
    }
}

impl Tables {
    /// The tables of a layer for batches of up to `batch` images.
    pub fn new(layer: &Geometry, batch: usize) -> Self {
        let (input, output, stride) = (layer.input, layer.output, layer.stride);
        let group = (ROWS_PER_PRODUCT / layer.outputs()).clamp(1, batch);
        let pixels = || {
            (0..group).flat_map(move |image| {
                (0..output.shape.height)
                    .flat_map(move |y| (0..output.shape.width).map(move |x| (image, y, x)))
            })
        };
        let panels = 0..layer.channels().div_ceil(PANEL);
        let read = |(image, y, x)| {
            image * input.image() + stride * (y * input.row() + x * input.shape.channels)
        };
        let write = |(image, y, x)| output.at(image, y) + x * output.shape.channels;
        Self {
            batch,
            group,
            reads: Rows::new(pixels().map(read)),
            writes: Rows::new(pixels().map(write)),
            filter: (0..layer.kernel_rows)
                .map(|ky| Segment {
                    a: ky * input.row(),
                    b: ky * layer.filter_row * PANEL,
                    len: layer.filter_row,
                })
                .collect(),
            inputs: Rows::even(layer.fan_in(), 1),
            weight_rows: Rows::even(layer.fan_in(), PANEL),
            weight_panels: panels
                .map(|panel| Segment {
                    a: panel * layer.fan_in() * PANEL,
                    b: panel * PANEL * PANEL,
                    len: PANEL,
                })
                .collect(),
            batch_panels: (0..batch.div_ceil(PANEL))
                .map(|panel| Segment {
                    a: panel * layer.fan_in() * PANEL,
                    b: panel * PANEL * PANEL,
                    len: PANEL.min(batch - panel * PANEL),
                })
                .collect(),
        }
    }
}
