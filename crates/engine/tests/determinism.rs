//! The CPU gives the same bits for any number of threads; what it saves is whole or refused.
//! What holds on every device is in `devices.rs`.

use engine::checkpoint::Checkpoint;
use engine::data::{self, Dataset, Store};
use engine::kernels::Isa;
use engine::pool::Pool;
use engine::train::{Compiled, Training};
use spec::{Override, Record, Run, Study};
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
fn a_damaged_checkpoint_is_refused() {
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
}
