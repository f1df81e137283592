//! What of a folder is on its way: its submissions, and what Slurm knows of their jobs.

use super::cluster::{self, Job, JobId, Phase};
use super::script::job_name;
use super::submission::Submission;
use anyhow::Result;
use spec::RunId;
use std::collections::HashSet;
use std::path::{Path, PathBuf};

/// The submissions of a folder with their jobs.
pub struct Overview {
    /// In the order they were made.
    pub tracked: Vec<Tracked>,
}

/// A submission and what Slurm knows of it.
pub struct Tracked {
    /// The submission.
    pub submission: Submission,
    /// The array's number, if it was submitted.
    pub array: Option<JobId>,
    /// The tasks that Slurm still knows.
    pub tasks: Vec<Job>,
    /// The number of the job after it, if it was submitted.
    pub finish: Option<JobId>,
    /// The job after it, if Slurm still knows it.
    pub finish_job: Option<Job>,
    dir: PathBuf,
}

impl Overview {
    /// Reads the submissions and asks Slurm.
    pub fn ask(dir: &Path) -> Result<Self> {
        let submissions = Submission::all(dir)?;
        let numbers = |one: &Submission| [one.array(dir), one.finish(dir)];
        let ids: Vec<JobId> = submissions.iter().flat_map(numbers).flatten().collect();
        let jobs = cluster::jobs(&ids)?;
        let one = |submission: Submission| {
            let (array, finish) = (submission.array(dir), submission.finish(dir));
            let name = job_name(&submission);
            // A number may have been given out again since, to a job of somebody else.
            let ours = |id: Option<JobId>| {
                let name = name.clone();
                jobs.iter()
                    .filter(move |job| Some(job.id) == id && job.name == name)
                    .cloned()
            };
            Tracked {
                tasks: ours(array).collect(),
                finish_job: ours(finish).next(),
                dir: dir.into(),
                submission,
                array,
                finish,
            }
        };
        Ok(Self {
            tracked: submissions.into_iter().map(one).collect(),
        })
    }

    /// The runs that a pending or running task has.
    pub fn covered(&self) -> HashSet<RunId> {
        self.tracked.iter().flat_map(Tracked::covered).collect()
    }

    /// The jobs after arrays, and the arrays, that have not ended.
    pub fn living_jobs(&self) -> (Vec<JobId>, Vec<JobId>) {
        let finishes = self.tracked.iter().filter(|one| one.finish_is_due());
        let arrays = self.tracked.iter().filter(|one| one.living_tasks() > 0);
        (
            finishes.filter_map(|one| one.finish).collect(),
            arrays.filter_map(|one| one.array).collect(),
        )
    }
}

impl Tracked {
    fn covered(&self) -> impl Iterator<Item = RunId> {
        let living = self.tasks.iter().filter(|job| job.phase() != Phase::Ended);
        let tasks = living.filter_map(|job| job.task);
        tasks.flat_map(|task| self.submission.runs_of(task))
    }

    /// Tasks that are pending or running.
    pub fn living_tasks(&self) -> usize {
        let living = self.tasks.iter().filter(|job| job.phase() != Phase::Ended);
        living.count()
    }

    /// Tasks in this phase.
    pub fn in_phase(&self, phase: Phase) -> impl Iterator<Item = &Job> {
        self.tasks.iter().filter(move |job| job.phase() == phase)
    }

    /// Whether the job after the array is still to come, or at work.
    pub fn finish_is_due(&self) -> bool {
        let job = self.finish_job.as_ref();
        job.is_some_and(|job| job.phase() != Phase::Ended)
    }

    /// Whether somebody cancelled one of its tasks.
    pub fn was_cancelled(&self) -> bool {
        self.tasks.iter().any(Job::was_cancelled)
    }

    /// What a task printed.
    pub fn log(&self, task: u32) -> Option<PathBuf> {
        let array = self.array?;
        Some(self.submission.log(&self.dir, &format!("{array}_{task}")))
    }
}
