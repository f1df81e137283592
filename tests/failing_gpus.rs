//! GPUs that fail, emulated, and what they need: what is told, what is kept, and that the same command
//! goes on.
#![cfg(all(feature = "cuda", unix))]

#[path = "../crates/engine/tests/emulator/libraries.rs"]
mod libraries;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

/// The program on emulated GPUs, which keeps kernels in this folder or in that of all tests; none where
/// they cannot be emulated.
fn program(cache: Option<&Path>, gpus: &[(&str, &str)]) -> Option<Command> {
    let folder = libraries::find()?;
    let mut command = Command::new(env!("CARGO_BIN_EXE_noisescale"));
    // Before all others, so it is found although a real one may be there.
    command.env("LD_PRELOAD", folder.join("libcuda.so"));
    command.env("NOISESCALE_NVRTC", &folder);
    let all = folder.join("cache");
    command.env("XDG_CACHE_HOME", cache.unwrap_or(&all));
    command.envs(gpus.iter().copied());
    Some(command)
}

/// A few steps of a small network.
fn train(mut program: Command, device: &str) -> Output {
    let network = ["train", "digits-mlp", "--width", "8", "--batch-size", "128"];
    program.args(network).args(["--steps", "4"]);
    program.args(["--device", device]).output().unwrap()
}

fn complaint(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).trim().to_owned()
}

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Files with this ending, at any depth.
fn files(folder: &Path, ending: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let found = entries.flat_map(|entry| match entry.path() {
        path if path.is_dir() => files(&path, ending),
        path => Vec::from_iter(path.to_string_lossy().ends_with(ending).then_some(path)),
    });
    found.collect()
}

/// A study of a network with these hidden layers, written to a folder.
fn study(folder: &Path, hidden: &str, width: u32) -> PathBuf {
    let text = format!(
        r#"
title = "long"
seeds = 20
[task]
dataset = "digits"
[family]
kind = "mlp"
hidden = {hidden}
widths = [{width}]
scheme = "ntk"
[search]
kind = "batch-size"
learning_rate = 0.01
batch_sizes = [16]
[time]
stall_after = 1.0
epochs = 20000
"#
    );
    let path = folder.join("long.toml");
    std::fs::write(&path, text).unwrap();
    path
}

