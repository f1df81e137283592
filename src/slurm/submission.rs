//! A submission on disk: which runs were given to which task, with what parameters.
//!
//! It is written once, before anything is sent, and never changed. So the shares of
//! its tasks do not shift while the ledger grows, a requeued task finds its own
//! again, and what is sent later knows what is on its way. Names are taken by making
//! a folder, which only one of several processes can, on NFS too.
//!
//! ```text
//! DIR/slurm/0001/submission.json    parameters, and the runs of each task
//! DIR/slurm/0001/task.sh            what the tasks of the array run
//! DIR/slurm/0001/finish.sh          what the job after them runs
//! DIR/slurm/0001/array.job          the array's number, once it is submitted
//! DIR/slurm/0001/finish.job         the number of the job after it
//! DIR/slurm/0001/logs/              what they printed
//! ```

use super::cluster::JobId;
use super::parameters::Parameters;
use crate::failure::Mistake;
use crate::output::tell;
use anyhow::{Result, anyhow, bail};
use serde::{Deserialize, Serialize};
use spec::{BatchSize, LearningRate, Run, RunId, Study, Width};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The format of the file.
const FORMAT: u32 = 1;

/// Begins the names of later rounds: `0001-round2`.
const ROUND: &str = "-round";

/// What was sent together.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Submission {
    /// The format of the file.
    #[serde(rename = "noisescale_submission")]
    format: u32,
    /// Its name: a number, and the round if it is not the first.
    pub name: String,
    /// The name of the study's folder.
    pub study: String,
    /// 1 for what a person sent; each job that finds more to do sends the next.
    pub round: u32,
    /// How it was sent.
    pub parameters: Parameters,
    /// Seconds that each task was expected to take.
    pub seconds: Vec<f64>,
    /// The runs of each task.
    shards: Vec<Vec<Listed>>,
}

/// A run, with the study's setting left out.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Listed {
    run: RunId,
    width: Width,
    batch_size: BatchSize,
    learning_rate: LearningRate,
    seed: u64,
    steps: u64,
}

impl Listed {
    fn of(run: &Run) -> Self {
        Self {
            run: run.id(),
            width: run.width,
            batch_size: run.batch_size,
            learning_rate: run.learning_rate,
            seed: run.seed,
            steps: run.steps,
        }
    }

    /// The run; none if the study has changed since.
    fn of_study(&self, study: &Study) -> Option<Run> {
        let run = Run {
            setting: Arc::clone(&study.setting),
            width: self.width,
            batch_size: self.batch_size,
            learning_rate: self.learning_rate,
            seed: self.seed,
            steps: self.steps,
        };
        (run.id() == self.run).then_some(run)
    }
}

impl Submission {
    /// A submission of these runs, one list for each task.
    pub fn new(
        name: String,
        study: String,
        round: u32,
        parameters: Parameters,
        tasks: &[Task],
    ) -> Self {
        Self {
            format: FORMAT,
            name,
            study,
            round,
            parameters,
            seconds: tasks.iter().map(|task| task.seconds).collect(),
            shards: tasks
                .iter()
                .map(|task| task.runs.iter().map(Listed::of).collect())
                .collect(),
        }
    }

    /// Reads a submission of a study's folder.
    pub fn read(dir: &Path, name: &str) -> Result<Self> {
        let path = folder(dir, name).join("submission.json");
        let text = fs::read_to_string(&path).map_err(|error| {
            Mistake(format!(
                "{}: cannot read it: {error}; `noisescale slurm status` lists the submissions",
                path.display()
            ))
        })?;
        let found: Self = serde_json::from_str(&text)
            .map_err(|error| anyhow!("{}: is not a submission: {error}", path.display()))?;
        if found.format > FORMAT {
            bail!(
                "{}: written by a newer noisescale; use that one",
                path.display()
            );
        }
        Ok(found)
    }

    /// All submissions of a study's folder, in the order of their names. One that cannot be read
    /// and has no array is left out with a warning: it was never sent, for that comes last.
    pub fn all(dir: &Path) -> Result<Vec<Self>> {
        let read = |name: &String| match Self::read(dir, name) {
            Err(error) if array_of(dir, name).is_none() => {
                tell!("noisescale: warning: {error}; it has no job and is left out");
                None
            }
            read => Some(read),
        };
        let mut names = names(dir)?;
        names.sort_by_key(|name| sort_key(name));
        names.retain(|name| folder(dir, name).join("submission.json").exists());
        names.iter().filter_map(read).collect()
    }

    /// How many tasks it has.
    pub fn tasks(&self) -> usize {
        self.shards.len()
    }

    /// The ids of a task's runs, counted from 1 as Slurm's array is.
    pub fn runs_of(&self, task: u32) -> impl Iterator<Item = RunId> {
        let shard = (task as usize)
            .checked_sub(1)
            .and_then(|at| self.shards.get(at));
        shard.into_iter().flatten().map(|listed| listed.run)
    }

    /// The ids of all its runs.
    pub fn runs(&self) -> impl Iterator<Item = RunId> {
        self.shards.iter().flatten().map(|listed| listed.run)
    }

