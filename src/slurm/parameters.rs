//! What a submission asks of Slurm and of its tasks: the flags of the command line,
//! and the same settled, as they are kept for later rounds.

use super::cluster;
use crate::device::Precision;
use crate::failure::Mistake;
use crate::runner::DeviceKind;
use crate::values;
use anyhow::Result;
use clap::Args;
use serde::{Deserialize, Serialize};
use spec::Study;
use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// Variables that a task needs as they are here, with those that are paths made absolute.
const PASSED_ON: [&str; 2] = ["NOISESCALE_DATA", "NOISESCALE_NVRTC"];

/// The flags of `submit` and `resubmit`; what is not given stays as it was, or is usual.
#[derive(Debug, Clone, Args)]
pub struct ResourceArgs {
    /// Number of array tasks [default: as many as --task-minutes needs]
    #[arg(long, value_name = "N", value_parser = values::count, allow_negative_numbers = true)]
    pub array: Option<u32>,
    /// How long a task should take [default: 20]
    #[arg(long, value_name = "MINUTES", value_parser = values::positive, allow_negative_numbers = true, conflicts_with = "array")]
    pub task_minutes: Option<f64>,
    /// Slurm's partition
    #[arg(long, value_name = "NAME")]
    pub partition: Option<String>,
    /// GPUs for each task; without it tasks train on the processor
    #[arg(long, value_name = "N", value_parser = values::count, allow_negative_numbers = true)]
    pub gpus_per_task: Option<u32>,
    /// Cores for each task, and runs at once on the processor [default: 4]
    #[arg(long, value_name = "N", value_parser = values::count, allow_negative_numbers = true)]
    pub cpus_per_task: Option<u32>,
    /// Memory for each task, as Slurm writes it, e.g. 8G
    #[arg(long, value_name = "SIZE")]
    pub mem: Option<String>,
    /// Time limit of a task, as Slurm writes it, e.g. 2:00:00 [default: twice the estimate]
    #[arg(long, value_name = "TIME")]
    pub time: Option<TimeLimit>,
    /// Precision of matrix products on GPUs [default: tf32]
    #[arg(long, value_enum)]
    pub precision: Option<Precision>,
    /// Save running work every SECONDS seconds [default: 60]
    #[arg(long, value_name = "SECONDS", value_parser = values::seconds, allow_negative_numbers = true)]
    pub checkpoint_every: Option<f64>,
    /// How long a task waits for runs that another process has claimed [default: 120]
    #[arg(long, value_name = "SECONDS", value_parser = values::seconds, allow_negative_numbers = true)]
    pub patience: Option<f64>,
    /// How often to send what is missing, or what the study asks for next [default: 100]
    #[arg(long, value_name = "N", value_parser = values::count, allow_negative_numbers = true)]
    pub rounds: Option<u32>,
    /// The program on the nodes [default: this one]
    #[arg(long, value_name = "PATH")]
    pub binary: Option<PathBuf>,
    /// Flags for sbatch, as they are
    #[arg(last = true, value_name = "SBATCH FLAGS")]
    pub extra: Vec<String>,
}

/// How a submission is sent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Parameters {
    /// Number of tasks, if it was given.
    pub array: Option<u32>,
    /// How long a task should take, if their number was not given.
    pub task_minutes: f64,
    /// Slurm's partition.
    pub partition: Option<String>,
    /// GPUs for each task.
    pub gpus_per_task: Option<u32>,
    /// Cores for each task.
    pub cpus_per_task: u32,
    /// Commands of the study that a task runs at once, if it has one of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commands: Option<u32>,
    /// Memory for each task.
    pub mem: Option<String>,
    /// Time limit, if it was given.
    pub time: Option<TimeLimit>,
    /// How exactly GPUs take products.
    pub precision: Precision,
    /// How often a run is saved, in seconds.
    pub checkpoint_every: f64,
    /// How long a task waits for others' runs, in seconds.
    pub patience: f64,
    /// The last round.
    pub rounds: u32,
    /// The program on the nodes.
    pub binary: PathBuf,
    /// Variables that tasks need.
    pub environment: BTreeMap<String, String>,
    /// Flags for sbatch.
    pub extra: Vec<String>,
}

impl Parameters {
    /// What is usual.
    pub fn usual() -> Result<Self> {
        let binary = std::env::current_exe().map_err(|error| {
            Mistake(format!(
                "this program cannot find its own file ({error}); name it with --binary PATH"
            ))
        })?;
        Ok(Self {
            array: None,
            task_minutes: 20.0,
            partition: None,
            gpus_per_task: None,
            cpus_per_task: 4,
            commands: None,
            mem: None,
            time: None,
            precision: Precision::Tf32,
            checkpoint_every: 60.0,
            patience: 120.0,
            rounds: 100,
            binary,
            environment: BTreeMap::new(),
            extra: Vec::new(),
        })
    }

