//! What is written is read, once per run, whatever happened to the files.

mod support;

use ledger::{ClaimsView, Ledger, LedgerError, Warning};
use spec::{Outcome, Override, Study, plan};
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::time::Duration;
use support::{leave_file, line, now, numbers, record, run_id};

#[test]
fn records_come_back_to_the_last_bit() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = Ledger::create(dir.path()).unwrap().writer().unwrap();
    let written: Vec<_> = (1..100).map(record).collect();
    for record in &written {
        writer.append(record).unwrap();
    }
    let ledger = Ledger::open(dir.path()).unwrap();
    assert!(ledger.records().eq(&written));
    assert_eq!(ledger.get(run_id(7)), Some(&written[6]));
    assert_eq!((ledger.warnings(), ledger.conflicts()), (vec![], vec![]));
}

#[test]
fn a_reader_sees_what_was_appended_since() {
    let dir = tempfile::tempdir().unwrap();
    let mut reader = Ledger::create(dir.path()).unwrap();
    let (mut one, mut other) = (reader.writer().unwrap(), reader.writer().unwrap());
    assert_ne!(one.name(), other.name());
    one.append(&record(1)).unwrap();
    assert_eq!(reader.refresh().unwrap(), 1);
    other.append(&record(2)).unwrap();
    one.append(&record(3)).unwrap();
    one.append(&record(2)).unwrap();
    assert_eq!(reader.refresh().unwrap(), 2);
    assert_eq!(reader.refresh().unwrap(), 0);
    assert_eq!((numbers(&reader), reader.duplicates()), (vec![1, 2, 3], 1));
}

#[test]
fn the_first_record_of_a_run_counts_in_whatever_order_files_appear() {
    let dir = tempfile::tempdir().unwrap();
    let mut ledger = Ledger::create(dir.path()).unwrap();
    let with_seconds = |seconds| {
        let mut record = record(1);
        record.seconds = seconds;
        line(&record)
    };
    leave_file(dir.path(), "b", &[with_seconds(2.0), with_seconds(3.0)]);
    assert_eq!(ledger.refresh().unwrap(), 1);
    assert_eq!(ledger.get(run_id(1)).unwrap().seconds, 2.0);
    leave_file(dir.path(), "a", &[with_seconds(1.0)]);
    assert_eq!(ledger.refresh().unwrap(), 0);
    assert_eq!(ledger.get(run_id(1)).unwrap().seconds, 1.0);
    // Time is no part of the result.
    assert_eq!((ledger.duplicates(), ledger.conflicts()), (2, vec![]));
}

#[test]
fn different_results_of_one_run_raise_an_alarm_on_the_cpu_alone() {
    let dir = tempfile::tempdir().unwrap();
    let mut ledger = Ledger::create(dir.path()).unwrap();
    let on = |device: &str, step| {
        let mut record = record(3);
        record.device = device.into();
        record.outcome = Outcome::Diverged { step };
        line(&record)
    };
    leave_file(dir.path(), "a", &[on("cuda H200", 5), on("cuda H200", 6)]);
    leave_file(dir.path(), "b", &[on("cpu avx2", 7)]);
    ledger.refresh().unwrap();
    assert_eq!(ledger.conflicts(), []);
    let mut bent = record(3);
    bent.device = "cpu avx2".into();
    bent.outcome = Outcome::Diverged { step: 7 };
    bent.curve[4].training_loss = bent.curve[4].training_loss.map(f64::next_up);
    leave_file(
        dir.path(),
        "c",
        &[on("cpu avx2", 8), on("cpu neon", 9), line(&bent)],
    );
    ledger.refresh().unwrap();
    let alarms: Vec<String> = ledger.conflicts().iter().map(|c| c.to_string()).collect();
    assert_eq!(alarms.len(), 2, "{alarms:?}");
    assert!(alarms[0].contains("records/b.jsonl:2 and records/c.jsonl:2"));
    assert!(alarms[0].contains("diverged at step 7 and diverged at step 8 on `cpu avx2`"));
    assert!(alarms[1].contains("the evaluations at step 500 differ"));
    // The alarm changes nothing about what counts.
    assert_eq!(ledger.get(run_id(3)).unwrap().device, "cuda H200");
}

