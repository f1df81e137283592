//! The PyTorch example for real, where there is PyTorch.

use super::errors;
use super::skip::skipped;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The folder of a Python that has PyTorch: that of `NOISESCALE_PYTHON`, else `python3`.
fn python() -> Option<PathBuf> {
    let named = std::env::var_os("NOISESCALE_PYTHON");
    let program = named.clone().unwrap_or_else(|| "python3".into());
    let found = Command::new(&program)
        .args(["-c", "import sys, torch; print(sys.executable)"])
        .stdin(Stdio::null())
        .output()
        .ok()
        .filter(|output| output.status.success())?;
    let executable = PathBuf::from(String::from_utf8(found.stdout).ok()?.trim());
    executable.parent().map(Path::to_path_buf)
}

#[test]
fn the_pytorch_examples_train() {
    let Some(folder) = python() else {
        let why = "no Python with torch; name one in NOISESCALE_PYTHON";
        return skipped("pytorch", why);
    };
    let others = std::env::var_os("PATH").unwrap_or_default();
    let path = std::env::join_paths(std::iter::once(folder).chain(std::env::split_paths(&others)));
    let path = path.unwrap();
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/pytorch");
    // Narrow networks and a few epochs learn most of the digits all the same.
    for (study, width, scheme) in [
        ("mlp", "16", "ntk"),
        ("mlp", "16", "standard"),
        ("cnn", "1", "ntk"),
    ] {
        let rate = if scheme == "ntk" { "2.0" } else { "0.05" };
        let output = Command::new(env!("CARGO_BIN_EXE_noisescale"))
            .args([
                "train",
                &format!("{study}.toml"),
                "--width",
                width,
                "--json",
            ])
            .args([
                "--batch-size",
                "32",
                "--epochs",
                "8",
                "--learning-rate",
                rate,
            ])
            .args(["--set", &format!("family.scheme={scheme}")])
            .current_dir(&examples)
            .env("PATH", &path)
            .stdin(Stdio::null())
            .output()
            .unwrap();
        assert!(
            output.status.success(),
            "{study} {scheme}: {}",
            errors(&output)
        );
        let record: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(record["outcome"], "trained", "{study} {scheme}: {record}");
        let accuracy = record["test_accuracy"].as_f64().unwrap();
        assert!(accuracy > 0.8, "{study} {scheme}: {accuracy}");
        assert_eq!(record["curve"].as_array().unwrap().len(), 20);
    }
}
