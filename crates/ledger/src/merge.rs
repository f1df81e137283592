//! Many records, one per run: which one counts, and when two that should be
//! equal are not.

use spec::{Outcome, Record, RunId};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt;
use std::sync::Arc;

use crate::line_file::SUFFIX;

/// A line of a records file. Places order by writer, then line; names of
/// writers begin with their start time, so earlier writers come first.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// The file's name without `.jsonl`.
    pub writer: Arc<str>,
    /// From 1; the header is line 1.
    pub line: u64,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "records/{}{SUFFIX}:{}", self.writer, self.line)
    }
}

/// Two records of one run that a deterministic device gave and that differ.
/// Either a run's result depends on something that its id leaves out, or a
/// machine computes wrongly; in both cases the study is in doubt.
#[derive(Debug, Clone, PartialEq)]
pub struct Conflict {
    /// The run.
    pub run: RunId,
    /// The earlier record.
    pub first: Place,
    /// The later one.
    pub second: Place,
    /// What differs, in words.
    pub difference: String,
}

impl fmt::Display for Conflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "run {} was trained twice on a CPU with different results, which must not happen: \
             {} and {}: {}; the first counts; train it again on each machine to see which is wrong",
            self.run, self.first, self.second, self.difference
        )
    }
}

/// All records read so far.
#[derive(Debug, Default)]
pub(crate) struct Merged {
    runs: BTreeMap<RunId, Sightings>,
}

/// The records of one run.
#[derive(Debug)]
struct Sightings {
    counted: Sighting,
    others: Vec<Sighting>,
}

#[derive(Debug)]
struct Sighting {
    place: Place,
    record: Record,
}

impl Merged {
    /// The record at the first place counts, in whatever order they come in.
    pub fn add(&mut self, place: Place, record: Record) {
        let new = Sighting { place, record };
        match self.runs.entry(new.record.run) {
            Entry::Vacant(entry) => {
                entry.insert(Sightings {
                    counted: new,
                    others: Vec::new(),
                });
            }
            Entry::Occupied(entry) => entry.into_mut().add(new),
        }
    }

    pub fn runs(&self) -> usize {
        self.runs.len()
    }

    pub fn get(&self, run: RunId) -> Option<&Record> {
        self.runs.get(&run).map(|seen| &seen.counted.record)
    }

    /// The records that count, by run id.
    pub fn records(&self) -> impl Iterator<Item = &Record> {
        self.runs.values().map(|seen| &seen.counted.record)
    }

    /// Records that do not count because another of their run does.
    pub fn duplicates(&self) -> usize {
        self.runs.values().map(|seen| seen.others.len()).sum()
    }

    pub fn conflicts(&self) -> Vec<Conflict> {
        self.runs.values().flat_map(Sightings::conflicts).collect()
    }
}

impl Sightings {
    fn add(&mut self, mut new: Sighting) {
        if new.place < self.counted.place {
            std::mem::swap(&mut new, &mut self.counted);
        }
        self.others.push(new);
    }

    /// Every record that differs from the first of its deterministic device.
    fn conflicts(&self) -> Vec<Conflict> {
        let mut comparable: Vec<&Sighting> = std::iter::once(&self.counted)
            .chain(&self.others)
            .filter(|seen| is_deterministic(&seen.record))
            .collect();
        comparable.sort_by(|a, b| a.place.cmp(&b.place));
        let conflict = |second: &&Sighting| {
            let device = &second.record.device;
            let first = comparable
                .iter()
                .find(|seen| &seen.record.device == device)?;
            let difference = difference(&first.record, &second.record)?;
            Some(Conflict {
                run: first.record.run,
                first: first.place.clone(),
                second: second.place.clone(),
                difference,
            })
        };
        comparable.iter().filter_map(conflict).collect()
    }
}

/// The CPU engine gives the same bits whenever and wherever it runs with one
/// instruction set, which the device names; a GPU or a user's own command need not.
fn is_deterministic(record: &Record) -> bool {
    record.device.starts_with("cpu")
}

/// What differs between two results of one device; time is no part of them.
fn difference(first: &Record, second: &Record) -> Option<String> {
    let devices = format!("on `{}`", first.device);
    if first.outcome != second.outcome {
        let (one, other) = (in_words(first.outcome), in_words(second.outcome));
        return Some(format!("{one} and {other} {devices}"));
    }
    if first.curve.len() != second.curve.len() {
        let (one, other) = (first.curve.len(), second.curve.len());
        return Some(format!("{one} and {other} evaluations {devices}"));
    }
    let mut pairs = first.curve.iter().zip(&second.curve);
    let (point, _) = pairs.find(|(one, other)| one != other)?;
    let step = point.step;
    Some(format!("the evaluations at step {step} differ {devices}"))
}

fn in_words(outcome: Outcome) -> String {
    match outcome {
        Outcome::Trained { test_accuracy } => format!("trained to {test_accuracy}"),
        Outcome::Stalled {
            step,
            test_accuracy,
        } => format!("stalled at step {step} with {test_accuracy}"),
        Outcome::Diverged { step } => format!("diverged at step {step}"),
    }
}
