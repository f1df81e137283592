//! Which record belongs to which point.
//!
//! A record matches a planned run by id, the hash of everything that determines the
//! result. A run that is recorded twice counts once (the first record stands), a run
//! that belongs to two scans counts in both, and records of no planned run are
//! counted and otherwise left alone.

use crate::measure::{Axis, Place};
use crate::sample::{Tally, trained_accuracy};
use serde::{Deserialize, Serialize};
use spec::{Point, Record, RunId, SearchKind, Study, Width};
use std::collections::HashMap;
use std::collections::hash_map::Entry;

/// A point with the records of its runs.
#[derive(Debug, Clone, PartialEq)]
pub struct Observed<'a> {
    /// The point.
    pub point: Point,
    /// For each planned seed, from 0, its record if there is one.
    pub by_seed: Vec<Option<&'a Record>>,
}

impl<'a> Observed<'a> {
    /// The records, by seed.
    pub fn records(&self) -> impl Iterator<Item = &'a Record> + '_ {
        self.by_seed.iter().flatten().copied()
    }

    /// How its runs ended.
    pub fn tally(&self) -> Tally {
        let planned = u32::try_from(self.by_seed.len()).unwrap_or(u32::MAX);
        Tally::of(planned, self.records())
    }

    /// The accuracy of every recorded run, by seed; `None` for one that failed.
    pub fn accuracies(&self) -> Vec<Option<f64>> {
        self.records().map(trained_accuracy).collect()
    }

    /// Where it is.
    pub fn place(&self) -> Place {
        Place {
            width: self.point.width,
            batch_size: self.point.batch_size,
            learning_rate: self.point.learning_rate,
        }
    }
}

/// How many runs a study has and how many records it found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct RunCounts {
    /// Runs of the plan, each once.
    pub planned: usize,
    /// Runs of the plan that have a record.
    pub recorded: usize,
    /// Further records of runs that had one.
    pub duplicates: usize,
    /// Records of no run of the plan.
    pub strays: usize,
}

/// All points of a study with their records.
#[derive(Debug, Clone, PartialEq)]
pub struct Observations<'a> {
    /// In the order of the points.
    pub points: Vec<Observed<'a>>,
    /// What was found.
    pub counts: RunCounts,
}

/// One scan: the points of one search and one width, ascending along its axis.
#[derive(Debug, Clone, PartialEq)]
pub struct Scan<'a> {
    /// w.
    pub width: Width,
    /// Ascending along the axis.
    pub points: Vec<Observed<'a>>,
}

/// Matches records to the runs of these points by id.
pub fn observe<'a>(
    study: &Study,
    points: &[Point],
    records: impl IntoIterator<Item = &'a Record>,
) -> Observations<'a> {
    let ids: Vec<Vec<RunId>> = points
        .iter()
        .map(|point| point.runs(study).map(|run| run.id()).collect())
        .collect();
    let mut found: HashMap<RunId, Option<&Record>> =
        ids.iter().flatten().map(|id| (*id, None)).collect();
    let mut counts = RunCounts {
        planned: found.len(),
        ..RunCounts::default()
    };
    for record in records {
        match found.entry(record.run) {
            Entry::Vacant(_) => counts.strays += 1,
            Entry::Occupied(known) if known.get().is_some() => counts.duplicates += 1,
            Entry::Occupied(mut first) => {
                first.insert(Some(record));
                counts.recorded += 1;
            }
        }
    }
    let record_of = |id: &RunId| found.get(id).copied().flatten();
    let observed = points.iter().zip(&ids).map(|(point, ids)| Observed {
        point: *point,
        by_seed: ids.iter().map(record_of).collect(),
    });
    Observations {
        points: observed.collect(),
        counts,
    }
}

impl<'a> Observations<'a> {
    /// The scans of one search, one for every width, in ascending order; `axis` is
    /// what they vary.
    pub fn scans(&self, search: SearchKind, axis: Axis) -> Vec<Scan<'a>> {
        let mut scans: Vec<Scan<'a>> = Vec::new();
        for observed in self.points.iter().filter(|p| p.point.search == search) {
            let width = observed.point.width;
            match scans.iter_mut().find(|scan| scan.width == width) {
                Some(scan) => scan.points.push(observed.clone()),
                None => scans.push(Scan {
                    width,
                    points: vec![observed.clone()],
                }),
            }
        }
        scans.sort_by_key(|scan| scan.width);
        for scan in &mut scans {
            scan.sort(axis);
        }
        scans
    }
}

impl Scan<'_> {
    fn sort(&mut self, axis: Axis) {
        self.points.sort_by(|a, b| match axis {
            Axis::BatchSize => a.point.batch_size.cmp(&b.point.batch_size),
            Axis::LearningRate => {
                let rate = |p: &Observed<'_>| p.point.learning_rate.get();
                rate(a).total_cmp(&rate(b))
            }
        });
    }
}
