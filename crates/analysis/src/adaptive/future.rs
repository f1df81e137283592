//! What the full study may find at a point, drawn given the seeds it has.
//!
//! With the reference prior 1/σ² and k ≥ 2 accuracies of mean x and sum of squares Q
//! about it, σ² = Q/χ²(k − 1), and the mean of the j accuracies to come is normal about
//! x with variance σ²(1/k + 1/j) (Gelman et al., *Bayesian Data Analysis*, section 3.2).
//! Means and sums of squares then add up to those of all n = k + j runs.

use super::{Progress, Rule, count};
use crate::resample::Random;
use crate::sample::Sample;

/// Accuracies that happen to coincide say little about σ: it is taken to be at least
/// this share of the median deviation of the scan.
const LEAST_DEVIATION: f64 = 0.25;

/// What is known of a point.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Known {
    /// At least two runs trained.
    Sampled(Sampled),
    /// Fewer than two runs trained: anything can come.
    Open,
    /// So many runs failed that fewer than 75 % of the seeds can train.
    Failing,
}

/// Trained runs so far, and how many will be.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sampled {
    trained: u32,
    /// Runs to come that will train, if they fail as often as those before.
    to_come: u32,
    mean: f64,
    squares: f64,
}

/// One draw of a point's full study.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Future {
    /// μ over all runs.
    pub mean: f64,
    /// σ² of the draw, for the spread of the runs to come.
    variance: f64,
    /// Mean of the runs to come.
    rest: f64,
}

impl Sampled {
    /// Draws the mean of the full study.
    pub fn draw(&self, random: &mut Random) -> Future {
        if self.to_come == 0 {
            return Future {
                mean: self.mean,
                variance: 0.0,
                rest: self.mean,
            };
        }
        let [k, j] = [self.trained, self.to_come].map(f64::from);
        let variance = self.squares / random.chi_squared(self.trained - 1);
        let rest = self.mean + (variance * (1.0 / k + 1.0 / j)).sqrt() * random.normal();
        Future {
            mean: (k * self.mean + j * rest) / (k + j),
            variance,
            rest,
        }
    }

    /// Draws μ − 2σ/√n of the full study, given its mean.
    pub fn threshold(&self, future: Future, random: &mut Random) -> f64 {
        let [k, j] = [self.trained, self.to_come].map(f64::from);
        let inner = match self.to_come {
            0 => 0.0,
            some => future.variance * random.chi_squared(some - 1),
        };
        let between = k * j / (k + j) * (self.mean - future.rest).powi(2);
        let squares = self.squares + inner + between;
        future.mean - 2.0 * (squares / ((k + j - 1.0) * (k + j))).sqrt()
    }
}

/// What is known of every point, each judged on the seeds up to its look.
pub fn known(rule: &Rule, points: &[Progress], looks: &[u32]) -> Vec<Known> {
    let seen = |(point, look): (&Progress, &u32)| {
        let outcomes = &point.outcomes[..(*look as usize).min(point.outcomes.len())];
        let trained: Vec<f64> = outcomes.iter().flatten().copied().collect();
        let failed = count(outcomes) - count(&trained);
        (Sample::of(&trained), failed)
    };
    let samples: Vec<(Option<Sample>, u32)> = points.iter().zip(looks).map(seen).collect();
    let least = LEAST_DEVIATION * median_deviation(&samples);
    samples
        .iter()
        .map(|(sample, failed)| {
            if *failed >= rule.too_many_failures() {
                return Known::Failing;
            }
            match sample.and_then(|s| s.deviation.map(|d| (s, d))) {
                Some((sample, deviation)) => {
                    Known::Sampled(sampled(rule, sample, deviation.max(least), *failed))
                }
                None => Known::Open,
            }
        })
        .collect()
}

fn sampled(rule: &Rule, sample: Sample, deviation: f64, failed: u32) -> Sampled {
    let trained = u32::try_from(sample.count).unwrap_or(u32::MAX);
    let left = rule.seeds.saturating_sub(trained.saturating_add(failed));
    let training = f64::from(trained) / (f64::from(trained) + f64::from(failed));
    Sampled {
        trained,
        to_come: (f64::from(left) * training).round() as u32,
        mean: sample.mean,
        squares: deviation.powi(2) * (sample.count as f64 - 1.0),
    }
}

