//! A cluster of shell scripts: `sbatch`, `squeue`, `scontrol` and `scancel` write down how they
//! were called and answer from files.

use serde_json::Value;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

pub const STUDY: &str = r#"
title = "Small"
seeds = 3
[task]
dataset = "digits"
[family]
kind = "mlp"
hidden = [1]
widths = [8, 16]
scheme = "ntk"
[search]
kind = "batch-size"
learning_rate = 5.0
batch_sizes = [16, 32, 64]
extend = 0
[time]
epochs = 4
"#;

/// A folder with a study, and a cluster of shell scripts. Its name has what names have.
pub struct Cluster {
    _root: tempfile::TempDir,
    /// Its folder.
    pub at: PathBuf,
}

impl Cluster {
    pub fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        let at = root.path().join("it's 100% mine");
        fs::create_dir_all(at.join("bin")).unwrap();
        fs::write(at.join("small.toml"), STUDY).unwrap();
        let cluster = Self { _root: root, at };
        cluster.answer("max", "1001\n");
        cluster.answer("queue", "");
        // Numbers count up from 100; arguments are kept one to a line.
        cluster.script(
            "sbatch",
            r#"if [ "$1" = --version ]; then echo slurm; exit; fi
               if [ -e "$at/refuse" ]; then cat "$at/refuse" >&2; exit 1; fi
               last=$(cat "$at/last" 2>/dev/null || echo 99); next=$((last + 1)); echo $next > "$at/last"
               for word in "$@"; do printf '%s\n' "$word"; done > "$at/sbatch.$next"; echo "$next;loop""#,
        );
        cluster.script(
            "squeue",
            r#"echo "$@" >> "$at/squeue.calls"; cat "$at/queue""#,
        );
        cluster.script(
            "scontrol",
            r#"echo "$@" >> "$at/scontrol.calls"
               if [ "$1" = show ]; then echo "MaxArraySize            = $(cat "$at/max")"; fi"#,
        );
        cluster.script("scancel", r#"echo "$@" >> "$at/scancel.calls""#);
        cluster
    }

    fn script(&self, name: &str, body: &str) {
        let path = self.at.join("bin").join(name);
        let text = format!("#!/bin/sh\nat=${{0%/bin/*}}\n{body}\n");
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    pub fn answer(&self, file: &str, text: &str) {
        fs::write(self.at.join(file), text).unwrap();
    }

    pub fn calls(&self, file: &str) -> String {
        fs::read_to_string(self.at.join(file)).unwrap_or_default()
    }

    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_noisescale"));
        let path = format!("{}:/usr/bin:/bin", self.at.join("bin").display());
        command.current_dir(&self.at).args(args);
        command.env("PATH", path).env("CUDA_VISIBLE_DEVICES", "");
        command.env_remove("NOISESCALE_DATA").stdin(Stdio::null());
        command
    }

    pub fn run(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }

    pub fn succeed(&self, args: &[&str]) -> String {
        let output = self.run(args);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{args:?}: {errors}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Runs a generated script as Slurm would.
    pub fn run_task(&self, submission: &str, task: usize) -> Output {
        let script = self.at.join("out/slurm").join(submission).join("task.sh");
        let command = self.command(&[]);
        let path = command.get_envs().find(|(name, _)| *name == "PATH");
        let path = path
            .and_then(|(_, value)| value.map(ToOwned::to_owned))
            .unwrap();
        let mut shell = Command::new("sh");
        shell
            .arg(script)
            .env("PATH", path)
            .env("CUDA_VISIBLE_DEVICES", "");
        shell.env("SLURM_ARRAY_TASK_ID", task.to_string());
        shell.env("SLURM_CPUS_PER_TASK", "1").current_dir("/");
        shell.output().unwrap()
    }

    pub fn status(&self) -> Value {
        serde_json::from_str(&self.succeed(&["slurm", "status", "out", "--json"])).unwrap()
    }

    pub fn submission(&self, name: &str) -> Value {
        let path = self.at.join("out/slurm").join(name).join("submission.json");
        serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
    }
}
