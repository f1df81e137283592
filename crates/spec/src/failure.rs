//! An attempt at a run that gave no outcome. It is no measurement: the run stays
//! missing and is tried again.

use crate::quantity::{BatchSize, LearningRate, Width};
use crate::run::{Run, RunId};
use serde::{Deserialize, Serialize};
use std::fmt;

/// How an attempt failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FailureKind {
    /// The system did not start the command.
    Start,
    /// The command ended with an exit code other than 0, or by a signal.
    Crash,
    /// The command ended well but told no outcome.
    NoOutcome,
    /// What the command wrote is not what a trainer writes.
    Output,
    /// It ran for longer than it may.
    Timeout,
    /// It took more memory than it may.
    Memory,
}

impl fmt::Display for FailureKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Start => "not started",
            Self::Crash => "crashed",
            Self::NoOutcome => "no outcome",
            Self::Output => "wrong output",
            Self::Timeout => "out of time",
            Self::Memory => "out of memory",
        })
    }
}

/// A failed attempt: one line of the ledger's journal of failures.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Failure {
    /// The run's id.
    pub run: RunId,
    /// w.
    pub width: Width,
    /// B.
    pub batch_size: BatchSize,
    /// ε.
    pub learning_rate: LearningRate,
    /// The seed.
    pub seed: u64,
    /// T.
    pub steps: u64,
    /// How it failed.
    pub failure: FailureKind,
    /// In words.
    pub reason: String,
    /// Which attempt of its process at this run, from 1.
    pub attempt: u32,
    /// Where its standard error is kept, relative to the study's folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log: Option<String>,
    /// How long it ran.
    pub seconds: f64,
    /// When it ended, in milliseconds since 1970.
    pub at_ms: u64,
}

/// What an attempt says of its own failure.
#[derive(Debug, Clone, PartialEq)]
pub struct Fault {
    /// How it failed.
    pub kind: FailureKind,
    /// In words.
    pub reason: String,
}

/// Which attempt it was that failed, and when.
#[derive(Debug, Clone, PartialEq)]
pub struct FailedAttempt {
    /// Of its process at this run, from 1.
    pub number: u32,
    /// Where its standard error is kept, relative to the study's folder.
    pub log: Option<String>,
    /// How long it ran.
    pub seconds: f64,
    /// When it ended, in milliseconds since 1970.
    pub at_ms: u64,
}

impl Failure {
    /// The failure of an attempt at `run`.
    pub fn new(run: &Run, fault: Fault, attempt: FailedAttempt) -> Self {
        Self {
            run: run.id(),
            width: run.width,
            batch_size: run.batch_size,
            learning_rate: run.learning_rate,
            seed: run.seed,
            steps: run.steps,
            failure: fault.kind,
            reason: fault.reason,
            attempt: attempt.number,
            log: attempt.log,
            seconds: attempt.seconds,
            at_ms: attempt.at_ms,
        }
    }
}
