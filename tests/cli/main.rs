//! The command line as people, shells and programs meet it: info, completions, manual pages,
//! JSON, exit codes and colours.

mod costs;
mod folders;
#[cfg(feature = "cuda")]
#[path = "../../crates/engine/tests/emulator/libraries.rs"]
mod libraries;
mod limits;
#[path = "../program/mod.rs"]
mod program;
mod streams;

use program::noisescale;
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// A study of a second.
const TINY: &[&str] = &[
    "digits-mlp",
    "--widths",
    "8,16",
    "--seeds",
    "2",
    "--time-scale",
    "0.01",
    "--set",
    "search.extend=0",
];

fn succeed(dir: &Path, args: &[&str]) -> Output {
    let output = noisescale(dir, args).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{args:?}: {errors}");
    output
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn json(dir: &Path, args: &[&str]) -> Value {
    let output = succeed(dir, args);
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| {
        panic!("{args:?}: {error} in {}", text(&output.stdout));
    })
}

fn run_tiny(dir: &Path, flags: &[&str]) -> Output {
    succeed(dir, &[&["run"], TINY, flags].concat())
}

#[test]
fn info_never_fails_and_tells_program_machine_data_and_environment() {
    let dir = tempfile::tempdir().unwrap();
    // Nothing is where it should be.
    let mut command = noisescale(dir.path(), &["info", "--json"]);
    command.env("NOISESCALE_DATA", dir.path().join("nowhere"));
    command.env("NOISESCALE_NVRTC", dir.path().join("nowhere"));
    command.env("PATH", dir.path());
    let output = command.output().unwrap();
    assert!(output.status.success());
    let info: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(info["program"]["version"], env!("CARGO_PKG_VERSION"));
    assert!(info["machine"]["cores"].as_u64().unwrap() >= 1);
    let chosen = &info["machine"]["instruction_set"];
    assert_eq!(chosen, &info["machine"]["instruction_sets"][0]);
    assert!(info["cuda"]["problem"].is_string(), "{info}");
    assert_eq!(info["cuda"]["gpus"], Value::Array(Vec::new()));
    let sets = info["data"]["sets"].as_array().unwrap();
    let state = |name| &sets.iter().find(|set| set["dataset"] == name).unwrap()["state"];
    assert_eq!(state("digits"), "embedded");
    assert_eq!(state("mnist"), "missing");
    let slurm = info["tools"]["slurm"]["problem"].as_str().unwrap();
    assert!(slurm.contains("not found"), "{slurm}");
    assert_eq!(info["environment"]["CUDA_VISIBLE_DEVICES"], "");
}

/// The emulated driver says what a real one would, to the code that asks it.
#[cfg(feature = "cuda")]
#[test]
fn info_shows_every_gpu_and_what_keeps_it_from_training() {
    let Some(folder) = libraries::find() else {
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let ask = |flags: &[&str]| {
        let mut command = noisescale(dir.path(), &[&["info"], flags].concat());
        command.env("LD_PRELOAD", folder.join("libcuda.so"));
        command.env("EMULATED_GPUS", "7.0,9.0");
        command.env("NOISESCALE_NVRTC", dir.path().join("nowhere"));
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
        text(&output.stdout)
    };
    let info: Value = serde_json::from_str(&ask(&["--json"])).unwrap();
    let driver = info["cuda"]["driver"]["version"].as_str().unwrap();
    assert!(driver.ends_with("for CUDA up to 13.0"), "{driver}");
    let [old, new] = [&info["cuda"]["gpus"][0], &info["cuda"]["gpus"][1]];
    assert_eq!(old["compute_capability"], "7.0");
    assert!(old["problem"].as_str().unwrap().contains("8.0"), "{old}");
    assert_eq!(new["name"], "emulator");
    assert_eq!(new["bytes"], 1u64 << 32);
    assert_eq!(new["problem"], Value::Null);
    // One GPU would do, if kernels could be compiled.
    let problem = info["cuda"]["problem"].as_str().unwrap();
    assert!(problem.contains("NOISESCALE_NVRTC"), "{problem}");
    let words = ask(&[]);
    assert!(
        words.contains("emulator, compute capability 9.0, 4.00 GiB"),
        "{words}"
    );
    assert_eq!(
        words.matches("NVRTC names").count(),
        1,
        "said once: {words}"
    );
}

#[test]
fn every_shell_gets_completions_that_know_the_commands() {
    let dir = tempfile::tempdir().unwrap();
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let script = text(&succeed(dir.path(), &["completions", shell]).stdout);
        for word in ["resubmit", "checkpoint-every", "info"] {
            assert!(script.contains(word), "{shell}: {word}");
        }
    }
    let output = noisescale(dir.path(), &["completions", "tcsh"]).output();
    assert_eq!(output.unwrap().status.code(), Some(2));
}

