//! How a study stands that may still grow: told by whoever watches its folder, shown
//! above its numbers.

use crate::{number, words};
use analysis::Findings;
use std::time::Duration;

/// How a study stands.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Standing {
    /// Whether somebody works on it.
    pub work: Work,
    /// Recorded runs that trained.
    pub trained: usize,
    /// Recorded runs that stalled.
    pub stalled: usize,
    /// Recorded runs that diverged.
    pub diverged: usize,
    /// What its folder should be looked at for: warnings and alarms, a sentence each.
    pub warnings: Vec<String>,
}

/// Whether somebody works on a study.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Work {
    /// Every run that the study asks for is recorded.
    Complete,
    /// Runs are missing and nobody trains them.
    #[default]
    Idle,
    /// Processes train.
    AtWork {
        /// How many.
        processes: usize,
        /// Runs that they have taken on.
        runs: usize,
        /// Time until the planned runs are recorded, if the pace is known yet.
        left: Option<Duration>,
    },
}

impl Work {
    /// In a word, for colours and tables.
    pub fn word(self) -> &'static str {
        match self {
            Self::Complete => "complete",
            Self::Idle => "idle",
            Self::AtWork { .. } => "at work",
        }
    }

    /// In a line.
    pub fn line(self) -> String {
        match self {
            Self::Complete => "complete".into(),
            Self::Idle => "nobody is at work; run the study again to go on".into(),
            Self::AtWork {
                processes,
                runs,
                left,
            } => format!(
                "{} at work on {}, {}",
                words::counted_as(processes as u64, "process", "processes"),
                words::counted(runs as u64, "run"),
                left_words(left)
            ),
        }
    }
}

/// `about 12 min left`.
fn left_words(left: Option<Duration>) -> String {
    match left {
        Some(left) => format!("about {} left", rounded(left)),
        None => "time left not known yet".into(),
    }
}

/// A duration that changes seldom while it is counted down.
pub fn rounded(left: Duration) -> String {
    let seconds = left.as_secs_f64();
    let step = match seconds {
        s if s < 60.0 => 10.0,
        s if s < 600.0 => 60.0,
        s if s < 6000.0 => 300.0,
        _ => 360.0,
    };
    number::duration((seconds / step).ceil() * step)
}

/// `1230 of 1230 planned runs recorded`, with what the adaptive rule left out.
pub fn recorded(findings: &Findings) -> String {
    let runs = findings.runs;
    let mut label = format!(
        "{} of {} recorded",
        number::count(runs.recorded as u64),
        words::counted(runs.planned as u64, "planned run")
    );
    if let Some(skipped) = words::skipped(runs) {
        label += &format!("; {skipped}");
    }
    label
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_in_words() {
        let at_work = |processes, left| Work::AtWork {
            processes,
            runs: 14,
            left,
        };
        assert_eq!(
            at_work(2, Some(Duration::from_secs(700))).line(),
            "2 processes at work on 14 runs, about 15 min left"
        );
        assert_eq!(
            at_work(1, None).line(),
            "1 process at work on 14 runs, time left not known yet"
        );
    }

    #[test]
    fn time_left_is_rounded_up() {
        let words = |seconds| rounded(Duration::from_secs(seconds));
        assert_eq!(words(41), "50 s");
        assert_eq!(words(125), "3 min");
        assert_eq!(words(3700), "65 min");
        assert_eq!(words(7300), "2.1 h");
    }
}
