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

/// Memory that the system does not give ends the run with a sentence, not the program by a signal.
#[cfg(target_os = "linux")]
#[test]
fn a_run_too_large_for_memory_is_one_sentence() {
    let dir = tempfile::tempdir().unwrap();
    let study = dir.path().join("wide.toml");
    let text = "[task]\ndataset = \"digits\"\n\
        [family]\nkind = \"mlp\"\nhidden = [1, 1]\nwidths = [12000]\nscheme = \"ntk\"\n\
        [search]\nkind = \"batch-size\"\nlearning_rate = 0.1\nbatch_sizes = [16]\n\
        [time]\nepochs = 1\n";
    std::fs::write(&study, text).unwrap();
    let train = "ulimit -v 1500000; exec \"$0\" train \"$1\" --width 12000 --steps 1 --device cpu --threads 1";
    let mut shell = Command::new("sh");
    shell.args(["-c", train, env!("CARGO_BIN_EXE_noisescale")]);
    let output = shell.arg(&study).output().unwrap();
    let complaint = complaint(&output);
    assert_eq!(output.status.code(), Some(2), "{complaint}");
    assert_eq!(complaint.lines().count(), 1, "{complaint}");
    assert!(
        complaint.contains("MiB") && complaint.contains("smaller width"),
        "{complaint}"
    );
}

/// What the program says with emulated GPUs.
#[cfg(feature = "cuda")]
mod emulated {
    use super::{Output, complaint, libraries};
    use serde_json::Value;
    use std::process::Command;

    /// The program called with these GPUs; none where they cannot be emulated.
    fn call(args: &[&str], gpus: &[(&str, &str)]) -> Option<Output> {
        let folder = libraries::find()?;
        let mut command = Command::new(env!("CARGO_BIN_EXE_noisescale"));
        command.args(args).envs(gpus.iter().copied());
        // Before all others, so it is found although a real one may be there.
        command.env("LD_PRELOAD", folder.join("libcuda.so"));
        command.env("NOISESCALE_NVRTC", &folder);
        command.env("XDG_CACHE_HOME", folder.join("cache"));
        Some(command.output().unwrap())
    }

    /// Records of three seeds of a small network, trained on a device.
    fn train(device: &str, gpus: &[(&str, &str)]) -> Option<Vec<Value>> {
        let run = ["train", "digits-mlp", "--width", "16", "--batch-size", "32"];
        let rest = ["--steps", "40", "--seeds", "3", "--precision", "fp32"];
        let args = [&run[..], &rest, &["--json", "--device", device]].concat();
        let output = call(&args, gpus)?;
        assert!(output.status.success(), "{}", complaint(&output));
        let lines = String::from_utf8(output.stdout).unwrap();
        let record = |line| serde_json::from_str(line).unwrap();
        Some(lines.lines().map(record).collect())
    }

    fn agree(gpu: &[Value], cpu: &[Value]) {
        assert_eq!((gpu.len(), cpu.len()), (3, 3));
        for (gpu, cpu) in gpu.iter().zip(cpu) {
            for same in ["run", "seed", "outcome", "steps"] {
                assert_eq!(gpu[same], cpu[same], "{same}");
            }
            let loss = |record: &Value| record["curve"][4]["training_loss"].as_f64().unwrap();
            let (gpu_loss, cpu_loss) = (loss(gpu), loss(cpu));
            assert!(
                (gpu_loss / cpu_loss - 1.0).abs() < 1e-3,
                "{gpu_loss} against {cpu_loss}"
            );
            assert_eq!(gpu["device"], "cuda emulator fp32");
        }
    }

    #[test]
    fn a_gpu_trains_what_the_processor_trains() {
        let Some(cpu) = train("cpu", &[]) else { return };
        // With clusters of blocks, and before there were any.
        for capability in ["9.0", "8.0"] {
            agree(
                &train("cuda", &[("EMULATED_GPUS", capability)]).unwrap(),
                &cpu,
            );
        }
        // Where memory is not for all of them at once: each is then timed by itself.
        let apart = train("cuda", &[("EMULATED_MEMORY", "2")]).unwrap();
        agree(&apart, &cpu);
        let mut seconds: Vec<f64> = (apart.iter())
            .map(|record| record["seconds"].as_f64().unwrap())
            .collect();
        seconds.sort_by(f64::total_cmp);
        assert!(seconds[2] - seconds[0] > 1e-5, "{seconds:?}");
    }

