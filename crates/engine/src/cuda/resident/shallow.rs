//! How a network with one hidden layer is cut up for `kernels/resident.cu`.

use super::{Fitted, Limits, MOST_WARPS, Size, registers, rounds};
use crate::cuda::launch::Source;

/// Registers that a thread needs besides its velocities. Some more would be used, but
/// what then lies in local memory costs little.
const OTHER_REGISTERS: usize = 16;

/// How a block's share of a network is cut up: macros of the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Cut {
    /// Hidden units of a block.
    units: usize,
    /// Blocks of a run.
    cluster: usize,
    /// Warps along the units.
    unit_warps: usize,
    /// Warps along the inputs.
    input_warps: usize,
    /// Rows of the batch that are summed at a time.
    sum_rows: usize,
    /// Batches in shared memory.
    buffers: usize,
}

impl Cut {
    fn warps(&self) -> usize {
        self.unit_warps * self.input_warps
    }

    /// Registers that hold a thread's velocities.
    fn velocities(&self, size: &Size) -> usize {
        let steps = (size.inputs / 16).div_ceil(self.input_warps);
        8 * steps * (self.units / 16 / self.unit_warps)
    }

    /// Bytes of `struct Shared`.
    fn shared(&self, size: &Size) -> usize {
        let (rows, units) = (size.rows(), self.units);
        let sums = self.input_warps * units * self.sum_rows.min(rows);
        let gradient = units * rows * size.factor();
        4 * (units * size.stride() + sums.max(gradient)) + size.ends(units, self.buffers)
    }

    fn fits(&self, size: &Size, limits: &Limits) -> bool {
        // A thread keeps one example.
        self.cluster <= limits.cluster
            && size.batch <= 32 * self.warps()
            && self.shared(size) <= limits.shared
            && self.velocities(size) + OTHER_REGISTERS <= registers(self.warps())
    }

    /// Microseconds of a step of all replicas, about: as measured on an H200, on which a block took
    /// 7 µs for 32 units at B 8, 16 µs at B 32 and 13 µs for 64 units at B 8.
    fn cost(&self, size: &Size, replicas: usize, limits: &Limits) -> f64 {
        // The warp with most inputs is waited for.
        let steps = (size.inputs / 16).div_ceil(self.input_warps);
        let share = (self.units * 16 * steps * self.input_warps) as f64 / 784.0;
        let work = 1.5 + share * (0.08 + 0.0115 * size.rows() as f64);
        let waiting = 1.0 + 2.0 / self.warps() as f64;
        let passes = 1.0 + 0.5 / self.sum_rows as f64;
        rounds(self.cluster, replicas, limits)
            * (work * waiting * passes - 0.3 * self.buffers as f64)
    }

    pub(super) fn fitted(&self, size: &Size) -> Fitted {
        let macros = [
            ("UNITS", self.units),
            ("CLUSTER", self.cluster),
            ("WARPS", self.warps()),
            ("U_WARPS", self.unit_warps),
            ("K_WARPS", self.input_warps),
            ("SUM_ROWS", self.sum_rows),
            ("X_BUFFERS", self.buffers),
            ("SHARED", self.shared(size)),
        ];
        Fitted {
            kernel: size.kernel(Source::Resident, macros),
            cluster: self.cluster,
            warps: self.warps(),
            shared: self.shared(size),
            far: 0,
        }
    }
}

/// The cut of a network that trains so many replicas fastest, if one fits.
pub(super) fn best(size: &Size, replicas: usize, limits: &Limits) -> Option<Cut> {
    let mut cuts = Vec::new();
    for units in [16, 32, 48, 64] {
        for unit_warps in (1..=units / 16).filter(|warps| (units / 16) % warps == 0) {
            for input_warps in 1..=MOST_WARPS / unit_warps {
                for (sum_rows, buffers) in [(16, 2), (8, 2), (16, 1), (8, 1)] {
                    cuts.push(Cut {
                        units,
                        cluster: size.width.div_ceil(units),
                        unit_warps,
                        input_warps,
                        sum_rows,
                        buffers,
                    });
                }
            }
        }
    }
    cuts.retain(|cut| {
        size.rows().is_multiple_of(cut.sum_rows.min(size.rows())) && cut.fits(size, limits)
    });
    let cost = |cut: &Cut| cut.cost(size, replicas, limits);
    cuts.into_iter().min_by(|a, b| cost(a).total_cmp(&cost(b)))
}

#[cfg(test)]
mod tests {
    use super::super::{A100, H200, mnist};
    use super::*;

    fn one_layer(width: usize, batch: usize) -> Size {
        mnist(1, width, batch)
    }

    #[test]
    fn a_wide_network_takes_a_whole_cluster() {
        let cut = best(&one_layer(1024, 8), 20, &H200).unwrap();
        assert_eq!((cut.units, cut.cluster), (64, 16));
        // 49 blocks of 16 inputs over 7 warps, 2 blocks of 16 units each, 8 velocities a thread.
        assert_eq!((cut.unit_warps, cut.input_warps), (2, 7));
        assert_eq!(cut.velocities(&one_layer(1024, 8)), 112);
        assert_eq!(best(&one_layer(1024, 32), 20, &H200), None);
        assert_eq!(best(&one_layer(2048, 8), 20, &H200), None);
    }

    #[test]
    fn every_example_has_a_thread() {
        let few_inputs = Size {
            inputs: 16,
            ..one_layer(16, 96)
        };
        let cut = best(&few_inputs, 20, &H200).unwrap();
        assert!(32 * cut.warps() >= 96, "{cut:?}");
    }

    #[test]
    fn few_replicas_are_spread_wide() {
        let few = best(&one_layer(128, 8), 8, &H200).unwrap();
        let many = best(&one_layer(128, 8), 128, &H200).unwrap();
        assert!(few.cluster > many.cluster, "{few:?} {many:?}");
    }

    #[test]
    fn without_clusters_a_block_holds_the_network() {
        assert_eq!(best(&one_layer(128, 8), 20, &A100), None);
        assert_eq!(best(&one_layer(32, 8), 20, &A100).unwrap().cluster, 1);
    }
}
