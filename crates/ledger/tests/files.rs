//! Checkpoints and the copy of the study: whole or not there.

mod support;

use ledger::{LEFTOVER_AGE, Ledger, LedgerError, StudyCopy};
use spec::Override;
use std::fs;
use std::time::SystemTime;
use support::run_id;

#[test]
fn checkpoints_are_saved_replaced_listed_and_deleted() {
    let dir = tempfile::tempdir().unwrap();
    let checkpoints = Ledger::create(dir.path()).unwrap().checkpoints();
    let id = run_id(1).to_string();
    assert_eq!(checkpoints.load(&id).unwrap(), None);
    checkpoints.save(&id, b"step 1").unwrap();
    checkpoints.save(&id, b"step 2").unwrap();
    checkpoints.save("cohort-7", b"").unwrap();
    assert_eq!(checkpoints.load(&id).unwrap().unwrap(), b"step 2");
    assert_eq!(checkpoints.ids().unwrap(), [id.as_str(), "cohort-7"]);
    checkpoints.delete(&id).unwrap();
    checkpoints.delete(&id).unwrap();
    assert_eq!(checkpoints.ids().unwrap(), ["cohort-7"]);
}

#[test]
fn a_checkpoint_cannot_leave_its_folder() {
    let dir = tempfile::tempdir().unwrap();
    let checkpoints = Ledger::create(dir.path()).unwrap().checkpoints();
    for name in ["", "../study", "a/b", "a.b", &"x".repeat(101)] {
        let error = checkpoints.save(name, b"x").unwrap_err();
        assert!(matches!(error, LedgerError::CheckpointName { .. }));
    }
}

#[test]
fn what_killed_processes_left_half_written_is_swept() {
    let dir = tempfile::tempdir().unwrap();
    let checkpoints = Ledger::create(dir.path()).unwrap().checkpoints();
    checkpoints.save("whole", b"x").unwrap();
    let half = dir
        .path()
        .join("checkpoints/.whole.safetensors.writer.1.tmp");
    fs::write(&half, b"").unwrap();
    let now = SystemTime::now();
    assert_eq!(checkpoints.ids().unwrap(), ["whole"]);
    assert_eq!(checkpoints.sweep(now).unwrap(), 0);
    assert_eq!(checkpoints.sweep(now + LEFTOVER_AGE * 2).unwrap(), 1);
    assert!(!half.exists());
    assert_eq!(checkpoints.ids().unwrap(), ["whole"]);
}

#[test]
fn the_study_comes_back_with_its_overrides() {
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(StudyCopy::read(dir.path()).unwrap(), None);
    let set = |text| Override::parse(text).unwrap();
    let mut copy = StudyCopy {
        text: "seeds = 3\n# no newline at the end".into(),
        overrides: vec![
            set("search.batch_sizes=[16, 32]"),
            set("note=\"a=b\""),
            set("search.batch_sizes=[16, # small\r\n \"32\"]"),
        ],
    };
    copy.write(dir.path()).unwrap();
    assert_eq!(StudyCopy::read(dir.path()).unwrap(), Some(copy.clone()));
    // A copy of the copy, run without overrides.
    copy.text = fs::read_to_string(dir.path().join("study.toml")).unwrap();
    copy.overrides.clear();
    copy.write(dir.path()).unwrap();
    let written = fs::read_to_string(dir.path().join("study.toml")).unwrap();
    assert!(written.ends_with("\n# noisescale ran the text above without overrides.\n"));
    assert_eq!(StudyCopy::read(dir.path()).unwrap(), Some(copy.clone()));
    // And again with some.
    copy.text = written;
    copy.overrides.push(set("seeds=4"));
    copy.write(dir.path()).unwrap();
    assert_eq!(StudyCopy::read(dir.path()).unwrap(), Some(copy));
    // One of before there was a mark of its own for no overrides.
    let older = "seeds = 3\n# noisescale ran the text above with these overrides:\n";
    fs::write(dir.path().join("study.toml"), older).unwrap();
    let older = StudyCopy::read(dir.path()).unwrap().unwrap();
    assert_eq!(
        (older.text.as_str(), older.overrides.len()),
        ("seeds = 3", 0)
    );
    // One written by hand.
    fs::write(dir.path().join("study.toml"), "seeds = 4\n").unwrap();
    let by_hand = StudyCopy::read(dir.path()).unwrap().unwrap();
    assert_eq!(
        (by_hand.text.as_str(), by_hand.overrides.len()),
        ("seeds = 4\n", 0)
    );
}

#[test]
fn an_unchanged_study_is_not_written_again() {
    let dir = tempfile::tempdir().unwrap();
    let copy = StudyCopy {
        text: "seeds = 3\n".into(),
        overrides: Vec::new(),
    };
    copy.write(dir.path()).unwrap();
    let modified = || {
        fs::metadata(dir.path().join("study.toml"))
            .unwrap()
            .modified()
            .unwrap()
    };
    let before = modified();
    copy.write(dir.path()).unwrap();
    assert_eq!(modified(), before);
    // Nothing else is left in the folder.
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
}