    #[test]
    fn a_gpu_that_cannot_train_is_one_sentence() {
        let args = |width, device| {
            let run = ["train", "digits-mlp", "--width", width];
            [&run[..], &["--steps", "20", "--device", device]].concat()
        };
        let old = [("EMULATED_GPUS", "7.5")];
        let Some(output) = call(&args("8", "cuda"), &old) else {
            return;
        };
        let words = complaint(&output);
        assert_eq!(output.status.code(), Some(2), "{words}");
        assert!(
            words.contains("compute capability 7.5, the kernels need 8.0"),
            "{words}"
        );
        let output = call(&args("8", "auto"), &old).unwrap();
        assert!(output.status.success(), "{}", complaint(&output));
        assert!(String::from_utf8_lossy(&output.stdout).contains("on cpu"));
        let output = call(&args("4096", "cuda"), &[("EMULATED_MEMORY", "1")]).unwrap();
        let words = complaint(&output);
        assert_eq!(output.status.code(), Some(2), "{words}");
        assert_eq!(words.lines().count(), 1, "{words}");
        assert!(words.contains("MiB"), "{words}");
    }

    /// A small study on all GPUs, or one: which of them were used.
    fn used(device: &str) -> Option<String> {
        let dir = tempfile::tempdir().unwrap();
        let (out, log) = (dir.path().join("study"), dir.path().join("log"));
        let (out_text, log_text) = (out.to_str().unwrap(), log.to_str().unwrap());
        let gpus = [("EMULATED_GPUS", "9.0,9.0"), ("EMULATED_LOG", log_text)];
        let mut run = vec!["run", "digits-mlp", "--widths", "8", "--seeds", "2"];
        run.extend([
            "--time-scale",
            "0.01",
            "--device",
            device,
            "--out",
            out_text,
        ]);
        let output = call(&run, &gpus)?;
        assert!(output.status.success(), "{}", complaint(&output));
        let status = call(&["status", out_text, "--json"], &gpus).unwrap();
        let status: Value = serde_json::from_slice(&status.stdout).unwrap();
        assert_eq!(status["recorded"], status["planned"], "{status}");
        let mut lines: Vec<String> = std::fs::read_to_string(log)
            .unwrap()
            .lines()
            .map(str::to_owned)
            .collect();
        lines.sort();
        Some(lines.join(" "))
    }

    #[test]
    fn a_study_runs_on_all_gpus_or_on_one() {
        let Some(all) = used("auto") else { return };
        assert_eq!(all, "GPU 0 GPU 1");
        assert_eq!(used("cuda:1").unwrap(), "GPU 1");
    }

    #[test]
    fn bench_times_steps_and_kernels_of_a_gpu() {
        let args = [
            "bench",
            "--device",
            "cuda",
            "--only",
            "1LP_128 B8",
            "--seconds",
            "0.1",
        ];
        let Some(output) = call(&[&args[..], &["--replicas", "2", "--json"]].concat(), &[]) else {
            return;
        };
        assert!(output.status.success(), "{}", complaint(&output));
        let found: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(found["device"], "emulator");
        let case = &found["cases"][0];
        assert_eq!(
            (&case["name"], &case["replicas"]),
            (&"1LP_128 B8".into(), &2.into())
        );
        assert!(
            case["microseconds_per_step"].as_f64().unwrap() > 0.0,
            "{case}"
        );
        let output = call(
            &[&args[..], &["--replicas", "2", "--kernels"]].concat(),
            &[],
        )
        .unwrap();
        let words = String::from_utf8(output.stdout).unwrap();
        for kernel in ["draw_picks", "train_resident"] {
            assert!(words.contains(kernel), "{words}");
        }
    }

    #[test]
    fn a_plan_says_that_its_times_leave_gpus_out() {
        let Some(output) = call(&["check", "quickstart"], &[]) else {
            return;
        };
        let words = String::from_utf8(output.stdout).unwrap();
        assert!(words.contains("times above leave it out"), "{words}");
    }
}
