//! Networks with one hidden layer, trained for many steps without leaving the chip.
//!
//! A cluster of blocks trains one run: each block keeps a slice of the hidden units, weights in
//! shared memory and velocities in registers. `kernels/resident.cu` says how; here it is decided
//! whether a network fits, and how it is cut up.

use super::args::{PicksArgs, ResidentArgs};
use super::blueprint::{Affine, Blueprint, Op};
use super::emit::{Part, Setup};
use super::launch::{Kernel, Launch, Memory, Source};
use super::product::Precision;
use spec::{Augmentation, UpdateRule};

/// What a GPU offers to one block, and how many there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of shared memory.
    pub shared: usize,
    /// Most blocks of a cluster; 1 where there are no clusters.
    pub cluster: usize,
    /// Multiprocessors.
    pub processors: usize,
}

/// GPUs that tests cut networks for.
#[cfg(test)]
pub const H200: Limits = Limits {
    shared: 232_448,
    cluster: 16,
    processors: 132,
};
#[cfg(test)]
pub const A100: Limits = Limits {
    shared: 166_912,
    cluster: 1,
    processors: 108,
};

/// Most classes: a row of logits is held by so many lanes.
const MOST_CLASSES: usize = 16;
/// Largest batch for which it pays: beyond it, products take longer than moving weights.
const MOST_BATCH: usize = 96;
/// Registers of a multiprocessor, and of a thread at most.
const REGISTERS: usize = 65_536;
const MOST_REGISTERS: usize = 255;
/// Most warps of a block.
const MOST_WARPS: usize = 16;
/// Registers that a thread needs besides its velocities. Some more would be used, but
/// what then lies in local memory costs little.
const OTHER_REGISTERS: usize = 16;
/// Examples drawn ahead for one run in one launch.
const PICKS_AHEAD: usize = 1 << 15;
/// Most steps of one launch.
const MOST_STEPS: usize = 2048;
/// Multiprocessors among which a cluster must find its place.
const NEIGHBOURHOOD: usize = 16;

/// How a block's share of a network is cut up: macros of the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Cut {
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

/// What is cut up.
#[derive(Debug, Clone, Copy)]
struct Size {
    inputs: usize,
    width: usize,
    classes: usize,
    batch: usize,
    precision: Precision,
    rule: UpdateRule,
}

impl Size {
    /// Rows of a batch, padding included.
    fn rows(&self) -> usize {
        self.batch.next_multiple_of(8)
    }

    /// Terms of a product's factors.
    fn terms(&self) -> usize {
        match self.precision {
            Precision::Tf32 => 1,
            Precision::Fp32 => 3,
        }
    }
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

    /// Registers that a thread may have: warps get theirs by fours.
    fn registers(&self) -> usize {
        let threads = 32 * self.warps().next_multiple_of(4);
        (REGISTERS / threads / 8 * 8).min(MOST_REGISTERS)
    }

    /// Bytes of `struct Shared`.
    fn shared(&self, size: &Size) -> usize {
        let (rows, units, classes) = (size.rows(), self.units, size.classes);
        let stride = size.inputs + if size.inputs % 32 == 16 { 0 } else { 16 };
        let sums = self.input_warps * units * self.sum_rows.min(rows);
        let gradient = units * rows * size.terms().min(2);
        let rest = 2 * (units * classes + units + classes);
        let logits = 4 * rows * classes;
        let floats = units * stride + sums.max(gradient) + units * (rows + 1) + rest + logits;
        let (inputs, picks, alignment) = (self.buffers * rows * stride, 16 * size.batch, 64);
        4 * floats + inputs + picks + alignment
    }

    fn fits(&self, size: &Size, limits: &Limits) -> bool {
        // A thread keeps one example.
        self.cluster <= limits.cluster
            && size.batch <= 32 * self.warps()
            && self.shared(size) <= limits.shared
            && self.velocities(size) + OTHER_REGISTERS <= self.registers()
    }

