//! What every device must do, each test one body for all of them: train what a supply gives, whatever
//! the company and wherever it is stopped, and say how each run ended.

#[cfg(feature = "cuda")]
mod emulator;

use engine::checkpoint::Checkpoint;
use engine::data::{self, Dataset, Store};
use engine::kernels::Isa;
use engine::pool::{Pool, Supply};
use engine::train::Progress;
use spec::{BatchSize, Outcome, Override, Record, Run, RunId, Study};
use std::collections::HashMap;
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Mutex;
use std::time::Duration;

/// A test of each body on each device.
macro_rules! on_every_device {
    ($($body:ident),* $(,)?) => {
        mod cpu {
            $(#[test]
            fn $body() {
                super::$body(&super::Device::cpu());
            })*
        }
        #[cfg(feature = "cuda")]
        mod cuda {
            $(#[test]
            fn $body() {
                if let Some(device) = super::Device::cuda() {
                    super::$body(&device);
                }
            })*
        }
    };
}

on_every_device!(
    outcomes_are_recorded,
    company_does_not_matter,
    a_stopped_run_goes_on_with_the_same_bits,
    a_foreign_checkpoint_is_left_aside,
    a_checkpoint_from_beyond_the_end_is_left_aside,
    data_of_another_shape_are_refused,
    an_error_ends_the_other_runs,
    a_panic_ends_the_other_runs,
);

enum Device {
    Cpu(Pool),
    #[cfg(feature = "cuda")]
    Cuda(engine::cuda::Gpus),
}

impl Device {
    fn cpu() -> Self {
        Self::Cpu(Pool {
            isa: Isa::detect(),
            threads: 2,
        })
    }

    /// A GPU, or an emulated one.
    #[cfg(feature = "cuda")]
    fn cuda() -> Option<Self> {
        use engine::cuda::{Gpus, Precision};
        let device = emulator::Gpu::open()?.into_device();
        Some(Self::Cuda(Gpus::new(vec![device], Precision::Fp32)))
    }

    fn try_train(&self, data: &Dataset, supply: &dyn Supply) -> Result<(), String> {
        match self {
            Self::Cpu(pool) => pool.train(data, supply).map_err(|error| error.to_string()),
            #[cfg(feature = "cuda")]
            Self::Cuda(gpus) => gpus.train(data, supply).map_err(|error| error.to_string()),
        }
    }

    /// Records of these runs, in their order.
    fn train(&self, runs: &[Run]) -> Vec<Record> {
        let desk = Desk::new(runs);
        self.try_train(&digits(), &desk).unwrap();
        desk.into_records(runs)
    }

    /// How far results of a run may differ by its company.
    fn rounding(&self) -> f64 {
        match self {
            Self::Cpu(_) => 0.0,
            #[cfg(feature = "cuda")]
            Self::Cuda(_) => 1e-3,
        }
    }
}

/// A supply that stops runs where it is told, and keeps what they saved.
struct Desk {
    waiting: Mutex<Vec<Run>>,
    records: Mutex<HashMap<RunId, Record>>,
    saved: Mutex<HashMap<RunId, Checkpoint>>,
    stop_at: u64,
    panic_at: Option<RunId>,
}

impl Desk {
    fn new(runs: &[Run]) -> Self {
        Self {
            waiting: Mutex::new(runs.to_vec()),
            records: Mutex::default(),
            saved: Mutex::default(),
            stop_at: u64::MAX,
            panic_at: None,
        }
    }

    fn into_records(self, runs: &[Run]) -> Vec<Record> {
        let mut records = self.records.into_inner().unwrap();
        runs.iter()
            .map(|run| records.remove(&run.id()).expect("every run has ended"))
            .collect()
    }
}

impl Supply for Desk {
    fn take(&self) -> Option<Run> {
        let mut waiting = self.waiting.lock().unwrap();
        (!waiting.is_empty()).then(|| waiting.remove(0))
    }

    fn take_alike(&self, run: &Run, most: usize) -> Vec<Run> {
        let mut waiting = self.waiting.lock().unwrap();
        let alike = |other: &mut Run| other.shares_cohort(run);
        waiting.extract_if(.., alike).take(most).collect()
    }

    fn resume(&self, run: &Run) -> Option<Checkpoint> {
        self.saved.lock().unwrap().remove(&run.id())
    }

