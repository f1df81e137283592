//! What runs cost: products counted from the network, time from a measured rate.

use anyhow::Result;
use engine::data::{Dataset, Examples, Normalization, Values};
use engine::kernels::Isa;
use engine::train::{Compiled, Training};
use spec::Run;
use std::time::{Duration, Instant};

/// Multiply–adds of one training step. The network of a command is not known: its work
/// is counted in examples.
pub fn step_products(run: &Run) -> f64 {
    let products = run.network().map_or(1, |network| network.step_products());
    products as f64 * f64::from(run.batch_size.get())
}

/// Multiply–adds of all evaluations of a run.
pub fn evaluation_products(run: &Run) -> f64 {
    let Ok(network) = run.network() else {
        return 0.0;
    };
    let split = run.setting.content().split;
    let looks = run.setting.evaluation.schedule(run.steps).len();
    network.forward_products() as f64 * f64::from(split.test + split.validation) * looks as f64
}

/// How fast one core of this machine trains a network.
#[derive(Debug, Clone, Copy)]
pub struct Machine {
    seconds_per_step: f64,
    step_products: f64,
}

/// How long a measurement takes.
const MEASURE: Duration = Duration::from_millis(60);

impl Machine {
    /// Times a few steps of a run's network on made-up data.
    pub fn measure(run: &Run) -> Result<Self> {
        let data = made_up(run, [run.batch_size.get() as usize, 1, 1]);
        let compiled = Compiled::new(run)?;
        let mut training = Training::new(run, &data, &compiled, Isa::detect())?;
        training.step();
        let start = Instant::now();
        let mut steps = 0;
        while steps == 0 || start.elapsed() < MEASURE {
            training.step();
            steps += 1;
        }
        let seconds_per_step = start.elapsed().as_secs_f64() / f64::from(steps);
        Ok(Self {
            seconds_per_step,
            step_products: step_products(run),
        })
    }

    /// Seconds that a run of a like network takes on one core, evaluations included.
    pub fn seconds(&self, run: &Run) -> f64 {
        let rate = self.seconds_per_step / self.step_products.max(1.0);
        rate * (step_products(run) * run.steps as f64 + evaluation_products(run))
    }
}

/// Examples of the right shape for a run, so many of each kind.
pub fn made_up(run: &Run, [train, validation, test]: [usize; 3]) -> Dataset {
    let content = run.setting.content();
    let examples = |count: usize| Examples {
        values: Values::Bytes(
            (0..count * content.shape.size())
                .map(|i| (i * 37) as u8)
                .collect(),
        ),
        labels: (0..count).map(|i| (i % content.classes) as u16).collect(),
    };
    let channels = content.shape.channels;
    Dataset {
        shape: content.shape,
        classes: content.classes,
        normalization: Normalization {
            offset: vec![127.5; channels],
            factor: vec![1.0 / 255.0; channels],
        },
        train: examples(train),
        validation: examples(validation),
        test: examples(test),
    }
}
