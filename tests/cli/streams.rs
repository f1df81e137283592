//! Readers of standard error who go away, and files that are full, take nothing from a study.

use super::{TINY, noisescale};
use std::fs::OpenOptions;
use std::io;

#[test]
fn nobody_listens_to_standard_error() {
    let dir = tempfile::tempdir().unwrap();
    let closed = || {
        let (reader, writer) = io::pipe().unwrap();
        drop(reader);
        writer
    };
    // With JSON, remarks go to standard error.
    let run = [&["run"], TINY, &["--out", "out", "--json"]].concat();
    let output = noisescale(dir.path(), &run)
        .stderr(closed())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert!(dir.path().join("out/report.html").exists());
    let output = noisescale(dir.path(), &["run", "nosuch"])
        .stderr(closed())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
}

#[cfg(target_os = "linux")]
#[test]
fn standard_error_goes_to_a_full_disk() {
    let dir = tempfile::tempdir().unwrap();
    let Ok(full) = OpenOptions::new().write(true).open("/dev/full") else {
        println!("skipped: there is no /dev/full");
        return;
    };
    let output = noisescale(dir.path(), &["run", "nosuch"])
        .stderr(full)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
}
