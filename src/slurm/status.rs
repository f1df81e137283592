//! `noisescale slurm status`: where a study on a cluster stands, and what to do next.

use super::cluster::{Phase, count_states};
use super::overview::{Overview, Tracked};
use super::{Submission, absolute};
use crate::folder::Folder;
use crate::output::{counted, duplicates, percent, say};
use crate::quoting;
use crate::runner::{human_duration, next_runs_at};
use anyhow::Result;
use ledger::Ledger;
use spec::RunId;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Most logs that are named for a person.
const LOGS_NAMED: usize = 5;

/// Where a study stands.
#[derive(serde::Serialize)]
struct Standing {
    study: String,
    folder: PathBuf,
    /// Of the study's runs as far as it asks for them now.
    recorded: usize,
    planned: usize,
    /// Records that do not count because another of their run does.
    duplicates: usize,
    /// Runs that the study asks for next and that have no record.
    missing: usize,
    /// Of those, with pending or running tasks.
    on_their_way: usize,
    submissions: Vec<Sent>,
    alarms: Vec<String>,
    next: String,
}

/// Where a submission stands.
#[derive(serde::Serialize)]
struct Sent {
    name: String,
    round: u32,
    array: Option<u64>,
    finish: Option<u64>,
    tasks: usize,
    runs: usize,
    recorded: usize,
    /// Tasks by Slurm's word for their state; `GONE` if Slurm has forgotten them.
    states: BTreeMap<String, usize>,
    /// The state of the job after them.
    finish_state: Option<String>,
    /// Why pending tasks wait.
    waiting_for: BTreeSet<String>,
    /// The longest of the running tasks.
    seconds_left: Option<u64>,
    /// What tasks printed that ended and left runs missing.
    logs: Vec<PathBuf>,
}

/// Prints where a study stands.
pub fn run(dir: &Path, json: bool) -> Result<()> {
    let dir = absolute(dir)?;
    let standing = standing(&Folder::open(&dir)?, &Overview::ask(&dir)?);
    match json {
        true => say!("{}", serde_json::to_string_pretty(&standing)?),
        false => print(&standing),
    }
    Ok(())
}

fn standing(folder: &Folder, overview: &Overview) -> Standing {
    let points = folder.asked_now();
    let counts = analysis::observe(&folder.study, &points, folder.ledger.records()).counts;
    let missing = next_runs_at(folder, &points);
    let missing: Vec<RunId> = missing.iter().map(spec::Run::id).collect();
    let covered = overview.covered();
    let on_their_way = missing.iter().filter(|run| covered.contains(run)).count();
    let ledger = &folder.ledger;
    let mut standing = Standing {
        study: folder.study.title.clone(),
        folder: ledger.dir().into(),
        recorded: counts.recorded,
        planned: counts.planned,
        duplicates: ledger.duplicates(),
        missing: missing.len(),
        on_their_way,
        submissions: overview
            .tracked
            .iter()
            .map(|one| sent(one, ledger))
            .collect(),
        alarms: ledger.conflicts().iter().map(ToString::to_string).collect(),
        next: String::new(),
    };
    standing.next = next_step(&standing, overview);
    standing
}

fn sent(one: &Tracked, ledger: &Ledger) -> Sent {
    let submission = &one.submission;
    let mut states = count_states(&one.tasks);
    let gone = submission.tasks().saturating_sub(one.tasks.len());
    if gone > 0 && one.array.is_some() {
        states.insert("GONE".into(), gone);
    }
    let waiting = one.in_phase(Phase::Pending);
    let left = one.in_phase(Phase::Running).filter_map(|job| job.time_left);
    let recorded = |run: &RunId| ledger.get(*run).is_some();
    Sent {
        name: submission.name.clone(),
        round: submission.round,
        array: one.array,
        finish: one.finish,
        tasks: submission.tasks(),
        runs: submission.runs().count(),
        recorded: submission.runs().filter(recorded).count(),
        states,
        finish_state: one.finish_job.as_ref().map(|job| job.state.clone()),
        waiting_for: waiting.map(|job| job.reason.clone()).collect(),
        seconds_left: left.max().map(|left| left.as_secs()),
        logs: unfinished_logs(one, submission, ledger),
    }
}

