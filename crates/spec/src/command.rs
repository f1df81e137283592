//! A study whose networks a command of the user's own trains.
//!
//! [`CommandFamily`] is what determines a run's result and so enters its id: the
//! words of the command, the environment it is given, and a version that the user
//! raises when the script changes what a run gives. [`CommandRules`] is how the
//! command is run; none of it enters the id, nor does where the script lies.
//! `docs/TRAINERS.md` is the user's description.

use crate::template::{Call, Template};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

/// The networks that a command trains, by the command.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CommandFamily {
    /// What titles call the networks; no part of a run's id.
    #[serde(default, skip_serializing)]
    pub name: Option<String>,
    /// The program and its arguments.
    pub command: Vec<Template>,
    /// Variables that are added to the environment.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub environment: BTreeMap<String, Template>,
    /// Raised by the user when the script changes what a run gives.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
}

impl CommandFamily {
    /// The program and its arguments for one run.
    pub fn words(&self, call: &Call<'_>) -> Vec<String> {
        self.command.iter().map(|word| word.fill(call)).collect()
    }

    /// The variables of one run.
    pub fn variables(&self, call: &Call<'_>) -> Vec<(String, String)> {
        let filled = |(name, value): (&String, &Template)| (name.clone(), value.fill(call));
        self.environment.iter().map(filled).collect()
    }
}

/// How a study's command is run. None of it determines a result.
#[derive(Debug, Clone, PartialEq)]
pub struct CommandRules {
    /// The working folder.
    pub folder: PathBuf,
    /// How many commands run at once.
    pub concurrency: usize,
    /// How long one attempt may take.
    pub timeout: Option<Duration>,
    /// Bytes of memory that a command and its children may take together.
    pub memory: Option<u64>,
    /// How often a failed run is tried again.
    pub retries: u32,
    /// How long a command has between being asked to end and being killed.
    pub grace: Duration,
}
