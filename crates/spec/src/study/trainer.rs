//! The part of a study file that is about a command of the user's own.

use super::error::Source;
use super::file::{StudyFile, TaskTable, TrainerTable, Version};
use super::validate::Checked;
use crate::command::{CommandFamily, CommandRules};
use crate::family::Family;
use crate::task::{DeclaredTask, Task};
use crate::template::{Place, Template};
use crate::time::Evaluation;
use std::collections::BTreeMap;
use std::time::Duration;

const RETRIES: u32 = 2;
const GRACE: f64 = 10.0;
/// Longer than any run, and short enough to add to a clock.
const LONGEST: f64 = 1e9;
/// Begins the names of the variables that noisescale itself sets.
const OUR_VARIABLES: &str = "NOISESCALE_";

/// How the command is run, if there is one.
pub fn rules(table: Option<&TrainerTable>, source: &Source<'_>) -> Checked<Option<CommandRules>> {
    let Some(table) = table else { return Ok(None) };
    let about = |key: &str, message: &str| source.about(&format!("trainer.{key}"), message);
    if table.concurrency == Some(0) {
        return Err(about("concurrency", "at least 1 command must run at once"));
    }
    if table.memory_mb == Some(0) {
        return Err(about(
            "memory_mb",
            "no command runs in 0 MB; leave it out for no limit",
        ));
    }
    let seconds = |key: &str, value: f64, least: f64| match (least..=LONGEST).contains(&value) {
        true => Ok(Duration::from_secs_f64(value)),
        false => Err(about(
            key,
            &format!("give seconds from {least} to {LONGEST}, not {value}"),
        )),
    };
    let timeout = table
        .timeout_seconds
        .map(|value| seconds("timeout_seconds", value, 0.001))
        .transpose()?;
    Ok(Some(CommandRules {
        folder: table.folder.clone().unwrap_or_default(),
        concurrency: table.concurrency.unwrap_or(1),
        timeout,
        memory: table.memory_mb.map(|mb| mb.saturating_mul(1 << 20)),
        retries: table.retries.unwrap_or(RETRIES),
        grace: seconds("grace_seconds", table.grace_seconds.unwrap_or(GRACE), 0.0)?,
    }))
}

/// What the command learns and the networks it trains.
pub fn task_and_family(
    table: &TrainerTable,
    file: &StudyFile,
    source: &Source<'_>,
) -> Checked<(Task, Family)> {
    refuse_engine_keys(file, source)?;
    if file.optimizer.momentum.is_none() {
        let message = "ḡ depends on the momentum that the command trains with; \
                       give it, 0 for plain SGD";
        return Err(source.about("optimizer.momentum", message));
    }
    let family = CommandFamily {
        name: file.family.name.clone(),
        command: command(table, source)?,
        environment: environment(table, source)?,
        version: table.version.as_ref().map(|version| match version {
            Version::Number(number) => number.to_string(),
            Version::Word(word) => word.clone(),
        }),
    };
    told_what_it_needs(&family, source)?;
    Ok((
        Task::Declared(task(&file.task, source)?),
        Family::Command(family),
    ))
}

/// Keys that only the engine could heed.
fn refuse_engine_keys(file: &StudyFile, source: &Source<'_>) -> Checked<()> {
    let family = &file.family;
    let given = [
        ("family.kind", family.kind.is_some()),
        ("family.hidden", family.hidden.is_some()),
        ("family.pool", family.pool.is_some()),
        ("family.blocks", family.blocks.is_some()),
        ("family.layers", family.layers.is_some()),
        ("optimizer.rule", file.optimizer.rule.is_some()),
        ("regularizers", file.regularizers.is_some()),
    ];
    match given.iter().find(|(_, given)| *given) {
        Some((key, _)) => {
            let message = "the command of `[trainer]` makes and trains the networks; \
                           remove this and say it in the command";
            Err(source.about(key, message))
        }
        None => Ok(()),
    }
}

