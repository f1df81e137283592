//! Seeds where they matter: which points of a scan can still be in its best interval.
//!
//! A study plans S seeds at every point, but most points are plainly not the best
//! after a few. The rule starts with a few seeds everywhere, then goes by rounds. At
//! each look it asks of every point: given the seeds so far, how probable is it that
//! the *full* study, with all S seeds at every point, has it in the best interval? The
//! least probable points are dropped, as many as the error rate allows; the others get
//! more seeds, until they have all S.
//!
//! **The probability** is the share of draws of the full study that have the point in
//! their interval, best point, threshold and contiguity included. A draw completes
//! every point from the seeds it has (see the module `future`), taking accuracies to be normal
//! with unknown mean and deviation. What is asked is about S runs, not infinitely
//! many, so the uncertainty shrinks to nothing as a point is completed.
//!
//! **The error rate** α is that of a scan: with R looks, the probabilities of the points
//! dropped at one look add up to at most α/R, so that the expected number of points
//! dropped against the full study is at most α. (A bound for each of P points alone,
//! α/(P·R), would waste what the hopeless points do not need.) A point that is dropped
//! keeps being asked at the later looks of the others, and comes back if it has become
//! probable again; so when the rule is done, what the records say agrees with what was
//! dropped. A simulation in the tests holds the rule to its error rate.
//!
//! **Failures.** A failed run is a seed spent; the runs to come are expected to fail as
//! often. With fewer than two trained runs nothing can be said: the point is kept, and
//! in a draw it is neither the best nor a gap in an interval. A point at which so many
//! runs have failed that fewer than 75 % of S can train is dropped: the full study
//! would flag it, and the promise is about intervals that hold no flagged point.

mod future;

use crate::measure::Axis;
use crate::observation::{Observations, Observed};
use crate::resample::Random;
use crate::sample::trained_accuracy;
use future::{Future, Known, known};
use spec::{SearchKind, Spending, Study};

/// Draws of the full study at each look.
const DRAWS: u32 = 4000;
/// Seed of the draws.
const SEED: u64 = 0;

/// α: the expected number of points of a scan that are dropped although the full study has them in its
/// best interval is at most this.
pub const ERROR_RATE: f64 = 0.05;

/// How seeds are spent.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rule {
    seeds: u32,
    first: u32,
    step: u32,
}

/// What is known of one point: for each seed from 0, the accuracy of the run, or
/// `None` if it failed.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Progress {
    /// By seed, without gaps.
    pub outcomes: Vec<Option<f64>>,
}

/// What to do with a point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Run its seeds below `total` that have no record.
    Needs {
        /// How many seeds it should have, counting those it has.
        total: u32,
    },
    /// It may be in the interval, and others have to catch up first.
    Waits,
    /// It has all its seeds.
    Complete,
    /// It needs no more seeds.
    Dropped(DropReason),
}

/// Why a point needs no more seeds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DropReason {
    /// The full study would hardly have it in its best interval.
    Improbable,
    /// Fewer than 75 % of its runs can still train.
    FailsToTrain,
}

impl Rule {
    /// 4 seeds, then rounds of 2.
    pub fn usual(seeds: u32) -> Self {
        Self {
            seeds,
            first: 4,
            step: 2,
        }
    }

    /// The seeds on which a point is judged: the last look at or below `have`.
    fn look(&self, have: u32) -> u32 {
        if have >= self.seeds {
            self.seeds
        } else if have < self.first {
            0
        } else {
            have - (have - self.first) % self.step
        }
    }

    /// The look after one.
    fn next_look(&self, look: u32) -> u32 {
        let next = if look < self.first {
            self.first
        } else {
            look + self.step
        };
        next.min(self.seeds)
    }

    /// R: how many looks come before all seeds are there.
    fn looks(&self) -> u32 {
        self.seeds.saturating_sub(self.first).div_ceil(self.step)
    }

    /// α/R: what the probabilities of all points dropped at one look may add up to.
    fn allowance(&self) -> f64 {
        ERROR_RATE / f64::from(self.looks().max(1))
    }

    /// Fewest failures that leave less than 75 % of the seeds.
    fn too_many_failures(&self) -> u32 {
        self.seeds / 4 + 1
    }
}

