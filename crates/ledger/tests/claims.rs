//! Claims share work; nothing depends on them being right.

mod support;

use ledger::{Claims, HEARTBEAT, LEASE, Ledger, Moment};
use spec::RunId;
use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use support::{now, run_id};

fn ids(numbers: &[u64]) -> Vec<RunId> {
    numbers.iter().map(|number| run_id(*number)).collect()
}

fn others(claims: &mut Claims, at: Moment) -> Vec<RunId> {
    let mut others: Vec<RunId> = claims.others_claims(at).unwrap().into_iter().collect();
    others.sort_unstable();
    others
}

/// The claims file of a process on another machine.
fn leave_claims(dir: &Path, name: &str, host: &str, pid: u32, at: SystemTime, runs: &[u64]) {
    let at_ms = at.duration_since(UNIX_EPOCH).unwrap().as_millis();
    let runs: Vec<String> = runs
        .iter()
        .map(|run| format!("\"{}\"", run_id(*run)))
        .collect();
    let text = format!(
        "{{\"noisescale_ledger\":1,\"writer\":\"{name}\",\"host\":\"{host}\",\"pid\":{pid}}}\n\
         {{\"at_ms\":{at_ms},\"claim\":[{}]}}\n",
        runs.join(",")
    );
    fs::write(dir.join(format!("claims/{name}.jsonl")), text).unwrap();
}

#[test]
fn two_processes_take_different_runs() {
    let dir = tempfile::tempdir().unwrap();
    let ledger = Ledger::create(dir.path()).unwrap();
    let (mut one, mut other) = (ledger.claims(), ledger.claims());
    let cohort = ids(&[1, 2, 3]);
    assert_eq!(one.claim(&cohort, now()).unwrap(), cohort);
    assert_eq!(others(&mut one, now()), []);
    assert_eq!(others(&mut other, now()), cohort);
    assert_eq!(other.claim(&ids(&[3, 4]), now()).unwrap(), ids(&[4]));
    assert_eq!(others(&mut one, now()), ids(&[4]));
    one.release(&ids(&[1, 2]), now()).unwrap();
    assert_eq!(one.held().collect::<Vec<_>>(), ids(&[3]));
    assert_eq!(others(&mut other, now()), ids(&[3]));
    drop(one);
    assert_eq!(others(&mut other, now()), []);
    drop(other);
    assert_eq!(fs::read_dir(dir.path().join("claims")).unwrap().count(), 0);
}

/// Who takes over what seems to be left behind says so, to the claimant as well.
#[test]
fn what_is_claimed_too_has_two_claimants() {
    let dir = tempfile::tempdir().unwrap();
    let ledger = Ledger::create(dir.path()).unwrap();
    let (mut one, mut other) = (ledger.claims(), ledger.claims());
    one.claim(&ids(&[1, 2]), now()).unwrap();
    other.claim_too(&ids(&[2, 3]), now()).unwrap();
    assert_eq!(others(&mut one, now()), ids(&[2, 3]));
    assert_eq!(others(&mut other, now()), ids(&[1, 2]));
    drop(one);
    assert_eq!(others(&mut other, now()), []);
    assert_eq!(other.held().collect::<Vec<_>>(), ids(&[2, 3]));
}

#[test]
fn a_silent_claimant_loses_its_claims_and_a_beating_one_keeps_them() {
    let dir = tempfile::tempdir().unwrap();
    let ledger = Ledger::create(dir.path()).unwrap();
    let (mut one, mut other) = (ledger.claims(), ledger.claims());
    one.claim(&ids(&[1]), now()).unwrap();
    let mut at = now();
    for _ in 0..30 {
        at = at + HEARTBEAT;
        one.heartbeat(at).unwrap();
        assert_eq!(others(&mut other, at), ids(&[1]));
    }
    assert_eq!(others(&mut other, at + LEASE), ids(&[1]));
    let late = at + LEASE + Duration::from_secs(1);
    assert_eq!(others(&mut other, late), []);
    assert_eq!(other.claim(&ids(&[1]), late).unwrap(), ids(&[1]));
}

#[test]
fn heartbeats_are_written_when_due_and_only_for_claims() {
    let dir = tempfile::tempdir().unwrap();
    let ledger = Ledger::create(dir.path()).unwrap();
    let mut claims = ledger.claims();
    let folder = dir.path().join("claims");
    claims.heartbeat(now()).unwrap();
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);
    claims.claim(&ids(&[1]), now()).unwrap();
    let path = fs::read_dir(&folder)
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .path();
    let lines = || fs::read_to_string(&path).unwrap().lines().count();
    assert_eq!(lines(), 2);
    claims.heartbeat(now() + HEARTBEAT / 2).unwrap();
    assert_eq!(lines(), 2);
    claims.heartbeat(now() + HEARTBEAT).unwrap();
    assert_eq!(lines(), 3);
    claims.release(&ids(&[1]), now() + HEARTBEAT).unwrap();
    claims.heartbeat(now() + HEARTBEAT * 9).unwrap();
    assert_eq!(lines(), 4);
}

