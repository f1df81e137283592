//! How long a run trains, when it is looked at, and when it is given up
//! (sections 3.2 and B of the paper).

use crate::quantity::{BatchSize, LearningRate};
use crate::record::Outcome;
use serde::{Deserialize, Serialize};

/// Lower bounds on training time, in epochs and in steps.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct TimeBounds {
    /// E_min.
    pub epochs: f64,
    /// T_min.
    pub steps: u64,
}

impl TimeBounds {
    /// T = max(T_min, E_min·N/B), rounded up and at least one step.
    pub fn steps(self, examples: u32, batch: BatchSize) -> u64 {
        let by_epochs = self.epochs * f64::from(examples) / f64::from(batch.get());
        self.steps.max(by_epochs.ceil() as u64).max(1)
    }

    /// Both bounds times a factor; the steps are rounded up.
    pub fn scaled(self, factor: f64) -> Self {
        Self {
            epochs: self.epochs * factor,
            steps: (self.steps as f64 * factor).ceil() as u64,
        }
    }
}

/// T = max(T₀, T₀·ε₀/ε), rounded up: smaller rates train for longer.
pub fn steps_at_rate(reference_steps: u64, reference: LearningRate, lr: LearningRate) -> u64 {
    let stretched = reference_steps as f64 * reference.get() / lr.get();
    reference_steps.max(stretched.ceil() as u64)
}

/// More evaluations than any curve needs, and few enough to keep in a record.
pub const MOST_EVALUATIONS: u32 = 100_000;

/// When a run is evaluated and when it is given up.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Evaluation {
    /// How many evaluations, evenly spaced; the last is at the last step.
    pub count: u32,
    /// A run below this test accuracy has not trained.
    pub stall_accuracy: f64,
    /// Share of the steps after which a run below `stall_accuracy` is stopped.
    pub stall_after: f64,
}

impl Default for Evaluation {
    /// Twenty evaluations; stopped below 0.2 after 20 % of the steps.
    fn default() -> Self {
        Self {
            count: 20,
            stall_accuracy: 0.2,
            stall_after: 0.2,
        }
    }
}

impl Evaluation {
    /// The steps after which a run of `total` steps is evaluated: ⌈i·T/count⌉, each once.
    pub fn schedule(self, total: u64) -> Vec<u64> {
        match self.evaluations(total) {
            // More evaluations than steps: one after each.
            all if all == total => (1..=total).collect(),
            some => (1..=some).map(|i| self.schedule_step(total, i)).collect(),
        }
    }

    /// How many they are.
    pub fn evaluations(self, total: u64) -> u64 {
        u64::from(self.count.max(1)).min(total)
    }

    /// The step of the i-th of them, from 1 on.
    pub fn schedule_step(self, total: u64, i: u64) -> u64 {
        let count = u128::from(self.count.max(1));
        (u128::from(i) * u128::from(total)).div_ceil(count) as u64
    }

    /// Whether a run seen at `step` of `total` with this test accuracy is stopped there.
    pub fn stalls(self, step: u64, total: u64, test_accuracy: f64) -> bool {
        step as f64 > self.stall_after * total as f64 && test_accuracy < self.stall_accuracy
    }

    /// Whether a run of `total` steps ends at this evaluation, and how.
    pub fn judge(self, step: u64, total: u64, test_accuracy: f64) -> Option<Outcome> {
        let stalled = Outcome::Stalled {
            step,
            test_accuracy,
        };
        if self.stalls(step, total, test_accuracy) {
            return Some(stalled);
        }
        (step == total).then_some(match self.trained(test_accuracy) {
            true => Outcome::Trained { test_accuracy },
            false => stalled,
        })
    }

    /// Whether a run that ends with this test accuracy has trained.
    pub fn trained(self, test_accuracy: f64) -> bool {
        test_accuracy > self.stall_accuracy
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch(size: u32) -> BatchSize {
        BatchSize::new(size).unwrap()
    }

    fn rate(lr: f64) -> LearningRate {
        LearningRate::new(lr).unwrap()
    }

    #[test]
    fn batch_size_search_by_hand() {
        let bounds = TimeBounds {
            epochs: 120.0,
            steps: 80_000,
        };
        // 120 · 55000 / 16 = 412500; 120 · 55000 / 128 = 51562.5 < 80000.
        assert_eq!(bounds.steps(55_000, batch(16)), 412_500);
        assert_eq!(bounds.steps(55_000, batch(128)), 80_000);
        // 120 · 55000 / 7 = 942857.14…: rounded up.
        assert_eq!(bounds.steps(55_000, batch(7)), 942_858);
        // A quarter: 30 · 55000 / 16 = 103125 > 20000.
        assert_eq!(bounds.scaled(0.25).steps(55_000, batch(16)), 103_125);
    }

    #[test]
    fn learning_rate_search_by_hand() {
        // Above ε₀ the time stays; at ε₀/4 it is four times as long.
        assert_eq!(steps_at_rate(412_500, rate(10.0), rate(20.0)), 412_500);
        assert_eq!(steps_at_rate(412_500, rate(10.0), rate(2.5)), 1_650_000);
        assert_eq!(steps_at_rate(100, rate(1.0), rate(0.3)), 334);
    }

    #[test]
    fn evaluations_are_evenly_spaced_and_end_at_the_end() {
        let schedule = Evaluation::default().schedule(412_500);
        assert_eq!(schedule.len(), 20);
        assert_eq!((schedule[0], schedule[19]), (20_625, 412_500));
        assert_eq!(Evaluation::default().schedule(3), [1, 2, 3]);
        let each = Evaluation {
            count: u32::MAX,
            ..Evaluation::default()
        };
        assert_eq!(each.schedule(4), [1, 2, 3, 4]);
        assert_eq!(each.evaluations(4), 4);
        assert_eq!(
            Evaluation {
                count: 4,
                ..Default::default()
            }
            .schedule(10),
            [3, 5, 8, 10]
        );
    }

    #[test]
    fn failures_by_hand() {
        let rule = Evaluation::default();
        assert!(!rule.stalls(20, 100, 0.1)); // exactly 20 %: not yet beyond it
        assert!(rule.stalls(25, 100, 0.1));
        assert!(!rule.stalls(25, 100, 0.2)); // not below 0.2
        assert!(!rule.trained(0.2) && rule.trained(0.2001));
    }
}