/// The verdict on every point of one scan, in the order of its axis.
pub fn decide(rule: &Rule, points: &[Progress]) -> Vec<Verdict> {
    let looks: Vec<u32> = (points.iter())
        .map(|point| rule.look(count(&point.outcomes)))
        .collect();
    let known = known(rule, points, &looks);
    let dropped = dropped(rule, &known);
    let behind = (looks.iter().zip(&dropped))
        .filter(|(_, dropped)| dropped.is_none())
        .map(|(look, _)| *look)
        .min()
        .unwrap_or(rule.seeds);
    (points.iter().zip(&looks).zip(&dropped))
        .map(|((point, look), dropped)| match dropped {
            Some(reason) => Verdict::Dropped(*reason),
            None if count(&point.outcomes) >= rule.seeds => Verdict::Complete,
            None if *look == behind => Verdict::Needs {
                total: rule.next_look(*look),
            },
            None => Verdict::Waits,
        })
        .collect()
}

/// Of each point, why it is dropped, if it is: the failing ones, and of the others the
/// least probable that the allowance covers together.
fn dropped(rule: &Rule, known: &[Known]) -> Vec<Option<DropReason>> {
    let probabilities = probabilities(known);
    let mut dropped: Vec<Option<DropReason>> = (known.iter())
        .map(|known| matches!(known, Known::Failing).then_some(DropReason::FailsToTrain))
        .collect();
    let mut judged: Vec<usize> = (0..known.len())
        .filter(|at| matches!(known[*at], Known::Sampled(_)))
        .collect();
    judged.sort_by(|a, b| probabilities[*a].total_cmp(&probabilities[*b]));
    let mut left = rule.allowance();
    for at in judged {
        left -= probabilities[at];
        if left < 0.0 {
            break;
        }
        dropped[at] = Some(DropReason::Improbable);
    }
    dropped
}

/// For every point, the share of draws of the full study that have it in the best interval.
fn probabilities(known: &[Known]) -> Vec<f64> {
    let mut random = Random::stream(SEED, known.len() as u64);
    let mut hits = vec![0_u32; known.len()];
    let mut futures: Vec<Option<Future>> = Vec::with_capacity(known.len());
    for _ in 0..DRAWS {
        futures.clear();
        futures.extend(known.iter().map(|known| match known {
            Known::Sampled(sampled) => Some(sampled.draw(&mut random)),
            Known::Open | Known::Failing => None,
        }));
        add_interval(known, &futures, &mut random, &mut hits);
    }
    hits.iter()
        .map(|hits| f64::from(*hits) / f64::from(DRAWS))
        .collect()
}

/// Counts the points of one draw's best interval.
fn add_interval(
    known: &[Known],
    futures: &[Option<Future>],
    random: &mut Random,
    hits: &mut [u32],
) {
    let best = (futures.iter().enumerate())
        .filter_map(|(at, future)| future.map(|future| (at, future)))
        .max_by(|(_, a), (_, b)| a.mean.total_cmp(&b.mean));
    let Some((best, future)) = best else { return };
    let Known::Sampled(sampled) = &known[best] else {
        return;
    };
    let threshold = sampled.threshold(future, random);
    let inside = |at: &usize| match (known[*at], futures[*at]) {
        (Known::Open, _) => true,
        (_, Some(future)) => future.mean > threshold,
        (_, None) => false,
    };
    hits[best] += 1;
    let below = (0..best).rev().take_while(inside);
    for at in below.chain((best + 1..known.len()).take_while(inside)) {
        hits[at] += 1;
    }
}

fn count<T>(values: &[T]) -> u32 {
    u32::try_from(values.len()).unwrap_or(u32::MAX)
}

/// The verdict on every point of a study, in their order. With every seed wanted
/// everywhere, and in searches without an optimum, each needs all its seeds.
pub fn verdicts(study: &Study, observations: &Observations<'_>) -> Vec<Verdict> {
    let points = &observations.points;
    let mut verdicts: Vec<Verdict> = (points.iter())
        .map(|_| Verdict::Needs { total: study.seeds })
        .collect();
    if study.spending == Spending::EverySeed {
        return verdicts;
    }
    let rule = Rule::usual(study.seeds);
    for (search, axis) in [
        (SearchKind::BatchSize, Axis::BatchSize),
        (SearchKind::LearningRate, Axis::LearningRate),
    ] {
        for scan in observations.scans(search, axis) {
            let progress: Vec<Progress> = scan.points.iter().map(Progress::of).collect();
            for (observed, verdict) in scan.points.iter().zip(decide(&rule, &progress)) {
                if let Some(at) = points.iter().position(|p| p.point == observed.point) {
                    verdicts[at] = verdict;
                }
            }
        }
    }
    verdicts
}

