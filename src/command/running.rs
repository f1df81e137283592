//! A command that runs: heard, watched, and ended if need be.

use super::DEVICE;
use super::attempt::{Attempt, Verdict};
use super::ending::in_words;
use super::group::Group;
use super::history::History;
use super::log::{self, Log};
use super::output::{self, LONGEST_LINE, Line};
use super::protocol::{self, End, Message};
use engine::train::Progress;
use spec::{CurvePoint, FailureKind, Fault, Outcome, Record};
use std::process::{Child, ExitStatus};
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How often a command is looked at, and can be stopped.
const LOOK: Duration = Duration::from_millis(25);
/// How often its memory is looked at, which takes some ten milliseconds.
const WEIGH: Duration = Duration::from_secs(1);
/// How far apart the processes of a job may hear that it ends.
const SIGNALS_APART: Duration = Duration::from_millis(100);
/// How long output that a command left behind may take to arrive.
const REST: Duration = Duration::from_secs(2);

/// Why a command is ended before it has ended by itself.
enum Cut {
    /// Its run has shown how it ends.
    Outcome(Outcome),
    Stop,
    Fault(Fault),
}

/// A command that runs.
pub struct Running<'a> {
    attempt: &'a Attempt<'a>,
    group: Group,
    child: Child,
    lines: Receiver<Line>,
    log: Arc<Mutex<Log>>,
    logged: Option<Receiver<()>>,
    history: History,
    progress: Progress,
    /// Time of earlier attempts that this one goes on from.
    before: Duration,
    start: Instant,
    weighed: Instant,
    /// What it said of its end, and when.
    end: Option<(End, Instant)>,
}

impl<'a> Running<'a> {
    /// A command that has just started in its group.
    pub fn new(
        attempt: &'a Attempt<'a>,
        group: Group,
        mut child: Child,
        log: Log,
        history: History,
    ) -> Self {
        let log = Arc::new(Mutex::new(log));
        let stdout = child.stdout.take().expect("standard output is piped");
        let stderr = child.stderr.take();
        Self {
            attempt,
            group,
            child,
            lines: output::lines(stdout),
            logged: stderr.map(|stderr| log::copy(stderr, Arc::clone(&log))),
            log,
            history,
            progress: Progress::default(),
            before: Duration::ZERO,
            start: Instant::now(),
            weighed: Instant::now(),
            end: None,
        }
    }

    /// Waits for its end.
    pub fn watch(mut self) -> Verdict {
        match self.until_end() {
            Ok(status) => self.verdict(status),
            Err(Cut::Outcome(outcome)) => {
                self.end_group(Some(outcome));
                Verdict::Ended(self.record(outcome))
            }
            Err(Cut::Stop) => match self.end_group(None) {
                Some(outcome) => Verdict::Ended(self.record(outcome)),
                None => self.stopped(),
            },
            Err(Cut::Fault(fault)) => {
                self.end_group(None);
                Verdict::Failed(fault)
            }
        }
    }

    /// Listens until the command has ended, and to what it left behind.
    fn until_end(&mut self) -> Result<ExitStatus, Cut> {
        let mut looked = Instant::now();
        loop {
            match self.lines.recv_timeout(LOOK) {
                Ok(line) => self.hear(line)?,
                Err(RecvTimeoutError::Timeout) => {}
                // It closed its output and may still be at work.
                Err(RecvTimeoutError::Disconnected) => std::thread::sleep(LOOK),
            }
            if looked.elapsed() < LOOK {
                continue;
            }
            looked = Instant::now();
            // A process that this one started can be waited for.
            if let Ok(Some(status)) = self.child.try_wait() {
                return match status.success() {
                    true => self.hear_the_rest().map(|()| status),
                    // It may have been a shell, which dies before the process that it waits
                    // for: that one still has its work to save.
                    false => match self.end_group(None) {
                        Some(outcome) => Err(Cut::Outcome(outcome)),
                        None => Ok(status),
                    },
                };
            }
            self.look()?;
        }
    }

