//! `noisescale check` and `list`: what a study would do, and what it would cost here.

use crate::cli::{CheckArgs, ListArgs};
use crate::output::{counted, say};
use crate::runner::{Machine, human_duration};
use crate::speed::{Effort, Speeds};
use crate::{command, device, quoting, studies, train};
use anyhow::Result;
use engine::data::{State, Status, Store};
use engine::train::Compiled;
use indicatif::HumanCount;
use spec::{CommandRules, Run, Search, Spending, Study, Task, Width, plan};
use std::collections::BTreeMap;

/// What a study would do.
#[derive(serde::Serialize)]
struct Plan {
    study: String,
    title: String,
    experiment: Option<String>,
    /// Figures of the paper, numbered on through its supplement.
    figures: Vec<&'static str>,
    widths: Vec<Width>,
    points: usize,
    runs: usize,
    steps: u64,
    /// On all cores of this machine; not known for a command of the study's own.
    seconds: Option<f64>,
    /// Of the runs trained at once; as above.
    bytes: Option<u64>,
    /// The first run's command line, where the study has a command of its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    command: Option<Vec<String>>,
}

/// Prints the plan of a study in words.
pub fn run(args: &CheckArgs) -> Result<()> {
    let study = studies::open(&args.select.study, &args.select.overrides())?.study;
    let runs = plan(&study);
    let machines = match study.setting.command() {
        Some(_) => BTreeMap::new(),
        None => Speeds::new(Effort::EveryWidth).of(&runs)?,
    };
    let found = describe(&study, &runs, &machines)?;
    if args.json {
        say!("{}", serde_json::to_string_pretty(&found)?);
        return Ok(());
    }
    print_plan(&study, &found);
    if let Task::Known { dataset } = study.setting.task
        && let Some(words) = missing_data(&Store::from_environment().status(dataset))
    {
        say!("{words}");
    }
    if let (Some(words), Some(rules)) = (&found.command, &study.command_rules) {
        print_command(words, rules);
    }
    Ok(())
}

fn print_plan(study: &Study, found: &Plan) {
    say!("{}", found.title);
    say!(
        "{} on {}, {} scheme{}, widths {}",
        study.setting.family.label(),
        study.setting.task.title(),
        study.setting.scheme,
        if study.setting.has_batch_norm() {
            ", batch norm"
        } else {
            ""
        },
        joined(&found.widths),
    );
    say!(
        "{}{}",
        search_in_words(&study.search),
        rates_by_width(study)
    );
    say!("{}", runs_in_words(study, found));
    if study.extend > 0 && grows(&study.search) {
        say!(
            "Each grid may grow by up to {} until its optimum is bracketed.",
            counted(study.extend as usize, "value")
        );
    }
    if let (Some(seconds), Some(bytes)) = (found.seconds, found.bytes) {
        say!(
            "{} {} on this machine's processor with {} at once, {} MB of memory besides the data",
            match study.spending {
                Spending::EverySeed => "About",
                Spending::Adaptive => "At most about",
            },
            human_duration(seconds),
            counted(train::cores(), "run"),
            bytes.div_ceil(1 << 20)
        );
        say_gpus_apart();
    }
}

fn runs_in_words(study: &Study, found: &Plan) -> String {
    let shared = match found.points as u64 * u64::from(study.seeds) == found.runs as u64 {
        true => "",
        false => " (what both searches have is trained once)",
    };
    let (at_most, left_out) = match study.spending {
        Spending::EverySeed => ("", ""),
        Spending::Adaptive => ("at most ", "; the adaptive rule usually leaves some out"),
    };
    format!(
        "{} × {}: {at_most}{} runs{shared}, {} steps in all{left_out}",
        counted(found.points, "point"),
        counted(study.seeds as usize, "seed"),
        HumanCount(found.runs as u64),
        HumanCount(found.steps)
    )
}

/// Whether a grid is extended where its optimum touches its end. The others are tables to be
/// read as a whole.
fn grows(search: &Search) -> bool {
    match search {
        Search::BatchSize(_) | Search::LearningRate(_) | Search::Paired(..) => true,
        Search::Grid(_) | Search::Stability(_) => false,
    }
}

/// What keeps the study from the data it needs, and the remedy.
fn missing_data(status: &Status) -> Option<String> {
    let command = status.command.as_ref()?;
    let problem = status.problem.as_deref().unwrap_or("no reason is known");
    Some(match status.state {
        State::Flawed => {
            format!("Its data on this machine are flawed ({problem}): `{command}` gets them anew.")
        }
        State::Incomplete => {
            format!(
                "Its data on this machine are incomplete ({problem}): `{command}` gets the rest."
            )
        }
        State::Missing | State::Embedded | State::Verified => {
            format!("Its data are not on this machine: `{command}` gets them.")
        }
    })
}

/// Times are those of the processor; where there is a GPU they are not what `run` takes.
fn say_gpus_apart() {
    if device::any_gpu() {
        say!("The driver shows a GPU, which `run` trains on if it can: times above leave it out.");
    }
}