impl Progress {
    /// The seeds of a point from 0 up to the first one without a record.
    fn of(observed: &Observed<'_>) -> Self {
        Self {
            outcomes: (observed.by_seed.iter())
                .map_while(|record| record.map(trained_accuracy))
                .collect(),
        }
    }
}

impl Verdict {
    /// How many seeds from 0 are to be run now, if they have no record.
    pub fn needed(self) -> usize {
        match self {
            Self::Needs { total } => total as usize,
            Self::Waits | Self::Complete | Self::Dropped(_) => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seeds(outcomes: &[f64]) -> Progress {
        Progress {
            outcomes: outcomes.iter().map(|a| Some(*a)).collect(),
        }
    }

    /// `count` accuracies about a mean, alternating by ±0.01.
    fn about(mean: f64, count: usize) -> Progress {
        let one = |at: usize| mean + [0.01, -0.01][at % 2];
        seeds(&(0..count).map(one).collect::<Vec<_>>())
    }

    #[test]
    fn looks_by_hand() {
        // 4, then 8, 12, 16; at 20 nothing is left to judge: four looks.
        let rule = Rule {
            seeds: 20,
            first: 4,
            step: 4,
        };
        assert_eq!(
            [0, 3, 4, 7, 8, 19, 20].map(|have| rule.look(have)),
            [0, 0, 4, 4, 8, 16, 20]
        );
        assert_eq!(
            [0, 4, 16, 18].map(|look| rule.next_look(look)),
            [4, 8, 20, 20]
        );
        assert_eq!(rule.looks(), 4);
        assert!((rule.allowance() - 0.0125).abs() < 1e-15);
        // 20 − 6 = 14 < 15.
        assert_eq!(rule.too_many_failures(), 6);
    }

    #[test]
    fn every_point_starts_with_the_first_round() {
        let verdicts = decide(&Rule::usual(20), &[Progress::default(), about(0.9, 3)]);
        assert_eq!(verdicts, [Verdict::Needs { total: 4 }; 2]);
        // A study of fewer seeds than a round.
        let verdicts = decide(&Rule::usual(3), &[Progress::default()]);
        assert_eq!(verdicts, [Verdict::Needs { total: 3 }]);
    }

    #[test]
    fn plainly_worse_points_are_dropped_and_good_ones_go_on() {
        let points = [about(0.3, 8), about(0.9, 8), about(0.895, 8), about(0.3, 8)];
        assert_eq!(
            decide(&Rule::usual(20), &points),
            [
                Verdict::Dropped(DropReason::Improbable),
                Verdict::Needs { total: 10 },
                Verdict::Needs { total: 10 },
                Verdict::Dropped(DropReason::Improbable),
            ]
        );
    }

    #[test]
    fn points_behind_a_gap_are_dropped_though_near() {
        // 0.89 is within reach of 0.90 only through 0.3.
        let points = [about(0.91, 16), about(0.3, 16), about(0.895, 16)];
        assert_eq!(
            decide(&Rule::usual(20), &points)[2],
            Verdict::Dropped(DropReason::Improbable)
        );
    }

    #[test]
    fn those_behind_catch_up_first() {
        let points = [about(0.9, 8), about(0.9, 4), about(0.9, 20)];
        assert_eq!(
            decide(&Rule::usual(20), &points),
            [
                Verdict::Waits,
                Verdict::Needs { total: 6 },
                Verdict::Complete
            ]
        );
    }

    #[test]
    fn failing_points_are_dropped_when_they_cannot_count() {
        let failing = Progress {
            outcomes: vec![None; 8],
        };
        let open = Progress {
            outcomes: vec![None, None, Some(0.5), None, None, None],
        };
        let points = [about(0.9, 8), failing, open];
        let verdicts = decide(&Rule::usual(20), &points);
        assert_eq!(verdicts[1], Verdict::Dropped(DropReason::FailsToTrain));
        // Judged on its first four seeds, it has one trained run: kept, and asked for more.
        assert_eq!(verdicts[2], Verdict::Needs { total: 8 });
    }
}
