//! Several processes on one folder share the work of a study, and what a killed
//! one leaves undone is done by the others.
#![cfg(unix)]

mod support;

use ledger::{Ledger, Moment};
use spec::RunId;
use std::env;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;
use support::{record, run_id};

const DIR: &str = "LEDGER_TEST_SHARED_DIR";
const RUNS: u64 = 120;
const COHORT: usize = 5;

/// Not a test of its own: a process that works until nothing is missing.
#[test]
fn helper_works() {
    let Ok(dir) = env::var(DIR) else { return };
    let mut ledger = Ledger::create(&PathBuf::from(dir)).unwrap();
    let mut writer = ledger.writer().unwrap();
    let mut claims = ledger.claims();
    loop {
        ledger.refresh().unwrap();
        let missing: Vec<u64> = (1..=RUNS)
            .filter(|number| ledger.get(run_id(*number)).is_none())
            .collect();
        if missing.is_empty() {
            return;
        }
        let taken = claims.others_claims(Moment::now()).unwrap();
        let free = missing.iter().map(|number| run_id(*number));
        let cohort: Vec<RunId> = free
            .filter(|run| !taken.contains(run))
            .take(COHORT)
            .collect();
        let mine = claims.claim(&cohort, Moment::now()).unwrap();
        for number in missing
            .iter()
            .filter(|number| mine.contains(&run_id(**number)))
        {
            // The training.
            sleep(Duration::from_millis(4));
            writer.append(&record(*number)).unwrap();
            claims.heartbeat(Moment::now()).unwrap();
        }
        claims.release(&mine, Moment::now()).unwrap();
        if mine.is_empty() {
            sleep(Duration::from_millis(5));
        }
    }
}

fn start(dir: &std::path::Path) -> Child {
    Command::new(env::current_exe().unwrap())
        .args(["--exact", "helper_works", "--nocapture"])
        .env(DIR, dir)
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

#[test]
fn processes_share_a_study_and_take_over_from_a_killed_one() {
    let dir = tempfile::tempdir().unwrap();
    let mut watched = Ledger::create(dir.path()).unwrap();
    let mut killed = start(dir.path());
    let survivors = [start(dir.path()), start(dir.path())];
    while watched.runs() < 20 {
        watched.refresh().unwrap();
        sleep(Duration::from_millis(5));
    }
    killed.kill().unwrap();
    killed.wait().unwrap();
    for mut survivor in survivors {
        assert!(survivor.wait().unwrap().success());
    }
    watched.refresh().unwrap();
    assert!(watched.records().cloned().eq((1..=RUNS).map(record)));
    assert_eq!(watched.conflicts(), []);
    // Claims that cross cost a cohort now and then, not half of the work.
    let status = watched.status(Moment::now()).unwrap();
    assert!(status.duplicates < RUNS as usize / 4, "{status:?}");
    let busy = status.writers.iter().filter(|by| by.records >= COHORT);
    assert!(busy.count() >= 2, "{status:?}");
    assert_eq!(status.claimed(), 0);
}
