//! Slurm through its own commands: `sbatch`, `squeue`, `scontrol`, `scancel`.
//!
//! Their JSON differs between releases, so `squeue` is asked for plain columns, and
//! what it no longer knows is gone: finished jobs leave it after `MinJobAge`. Nothing
//! here says whether a run was trained; that is the ledger's to say.

use crate::failure::Mistake;
use anyhow::{Result, anyhow, bail};
use std::collections::BTreeMap;
use std::io;
use std::process::{Command, Stdio};
use std::time::Duration;

/// A job's number. An array has one, and its tasks are counted within it.
pub type JobId = u64;

/// Slurm's own default of `MaxArraySize`.
pub const USUAL_MAX_ARRAY_SIZE: u32 = 1001;

/// What Slurm knows of a job or a task of an array.
#[derive(Debug, Clone, PartialEq)]
pub struct Job {
    /// The job, or the array.
    pub id: JobId,
    /// The task within an array.
    pub task: Option<u32>,
    /// Its name.
    pub name: String,
    /// Slurm's word for its state, such as `PENDING`.
    pub state: String,
    /// Until its time limit.
    pub time_left: Option<Duration>,
    /// Why it waits, or where it runs.
    pub reason: String,
}

/// How far a job has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// It has not begun, or has to begin again.
    Pending,
    /// It has begun and not ended.
    Running,
    /// It has ended, well or badly.
    Ended,
}

impl Job {
    /// How far it has come.
    pub fn phase(&self) -> Phase {
        match self.state.as_str() {
            "PENDING" | "CONFIGURING" | "REQUEUED" | "REQUEUE_FED" | "REQUEUE_HOLD"
            | "RESV_DEL_HOLD" | "SPECIAL_EXIT" => Phase::Pending,
            // A task that is requeued is completing before it is pending again.
            "RUNNING" | "SUSPENDED" | "STOPPED" | "SIGNALING" | "RESIZING" | "STAGE_OUT"
            | "COMPLETING" => Phase::Running,
            _ => Phase::Ended,
        }
    }

    /// Whether somebody cancelled it.
    pub fn was_cancelled(&self) -> bool {
        self.state.starts_with("CANCELLED")
    }
}

/// Whether Slurm is here at all, before anything is made for it.
pub fn version() -> Result<String> {
    call("sbatch", &["--version".into()])
}

/// Submits a job and gives its number.
pub fn submit(args: &[String]) -> Result<JobId> {
    let answer = call("sbatch", args)?;
    // `123`, or `123;cluster` in a federation.
    let number = answer.trim().split(';').next().unwrap_or_default();
    number
        .parse()
        .map_err(|_| anyhow!("`sbatch` gave no job number but `{}`", answer.trim()))
}

/// What Slurm knows of these jobs, of those it still knows; array tasks one by one.
pub fn jobs(ids: &[JobId]) -> Result<Vec<Job>> {
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    match query(ids) {
        // One job alone that is unknown is an error; among others it is passed over.
        Err(error) if error.to_string().contains("Invalid job id") => {
            let one_by_one = ids.iter().map(|id| query(&[*id]));
            Ok(one_by_one.filter_map(Result::ok).flatten().collect())
        }
        found => found,
    }
}

fn query(ids: &[JobId]) -> Result<Vec<Job>> {
    let list: Vec<String> = ids.iter().map(JobId::to_string).collect();
    let args = [
        "--noheader".into(),
        "--array".into(),
        "--states=all".into(),
        format!("--jobs={}", list.join(",")),
        // Array or job, task, state, time left, name, reason or nodes.
        "--format=%F|%K|%T|%L|%j|%R".into(),
    ];
    Ok(call("squeue", &args)?.lines().filter_map(job).collect())
}

fn job(line: &str) -> Option<Job> {
    let mut fields = line.trim().splitn(6, '|');
    let mut next = || fields.next().map(str::trim);
    Some(Job {
        id: next()?.parse().ok()?,
        task: next()?.parse().ok(),
        state: next()?.into(),
        time_left: next().and_then(seconds).map(Duration::from_secs),
        name: next()?.into(),
        reason: next()?.into(),
    })
}

/// Cancels jobs.
pub fn cancel(ids: &[JobId]) -> Result<()> {
    let list: Vec<String> = ids.iter().map(JobId::to_string).collect();
    call("scancel", &list).map(drop)
}

/// The largest array index plus one, as the cluster is configured.
pub fn max_array_size() -> Result<u32> {
    let config = call("scontrol", &["show".into(), "config".into()])?;
    let line = config.lines().find(|line| line.starts_with("MaxArraySize"));
    let value = line.and_then(|line| line.split('=').nth(1));
    Ok(value
        .and_then(|value| value.trim().parse().ok())
        .unwrap_or(USUAL_MAX_ARRAY_SIZE))
}

