//! `noisescale train`: one run of a study, or a few seeds of it.

use crate::cli::{RunArgs, TrainArgs};
use crate::command::Trial;
use crate::device::Trainer;
use crate::failure::{Abandoned, Mistake};
use crate::output::{counted, say};
use crate::{quoting, signals, studies};
use analysis::Sample;
use anyhow::{Result, bail};
use engine::train::{Compiled, Progress};
use indicatif::{HumanCount, ProgressBar, ProgressStyle};
use spec::time::TimeBounds;
use spec::{Call, Failure, Outcome, Record, Run, Study};
use std::io::IsTerminal;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// How long a run of the command line trains.
#[derive(Clone, Copy)]
pub enum Length {
    /// As the study says.
    Study,
    /// So many epochs.
    Epochs(f64),
    /// So many steps.
    Steps(u64),
}

/// The run that the arguments name.
pub fn select(study: &Study, args: &RunArgs, length: Length) -> Run {
    let batch_size = args
        .batch_size
        .unwrap_or_else(|| study.typical_batch_size());
    let examples = study.setting.training_examples();
    let steps = match length {
        Length::Study => study.time_at(args.width).steps(examples, batch_size),
        Length::Epochs(epochs) => TimeBounds { epochs, steps: 0 }.steps(examples, batch_size),
        Length::Steps(steps) => steps,
    };
    Run {
        setting: Arc::clone(&study.setting),
        width: args.width,
        batch_size,
        learning_rate: args
            .learning_rate
            .unwrap_or_else(|| study.typical_learning_rate(args.width)),
        seed: args.seed,
        steps,
    }
}

/// Trains, and prints what came out.
pub fn run(args: &TrainArgs) -> Result<()> {
    let mut study = studies::open(&args.run.study, &args.run.overrides)?.study;
    if let Some(rules) = &mut study.command_rules {
        // Whoever tries a command wants to see how it fails.
        rules.retries = 0;
    }
    let length = match (args.epochs, args.steps) {
        (Some(epochs), _) => Length::Epochs(epochs),
        (_, Some(steps)) => Length::Steps(steps),
        _ => Length::Study,
    };
    let first = select(&study, &args.run, length);
    let runs = with_seeds(&first, args.seeds)?;
    let trainer = args.device.open(&study)?;
    let stop = signals::stop_on_signal()?;
    if !args.json {
        describe(&study, &first, &trainer)?;
    }
    let bar = progress_bar(args, args.seeds.saturating_mul(first.steps));
    let (records, failures) = train(&trainer, &runs, &bar, &stop)?;
    bar.finish_and_clear();
    for record in &records {
        match args.json {
            true => say!("{}", serde_json::to_string(&described(record))?),
            false => say!("{}", sentence(record)),
        }
    }
    if !args.json && records.len() > 1 {
        summarize(&records);
    }
    let ended = records.len() + failures.len();
    if stop.load(Ordering::Relaxed) && ended < runs.len() {
        let planned = runs.len();
        return Err(Abandoned { ended, planned }.into());
    }
    match failures.last() {
        Some(last) => bail!(
            "{} of {} gave no outcome; the last, seed {}: {}",
            failures.len(),
            counted(runs.len(), "run"),
            last.seed,
            last.reason
        ),
        None => Ok(()),
    }
}

/// The run with so many seeds, counting up from its own.
fn with_seeds(first: &Run, seeds: u64) -> Result<Vec<Run>> {
    let last = first.seed.checked_add(seeds.saturating_sub(1));
    let last = last.ok_or_else(|| {
        Mistake(format!(
            "{seeds} seeds from {} on go beyond the largest, {}; give a smaller --seed",
            first.seed,
            u64::MAX
        ))
    })?;
    let run = |seed| Run {
        seed,
        ..first.clone()
    };
    Ok((first.seed..=last).map(run).collect())
}

/// Cores of this machine.
pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

