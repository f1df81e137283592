//! Studies that a command of the user's own trains, through the program. The commands
//! are small shell scripts that train nothing and behave well or badly.

#![cfg(unix)]

mod failures;
mod folders;
mod law;
mod outcomes;
mod processes;
mod pytorch;
mod sharing;
#[path = "../skip/mod.rs"]
mod skip;
mod stopping;

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// What every script begins with.
const PRELUDE: &str = r#"
w=$1 b=$2 lr=$3 seed=$4 steps=$5 folder=$6
report() { echo "{\"step\": $1, \"test_accuracy\": $2, \"validation_accuracy\": $2}"; }
trained() { echo "{\"outcome\": \"trained\", \"test_accuracy\": $1}"; }
"#;

/// Two batch sizes × two seeds; 100 steps at B = 4 and 50 at B = 8.
const STUDY: &str = r#"
title = "Own command"
seeds = 2
[trainer]
command = ["sh", "train.sh", "{width}", "{batch_size}", "{learning_rate}", "{seed}", "{steps}", "{run_folder}"]
grace_seconds = 5
[task]
name = "Nothing"
training_examples = 100
chance_accuracy = 0.1
[family]
widths = [2]
scheme = "ntk"
[optimizer]
momentum = 0.9
[search]
kind = "batch-size"
learning_rate = 1.0
batch_sizes = [4, 8]
extend = 0
[time]
epochs = 4
"#;

/// A folder with a study and its script.
struct Place {
    dir: tempfile::TempDir,
}

impl Place {
    fn new(script: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let place = Self { dir };
        place.script(script);
        place.write("study.toml", STUDY);
        place
    }

    fn script(&self, script: &str) {
        self.write("train.sh", &format!("{PRELUDE}{script}"));
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path(name), text).unwrap();
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_noisescale"));
        command.current_dir(self.dir.path()).args(args);
        command.stdin(Stdio::null());
        command
    }

    fn call(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }

    /// Runs the study, with options, into `out`.
    fn run(&self, options: &[&str]) -> Output {
        self.call(&[&["run", "study.toml", "--out", "out", "--quiet"], options].concat())
    }

    fn succeed(&self, args: &[&str]) -> String {
        let output = self.call(args);
        assert!(output.status.success(), "{args:?}: {}", errors(&output));
        String::from_utf8(output.stdout).unwrap()
    }

    fn status(&self) -> Value {
        serde_json::from_str(&self.succeed(&["status", "out", "--json"])).unwrap()
    }

    fn records(&self) -> Vec<Value> {
        lines(&self.path("out/records"))
    }

    fn failures(&self) -> Vec<Value> {
        lines(&self.path("out/failures"))
    }
}

/// All lines that are about a run, of all files of a folder.
fn lines(folder: &Path) -> Vec<Value> {
    let Ok(files) = std::fs::read_dir(folder) else {
        return Vec::new();
    };
    let mut found = Vec::new();
    for file in files {
        let text = std::fs::read_to_string(file.unwrap().path()).unwrap();
        let values = text
            .lines()
            .filter_map(|line| serde_json::from_str::<Value>(line).ok());
        found.extend(values.filter(|line| line.get("run").is_some()));
    }
    found
}

fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}