    fn advanced(&self, run: &Run, progress: &Progress) -> ControlFlow<()> {
        assert!(self.panic_at != Some(run.id()), "on purpose");
        match progress.step >= self.stop_at {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    }

    fn wants_checkpoint(&self, _: Duration) -> bool {
        false
    }

    fn save(&self, run: &Run, checkpoint: Checkpoint, _: Duration) {
        self.saved.lock().unwrap().insert(run.id(), checkpoint);
    }

    fn ended(&self, run: &Run, record: Record) {
        let before = self.records.lock().unwrap().insert(run.id(), record);
        assert!(before.is_none(), "a run ends once");
    }
}

const STUDY: &str = r#"
[task]
dataset = "digits"
[family]
kind = "mlp"
hidden = [1, 1]
widths = [24]
scheme = "ntk"
[search]
kind = "batch-size"
learning_rate = 1.0
batch_sizes = [16]
[regularizers]
dropout = 0.05
crop_padding = 1
flip = false
[time]
epochs = 3
"#;

/// One epoch, and no run is given up before its end.
const SHORT: [&str; 2] = ["time.epochs=1", "time.stall_after=1.0"];

fn runs(changes: &[&str], seeds: u32) -> Vec<Run> {
    let overrides: Vec<Override> = changes
        .iter()
        .map(|change| Override::parse(change).unwrap())
        .collect();
    let mut study = Study::parse("test", Path::new("test"), STUDY, &overrides).unwrap();
    study.seeds = seeds;
    spec::plan(&study)
}

fn digits() -> Dataset {
    let setting = &runs(&[], 1)[0].setting;
    data::load(&setting.task, &Store::at("unused")).unwrap()
}

/// All that a record says of the result, time and device left out.
fn result(record: &Record) -> String {
    serde_json::to_string(&(&record.run, &record.outcome, &record.curve)).unwrap()
}

/// Runs that differ in how they end: each is told by its own record, though they share a cohort.
fn outcomes_are_recorded(device: &Device) {
    // A huge rate overflows at once. A tiny one never leaves chance.
    let changes = [
        "search.learning_rate=1.0",
        "search.learning_rate=1e30",
        "search.learning_rate=1e-9",
    ];
    let runs: Vec<Run> = changes
        .iter()
        .flat_map(|change| runs(&[change, "time.stall_accuracy=0.3"], 1))
        .collect();
    let records = device.train(&runs);
    let [trained, diverged, stalled] = &records[..] else {
        panic!("three runs, {} records", records.len());
    };
    // 3 · 1197 / 16 = 224.4: 225 steps, looked at twenty times.
    assert!(
        matches!(trained.outcome, Outcome::Trained { test_accuracy } if test_accuracy > 0.5),
        "{:?}",
        trained.outcome
    );
    assert_eq!((trained.steps, trained.curve.len()), (225, 20));
    assert!(trained.curve[19].training_loss < trained.curve[0].training_loss);
    // The curve holds no number that is not finite.
    assert!(
        matches!(diverged.outcome, Outcome::Diverged { step } if step < 10),
        "{:?}",
        diverged.outcome
    );
    let losses = diverged.curve.iter().map(|point| point.training_loss);
    assert!(losses.flatten().all(|loss| loss.is_finite()));
    // Stopped at the first look beyond 20 % of 225 steps.
    assert!(
        matches!(stalled.outcome, Outcome::Stalled { step: 57, .. }),
        "{:?}",
        stalled.outcome
    );
}

/// Seeds and learning rates that are trained together give what each gives alone.
fn company_does_not_matter(device: &Device) {
    let mut all = runs(&SHORT, 2);
    all.extend(runs(
        &[&SHORT[..], &["search.learning_rate=0.5"]].concat(),
        1,
    ));
    let together = device.train(&all);
    for (run, expected) in all.iter().zip(&together) {
        let alone = &device.train(std::slice::from_ref(run))[0];
        let bound = device.rounding();
        if bound == 0.0 {
            assert_eq!(result(alone), result(expected));
        }
        let (curve, others) = (&alone.curve, &expected.curve);
        assert_eq!(curve.len(), others.len());
        for (point, other) in curve.iter().zip(others) {
            let (loss, expected) = (point.training_loss.unwrap(), other.training_loss.unwrap());
            assert!(
                (loss / expected - 1.0).abs() <= bound,
                "{loss} against {expected}"
            );
        }
    }
    let losses: Vec<_> = together
        .iter()
        .map(|record| record.curve[0].training_loss)
        .collect();
    assert!(
        losses[0] != losses[1] && losses[0] != losses[2],
        "seeds and rates are each run's own: {losses:?}"
    );
}

fn a_stopped_run_goes_on_with_the_same_bits(device: &Device) {
    let runs = runs(&SHORT, 2);
    let whole: Vec<String> = device.train(&runs).iter().map(result).collect();
    for stop_at in [1, 37] {
        let mut desk = Desk::new(&runs);
        desk.stop_at = stop_at;
        device.try_train(&digits(), &desk).unwrap();
        let saved = desk.saved.into_inner().unwrap();
        assert_eq!(saved.len(), 2, "both are saved");
        assert!(desk.records.into_inner().unwrap().is_empty());
        // As they would be read from their files.
        let read = saved.into_iter().map(|(run, saved)| {
            assert!(saved.progress.step >= stop_at);
            let bytes = saved.to_bytes().unwrap();
            (run, Checkpoint::from_bytes(&bytes).unwrap())
        });
        let mut desk = Desk::new(&runs);
        desk.saved = Mutex::new(read.collect());
        device.try_train(&digits(), &desk).unwrap();
        let resumed: Vec<String> = desk.into_records(&runs).iter().map(result).collect();
        assert_eq!(resumed, whole, "stopped at {stop_at}");
    }
}

#[test]
fn the_processor_gives_the_same_bits_with_any_number_of_threads() {
    let runs = runs(&[], 5);
    let train = |threads| {
        let isa = Isa::detect();
        let records = Device::Cpu(Pool { isa, threads }).train(&runs);
        records.iter().map(result).collect::<Vec<String>>()
    };
    let one = train(1);
    assert_eq!(one, train(2));
    assert_eq!(one, train(4));
    assert!(
        one.windows(2).all(|pair| pair[0] != pair[1]),
        "seeds differ"
    );
}

/// Another run's state is not gone on from.
fn a_foreign_checkpoint_is_left_aside(device: &Device) {
    let runs = runs(&SHORT, 2);
    let mut desk = Desk::new(&runs[..1]);
    desk.stop_at = 20;
    device.try_train(&digits(), &desk).unwrap();
    let saved = desk.saved.into_inner().unwrap();
    let foreign = saved.into_values().next().expect("it was stopped");
    let mut desk = Desk::new(&runs[1..]);
    desk.saved = Mutex::new([(runs[1].id(), foreign)].into());
    device.try_train(&digits(), &desk).unwrap();
    let record = &desk.into_records(&runs[1..])[0];
    assert_eq!(result(record), result(&device.train(&runs[1..])[0]));
}

/// Nor is a state that no run can be in.
fn a_checkpoint_from_beyond_the_end_is_left_aside(device: &Device) {
    let runs = runs(&SHORT, 1);
    let mut desk = Desk::new(&runs);
    desk.stop_at = 20;
    device.try_train(&digits(), &desk).unwrap();
    let mut saved = desk.saved.into_inner().unwrap();
    saved.get_mut(&runs[0].id()).unwrap().progress.step = runs[0].steps + 1;
    let mut desk = Desk::new(&runs);
    desk.saved = Mutex::new(saved);
    device.try_train(&digits(), &desk).unwrap();
    let record = &desk.into_records(&runs)[0];
    assert_eq!(result(record), result(&device.train(&runs)[0]));
}

fn data_of_another_shape_are_refused(device: &Device) {
    let run = &runs(&[], 1)[0];
    let mut data = digits();
    data.shape.height /= 2;
    let refused = device.try_train(&data, &Desk::new(std::slice::from_ref(run)));
    let reason = refused.expect_err("8×8 was planned");
    assert!(reason.contains("64"), "{reason}");
}

/// Two runs, the first so long that it only ends if it is stopped.
fn long_and_short() -> Vec<Run> {
    let long = ["time.epochs=2000", "time.stall_after=1.0"];
    [runs(&long, 1), runs(&SHORT, 1)].concat()
}

/// The others do not go on for hours before it is told.
fn an_error_ends_the_other_runs(device: &Device) {
    let mut runs = long_and_short();
    // More than there are examples.
    runs[1].batch_size = BatchSize::new(4096).unwrap();
    let desk = Desk::new(&runs);
    let reason = device.try_train(&digits(), &desk).unwrap_err();
    assert!(reason.contains("4096"), "{reason}");
    assert!(desk.records.into_inner().unwrap().is_empty());
}

/// A panic is a bug, and still nobody waits for what it held.
fn a_panic_ends_the_other_runs(device: &Device) {
    let runs = long_and_short();
    let mut desk = Desk::new(&runs);
    desk.panic_at = Some(runs[1].id());
    let train = AssertUnwindSafe(|| device.try_train(&digits(), &desk));
    assert!(catch_unwind(train).is_err());
    assert!(desk.records.into_inner().unwrap().is_empty());
}
