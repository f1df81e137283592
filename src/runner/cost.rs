//! What runs cost: products counted from the network, time from a measured rate.

use anyhow::Result;
use engine::data::{Dataset, Examples, Normalization, Values};
use engine::kernels::Isa;
use engine::train::{Compiled, Training};
use spec::{Record, Run, Study, Width};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// Multiply–adds of one training step. The network of a command is not known: its work
/// is counted in examples.
pub fn step_products(run: &Run) -> f64 {
    let products = run.network().map_or(1, |network| network.step_products());
    products as f64 * f64::from(run.batch_size.get())
}

/// Multiply–adds of a whole run, evaluations included.
pub fn products(run: &Run) -> f64 {
    step_products(run) * run.steps as f64 + evaluation_products(run)
}

/// Multiply–adds of all evaluations of a run.
fn evaluation_products(run: &Run) -> f64 {
    let Ok(network) = run.network() else {
        return 0.0;
    };
    let split = run.setting.content().split;
    let looks = run.setting.evaluation.evaluations(run.steps);
    network.forward_products() as f64 * f64::from(split.test + split.validation) * looks as f64
}

/// How fast one core of this machine trains a network.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Machine {
    /// Seconds per multiply–add.
    rate: f64,
    /// Multiply–adds of one example's share of a step of that network.
    example_products: f64,
}

/// How long a measurement takes.
const MEASURE: Duration = Duration::from_millis(60);

impl Machine {
    /// Times a few steps of a run's network on made-up data.
    pub fn measure(run: &Run) -> Result<Self> {
        Self::measure_for(run, MEASURE)
    }

    /// As `measure` does, for about so long; one step at least. What is told is the fastest
    /// step: other work on the machine can only make a step slower.
    pub fn measure_for(run: &Run, time: Duration) -> Result<Self> {
        let data = made_up(run, [run.batch_size.get() as usize, 1, 1]);
        let compiled = Compiled::new(run)?;
        let mut training = Training::new(run, &data, &compiled, Isa::detect())?;
        training.step();
        let start = Stopwatch::start();
        let mut fastest = Duration::MAX;
        while fastest == Duration::MAX || start.elapsed() < time {
            let step = Stopwatch::start();
            training.step();
            fastest = fastest.min(step.elapsed());
        }
        Ok(Self {
            rate: fastest.as_secs_f64() / step_products(run).max(1.0),
            example_products: example_products(run),
        })
    }

    /// How fast a network trains that was not measured, by the nearest ones that were, which are
    /// sorted by their work: on a straight line between two in the logarithms of time and work,
    /// and as the last one beyond it. `None` where none was measured.
    pub fn between(measured: &[Self], run: &Run) -> Option<Self> {
        let example_products = example_products(run);
        let (smaller, others) = measured
            .split_at(measured.partition_point(|one| one.example_products < example_products));
        let rate = match (smaller.last(), others.first()) {
            (Some(low), Some(high)) => {
                let way = |work: f64| (work / low.example_products).ln();
                let share = way(example_products) / way(high.example_products);
                low.rate * (high.rate / low.rate).powf(share)
            }
            (Some(nearest), None) | (None, Some(nearest)) => nearest.rate,
            (None, None) => return None,
        };
        Some(Self {
            rate,
            example_products,
        })
    }

    /// Seconds that a run of a like network takes on one core, evaluations included.
    pub fn seconds(&self, run: &Run) -> f64 {
        self.rate * products(run)
    }
}

/// Multiply–adds of one example's share of a step.
fn example_products(run: &Run) -> f64 {
    step_products(run) / f64::from(run.batch_size.get())
}

/// Time that a thread has spent on a core, without that in which others were on it.
struct Stopwatch(Duration);

impl Stopwatch {
    fn start() -> Self {
        Self(Self::now())
    }

    fn elapsed(&self) -> Duration {
        Self::now().saturating_sub(self.0)
    }

