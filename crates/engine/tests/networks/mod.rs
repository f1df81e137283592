//! Networks that the tests of GPUs train, and what they learn from.

use crate::emulator::Gpu;
use engine::data::{Dataset, Examples, Normalization, Values};
use spec::{LearningRate, Override, Run, Study, Width};
use std::path::Path;
use std::sync::Arc;

const STUDY: &str = r#"
[task]
dataset = "digits"
[family]
FAMILY
widths = [24]
scheme = "ntk"
[search]
kind = "batch-size"
learning_rate = 0.5
batch_sizes = [16]
[time]
epochs = 1
stall_after = 1.0
"#;

pub const MLP: &str = "kind = \"mlp\"\nhidden = [1, 1]";
pub const ONE_LAYER: &str = "kind = \"mlp\"\nhidden = [1]";
pub const THREE_LAYERS: &str = "kind = \"mlp\"\nhidden = [1, 1, 1]";
const CNN: &str = "kind = \"cnn\"";
/// Pools of every kind: two that read the same, one whose windows do not reach the end.
const POOLS: &str = r#"kind = "layers"
layers = [
    { kind = "conv", channels = "3w", kernel = 3, padding = 1 },
    { kind = "relu" },
    { kind = "residual", body = [{ kind = "max-pool", size = 2 }], shortcut = [{ kind = "average-pool", size = 2 }] },
    { kind = "relu" },
    { kind = "max-pool", size = 3 },
]"#;

/// Sums whose terms are read by the branch itself, with an activation between or without, and sums within sums.
const RESIDUALS: &str = r#"kind = "layers"
layers = [
    { kind = "conv", channels = "4w", kernel = 3, padding = 1 },
    { kind = "residual", body = [{ kind = "conv", channels = "4w", kernel = 3, padding = 1 }] },
    { kind = "residual", body = [{ kind = "relu" }, { kind = "conv", channels = "4w", kernel = 3, padding = 1 }] },
    { kind = "residual", body = [
        { kind = "residual", body = [
            { kind = "relu" },
            { kind = "conv", channels = "4w", kernel = 3, padding = 1 },
            { kind = "relu" },
            { kind = "conv", channels = "4w", kernel = 3, padding = 1 },
        ] },
        { kind = "relu" },
        { kind = "conv", channels = "4w", kernel = 3, padding = 1 },
    ] },
    { kind = "dense", units = "8w" },
    { kind = "residual", body = [{ kind = "relu" }, { kind = "dense", units = "8w" }] },
    { kind = "relu" },
]"#;
/// Pixels that a branch does not reach: beyond the windows of a pool, between the strides of a filter, which are
/// longer than a side in the end.
const RESTS: &str = r#"kind = "layers"
layers = [
    { kind = "conv", channels = "4w", kernel = 4 },
    { kind = "residual",
      body = [{ kind = "conv", channels = "4w", kernel = 3, stride = 2 }, { kind = "relu" }],
      shortcut = [{ kind = "max-pool", size = 2 }] },
    { kind = "conv", channels = "4w", kernel = 3, padding = 1 },
    { kind = "residual",
      body = [{ kind = "conv", channels = "4w", kernel = 3, stride = 3, padding = 1 }],
      shortcut = [{ kind = "conv", channels = "4w", kernel = 1, stride = 2 }] },
    { kind = "relu" },
]"#;

/// A run of a family's member.
pub fn run(family: &str, changes: &[&str], width: u32, learning_rate: f64, steps: u64) -> Run {
    let overrides: Vec<Override> = (changes.iter())
        .map(|change| Override::parse(change).unwrap())
        .collect();
    let study = Study::parse(
        "test",
        Path::new("test"),
        &STUDY.replace("FAMILY", family),
        &overrides,
    )
    .unwrap();
    Run {
        setting: Arc::clone(&study.setting),
        width: Width::new(width).unwrap(),
        batch_size: study.typical_batch_size(),
        learning_rate: LearningRate::new(learning_rate).unwrap(),
        seed: 7,
        steps,
    }
}

/// Images of blobs whose place tells their label, of the shape that the run's task has. Looking at them
/// would take an emulated device longer than learning from them, so it gets few to look at.
pub fn data(run: &Run, gpu: &Gpu) -> Dataset {
    let content = run.setting.content();
    let shape = content.shape;
    let examples = |count: usize, salt: usize| {
        let mut bytes = Vec::new();
        let labels: Vec<u16> = (0..count).map(|i| ((i * 7 + salt) % 10) as u16).collect();
        for (i, label) in labels.iter().enumerate() {
            for at in 0..shape.size() {
                let noise = (i * 2_654_435_761 + at * 40_503 + salt * 977) / 64 % 128;
                let bright = at * 10 / shape.size() == usize::from(*label);
                bytes.push((noise + if bright { 127 } else { 0 }) as u8);
            }
        }
        Examples {
            values: Values::Bytes(bytes),
            labels,
        }
    };
    Dataset {
        shape,
        classes: content.classes,
        normalization: Normalization {
            offset: vec![80.0; shape.channels],
            factor: vec![1.0 / 64.0; shape.channels],
        },
        train: examples(500, 0),
        validation: examples(if gpu.is_emulated() { 9 } else { 90 }, 1),
        test: examples(if gpu.is_emulated() { 15 } else { 150 }, 2),
    }
}