/// How a study's own command is called, and within which limits.
fn print_command(words: &[String], rules: &CommandRules) {
    let at_once = match rules.concurrency {
        1 => "one at a time".into(),
        many => format!("{many} at once"),
    };
    say!(
        "Trained by a command of its own, {at_once}, in {}:",
        rules.folder.display()
    );
    say!("  {}", quoting::command_line(words));
    let limit = |limit: Option<String>| limit.unwrap_or_else(|| "without limit".into());
    say!(
        "Time of an attempt: {}; memory: {}; a failed run is tried again {}.",
        limit(
            rules
                .timeout
                .map(|most| format!("{} s", most.as_secs_f64()))
        ),
        limit(rules.memory.map(|most| format!("{} MB", most >> 20))),
        match rules.retries {
            0 => "at the next start only".into(),
            1 => "once".into(),
            many => format!("{many} times"),
        },
    );
}

/// Lists the built-in studies.
pub fn list(args: &ListArgs) -> Result<()> {
    let mut speeds = Speeds::new(Effort::SomeWidths);
    let mut plans = Vec::new();
    for built_in in studies::BUILT_IN {
        let study = studies::open(built_in.name, &[])?.study;
        let runs = plan(&study);
        plans.push(describe(&study, &runs, &speeds.of(&runs)?)?);
    }
    if args.json {
        say!("{}", serde_json::to_string_pretty(&plans)?);
        return Ok(());
    }
    say!(
        "{:<26} {:>3}  {:<9} {:>6} {:>8} {:>10}  title",
        "study",
        "exp",
        "figures",
        "runs",
        "steps",
        "time (CPU)"
    );
    for found in &plans {
        say!(
            "{:<26} {:>3}  {:<9} {:>6} {:>8} {:>10}  {}",
            found.study,
            found.experiment.as_deref().unwrap_or("–"),
            match found.figures.as_slice() {
                [] => "–".into(),
                some => some.join(" "),
            },
            found.runs,
            short_count(found.steps),
            found.seconds.map_or_else(|| "–".into(), human_duration),
            found.title
        );
    }
    say_gpus_apart();
    Ok(())
}

fn describe(study: &Study, runs: &[Run], machines: &BTreeMap<Width, Machine>) -> Result<Plan> {
    // Of a command nothing is known until it runs.
    let seconds: Option<f64> = runs
        .iter()
        .map(|run| Some(machines.get(&run.width)?.seconds(run)))
        .sum();
    let largest = runs.iter().max_by_key(|run| (run.width, run.batch_size));
    let bytes = match largest.filter(|run| run.setting.command().is_none()) {
        Some(run) => Some((Compiled::new(run)?.bytes_per_run() * train::cores()) as u64),
        None => None,
    };
    Ok(Plan {
        study: study.name.clone(),
        title: study.title.clone(),
        experiment: study.experiment.clone(),
        figures: figures(study.experiment.as_deref()),
        widths: study.widths.clone(),
        points: spec::points(study).len(),
        runs: runs.len(),
        steps: (runs.iter()).fold(0, |sum, run| sum.saturating_add(run.steps)),
        seconds: seconds.map(|all| all / train::cores() as f64),
        bytes,
        command: command::example(study),
    })
}

/// What a fixed learning rate is at widths that have their own.
fn rates_by_width(study: &Study) -> String {
    let fixed = matches!(study.search, Search::BatchSize(_) | Search::Paired(..));
    let own = |rule: &spec::study::WidthRule| {
        let rate = rule.learning_rate.filter(|_| fixed)?;
        Some(format!(" At w = {} ε is {rate}.", joined(&rule.widths)))
    };
    study.by_width.iter().filter_map(own).collect()
}

fn search_in_words(search: &Search) -> String {
    let batch = |s: &spec::study::BatchSizeSearch| {
        format!(
            "batch sizes {} at ε {}",
            joined(&s.batch_sizes),
            s.learning_rate
        )
    };
    let rate = |s: &spec::study::LearningRateSearch| {
        format!(
            "learning rates {} at B {}",
            joined(&s.learning_rates),
            s.batch_size
        )
    };
    match search {
        Search::BatchSize(s) => format!("Scans {}.", batch(s)),
        Search::LearningRate(s) => format!("Scans {}.", rate(s)),
        Search::Paired(b, r) => format!("Scans {}; then {}.", batch(b), rate(r)),
        Search::Grid(s) => format!(
            "Scans batch sizes {} × learning rates {}.",
            joined(&s.batch_sizes),
            joined(&s.learning_rates)
        ),
        Search::Stability(s) => format!(
            "Counts failures at learning rates {} at B {}.",
            joined(&s.learning_rates),
            s.batch_size
        ),
    }
}

fn joined<T: ToString>(values: &[T]) -> String {
    values
        .iter()
        .map(T::to_string)
        .collect::<Vec<_>>()
        .join(", ")
}

/// The figures of the paper that an experiment is behind.
fn figures(experiment: Option<&str>) -> Vec<&'static str> {
    let numbers = match experiment {
        Some("A") => "1 2 3 6 8",
        Some("B") => "4 6 9 10",
        Some("C") => "5 7 11",
        Some("D") => "12",
        Some("E") => "13",
        Some("F") => "14",
        Some("G") => "15",
        Some("H") => "16 17",
        _ => "",
    };
    numbers.split_whitespace().collect()
}

/// 1234567 as 1.2M.
fn short_count(count: u64) -> String {
    match count as f64 {
        n if n < 1e4 => format!("{n}"),
        n if n < 1e6 => format!("{:.0}k", n / 1e3),
        n if n < 1e9 => format!("{:.1}M", n / 1e6),
        n => format!("{:.1}G", n / 1e9),
    }
}
