//! `noisescale bench`: the training step of every family against the machine's limit.
//!
//! The machine is taken to be noisy: other work on it can only make a slice slower. So
//! every network is timed in many short slices, those of one run, of several at once and
//! of the multiply–add peak taking turns, and what is told is the fastest of each.

#[cfg(feature = "cuda")]
mod cohort;
mod whole_run;

use crate::cli::BenchArgs;
use crate::device::{self, Choice};
use crate::failure::Mistake;
use crate::output::{print, say};
use crate::runner::{made_up, step_products};
use crate::{studies, train};
use anyhow::Result;
use engine::data::Dataset;
use engine::kernels::{Isa, peak};
use engine::train::{Compiled, Training};
use serde::Serialize;
use spec::{BatchSize, Override, Run, Width};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use whole_run::WholeRun;

/// One network at one batch size, from a built-in study.
struct Case {
    name: &'static str,
    study: &'static str,
    width: u32,
    batch: u32,
    batch_norm: bool,
    /// A step of it takes a processor many seconds.
    for_gpus: bool,
}

const fn case(name: &'static str, study: &'static str, width: u32, batch: u32) -> Case {
    Case {
        name,
        study,
        width,
        batch,
        batch_norm: false,
        for_gpus: false,
    }
}

const fn for_gpus(case: Case) -> Case {
    Case {
        for_gpus: true,
        ..case
    }
}

const fn normed(case: Case) -> Case {
    Case {
        batch_norm: true,
        ..case
    }
}

/// Sizes like the paper's.
const CASES: [Case; 15] = [
    case("1LP_128 B8", "mnist-1lp", 128, 8),
    case("1LP_1024 B8", "mnist-1lp", 1024, 8),
    case("2LP_256 B32", "mnist-2lp", 256, 32),
    case("3LP_512 B16", "mnist-3lp", 512, 16),
    case("3LP_512 B128", "mnist-3lp", 512, 128),
    case("CNN_2 B24", "fmnist-cnn", 2, 24),
    case("CNN_4 B96", "fmnist-cnn", 4, 96),
    case("CNN_12 B24", "fmnist-cnn", 12, 24),
    normed(case("CNN_4 B96 BN", "fmnist-cnn", 4, 96)),
    case("WRN_2 B8", "cifar10-wrn", 2, 8),
    case("WRN_2 B64", "cifar10-wrn", 2, 64),
    case("WRN_4 B64", "cifar10-wrn", 4, 64),
    for_gpus(case("WRN_8 B64", "cifar10-wrn", 8, 64)),
    normed(case("WRN_2 B64 BN", "cifar10-wrn", 2, 64)),
    normed(case("WRN_4 B64 BN", "cifar10-wrn", 4, 64)),
];

/// Slices of a measurement; fewer where a step is longer than a slice.
const SLICES: u32 = 25;
const FEWEST_SLICES: u32 = 3;
/// Examples to draw batches from: more than a cache holds, as in real data.
const EXAMPLES: usize = 4096;

/// What was measured.
#[derive(Serialize)]
struct Report {
    version: u32,
    isa: String,
    threads: usize,
    peak_gflops: f64,
    cases: Vec<Row>,
    /// Only when all networks are measured.
    whole_run: Option<WholeRun>,
}

#[derive(Serialize)]
struct Row {
    name: &'static str,
    network: Network,
    batch: u32,
    steps_per_second: f64,
    gflops: f64,
    share_of_peak: f64,
    /// Steps per second of all runs at once over those of one alone.
    scaling: f64,
    bytes_per_run: usize,
}

/// The network, for programs that build the same.
#[derive(Serialize)]
struct Network {
    family: &'static str,
    /// Hidden layers of a perceptron.
    hidden: usize,
    width: u32,
    batch_norm: bool,
    /// Height, width, channels.
    input: [usize; 3],
    classes: usize,
    parameters: usize,
}

/// Measures, and prints a table.
pub fn run(args: &BenchArgs) -> Result<()> {
    let on_gpu = match args.device {
        Choice::Cpu => false,
        Choice::Cuda(_) => true,
        Choice::Auto => device::any_gpu(),
    };
    if on_gpu {
        #[cfg(feature = "cuda")]
        return cohort::run(args);
        #[cfg(not(feature = "cuda"))]
        return Err(device::without_cuda());
    }
    refuse_flags_of_gpus(args)?;
    let named = |case: &&Case| case.is_named(&args.only) && !case.for_gpus;
    known(&args.only, named)?;
    let isa = args.instructions.unwrap_or_else(Isa::detect);
    let bench = Bench {
        isa,
        slice: Duration::from_secs_f64(args.seconds / f64::from(2 * SLICES)),
        threads: args.threads.unwrap_or_else(train::cores),
    };
    if !args.json {
        say!("{}", header(isa, bench.threads));
    }
    let mut cases = Vec::new();
    let mut peak = 0.0f64;
    for case in CASES.iter().filter(named) {
        let row = bench.measure(case, &mut peak)?;
        if !args.json {
            say!("{}", line(&row));
        }
        cases.push(row);
    }
    let report = Report {
        version: 1,
        isa: isa.to_string(),
        threads: bench.threads,
        peak_gflops: peak / 1e9,
        cases,
        whole_run: match args.only.is_empty() {
            true => Some(WholeRun::measure(isa)?),
            false => None,
        },
    };
    match args.json {
        true => say!("{}", serde_json::to_string_pretty(&report)?),
        false => print(&footer(&report))?,
    }
    Ok(())
}