    /// With what the command line says.
    pub fn with(mut self, args: &ResourceArgs) -> Result<Self> {
        let args = args.clone();
        // One of the two says how many tasks there are.
        if args.task_minutes.is_some() {
            self.array = None;
        }
        self.array = args.array.or(self.array);
        self.task_minutes = args.task_minutes.unwrap_or(self.task_minutes);
        self.partition = args.partition.or(self.partition);
        self.gpus_per_task = args.gpus_per_task.or(self.gpus_per_task);
        self.cpus_per_task = args.cpus_per_task.unwrap_or(self.cpus_per_task);
        self.mem = args.mem.or(self.mem);
        self.time = args.time.or(self.time);
        self.precision = args.precision.unwrap_or(self.precision);
        self.checkpoint_every = args.checkpoint_every.unwrap_or(self.checkpoint_every);
        self.patience = args.patience.unwrap_or(self.patience);
        self.rounds = args.rounds.unwrap_or(self.rounds);
        if let Some(binary) = args.binary {
            self.binary = std::path::absolute(&binary)
                .map_err(|error| Mistake(format!("{}: {error}", binary.display())))?;
        }
        if !args.extra.is_empty() {
            self.extra = args.extra;
        }
        for name in PASSED_ON {
            let value = std::env::var_os(name).filter(|value| !value.is_empty());
            let path = value.and_then(|value| std::path::absolute(value).ok());
            if let Some(path) = path.as_deref().and_then(|path| path.to_str()) {
                self.environment.insert(name.into(), path.into());
            }
        }
        self.check_flags()?;
        Ok(self)
    }

    /// The scripts show the flags in a comment, which the end of a line would end.
    fn check_flags(&self) -> Result<(), Mistake> {
        let mut flags = (self.partition.iter()).chain(&self.mem).chain(&self.extra);
        match flags.find(|flag| flag.contains(char::is_control)) {
            None => Ok(()),
            Some(flag) => Err(Mistake(format!(
                "{flag:?}: contains a control character, such as the end of a line, which no flag \
                 of sbatch needs; leave it out"
            ))),
        }
    }

    /// For the runs of this study.
    pub fn for_study(mut self, study: &Study) -> Self {
        let rules = study.command_rules.as_ref();
        self.commands = rules.map(|rules| rules.concurrency as u32);
        self
    }

    /// What a task trains on.
    pub fn device_kind(&self) -> DeviceKind {
        match (self.commands, self.gpus_per_task) {
            (Some(_), _) => DeviceKind::Command,
            (None, Some(_)) => DeviceKind::Gpu,
            (None, None) => DeviceKind::Core,
        }
    }

    /// Devices of a task that train at once, or commands that it runs.
    pub fn lanes(&self) -> u32 {
        let devices = self.gpus_per_task.unwrap_or(self.cpus_per_task);
        self.commands.unwrap_or(devices)
    }
}

/// A time limit, in whole seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct TimeLimit(u64);

impl TimeLimit {
    /// So many seconds, rounded up to five minutes.
    pub fn at_least(seconds: f64) -> Self {
        const STEP: f64 = 300.0;
        Self(((seconds / STEP).ceil() * STEP).max(STEP) as u64)
    }

    /// In seconds.
    pub fn seconds(self) -> u64 {
        self.0
    }
}

impl FromStr for TimeLimit {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match cluster::seconds(text) {
            Some(seconds) if seconds > 0 => Ok(Self(seconds)),
            _ => Err(format!(
                "`{text}` is not a time limit; give minutes, hours:minutes:seconds \
                 or days-hours:minutes:seconds"
            )),
        }
    }
}

impl TryFrom<String> for TimeLimit {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<TimeLimit> for String {
    fn from(limit: TimeLimit) -> Self {
        limit.to_string()
    }
}

impl fmt::Display for TimeLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (days, rest) = (self.0 / 86_400, self.0 % 86_400);
        let (hours, minutes, seconds) = (rest / 3_600, rest / 60 % 60, rest % 60);
        match days {
            0 => write!(f, "{hours:02}:{minutes:02}:{seconds:02}"),
            _ => write!(f, "{days}-{hours:02}:{minutes:02}:{seconds:02}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_reads_as_it_is_written() {
        for (text, shown) in [
            ("90", "01:30:00"),
            ("2:00:00", "02:00:00"),
            ("1-12", "1-12:00:00"),
        ] {
            let limit: TimeLimit = text.parse().unwrap();
            assert_eq!(limit.to_string(), shown);
            assert_eq!(shown.parse(), Ok(limit));
        }
        assert!("soon".parse::<TimeLimit>().unwrap_err().contains("`soon`"));
        assert!("0".parse::<TimeLimit>().is_err());
        assert_eq!(TimeLimit::at_least(1.0).to_string(), "00:05:00");
        assert_eq!(TimeLimit::at_least(301.0).to_string(), "00:10:00");
    }
}