#[test]
fn a_torn_end_is_dropped_with_a_warning() {
    let dir = tempfile::tempdir().unwrap();
    Ledger::create(dir.path()).unwrap();
    let path = leave_file(dir.path(), "a", &[line(&record(1)), line(&record(2))]);
    let whole = fs::read(&path).unwrap();
    fs::write(&path, &whole[..whole.len() - 1]).unwrap();
    let mut ledger = Ledger::open(dir.path()).unwrap();
    assert_eq!(numbers(&ledger), [1]);
    assert!(matches!(&ledger.warnings()[..], [Warning::Torn { place, .. }] if place.line == 3));
    // It was on its way and arrives.
    fs::write(&path, &whole).unwrap();
    assert_eq!(ledger.refresh().unwrap(), 1);
    assert_eq!(ledger.warnings(), []);
}

#[test]
fn a_damaged_line_is_named_and_the_rest_is_read() {
    let dir = tempfile::tempdir().unwrap();
    Ledger::create(dir.path()).unwrap();
    let lines = [line(&record(1)), "{\"run\":".into(), line(&record(3))];
    leave_file(dir.path(), "a", &lines);
    let ledger = Ledger::open(dir.path()).unwrap();
    assert_eq!(numbers(&ledger), [1, 3]);
    let warnings: Vec<String> = ledger.warnings().iter().map(|w| w.to_string()).collect();
    assert_eq!(warnings.len(), 1);
    assert!(warnings[0].starts_with("records/a.jsonl:3: damaged line left out (not a record: "));
}

#[test]
fn files_from_a_newer_release_are_refused_by_name() {
    let dir = tempfile::tempdir().unwrap();
    Ledger::create(dir.path()).unwrap();
    let path = leave_file(dir.path(), "a", &[line(&record(1))]);
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replace("_ledger\":1", "_ledger\":2")).unwrap();
    let error = Ledger::open(dir.path()).unwrap_err();
    assert!(matches!(error, LedgerError::NewerFormat { found: 2, .. }));
    let sentence = error.to_string();
    assert!(sentence.contains("a.jsonl:1: written in ledger format 2"));
    assert!(sentence.contains("use the newer noisescale"));
}

#[test]
fn joined_and_headless_files_are_read() {
    let dir = tempfile::tempdir().unwrap();
    Ledger::create(dir.path()).unwrap();
    let records = dir.path().join("records");
    let header = r#"{"noisescale_ledger":1}"#;
    let joined = [header, &line(&record(1)), "", header, &line(&record(2)), ""];
    fs::write(records.join("joined.jsonl"), joined.join("\n")).unwrap();
    fs::write(records.join("bare.jsonl"), line(&record(3)) + "\r\n").unwrap();
    fs::write(records.join("empty.jsonl"), "").unwrap();
    fs::write(records.join(".hidden.jsonl"), "x\nx\n").unwrap();
    fs::write(records.join("notes.txt"), "x\nx\n").unwrap();
    let ledger = Ledger::open(dir.path()).unwrap();
    assert_eq!(numbers(&ledger), [1, 2, 3]);
    assert!(
        matches!(&ledger.warnings()[..], [Warning::NoHeader { place }] if &*place.writer == "bare")
    );
}

#[test]
fn removed_and_restored_files_are_noticed() {
    let dir = tempfile::tempdir().unwrap();
    let mut ledger = Ledger::create(dir.path()).unwrap();
    let a = leave_file(dir.path(), "a", &[line(&record(1)), line(&record(2))]);
    leave_file(dir.path(), "b", &[line(&record(2)), line(&record(3))]);
    ledger.refresh().unwrap();
    fs::remove_file(&a).unwrap();
    ledger.refresh().unwrap();
    assert_eq!((numbers(&ledger), ledger.duplicates()), (vec![2, 3], 0));
    leave_file(dir.path(), "b", &[line(&record(2))]);
    ledger.refresh().unwrap();
    assert_eq!(numbers(&ledger), [2]);
}

#[test]
fn a_record_that_json_cannot_hold_is_refused_before_it_is_written() {
    let dir = tempfile::tempdir().unwrap();
    let mut ledger = Ledger::create(dir.path()).unwrap();
    let mut writer = ledger.writer().unwrap();
    let mut infinite = record(1);
    infinite.curve[0].training_loss = Some(f64::INFINITY);
    let error = writer.append(&infinite).unwrap_err().to_string();
    assert!(error.contains("must be finite numbers"), "{error}");
    writer.append(&record(2)).unwrap();
    ledger.refresh().unwrap();
    assert_eq!(numbers(&ledger), [2]);
    assert_eq!(ledger.warnings(), []);
}

