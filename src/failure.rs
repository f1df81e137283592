//! How a command fails: one sentence, and an exit code that says whose turn it is.

use crate::output::{counted, tell};
use crate::quoting::command_line;
use crate::studies::UnknownStudy;
use analysis::PredictError;
use engine::data::DataError;
use engine::train::TrainError;
use spec::{FamilyError, RunId, StudyError};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// What was asked for cannot be: a wrong file, flag or value.
const MISTAKE: u8 = 2;
/// What was asked for failed.
const FAILURE: u8 = 1;

/// Somebody asked to stop.
const INTERRUPTED: u8 = 130;

/// A study was stopped before its end.
#[derive(Debug, thiserror::Error)]
#[error("stopped; {} recorded, nothing is lost. Go on with: {again}", counted(*.recorded, "run"))]
pub struct Interrupted {
    /// Runs recorded so far.
    pub recorded: usize,
    /// The command that goes on, for a shell.
    pub again: String,
}

impl Interrupted {
    /// With so many runs recorded, by the command that this process was called with.
    pub fn after(recorded: usize) -> Self {
        let words = std::env::args_os().map(|word| word.to_string_lossy().into_owned());
        Self::of(recorded, &words.collect::<Vec<_>>())
    }

    fn of(recorded: usize, words: &[String]) -> Self {
        Self {
            recorded,
            again: command_line(words),
        }
    }
}

/// Runs that are not kept were stopped before their end.
#[derive(Debug, thiserror::Error)]
#[error(
    "stopped after {} of {}; `train` keeps nothing of the rest. The same command begins again",
    .ended, counted(*.planned, "run")
)]
pub struct Abandoned {
    /// Runs that came to their end.
    pub ended: usize,
    /// Runs asked for.
    pub planned: usize,
}

/// A study's own command failed at some runs; all others are recorded.
#[derive(Debug, thiserror::Error)]
#[error(
    "{} gave no outcome; the last, {run}: {reason}{}; everything else is recorded. \
     Fix the training command, then run this again",
    counted(*.count, "run"), kept(.log.as_deref())
)]
pub struct FailedRuns {
    /// How many.
    pub count: usize,
    /// The one that failed last.
    pub run: RunId,
    /// Why it did.
    pub reason: String,
    /// Where its standard error is.
    pub log: Option<PathBuf>,
}

fn kept(log: Option<&Path>) -> String {
    log.map_or_else(String::new, |log| format!(" (see {})", log.display()))
}

/// A mistake that only the command itself can see.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Mistake(pub String);

/// Prints the error and ends the program.
pub fn exit(error: &anyhow::Error) -> ! {
    tell!("noisescale: {error}");
    std::process::exit(code(error).into())
}

/// Prints the error and gives the exit code.
pub fn report(error: &anyhow::Error) -> ExitCode {
    tell!("noisescale: {error}");
    ExitCode::from(code(error))
}

fn code(error: &anyhow::Error) -> u8 {
    let mistake = error.is::<StudyError>()
        || error.is::<Mistake>()
        || error.is::<PredictError>()
        || error
            .downcast_ref::<DataError>()
            .is_some_and(DataError::is_mistake)
        || error.is::<UnknownStudy>()
        || error.is::<TrainError>()
        || error.is::<FamilyError>();
    match mistake {
        _ if error.is::<Interrupted>() || error.is::<Abandoned>() => INTERRUPTED,
        true => MISTAKE,
        false => FAILURE,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is told can be pasted.
    #[test]
    fn the_command_that_goes_on_is_quoted_for_a_shell() {
        let words = [
            "/usr/bin/noisescale",
            "run",
            "my study.toml",
            "--set",
            "a=[1,2]",
        ];
        let stopped = Interrupted::of(3, &words.map(String::from)).to_string();
        let expected = "Go on with: /usr/bin/noisescale run 'my study.toml' --set 'a=[1,2]'";
        assert!(stopped.ends_with(expected), "{stopped}");
    }
}