/// Asks Slurm to run this job again, and gives its name; none outside Slurm.
///
/// In an array the task must be named: the number in `SLURM_JOB_ID` is, in the last
/// task, that of the array as a whole, and all of it would be run again.
pub fn requeue() -> Result<Option<String>> {
    let variables = ["SLURM_ARRAY_JOB_ID", "SLURM_ARRAY_TASK_ID", "SLURM_JOB_ID"];
    let [array, task, job] = variables.map(|name| std::env::var(name).ok());
    let name = array
        .zip(task)
        .map(|(array, task)| format!("{array}_{task}"));
    let Some(name) = name.or(job) else {
        return Ok(None);
    };
    // When Slurm agrees, it ends all processes of the job, and the one that asks should live to hear so.
    let asks = "trap '' TERM; exec scontrol requeue \"$1\"";
    let mut shell = Command::new("sh");
    shell.args(["-c", asks, "sh", &name]);
    answer(&mut shell, "scontrol").map_err(|error| {
        anyhow!("{error}; task {name} is saved, but is not run again by itself")
    })?;
    Ok(Some(name))
}

/// Runs one of Slurm's commands and gives what it prints.
fn call(program: &'static str, args: &[String]) -> Result<String> {
    answer(Command::new(program).args(args), program)
}

/// What a command prints that runs this program.
fn answer(command: &mut Command, program: &'static str) -> Result<String> {
    let output = match command.stdin(Stdio::null()).output() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(missing(program)),
        output => output.map_err(|error| anyhow!("`{program}` cannot be started: {error}"))?,
    };
    if !output.status.success() {
        let words = String::from_utf8_lossy(&output.stderr);
        let said: Vec<&str> = words.lines().map(str::trim).collect();
        if said.is_empty() {
            bail!("`{program}` ended without a word, {}", output.status);
        }
        bail!("`{program}` refused: {}", said.join("; "));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn missing(program: &str) -> anyhow::Error {
    Mistake(format!(
        "`{program}` was not found: give this command where Slurm's commands are on the PATH, \
         or use `noisescale work DIR --shard I/N` without Slurm (see docs/CLUSTER.md)"
    ))
    .into()
}

/// How many jobs there are of each state.
pub fn count_states<'a>(jobs: impl IntoIterator<Item = &'a Job>) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for job in jobs {
        *counts.entry(job.state.clone()).or_default() += 1;
    }
    counts
}

/// A time as Slurm writes it: `minutes`, `minutes:seconds`, `hours:minutes:seconds`,
/// `days-hours`, `days-hours:minutes`, `days-hours:minutes:seconds`.
pub fn seconds(text: &str) -> Option<u64> {
    let number = |text: &str| text.parse::<u64>().ok();
    let (days, clock) = match text.split_once('-') {
        Some((days, clock)) => (Some(number(days)?), clock),
        None => (None, text),
    };
    let parts: Vec<u64> = clock.split(':').map(number).collect::<Option<_>>()?;
    let [hours, minutes, seconds] = match (days, parts.as_slice()) {
        (_, [hours, minutes, seconds]) => [*hours, *minutes, *seconds],
        (Some(_), [hours, minutes]) => [*hours, *minutes, 0],
        (Some(_), [hours]) => [*hours, 0, 0],
        (None, [minutes, seconds]) => [0, *minutes, *seconds],
        (None, [minutes]) => [0, *minutes, 0],
        _ => return None,
    };
    Some(((days.unwrap_or(0) * 24 + hours) * 60 + minutes) * 60 + seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_squeue() {
        let waiting = job("17|3|PENDING|1:00:00|noisescale small|(Priority)").unwrap();
        assert_eq!((waiting.id, waiting.task), (17, Some(3)));
        assert_eq!(waiting.phase(), Phase::Pending);
        assert_eq!(waiting.time_left, Some(Duration::from_secs(3600)));
        assert_eq!(waiting.reason, "(Priority)");
        let alone = job("18|N/A|RUNNING|INVALID|noisescale|n[1-2]").unwrap();
        assert_eq!((alone.task, alone.time_left), (None, None));
        assert_eq!(alone.phase(), Phase::Running);
        for (state, cancelled) in [
            ("COMPLETED", false),
            ("CANCELLED", true),
            ("FAILED", false),
            ("TIMEOUT", false),
            ("NODE_FAIL", false),
            ("PREEMPTED", false),
        ] {
            let ended = job(&format!("17|3|{state}|0:00|n|")).unwrap();
            assert_eq!(ended.phase(), Phase::Ended, "{state}");
            assert_eq!(ended.was_cancelled(), cancelled, "{state}");
        }
        assert_eq!(job("slurm_load_jobs error"), None);
    }

    #[test]
    fn times_as_slurm_writes_them() {
        let cases = [
            ("30", 1_800),
            ("1:30", 90),
            ("2:00:00", 7_200),
            ("1-12", 129_600),
            ("1-12:30", 131_400),
            ("1-00:00:01", 86_401),
        ];
        for (text, expected) in cases {
            assert_eq!(seconds(text), Some(expected), "{text}");
        }
        for wrong in ["", "UNLIMITED", "1h", "1:2:3:4", "-5", "1-", "1-1:1:1:1"] {
            assert_eq!(seconds(wrong), None, "{wrong}");
        }
    }
}
