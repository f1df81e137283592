//! How a network with two or three hidden layers is cut up for `kernels/deep.cu`.

use super::{Fitted, Limits, MOST_WARPS, Size, registers, rounds};
use crate::cuda::launch::Source;

/// Registers that a thread needs besides weights and velocities, and those for every 16 units of its
/// block: with fewer, the compiler puts some of either into local memory.
const OTHER_REGISTERS: usize = 64;
const UNIT_REGISTERS: usize = 16;
/// Bytes a microsecond that a block reads of others' shared memory, and that it exchanges with the
/// second-level cache while all blocks do, half of it hidden; and microseconds of a meeting. Steps
/// measured on an H200 are up to half as long as these foresee (docs/GPU_TUNING.md).
const FROM_OTHERS: f64 = 18_000.0;
const WITH_CACHE: f64 = 80_000.0;
const MEETING: f64 = 0.8;

/// How a block's share of a network is cut up: macros of the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Cut {
    /// Units of a block, in every hidden layer.
    units: usize,
    /// Blocks of a run.
    cluster: usize,
    /// Warps, which share the inputs of a layer.
    warps: usize,
    /// Rows of the batch that are summed at a time.
    sum_rows: usize,
    /// Batches in shared memory.
    buffers: usize,
    /// Turns of a warp whose weights of the first layer lie in shared memory; the others' are in
    /// registers.
    first_shared: usize,
    /// Layers whose velocities lie in the second-level cache, as a mask; the others' are in registers.
    far: usize,
}

impl Cut {
    /// Inputs of a layer in blocks of 16.
    fn blocks(&self, size: &Size, layer: usize) -> usize {
        match layer {
            0 => size.inputs / 16,
            _ => self.cluster * self.units / 16,
        }
    }

    /// Blocks of inputs of a warp.
    fn turns(&self, size: &Size, layer: usize) -> usize {
        self.blocks(size, layer).div_ceil(self.warps)
    }

    fn is_far(&self, layer: usize) -> bool {
        self.far >> layer & 1 == 1
    }

    /// Velocities of a block in the second-level cache.
    fn far_velocities(&self, size: &Size) -> usize {
        let far = (0..size.layers).filter(|layer| self.is_far(*layer));
        far.map(|layer| 16 * self.units * self.blocks(size, layer))
            .sum()
    }

    /// Registers that hold a thread's weights and velocities.
    fn held(&self, size: &Size) -> usize {
        let near = (0..size.layers).filter(|layer| !self.is_far(*layer));
        let velocities: usize = near.map(|layer| self.turns(size, layer)).sum();
        let weights = self.turns(size, 0) - self.first_shared;
        8 * self.units / 16 * (velocities + weights)
    }

    /// Registers that hold everything else.
    fn others(&self) -> usize {
        OTHER_REGISTERS + UNIT_REGISTERS * self.units / 16
    }

    /// Rows of a group.
    fn group(&self, size: &Size) -> usize {
        self.sum_rows.min(size.rows())
    }

    /// Bytes of `struct Shared`, and of the first layer's weights behind it.
    fn shared(&self, size: &Size) -> usize {
        let (rows, units, width) = (size.rows(), self.units, self.cluster * self.units);
        let behind = size.layers - 1;
        let first = (self.first_shared * self.warps).min(self.blocks(size, 0));
        let weights = units * (behind * width + 16 * first);
        let sums = self.group(size) * (self.warps * units).max(width);
        let activations = behind * 2 * units * rows;
        let gradients = 3 * units * rows * size.factor();
        4 * (weights + sums + activations + gradients) + size.ends(units, self.buffers)
    }

    fn fits(&self, size: &Size, limits: &Limits) -> bool {
        // A thread keeps one example.
        self.cluster <= limits.cluster
            && size.batch <= 32 * self.warps
            && size.rows().is_multiple_of(self.group(size))
            && self.shared(size) <= limits.shared
            && self.held(size) + self.others() <= registers(self.warps)
    }

    /// Times that the blocks of a run meet in a step.
    fn meetings(&self, size: &Size) -> usize {
        let groups = size.rows() / self.group(size);
        3 * size.layers - 2 + 2 * (groups - 1) * (size.layers - 1)
    }

    /// Microseconds of a step of one replica, as foreseen from those of one hidden layer: products of a
    /// layer that is gone back through are three instead of two.
    fn step(&self, size: &Size) -> f64 {
        let share = |layer| {
            // The warp with most inputs is waited for.
            let inputs = 16 * self.turns(size, layer) * self.warps;
            (self.units * inputs) as f64 / 784.0 * if layer == 0 { 1.0 } else { 1.5 }
        };
        let shares: f64 = (0..size.layers).map(share).sum();
        let work = 1.5 + shares * (0.08 + 0.0115 * size.rows() as f64);
        let waiting = 1.0 + 2.0 / self.warps as f64;
        let passes = 1.0 + 0.5 / self.sum_rows as f64;
        let together = match self.cluster {
            1 => 0.0,
            _ => {
                let read = 12 * (size.layers - 1) * self.cluster * self.units * size.rows();
                MEETING * self.meetings(size) as f64 + read as f64 / FROM_OTHERS
            }
        };
        let far = 8.0 * self.far_velocities(size) as f64 / WITH_CACHE;
        work * waiting * passes + together + far - 0.3 * self.buffers as f64
    }