    #[cfg(unix)]
    fn now() -> Duration {
        use rustix::time::{ClockId, clock_gettime};
        let now = clock_gettime(ClockId::ThreadCPUTime);
        Duration::try_from(now).unwrap_or_default()
    }

    /// Where no such clock is known, the one on the wall.
    #[cfg(not(unix))]
    fn now() -> Duration {
        use std::sync::LazyLock;
        static START: LazyLock<std::time::Instant> = LazyLock::new(std::time::Instant::now);
        START.elapsed()
    }
}

/// What a task trains on, as far as its speed goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeviceKind {
    /// One core of a processor.
    Core,
    /// A GPU.
    Gpu,
    /// The study's own command.
    Command,
}

impl DeviceKind {
    /// Whether a record comes from such a device.
    fn trained(self, record: &Record) -> bool {
        record.device.starts_with(match self {
            Self::Core => "cpu",
            Self::Gpu => "cuda",
            Self::Command => crate::command::DEVICE,
        })
    }
}

/// Where an estimate comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// The study's own records.
    Records,
    /// A few steps on this machine.
    ThisMachine,
    /// A few steps on this machine, and that a GPU is [`ASSUMED_SPEEDUP`] times as fast.
    Assumed,
    /// Nothing: a run of a command is taken to last [`SUPPOSED_SECONDS`].
    Supposed,
}

/// How long a run of the study's own command is taken to last until one has ended.
pub const SUPPOSED_SECONDS: f64 = 120.0;

/// How many times as fast as a core a GPU is taken to be until it has recorded something.
pub const ASSUMED_SPEEDUP: f64 = 50.0;

/// Seconds per multiply–add by width, for sharing out work between machines.
#[derive(Debug, Clone)]
pub struct Rates {
    by_width: BTreeMap<Width, f64>,
    /// Where they come from.
    pub source: Source,
}

impl Rates {
    /// From the records of such a device; where there are none, from a measurement here.
    pub fn of<'a>(
        study: &Study,
        runs: &[Run],
        records: impl IntoIterator<Item = &'a Record>,
        kind: DeviceKind,
    ) -> Result<Self> {
        let mut seen: BTreeMap<Width, Vec<f64>> = BTreeMap::new();
        for record in records.into_iter().filter(|record| kind.trained(record)) {
            let seconds = record.seconds / products(&planned(study, record)).max(1.0);
            seen.entry(record.width).or_default().push(seconds);
        }
        let mut rates = Self {
            by_width: seen.into_iter().map(|(w, all)| (w, median(all))).collect(),
            source: Source::Records,
        };
        rates.measure_others(runs, kind)?;
        Ok(rates)
    }

    /// Widths without a record go by the nearest one that has some; if none has, by
    /// this machine.
    fn measure_others(&mut self, runs: &[Run], kind: DeviceKind) -> Result<()> {
        if !self.by_width.is_empty() {
            return Ok(());
        }
        for (width, run) in middle_runs(runs) {
            let rate = match kind {
                DeviceKind::Core => Machine::measure(run)?.rate,
                DeviceKind::Gpu => Machine::measure(run)?.rate / ASSUMED_SPEEDUP,
                DeviceKind::Command => SUPPOSED_SECONDS / products(run).max(1.0),
            };
            self.by_width.insert(width, rate);
        }
        self.source = match kind {
            DeviceKind::Core => Source::ThisMachine,
            DeviceKind::Gpu => Source::Assumed,
            DeviceKind::Command => Source::Supposed,
        };
        Ok(())
    }

    /// Seconds that a run takes on the device.
    pub fn seconds(&self, run: &Run) -> f64 {
        let distance = |width: &Width| width.get().abs_diff(run.width.get());
        let nearest = self
            .by_width
            .iter()
            .min_by_key(|(width, _)| distance(width));
        nearest.map_or(0.0, |(_, rate)| rate * products(run))
    }
}