    /// Microseconds of a step of all replicas, about: as measured on an H200, on which a block took
    /// 7 µs for 32 units at B 8, 16 µs at B 32 and 13 µs for 64 units at B 8.
    fn cost(&self, size: &Size, replicas: usize, limits: &Limits) -> f64 {
        let places = (limits.processors / NEIGHBOURHOOD).max(1) * (NEIGHBOURHOOD / self.cluster);
        let turns = replicas.div_ceil(places) as f64;
        // The warp with most inputs is waited for.
        let steps = (size.inputs / 16).div_ceil(self.input_warps);
        let share = (self.units * 16 * steps * self.input_warps) as f64 / 784.0;
        let work = 1.5 + share * (0.08 + 0.0115 * size.rows() as f64);
        let waiting = 1.0 + 2.0 / self.warps() as f64;
        let passes = 1.0 + 0.5 / self.sum_rows as f64;
        turns * (work * waiting * passes - 0.3 * self.buffers as f64)
    }
}

/// The cut of a network that trains so many replicas fastest, if one fits.
fn best(size: &Size, replicas: usize, limits: &Limits) -> Option<Cut> {
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

/// A network in its place on the chip, with all that its launches need.
#[derive(Debug, Clone)]
pub struct Resident {
    kernel: Kernel,
    cut: Cut,
    size: Size,
    args: ResidentArgs,
    picks: PicksArgs,
    replicas: usize,
}

impl Resident {
    /// The network of a cohort, if it is one that fits on the chip.
    pub fn fit(
        setup: &Setup<'_>,
        data: Part,
        batch: usize,
        limits: &Limits,
        memory: &mut Memory,
    ) -> Option<Self> {
        let (first, second) = one_hidden_layer(setup.print)?;
        let planes = &setup.print.planes;
        let size = Size {
            inputs: planes[0].image(),
            width: planes[1].shape.channels,
            classes: setup.print.classes,
            batch,
            precision: setup.precision,
            rule: setup.optimizer.rule,
        };
        let plain = setup.regularizers.augmentation == Augmentation::default();
        let one_channel = data.args.bytes != 0 && data.args.channels == 1;
        let small = size.classes <= MOST_CLASSES && batch <= MOST_BATCH;
        if !(plain && one_channel && small && size.inputs.is_multiple_of(16)) {
            return None;
        }
        let cut = best(&size, setup.replicas, limits)?;
        let most_steps = (PICKS_AHEAD / batch).clamp(1, MOST_STEPS);
        let picks = memory.take(2 * setup.replicas * most_steps * batch);
        let bias = |affine: &Affine, rows: usize, columns: usize| match affine.bias {
            true => (affine.weight + rows * columns) as i64,
            false => -1,
        };
        let columns = [planes[1].pixel, planes[2].pixel];
        let args = ResidentArgs {
            bytes: data.args.bytes,
            offset: data.args.offset,
            factor: data.args.factor,
            picks,
            replicas: setup.common.replicas,
            weights: setup.common.weights.values,
            velocity: setup.common.velocity,
            weights_replica: setup.common.weights.replica,
            first_weight: first.weight as i64,
            first_bias: bias(first, size.inputs, columns[0]),
            second_weight: second.weight as i64,
            second_bias: bias(second, columns[0], columns[1]),
            columns: columns.map(|columns| columns as i32),
            steps: 0,
            most_steps: most_steps as i32,
            first_scale: first.scale,
            second_scale: second.scale,
            smoothing: setup.regularizers.label_smoothing as f32,
            descent: setup.descent(),
            pad: 0,
        };
        let picks = PicksArgs {
            labels: data.args.labels,
            replicas: setup.common.replicas,
            picks,
            examples: data.examples as u32,
            batch: batch as i32,
            steps: 0,
            most_steps: most_steps as i32,
        };
        Some(Self {
            kernel: kernel(&cut, &size),
            cut,
            size,
            args,
            picks,
            replicas: setup.replicas,
        })
    }

    /// Most steps of one launch.
    pub fn most_steps(&self) -> u64 {
        self.args.most_steps as u64
    }

    /// Takes so many steps.
    pub fn launches(&self, steps: u64) -> [Launch; 2] {
        let picks = PicksArgs {
            steps: steps as i32,
            ..self.picks
        };
        let count = steps as usize * self.size.batch;
        let grid = [count.div_ceil(128), 1, self.replicas];
        let draw = Launch::new(
            Kernel::plain(Source::Batch, "draw_picks"),
            grid,
            128,
            &picks,
        );
        let args = ResidentArgs {
            steps: steps as i32,
            ..self.args
        };
        let grid = [self.cut.cluster * self.replicas, 1, 1];
        let mut train = Launch::new(self.kernel.clone(), grid, 32 * self.cut.warps(), &args);
        train.shared = self.cut.shared(&self.size);
        train.cluster = self.cut.cluster;
        [draw, train]
    }
}

fn kernel(cut: &Cut, size: &Size) -> Kernel {
    let values = [
        ("INPUTS", size.inputs),
        ("UNITS", cut.units),
        ("CLUSTER", cut.cluster),
        ("CLASSES", size.classes),
        ("BATCH", size.batch),
        ("U_WARPS", cut.unit_warps),
        ("K_WARPS", cut.input_warps),
        ("SUM_ROWS", cut.sum_rows),
        ("X_BUFFERS", cut.buffers),
        ("TERMS", size.terms()),
        ("NESTEROV", usize::from(size.rule == UpdateRule::Nesterov)),
        ("SHARED", cut.shared(size)),
    ];
    Kernel {
        source: Source::Resident,
        function: "train_resident",
        defines: values.map(|(name, value)| (name, value as u32)).to_vec(),
    }
}

/// The two layers of a network that is input, dense with activation, dense.
fn one_hidden_layer(print: &Blueprint) -> Option<(&Affine, &Affine)> {
    let [first, second] = &print.nodes[..] else {
        return None;
    };
    match (&first.op, &second.op) {
        (Op::Affine(hidden), Op::Affine(readout))
            if hidden.dense && hidden.relu && readout.dense && !readout.relu =>
        {
            Some((hidden, readout))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mnist(width: usize, batch: usize) -> Size {
        Size {
            inputs: 784,
            width,
            classes: 10,
            batch,
            precision: Precision::Tf32,
            rule: UpdateRule::Nesterov,
        }
    }

    #[test]
    fn a_wide_network_takes_a_whole_cluster() {
        let cut = best(&mnist(1024, 8), 20, &H200).unwrap();
        assert_eq!((cut.units, cut.cluster), (64, 16));
        // 49 blocks of 16 inputs over 7 warps, 2 blocks of 16 units each, 8 velocities a thread.
        assert_eq!((cut.unit_warps, cut.input_warps), (2, 7));
        assert_eq!(cut.velocities(&mnist(1024, 8)), 112);
        assert_eq!(best(&mnist(1024, 32), 20, &H200), None);
        assert_eq!(best(&mnist(2048, 8), 20, &H200), None);
    }

    #[test]
    fn every_example_has_a_thread() {
        let few_inputs = Size {
            inputs: 16,
            ..mnist(16, 96)
        };
        let cut = best(&few_inputs, 20, &H200).unwrap();
        assert!(32 * cut.warps() >= 96, "{cut:?}");
    }

    #[test]
    fn few_replicas_are_spread_wide() {
        let few = best(&mnist(128, 8), 8, &H200).unwrap();
        let many = best(&mnist(128, 8), 128, &H200).unwrap();
        assert!(few.cluster > many.cluster, "{few:?} {many:?}");
    }

    #[test]
    fn without_clusters_a_block_holds_the_network() {
        assert_eq!(best(&mnist(128, 8), 20, &A100), None);
        assert_eq!(best(&mnist(32, 8), 20, &A100).unwrap().cluster, 1);
    }
}
