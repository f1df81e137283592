//! The evaluations of a run so far, kept beside its folder.
//!
//! A script that saves its own checkpoints goes on from the last one when its run is
//! tried again, and then reports only what follows. What it reported before is kept
//! here, so that the record has the whole curve and the whole time.

use serde::{Deserialize, Serialize};
use spec::CurvePoint;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;
use std::time::Duration;

/// An evaluation, and the time that the run had taken until then.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Entry {
    seconds: f64,
    #[serde(flatten)]
    point: CurvePoint,
}

/// What a run has reported in this and earlier attempts.
#[derive(Debug)]
pub struct History {
    file: File,
    /// Of earlier attempts.
    before: Vec<Entry>,
    /// Whether this attempt has reported.
    begun: bool,
}

impl History {
    /// Opens the history of a run. Lines that a kill tore are left out.
    pub fn open(path: &Path) -> io::Result<Self> {
        let text = match std::fs::read_to_string(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
            text => text?,
        };
        let mut before: Vec<Entry> = Vec::new();
        for entry in text
            .lines()
            .filter_map(|line| serde_json::from_str::<Entry>(line).ok())
        {
            // Each attempt replaces what it reports again.
            before.retain(|earlier| earlier.point.step < entry.point.step);
            before.push(entry);
        }
        let mut file = OpenOptions::new().append(true).create(true).open(path)?;
        if !text.is_empty() && !text.ends_with('\n') {
            file.write_all(b"\n")?;
        }
        Ok(Self {
            file,
            before,
            begun: false,
        })
    }

    /// The curve and time of earlier attempts that this one goes on from, at its
    /// first report or, without one, at its end: what was reported before that step.
    /// What it trains again counts anew.
    pub fn begin(&mut self, first_step: u64) -> (Vec<CurvePoint>, Duration) {
        if std::mem::replace(&mut self.begun, true) {
            return (Vec::new(), Duration::ZERO);
        }
        self.before.retain(|entry| entry.point.step < first_step);
        let spent = self.before.last().map_or(0.0, |last| last.seconds);
        let curve = self.before.drain(..).map(|entry| entry.point).collect();
        (
            curve,
            Duration::try_from_secs_f64(spent).unwrap_or_default(),
        )
    }

    /// Keeps an evaluation.
    pub fn add(&mut self, point: &CurvePoint, spent: Duration) -> io::Result<()> {
        let entry = Entry {
            seconds: spent.as_secs_f64(),
            point: *point,
        };
        let mut line = serde_json::to_vec(&entry)?;
        line.push(b'\n');
        self.file.write_all(&line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(step: u64) -> CurvePoint {
        CurvePoint {
            step,
            training_loss: None,
            test_accuracy: 0.5,
            validation_accuracy: 0.25,
        }
    }

    #[test]
    fn an_attempt_goes_on_or_starts_again() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("history");
        let mut first = History::open(&path).unwrap();
        assert_eq!(first.begin(10), (vec![], Duration::ZERO));
        for step in [10, 20] {
            first.add(&point(step), Duration::from_secs(step)).unwrap();
        }
        // Killed amid a line.
        first.file.write_all(b"{\"seconds\":30,\"st").unwrap();
        // From its own checkpoint at step 20: the earlier curve and time belong to it.
        let mut second = History::open(&path).unwrap();
        let earlier = (vec![point(10), point(20)], Duration::from_secs(20));
        assert_eq!(second.begin(30), earlier);
        second.add(&point(30), Duration::from_secs(29)).unwrap();
        // From the start: nothing does.
        let mut third = History::open(&path).unwrap();
        assert_eq!(third.begin(10), (vec![], Duration::ZERO));
        third.add(&point(10), Duration::from_secs(9)).unwrap();
        let mut fourth = History::open(&path).unwrap();
        assert_eq!(fourth.begin(20), (vec![point(10)], Duration::from_secs(9)));
    }

    /// Its own checkpoint is older than what it reported last: the curve up to there still
    /// belongs to it, with the time until then.
    #[test]
    fn an_attempt_goes_on_from_before_its_last_report() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("history");
        let mut first = History::open(&path).unwrap();
        for step in [10, 20, 30] {
            first.add(&point(step), Duration::from_secs(step)).unwrap();
        }
        let mut second = History::open(&path).unwrap();
        let earlier = (vec![point(10), point(20)], Duration::from_secs(20));
        assert_eq!(second.begin(30), earlier);
        second.add(&point(30), Duration::from_secs(35)).unwrap();
        // The file tells the same.
        let mut third = History::open(&path).unwrap();
        let whole = vec![point(10), point(20), point(30)];
        assert_eq!(third.begin(40), (whole, Duration::from_secs(35)));
    }
}