/// The logs of tasks that are over, or forgotten, with runs of theirs missing.
fn unfinished_logs(one: &Tracked, submission: &Submission, ledger: &Ledger) -> Vec<PathBuf> {
    let living: BTreeSet<u32> = [Phase::Pending, Phase::Running]
        .into_iter()
        .flat_map(|phase| one.in_phase(phase))
        .filter_map(|job| job.task)
        .collect();
    let unfinished = |task: &u32| {
        !living.contains(task)
            && submission
                .runs_of(*task)
                .any(|run| ledger.get(run).is_none())
    };
    let tasks = 1..=u32::try_from(submission.tasks()).unwrap_or(u32::MAX);
    tasks
        .filter(unfinished)
        .filter_map(|task| one.log(task))
        .collect()
}

/// What a person should do.
fn next_step(standing: &Standing, overview: &Overview) -> String {
    let dir = quoting::path(&standing.folder);
    let left = standing.missing - standing.on_their_way;
    let due = overview.tracked.iter().any(Tracked::finish_is_due);
    let living = overview.tracked.iter().any(|one| one.living_tasks() > 0);
    match () {
        () if standing.missing == 0 && due => {
            "Nothing is missing; the last job is about to write the report.".into()
        }
        () if standing.missing == 0 => {
            format!("Nothing is missing. The report: `noisescale report {dir}` writes it anew.")
        }
        () if due => format!(
            "Wait: when the tasks have ended, a job sends what is then missing or asked for next, \
             or writes the report. {left} missing runs are with no task now."
        ),
        () if living => format!(
            "Tasks are at work, but no job comes after them: when they have ended, \
             `noisescale slurm resubmit {dir}` sends what is left."
        ),
        () => format!("`noisescale slurm resubmit {dir}` sends what is missing."),
    }
}

fn print(standing: &Standing) {
    let share = percent(standing.recorded, standing.planned);
    say!("{}", standing.study);
    say!(
        "{} of {} runs recorded ({share} %); {} missing, {} of them with pending or running tasks",
        standing.recorded,
        standing.planned,
        standing.missing,
        standing.on_their_way
    );
    if let Some(duplicates) = duplicates(standing.duplicates) {
        say!("{duplicates}");
    }
    standing.submissions.iter().for_each(print_sent);
    for alarm in &standing.alarms {
        say!("alarm: {alarm}");
    }
    say!("{}", standing.next);
}

fn print_sent(sent: &Sent) {
    let states: Vec<String> = sent
        .states
        .iter()
        .map(|(state, count)| format!("{count} {}", state.to_lowercase()))
        .collect();
    let states = match (sent.array, states.is_empty()) {
        (None, _) => "never submitted".into(),
        (_, true) => "unknown to Slurm".into(),
        _ => states.join(", "),
    };
    say!(
        "submission {}: {} of {} recorded; {}: {states}",
        sent.name,
        sent.recorded,
        counted(sent.runs, "run"),
        counted(sent.tasks, "task")
    );
    if !sent.waiting_for.is_empty() {
        let reasons: Vec<&str> = sent.waiting_for.iter().map(String::as_str).collect();
        say!("  pending because of {}", reasons.join(", "));
    }
    if let Some(left) = sent.seconds_left {
        say!(
            "  at most {} to the time limit",
            human_duration(left as f64)
        );
    }
    if !sent.logs.is_empty() {
        say!(
            "  {} ended with runs missing; logs:",
            counted(sent.logs.len(), "task")
        );
        for log in sent.logs.iter().take(LOGS_NAMED) {
            say!("    {}", log.display());
        }
    }
}
