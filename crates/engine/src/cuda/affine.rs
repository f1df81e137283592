//! Dense layers and convolutions as products: which table says where what lies.
//!
//! | product | rows m | columns n | terms k |
//! |---|---|---|---|
//! | convolution, forward | output pixels | outputs | taps × inputs |
//! | its data gradient | input pixels | inputs | taps × outputs |
//! | dense, forward | outputs | images | inputs |
//! | its data gradient | inputs | images | outputs |
//! | weight gradient of both | taps × inputs | outputs | output pixels |
//!
//! A dense layer has images as columns, because a tile can be as narrow as 8 columns.

use super::args::{Array, ProductArgs};
use super::blueprint::Affine;
use super::plane::Plane;
use super::product::{Epilogue, Filter, Inner, Operand, Product, Room, Size, Target, Units, even};

/// A layer between its planes, for a batch.
#[derive(Debug, Clone, Copy)]
pub struct Layer<'a> {
    /// The layer.
    pub affine: &'a Affine,
    /// What it reads.
    pub input: &'a Plane,
    /// What it writes.
    pub output: &'a Plane,
    /// Images.
    pub batch: usize,
    /// Runs.
    pub replicas: usize,
    /// What takes its products.
    pub units: Units,
}

impl Layer<'_> {
    fn product(&self, a: Operand, b: Operand, target: Target, epilogue: Epilogue) -> Product {
        Product {
            a,
            b,
            target,
            epilogue,
            units: self.units,
            replicas: self.replicas,
            filter: None,
            rounded: false,
            room: Room::default(),
            args: ProductArgs {
                scale: self.affine.scale,
                bias_row: -1,
                ..ProductArgs::default()
            },
        }
    }

    /// Outputs of an image pixel, padding included: columns of W.
    fn columns(&self) -> usize {
        self.output.pixel
    }

    /// Rows of W.
    pub fn rows(&self) -> usize {
        self.affine.rows(self.input)
    }

    fn size(&self, m: usize, n: usize, k: usize) -> Size {
        Size {
            m,
            n,
            k,
            replicas: self.replicas,
            processors: self.units.processors,
        }
    }

    /// Of the forward product of a convolution.
    pub fn forward_size(&self) -> Size {
        let pixels = self.batch * self.output.pixels();
        self.size(pixels, self.columns(), self.rows())
    }

    /// Of its data gradient; with a stride, of all of them together.
    pub fn data_size(&self) -> Size {
        let taps = self.affine.kernel.0 * self.affine.kernel.1;
        let pixels = self.batch * self.input.pixels();
        self.size(pixels, self.input.pixel, taps * self.columns())
    }

    /// Of the weight gradient.
    pub fn weights_size(&self) -> Size {
        let pixels = self.batch * self.output.pixels();
        self.size(self.rows(), self.columns(), pixels)
    }

    /// z from y. `array`s are those of y, W and z.
    pub fn forward(&self, y: Array, w: Array, c: Array) -> Product {
        let (order, taps) = (self.forward_order(), self.taps());
        let weights = Operand {
            array: w,
            x: even(self.columns(), 1),
            k: (order.iter())
                .map(|row| (row * self.columns()) as i32)
                .collect(),
            inner: Inner::X,
        };
        let inputs = Operand {
            array: y,
            x: self.reads(),
            k: order.iter().map(|row| taps[*row]).collect(),
            inner: Inner::K,
        };
        let mut product = if self.affine.dense {
            let target = Target::ByColumns(self.writes(), None);
            self.product(weights, inputs, target, Epilogue::Forward)
        } else {
            let target = Target::ByRows(self.writes());
            let mut product = self.product(inputs, weights, target, Epilogue::Forward);
            product.filter = Some(Filter {
                taps: taps.iter().step_by(self.input.pixel).copied().collect(),
                pixel: self.input.pixel,
                end: self.input.image() * self.batch,
            });
            product
        };
        product.args.c = c;
        product.args.relu = u32::from(self.affine.relu);
        product
    }

    /// ∂loss/∂W, to be summed in one part (`Descend`) or several.
    pub fn weight_gradient(&self, y: Array, dz: Array, epilogue: Epilogue) -> Product {
        let inputs = Operand {
            array: y,
            x: self.taps(),
            k: self.reads(),
            inner: Inner::X,
        };
        let outputs = Operand {
            array: dz,
            x: even(self.columns(), 1),
            k: self.writes(),
            inner: Inner::X,
        };
        let target = Target::ByRows(even(self.rows(), self.columns()));
        let mut product = self.product(inputs, outputs, target, epilogue);
        if self.affine.bias {
            product.args.bias_row = (self.rows() * self.columns()) as i32;
        }
        product
    }

    /// ∂loss/∂y, masked where y is an activation's output. One product for a dense layer or a
    /// convolution of stride 1; with stride s the pixels of each remainder by s are one of
    /// their own, since they are read by other taps.
    pub fn data_gradients(&self, dz: Array, w: Array) -> Vec<Product> {
        if self.affine.dense {
            return vec![self.dense_data_gradient(dz, w)];
        }
        let stride = self.affine.stride;
        (0..stride)
            .flat_map(|y| (0..stride).map(move |x| (y, x)))
            .map(|first| self.conv_data_gradient(dz, w, first))
            // Where the stride is longer than a side, some remainders have no pixels.
            .filter(|product| !product.a.x.is_empty())
            .collect()
    }

    fn dense_data_gradient(&self, dz: Array, w: Array) -> Product {
        let weights = Operand {
            array: w,
            x: even(self.rows(), self.columns()),
            k: even(self.columns(), 1),
            inner: Inner::K,
        };
        let outputs = Operand {
            array: dz,
            x: self.writes(),
            k: even(self.columns(), 1),
            inner: Inner::K,
        };
        let taps = self.taps();
        let rows = (taps != even(taps.len(), 1)).then_some(taps);
        let target = Target::ByColumns(self.reads(), rows);
        self.product(weights, outputs, target, Epilogue::Data)
    }

    /// The gradient at the input pixels (first.0 + s·i, first.1 + s·j).
    fn conv_data_gradient(&self, dz: Array, w: Array, first: (usize, usize)) -> Product {
        let Affine {
            stride, padding, ..
        } = *self.affine;
        // Output pixels, from that of i = j = 0, that read a pixel through a tap.
        let through = |first: usize, tap: usize| {
            let from = (first + padding) as isize - tap as isize;
            (from.rem_euclid(stride as isize) == 0).then(|| from.div_euclid(stride as isize))
        };
        let (mut dz_k, mut w_k) = (Vec::new(), Vec::new());
        for ky in 0..self.affine.kernel.0 {
            for kx in 0..self.affine.kernel.1 {
                let (Some(y), Some(x)) = (through(first.0, ky), through(first.1, kx)) else {
                    continue;
                };
                let at = y * self.output.row() as isize + x * self.output.pixel as isize;
                let tap = (ky * self.affine.kernel.1 + kx) * self.input.pixel * self.columns();
                dz_k.extend((0..self.columns()).map(|out| at as i32 + out as i32));
                w_k.extend((0..self.columns()).map(|out| (tap + out) as i32));
            }
        }
        let filter = Filter {
            taps: dz_k.iter().step_by(self.columns()).copied().collect(),
            pixel: self.columns(),
            end: self.output.image() * self.batch,
        };
        let order = by_channels(dz_k.len() / self.columns().max(1), self.columns());
        let dz_k = order.iter().map(|at| dz_k[*at]).collect();
        let w_k = order.iter().map(|at| w_k[*at]).collect();
        let (mut reads, mut writes) = (Vec::new(), Vec::new());
        for image in 0..self.batch {
            for (i, y) in (first.0..self.input.shape.height)
                .step_by(stride)
                .enumerate()
            {
                for (j, x) in (first.1..self.input.shape.width)
                    .step_by(stride)
                    .enumerate()
                {
                    reads.push(self.output.place(image, i as isize, j as isize));
                    writes.push(self.input.place(image, y as isize, x as isize));
                }
            }
        }
        let outputs = Operand {
            array: dz,
            x: reads,
            k: dz_k,
            inner: Inner::K,
        };
        let weights = Operand {
            array: w,
            x: even(self.input.pixel, self.columns()),
            k: w_k,
            inner: Inner::K,
        };
        let mut product = self.product(outputs, weights, Target::ByRows(writes), Epilogue::Data);
        product.filter = Some(filter);
        product
    }

    /// Where each output begins to read.
    fn reads(&self) -> Vec<i32> {
        let Affine {
            stride, padding, ..
        } = *self.affine;
        let corner = |at: usize| (at * stride) as isize - padding as isize;
        self.outputs(|image, y, x| self.input.place(image, corner(y), corner(x)))
    }

    /// Where each output is written.
    pub fn writes(&self) -> Vec<i32> {
        self.outputs(|image, y, x| self.output.place(image, y as isize, x as isize))
    }

    fn outputs(&self, place: impl Fn(usize, usize, usize) -> i32) -> Vec<i32> {
        let mut places = Vec::with_capacity(self.batch * self.output.pixels());
        for image in 0..self.batch {
            for y in 0..self.output.shape.height {
                for x in 0..self.output.shape.width {
                    places.push(place(image, y, x));
                }
            }
        }
        places
    }

    /// Where each input of an output lies, from where it begins to read, by rows of W.
    fn taps(&self) -> Vec<i32> {
        let mut taps = Vec::with_capacity(self.rows());
        for ky in 0..self.affine.kernel.0 {
            for kx in 0..self.affine.kernel.1 {
                let at = ky * self.input.row() + kx * self.input.pixel;
                taps.extend((0..self.input.pixel).map(|channel| (at + channel) as i32));
            }
        }
        taps
    }

    /// Rows of W in the order in which the forward sum takes them: a few channels of all
    /// taps before the next channels. Neighbouring taps read the same pixels, which
    /// are still in the first cache then.
    fn forward_order(&self) -> Vec<usize> {
        by_channels(
            self.affine.kernel.0 * self.affine.kernel.1,
            self.input.pixel,
        )
    }
}

/// Channels that are taken of every tap before the next: a line of the cache.
const CHANNELS_AT_A_TIME: usize = 32;

/// The terms (tap, channel), numbered by taps, in the order of their groups of channels.
fn by_channels(taps: usize, channels: usize) -> Vec<usize> {
    let mut order = Vec::with_capacity(taps * channels);
    for first in (0..channels).step_by(CHANNELS_AT_A_TIME) {
        let last = channels.min(first + CHANNELS_AT_A_TIME);
        for tap in 0..taps {
            order.extend((first..last).map(|channel| tap * channels + channel));
        }
    }
    order
}