fn median_deviation(samples: &[(Option<Sample>, u32)]) -> f64 {
    let mut deviations: Vec<f64> = (samples.iter())
        .filter_map(|(sample, _)| sample.and_then(|s| s.deviation))
        .filter(|deviation| *deviation > 0.0)
        .collect();
    deviations.sort_by(f64::total_cmp);
    deviations.get(deviations.len() / 2).copied().unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn progress(outcomes: &[Option<f64>]) -> Progress {
        Progress {
            outcomes: outcomes.to_vec(),
        }
    }

    #[test]
    fn a_complete_point_has_one_future() {
        // 0.8, 0.9, 1.0, 0.9: mean 0.9, Q = 0.02, σ² = 0.02/3, threshold
        // 0.9 − 2·√(0.02/3/4) = 0.9 − 2 · 0.040825 = 0.818350.
        let rule = Rule {
            seeds: 4,
            first: 2,
            step: 1,
        };
        let point = progress(&[Some(0.8), Some(0.9), Some(1.0), Some(0.9)]);
        let all = known(&rule, &[point], &[4]);
        let Known::Sampled(sampled) = all[0] else {
            panic!("four runs trained")
        };
        let mut random = Random::stream(1, 1);
        let future = sampled.draw(&mut random);
        assert!((future.mean - 0.9).abs() < 1e-12);
        assert!((sampled.threshold(future, &mut random) - 0.818_350).abs() < 1e-6);
    }

    #[test]
    fn draws_have_the_spread_of_the_theory() {
        // k = 8 of n = 20 with σ² estimated: (x_n − x_k)/(s·√(1/8 − 1/20)) is Student's t
        // with 7 degrees of freedom, of variance 7/5. Eight values of deviation s:
        // the draws' variance is 1.4 · 0.075 · s² = 0.105·s².
        let rule = Rule {
            seeds: 20,
            first: 8,
            step: 4,
        };
        let values: Vec<Option<f64>> = (0..8).map(|i| Some(0.5 + 0.01 * f64::from(i))).collect();
        // Σ(i − 3.5)² = 42, so s² = 42e-4/7 = 6e-4.
        let all = known(&rule, &[progress(&values)], &[8]);
        let Known::Sampled(sampled) = all[0] else {
            panic!("eight runs trained")
        };
        let mut random = Random::stream(1, 1);
        let draws: Vec<f64> = (0..40_000)
            .map(|_| sampled.draw(&mut random).mean)
            .collect();
        let sample = Sample::of(&draws).unwrap();
        assert!((sample.mean - 0.535).abs() < 3e-4);
        let variance = sample.deviation.unwrap().powi(2);
        assert!((variance / (0.105 * 6e-4) - 1.0).abs() < 0.1, "{variance}");
    }

    #[test]
    fn failures_are_seeds_spent() {
        // 3 of 4 trained, 16 seeds left: 12 of them are expected to train.
        let rule = Rule::usual(20);
        let three = progress(&[Some(0.9), None, Some(0.8), Some(0.85)]);
        let open = progress(&[Some(0.9), None, None, None]);
        let failing = progress(&[None; 8]);
        let all = known(&rule, &[three, open, failing], &[4, 4, 8]);
        assert!(matches!(all[0], Known::Sampled(s) if (s.trained, s.to_come) == (3, 12)));
        assert_eq!((all[1], all[2]), (Known::Open, Known::Failing));
    }

    #[test]
    fn coinciding_accuracies_still_have_a_spread() {
        let rule = Rule::usual(20);
        let same = progress(&[Some(0.9); 4]);
        let other = progress(&[Some(0.8), Some(0.9), Some(0.8), Some(0.9)]);
        let all = known(&rule, &[same, other], &[4, 4]);
        // The only positive deviation is √(0.01/3); a quarter of it squared, times 3.
        let expected = 0.01 / 16.0;
        assert!(matches!(all[0], Known::Sampled(s) if (s.squares - expected).abs() < 1e-12));
    }
}