/// For each width the run in the middle of its batch sizes.
pub fn middle_runs(runs: &[Run]) -> BTreeMap<Width, &Run> {
    let mut by_width: BTreeMap<Width, Vec<&Run>> = BTreeMap::new();
    for run in runs {
        by_width.entry(run.width).or_default().push(run);
    }
    by_width
        .into_iter()
        .map(|(width, mut runs)| {
            runs.sort_by_key(|run| run.batch_size);
            (width, runs[runs.len() / 2])
        })
        .collect()
}

/// The run of a record, as long as it trained.
fn planned(study: &Study, record: &Record) -> Run {
    Run {
        setting: Arc::clone(&study.setting),
        width: record.width,
        batch_size: record.batch_size,
        learning_rate: record.learning_rate,
        seed: record.seed,
        steps: record.steps_trained(),
    }
}

/// Not the mean: a machine that was busy with something else must not count.
fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
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

#[cfg(test)]
mod tests {
    use super::*;
    use spec::Outcome;

    fn record(run: &Run, seconds: f64, device: &str) -> Record {
        let outcome = Outcome::Trained { test_accuracy: 0.9 };
        Record::new(run, outcome, Vec::new(), seconds, device.into())
    }

    #[test]
    fn records_of_the_same_kind_of_device_tell_what_runs_cost() {
        let study = crate::studies::open("quickstart", &[]).unwrap().study;
        let runs = spec::plan(&study);
        let of = |width: u32| runs.iter().find(|run| run.width.get() == width).unwrap();
        let (narrow, wide) = (of(16), of(96));
        // The median of 1, 2 and 100 seconds; the GPU's second is no core's.
        let records = [
            record(narrow, 1.0, "cpu avx2"),
            record(narrow, 2.0, "cpu avx2"),
            record(narrow, 100.0, "cpu avx2"),
            record(wide, 10.0, "cpu avx2"),
            record(narrow, 0.1, "cuda NVIDIA H200 tf32"),
        ];
        let rates = Rates::of(&study, &runs, &records, DeviceKind::Core).unwrap();
        assert_eq!(rates.source, Source::Records);
        assert!((rates.seconds(narrow) - 2.0).abs() < 1e-9);
        assert!((rates.seconds(wide) - 10.0).abs() < 1e-9);
        // 24 is nearer to 16 than to 96.
        let between = of(24);
        let expected = 2.0 * products(between) / products(narrow);
        assert!((rates.seconds(between) - expected).abs() < 1e-9);
        let gpu = Rates::of(&study, &runs, &records, DeviceKind::Gpu).unwrap();
        assert!((gpu.seconds(narrow) - 0.1).abs() < 1e-9);
    }

    /// On a straight line of the logarithms: at the geometric mean of the work, that of the times.
    #[test]
    fn what_is_not_measured_lies_between_what_is() {
        let study = crate::studies::open("quickstart", &[]).unwrap().study;
        let run = spec::plan(&study).swap_remove(0);
        let work = example_products(&run);
        let machine = |rate, share: f64| Machine {
            rate,
            example_products: share * work,
        };
        let measured = [machine(8.0, 0.25), machine(2.0, 4.0), machine(1.0, 16.0)];
        let rate = |measured: &[Machine]| Machine::between(measured, &run).map(|one| one.rate);
        assert!((rate(&measured).unwrap() - 4.0).abs() < 1e-12);
        assert_eq!(rate(&measured[..1]), Some(8.0));
        assert_eq!(rate(&measured[1..]), Some(2.0));
        assert_eq!(rate(&[machine(3.0, 1.0)]), Some(3.0));
        assert_eq!(rate(&[]), None);
    }

    #[test]
    fn without_records_this_machine_is_measured() {
        let study = crate::studies::open("quickstart", &[]).unwrap().study;
        let runs = spec::plan(&study);
        for (kind, source) in [
            (DeviceKind::Core, Source::ThisMachine),
            (DeviceKind::Gpu, Source::Assumed),
        ] {
            let rates = Rates::of(&study, &runs, [], kind).unwrap();
            assert_eq!(rates.source, source);
            assert!(runs.iter().all(|run| rates.seconds(run) > 0.0));
        }
    }
}
