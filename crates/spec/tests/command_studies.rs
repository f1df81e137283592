//! Studies that a command of the user's own trains: what they become, and what is refused.

use spec::{Call, Override, Place, Run, Study, Task, plan};
use std::path::Path;
use std::time::Duration;

const GOOD: &str = r#"seeds = 2

[trainer]
command = ["python", "train.py", "--width={width}", "{batch_size}", "{learning_rate}", "{seed}", "{steps}"]
environment = { OMP_NUM_THREADS = "1", CUDA_VISIBLE_DEVICES = "{slot}" }
timeout_seconds = 1.5
memory_mb = 2
folder = "scripts"

[task]
name = "Words"
training_examples = 1000
chance_accuracy = 0.1

[family]
name = "LSTM"
widths = [8, 4]
scheme = "standard"

[optimizer]
momentum = 0.5

[search]
kind = "batch-size"
learning_rate = 0.05
batch_sizes = [4, 8]

[time]
epochs = 10
"#;

fn read(text: &str, sets: &[&str]) -> Result<Study, String> {
    let overrides: Vec<Override> = sets.iter().map(|s| Override::parse(s).unwrap()).collect();
    Study::parse("test", Path::new("test.toml"), text, &overrides).map_err(|e| e.to_string())
}

fn call(run: &Run) -> Call<'_> {
    Call {
        run,
        run_folder: "/a b",
        slot: 3,
    }
}

#[test]
fn a_good_file_becomes_a_plan_and_command_lines() {
    let study = Study::parse_file(Path::new("here/test.toml"), GOOD, &[]).unwrap();
    let runs = plan(&study);
    assert_eq!(runs.len(), 8);
    // T = 10 · 1000 / 4.
    assert_eq!(runs[0].steps, 2500);
    // g = 0.05 · 1000 / (4 · 0.5) = 25; ḡ = g·w/σ₀² with w 4 and σ₀² 2.
    assert!((runs[0].normalized_noise().get() - 50.0).abs() < 1e-9);
    let command = study.setting.command().unwrap();
    assert_eq!(
        command.words(&call(&runs[1])),
        ["python", "train.py", "--width=4", "4", "0.05", "1", "2500"]
    );
    let variables = command.variables(&call(&runs[1]));
    let variable = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    assert_eq!(
        variables,
        [
            variable("CUDA_VISIBLE_DEVICES", "3"),
            variable("OMP_NUM_THREADS", "1")
        ]
    );
    let rules = study.command_rules.unwrap();
    assert_eq!(rules.folder, Path::new("here/scripts"));
    assert_eq!(rules.timeout, Some(Duration::from_millis(1500)));
    assert_eq!(
        (rules.memory, rules.retries, rules.concurrency),
        (Some(2 << 20), 2, 1)
    );
    // A ninth of the way from chance to all right.
    assert!((study.setting.evaluation.stall_accuracy - 0.2).abs() < 1e-12);
    assert_eq!(study.setting.family.label(), "LSTM");
    assert!(matches!(&study.setting.task, Task::Declared(task) if task.name == "Words"));
}

#[test]
fn every_place_is_filled() {
    let all = Place::ALL
        .map(|place| format!("\"{{{}}}\"", place.name()))
        .join(",");
    let study = read(GOOD, &[&format!("trainer.command=[\"c\",{all}]")]).unwrap();
    let run = &plan(&study)[0];
    let words = study.setting.command().unwrap().words(&call(run));
    let id = run.id().to_string();
    let expected = [
        "c", "4", "4", "0.05", "0", "2500", "standard", "2", "0.5", "20", &id, "/a b", "3",
    ];
    assert_eq!(words, expected);
}

#[test]
fn ids_follow_what_determines_a_result_and_nothing_else() {
    let ids = |sets: &[&str]| -> Vec<_> {
        let study = read(GOOD, sets).unwrap();
        plan(&study).iter().map(Run::id).collect()
    };
    let usual = ids(&[]);
    for same in [
        "trainer.timeout_seconds=9",
        "trainer.memory_mb=900",
        "trainer.retries=0",
        "trainer.concurrency=7",
        "trainer.grace_seconds=0",
        "trainer.folder=\"elsewhere\"",
        "family.name=\"Other\"",
    ] {
        assert_eq!(ids(&[same]), usual, "{same}");
    }
    for other in [
        "trainer.version=2",
        "trainer.environment.SEEDS=\"{seed}\"",
        "trainer.command=[\"python3\", \"{width} {batch_size} {learning_rate} {seed} {steps}\"]",
        "task.training_examples=999",
        "task.chance_accuracy=0.5",
        "optimizer.momentum=0.9",
    ] {
        let changed = ids(&[other]);
        assert!(usual.iter().all(|id| !changed.contains(id)), "{other}");
    }
    assert_eq!(ids(&["trainer.version=2"]), ids(&["trainer.version=\"2\""]));
}

