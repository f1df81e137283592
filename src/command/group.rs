//! The process group of a command: started, asked to end, and killed as a whole.
//!
//! The leader of the group is a *guard*: this program again, as `noisescale guard`,
//! at the other end of a pipe. The command is born into the guard's group, so from its
//! first moment on it is in reach of both:
//!
//! - noisescale signals the group; the guard's pid stays taken until it is waited
//!   for, so the group's number cannot come to mean anything else;
//! - if noisescale is gone, whatever ended it, the pipe closes, and the guard asks
//!   its group to end, waits for the grace period and kills it.
//!
//! A signal at the parent's death (`PR_SET_PDEATHSIG`) would reach the command alone,
//! and not what a shell or a data loader started.

use super::processes;
use crate::cli::GuardArgs;
use anyhow::Result;
use rustix::process::{Pid, Signal, getpgrp, kill_current_process_group, kill_process_group};
use std::io::{self, Read};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How often it is looked whether a group has ended.
const LOOK: Duration = Duration::from_millis(20);

/// A process group with its guard. Dropping it kills what is left of it.
pub struct Group {
    guard: Child,
}

impl Group {
    /// A group that holds a guard and nothing else.
    pub fn new(grace: Duration) -> io::Result<Self> {
        let guard = Command::new(this_program()?)
            .args(["guard", "--grace", &grace.as_secs_f64().to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()?;
        Ok(Self { guard })
    }

    /// Starts a command in the group.
    pub fn spawn(&self, command: &mut Command) -> io::Result<Child> {
        command.process_group(self.id()).spawn()
    }

    fn id(&self) -> i32 {
        i32::try_from(self.guard.id()).expect("the system gave it as an i32")
    }

    /// Asks all of the group to end.
    pub fn ask_to_end(&self) {
        self.signal(Signal::TERM);
    }

    /// Ends all of the group; the guard too.
    pub fn kill(&self) {
        self.signal(Signal::KILL);
    }

    /// Signalling a group that has ended fails; ignore that.
    fn signal(&self, signal: Signal) {
        if let Some(group) = Pid::from_raw(self.id()) {
            let _ = kill_process_group(group, signal);
        }
    }

    /// Bytes that the group takes, without its guard.
    pub fn memory(&self) -> io::Result<u64> {
        Ok(self.others()?.map(processes::memory).sum())
    }

    /// Whether nobody but its guard is left.
    pub fn is_empty(&self) -> io::Result<bool> {
        Ok(self.others()?.next().is_none())
    }

    /// The living processes of the group but its guard.
    fn others(&self) -> io::Result<impl Iterator<Item = i32>> {
        let members = processes::members(self.id())?;
        Ok(members.into_iter().filter(|process| *process != self.id()))
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.kill();
        // It was killed; only its entry in the table of processes is left.
        let _ = self.guard.wait();
    }
}

/// This program, even if its file was replaced since it started.
fn this_program() -> io::Result<PathBuf> {
    let running = PathBuf::from("/proc/self/exe");
    match running.exists() {
        true => Ok(running),
        false => std::env::current_exe(),
    }
}

/// `noisescale guard`: waits for the end of the process that started it, then ends its group.
pub fn guard(args: &GuardArgs) -> Result<()> {
    // The group's signals are for the command.
    crate::signals::disregard()?;
    let mut nothing = [0; 64];
    let mut lifeline = io::stdin().lock();
    while matches!(lifeline.read(&mut nothing), Ok(1..)) {}
    kill_current_process_group(Signal::TERM)?;
    let asked = Instant::now();
    while asked.elapsed().as_secs_f64() < args.grace && !is_alone() {
        std::thread::sleep(LOOK);
    }
    kill_current_process_group(Signal::KILL)?;
    Ok(())
}

/// Whether nothing but this process is left of its group, as far as can be seen.
fn is_alone() -> bool {
    let group = getpgrp().as_raw_nonzero().get();
    processes::members(group).is_ok_and(|members| members.len() <= 1)
}