fn task(table: &TaskTable, source: &Source<'_>) -> Checked<DeclaredTask> {
    for (key, given) in [
        ("dataset", table.dataset.is_some()),
        ("files", table.files.is_some()),
    ] {
        if given {
            let message = "the command of `[trainer]` reads its own data; remove this and declare \
                           `name`, `training_examples` and `chance_accuracy`";
            return Err(source.about(&format!("task.{key}"), message));
        }
    }
    let missing = |key: &str, message: &str| source.about(&format!("task.{key}"), message);
    let task = DeclaredTask {
        name: (table.name.clone())
            .ok_or_else(|| missing("name", "say what the command learns, for titles"))?,
        training_examples: (table.training_examples.filter(|examples| *examples > 0)).ok_or_else(
            || {
                missing(
                    "training_examples",
                    "say how many examples the command trains on, N",
                )
            },
        )?,
        chance_accuracy: (table.chance_accuracy).ok_or_else(|| {
            missing(
                "chance_accuracy",
                "say what guessing gets, e.g. 0.1 for ten classes",
            )
        })?,
    };
    if !(0.0..1.0).contains(&task.chance_accuracy) {
        let message = format!(
            "must be at least 0 and below 1, not {}",
            task.chance_accuracy
        );
        return Err(source.about("task.chance_accuracy", message));
    }
    Ok(task)
}

fn command(table: &TrainerTable, source: &Source<'_>) -> Checked<Vec<Template>> {
    let key = "trainer.command";
    if table.command.first().is_none_or(String::is_empty) {
        let message = "name a program and its arguments, \
                       e.g. [\"python\", \"train.py\", \"--width\", \"{width}\", …]";
        return Err(source.about(key, message));
    }
    let word = |text: &String| template(text, key, source);
    table.command.iter().map(word).collect()
}

fn environment(table: &TrainerTable, source: &Source<'_>) -> Checked<BTreeMap<String, Template>> {
    let variable = |(name, value): (&String, &String)| {
        let key = format!("trainer.environment.{name}");
        if name.is_empty() || name.contains(['=', '\0']) {
            return Err(source.about(&key, "no variable can have this name"));
        }
        if name.starts_with(OUR_VARIABLES) {
            let message = format!(
                "noisescale itself sets the variables {OUR_VARIABLES}…; choose another name"
            );
            return Err(source.about(&key, message));
        }
        Ok((name.clone(), template(value, &key, source)?))
    };
    table.environment.iter().map(variable).collect()
}

fn template(text: &str, key: &str, source: &Source<'_>) -> Checked<Template> {
    if text.contains('\0') {
        return Err(source.about(key, "a command cannot be given a zero character"));
    }
    Template::parse(text).map_err(|error| source.about(key, error))
}

fn told_what_it_needs(family: &CommandFamily, source: &Source<'_>) -> Checked<()> {
    let templates = || family.command.iter().chain(family.environment.values());
    let missing = Place::NEEDED
        .into_iter()
        .find(|place| !templates().any(|template| template.holds(*place)));
    match missing {
        Some(place) => {
            let name = place.name();
            let message = format!(
                "the command is not told the {}; add `{{{name}}}`",
                name.replace('_', " ")
            );
            Err(source.about("trainer.command", message))
        }
        None => Ok(()),
    }
}

/// With chance accuracy c a run has not trained below c + (1 − c)/9: the paper's 0.2 for ten classes.
pub fn stall_accuracy(classes: usize) -> f64 {
    (classes + 8) as f64 / (9 * classes) as f64
}

/// The same for a task whose chance accuracy is declared, and the paper's for others.
pub fn usual_evaluation(task: &Task) -> Evaluation {
    let usual = Evaluation::default();
    match task {
        Task::Declared(DeclaredTask {
            chance_accuracy: chance,
            ..
        }) => Evaluation {
            stall_accuracy: chance + (1.0 - chance) / 9.0,
            ..usual
        },
        Task::Known { .. } | Task::Files(_) => usual,
    }
}
