//! How long a study still takes, from how fast its records have come in lately.
//!
//! Runs differ in length, so what comes in is weighed by the products that it takes.
//! Records carry no time of day; the pace is therefore what this process has seen
//! itself, over the last ten minutes.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// How far back the pace is taken from.
const WINDOW: Duration = Duration::from_secs(600);

/// Less than this says nothing.
const LEAST: Duration = Duration::from_secs(8);

/// What has come in, and when.
#[derive(Debug, Default)]
pub struct Pace {
    seen: VecDeque<(Instant, f64)>,
}

impl Pace {
    /// So much work is done in all.
    pub fn note(&mut self, now: Instant, done: f64) {
        // A ledger that was cut back begins anew.
        if self.seen.back().is_some_and(|(_, before)| done < *before) {
            self.seen.clear();
        }
        if self.seen.back().is_none_or(|(_, before)| done > *before) {
            self.seen.push_back((now, done));
        }
        // One older than the window stays, as its beginning.
        while self.seen.len() > 2 && self.seen.get(1).is_some_and(|(at, _)| now - *at > WINDOW) {
            self.seen.pop_front();
        }
    }

    /// Time for so much more work; `None` while the pace is not known.
    pub fn left(&self, now: Instant, work: f64) -> Option<Duration> {
        let ((began, before), (_, after)) = (self.seen.front()?, self.seen.back()?);
        let passed = now.saturating_duration_since(*began);
        let done = after - before;
        if passed < LEAST || done <= 0.0 || self.seen.len() < 3 {
            return None;
        }
        Duration::try_from_secs_f64(passed.as_secs_f64() * work.max(0.0) / done).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(count: u64) -> Duration {
        Duration::from_secs(count)
    }

    #[test]
    fn time_left_by_hand() {
        let start = Instant::now();
        let mut pace = Pace::default();
        pace.note(start, 100.0);
        assert_eq!(pace.left(start, 50.0), None);
        pace.note(start + seconds(5), 105.0);
        pace.note(start + seconds(10), 110.0);
        // 10 in 10 s, 50 to come.
        assert_eq!(pace.left(start + seconds(10), 50.0), Some(seconds(50)));
        // Nothing more for 10 s: half as fast.
        assert_eq!(pace.left(start + seconds(20), 50.0), Some(seconds(100)));
        assert_eq!(pace.left(start + seconds(20), 0.0), Some(seconds(0)));
    }

    #[test]
    fn what_is_long_ago_does_not_count() {
        let start = Instant::now();
        let mut pace = Pace::default();
        pace.note(start, 0.0);
        pace.note(start + seconds(1), 1000.0);
        for at in 0..=10 {
            pace.note(start + seconds(1000 + 100 * at), 1000.0 + 10.0 * at as f64);
        }
        // At 2000 s the window begins with the one before 1400 s: 70 in 700 s.
        assert_eq!(pace.left(start + seconds(2000), 7.0), Some(seconds(70)));
    }

    #[test]
    fn a_ledger_that_was_cut_begins_anew() {
        let start = Instant::now();
        let mut pace = Pace::default();
        for at in 0..3 {
            pace.note(start + seconds(10 * at), 10.0 * at as f64);
        }
        assert!(pace.left(start + seconds(20), 1.0).is_some());
        pace.note(start + seconds(30), 5.0);
        assert_eq!(pace.left(start + seconds(30), 1.0), None);
    }
}
