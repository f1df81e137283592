//! What `check` and `list` say of a study before it is run.

use super::{json, noisescale, succeed, text};
use std::path::Path;

fn check(dir: &Path, args: &[&str]) -> String {
    text(&succeed(dir, &[&["check"], args].concat()).stdout)
}

/// Of tiny and of huge networks alike. A rate of the tiny ones for all is off by 2.5 and more.
#[test]
fn list_and_check_agree_on_the_time() {
    let dir = tempfile::tempdir().unwrap();
    let list = json(dir.path(), &["list", "--json"]);
    for study in ["quickstart", "mnist-1lp", "stability-std-mnist-2lp"] {
        let listed = (list.as_array().unwrap().iter())
            .find(|row| row["study"] == study)
            .unwrap();
        let alone = json(dir.path(), &["check", study, "--json"]);
        let ratio = listed["seconds"].as_f64().unwrap() / alone["seconds"].as_f64().unwrap();
        // The machine may be busy: by themselves they differ by some hundredths.
        assert!((0.6..1.7).contains(&ratio), "{study}: {ratio}");
    }
}

#[test]
fn only_grids_that_grow_are_said_to() {
    let dir = tempfile::tempdir().unwrap();
    let growing = "may grow by up to 8 values";
    let narrowest = |study: &str, width: &str| check(dir.path(), &[study, "--widths", width]);
    assert!(narrowest("digits-mlp", "8").contains(growing));
    assert!(narrowest("mnist-1lp", "128").contains(growing));
    assert!(!narrowest("grid-mnist-3lp", "128").contains("grow"));
    assert!(!narrowest("stability-std-mnist-2lp", "1").contains("grow"));
}

#[test]
fn an_adaptive_study_has_so_many_runs_at_most() {
    let dir = tempfile::tempdir().unwrap();
    let all = check(dir.path(), &["quickstart"]);
    assert!(!all.contains("at most"), "{all}");
    let adaptive = check(dir.path(), &["quickstart", "--adaptive"]);
    assert!(adaptive.contains(": at most 1,140 runs"), "{adaptive}");
    assert!(
        adaptive.contains("the adaptive rule usually leaves some out"),
        "{adaptive}"
    );
}

#[test]
fn flawed_data_are_not_called_missing() {
    let dir = tempfile::tempdir().unwrap();
    let words = || {
        let mut command = noisescale(dir.path(), &["check", "mnist-1lp", "--widths", "2"]);
        text(&command.env("NOISESCALE_DATA", ".").output().unwrap().stdout)
    };
    let missing = words();
    assert!(missing.contains("data are not on this machine: `noisescale data fetch mnist`"));
    std::fs::create_dir(dir.path().join("mnist")).unwrap();
    std::fs::write(dir.path().join("mnist/train-images-idx3-ubyte"), "x").unwrap();
    let flawed = words();
    assert!(
        flawed.contains("data on this machine are flawed ("),
        "{flawed}"
    );
    assert!(
        flawed.contains("train-images-idx3-ubyte: the file is truncated"),
        "{flawed}"
    );
    assert!(flawed.contains("`noisescale data fetch mnist`"), "{flawed}");
}
