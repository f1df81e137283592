//! Samples of trained accuracies, and how the runs of a point ended.
//!
//! Over the n trained runs of a point: μ = Σx/n, σ² = Σ(x − μ)²/(n − 1), and the
//! standard error σ/√n (section 3.1 of the paper). With one run σ is not defined and
//! says so; with none there is no sample.

use serde::Serialize;
use spec::{Outcome, Record};

/// Mean, spread and count of some values.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Sample {
    /// n.
    pub count: usize,
    /// μ.
    pub mean: f64,
    /// σ, over n − 1; `None` for a single value.
    pub deviation: Option<f64>,
    /// σ/√n; `None` for a single value.
    pub standard_error: Option<f64>,
}

impl Sample {
    /// The sample of these values; `None` if there are none.
    pub fn of(values: &[f64]) -> Option<Self> {
        if values.is_empty() {
            return None;
        }
        let count = values.len() as f64;
        let mean = values.iter().sum::<f64>() / count;
        let squares: f64 = values.iter().map(|x| (x - mean).powi(2)).sum();
        let deviation = (values.len() > 1).then(|| (squares / (count - 1.0)).sqrt());
        Some(Self {
            count: values.len(),
            mean,
            deviation,
            standard_error: deviation.map(|sigma| sigma / count.sqrt()),
        })
    }
}

/// How the runs of a point ended, and how many are still missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Tally {
    /// Runs that the study plans here, without those skipped.
    pub planned: u32,
    /// Runs that the adaptive rule does without.
    pub skipped: u32,
    /// Runs that have a record.
    pub recorded: u32,
    /// Recorded runs that trained.
    pub trained: u32,
    /// Recorded runs that stalled.
    pub stalled: u32,
    /// Recorded runs that diverged.
    pub diverged: u32,
}

impl Tally {
    /// Counts the outcomes of a point's records; of its seeds some are skipped.
    pub fn of<'a>(seeds: u32, skipped: u32, records: impl IntoIterator<Item = &'a Record>) -> Self {
        let mut tally = Self {
            planned: seeds.saturating_sub(skipped),
            skipped,
            ..Self::default()
        };
        for record in records {
            tally.recorded += 1;
            match record.outcome {
                Outcome::Trained { test_accuracy } if test_accuracy.is_finite() => {
                    tally.trained += 1;
                }
                Outcome::Stalled { .. } => tally.stalled += 1,
                // An accuracy that is no number is what divergence looks like from outside.
                Outcome::Diverged { .. } | Outcome::Trained { .. } => tally.diverged += 1,
            }
        }
        tally
    }

    /// Runs without a record.
    pub fn missing(self) -> u32 {
        self.planned.saturating_sub(self.recorded)
    }

    /// Fewer than 75 % of the planned runs trained: the paper had at least 15 of 20.
    pub fn few_trained(self) -> bool {
        u64::from(self.trained) * 4 < u64::from(self.planned) * 3
    }

    /// At least 75 % of the runs recorded so far trained, and at least one did.
    pub fn mostly_trains(self) -> bool {
        self.trained > 0 && u64::from(self.trained) * 4 >= u64::from(self.recorded) * 3
    }
}

/// The accuracy of a trained run; `None` for one that failed.
pub fn trained_accuracy(record: &Record) -> Option<f64> {
    record
        .outcome
        .trained()
        .filter(|accuracy| accuracy.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sample_by_hand() {
        // 1, 2, 4: μ = 7/3; Σ(x − μ)² = 16/9 + 1/9 + 25/9 = 42/9; σ² = 42/18 = 7/3;
        // σ/√3 = √(7/9) = √7/3.
        let sample = Sample::of(&[1.0, 2.0, 4.0]).unwrap();
        assert_eq!(sample.count, 3);
        assert!((sample.mean - 7.0 / 3.0).abs() < 1e-15);
        assert!((sample.deviation.unwrap() - (7.0_f64 / 3.0).sqrt()).abs() < 1e-15);
        assert!((sample.standard_error.unwrap() - 7.0_f64.sqrt() / 3.0).abs() < 1e-15);
    }

    #[test]
    fn one_value_has_no_deviation_and_none_no_sample() {
        let one = Sample::of(&[0.5]).unwrap();
        assert_eq!(
            (one.mean, one.deviation, one.standard_error),
            (0.5, None, None)
        );
        assert_eq!(Sample::of(&[]), None);
    }

    #[test]
    fn fifteen_of_twenty_are_enough() {
        let tally = |trained| Tally {
            planned: 20,
            skipped: 0,
            recorded: 20,
            trained,
            stalled: 20 - trained,
            diverged: 0,
        };
        assert!(!tally(15).few_trained() && tally(14).few_trained());
        assert!(tally(15).mostly_trains() && !tally(14).mostly_trains());
        assert_eq!(tally(15).missing(), 0);
    }
}
