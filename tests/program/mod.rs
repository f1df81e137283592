//! The program, called as a person calls it, and the results that it leaves in a folder.

#![allow(dead_code)] // each user takes a part of it

use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long anything may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// The program in a folder. On a GPU results depend on company by rounding: these tests are about
/// the processor.
pub fn noisescale(dir: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_noisescale"));
    command.current_dir(dir).args(args).stdin(Stdio::null());
    command.env("CUDA_VISIBLE_DEVICES", "");
    command
}

/// What the program says when all goes well.
pub fn succeed(dir: &Path, args: &[&str]) -> String {
    let output = noisescale(dir, args).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{args:?}: {errors}");
    String::from_utf8(output.stdout).unwrap()
}

/// Waits until a process has come so far, which must be before its end.
pub fn wait_for(child: &mut Child, what: &str, mut reached: impl FnMut() -> bool) {
    let start = Instant::now();
    while !reached() {
        let ended = child.try_wait().unwrap().is_some();
        assert!(!ended, "the process ended before there was {what}");
        assert!(start.elapsed() < PATIENCE, "there is no {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Sends a process a signal, by its name without SIG.
pub fn signal(name: &str, child: &Child) {
    let kill = Command::new("kill")
        .args([&format!("-{name}"), &child.id().to_string()])
        .status();
    assert!(kill.unwrap().success(), "{name}");
}

/// The result of every run in a study's folder: all of its records but time and device.
pub fn results(folder: &Path) -> BTreeMap<String, String> {
    results_in(folder, |_| true)
}

/// Those that one process recorded.
pub fn results_of(folder: &Path, process: u32) -> BTreeMap<String, String> {
    results_in(folder, |name| name.contains(&format!("-{process}-")))
}

fn results_in(folder: &Path, is_ours: impl Fn(&str) -> bool) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(folder.join("records")).unwrap() {
        let path = entry.unwrap().path();
        if !is_ours(&path.file_name().unwrap().to_string_lossy()) {
            continue;
        }
        let text = std::fs::read_to_string(path).unwrap();
        let lines = text
            .lines()
            .filter_map(|line| serde_json::from_str::<Value>(line).ok());
        for mut record in lines.filter(|line| line.get("run").is_some()) {
            let run = record["run"].as_str().unwrap().to_owned();
            let fields = record.as_object_mut().unwrap();
            fields.remove("seconds");
            fields.remove("device");
            let result = record.to_string();
            let before = found.insert(run.clone(), result.clone());
            assert!(
                before.is_none_or(|before| before == result),
                "{run} has two results"
            );
        }
    }
    found
}
