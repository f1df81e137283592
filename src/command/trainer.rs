//! Commands as a trainer: so many at once, each slot taking run after run.

use super::DEVICE;
use super::attempt::{Attempt, Verdict};
use super::desk::{After, Desk, Kept, Sink};
use super::{processes, scratch};
use crate::failure::Mistake;
use anyhow::Result;
use engine::threads::on_threads;
use spec::{CommandFamily, CommandRules, FailedAttempt, Failure, Fault, Run, Study};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// A command that fails so many times per slot, and has never given an outcome, is
/// given up: a mistake in it should cost minutes and not a night on a cluster.
const FAILURES_PER_SLOT: usize = 3;

/// A study's command, ready to train.
pub struct CommandTrainer {
    family: CommandFamily,
    rules: CommandRules,
}

/// The command has failed often and never succeeded.
#[derive(Debug, thiserror::Error)]
#[error(
    "the command has failed {failures} times and never given an outcome, so no more runs were \
     started; the last time {reason}{log}; fix it, try it with `noisescale train`, then run \
     this again"
)]
pub struct Hopeless {
    failures: usize,
    reason: String,
    log: String,
}

/// How the commands of one call have fared.
struct Tally {
    /// Failures since the start, until the first outcome.
    failures: AtomicUsize,
    succeeded: AtomicBool,
    halt: AtomicBool,
}

impl CommandTrainer {
    /// The trainer of a study; `None` if the engine trains it. `concurrency` goes before
    /// the study's own.
    pub fn of(study: &Study, concurrency: Option<usize>) -> Result<Option<Self>> {
        let (Some(family), Some(rules)) = (study.setting.command(), &study.command_rules) else {
            return Ok(None);
        };
        if !rules.folder.is_dir() {
            let text = format!(
                "{}: the command's working folder is not there; correct `trainer.folder`",
                rules.folder.display()
            );
            return Err(Mistake(text).into());
        }
        if rules.memory.is_some() && !processes::are_visible() {
            let text = "the memory of commands can be limited where there is a /proc; \
                        remove `trainer.memory_mb`";
            return Err(Mistake(text.into()).into());
        }
        Ok(Some(Self {
            family: family.clone(),
            rules: CommandRules {
                concurrency: concurrency.unwrap_or(rules.concurrency),
                ..rules.clone()
            },
        }))
    }

    /// What records call it.
    pub fn name(&self) -> String {
        DEVICE.into()
    }

    /// The program, and how many of it run at once.
    pub fn in_words(&self) -> String {
        let program = &self.family.command[0];
        match self.rules.concurrency {
            1 => format!("`{program}`, one at a time"),
            many => format!("`{program}`, {many} at once"),
        }
    }

    /// Trains what the desk gives until it gives no more.
    pub fn train(&self, desk: &dyn Desk) -> Result<()> {
        let tally = Tally {
            failures: AtomicUsize::new(0),
            succeeded: AtomicBool::new(desk.has_precedent()),
            halt: AtomicBool::new(false),
        };
        let work = |slot: usize| -> Result<()> {
            while !tally.halt.load(Ordering::Relaxed)
                && let Some(run) = desk.take()
            {
                self.train_one(&run, slot, desk, &tally).inspect_err(|_| {
                    tally.halt.store(true, Ordering::Relaxed);
                })?;
            }
            Ok(())
        };
        on_threads(self.rules.concurrency, work)
    }

    /// Attempts at a run, until one gives an outcome or they are used up.
    fn train_one(&self, run: &Run, slot: usize, desk: &dyn Desk, tally: &Tally) -> Result<()> {
        for number in 1..=self.rules.retries.saturating_add(1) {
            let attempt = Attempt {
                run,
                family: &self.family,
                rules: &self.rules,
                slot,
                number,
                desk,
                halt: &tally.halt,
            };
            let start = Instant::now();
            let fault = match attempt.make() {
                Verdict::Ended(record) => {
                    tally.succeeded.store(true, Ordering::Relaxed);
                    // Without a record the run goes on from its folder when it is tried again,
                    // and another process may be at work in it.
                    if desk.keep(run, record) == Kept::Yes {
                        scratch::tidy(desk.scratch(), run.id());
                    }
                    return Ok(());
                }
                Verdict::Stopped => return Ok(()),
                Verdict::CannotStart(error) => return Err(self.cannot_start(&error)),
                Verdict::Disk(path, error) => {
                    anyhow::bail!("{}: cannot be made or read: {error}", path.display());
                }
                // It may even be why the attempt has failed: the run's folder may be gone.
                Verdict::Failed(_) if desk.recorded_meanwhile(run) => return Ok(()),
                Verdict::Failed(fault) => fault,
            };
            let after = match number <= self.rules.retries {
                true => After::AnotherAttempt,
                false => After::GivenUp,
            };
            let failure = failure(run, fault, number, desk, start);
            let hopeless = self.hopeless(&failure, tally);
            desk.failed(run, failure, after);
            if let Some(hopeless) = hopeless {
                return Err(hopeless.into());
            }
        }
        Ok(())
    }

    fn hopeless(&self, failure: &Failure, tally: &Tally) -> Option<Hopeless> {
        let failures = tally.failures.fetch_add(1, Ordering::Relaxed) + 1;
        let many = failures >= FAILURES_PER_SLOT * self.rules.concurrency;
        (many && !tally.succeeded.load(Ordering::Relaxed)).then(|| Hopeless {
            failures,
            reason: failure.reason.clone(),
            log: match &failure.log {
                Some(log) => format!("; see {log} in the study's folder"),
                None => String::new(),
            },
        })
    }

    fn cannot_start(&self, error: &io::Error) -> anyhow::Error {
        let text = format!(
            "the command `{}` cannot be started in {}: {error}; correct `trainer.command` or \
             `trainer.folder`",
            self.family.command[0],
            self.rules.folder.display()
        );
        Mistake(text).into()
    }
}

fn failure(run: &Run, fault: Fault, number: u32, desk: &dyn Desk, start: Instant) -> Failure {
    let log = match desk.sink(run) {
        Sink::File { path, name } if path.exists() => Some(name),
        Sink::File { .. } | Sink::Terminal => None,
    };
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let at_ms = now.map_or(0, |now| u64::try_from(now.as_millis()).unwrap_or(u64::MAX));
    let attempt = FailedAttempt {
        number,
        log,
        seconds: start.elapsed().as_secs_f64(),
        at_ms,
    };
    Failure::new(run, fault, attempt)
}