#[test]
fn bash_completes_with_the_script() {
    let dir = tempfile::tempdir().unwrap();
    let script = succeed(dir.path(), &["completions", "bash"]).stdout;
    std::fs::write(dir.path().join("noisescale.bash"), script).unwrap();
    let ask = "source noisescale.bash; COMP_WORDS=(noisescale slurm re); COMP_CWORD=2; \
               _noisescale noisescale re slurm; echo \"${COMPREPLY[@]}\"";
    let bash = Command::new("bash");
    let Ok(output) = { bash }.args(["-c", ask]).current_dir(dir.path()).output() else {
        println!("skipped: there is no bash");
        return;
    };
    let words = text(&output.stdout);
    assert_eq!(words.trim(), "resubmit", "{}", text(&output.stderr));
}

#[test]
fn there_is_a_manual_page_of_every_command() {
    let dir = tempfile::tempdir().unwrap();
    let page = text(&succeed(dir.path(), &["man"]).stdout);
    assert!(page.contains(".TH noisescale 1"), "{page}");
    succeed(dir.path(), &["man", "--out", "pages"]);
    let pages = dir.path().join("pages");
    for name in ["noisescale", "noisescale-run", "noisescale-slurm-submit"] {
        let page = std::fs::read_to_string(pages.join(format!("{name}.1"))).unwrap();
        assert!(page.contains("Example"), "{name}: {page}");
    }
    assert!(!pages.join("noisescale-guard.1").exists(), "it is hidden");
}

#[test]
fn with_json_standard_output_holds_json_alone() {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path();
    let prepared = json(
        at,
        &[&["prepare"], TINY, &["--out", "shared", "--json"]].concat(),
    );
    assert_eq!(prepared["recorded"], 0);
    let to_train = prepared["to_train"].as_u64().unwrap();
    assert!(to_train > 0);
    let worked = json(at, &["work", "shared", "--shard", "1/1", "--json"]);
    assert_eq!(worked["end"], "done");
    assert_eq!(worked["shard"], "1/1");
    assert_eq!(worked["recorded"].as_u64(), Some(to_train));
    let again = json(at, &["work", "shared", "--shard", "1/1", "--json"]);
    assert_eq!(again["recorded_before"], again["recorded"]);

    let output = run_tiny(at, &["--out", "shared", "--json"]);
    let findings: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(text(&output.stderr).contains("into shared"));
    let searches = |findings: &Value| findings["studies"][0]["searches"].to_string();
    let reported = json(at, &["report", "shared", "--json"]);
    assert_eq!(searches(&reported), searches(&findings));
    assert!(searches(&reported).contains("optimum"));
    json(at, &["status", "shared", "--json"]);
    json(at, &[&["check"], TINY, &["--json"]].concat());
    json(at, &["data", "list", "--json"]);
    json(
        at,
        &[
            "train",
            "digits-mlp",
            "--width",
            "8",
            "--steps",
            "20",
            "--json",
        ],
    );
    json(
        at,
        &["bench", "--only", "1LP", "--seconds", "0.01", "--json"],
    );
}

#[test]
fn exit_codes_say_whose_turn_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let code = |args: &[&str]| {
        let output = noisescale(dir.path(), args).output().unwrap();
        assert!(output.stdout.is_empty(), "{args:?}");
        assert!(!output.stderr.is_empty(), "{args:?}");
        output.status.code()
    };
    assert_eq!(code(&["status", "nowhere", "--json"]), Some(2));
    assert_eq!(code(&["run", "no-such-study", "--json"]), Some(2));
    assert_eq!(code(&["run"]), Some(2));
    assert_eq!(code(&["run", "quickstart", "--seeds", "none"]), Some(2));
    // A file where a folder should be: the command was right, the disk is not.
    std::fs::write(dir.path().join("file"), "").unwrap();
    assert_eq!(code(&["man", "--out", "file/pages"]), Some(1));
    let help = text(&succeed(dir.path(), &["--help"]).stdout);
    for code in ["0  ", "1  ", "2  ", "130  "] {
        assert!(help.contains(code), "{help}");
    }
}