/// Records of studies that the engine trains stay theirs: these ids were written
/// before there were commands.
#[test]
fn ids_of_engine_runs_are_those_of_earlier_releases() {
    let text = std::fs::read_to_string("../../studies/digits-mlp.toml").unwrap();
    let study = Study::parse("digits-mlp", Path::new("digits-mlp.toml"), &text, &[]).unwrap();
    let run = Run {
        steps: 20,
        batch_size: spec::BatchSize::new(16).unwrap(),
        ..plan(&study)[0].clone()
    };
    assert_eq!(run.id().to_string(), "e5de70d56c3738675e324fa4ada7b78b");
}

#[test]
fn mistakes_name_their_line_and_remedy() {
    let cases = [
        (
            "--width={width}",
            "--width={widht}",
            "test.toml:4: `trainer.command`: `{widht}` is no value of a run; did you mean `{width}`?",
        ),
        (
            ", \"{seed}\"",
            "",
            "test.toml:4: `trainer.command`: the command is not told the seed; add `{seed}`",
        ),
        (
            "{batch_size}",
            "8",
            "test.toml:4: `trainer.command`: the command is not told the batch size; add `{batch_size}`",
        ),
        (
            "\"{slot}\"",
            "\"{slot\"",
            "test.toml:5: `trainer.environment.CUDA_VISIBLE_DEVICES`: `{slot` has a brace without",
        ),
        (
            "OMP_NUM_THREADS",
            "NOISESCALE_SLOT",
            "test.toml:5: `trainer.environment.NOISESCALE_SLOT`: noisescale itself sets",
        ),
        (
            "timeout_seconds = 1.5",
            "timeout_seconds = 0",
            "test.toml:6: `trainer.timeout_seconds`: give seconds",
        ),
        (
            "timeout_seconds",
            "timeout",
            "test.toml:6: unknown key `timeout`; did you mean `timeout_seconds`?",
        ),
        (
            "memory_mb = 2",
            "memory_mb = 0",
            "test.toml:7: `trainer.memory_mb`: no command runs in 0 MB",
        ),
        (
            "folder = \"scripts\"",
            "concurrency = 0",
            "test.toml:8: `trainer.concurrency`: at least 1",
        ),
        (
            "name = \"Words\"",
            "dataset = \"digits\"",
            "test.toml:11: `task.dataset`: the command of `[trainer]` reads its own data",
        ),
        (
            "name = \"Words\"\n",
            "",
            "test.toml:10: `task.name`: say what",
        ),
        (
            "training_examples = 1000\n",
            "",
            "test.toml:10: `task.training_examples`: say how many",
        ),
        (
            "chance_accuracy = 0.1",
            "chance_accuracy = 1",
            "test.toml:13: `task.chance_accuracy`: must be",
        ),
        (
            "name = \"LSTM\"",
            "kind = \"mlp\"",
            "test.toml:16: `family.kind`: the command of `[trainer]` makes",
        ),
        (
            "name = \"LSTM\"",
            "hidden = [1]",
            "test.toml:16: `family.hidden`: the command of `[trainer]` makes",
        ),
        (
            "momentum = 0.5",
            "rule = \"nesterov\"",
            "test.toml:21: `optimizer.rule`: the command of `[trainer]` makes",
        ),
        (
            "momentum = 0.5",
            "",
            "test.toml:20: `optimizer.momentum`: ḡ depends",
        ),
        (
            "[search]",
            "[regularizers]\n[search]",
            "test.toml:23: `regularizers`: the command of `[trainer]` makes",
        ),
        (
            "batch_sizes = [4, 8]",
            "batch_sizes = [4, 2000]",
            "test.toml:26: `search.batch_sizes`: batch size 2000 exceeds the 1000 training examples of Words",
        ),
    ];
    for (good, bad, expected) in cases {
        let error = read(&GOOD.replacen(good, bad, 1), &[]).unwrap_err();
        assert!(error.starts_with(expected), "{bad}: {error}");
        assert_eq!(error.lines().count(), 1, "{error}");
    }
}

#[test]
fn an_engine_study_declares_nothing() {
    let text = GOOD.replacen("[trainer]", "[other]", 1);
    let start = text.find("[other]").unwrap();
    let end = text.find("[task]").unwrap();
    let without = format!("{}{}", &text[..start], &text[end..]);
    let error = read(&without, &[]).unwrap_err();
    assert!(
        error.contains("`task.name`: only studies with a command"),
        "{error}"
    );
    let known = without.replacen(
        "name = \"Words\"\ntraining_examples = 1000\nchance_accuracy = 0.1",
        "dataset = \"digits\"",
        1,
    );
    let error = read(&known, &[]).unwrap_err();
    assert!(
        error.contains("`family.kind`: say which networks"),
        "{error}"
    );
}
