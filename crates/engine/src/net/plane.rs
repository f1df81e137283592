//! How a batch of activations lies in memory.

use spec::Shape;

/// Activations (B, height, width, channels), channels last, each image inside a
/// border of zeros that convolutions read as their padding: nobody copies an
/// image to pad it, its producer writes it where it is needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Plane {
    /// What one example has.
    pub shape: Shape,
    /// Pixels of zeros on every side.
    pub border: usize,
}

impl Plane {
    /// Floats from one row of pixels to the next.
    pub fn row(&self) -> usize {
        (self.shape.width + 2 * self.border) * self.shape.channels
    }

    /// Floats from one image to the next.
    pub fn image(&self) -> usize {
        (self.shape.height + 2 * self.border) * self.row()
    }

    /// Floats of a row that are not border.
    pub fn run(&self) -> usize {
        self.shape.width * self.shape.channels
    }

    /// Where row y of an image begins, its border skipped.
    pub fn at(&self, image: usize, y: usize) -> usize {
        image * self.image() + (y + self.border) * self.row() + self.border * self.shape.channels
    }

    /// Every stretch of contiguous values of the first `batch` images, in order.
    pub fn runs(self, batch: usize) -> impl Iterator<Item = std::ops::Range<usize>> {
        // Without a border the whole batch is one stretch.
        let (images, rows, len) = match self.border {
            0 => (1, 1, batch * self.image()),
            _ => (batch, self.shape.height, self.run()),
        };
        (0..images).flat_map(move |image| {
            (0..rows).map(move |y| {
                let start = if self.border == 0 {
                    0
                } else {
                    self.at(image, y)
                };
                start..start + len
            })
        })
    }

    /// Every row of pixels of the first `batch` images, in order.
    pub fn rows(self, batch: usize) -> impl Iterator<Item = std::ops::Range<usize>> {
        (0..batch).flat_map(move |image| {
            (0..self.shape.height).map(move |y| {
                let start = self.at(image, y);
                start..start + self.run()
            })
        })
    }
}
