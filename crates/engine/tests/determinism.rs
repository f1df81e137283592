//! A run gives the same bits for any number of threads, in any company, and
//! however its steps are cut.

use engine::checkpoint::Checkpoint;
use engine::data::{self, Dataset, Store};
use engine::kernels::Isa;
use engine::pool::Pool;
use engine::train::{Compiled, Status, Training};
use spec::{Outcome, Override, Record, Run, Study};
use std::ops::ControlFlow;
use std::path::Path;

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

fn runs(changes: &[&str], seeds: u32) -> Vec<Run> {
    let overrides: Vec<Override> = changes
        .iter()
        .map(|c| Override::parse(c).unwrap())
        .collect();
    let mut study = Study::parse("test", Path::new("test"), STUDY, &overrides).unwrap();
    study.seeds = seeds;
    spec::plan(&study)
}

fn digits(runs: &[Run]) -> Dataset {
    data::load(&runs[0].setting.task, &Store::at("unused")).unwrap()
}

/// All that a record says of the result, time and device left out.
fn result(record: &Record) -> String {
    serde_json::to_string(&(&record.run, &record.outcome, &record.curve)).unwrap()
}

fn train(runs: &[Run], threads: usize) -> Vec<String> {
    let data = digits(runs);
    let pool = Pool {
        isa: Isa::detect(),
        threads,
    };
    let records = pool
        .train_list(&data, runs, &|_, _| ControlFlow::Continue(()))
        .unwrap();
    records
        .into_iter()
        .map(|record| result(&record.unwrap()))
        .collect()
}

#[test]
fn any_number_of_threads() {
    let runs = runs(&[], 5);
    let one = train(&runs, 1);
    assert_eq!(one, train(&runs, 2));
    assert_eq!(one, train(&runs, 4));
    assert!(
        one.windows(2).all(|pair| pair[0] != pair[1]),
        "seeds differ"
    );
}

#[test]
fn any_company() {
    let all = runs(&[], 4);
    let together = train(&all, 2);
    for (run, expected) in all.iter().zip(&together) {
        assert_eq!(&train(std::slice::from_ref(run), 1)[0], expected);
    }
    // Other rates in the cohort change nothing either.
    let mut mixed = all.clone();
    mixed.extend(runs(&["search.learning_rate=0.5"], 2));
    assert_eq!(train(&mixed, 3)[..4], together);
}

fn outcome(changes: &[&str]) -> Record {
    let runs = runs(changes, 1);
    let data = digits(&runs);
    let pool = Pool {
        isa: Isa::detect(),
        threads: 1,
    };
    let records = pool
        .train_list(&data, &runs, &|_, _| ControlFlow::Continue(()))
        .unwrap();
    records[0].clone().unwrap()
}

#[test]
fn a_saved_run_goes_on_with_the_same_bits() {
    let runs = runs(&[], 1);
    let data = digits(&runs);
    let programs = Compiled::new(&runs[0]).unwrap();
    let start = || Training::new(&runs[0], &data, &programs, Isa::detect()).unwrap();
    let finish = |mut training: Training<'_>| match training.advance(u64::MAX) {
        Status::Ended(outcome) => result(&training.record(outcome)),
        Status::Running => panic!("it has no steps left"),
    };
    let whole = finish(start());
    for cut in [1, 37, 112, 223] {
        let mut before = start();
        assert_eq!(before.advance(cut), Status::Running);
        let mut after = start();
        let bytes = before.checkpoint().to_bytes().unwrap();
        after.restore(Checkpoint::from_bytes(&bytes).unwrap());
        assert_eq!(after.progress().step, cut);
        assert_eq!(finish(after), whole, "cut at {cut}");
    }
}

#[test]
fn outcomes_are_recorded() {
    // 3 · 1197 / 16 = 224.4: 225 steps, looked at twenty times.
    let trained = outcome(&[]);
    assert!(matches!(trained.outcome, Outcome::Trained { test_accuracy } if test_accuracy > 0.5));
    assert_eq!((trained.steps, trained.curve.len()), (225, 20));
    assert!(trained.curve[19].training_loss < trained.curve[0].training_loss);
    // A huge rate overflows at once; the curve holds no number that is not finite.
    let diverged = outcome(&["search.learning_rate=1e30"]);
    assert!(matches!(diverged.outcome, Outcome::Diverged { step } if step < 10));
    assert!(
        diverged
            .curve
            .iter()
            .all(|point| point.training_loss.is_some_and(f64::is_finite))
    );
    // A tiny one never leaves chance: stopped at the first look beyond 20 % of 225 steps.
    let stalled = outcome(&["search.learning_rate=1e-9", "time.stall_accuracy=0.9"]);
    assert!(
        matches!(stalled.outcome, Outcome::Stalled { step: 57, .. }),
        "{:?}",
        stalled.outcome
    );
}

#[test]
fn a_run_can_be_stopped() {
    let runs = runs(&[], 2);
    let data = digits(&runs);
    let pool = Pool {
        isa: Isa::detect(),
        threads: 1,
    };
    let records = pool
        .train_list(&data, &runs, &|_, _| ControlFlow::Break(()))
        .unwrap();
    assert!(records.iter().all(Option::is_none));
}

#[test]
fn a_damaged_or_foreign_checkpoint_is_refused() {
    let runs = runs(&[], 2);
    let data = digits(&runs);
    let programs = Compiled::new(&runs[0]).unwrap();
    let start = |run| Training::new(run, &data, &programs, Isa::detect()).unwrap();
    let mut one = start(&runs[0]);
    one.advance(5);
    let bytes = one.checkpoint().to_bytes().unwrap();
    for cut in [0, 7, 100, bytes.len() - 1] {
        assert!(
            Checkpoint::from_bytes(&bytes[..cut]).is_err(),
            "cut at {cut}"
        );
    }
    // Another seed's state is left aside.
    let mut other = start(&runs[1]);
    other.restore(Checkpoint::from_bytes(&bytes).unwrap());
    assert_eq!(other.progress().step, 0);
}
