//! Sending runs: what is missing, less what is on its way, as an array and a job after it.

use super::cluster::{self, USUAL_MAX_ARRAY_SIZE};
use super::overview::Overview;
use super::packing::{pack, time_limit};
use super::parameters::{Parameters, TimeLimit};
use super::script::{self, Batch};
use super::submission::{Submission, Task, folder, free_number, name_of, take_name, write_once};
use crate::folder::Folder;
use crate::output::{counted, say};
use crate::quoting;
use crate::runner::{ASSUMED_SPEEDUP, Rates, SUPPOSED_SECONDS, Source, human_duration, next_runs};
use anyhow::{Result, anyhow};
use spec::{Record, Run};
use std::path::Path;

/// What to do about runs that pending or running tasks have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Claim {
    /// Leave them.
    Respected,
    /// Send them too.
    Ignored,
}

/// Whether to submit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Do.
    Submit,
    /// Say what would be submitted.
    DryRun,
}

/// What to send.
pub struct Order<'a> {
    /// How.
    pub parameters: Parameters,
    /// What about runs on their way.
    pub claim: Claim,
    /// The submission that it is the next round of.
    pub after: Option<&'a Submission>,
}

/// What came of it.
pub enum Sent {
    /// It was submitted.
    Submitted(Announcement),
    /// It was shown.
    Shown,
    /// Every run that the study asks for is recorded.
    NothingMissing,
    /// What is missing is on its way.
    OnItsWay {
        /// So many.
        runs: usize,
    },
    /// Another process has taken the name of this round, and sent it unless it died meanwhile.
    Taken(String),
}

/// What a person should know of a submission.
pub struct Announcement {
    name: String,
    runs: usize,
    seconds: Vec<f64>,
    source: Source,
    limit: TimeLimit,
    jobs: Option<[u64; 2]>,
}

/// Sends what is missing.
pub fn send(folder: &Folder, order: Order<'_>, mode: Mode) -> Result<Sent> {
    let dir = folder.ledger.dir();
    let mut todo = next_runs(folder);
    if todo.is_empty() {
        return Ok(Sent::NothingMissing);
    }
    let missing = todo.len();
    if order.claim == Claim::Respected {
        let covered = Overview::ask(dir)?.covered();
        todo.retain(|run| !covered.contains(&run.id()));
    }
    if todo.is_empty() {
        return Ok(Sent::OnItsWay { runs: missing });
    }
    let parameters = order.parameters.for_study(&folder.study);
    let (tasks, source) = share_out(folder, todo, &parameters, mode)?;
    let round = order.after.map_or(1, |before| before.round + 1);
    let name = match (order.after, mode) {
        (_, Mode::DryRun) => name_of(free_number(dir)?),
        (Some(before), _) => {
            let name = before.next_round();
            if !take_name(dir, &name)? {
                return Ok(Sent::Taken(name));
            }
            name
        }
        (None, _) => take_number(dir)?,
    };
    // The same whether the study was just read or is the folder's.
    let study = dir.file_name().unwrap_or_default().to_string_lossy();
    let submission = Submission::new(name, study.into(), round, parameters, &tasks);
    let limit = time_limit(&submission.parameters, &tasks);
    let mut announcement = Announcement {
        name: submission.name.clone(),
        runs: tasks.iter().map(|task| task.runs.len()).sum(),
        seconds: submission.seconds.clone(),
        source,
        limit,
        jobs: None,
    };
    match mode {
        Mode::DryRun => {
            show(dir, &submission, limit)?;
            announcement.announce(dir);
            Ok(Sent::Shown)
        }
        Mode::Submit => {
            announcement.jobs = Some(commit(dir, &submission, limit)?);
            Ok(Sent::Submitted(announcement))
        }
    }
}

fn share_out(
    folder: &Folder,
    todo: Vec<Run>,
    parameters: &Parameters,
    mode: Mode,
) -> Result<(Vec<Task>, Source)> {
    let records: Vec<&Record> = folder.ledger.records().collect();
    let kind = parameters.device_kind();
    let rates = Rates::of(&folder.study, &todo, records, kind)?;
    let max_array_size = match (cluster::max_array_size(), mode) {
        (Err(_), Mode::DryRun) => USUAL_MAX_ARRAY_SIZE,
        (size, _) => size?,
    };
    let tasks = pack(todo, parameters, max_array_size, |run| rates.seconds(run))?;
    Ok((tasks, rates.source))
}