fn train(
    trainer: &Trainer,
    runs: &[Run],
    bar: &ProgressBar,
    stop: &AtomicBool,
) -> Result<(Vec<Record>, Vec<Failure>)> {
    let steps: Vec<AtomicU64> = runs.iter().map(|_| AtomicU64::new(0)).collect();
    let watch = |at: usize, progress: &Progress| {
        let before = steps[at].swap(progress.step, Ordering::Relaxed);
        bar.inc(progress.step.saturating_sub(before));
        if let Some(last) = progress.curve.last() {
            let accuracy = 100.0 * last.test_accuracy;
            bar.set_message(format!("seed {}: test {accuracy:.2} %", runs[at].seed));
        }
        match stop.load(Ordering::Relaxed) {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    };
    let trial = Trial::new(runs, &watch, stop);
    let trained = trainer.train(&trial);
    let found = trial.finish();
    trained.map(|()| found)
}

fn progress_bar(args: &TrainArgs, steps: u64) -> ProgressBar {
    if args.json || !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template(
        "{bar:30.cyan} {human_pos}/{human_len} steps, {per_sec}, {eta} left  {msg}",
    );
    ProgressBar::new(steps).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}

fn describe(study: &Study, run: &Run, trainer: &Trainer) -> Result<()> {
    let (parameters, memory) = match run.setting.command() {
        Some(_) => (String::new(), String::new()),
        None => {
            let compiled = Compiled::new(run)?;
            let count = HumanCount(compiled.network().parameter_count() as u64);
            let megabytes = compiled.bytes_per_run().div_ceil(1 << 20);
            (
                format!(", {count} parameters"),
                format!(", {megabytes} MB a run"),
            )
        }
    };
    let epochs = run.steps as f64 * f64::from(run.batch_size.get())
        / f64::from(study.setting.training_examples());
    say!(
        "{}: width {}{parameters}, {} scheme{}",
        study.title,
        run.width,
        run.setting.scheme,
        if run.setting.has_batch_norm() {
            ", batch norm"
        } else {
            ""
        },
    );
    let noise = match run.setting.has_batch_norm() {
        true => String::new(),
        false => format!(", ḡ {:.0}", run.normalized_noise().get()),
    };
    say!(
        "B {}, ε {}{noise}; {} steps ({epochs:.1} epochs) {}{memory}",
        run.batch_size,
        run.learning_rate,
        HumanCount(run.steps),
        trainer.in_words(),
    );
    if let Some(own) = run.setting.command() {
        let call = Call {
            run,
            run_folder: "RUN_FOLDER",
            slot: 0,
        };
        say!("{}", quoting::command_line(&own.words(&call)));
    }
    Ok(())
}

/// A record with what a reader would otherwise have to work out.
#[derive(serde::Serialize)]
struct Described<'a> {
    #[serde(flatten)]
    record: &'a Record,
    validation_accuracy: Option<f64>,
    late_test_accuracy: Option<f64>,
    steps_trained: u64,
    steps_per_second: f64,
}

fn described(record: &Record) -> Described<'_> {
    Described {
        record,
        validation_accuracy: record.validation_accuracy(),
        late_test_accuracy: record.late_test_accuracy(),
        steps_trained: record.steps_trained(),
        steps_per_second: record.steps_trained() as f64 / record.seconds.max(1e-9),
    }
}

fn sentence(record: &Record) -> String {
    let found = described(record);
    let outcome = match record.outcome {
        Outcome::Trained { test_accuracy } => format!(
            "trained, test accuracy {:.2} %{}",
            100.0 * test_accuracy,
            match found.validation_accuracy {
                Some(accuracy) => format!(", validation {:.2} %", 100.0 * accuracy),
                None => String::new(),
            }
        ),
        Outcome::Stalled {
            step,
            test_accuracy,
        } => format!(
            "stalled at step {}, test accuracy {:.2} %",
            HumanCount(step),
            100.0 * test_accuracy
        ),
        Outcome::Diverged { step } => format!("diverged at step {}", HumanCount(step)),
    };
    format!(
        "seed {}: {outcome}; {:.0} steps/s, {:.1} s",
        record.seed, found.steps_per_second, record.seconds
    )
}

/// Mean and spread of the trained runs.
fn summarize(records: &[Record]) {
    let trained: Vec<f64> = records
        .iter()
        .filter_map(|record| record.outcome.trained())
        .collect();
    let mean = match Sample::of(&trained) {
        Some(Sample {
            mean,
            standard_error: Some(error),
            ..
        }) => format!(
            ", mean test accuracy {:.2} ± {:.2} % (two standard errors)",
            100.0 * mean,
            200.0 * error
        ),
        _ => String::new(),
    };
    say!("{} of {} trained{mean}", trained.len(), records.len());
}
