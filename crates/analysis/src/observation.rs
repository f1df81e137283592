//! Which record belongs to which point.
//!
//! A record matches a planned run by id, the hash of everything that determines the
//! result. A run that is recorded twice counts once (the first record stands), a run
//! that belongs to two scans counts in both, and records of no planned run are
//! counted and otherwise left alone.

use crate::adaptive::{Verdict, verdicts};
use crate::measure::{Axis, Place};
use crate::sample::{Tally, trained_accuracy};
use serde::Serialize;
use spec::{Outcome, Point, Record, Run, RunId, SearchKind, Study, Width};
use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};

/// A point with the records of its runs.
#[derive(Debug, Clone, PartialEq)]
pub struct Observed<'a> {
    /// The point.
    pub point: Point,
    /// For each seed of the study, from 0, its record if there is one.
    pub by_seed: Vec<Option<&'a Record>>,
    /// Seeds without a record that the adaptive rule does without.
    pub skipped: u32,
}

impl<'a> Observed<'a> {
    /// The records, by seed.
    pub fn records(&self) -> impl Iterator<Item = &'a Record> + '_ {
        self.by_seed.iter().flatten().copied()
    }

    /// How its runs ended.
    pub fn tally(&self) -> Tally {
        let seeds = u32::try_from(self.by_seed.len()).unwrap_or(u32::MAX);
        Tally::of(seeds, self.skipped, self.records())
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
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct RunCounts {
    /// Runs of the plan, each once, without those skipped.
    pub planned: usize,
    /// Runs that the adaptive rule does without.
    pub skipped: usize,
    /// Runs of the plan that have a record:
    pub recorded: usize,
    /// trained,
    pub trained: usize,
    /// stalled,
    pub stalled: usize,
    /// or diverged.
    pub diverged: usize,
    /// Training time of these, in seconds.
    pub seconds: f64,
    /// Further records of runs that had one.
    pub duplicates: usize,
    /// Records of no run of the plan.
    pub strays: usize,
    /// Runs of the plan that a user's own command has failed to train so far; whoever
    /// reads the journal of failures fills this in.
    #[serde(skip_serializing_if = "is_zero")]
    pub failed: usize,
}

impl RunCounts {
    fn add(&mut self, outcome: &Outcome) {
        self.recorded += 1;
        match outcome {
            Outcome::Trained { .. } => self.trained += 1,
            Outcome::Stalled { .. } => self.stalled += 1,
            Outcome::Diverged { .. } => self.diverged += 1,
        }
    }
}

fn is_zero(count: &usize) -> bool {
    *count == 0
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
    let ids = run_ids(study, points);
    let mut observations = gather(points, &ids, records);
    let verdicts = verdicts(study, &observations);
    observations.leave_out_skipped(&ids, &verdicts);
    observations
}

/// The runs of the study that are to be trained next, each once.
pub fn wanted<'a>(
    study: &Study,
    points: &[Point],
    records: impl IntoIterator<Item = &'a Record>,
) -> Vec<Run> {
    let ids = run_ids(study, points);
    let observations = gather(points, &ids, records);
    let mut seen: HashSet<RunId> = (observations.points.iter())
        .flat_map(|point| point.records().map(|record| record.run))
        .collect();
    let verdicts = verdicts(study, &observations);
    (points.iter().zip(verdicts))
        .flat_map(|(point, verdict)| point.runs(study).take(verdict.needed()))
        .filter(|run| seen.insert(run.id()))
        .collect()
}

fn run_ids(study: &Study, points: &[Point]) -> Vec<Vec<RunId>> {
    (points.iter())
        .map(|point| point.runs(study).map(|run| run.id()).collect())
        .collect()
}

/// Gives every record to the points it belongs to.
fn gather<'a>(
    points: &[Point],
    ids: &[Vec<RunId>],
    records: impl IntoIterator<Item = &'a Record>,
) -> Observations<'a> {
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
                counts.add(&record.outcome);
            }
        }
    }
    let record_of = |id: &RunId| found.get(id).copied().flatten();
    // In the order of the plan, so that the sum does not depend on that of the records.
    let mut summed = HashSet::new();
    let once = ids.iter().flatten().filter(|id| summed.insert(**id));
    counts.seconds = once.filter_map(record_of).map(|r| r.seconds).sum();
    let observed = points.iter().zip(ids).map(|(point, ids)| Observed {
        point: *point,
        by_seed: ids.iter().map(record_of).collect(),
        skipped: 0,
    });
    Observations {
        points: observed.collect(),
        counts,
    }
}

impl<'a> Observations<'a> {
    /// Takes the runs that the rule has dropped out of the plan. A run of two
    /// searches is skipped if neither asks for it.
    fn leave_out_skipped(&mut self, ids: &[Vec<RunId>], verdicts: &[Verdict]) {
        let asked: HashSet<RunId> = (ids.iter().zip(verdicts))
            .filter(|(_, verdict)| !matches!(verdict, Verdict::Dropped(_)))
            .flat_map(|(ids, _)| ids.iter().copied())
            .collect();
        let mut skipped = HashSet::new();
        for (observed, ids) in self.points.iter_mut().zip(ids) {
            for (record, id) in observed.by_seed.iter().zip(ids) {
                if record.is_none() && !asked.contains(id) {
                    observed.skipped += 1;
                    skipped.insert(*id);
                }
            }
        }
        self.counts.skipped = skipped.len();
        self.counts.planned -= skipped.len();
    }

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
