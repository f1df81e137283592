//! Choosing a device: what cannot be used is one sentence, with exit code 2.

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
