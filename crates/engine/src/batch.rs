//! From stored examples to the inputs of a batch: order, augmentation, normalization.

use crate::data::{Dataset, Examples, Normalization, Values};
use crate::kernels::{Isa, per_isa};
use crate::net::Plane;
use crate::random::{Permutation, Purpose, Stream};
use spec::Augmentation;

/// The order in which a run sees its training examples: each epoch a fresh
/// permutation, cut into consecutive batches, a rest smaller than a batch dropped.
#[derive(Debug, Clone)]
pub struct Order {
    seed: u64,
    examples: u32,
    batch: u32,
    epoch: u64,
    permutation: Permutation,
}

impl Order {
    /// The order of a run; `batch` is at most `examples`.
    pub fn new(seed: u64, examples: u32, batch: u32) -> Self {
        let permutation = Permutation::of_epoch(seed, 0, examples);
        Self {
            seed,
            examples,
            batch,
            epoch: 0,
            permutation,
        }
    }

    /// Writes the examples of a step's batch.
    pub fn batch(&mut self, step: u64, indices: &mut [u32]) {
        let per_epoch = u64::from(self.examples / self.batch);
        let (epoch, within) = (step / per_epoch, (step % per_epoch) as u32);
        if epoch != self.epoch {
            self.epoch = epoch;
            self.permutation = Permutation::of_epoch(self.seed, epoch, self.examples);
        }
        for (place, index) in (within * self.batch..).zip(indices) {
            *index = self.permutation.at(place);
        }
    }
}

/// How one training image is changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Change {
    /// Rows that the image moves up, negative is down.
    up: isize,
    /// Columns that the image moves left.
    left: isize,
    /// Mirrored left to right.
    mirrored: bool,
}

/// Draws the change of example `place` of a step's batch.
pub fn draw_change(rule: Augmentation, seed: u64, step: u64, place: usize) -> Change {
    let [up, left, mirror, _] = Stream::new(seed, Purpose::Augmentation).block(step, place as u32);
    let padding = rule.crop_padding as isize;
    // A word times a range, upper half: even to one part in 2³²/range.
    let shift = |word: u32| {
        ((u64::from(word) * (2 * rule.crop_padding as u64 + 1)) >> 32) as isize - padding
    };
    Change {
        up: shift(up),
        left: shift(left),
        mirrored: rule.flip && mirror >> 31 == 1,
    }
}

/// Puts examples into the input plane of a program.
pub struct Gather<'a> {
    isa: Isa,
    plane: Plane,
    normalization: &'a Normalization,
}

impl<'a> Gather<'a> {
    /// For inputs laid out as `plane`.
    pub fn new(isa: Isa, plane: Plane, data: &'a Dataset) -> Self {
        Self {
            isa,
            plane,
            normalization: &data.normalization,
        }
    }

    /// Puts example `index` at `place`, unchanged.
    pub fn put(&self, inputs: &mut [f32], place: usize, from: &Examples, index: usize) {
        let size = self.plane.shape.size();
        if self.plane.border == 0 {
            let image = &mut inputs[place * size..(place + 1) * size];
            return self.row(image, from, index * size);
        }
        let run = self.plane.run();
        for y in 0..self.plane.shape.height {
            let start = self.plane.at(place, y);
            self.row(
                &mut inputs[start..start + run],
                from,
                index * size + y * run,
            );
        }
    }

    /// Puts example `index` at `place`, changed. Pixels that move in from
    /// outside the image are 0, the mean or the middle of the range.
    pub fn put_changed(
        &self,
        inputs: &mut [f32],
        place: usize,
        from: &Examples,
        index: usize,
        change: Change,
    ) {
        let spec::Shape {
            height,
            width,
            channels,
        } = self.plane.shape;
        let run = self.plane.run();
        for y in 0..height {
            let start = self.plane.at(place, y);
            let to = &mut inputs[start..start + run];
            to.fill(0.0);
            let Some(source) = shifted(y, change.up, height) else {
                continue;
            };
            let first = change.left.min(0).unsigned_abs();
            let last = width - change.left.max(0) as usize;
            let row = (index * height + source) * run;
            let begin = row + (first as isize + change.left) as usize * channels;
            self.row(&mut to[first * channels..last * channels], from, begin);
            if change.mirrored {
                mirror(to, channels);
            }
        }
    }

    /// Normalizes consecutive values from `start` on.
    fn row(&self, to: &mut [f32], from: &Examples, start: usize) {
        let Normalization { offset, factor } = self.normalization;
        let range = start..start + to.len();
        match &from.values {
            Values::Bytes(values) => from_bytes(self.isa, to, &values[range], offset, factor),
            Values::Floats(values) => from_floats(self.isa, to, &values[range], offset, factor),
        }
    }
}

/// Row y of the moved image is this row of the original.
fn shifted(y: usize, up: isize, height: usize) -> Option<usize> {
    y.checked_add_signed(up).filter(|source| *source < height)
}

