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
    /// Opens the history of a run. Lines that a kill or a disk tore are left out.
    pub fn open(path: &Path) -> io::Result<Self> {
        let bytes = match std::fs::read(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            bytes => bytes?,
        };
        let mut before: Vec<Entry> = Vec::new();
        for entry in entries(&bytes) {
            // Each attempt replaces what it reports again. What is kept ascends.
            while before
                .pop_if(|last| last.point.step >= entry.point.step)
                .is_some()
            {}
            before.push(entry);
        }
        let mut file = OpenOptions::new().append(true).create(true).open(path)?;
        if bytes.last().is_some_and(|last| *last != b'\n') {
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

/// The entries of a file, as far as its lines can be read.
fn entries(bytes: &[u8]) -> impl Iterator<Item = Entry> {
    let lines = bytes.split(|byte| *byte == b'\n');
    lines.filter_map(|line| serde_json::from_slice(line).ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

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

    /// A byte that is no text damages its line and no other.
    #[test]
    fn a_damaged_line_is_left_out() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("history");
        let mut first = History::open(&path).unwrap();
        first.add(&point(10), Duration::from_secs(1)).unwrap();
        first.file.write_all(b"{\"seconds\": \xff\n").unwrap();
        first.add(&point(20), Duration::from_secs(2)).unwrap();
        let mut second = History::open(&path).unwrap();
        let earlier = (vec![point(10), point(20)], Duration::from_secs(2));
        assert_eq!(second.begin(30), earlier);
    }

    /// No line goes through all before it, which takes a hundred times as long. Reading the lines
    /// alone is the measure, and the best of several tries counts: the machine may be busy.
    #[test]
    fn a_long_history_opens_in_the_time_its_lines_take() {
        const LINES: u64 = 100_000;
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("history");
        let line = |step| {
            let entry = Entry {
                seconds: 1.0,
                point: point(step),
            };
            serde_json::to_string(&entry).unwrap() + "\n"
        };
        std::fs::write(&path, (1..=LINES).map(line).collect::<String>()).unwrap();
        let opens_quickly = || {
            let start = Instant::now();
            let read = entries(&std::fs::read(&path).unwrap()).count();
            let reading = start.elapsed();
            let mut history = History::open(&path).unwrap();
            let opening = start.elapsed() - reading;
            let (curve, _) = history.begin(LINES + 1);
            assert_eq!((read as u64, curve.len() as u64), (LINES, LINES));
            opening < 10 * reading
        };
        assert!((0..10).any(|_| opens_quickly()));
    }
}
