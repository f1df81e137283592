//! How fast this machine trains the networks of studies, as `check` and `list` tell it.
//!
//! The time of a multiply–add is not one number: it is ten times as long in a tiny network
//! as in one that fills the kernels, and longer at small batches where all layers are dense.
//! So it is measured at a study's widths or some of them, at the batch size in the middle
//! of its runs, and taken to lie on straight lines between them, in the logarithms of time
//! and work.

use crate::runner::{Machine, middle_runs, step_products};
use anyhow::Result;
use spec::{BatchSize, Layer, Network, Run, Width};
use std::collections::BTreeMap;
use std::time::Duration;

/// How much is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effort {
    /// Every width, for one study.
    EveryWidth,
    /// The first, the middle and the last width, for a table of many studies.
    SomeWidths,
}

impl Effort {
    /// For how long one network is timed.
    fn time(self) -> Duration {
        match self {
            Self::EveryWidth => Duration::from_millis(60),
            Self::SomeWidths => Duration::from_millis(10),
        }
    }

    /// Multiply–adds of the largest step that is timed: some hundredths of a second, or tenths.
    /// The weights of such a network are beyond the caches, and larger ones go on at its pace;
    /// to set one of them up can take a minute and gigabytes.
    fn most_products(self) -> f64 {
        match self {
            Self::EveryWidth => 1e10,
            Self::SomeWidths => 1.5e9,
        }
    }

    fn has(self, place: usize, of: usize) -> bool {
        match self {
            Self::EveryWidth => true,
            Self::SomeWidths => [0, of / 2, of - 1].contains(&place),
        }
    }
}

/// Convolutions are timed at this batch size at most: an example of theirs takes as long
/// in any batch.
const MOST_CONVOLVED: u32 = 16;

/// What has been measured, for studies that train the same networks.
pub struct Speeds {
    effort: Effort,
    known: Vec<Known>,
}

struct Known {
    network: Network,
    batch_size: BatchSize,
    machine: Machine,
}

impl Speeds {
    /// Nothing so far.
    pub fn new(effort: Effort) -> Self {
        Self {
            effort,
            known: Vec::new(),
        }
    }

    /// How fast each width of these runs trains.
    pub fn of(&mut self, runs: &[Run]) -> Result<BTreeMap<Width, Machine>> {
        let typical: Vec<Run> =
            (middle_runs(runs).into_values().map(typical)).collect::<Result<_>>()?;
        // The narrowest is measured whatever it costs.
        let most = self.effort.most_products();
        let affordable = typical
            .partition_point(|run| step_products(run) <= most)
            .max(1);
        let mut measured = Vec::new();
        for (place, run) in typical.iter().take(affordable).enumerate() {
            if self.effort.has(place, affordable) {
                measured.push(self.machine(run)?);
            }
        }
        Ok(typical
            .iter()
            .filter_map(|run| Some((run.width, Machine::between(&measured, run)?)))
            .collect())
    }

    fn machine(&mut self, run: &Run) -> Result<Machine> {
        let network = run.network()?;
        let known = (self.known.iter())
            .find(|known| known.network == network && known.batch_size == run.batch_size);
        if let Some(known) = known {
            return Ok(known.machine);
        }
        let machine = Machine::measure_for(run, self.effort.time())?;
        self.known.push(Known {
            network,
            batch_size: run.batch_size,
            machine,
        });
        Ok(machine)
    }
}

/// The run that is timed for those of its width.
fn typical(run: &Run) -> Result<Run> {
    let mut convolves = false;
    run.network()?
        .visit(&mut |layer, _| convolves |= matches!(layer, Layer::Conv { .. }));
    let most = match convolves {
        true => MOST_CONVOLVED.min(run.batch_size.get()),
        false => run.batch_size.get(),
    };
    Ok(Run {
        batch_size: BatchSize::new(most)?,
        ..run.clone()
    })
}