/// What a call ends with whose reader has gone before the first line.
#[cfg(unix)]
fn without_a_reader(dir: &Path, args: &[&str]) -> Output {
    let mut command = noisescale(dir, args);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    drop(child.stdout.take());
    child.wait_with_output().unwrap()
}

#[cfg(unix)]
#[test]
fn a_reader_who_has_seen_enough_ends_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let run = [&["run"], TINY].concat();
    let check = [&["check"], TINY].concat();
    let calls: [&[&str]; 6] = [
        &run,
        &check,
        &["status", "runs/digits-mlp"],
        &["export", "runs/digits-mlp"],
        &["report", "runs/digits-mlp"],
        &["info"],
    ];
    for call in calls {
        let output = without_a_reader(dir.path(), call);
        let errors = text(&output.stderr);
        assert!(
            output.status.success() && !errors.contains("panicked"),
            "{call:?}: {errors}"
        );
    }
    // The study went on to its end.
    assert!(dir.path().join("runs/digits-mlp/report.html").exists());
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_one_sentence() {
    let dir = tempfile::tempdir().unwrap();
    let full = std::fs::OpenOptions::new()
        .write(true)
        .open("/dev/full")
        .unwrap();
    let mut command = noisescale(dir.path(), &[&["check"], TINY].concat());
    let output = command.stdout(full).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let complaint = text(&output.stderr);
    assert!(
        complaint.starts_with("noisescale: standard output"),
        "{complaint}"
    );
    assert_eq!(complaint.lines().count(), 1, "{complaint}");
}

#[test]
fn without_a_terminal_there_are_no_escapes() {
    let dir = tempfile::tempdir().unwrap();
    let train = ["train", "digits-mlp", "--width", "8", "--steps", "2000"];
    let outputs = [
        run_tiny(dir.path(), &[]),
        succeed(dir.path(), &train),
        succeed(dir.path(), &["--help"]),
        noisescale(dir.path(), &["run", "--no-such"])
            .output()
            .unwrap(),
    ];
    for output in outputs {
        for bytes in [output.stdout, output.stderr] {
            assert!(
                !bytes.contains(&0x1b),
                "{}",
                String::from_utf8_lossy(&bytes)
            );
        }
    }
}

/// What the program writes on a terminal, by util-linux's `script`; none without it.
fn on_a_terminal(args: &str, environment: &[(&str, &str)]) -> Option<String> {
    let dir = tempfile::tempdir().unwrap();
    let call = format!("{} {args}", env!("CARGO_BIN_EXE_noisescale"));
    let mut command = Command::new("script");
    command.args(["-qec", &call, "/dev/null"]);
    command.current_dir(dir.path()).stdin(Stdio::null());
    command
        .env("TERM", "xterm-256color")
        .env("CUDA_VISIBLE_DEVICES", "");
    // `CI` as well: help is coloured even on a dumb terminal where it is set.
    for name in ["NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "CI"] {
        command.env_remove(name);
    }
    command.envs(environment.iter().copied());
    let output = command
        .output()
        .ok()
        .filter(|output| output.status.success())?;
    Some(text(&output.stdout))
}

/// Whether there is a sequence that sets colours or weights: ESC [ numbers m.
fn has_style(text: &str) -> bool {
    text.split("\x1b[").skip(1).any(|rest| {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != ';');
        end.is_some_and(|end| rest[end..].starts_with('m'))
    })
}

#[test]
fn on_a_terminal_no_color_removes_the_colours() {
    // Long enough for a bar to be drawn, in the development build.
    let calls = ["--help", "train digits-mlp --width 16 --steps 20000"];
    for call in calls {
        let Some(plain) = on_a_terminal(call, &[]) else {
            println!("skipped: `script` makes no terminal here");
            return;
        };
        assert!(has_style(&plain), "{call}: {plain:?}");
        let without = on_a_terminal(call, &[("NO_COLOR", "1")]).unwrap();
        assert!(!has_style(&without), "{call}: {without:?}");
        let dumb = on_a_terminal(call, &[("TERM", "dumb")]).unwrap();
        assert!(!dumb.contains('\x1b'), "{call}: {dumb:?}");
    }
}
