//! Rows of operands that lie alike in all tiles.

use super::{Inner, Operand};
use crate::cuda::args::OperandArgs;
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

/// How tiles of a sum follow one another: each `step` floats on from the one before, but every `few`-th
/// `jump` floats.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Pace {
    step: i32,
    jump: i32,
    few: usize,
}

impl Pace {
    /// Of a table cut into tiles of `k` terms that all look the same.
    fn of(table: &[i32], k: usize) -> Option<Self> {
        let first = table.get(..k)?;
        let same = |tile: &[i32]| (0..tile.len()).all(|i| tile[i] - tile[0] == first[i] - first[0]);
        let starts: Vec<i32> = table.iter().step_by(k).copied().collect();
        let moves: Vec<i32> = starts.windows(2).map(|two| two[1] - two[0]).collect();
        let step = moves.first().map_or(0, |first| *first);
        let few = moves.iter().position(|by| *by != step);
        let few = few.map_or(starts.len(), |at| at + 1);
        let jump = moves.get(few - 1).map_or(0, |by| *by);
        let expected = |at: usize| {
            if (at + 1).is_multiple_of(few) {
                jump
            } else {
                step
            }
        };
        let even = (0..moves.len()).all(|at| moves[at] == expected(at));
        (even && table.chunks(k).all(same)).then_some(Self { step, jump, few })
    }

    pub(super) fn put(self, args: &mut OperandArgs) {
        (args.tile_step, args.tile_jump) = (self.step, self.jump);
        args.few = self.few as i32;
    }
}

impl Operand {
    /// How its tiles follow one another.
    pub(super) fn pace(&self, k: usize) -> Option<Pace> {
        Pace::of(&self.k, k)
    }

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

    #[test]
    fn tiles_that_follow_one_another_evenly_are_found() {
        let pace = |step, jump, few| Some(Pace { step, jump, few });
        // A matrix, whose last tile need not be whole.
        assert_eq!(Pace::of(&even(96, 5), 32), pace(160, 0, 3));
        assert_eq!(Pace::of(&even(80, 5), 32), pace(160, 0, 3));
        assert_eq!(Pace::of(&even(32, 5), 32), pace(0, 0, 1));
        assert_eq!(Pace::of(&even(8, 5), 32), None);
        // Four rows of 8 pixels at a time, two tiles of an image; four images.
        assert_eq!(Pace::of(&pixels(4, 8, 8, 1), 32), pace(40, 60, 2));
        // Half a row at a time, and then over the border, from image to image over more of them.
        assert_eq!(Pace::of(&pixels(3, 1, 64, 4), 32), pace(128, 664, 2));
        assert_eq!(Pace::of(&pixels(3, 2, 64, 4), 32), None);
        // Rows of 10 pixels end somewhere else in every tile.
        assert_eq!(Pace::of(&pixels(4, 8, 10, 4), 32), None);
    }
}
