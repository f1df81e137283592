//! Rows of operands that lie alike in all tiles.

use super::{Inner, Operand};
use crate::cuda::launch::Define;

/// Where a thread finds the rows of a tile that it copies, if that is alike for all threads and
/// tiles: each `step` floats on from the one before, and every `segment`-th `jump` floats from
/// the last such.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Spacing {
    segment: usize,
    step: i32,
    jump: i32,
}

impl Spacing {
    /// Of a table cut into tiles of `outer` entries, of which a thread has every `rows`-th.
    fn of(table: &[i32], outer: usize, rows: usize) -> Option<Self> {
        let passes = outer / rows;
        let place = |pass: usize| table[pass * rows] - table[0];
        let step = if passes > 1 { place(1) } else { 0 };
        let segment = (2..passes)
            .find(|pass| place(*pass) != *pass as i32 * step)
            .unwrap_or(passes);
        let jump = if segment < passes { place(segment) } else { 0 };
        let spacing = Self {
            segment,
            step,
            jump,
        };
        let alike = |tile: &[i32]| {
            (0..tile.len()).all(|row| tile[row] - tile[row % rows] == spacing.place(row / rows))
        };
        (step >= 0 && jump >= 0 && table.chunks(outer).all(alike)).then_some(spacing)
    }

    fn place(&self, pass: usize) -> i32 {
        (pass % self.segment) as i32 * self.step + (pass / self.segment) as i32 * self.jump
    }

    /// As macros of the kernel.
    pub(super) fn defines(spacing: Option<Self>, names: [&'static str; 3]) -> [Define; 3] {
        let (segment, step, jump) =
            spacing.map_or((0, 0, 0), |s| (s.segment as u32, s.step, s.jump));
        let [a, b, c] = names;
        [(a, segment), (b, step as u32), (c, jump as u32)]
    }
}

impl Operand {
    /// How the rows lie that a thread copies by fours of a tile of x × k.
    pub(super) fn spacing(&self, x: usize, k: usize, threads: usize) -> Option<Spacing> {
        let (table, outer, inner) = match self.inner {
            Inner::K => (&self.x, x, k),
            Inner::X => (&self.k, k, x),
        };
        // What lies beside an operand along its inner direction does no harm: no sum of it is kept.
        // A matrix need not be looked up beyond its end to know where that lies.
        let whole = (self.k.len().is_multiple_of(k) || self.is_matrix() && self.k.len() > k)
            && (self.inner == Inner::X || self.x.len().is_multiple_of(x));
        let rows = 4 * threads / inner;
        if !whole || rows == 0 || !outer.is_multiple_of(rows) {
            return None;
        }
        Spacing::of(table, outer, rows)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cuda::product::even;

    /// Places of pixels in images of rows of `width` with a border of one.
    fn pixels(images: usize, height: usize, width: usize, channels: usize) -> Vec<i32> {
        let row = width + 2;
        let place = |image, y, x| (image * (height + 2) + y) * row + x;
        let mut places = Vec::new();
        for image in 0..images {
            for y in 0..height {
                places.extend((0..width).map(|x| (place(image, y, x) * channels) as i32));
            }
        }
        places
    }

    #[test]
    fn rows_that_lie_alike_are_found() {
        let spacing = |segment, step, jump| Spacing {
            segment,
            step,
            jump,
        };
        // Evenly, as those of a matrix.
        let even = even(96, 5);
        assert_eq!(Spacing::of(&even, 32, 4), Some(spacing(8, 20, 0)));
        assert_eq!(Spacing::of(&even, 32, 32), Some(spacing(1, 0, 0)));
        // Image rows of 8 pixels and their border, four by four.
        let narrow = pixels(3, 8, 8, 64);
        assert_eq!(Spacing::of(&narrow, 32, 4), Some(spacing(2, 256, 640)));
        // A tile that is half an image row.
        let wide = pixels(3, 2, 64, 4);
        assert_eq!(Spacing::of(&wide, 32, 4), Some(spacing(8, 16, 0)));
        // Rows of 10 pixels end in the middle of a thread's four.
        assert_eq!(Spacing::of(&pixels(4, 8, 10, 4), 32, 4), None);
        // Not the same in the second tile.
        assert_eq!(Spacing::of(&[0, 1, 2, 3, 4, 6, 8, 10], 4, 1), None);
    }
}