/// The first number that this process gets.
fn take_number(dir: &Path) -> Result<String> {
    let mut number = free_number(dir)?;
    loop {
        let name = name_of(number);
        if take_name(dir, &name)? {
            return Ok(name);
        }
        number += 1;
    }
}

/// Prints scripts and commands.
fn show(dir: &Path, submission: &Submission, limit: TimeLimit) -> Result<()> {
    let task = script::task(dir, submission, submission.tasks(), limit)?;
    let finish = script::finish(dir, submission, 0)?;
    for Batch { file, text, .. } in [&task, &finish] {
        say!("── {}", folder(dir, &submission.name).join(file).display());
        say!("{text}");
    }
    say!("{}", task.command());
    let dependency = "--dependency=afterany:";
    let named = format!("{dependency}ARRAY");
    say!(
        "{}\n",
        finish.command().replace(&format!("{dependency}0"), &named)
    );
    Ok(())
}

/// Writes everything down, then submits.
fn commit(dir: &Path, submission: &Submission, limit: TimeLimit) -> Result<[u64; 2]> {
    let at = submission.folder(dir);
    let logs = at.join("logs");
    std::fs::create_dir_all(&logs)
        .map_err(|error| anyhow!("{}: cannot make it: {error}", logs.display()))?;
    let task = script::task(dir, submission, submission.tasks(), limit)?;
    submission.write(dir)?;
    write_once(&at.join(task.file), &task.text)?;
    let array = cluster::submit(&task.args)?;
    write_once(&at.join("array.job"), &format!("{array}\n"))?;
    let finish = script::finish(dir, submission, array)?;
    write_once(&at.join(finish.file), &finish.text)?;
    let finish = cluster::submit(&finish.args).map_err(|error| {
        anyhow!(
            "array {array} is submitted, but not the job after it: {error}; \
             `noisescale slurm status {}` says when the tasks are done and what is then to do",
            quoting::path(dir)
        )
    })?;
    write_once(&at.join("finish.job"), &format!("{finish}\n"))?;
    Ok([array, finish])
}

impl Announcement {
    /// Says what was, or would be, submitted.
    pub fn announce(&self, dir: &Path) {
        let longest = self.seconds.iter().copied().fold(0.0, f64::max);
        let shortest = self.seconds.iter().copied().fold(f64::INFINITY, f64::min);
        let (shortest, most) = (human_duration(shortest), human_duration(longest));
        let each = match shortest == most {
            true => most,
            false => format!("{shortest} to {most}"),
        };
        say!(
            "Submission {}: {} in {} of about {each} (time limit {})",
            self.name,
            counted(self.runs, "run"),
            counted(self.seconds.len(), "task"),
            self.limit
        );
        say!("{}", in_words(self.source));
        if longest > self.limit.seconds() as f64 {
            say!(
                "Tasks may take longer than their limit: they then save their work and are requeued."
            );
        }
        if let Some([array, finish]) = self.jobs {
            say!(
                "Array {array}, and job {finish} after it, which sends what is left or writes the report."
            );
            say!(
                "Where it stands: noisescale slurm status {}",
                quoting::path(dir)
            );
        }
    }
}

fn in_words(source: Source) -> String {
    match source {
        Source::Records => "Times are estimated from the study's records.".into(),
        Source::ThisMachine => {
            "Times are estimated from a core of this machine; nodes may differ.".into()
        }
        Source::Assumed => format!(
            "Nothing was trained on GPUs yet: times suppose {ASSUMED_SPEEDUP} times the speed of \
             a core of this machine."
        ),
        Source::Supposed => format!(
            "The command has no outcome yet: times suppose {} a run. --array N sets the \
             number of tasks.",
            human_duration(SUPPOSED_SECONDS)
        ),
    }
}