    /// The runs of each task.
    pub fn shards(&self, dir: &Path, study: &Study) -> Result<Vec<Vec<Run>>> {
        let shard = |listed: &Vec<Listed>| listed.iter().map(|one| one.of_study(study)).collect();
        let shards: Option<Vec<Vec<Run>>> = self.shards.iter().map(shard).collect();
        shards.ok_or_else(|| {
            Mistake(format!(
                "{}: the study there has changed since submission {} was made; \
                 `noisescale slurm cancel` it and `noisescale slurm submit` the study again",
                dir.display(),
                self.name
            ))
            .into()
        })
    }

    /// Its folder.
    pub fn folder(&self, dir: &Path) -> PathBuf {
        folder(dir, &self.name)
    }

    /// What a task, or the job after them, printed.
    pub fn log(&self, dir: &Path, what: &str) -> PathBuf {
        self.folder(dir).join("logs").join(format!("{what}.out"))
    }

    /// The array's number, if it was submitted.
    pub fn array(&self, dir: &Path) -> Option<JobId> {
        array_of(dir, &self.name)
    }

    /// The number of the job after the array, if it was submitted.
    pub fn finish(&self, dir: &Path) -> Option<JobId> {
        finish_of(dir, &self.name)
    }

    /// Its number, which later rounds share.
    pub fn number(&self) -> &str {
        self.name.split(ROUND).next().unwrap_or_default()
    }

    /// The name of the round after it.
    pub fn next_round(&self) -> String {
        format!("{}{ROUND}{}", self.number(), self.round + 1)
    }

    /// Writes it into its folder, which must be there.
    pub fn write(&self, dir: &Path) -> Result<()> {
        let text = serde_json::to_string(self)?;
        write_once(&self.folder(dir).join("submission.json"), &text)
    }
}

/// What one task of the array is to do.
#[derive(Debug, Clone)]
pub struct Task {
    /// Its runs.
    pub runs: Vec<Run>,
    /// How long it should take.
    pub seconds: f64,
}

/// The folder of a submission.
pub fn folder(dir: &Path, name: &str) -> PathBuf {
    dir.join("slurm").join(name)
}

/// Takes this name for a submission; false if somebody has it.
pub fn take_name(dir: &Path, name: &str) -> Result<bool> {
    let parent = dir.join("slurm");
    let made = fs::create_dir_all(&parent).and_then(|()| fs::create_dir(folder(dir, name)));
    match made {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
        Err(error) => bail!("{}: cannot make a folder there: {error}", parent.display()),
        Ok(()) => Ok(true),
    }
}

/// The next number that no submission has.
pub fn free_number(dir: &Path) -> Result<u32> {
    let numbers = names(dir)?;
    let largest = numbers.iter().map(|name| sort_key(name).0).max();
    Ok(largest.unwrap_or(0) + 1)
}

/// The name of a first round.
pub fn name_of(number: u32) -> String {
    format!("{number:04}")
}

/// By number, then by round.
fn sort_key(name: &str) -> (u32, u32) {
    let (number, round) = name.split_once(ROUND).unwrap_or((name, "1"));
    (number.parse().unwrap_or(0), round.parse().unwrap_or(1))
}

fn names(dir: &Path) -> Result<Vec<String>> {
    let folder = dir.join("slurm");
    let entries = match fs::read_dir(&folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => {
            entries.map_err(|error| anyhow!("{}: cannot list it: {error}", folder.display()))?
        }
    };
    let name = |entry: fs::DirEntry| entry.file_name().into_string().ok();
    Ok(entries.flatten().filter_map(name).collect())
}

/// Writes a file that is to stay as it is: whole, or not at all. It is in a folder that this process
/// has taken, so nobody else writes it.
pub fn write_once(path: &Path, text: &str) -> Result<()> {
    Ok(ledger::replace(path, text.as_bytes())?)
}

/// The number of a submission's array, if it was submitted.
pub fn array_of(dir: &Path, name: &str) -> Option<JobId> {
    read_job(&folder(dir, name).join("array.job"))
}

/// The number of the job after it, if that was submitted.
pub fn finish_of(dir: &Path, name: &str) -> Option<JobId> {
    read_job(&folder(dir, name).join("finish.job"))
}

/// Digits without an end of line may have lost some.
fn read_job(path: &Path) -> Option<JobId> {
    fs::read_to_string(path)
        .ok()?
        .strip_suffix('\n')?
        .trim()
        .parse()
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_taken_once_and_count_up() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(free_number(dir.path()).unwrap(), 1);
        assert!(take_name(dir.path(), "0001").unwrap());
        assert!(!take_name(dir.path(), "0001").unwrap());
        assert!(take_name(dir.path(), "0001-round2").unwrap());
        assert_eq!(free_number(dir.path()).unwrap(), 2);
    }

    #[test]
    fn rounds_come_after_their_submission() {
        let mut names = ["0002", "0001-round10", "0001", "0001-round2"];
        names.sort_by_key(|name| sort_key(name));
        assert_eq!(names, ["0001", "0001-round2", "0001-round10", "0002"]);
    }
}
