//! What a command needs beyond a supply of runs: places on disk, and somewhere to
//! put its failures.

use engine::pool::Supply;
use spec::{Failure, Record, Run};
use std::path::{Path, PathBuf};

/// Where the standard error of a command goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sink {
    /// To the terminal.
    Terminal,
    /// Into a file.
    File {
        /// Where.
        path: PathBuf,
        /// What the journal of failures calls it.
        name: String,
    },
}

/// What follows a failed attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum After {
    /// The run is tried again.
    AnotherAttempt,
    /// The run is left out for now.
    GivenUp,
}

/// Whether the record of a run is where it stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kept {
    /// It is.
    Yes,
    /// It is, but another process trains the run too, in the same folder.
    AmidWork,
    /// It could not be put there: the run will have to be trained again.
    No,
}

/// Where runs come from, and where their results and failures go. Called from many threads.
pub trait Desk: Supply {
    /// The folder that holds one folder for every run under way.
    fn scratch(&self) -> &Path;

    /// Where the standard error of a run goes.
    fn sink(&self, run: &Run) -> Sink;

    /// Whether the command has given an outcome before, so that it works at all.
    fn has_precedent(&self) -> bool;

    /// A run has ended.
    fn keep(&self, run: &Run, record: Record) -> Kept;

    /// Whether another process has recorded a run since it was taken, which ends the work on it
    /// here.
    fn recorded_meanwhile(&self, run: &Run) -> bool;

    /// An attempt at a run has failed.
    fn failed(&self, run: &Run, failure: Failure, after: After);
}
