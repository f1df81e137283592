//! The data gradient of a convolution: dy from dz.
//!
//! Every row of inputs gathers from the rows of outputs that read it, and within the row
//! every output adds to the taps it read. A sum then runs over all filter rows before it
//! goes to memory, and the rows of dz need no border of zeros.

use super::elementwise::Gradient;
use super::geometry::Geometry;
use crate::kernels::Isa;
use crate::kernels::product::{PANEL, Product, Rows, Segment, Store, Sum};
use crate::kernels::rowwise::{self, Write};
use crate::kernels::transpose::{self, Matrix};

/// Outputs that one product should cover.
const OUTPUTS: usize = 96;

/// Addresses of the data gradient, computed once.
#[derive(Debug)]
pub(super) struct DataGradient {
    /// Images that one product covers.
    group: usize,
    /// The outputs of one row of a group.
    grouped: Spread,
    /// The outputs of one row of one image, for what a group does not fill.
    single: Spread,
    /// Every row of inputs that is not border.
    rows: Vec<InputRow>,
}

/// Outputs in an order in which neighbours do not overlap: adding to what was just stored
/// would have to wait for it.
#[derive(Debug)]
struct Spread {
    /// Where they begin to add.
    adds: Rows,
    /// Where they lie.
    reads: Rows,
}

/// A row of inputs and its sum.
#[derive(Debug)]
struct InputRow {
    /// Where its first pixel lies in an image.
    first: usize,
    /// Where its first tap lies in an image.
    start: usize,
    /// A stretch for every row of outputs that reads it.
    segments: Vec<Segment>,
}

impl DataGradient {
    /// The tables of a layer for batches of up to `batch` images.
    pub fn new(layer: &Geometry, batch: usize) -> Self {
        let (input, output, stride) = (layer.input, layer.output, layer.stride);
        let most = (OUTPUTS / output.shape.width).clamp(1, batch);
        let divides = |group: &usize| batch.is_multiple_of(*group);
        let group = (most.div_ceil(2)..=most).rev().find(divides);
        let group = group.unwrap_or(most);
        // Counted from the filter's corner, the first rows are padding.
        let padding = input.border - layer.corner / (input.row() + input.shape.channels);
        let row = |y: usize| {
            let stretch = |ky: usize| {
                let from = y.checked_sub(ky)?;
                let reads = from.is_multiple_of(stride) && from / stride < output.shape.height;
                reads.then(|| Segment {
                    a: output.at(0, from / stride),
                    b: ky * filter_len(layer),
                    len: layer.channels(),
                })
            };
            InputRow {
                first: input.at(0, y - padding),
                start: layer.corner + y * input.row(),
                segments: (0..layer.kernel_rows).filter_map(stretch).collect(),
            }
        };
        Self {
            group,
            grouped: Spread::new(layer, group),
            single: Spread::new(layer, 1),
            rows: (padding..padding + input.shape.height).map(row).collect(),
        }
    }

    /// Floats of scratch that a layer needs.
    pub fn scratch(layer: &Geometry) -> usize {
        layer.kernel_rows * filter_len(layer)
    }

    /// dy from dz for `n` images. `w_t` is scratch with a spare line.
    pub fn run(&self, pass: DataPass<'_>, layer: &Geometry, w_t: &mut [f32], n: usize) {
        let DataPass {
            isa,
            to: Gradient { dx: dy, write },
            dz,
            w,
            scale,
            activation,
        } = pass;
        for ky in 0..layer.kernel_rows {
            let filter = Matrix {
                rows: layer.filter_row,
                columns: layer.channels(),
                step: PANEL,
            };
            let w = &w[ky * layer.filter_row * PANEL..];
            let to = &mut w_t[ky * filter_len(layer)..][..filter_len(layer)];
            transpose::panels_to_panels(isa, to, w, layer.weight_panel(), filter);
        }
        let mut first = 0;
        while first < n {
            let (images, spread) = match n - first >= self.group {
                true => (self.group, &self.grouped),
                false => (1, &self.single),
            };
            for row in &self.rows {
                let places = (first..first + images)
                    .map(|image| image * layer.input.image() + row.first)
                    .map(|start| start..start + layer.input.run());
                // What is cleared right before it is added to is in cache.
                if write == Write::Set {
                    let border = layer.input.border * layer.input.shape.channels;
                    for place in places.clone() {
                        dy[place.start - border..place.end + border].fill(0.0);
                    }
                }
                if row.segments.is_empty() {
                    continue;
                }
                Product {
                    a: &dz[first * layer.output.image()..],
                    a_rows: &spread.reads,
                    rows_ahead: false,
                    b: w_t,
                    b_panel: layer.channels().next_multiple_of(PANEL) * PANEL,
                    sum: Sum {
                        segments: &row.segments,
                        a_step: 1,
                        b_step: PANEL,
                    },
                    c: &mut dy[first * layer.input.image() + row.start..],
                    c_rows: &spread.adds,
                    c_panel: PANEL,
                    m: spread.reads.len(),
                    // Beyond the filter row there are zeros to add.
                    n: layer.filter_row.next_multiple_of(PANEL),
                    store: Store::Add { scale },
                }
                .run(isa);
                if let Some(y) = activation {
                    for place in places {
                        rowwise::relu_backward(isa, &mut dy[place.clone()], &y[place]);
                    }
                }
            }
            first += images;
        }
    }
}

/// What a data gradient is made from. Planes and weights reach a spare line beyond
/// their end.
pub(super) struct DataPass<'a> {
    pub isa: Isa,
    /// ∂loss/∂y.
    pub to: Gradient<'a>,
    /// ∂loss/∂z.
    pub dz: &'a [f32],
    /// W.
    pub w: &'a [f32],
    /// The scheme's factor.
    pub scale: f32,
    /// y, if it went through an activation whose part in the gradient is taken here.
    pub activation: Option<&'a [f32]>,
}

/// Floats of one filter row whose inputs are columns, by panels.
fn filter_len(layer: &Geometry) -> usize {
    layer.channels().next_multiple_of(PANEL) * layer.filter_row.next_multiple_of(PANEL)
}

impl Spread {
    fn new(layer: &Geometry, images: usize) -> Self {
        let (input, output) = (layer.input, layer.output);
        let pixel = layer.stride * input.shape.channels;
        let apart = layer.filter_row.div_ceil(pixel);
        let mut outputs: Vec<[usize; 2]> = (0..images)
            .flat_map(|image| (0..output.shape.width).map(move |x| [image, x]))
            .collect();
        outputs.sort_by_key(|[_, x]| x % apart);
        let add = |[image, x]: &[usize; 2]| image * input.image() + x * pixel;
        let read = |[image, x]: &[usize; 2]| image * output.image() + x * layer.channels();
        Self {
            adds: Rows::new(outputs.iter().map(add)),
            reads: Rows::new(outputs.iter().map(read)),
        }
    }
}
