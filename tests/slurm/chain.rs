//! The chain of rounds when the job that continues it dies.

use super::cluster::Cluster;
use super::{SUBMIT, refused};
use std::fs;

/// It took the name of the next round and ended before `sbatch` did: run again, it must not say
/// that all is well.
#[test]
fn a_round_that_was_begun_and_never_sent_is_told() {
    let cluster = Cluster::new();
    cluster.succeed(&[&SUBMIT[..], &["--patience", "0.1"]].concat());
    assert!(cluster.run_task("0001", 1).status.success());
    let round = cluster.at.join("out/slurm/0001-round2");
    fs::create_dir(&round).unwrap();
    let finish = || cluster.run(&["slurm", "finish", "out", "--submission", "0001"]);
    let errors = refused(&finish(), 1);
    assert!(
        errors.contains("submission 0001-round2 was begun") && errors.contains("slurm resubmit"),
        "{errors}"
    );
    // The tasks were sent, and the job after them was not.
    fs::write(round.join("array.job"), "102\n").unwrap();
    let errors = refused(&finish(), 1);
    assert!(errors.contains("array 102 is submitted"), "{errors}");
    let text = cluster.succeed(&["slurm", "resubmit", "out"]);
    assert!(text.contains("Submission 0002: 12 runs"), "{text}");
}
