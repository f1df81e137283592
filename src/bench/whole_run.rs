//! What a run costs besides its steps, put together from its parts.

use super::{EXAMPLES, SLICES, case};
use crate::runner::made_up;
use anyhow::Result;
use engine::batch::Order;
use engine::kernels::Isa;
use engine::train::{Compiled, Training};
use ledger::Ledger;
use serde::Serialize;
use spec::Outcome;
use spec::time::TimeBounds;
use std::fmt;
use std::time::Instant;

/// A run of a quarter of the paper's time on MNIST.
#[derive(Serialize)]
pub struct WholeRun {
    name: &'static str,
    steps: u64,
    evaluations: usize,
    seconds: f64,
    /// Shares of these seconds.
    order: f64,
    evaluation: f64,
    record: f64,
}

/// Steps that are timed at once.
const STEPS: u64 = 200;

impl WholeRun {
    /// Times the parts, each at its fastest.
    pub fn measure(isa: Isa) -> Result<Self> {
        let case = case("1LP_512 B16", "mnist-1lp", 512, 16);
        let mut run = case.run()?;
        let split = run.setting.content().split;
        let quarter = TimeBounds {
            epochs: 30.0,
            steps: 0,
        };
        run.steps = quarter.steps(split.train, run.batch_size);
        let counts = [EXAMPLES, split.validation as usize, split.test as usize];
        let (data, compiled) = (made_up(&run, counts), Compiled::new(&run)?);
        let mut training = Training::new(&run, &data, &compiled, isa)?;
        let record = training.record(Outcome::Trained { test_accuracy: 0.5 });
        let folder = std::env::temp_dir().join(format!("noisescale-bench-{}", std::process::id()));
        let mut writer = Ledger::create(&folder)?.writer()?;
        let mut shuffle = Order::new(0, split.train, case.batch);
        let mut indices = vec![0; case.batch as usize];
        let [mut step, mut order, mut evaluation, mut append] = [f64::INFINITY; 4];
        for _ in 0..SLICES {
            fastest(&mut step, || {
                for _ in 0..STEPS {
                    training.step();
                }
            });
            fastest(&mut order, || {
                (0..STEPS).for_each(|at| shuffle.batch(at, &mut indices));
            });
            fastest(&mut evaluation, || {
                training.accuracy(&data.test);
                training.accuracy(&data.validation);
            });
            let mut written = Ok(());
            fastest(&mut append, || written = writer.append(&record));
            written?;
        }
        std::fs::remove_dir_all(&folder)?;
        let evaluations = run.setting.evaluation.schedule(run.steps).len();
        let (parts, looks) = (run.steps as f64 / STEPS as f64, evaluations as f64);
        let seconds = parts * step + looks * evaluation + append;
        Ok(Self {
            name: case.name,
            steps: run.steps,
            evaluations,
            seconds,
            order: parts * order / seconds,
            evaluation: looks * evaluation / seconds,
            record: append / seconds,
        })
    }
}

/// Keeps the least time that some work took.
fn fastest(best: &mut f64, work: impl FnOnce()) {
    let start = Instant::now();
    work();
    *best = best.min(start.elapsed().as_secs_f64());
}

impl fmt::Display for WholeRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "A quarter-length MNIST run, {} for {} steps: {:.0} s, of which the order of the \
             examples takes {:.1} %, {} evaluations {:.1} %, the record {:.2} %.",
            self.name,
            self.steps,
            self.seconds,
            100.0 * self.order,
            self.evaluations,
            100.0 * self.evaluation,
            100.0 * self.record
        )
    }
}
