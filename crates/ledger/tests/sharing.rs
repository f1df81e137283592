//! Several processes on one folder share the work of a study, and what a killed
//! one leaves undone is done by the others.
#![cfg(unix)]

mod support;

use ledger::{ClaimsView, Ledger, Moment};
use spec::RunId;
use std::env;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};
use support::{record, run_id};

const DIR: &str = "LEDGER_TEST_SHARED_DIR";
const RUNS: u64 = 120;
const COHORT: usize = 5;
/// How long anything may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// Not a test of its own: a process that works until nothing is missing.
#[test]
fn helper_works() {
    let Ok(dir) = env::var(DIR) else { return };
    let dir = PathBuf::from(dir);
    let mut ledger = Ledger::create(&dir).unwrap();
    let mut recorded = 0;
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
            recorded += 1;
            if recorded == COHORT {
                wait_for_company(&dir);
            }
        }
        claims.release(&mine, Moment::now()).unwrap();
        if mine.is_empty() {
            sleep(Duration::from_millis(5));
        }
    }
}

/// Waits until another process has done as much: none must be so fast, or so early, that nothing
/// is left to share.
fn wait_for_company(dir: &Path) {
    let busy = dir.join("busy");
    std::fs::create_dir_all(&busy).unwrap();
    std::fs::write(busy.join(std::process::id().to_string()), "").unwrap();
    wait_until("another process works", || {
        std::fs::read_dir(&busy).unwrap().count() >= 2
    });
}

fn wait_until(what: &str, mut reached: impl FnMut() -> bool) {
    let start = Instant::now();
    while !reached() {
        assert!(start.elapsed() < PATIENCE, "waited in vain until {what}");
        sleep(Duration::from_millis(5));
    }
}

fn start(dir: &Path) -> Child {
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
    wait_until("some runs are recorded", || {
        watched.refresh().unwrap();
        watched.runs() >= 20
    });
    killed.kill().unwrap();
    killed.wait().unwrap();
    for mut survivor in survivors {
        let mut ended = None;
        wait_until("nothing is missing", || {
            ended = survivor.try_wait().unwrap();
            ended.is_some()
        });
        assert!(ended.unwrap().success());
    }
    watched.refresh().unwrap();
    assert!(watched.records().cloned().eq((1..=RUNS).map(record)));
    assert_eq!(watched.conflicts(), []);
    // Claims that cross cost a cohort now and then, not half of the work.
    let mut claims = ClaimsView::new(watched.dir());
    let status = watched.status(&mut claims, Moment::now()).unwrap();
    assert!(status.duplicates < RUNS as usize / 4, "{status:?}");
    let busy = status.writers.iter().filter(|by| by.records >= COHORT);
    assert!(busy.count() >= 2, "{status:?}");
    assert_eq!(status.claimed(), 0);
}
