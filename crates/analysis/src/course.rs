//! The course of training: what a study would have found, had it ended earlier.
//!
//! Learning rates are constant, and what a run draws does not depend on how long it is to be.
//! So a run that is cut off at its i-th of n evaluations, after ⌈i·T/n⌉ steps, is the run of a
//! study whose training times are all i/n as long, and a ledger holds the findings of those
//! studies, too. (A user's own command may plan by the length of its runs; then it does not.
//! Where it evaluates at other steps, the nearest counts, up to half of T/n away.)

use crate::findings::{Options, SearchFindings, analyse_points};
use serde::Serialize;
use spec::{Evaluation, Outcome, Point, Record, RunId, SearchKind, Study};
use std::collections::HashSet;

/// A time in the course of training, and what the searches found up to then.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Stage {
    /// Share of the training time.
    pub share: f64,
    /// The searches, as in [`Findings`](crate::Findings).
    pub searches: Vec<SearchFindings>,
}

impl Stage {
    /// The search of one kind, if the study has it.
    pub fn search(&self, kind: SearchKind) -> Option<&SearchFindings> {
        self.searches.iter().find(|search| search.kind == kind)
    }
}

/// Why a study has no stage at some share of its time.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum CourseError {
    /// No evaluation is then.
    #[error(
        "training is evaluated {count} times: a share of it is a multiple of 1/{count} up to 1, and {share} is none"
    )]
    NoEvaluation {
        /// The share that was asked for.
        share: f64,
        /// Evaluations of a run.
        count: u32,
    },
    /// The study's own command evaluates its runs at other times: the rest would be another study.
    #[error(
        "{missing} of {runs} runs were not evaluated after {share} of their time; all were after {}", list(.there)
    )]
    NotEvaluated {
        /// The share that was asked for.
        share: f64,
        /// Runs without an evaluation there.
        missing: usize,
        /// All runs.
        runs: usize,
        /// The shares at which none is missing.
        there: Vec<f64>,
    },
    /// It searches for nothing.
    #[error("`course` needs a batch-size, learning-rate or paired study")]
    NoSearch,
}

fn list(shares: &[f64]) -> String {
    let shares: Vec<String> = shares.iter().map(f64::to_string).collect();
    shares.join(", ")
}

/// What a study would have found after these shares of its training time.
pub fn course(
    study: &Study,
    points: &[Point],
    records: &[&Record],
    shares: &[f64],
) -> Result<Vec<Stage>, CourseError> {
    let rule = study.setting.evaluation;
    let planned: HashSet<RunId> = points
        .iter()
        .flat_map(|point| point.runs(study).map(|run| run.id()))
        .collect();
    // Those of other studies in the folder have other evaluations.
    let records: Vec<&Record> = (records.iter().copied())
        .filter(|record| planned.contains(&record.run))
        .collect();
    let records = records.as_slice();
    let stage = |share: &f64| {
        let which = evaluation_at(*share, rule.count)?;
        let cut = all_cut_off(records, which, rule).ok_or_else(|| {
            let missing = |record: &&&Record| cut_off(record, which, rule).is_none();
            CourseError::NotEvaluated {
                share: *share,
                missing: records.iter().filter(missing).count(),
                runs: records.len(),
                there: shares_of_all(records, rule),
            }
        })?;
        let findings = analyse_points(study, points, &cut, Options::default());
        match findings.searches.is_empty() {
            true => Err(CourseError::NoSearch),
            false => Ok(Stage {
                share: *share,
                searches: findings.searches,
            }),
        }
    };
    shares.iter().map(stage).collect()
}

/// The records of runs that all end at one of their evaluations; `None` if one has none there.
fn all_cut_off(records: &[&Record], which: u64, rule: Evaluation) -> Option<Vec<Record>> {
    let cut = |record: &&Record| cut_off(record, which, rule);
    records.iter().map(cut).collect()
}

/// The shares of the training time after which all runs were evaluated.
fn shares_of_all(records: &[&Record], rule: Evaluation) -> Vec<f64> {
    let count = u64::from(rule.count);
    let all = |which: &u64| all_cut_off(records, *which, rule).is_some();
    let share = |which: u64| which as f64 / count as f64;
    (1..=count).filter(all).map(share).collect()
}

/// The evaluation at a share of the training time, from 1 on.
fn evaluation_at(share: f64, count: u32) -> Result<u64, CourseError> {
    let at = share * f64::from(count);
    let there = (at - at.round()).abs() < 1e-6 && at.round() >= 1.0 && share < 1.0 + 1e-6;
    match there {
        true => Ok(at.round() as u64),
        false => Err(CourseError::NoEvaluation { share, count }),
    }
}

/// The record of a run that ends at one of its evaluations; `None` if it has none there.
fn cut_off(record: &Record, which: u64, rule: Evaluation) -> Option<Record> {
    let end = evaluated(record, rule.schedule_step(record.steps, which), rule);
    let mut curve = Vec::new();
    let mut outcome = None;
    for point in record.curve.iter().take_while(|point| point.step <= end) {
        curve.push(*point);
        // A shorter run is given up sooner.
        outcome = rule.judge(point.step, end, point.test_accuracy);
        if outcome.is_some() {
            break;
        }
    }
    let ended = |outcome: &Outcome| match outcome {
        Outcome::Stalled { step, .. } | Outcome::Diverged { step } => *step <= end,
        Outcome::Trained { .. } => false,
    };
    Some(Record {
        steps: end,
        outcome: outcome.or_else(|| Some(record.outcome).filter(ended))?,
        curve,
        ..record.clone()
    })
}

