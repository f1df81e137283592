//! Choosing a device: what cannot be used is one sentence, with exit code 2; and a GPU, emulated here,
//! does what the processor does.

#[cfg(feature = "cuda")]
#[path = "../crates/engine/tests/emulator/libraries.rs"]
mod libraries;

use std::process::{Command, Output};

fn train(device: &str, environment: &[(&str, &str)]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_noisescale"));
    command.args(["train", "digits-mlp", "--width", "8", "--steps", "20"]);
    command.args(["--device", device]);
    command.envs(environment.iter().copied());
    command.output().unwrap()
}

fn complaint(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).trim().to_owned()
}

#[test]
fn an_unknown_device_is_named() {
    for device in ["tpu", "cuda:", "cuda:x", "cuda:-1"] {
        let output = train(device, &[]);
        assert_eq!(output.status.code(), Some(2), "{device}");
        let complaint = complaint(&output);
        assert!(
            complaint.contains("auto, cpu, cuda or cuda:N"),
            "{complaint}"
        );
    }
}

#[test]
fn a_gpu_that_is_not_there_is_one_sentence() {
    let output = train("cuda:99", &[]);
    assert_eq!(output.status.code(), Some(2));
    let complaint = complaint(&output);
    assert_eq!(complaint.lines().count(), 1, "{complaint}");
    let known = [
        "no NVIDIA driver",
        "there is no GPU 99",
        "built without CUDA",
    ];
    assert!(
        known.iter().any(|text| complaint.contains(text)),
        "{complaint}"
    );
}

#[test]
fn auto_always_trains() {
    // A driver that shows no GPU is as good as none.
    let output = train("auto", &[("CUDA_VISIBLE_DEVICES", "")]);
    assert!(output.status.success(), "{}", complaint(&output));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("on cpu"), "{text}");
}

/// The program with a GPU, an emulated one; none where it cannot be built.
#[cfg(feature = "cuda")]
fn with_gpu(args: &[&str]) -> Option<Output> {
    let folder = match libraries::build() {
        Ok(folder) => folder,
        Err(reason) => {
            println!("skipped: no emulated GPU: {reason}");
            return None;
        }
    };
    let mut command = Command::new(env!("CARGO_BIN_EXE_noisescale"));
    command.args(args);
    // Before all others, so it is found although a real one may be there.
    command.env("LD_PRELOAD", folder.join("libcuda.so"));
    command.env("NOISESCALE_NVRTC", &folder);
    command.env("XDG_CACHE_HOME", folder.join("cache"));
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", complaint(&output));
    Some(output)
}

#[cfg(feature = "cuda")]
#[test]
fn a_gpu_trains_what_the_processor_trains() {
    let args = |device| {
        let run = ["train", "digits-mlp", "--width", "16", "--batch-size", "32"];
        let rest = ["--steps", "40", "--seeds", "3", "--precision", "fp32"];
        [&run[..], &rest, &["--json", "--device", device]].concat()
    };
    let Some(gpu) = with_gpu(&args("cuda")) else {
        return;
    };
    let cpu = Command::new(env!("CARGO_BIN_EXE_noisescale"))
        .args(args("cpu"))
        .output()
        .unwrap();
    let records = |output: &Output| -> Vec<serde_json::Value> {
        let lines = String::from_utf8(output.stdout.clone()).unwrap();
        lines
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    };
    let (gpu, cpu) = (records(&gpu), records(&cpu));
    assert_eq!((gpu.len(), cpu.len()), (3, 3));
    for (gpu, cpu) in gpu.iter().zip(&cpu) {
        for same in ["run", "seed", "outcome", "steps"] {
            assert_eq!(gpu[same], cpu[same], "{same}");
        }
        let loss = |record: &serde_json::Value| record["curve"][4]["training_loss"].as_f64();
        let (gpu_loss, cpu_loss) = (loss(gpu).unwrap(), loss(cpu).unwrap());
        assert!(
            (gpu_loss / cpu_loss - 1.0).abs() < 1e-3,
            "{gpu_loss} against {cpu_loss}"
        );
        assert_eq!(gpu["device"], "cuda emulator fp32");
    }
}

#[cfg(feature = "cuda")]
#[test]
fn a_study_runs_on_a_gpu_and_is_done_then() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("study").display().to_string();
    let mut run = vec!["run", "digits-mlp", "--widths", "8", "--seeds", "2"];
    run.extend(["--time-scale", "0.01", "--device", "auto", "--out", &out]);
    if with_gpu(&run).is_none() {
        return;
    }
    let status = with_gpu(&["status", &out, "--json"]).unwrap();
    let status: serde_json::Value = serde_json::from_slice(&status.stdout).unwrap();
    assert_eq!(status["recorded"], status["planned"], "{status}");
    let text = std::fs::read_dir(dir.path().join("study/records")).unwrap();
    let records: String = text
        .map(|file| std::fs::read_to_string(file.unwrap().path()).unwrap())
        .collect();
    assert!(
        records.contains("cuda emulator tf32"),
        "auto is a GPU where there is one"
    );
}