    pub(super) fn fitted(&self, size: &Size) -> Fitted {
        let macros = [
            ("UNITS", self.units),
            ("CLUSTER", self.cluster),
            ("WARPS", self.warps),
            ("SUM_ROWS", self.sum_rows),
            ("X_BUFFERS", self.buffers),
            ("FIRST_SHARED", self.first_shared),
            ("FAR_LAYERS", self.far),
            ("SHARED", self.shared(size)),
        ];
        Fitted {
            kernel: size.kernel(Source::Deep, macros),
            cluster: self.cluster,
            warps: self.warps,
            shared: self.shared(size),
            far: self.far_velocities(size),
        }
    }
}

/// All ways to cut a network, fitting or not.
fn cuts(size: &Size) -> Vec<Cut> {
    let mut cuts = Vec::new();
    for units in [16, 32, 48, 64] {
        for warps in 1..=MOST_WARPS {
            for (sum_rows, buffers) in [(16, 2), (8, 2), (16, 1), (8, 1)] {
                let turns = (size.inputs / 16).div_ceil(warps);
                for first_shared in 0..=turns {
                    cuts.extend((0..1 << size.layers).map(|far| Cut {
                        units,
                        cluster: size.width.div_ceil(units),
                        warps,
                        sum_rows,
                        buffers,
                        first_shared,
                        far,
                    }));
                }
            }
        }
    }
    cuts
}

/// The cut of a network that trains so many replicas fastest, if one fits.
pub(super) fn best(size: &Size, replicas: usize, limits: &Limits) -> Option<Cut> {
    let fitting = cuts(size).into_iter().filter(|cut| cut.fits(size, limits));
    let cost = |cut: &Cut| rounds(cut.cluster, replicas, limits) * cut.step(size);
    fitting.min_by(|a, b| cost(a).total_cmp(&cost(b)))
}

#[cfg(test)]
mod tests {
    use super::super::{A100, H200, mnist};
    use super::*;

    #[test]
    fn a_wide_network_takes_a_whole_cluster() {
        for (layers, batch) in [(3, 8), (3, 16), (3, 32), (2, 16), (2, 64)] {
            let cut = best(&mnist(layers, 512, batch), 100, &H200).unwrap();
            assert_eq!((cut.units, cut.cluster), (32, 16), "{layers} B {batch}");
        }
        assert_eq!(best(&mnist(3, 512, 96), 100, &H200), None);
        assert_eq!(best(&mnist(2, 1024, 8), 100, &H200), None);
    }

    #[test]
    fn what_registers_cannot_hold_lies_in_the_cache() {
        let wide = best(&mnist(3, 512, 16), 100, &H200).unwrap();
        assert_ne!(wide.far, 0);
        let narrow = best(&mnist(3, 128, 16), 100, &H200).unwrap();
        assert_eq!(narrow.far, 0);
        assert_eq!(narrow.far_velocities(&mnist(3, 128, 16)), 0);
    }

    const BY_HAND: Cut = Cut {
        units: 32,
        cluster: 16,
        warps: 8,
        sum_rows: 16,
        buffers: 1,
        first_shared: 2,
        far: 0b011,
    };

    #[test]
    fn registers_by_hand() {
        let size = mnist(3, 512, 16);
        // 49 and 32 blocks of inputs over 8 warps.
        assert_eq!((BY_HAND.turns(&size, 0), BY_HAND.turns(&size, 1)), (7, 4));
        // 2 × 8 weights a turn: 5 turns of the first layer, 4 turns' velocities of the third.
        assert_eq!(BY_HAND.held(&size), 16 * (5 + 4));
        assert_eq!(BY_HAND.far_velocities(&size), 32 * (784 + 512));
    }

    #[test]
    fn shared_memory_by_hand() {
        let size = mnist(3, 512, 16);
        let behind = 2 * 32 * 512 + 2 * 8 * 512;
        // Parts for all 512 units outdo those of 8 warps for 32.
        let parts = 16 * 512;
        let activations = 2 * 2 * 32 * 16;
        let gradients = 3 * 32 * 16;
        let ends = size.ends(32, 1);
        let floats = behind + parts + activations + gradients;
        assert_eq!(BY_HAND.shared(&size), 4 * floats + ends);
    }

    #[test]
    fn blocks_meet_as_often_as_the_kernel_says() {
        // Forward twice and for the logits; back twice for each of two layers.
        assert_eq!(BY_HAND.meetings(&mnist(3, 512, 16)), 7);
        assert_eq!(BY_HAND.meetings(&mnist(2, 512, 16)), 4);
        // The second half of the rows goes back by itself.
        assert_eq!(BY_HAND.meetings(&mnist(3, 512, 32)), 11);
    }

    #[test]
    fn every_example_has_a_thread() {
        let few_inputs = Size {
            inputs: 16,
            ..mnist(2, 16, 96)
        };
        let cut = best(&few_inputs, 20, &H200).unwrap();
        assert!(32 * cut.warps >= 96, "{cut:?}");
    }

    #[test]
    fn without_clusters_a_block_holds_the_network() {
        assert_eq!(best(&mnist(2, 128, 8), 20, &A100), None);
        assert_eq!(best(&mnist(2, 32, 8), 20, &A100).unwrap().cluster, 1);
    }
}