/// The step of the evaluation next to a time; that time itself if none is near.
fn evaluated(record: &Record, step: u64, rule: Evaluation) -> u64 {
    let near = record.steps / (2 * u64::from(rule.count));
    let steps = record.curve.iter().map(|point| point.step);
    steps
        .min_by_key(|other| other.abs_diff(step))
        .filter(|other| other.abs_diff(step) <= near)
        .unwrap_or(step)
}

#[cfg(test)]
mod tests {
    use super::*;
    use spec::{BatchSize, CurvePoint, LearningRate, RunId, Width};

    /// A run of 10 steps with evaluations after 3, 5, 8 and 10: ⌈i·10/4⌉.
    fn record(outcome: Outcome, accuracies: &[f64]) -> Record {
        let points = [3, 5, 8, 10].into_iter().zip(accuracies);
        Record {
            run: RunId::try_from("0123456789abcdef".repeat(2)).unwrap(),
            width: Width::new(8).unwrap(),
            batch_size: BatchSize::new(4).unwrap(),
            learning_rate: LearningRate::new(1.0).unwrap(),
            seed: 0,
            steps: 10,
            outcome,
            curve: points
                .map(|(step, accuracy)| CurvePoint {
                    step,
                    training_loss: None,
                    test_accuracy: *accuracy,
                    validation_accuracy: *accuracy,
                })
                .collect(),
            seconds: 1.0,
            device: "cpu".into(),
        }
    }

    const RULE: Evaluation = Evaluation {
        count: 4,
        stall_accuracy: 0.2,
        stall_after: 0.35,
    };

    const TRAINED: Outcome = Outcome::Trained { test_accuracy: 0.9 };

    #[test]
    fn a_run_ends_at_its_evaluation() {
        let whole = record(TRAINED, &[0.5, 0.6, 0.8, 0.9]);
        let half = cut_off(&whole, 2, RULE).unwrap();
        assert_eq!(half.steps, 5);
        assert_eq!(half.outcome, Outcome::Trained { test_accuracy: 0.6 });
        assert_eq!(half.curve.len(), 2);
        assert_eq!(cut_off(&whole, 4, RULE), Some(whole));
    }

    #[test]
    fn a_shorter_run_is_given_up_sooner() {
        // 3 of 10 steps are less than 35 %, 3 of 8 more.
        let whole = record(TRAINED, &[0.1, 0.6, 0.8, 0.9]);
        assert_eq!(cut_off(&whole, 4, RULE), Some(whole.clone()));
        for which in [1, 3] {
            let cut = cut_off(&whole, which, RULE).unwrap();
            let stalled = Outcome::Stalled {
                step: 3,
                test_accuracy: 0.1,
            };
            assert_eq!(cut.outcome, stalled);
            assert_eq!(cut.curve.len(), 1);
        }
    }

    #[test]
    fn what_happens_later_has_not_happened_yet() {
        let diverged = record(Outcome::Diverged { step: 7 }, &[0.5, 0.6]);
        let before = cut_off(&diverged, 2, RULE).unwrap();
        assert_eq!(before.outcome, Outcome::Trained { test_accuracy: 0.6 });
        let after = cut_off(&diverged, 3, RULE).unwrap();
        assert_eq!(after.outcome, diverged.outcome);
    }

    #[test]
    fn a_run_without_that_evaluation_has_no_end_there() {
        let whole = record(TRAINED, &[0.5, 0.6, 0.8, 0.9]);
        let mut sparse = whole.clone();
        sparse.curve.remove(1);
        assert_eq!(cut_off(&sparse, 2, RULE), None);
        assert_eq!(all_cut_off(&[&whole, &sparse], 2, RULE), None);
        assert_eq!(shares_of_all(&[&whole, &sparse], RULE), [0.25, 0.75, 1.0]);
    }

    #[test]
    fn an_evaluation_nearby_will_do() {
        // ⌊i·10/4⌋, as somebody else may count: 2, 5, 7, 10.
        let mut other = record(TRAINED, &[0.5, 0.6, 0.8, 0.9]);
        (other.curve[0].step, other.curve[2].step) = (2, 7);
        let cut = cut_off(&other, 3, RULE).unwrap();
        assert_eq!(cut.steps, 7);
        assert_eq!(cut.outcome, Outcome::Trained { test_accuracy: 0.8 });
    }

    #[test]
    fn shares_are_evaluations() {
        assert_eq!(evaluation_at(0.05, 20), Ok(1));
        assert_eq!(evaluation_at(0.15, 20), Ok(3));
        assert_eq!(evaluation_at(1.0, 20), Ok(20));
        for share in [0.0, 0.33, -0.5, 1.05, f64::NAN, f64::INFINITY] {
            assert!(evaluation_at(share, 20).is_err(), "{share}");
        }
    }
}