/// Of a cohort each run has taken a small share of the time, and all of the time would be lost.
#[test]
fn a_cohort_is_saved_by_the_time_that_would_be_lost() {
    let Some(mut program) = program(None, &[]) else {
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let (study, out) = (study(dir.path(), "[1]", 8), dir.path().join("out"));
    program.arg("run").arg(study).arg("--out").arg(&out);
    program.args(["--device", "cuda", "--checkpoint-every", "1"]);
    let mut running = program.spawn().unwrap();
    let (start, patience) = (Instant::now(), Duration::from_secs(120));
    let saved = || files(&out.join("checkpoints"), ".safetensors");
    while saved().is_empty() && start.elapsed() < patience {
        std::thread::sleep(Duration::from_millis(50));
    }
    running.kill().unwrap();
    running.wait().unwrap();
    let saved = saved();
    let bytes = std::fs::read(saved.first().expect("it was saved")).unwrap();
    let saved = engine::checkpoint::Checkpoint::from_bytes(&bytes).unwrap();
    assert!(
        saved.progress.spent < Duration::from_millis(800),
        "a run of twenty is saved after a second: {:?}",
        saved.progress
    );
}

/// What a cohort takes is known before it is placed, what it takes while it is set up included.
#[test]
fn the_driver_is_not_asked_for_more_memory_than_there_is() {
    // Two layers of 1536 weigh 9.4 MiB; they have velocities, and tables while they are drawn.
    let dir = tempfile::tempdir().unwrap();
    let study = study(dir.path(), "[1, 1]", 1536);
    let mut trained = 0;
    for mebibytes in ["20", "28", "32", "36", "40", "44", "52"] {
        let Some(mut program) = program(None, &[("EMULATED_MEMORY", mebibytes)]) else {
            return;
        };
        program.arg("train").arg(&study).args(["--width", "1536"]);
        program.args(["--steps", "1", "--device", "cuda"]);
        let output = program.output().unwrap();
        let words = complaint(&output);
        trained += u32::from(output.status.success());
        assert!(
            output.status.success() || words.contains("one run of this network"),
            "{mebibytes} MiB: {words}"
        );
    }
    assert!((1..7).contains(&trained), "{trained} of 7 amounts suffice");
}

#[test]
fn a_damaged_kernel_is_compiled_again() {
    let cache = tempfile::tempdir().unwrap();
    let Some(first) = program(Some(cache.path()), &[]) else {
        return;
    };
    let output = train(first, "cuda");
    assert!(output.status.success(), "{}", complaint(&output));
    let kernels = files(cache.path(), ".cubin");
    assert!(!kernels.is_empty());
    for (at, kernel) in kernels.iter().enumerate() {
        let mut code = std::fs::read(kernel).unwrap();
        match at % 3 {
            0 => code.truncate(code.len() / 2),
            1 => code.clear(),
            _ => code[100..200].fill(0x55),
        }
        std::fs::write(kernel, code).unwrap();
    }
    // It is then whole again.
    for time in ["first", "second"] {
        let output = train(program(Some(cache.path()), &[]).unwrap(), "cuda");
        assert!(output.status.success(), "{time}: {}", complaint(&output));
        assert_eq!(files(cache.path(), ".cubin").len(), kernels.len());
    }
    let left = files(cache.path(), "").len();
    assert_eq!(left, kernels.len(), "nothing else is left behind");
}

#[test]
fn a_driver_that_does_not_start_says_why() {
    let broken = [("EMULATED_FAIL", "cuInit:1:803")];
    let Some(program_on_broken) = program(None, &broken) else {
        return;
    };
    let output = train(program_on_broken, "cuda");
    let words = complaint(&output);
    assert_eq!(output.status.code(), Some(2), "{words}");
    assert!(
        words.contains("unsupported display driver") && words.lines().count() == 1,
        "{words}"
    );
    let output = train(program(None, &broken).unwrap(), "auto");
    let words = complaint(&output);
    assert!(output.status.success(), "{words}");
    assert!(stdout(&output).contains("on cpu"));
    assert!(
        words.contains("on the processor") && words.contains("unsupported display driver"),
        "{words}"
    );
}

/// Nothing is wrong there, and nothing is said.
#[test]
fn a_driver_without_gpus_is_as_good_as_none() {
    let none = [("EMULATED_FAIL", "cuInit:1:100")];
    let Some(program_without) = program(None, &none) else {
        return;
    };
    let output = train(program_without, "auto");
    let words = complaint(&output);
    assert!(output.status.success(), "{words}");
    assert!(!words.contains("on the processor"), "{words}");
    let output = train(program(None, &none).unwrap(), "cuda");
    let words = complaint(&output);
    assert_eq!(output.status.code(), Some(2), "{words}");
    assert!(words.contains("the driver sees 0"), "{words}");
}

/// What follows from it, a graph that is no longer valid, is not what is told.
#[test]
fn a_launch_that_fails_while_it_is_captured_is_told() {
    let Some(program) = program(None, &[("EMULATED_FAIL", "cuLaunchKernel:1:719")]) else {
        return;
    };
    let output = train(program, "cuda");
    let words = complaint(&output);
    assert_eq!(output.status.code(), Some(1), "{words}");
    assert!(words.contains("unspecified launch failure"), "{words}");
}

/// The folder that is named wins, wherever else a compiler is found by its usual name.
#[test]
fn the_named_compiler_is_the_one_that_is_used() {
    let Some(mut program) = program(None, &[]) else {
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let (named, other) = (dir.path().join("named"), dir.path().join("other"));
    compiler(&named, "libnvrtc.so.12", 9);
    compiler(&other, "libnvrtc.so", 1);
    program.env("NOISESCALE_NVRTC", named);
    program.env("LD_LIBRARY_PATH", other);
    let output = program.args(["info", "--json"]).output().unwrap();
    let words = stdout(&output);
    assert!(words.contains("12.9") && !words.contains("12.1"), "{words}");
}

/// A library in the place of NVRTC that only knows its version, 12.`minor`.
fn compiler(folder: &Path, name: &str, minor: u32) {
    let functions = [
        "CreateProgram",
        "CompileProgram",
        "GetErrorString",
        "GetProgramLogSize",
        "GetProgramLog",
        "GetCUBINSize",
        "GetCUBIN",
        "DestroyProgram",
    ];
    let mut text = format!(
        "extern \"C\" int nvrtcVersion(int* a, int* b) {{ *a = 12; *b = {minor}; return 0; }}\n"
    );
    for function in functions {
        text += &format!("extern \"C\" int nvrtc{function}() {{ return 1; }}\n");
    }
    std::fs::create_dir(folder).unwrap();
    std::fs::write(folder.join("stub.cpp"), text).unwrap();
    let mut command = Command::new("c++");
    command.current_dir(folder).args(["-shared", "-fPIC", "-o"]);
    command.args([name, "stub.cpp", &format!("-Wl,-soname,{name}")]);
    assert!(command.status().unwrap().success());
}
