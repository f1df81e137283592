//! Late time: whether the validation accuracy of a point has settled.
//!
//! The law is about late times, "sufficiently long for the validation accuracy to
//! equilibrate" (section 2.2 of the paper). For every trained run a least-squares
//! line goes through its last five validation accuracies; its *rise* is the slope
//! times the steps between the first and the last of the five. Over the n runs of a
//! point the rises have mean r̄ and standard error s/√n, and the point is *still
//! rising* where r̄/(s/√n) exceeds the upper 1 % point of Student's t with n − 1
//! degrees of freedom, and *falling* where it lies below the lower one. Testing between
//! runs, not within one, needs no assumption on how the evaluations of one run depend on
//! each other. Expect about two settled points in a hundred to be flagged by chance.

use crate::distribution::student_upper;
use crate::sample::{Sample, trained_accuracy};
use serde::Serialize;
use spec::{CurvePoint, LATE_EVALUATIONS, Record};

/// Evaluations at the end of a run that are looked at.
pub const WINDOW: usize = LATE_EVALUATIONS;
/// Probability that a point whose accuracy has settled is flagged as rising, and as falling.
pub const LEVEL: f64 = 0.01;

/// Whether validation accuracy has settled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum LateState {
    /// No significant rise or fall at the end of training.
    Settled,
    /// Validation accuracy still rises: not at late time.
    StillRising,
    /// It falls: networks get worse as they are trained.
    Falling,
    /// Fewer than two trained runs with five evaluations each.
    Unknown,
}

/// The verdict on a point, with what it rests on.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Late {
    /// The verdict.
    pub state: LateState,
    /// Rise of validation accuracy over the last five evaluations, over the runs.
    pub rise: Option<Sample>,
}

impl Late {
    /// The verdict on the trained runs among these records.
    pub fn of<'a>(records: impl IntoIterator<Item = &'a Record>) -> Self {
        let rises: Vec<f64> = records
            .into_iter()
            .filter(|record| trained_accuracy(record).is_some())
            .filter_map(|record| rise(&record.curve))
            .collect();
        let rise = Sample::of(&rises);
        Self {
            state: rise.map_or(LateState::Unknown, state),
            rise,
        }
    }
}

/// The verdict on several points together: rising if any is, else falling, else unknown if any is.
pub fn together(states: impl IntoIterator<Item = LateState>) -> LateState {
    states
        .into_iter()
        .max_by_key(|state| match state {
            LateState::Settled => 0,
            LateState::Unknown => 1,
            LateState::Falling => 2,
            LateState::StillRising => 3,
        })
        .unwrap_or(LateState::Unknown)
}

fn state(rise: Sample) -> LateState {
    match rise.standard_error {
        None => LateState::Unknown,
        Some(error) => {
            let critical = student_upper(LEVEL, (rise.count - 1) as f64) * error;
            if rise.mean > critical {
                LateState::StillRising
            } else if rise.mean < -critical {
                LateState::Falling
            } else {
                LateState::Settled
            }
        }
    }
}

/// Slope of the line through the last five validation accuracies times the steps they span.
fn rise(curve: &[CurvePoint]) -> Option<f64> {
    let late = &curve[curve.len().checked_sub(WINDOW)?..];
    // Rounding would give a constant a rise of 10⁻³¹, the same for every run and so significant.
    let constant = |pair: &[CurvePoint]| pair[0].validation_accuracy == pair[1].validation_accuracy;
    if late.windows(2).all(constant) {
        return Some(0.0);
    }
    let steps = |point: &CurvePoint| point.step as f64;
    let count = WINDOW as f64;
    let mean_step = late.iter().map(steps).sum::<f64>() / count;
    let mean = late.iter().map(|p| p.validation_accuracy).sum::<f64>() / count;
    let squares: f64 = late.iter().map(|p| (steps(p) - mean_step).powi(2)).sum();
    let products: f64 = late
        .iter()
        .map(|p| (steps(p) - mean_step) * (p.validation_accuracy - mean))
        .sum();
    let span = steps(late.last()?) - steps(late.first()?);
    let rise = products / squares * span;
    rise.is_finite().then_some(rise)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn curve(accuracies: [f64; 6]) -> Vec<CurvePoint> {
        let point = |(at, validation_accuracy): (usize, &f64)| CurvePoint {
            step: 10 * (at as u64 + 1),
            training_loss: Some(0.1),
            test_accuracy: 0.9,
            validation_accuracy: *validation_accuracy,
        };
        accuracies.iter().enumerate().map(point).collect()
    }

    #[test]
    fn what_does_not_move_does_not_rise() {
        // 0.94 five times, whose mean is not 0.94 to the last bit.
        let mut constant = curve([0.5, 0.94, 0.94, 0.94, 0.94, 0.94]);
        for (at, point) in constant.iter_mut().enumerate() {
            point.step = 7 * (at as u64 + 1) + at as u64 % 2;
        }
        assert_eq!(rise(&constant), Some(0.0));
    }

    #[test]
    fn rise_by_hand() {
        // The first value is outside the window. Steps 20 … 60 about 40: −20, −10, 0, 10, 20;
        // Σ step·y = −20·0.1 − 10·0.3 + 10·0.5 + 20·0.4 = 8; Σ step² = 1000; slope 0.008;
        // times the span of 40 steps: 0.32.
        let rise = rise(&curve([0.9, 0.1, 0.3, 0.2, 0.5, 0.4])).unwrap();
        assert!((rise - 0.32).abs() < 1e-12);
    }

    #[test]
    fn significance_by_hand() {
        // Rises 1, 2, 3: mean 2, error 1/√3 = 0.577, t = 3.46; the 1 % point with two
        // degrees of freedom is 6.965: not significant.
        assert_eq!(
            state(Sample::of(&[1.0, 2.0, 3.0]).unwrap()),
            LateState::Settled
        );
        // Rises 2, 2.1, 2.2: mean 2.1, error 0.1/√3 = 0.0577, t = 36.4.
        assert_eq!(
            state(Sample::of(&[2.0, 2.1, 2.2]).unwrap()),
            LateState::StillRising
        );
        // The same downwards, and with two runs: mean −2.05, error 0.05, t = −41, where the
        // 1 % point with one degree of freedom is 31.82.
        assert_eq!(
            state(Sample::of(&[-2.0, -2.1, -2.2]).unwrap()),
            LateState::Falling
        );
        assert_eq!(
            state(Sample::of(&[-2.0, -2.1]).unwrap()),
            LateState::Falling
        );
        assert_eq!(
            state(Sample::of(&[-1.0, -2.0, -3.0]).unwrap()),
            LateState::Settled
        );
        assert_eq!(state(Sample::of(&[2.0]).unwrap()), LateState::Unknown);
    }

    #[test]
    fn too_few_evaluations_are_unknown() {
        assert_eq!(rise(&curve([0.1; 6])[..4]), None);
        assert_eq!(Late::of([]).state, LateState::Unknown);
    }

    #[test]
    fn the_worst_of_several() {
        use LateState::{Falling, Settled, StillRising, Unknown};
        assert_eq!(together([Settled, Unknown]), Unknown);
        assert_eq!(together([Settled, StillRising, Falling]), StillRising);
        assert_eq!(together([Falling, Unknown]), Falling);
        assert_eq!(together([Settled]), Settled);
        assert_eq!(together([]), Unknown);
    }
}