/// Networks of every family with all that a study can turn on, at gentle rates: with a harsh
/// one, a single activation that rounding flips changes everything after it.
/// An emulated device takes a few steps only, and Wide ResNets on small images or one at a time.
pub fn cases(gpu: &Gpu) -> Vec<(&'static str, Run)> {
    let mnist = "task.dataset=\"mnist\"";
    let cifar = "task.dataset=\"cifar10\"";
    let (wrn, images, few, steps) = match gpu {
        Gpu::Real(_) => ("kind = \"wrn\"", cifar, "search.batch_sizes=[8]", 50),
        Gpu::Emulated(_) => {
            let digits = "task.dataset=\"digits\"";
            let small = "kind = \"wrn\"\nblocks = 1";
            (small, digits, "search.batch_sizes=[4]", 2)
        }
    };
    let norm = "family.batch_norm=true";
    let standard = "family.scheme=\"standard\"";
    let (b8, b12) = ("search.batch_sizes=[8]", "search.batch_sizes=[12]");
    let rules = [
        "regularizers.dropout=0.2",
        "regularizers.label_smoothing=0.1",
        "regularizers.crop_padding=2",
        "regularizers.flip=true",
    ];
    let with_rules = |changes: &[&'static str]| [changes, &rules].concat();
    let wide = [
        mnist,
        "search.batch_sizes=[128]",
        "optimizer.rule=\"heavy-ball\"",
    ];
    let smooth = [
        mnist,
        b12,
        "regularizers.label_smoothing=0.1",
        "optimizer.rule=\"heavy-ball\"",
    ];
    vec![
        ("one layer", run(ONE_LAYER, &[mnist, b8], 128, 0.2, steps)),
        ("one layer, digits", run(ONE_LAYER, &[], 37, 0.2, steps)),
        (
            "one layer, smooth",
            run(ONE_LAYER, &smooth, 300, 0.2, steps),
        ),
        (
            "one layer, B 64",
            run(
                ONE_LAYER,
                &[mnist, "search.batch_sizes=[64]"],
                200,
                0.2,
                steps,
            ),
        ),
        (
            "one layer, wide",
            run(ONE_LAYER, &[mnist, b8, standard], 1024, 0.002, steps),
        ),
        (
            "one layer, dropout",
            run(
                ONE_LAYER,
                &[mnist, "regularizers.dropout=0.2"],
                40,
                0.2,
                steps,
            ),
        ),
        ("two layers, digits", run(MLP, &[], 12, 0.2, steps)),
        (
            "two layers, B 96",
            run(MLP, &[mnist, "search.batch_sizes=[96]"], 77, 0.2, steps),
        ),
        (
            "three layers, smooth",
            run(THREE_LAYERS, &smooth, 100, 0.2, steps),
        ),
        (
            "three layers, wide",
            run(THREE_LAYERS, &[mnist], 512, 0.2, steps.min(6)),
        ),
        ("mlp", run(MLP, &[mnist], 40, 0.2, steps)),
        (
            "mlp, B 8, odd width",
            run(MLP, &[mnist, b8], 37, 0.2, steps),
        ),
        ("mlp, B 128, heavy ball", run(MLP, &wide, 130, 0.2, steps)),
        (
            "mlp, norm, all rules",
            run(MLP, &with_rules(&[mnist, norm]), 40, 0.01, steps),
        ),
        (
            // More channels than fours of a block's threads.
            "wide mlp, norm",
            run(ONE_LAYER, &[norm], 1100, 0.01, steps.min(6)),
        ),
        (
            "mlp, standard",
            run(MLP, &[cifar, standard], 33, 0.001, steps),
        ),
        ("cnn", run(CNN, &[mnist, b12], 2, 0.2, steps)),
        (
            "cnn, norm, all rules",
            run(
                CNN,
                &with_rules(&[cifar, norm, standard, b12]),
                3,
                1e-5,
                steps,
            ),
        ),
        ("pools", run(POOLS, &[], 2, 0.02, steps)),
        // What the first step leaves behind shows in the third.
        (
            "residuals, digits",
            // At 10⁻¹ the CPU's own losses part by 0.7 if the rate changes by 10⁻⁵.
            run(RESIDUALS, &[], 2, 0.01, steps.max(4)),
        ),
        ("rests, digits", run(RESTS, &[], 2, 0.1, steps.max(4))),
        ("wrn", run(wrn, &[images, few], 1, 1e-3, steps)),
        (
            "wrn, wider",
            run(wrn, &[images, standard, few], 3, 1e-6, steps),
        ),
        (
            "wrn, norm, all rules",
            run(wrn, &with_rules(&[images, norm, few]), 2, 1e-4, steps),
        ),
        (
            "wrn, images of 32 × 32",
            // At 10⁻² the CPU's own losses part by 6·10⁻⁴ if the rate changes by 10⁻⁷.
            run(wrn, &[cifar, "search.batch_sizes=[1]"], 2, 3e-4, steps),
        ),
    ]
}

/// The cases that a test of what is the same for all networks takes: an emulated device tries a few.
pub fn some_cases(gpu: &Gpu, on_gpu: impl Fn(&str) -> bool) -> Vec<(&'static str, Run)> {
    let few = [
        "one layer, smooth",
        "three layers, smooth",
        "mlp, norm, all rules",
        "cnn",
        "wrn, norm, all rules",
    ];
    let taken = |name: &str| match gpu {
        Gpu::Real(_) => on_gpu(name),
        Gpu::Emulated(_) => few.contains(&name),
    };
    let mut cases = cases(gpu);
    cases.retain(|(name, _)| taken(name));
    cases
}
