//! How activations lie on the device: as on the host, but channels are padded to fours so
//! that every copy moves 16 bytes.

use super::args::PlaneArgs;
use spec::Shape;

/// A batch of activations (B, height, width, pixel), each image inside a border of zeros.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Plane {
    /// What one example has.
    pub shape: Shape,
    /// Floats of a pixel: its channels and their padding, which is 0.
    pub pixel: usize,
    /// Pixels of zeros on every side.
    pub border: usize,
}

impl Plane {
    /// Floats from one row of pixels to the next.
    pub fn row(&self) -> usize {
        (self.shape.width + 2 * self.border) * self.pixel
    }

    /// Floats from one image to the next.
    pub fn image(&self) -> usize {
        (self.shape.height + 2 * self.border) * self.row()
    }

    /// Where a pixel begins; coordinates may lie in the border.
    pub fn place(&self, image: usize, y: isize, x: isize) -> i32 {
        let border = self.border as isize;
        let at = (y + border) * self.row() as isize + (x + border) * self.pixel as isize;
        (image * self.image()) as i32 + at as i32
    }

    /// Pixels of one image.
    pub fn pixels(&self) -> usize {
        self.shape.height * self.shape.width
    }

    /// Fours of a batch's values, padding included and borders not.
    pub fn fours(&self, batch: usize) -> usize {
        batch * self.pixels() * self.pixel / 4
    }

    /// As kernels want it.
    pub fn args(&self) -> PlaneArgs {
        PlaneArgs {
            height: self.shape.height as i32,
            width: self.shape.width as i32,
            channels: self.pixel as i32,
            border: self.border as i32,
            row: self.row() as i32,
            image: self.image() as i32,
        }
    }
}
