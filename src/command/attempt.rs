//! One attempt at a run: what the command is told, and its start.

use super::desk::{Desk, Sink};
use super::group::Group;
use super::history::History;
use super::log::Log;
use super::running::Running;
use super::scratch;
use crate::quoting::command_line;
use spec::{Call, CommandFamily, CommandRules, FailureKind, Fault, Record, Run};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::AtomicBool;

/// Everything about one attempt.
pub struct Attempt<'a> {
    pub run: &'a Run,
    pub family: &'a CommandFamily,
    pub rules: &'a CommandRules,
    pub slot: usize,
    /// From 1.
    pub number: u32,
    pub desk: &'a dyn Desk,
    /// Raised when other attempts have shown that none can succeed.
    pub halt: &'a AtomicBool,
}

/// How an attempt ended.
pub enum Verdict {
    /// With a measurement.
    Ended(Record),
    /// Somebody asked to stop.
    Stopped,
    /// Without one.
    Failed(Fault),
    /// The system cannot start this command, now or ever.
    CannotStart(io::Error),
    /// The study's folder cannot be used.
    Disk(PathBuf, io::Error),
}

/// Why a command did not start.
enum StartError {
    Disk(PathBuf, io::Error),
    Command(io::Error),
}

impl Attempt<'_> {
    /// Calls the command and waits for its end.
    pub fn make(&self) -> Verdict {
        match self.start() {
            Ok(running) => running.watch(),
            Err(StartError::Disk(path, error)) => Verdict::Disk(path, error),
            Err(StartError::Command(error)) if is_hopeless(&error) => Verdict::CannotStart(error),
            Err(StartError::Command(error)) => Verdict::Failed(Fault {
                kind: FailureKind::Start,
                reason: format!("the system did not start it: {error}"),
            }),
        }
    }

    fn start(&self) -> Result<Running<'_>, StartError> {
        let (run_folder, history) = self.prepare()?;
        let call = Call {
            run: self.run,
            run_folder: &run_folder.to_string_lossy(),
            slot: self.slot,
        };
        let words = self.family.words(&call);
        let sink = self.desk.sink(self.run);
        let title = format!("attempt {}: {}", self.number, command_line(&words));
        let log = Log::new(&sink, title);
        let group = Group::new(self.rules.grace).map_err(|error| {
            // Whatever keeps the guard from starting, the command is not to blame.
            StartError::Command(io::Error::other(error))
        })?;
        let mut command = self.command(&words, &call, &run_folder);
        command.stderr(match sink {
            Sink::Terminal => Stdio::inherit(),
            Sink::File { .. } => Stdio::piped(),
        });
        let child = group.spawn(&mut command).map_err(StartError::Command)?;
        Ok(Running::new(self, group, child, log, history))
    }

    /// Makes the run's folder and opens its history.
    fn prepare(&self) -> Result<(PathBuf, History), StartError> {
        let disk = |path: &Path| {
            let path = path.to_path_buf();
            move |error| StartError::Disk(path, error)
        };
        let given = self.desk.scratch();
        let scratch = std::path::absolute(given).map_err(disk(given))?;
        let run = self.run.id();
        let run_folder = scratch::folder(&scratch, run);
        std::fs::create_dir_all(&run_folder).map_err(disk(&run_folder))?;
        let path = scratch::evaluations(&scratch, run);
        let history = History::open(&path).map_err(disk(&path))?;
        Ok((run_folder, history))
    }

    fn command(&self, words: &[String], call: &Call<'_>, run_folder: &Path) -> Command {
        let mut command = Command::new(program(&words[0], &self.rules.folder));
        command
            .args(&words[1..])
            .current_dir(&self.rules.folder)
            .envs(self.family.variables(call))
            .env("NOISESCALE_RUN", self.run.id().to_string())
            .env("NOISESCALE_RUN_FOLDER", run_folder)
            .env("NOISESCALE_SLOT", self.slot.to_string())
            .stdin(Stdio::null())
            .stdout(Stdio::piped());
        command
    }
}

/// A program named by a relative path lies relative to the working folder; a bare
/// name is looked for in `PATH`.
fn program(word: &str, folder: &Path) -> PathBuf {
    match word.contains('/') {
        true => folder.join(word),
        false => word.into(),
    }
}

/// Whether trying again would fail in the same way: there is no such program, it may not
/// be run, or is none.
fn is_hopeless(error: &io::Error) -> bool {
    // ENOEXEC, "Exec format error": a script without `#!`, or of another machine.
    const NO_PROGRAM: i32 = 8;
    let kinds = [
        io::ErrorKind::NotFound,
        io::ErrorKind::PermissionDenied,
        io::ErrorKind::InvalidInput,
        io::ErrorKind::NotADirectory,
        io::ErrorKind::ArgumentListTooLong,
    ];
    kinds.contains(&error.kind()) || error.raw_os_error() == Some(NO_PROGRAM)
}