#[test]
fn a_folder_without_records_is_not_a_ledger() {
    let dir = tempfile::tempdir().unwrap();
    let error = Ledger::open(dir.path()).unwrap_err();
    assert!(matches!(error, LedgerError::NotALedger { .. }));
    // Nothing was made by looking.
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    let file = dir.path().join("file");
    fs::write(&file, "").unwrap();
    let error = Ledger::create(&file.join("study")).unwrap_err().to_string();
    assert!(error.contains("cannot make this folder"), "{error}");
}

#[test]
fn missing_runs_keep_the_order_of_the_plan() {
    let text = "seeds = 4\n[task]\ndataset = \"digits\"\n[family]\nkind = \"mlp\"\nhidden = [1]\n\
                widths = [8]\nscheme = \"ntk\"\n[search]\nkind = \"batch-size\"\n\
                learning_rate = 5.0\nbatch_sizes = [4, 8]\n[time]\nepochs = 1\nsteps = 10\n";
    let none: [Override; 0] = [];
    let study = Study::parse("t", Path::new("t.toml"), text, &none).unwrap();
    let runs = plan(&study);
    let dir = tempfile::tempdir().unwrap();
    let mut ledger = Ledger::create(dir.path()).unwrap();
    assert_eq!(ledger.missing(runs.clone()), runs);
    let mut writer = ledger.writer().unwrap();
    for done in [0, 3, 5] {
        let outcome = Outcome::Diverged { step: 1 };
        let record = spec::Record::new(&runs[done], outcome, vec![], 0.5, "cpu".into());
        writer.append(&record).unwrap();
    }
    ledger.refresh().unwrap();
    let left: Vec<_> = [1, 2, 4, 6, 7].map(|at| runs[at].clone()).into();
    assert_eq!(ledger.missing(runs), left);
}

#[test]
fn status_tells_writers_claims_and_troubles() {
    let dir = tempfile::tempdir().unwrap();
    let mut ledger = Ledger::create(dir.path()).unwrap();
    let path = leave_file(dir.path(), "a", &[line(&record(1))]);
    let mut file = OpenOptions::new().append(true).open(path).unwrap();
    file.write_all(b"{\"run").unwrap();
    let mut writer = ledger.writer().unwrap();
    let mut claims = ledger.claims();
    // One of the three is recorded: two are being worked on.
    claims
        .claim(&[run_id(2), run_id(20), run_id(21)], now())
        .unwrap();
    for number in [1, 2, 3, 4] {
        writer.append(&record(number)).unwrap();
    }
    // Its claim is the latest that is heard of it, whatever day it is.
    let name = writer.name().unwrap();
    let records = dir.path().join(format!("records/{name}.jsonl"));
    let recorded = now().wall - Duration::from_secs(60);
    let file = OpenOptions::new().append(true).open(records).unwrap();
    file.set_modified(recorded).unwrap();
    ledger.refresh().unwrap();
    let mut claims = ClaimsView::new(ledger.dir());
    let status = ledger.status(&mut claims, now()).unwrap();
    assert_eq!((status.duplicates, status.claimed()), (1, 2));
    assert_eq!((status.warnings.len(), status.conflicts.len()), (1, 0));
    let of = |name| status.writers.iter().find(|writer| writer.name == name);
    let ours = of(name).unwrap();
    assert_eq!((ours.records, ours.claimed), (4, 2));
    assert_eq!(ours.last_activity, Some(now().wall));
    let theirs = of("a").unwrap();
    assert_eq!((theirs.records, theirs.claimed), (1, 0));
    assert!(theirs.last_activity.is_some());
}

#[test]
fn the_documented_example_is_a_ledger() {
    let page = include_str!("../../../docs/LEDGER.md");
    let from = page.find("{\"noisescale_ledger\"").unwrap();
    let example = &page[from..from + page[from..].find("```").unwrap()];
    let dir = tempfile::tempdir().unwrap();
    Ledger::create(dir.path()).unwrap();
    fs::write(dir.path().join("records/a.jsonl"), example).unwrap();
    let ledger = Ledger::open(dir.path()).unwrap();
    assert_eq!((ledger.runs(), ledger.warnings()), (1, vec![]));
    let record = ledger.records().next().unwrap();
    assert_eq!(line(record), example.lines().nth(1).unwrap());
}