    /// What is left in the pipe once the command has ended well. Its children end first, so
    /// that the pipe closes.
    fn hear_the_rest(&mut self) -> Result<(), Cut> {
        self.group.kill();
        let until = Instant::now() + REST;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            match self.lines.recv_timeout(left) {
                Ok(line) => self.hear(line)?,
                Err(_) => return Ok(()),
            }
        }
    }

    /// Whether the command has to be ended.
    fn look(&mut self) -> Result<(), Cut> {
        self.progress.spent = self.spent();
        let Attempt {
            desk,
            run,
            rules,
            halt,
            ..
        } = self.attempt;
        let stop = desk.advanced(run, &self.progress).is_break();
        if stop || halt.load(Ordering::Relaxed) {
            return Err(Cut::Stop);
        }
        if let Some((end, at)) = self.end {
            // It has said all it had to say; one that then does not end is ended.
            return match at.elapsed() > rules.grace {
                true => Err(Cut::Outcome(self.outcome(end))),
                false => Ok(()),
            };
        }
        if let Some(most) = rules.timeout.filter(|most| self.start.elapsed() > *most) {
            let reason = format!("it ran for longer than {} s", most.as_secs_f64());
            return Err(fault(FailureKind::Timeout, reason));
        }
        self.weigh()
    }

    fn weigh(&mut self) -> Result<(), Cut> {
        let Some(most) = self.attempt.rules.memory else {
            return Ok(());
        };
        if self.weighed.elapsed() < WEIGH {
            return Ok(());
        }
        let taken = self.group.memory().unwrap_or(0);
        self.weighed = Instant::now();
        match taken > most {
            true => {
                let (taken, most) = (taken >> 20, most >> 20);
                let reason = format!("it took {taken} MB of memory and may take {most} MB");
                Err(fault(FailureKind::Memory, reason))
            }
            false => Ok(()),
        }
    }

    fn spent(&self) -> Duration {
        self.before + self.start.elapsed()
    }

    fn hear(&mut self, line: Line) -> Result<(), Cut> {
        let text = match line {
            Line::Whole(text) => text,
            Line::Cut(text) if text.trim_start().starts_with('{') => {
                let reason = format!("a line of its output is longer than {LONGEST_LINE} bytes");
                return Err(fault(FailureKind::Output, reason));
            }
            Line::Cut(text) => text,
        };
        match protocol::read(&text, self.attempt.run).map_err(Cut::Fault)? {
            None => {
                let mut log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
                log.add(format!("{text}\n").as_bytes());
                Ok(())
            }
            Some(_) if self.end.is_some() => {
                let reason = "it wrote more messages after its outcome".into();
                Err(fault(FailureKind::Output, reason))
            }
            Some(Message::Evaluation(point)) => self.evaluated(point),
            Some(Message::Divergence { step }) => {
                self.join_earlier(step);
                Err(Cut::Outcome(Outcome::Diverged { step }))
            }
            Some(Message::End(end)) => {
                self.ended(end);
                Ok(())
            }
        }
    }

    /// An evaluation: part of the curve, and perhaps the end of a run that stalls.
    fn evaluated(&mut self, point: CurvePoint) -> Result<(), Cut> {
        self.join_earlier(point.step);
        let last = self.progress.curve.last().map(|last| last.step);
        match last {
            Some(last) if last > point.step => {
                let reason = format!("it reported step {} after step {last}", point.step);
                return Err(fault(FailureKind::Output, reason));
            }
            // In a short run two evaluations may round to one step.
            Some(last) if last == point.step => {
                self.progress.curve.pop();
            }
            _ => {}
        }
        self.progress.step = point.step;
        self.progress.curve.push(point);
        // Without it a resumed run has a shorter curve, and no more than that.
        let _ = self.history.add(&point, self.spent());
        let run = self.attempt.run;
        match run
            .setting
            .evaluation
            .stalls(point.step, run.steps, point.test_accuracy)
        {
            true => Err(Cut::Outcome(Outcome::Stalled {
                step: point.step,
                test_accuracy: point.test_accuracy,
            })),
            false => Ok(()),
        }
    }

    fn ended(&mut self, end: End) {
        let steps = self.attempt.run.steps;
        self.join_earlier(steps.saturating_add(1));
        self.end = Some((end, Instant::now()));
        let before_end = self
            .progress
            .curve
            .last()
            .is_none_or(|last| last.step < steps);
        if let End::Trained {
            test_accuracy,
            validation_accuracy: Some(validation_accuracy),
            training_loss,
        } = end
            && before_end
        {
            self.progress.curve.push(CurvePoint {
                step: steps,
                training_loss,
                test_accuracy,
                validation_accuracy,
            });
        }
    }

    fn join_earlier(&mut self, first_step: u64) {
        let (curve, spent) = self.history.begin(first_step);
        self.before += spent;
        self.progress.curve.splice(0..0, curve);
    }

    fn outcome(&self, end: End) -> Outcome {
        let last_step = self.progress.curve.last().map_or(0, |last| last.step);
        protocol::outcome(end, self.attempt.run, last_step)
    }

    fn record(&self, outcome: Outcome) -> Record {
        let (run, curve) = (self.attempt.run, self.progress.curve.clone());
        Record::new(
            run,
            outcome,
            curve,
            self.spent().as_secs_f64(),
            DEVICE.into(),
        )
    }

    /// What a command that ended by itself has given.
    fn verdict(&mut self, status: ExitStatus) -> Verdict {
        self.wait_for_log();
        let fault = |kind, reason: String| Verdict::Failed(Fault { kind, reason });
        match (status.success(), self.end) {
            (true, Some((end, _))) => Verdict::Ended(self.record(self.outcome(end))),
            _ if self.is_stopping() => self.stopped(),
            (true, None) => fault(
                FailureKind::NoOutcome,
                "it ended with exit code 0 and without a line that has `outcome`".into(),
            ),
            (false, _) => fault(FailureKind::Crash, in_words(status)),
        }
    }

    /// What a command has given that was stopped: the outcome it has told, if it has.
    fn stopped(&self) -> Verdict {
        match self.end {
            Some((end, _)) => Verdict::Ended(self.record(self.outcome(end))),
            None => Verdict::Stopped,
        }
    }

    /// Whether noisescale itself is asked to end. Whoever ends a whole job (a cluster, a
    /// shutdown) signals its processes in any order: a command that heard it first has not failed.
    fn is_stopping(&self) -> bool {
        std::thread::sleep(SIGNALS_APART);
        let Attempt { desk, run, .. } = self.attempt;
        desk.advanced(run, &self.progress).is_break()
    }

    /// Asks the group to end, waits for the grace period, and kills what is left. All the while
    /// it is listened to: gives the outcome that was measured before (what is said after it
    /// does not count), or that is measured on the way.
    fn end_group(&mut self, mut measured: Option<Outcome>) -> Option<Outcome> {
        self.group.ask_to_end();
        let asked = Instant::now();
        while asked.elapsed() < self.attempt.rules.grace {
            match self.lines.recv_timeout(LOOK) {
                Ok(line) => self.hear_last_words(line, &mut measured),
                Err(silence) if self.has_ended(silence) => break,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => std::thread::sleep(LOOK),
            }
        }
        self.group.kill();
        // Killed, it ends.
        let _ = self.child.wait();
        let killed = Instant::now();
        let left = || REST.saturating_sub(killed.elapsed());
        while let Ok(line) = self.lines.recv_timeout(left()) {
            self.hear_last_words(line, &mut measured);
        }
        self.wait_for_log();
        measured
    }

    /// Whether the command has ended with everything in its group. Where processes cannot be
    /// seen, nobody is left once nobody holds the pipe.
    fn has_ended(&mut self, silence: RecvTimeoutError) -> bool {
        let closed = silence == RecvTimeoutError::Disconnected;
        !matches!(self.child.try_wait(), Ok(None)) && self.group.is_empty().unwrap_or(closed)
    }

    /// A line of a command that ends: its evaluations are kept for the next attempt, an outcome
    /// counts, and a mistake does not, since a kill may tear a line.
    fn hear_last_words(&mut self, line: Line, measured: &mut Option<Outcome>) {
        if measured.is_none()
            && let Err(Cut::Outcome(outcome)) = self.hear(line)
        {
            *measured = Some(outcome);
        }
    }

    fn wait_for_log(&mut self) {
        if let Some(logged) = &self.logged {
            let _ = logged.recv_timeout(REST);
        }
    }
}

fn fault(kind: FailureKind, reason: String) -> Cut {
    Cut::Fault(Fault { kind, reason })
}