#[test]
fn clocks_may_differ() {
    let dir = tempfile::tempdir().unwrap();
    let ledger = Ledger::create(dir.path()).unwrap();
    let mut claims = ledger.claims();
    // A clock a year ahead does not make a dead claim live for a year.
    let ahead = now().wall + Duration::from_secs(365 * 86_400);
    leave_claims(dir.path(), "ahead", "elsewhere", 1, ahead, &[1]);
    assert_eq!(others(&mut claims, now()), ids(&[1]));
    assert_eq!(others(&mut claims, now() + LEASE * 2), []);
    // A clock a day behind: dead at first sight, living once it is seen to grow.
    let behind = now().wall - Duration::from_secs(86_400);
    leave_claims(dir.path(), "behind", "elsewhere", 1, behind, &[2]);
    assert_eq!(others(&mut claims, now()), ids(&[1]));
    let path = dir.path().join("claims/behind.jsonl");
    let text = fs::read_to_string(&path).unwrap() + "{\"at_ms\":5}\n";
    fs::write(&path, text).unwrap();
    let later = now() + LEASE * 3;
    assert_eq!(others(&mut claims, later), ids(&[2]));
}

/// A clock that is set back by a day must not silence a claimant for a day, nor keep a dead one.
#[test]
fn a_clock_may_be_set_back() {
    let dir = tempfile::tempdir().unwrap();
    let ledger = Ledger::create(dir.path()).unwrap();
    let (mut one, mut other) = (ledger.claims(), ledger.claims());
    let start = now();
    let set_back = |time: Duration| Moment {
        wall: start.wall + time - Duration::from_secs(86_400),
        steady: start.steady + time,
    };
    one.claim(&ids(&[1]), start).unwrap();
    assert_eq!(others(&mut other, start), ids(&[1]));
    one.heartbeat(set_back(HEARTBEAT)).unwrap();
    assert_eq!(others(&mut other, set_back(HEARTBEAT)), ids(&[1]));
    assert_eq!(others(&mut other, set_back(HEARTBEAT + LEASE)), ids(&[1]));
    assert_eq!(others(&mut other, set_back(HEARTBEAT * 2 + LEASE)), []);
}

#[test]
fn what_is_withdrawn_is_free_and_others_stay_known() {
    let dir = tempfile::tempdir().unwrap();
    let ledger = Ledger::create(dir.path()).unwrap();
    let (mut one, mut other) = (ledger.claims(), ledger.claims());
    // Dead, with a clock that was a day ahead.
    let ahead = now().wall + Duration::from_secs(86_400);
    leave_claims(dir.path(), "ahead", "elsewhere", 1, ahead, &[1]);
    let start = now();
    assert_eq!(one.claim(&ids(&[1, 2]), start).unwrap(), ids(&[2]));
    one.withdraw();
    assert_eq!(one.held().count(), 0);
    assert_eq!(others(&mut other, start), ids(&[1]));
    // It was met before, so its lease is over by the reader's clock.
    let late = start + LEASE + Duration::from_secs(1);
    assert_eq!(one.claim(&ids(&[1, 2]), late).unwrap(), ids(&[1, 2]));
}

#[test]
fn claims_after_a_withdrawal_are_seen_by_who_read_those_before() {
    let dir = tempfile::tempdir().unwrap();
    let ledger = Ledger::create(dir.path()).unwrap();
    let (mut one, mut other) = (ledger.claims(), ledger.claims());
    let start = now();
    one.claim(&ids(&[1]), start).unwrap();
    assert_eq!(others(&mut other, start), ids(&[1]));
    // A file of the same length: in one of the same name the reader would see nothing new.
    one.withdraw();
    one.claim(&ids(&[2]), start).unwrap();
    assert_eq!(others(&mut other, start), ids(&[2]));
}

#[cfg(unix)]
#[test]
fn a_process_killed_on_this_machine_is_outlived_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let ledger = Ledger::create(dir.path()).unwrap();
    let mut claims = ledger.claims();
    let host = {
        claims.claim(&ids(&[9]), now()).unwrap();
        let file = fs::read_dir(dir.path().join("claims")).unwrap().next();
        let text = fs::read_to_string(file.unwrap().unwrap().path()).unwrap();
        let header: serde_json::Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
        header["host"].as_str().unwrap().to_owned()
    };
    let mut child = std::process::Command::new("sleep")
        .arg("60")
        .spawn()
        .unwrap();
    leave_claims(dir.path(), "sleeper", &host, child.id(), now().wall, &[1]);
    assert_eq!(others(&mut claims, now()), ids(&[1]));
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(others(&mut claims, now()), []);
    // The same pid on another machine says nothing.
    leave_claims(
        dir.path(),
        "remote",
        "elsewhere",
        child.id(),
        now().wall,
        &[2],
    );
    assert_eq!(others(&mut claims, now()), ids(&[2]));
}

#[test]
fn damaged_claims_do_no_harm() {
    let dir = tempfile::tempdir().unwrap();
    let ledger = Ledger::create(dir.path()).unwrap();
    let mut claims = ledger.claims();
    let folder = dir.path().join("claims");
    fs::write(folder.join("junk.jsonl"), b"\xff\0\n{\"at_ms\":-1}\n[[[[").unwrap();
    fs::write(folder.join("void.jsonl"), b"").unwrap();
    // A stamp beyond what a clock can show.
    let absurd = format!("{{\"at_ms\":{},\"claim\":[\"{}\"]}}\n", u64::MAX, run_id(5));
    fs::write(folder.join("absurd.jsonl"), absurd).unwrap();
    assert_eq!(others(&mut claims, now()), ids(&[5]));
    assert_eq!(claims.claim(&ids(&[1, 5]), now()).unwrap(), ids(&[1]));
    // The folder goes away: claims cannot be made, and come back with it.
    fs::remove_dir_all(&folder).unwrap();
    claims.release(&ids(&[1]), now()).unwrap();
    assert_eq!(claims.claim(&ids(&[2]), now()).unwrap(), ids(&[2]));
}