fn mirror(row: &mut [f32], channels: usize) {
    let width = row.len() / channels;
    for x in 0..width / 2 {
        for c in 0..channels {
            row.swap(x * channels + c, (width - 1 - x) * channels + c);
        }
    }
}

per_isa!(
    fn from_bytes(to: &mut [f32], from: &[u8], offset: &[f32], factor: &[f32]) = plain from_bytes_kernel
);
per_isa!(
    fn from_floats(to: &mut [f32], from: &[f32], offset: &[f32], factor: &[f32])
        = plain from_floats_kernel
);

#[inline(always)]
fn from_bytes_kernel(to: &mut [f32], from: &[u8], offset: &[f32], factor: &[f32]) {
    normalize(to, from.iter().map(|byte| f32::from(*byte)), offset, factor);
}

#[inline(always)]
fn from_floats_kernel(to: &mut [f32], from: &[f32], offset: &[f32], factor: &[f32]) {
    normalize(to, from.iter().copied(), offset, factor);
}

/// (value − offset)·factor per channel; one channel is the common, vectorized case.
#[inline(always)]
fn normalize(to: &mut [f32], from: impl Iterator<Item = f32>, offset: &[f32], factor: &[f32]) {
    if let ([offset], [factor]) = (offset, factor) {
        to.iter_mut()
            .zip(from)
            .for_each(|(to, x)| *to = (x - offset) * factor);
    } else {
        let rule = offset.iter().zip(factor).cycle();
        to.iter_mut()
            .zip(from)
            .zip(rule)
            .for_each(|((to, x), (offset, factor))| *to = (x - offset) * factor);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_epoch_shows_each_example_once_and_drops_the_rest() {
        let mut order = Order::new(4, 10, 3);
        let mut seen = Vec::new();
        for step in 0..3 {
            let mut indices = [0; 3];
            order.batch(step, &mut indices);
            seen.extend(indices);
        }
        let first = seen.clone();
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), 9);
        // The next epoch is another order, and a step can be asked for at any time.
        let mut indices = [0; 3];
        order.batch(3, &mut indices);
        assert_ne!(indices, first[..3]);
        order.batch(0, &mut indices);
        assert_eq!(indices, first[..3]);
    }

    fn two_by_three() -> (Dataset, Plane) {
        let shape = spec::Shape {
            height: 2,
            width: 3,
            channels: 1,
        };
        let examples = Examples {
            values: Values::Bytes(vec![1, 2, 3, 4, 5, 6]),
            labels: vec![0],
        };
        let empty = Examples {
            values: Values::Bytes(Vec::new()),
            labels: Vec::new(),
        };
        let normalization = Normalization {
            offset: vec![0.0],
            factor: vec![1.0],
        };
        let data = Dataset {
            shape,
            classes: 2,
            normalization,
            train: examples,
            validation: empty.clone(),
            test: empty,
        };
        (data, Plane { shape, border: 0 })
    }

    #[test]
    fn images_move_and_mirror() {
        let (data, plane) = two_by_three();
        let gather = Gather::new(Isa::detect(), plane, &data);
        let mut got = [9.0; 6];
        let cases = [
            (
                Change {
                    up: 0,
                    left: 1,
                    mirrored: false,
                },
                [2., 3., 0., 5., 6., 0.],
            ),
            (
                Change {
                    up: 0,
                    left: -1,
                    mirrored: false,
                },
                [0., 1., 2., 0., 4., 5.],
            ),
            (
                Change {
                    up: 1,
                    left: 0,
                    mirrored: false,
                },
                [4., 5., 6., 0., 0., 0.],
            ),
            (
                Change {
                    up: -1,
                    left: 0,
                    mirrored: true,
                },
                [0., 0., 0., 3., 2., 1.],
            ),
            (
                Change {
                    up: 0,
                    left: 3,
                    mirrored: false,
                },
                [0.0; 6],
            ),
            (Change::default(), [1., 2., 3., 4., 5., 6.]),
        ];
        for (change, expected) in cases {
            gather.put_changed(&mut got, 0, &data.train, 0, change);
            assert_eq!(got, expected, "{change:?}");
        }
        gather.put(&mut got, 0, &data.train, 0);
        assert_eq!(got, [1., 2., 3., 4., 5., 6.]);
    }

    #[test]
    fn changes_cover_their_range_evenly() {
        let rule = Augmentation {
            crop_padding: 4,
            flip: true,
        };
        let mut ups = [0; 9];
        let mut mirrored = 0;
        for place in 0..9_000 {
            let change = draw_change(rule, 1, 2, place);
            ups[(change.up + 4) as usize] += 1;
            mirrored += i32::from(change.mirrored);
        }
        assert!(
            ups.iter().all(|count| (900..1_100).contains(count)),
            "{ups:?}"
        );
        assert!((4_300..4_700).contains(&mirrored));
    }
}