/// Flags that the processor has no use for are a mistake, not something to pass over.
fn refuse_flags_of_gpus(args: &BenchArgs) -> Result<(), Mistake> {
    let given = [
        ("--kernels", args.kernels),
        ("--replicas", args.replicas.is_some()),
        ("--precision", args.precision.is_some()),
    ];
    match given.iter().find(|(_, given)| *given) {
        None => Ok(()),
        Some((flag, _)) => Err(Mistake(format!(
            "{flag} is for GPUs, and this measures the processor; add --device cuda or remove {flag}"
        ))),
    }
}

fn footer(report: &Report) -> String {
    let mut text = format!(
        "\nPeak of one core: {:.1} GFLOP/s in multiply–adds ({}), the best of the same run.\n",
        report.peak_gflops, report.isa
    );
    if let Some(run) = &report.whole_run {
        text += &format!("{run}\n");
    }
    text
}

fn header(isa: Isa, threads: usize) -> String {
    let at_once = format!("{threads} runs at once");
    format!(
        "{:14} {:>10} {:>9} {:>8} {at_once:>15}   one core, {isa}",
        "network", "steps/s", "GFLOP/s", "of peak"
    )
}

fn line(row: &Row) -> String {
    format!(
        "{:14} {:>10.1} {:>9.1} {:>6.0} % {:>13.2} ×",
        row.name,
        row.steps_per_second,
        row.gflops,
        100.0 * row.share_of_peak,
        row.scaling
    )
}

struct Bench {
    isa: Isa,
    slice: Duration,
    threads: usize,
}

impl Bench {
    fn measure(&self, case: &Case, peak: &mut f64) -> Result<Row> {
        let run = case.run()?;
        let data = made_up(&run, [EXAMPLES, 1, 1]);
        let compiled = Compiled::new(&run)?;
        let mut trainings: Vec<Training<'_>> = (0..self.threads.max(1))
            .map(|_| Training::new(&run, &data, &compiled, self.isa))
            .collect::<Result<_, _>>()?;
        let flops = 2.0 * step_products(&run);
        // The first steps touch their memory for the first time.
        self.together(&mut trainings);
        let (mut alone, mut together) = (0.0f64, 0.0f64);
        let start = Instant::now();
        for slice in 0..SLICES {
            if slice >= FEWEST_SLICES && start.elapsed() > SLICES * 2 * self.slice {
                break;
            }
            *peak = peak.max(peak::measure(self.isa, Duration::from_millis(5)));
            alone = alone.max(self.together(&mut trainings[..1]));
            together = together.max(self.together(&mut trainings));
        }
        Ok(Row {
            name: case.name,
            network: network(case, &run, &compiled, &data),
            batch: case.batch,
            steps_per_second: alone,
            gflops: alone * flops / 1e9,
            share_of_peak: alone * flops / *peak,
            scaling: together / alone,
            bytes_per_run: compiled.bytes_per_run(),
        })
    }

    /// Steps per second of all these runs together, for a slice.
    fn together(&self, trainings: &mut [Training<'_>]) -> f64 {
        let stop = AtomicBool::new(false);
        let start = Instant::now();
        let steps: u64 = std::thread::scope(|scope| {
            let (first, others) = trainings.split_at_mut(1);
            let handles: Vec<_> = others
                .iter_mut()
                .map(|training| {
                    scope.spawn(|| steps_until(training, || stop.load(Ordering::Relaxed)))
                })
                .collect();
            let mut steps = steps_until(&mut first[0], || start.elapsed() >= self.slice);
            stop.store(true, Ordering::Relaxed);
            for handle in handles {
                steps += handle.join().expect("a step does not panic");
            }
            steps
        });
        steps as f64 / start.elapsed().as_secs_f64()
    }
}

fn steps_until(training: &mut Training<'_>, done: impl Fn() -> bool) -> u64 {
    let mut steps = 0;
    while steps == 0 || !done() {
        training.step();
        steps += 1;
    }
    steps
}

/// Some network must be meant.
fn known(text: &str, named: impl Fn(&&Case) -> bool) -> Result<()> {
    if CASES.iter().any(|case| named(&case)) {
        return Ok(());
    }
    let names: Vec<&str> = CASES.iter().map(|case| case.name).collect();
    let message = format!(
        "no network to measure here is called {text:?}; there are {}",
        names.join(", ")
    );
    Err(Mistake(message).into())
}

impl Case {
    /// Whether the text is the name, or part of it and no other network's name.
    fn is_named(&self, text: &str) -> bool {
        match CASES.iter().any(|case| case.name == text) {
            true => self.name == text,
            false => self.name.contains(text),
        }
    }

    fn run(&self) -> Result<Run> {
        let norm = Override {
            key: "family.batch_norm".into(),
            value: self.batch_norm.to_string(),
        };
        let study = studies::open(self.study, &[norm])?.study;
        Ok(Run {
            setting: Arc::clone(&study.setting),
            width: Width::new(self.width)?,
            batch_size: BatchSize::new(self.batch)?,
            // So small that nothing overflows, and numbers stay ordinary.
            learning_rate: spec::LearningRate::new(1e-6)?,
            seed: 0,
            steps: u64::MAX,
        })
    }
}

fn network(case: &Case, run: &Run, compiled: &Compiled, data: &Dataset) -> Network {
    let family = &run.setting.family;
    let hidden = match family {
        spec::Family::Mlp { hidden } => hidden.len(),
        _ => 0,
    };
    Network {
        family: family.kind(),
        hidden,
        width: case.width,
        batch_norm: case.batch_norm,
        input: [data.shape.height, data.shape.width, data.shape.channels],
        classes: data.classes,
        parameters: compiled.network().parameter_count(),
    }
}
