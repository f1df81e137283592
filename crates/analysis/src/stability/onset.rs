//! The onset of failure along ascending learning rates: ε_safe and ε_half.

use std::iter;

/// A learning rate and how many of its runs failed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Count {
    /// ε.
    pub rate: f64,
    /// Runs that failed.
    pub failed: u32,
    /// All that are recorded, at least one.
    pub runs: u32,
}

impl Count {
    fn share(self) -> f64 {
        f64::from(self.failed) / f64::from(self.runs)
    }
}

/// Where the share of failures reaches ½.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Crossing {
    /// Between two ε.
    At {
        /// ε, interpolated.
        rate: f64,
        /// ln of the upper ε over the lower.
        step: f64,
    },
    /// Above the largest ε.
    AboveGrid,
    /// At or below the smallest ε.
    BelowGrid,
    /// Nothing is recorded.
    Unmeasured,
}

/// The points from the first one of the lowest failure share upwards.
fn from_lowest(counts: &[Count]) -> &[Count] {
    let shares = counts.iter().map(|c| c.share());
    let lowest = shares.fold(f64::INFINITY, f64::min);
    let start = counts.iter().position(|c| c.share() <= lowest);
    &counts[start.unwrap_or(counts.len())..]
}

/// The likeliest shares that nowhere fall from one point to the next: neighbours that do are pooled
/// (Ayer et al. 1955). The first point that reaches ½ by chance so does not decide alone.
fn never_falling(counts: &[Count]) -> Vec<f64> {
    let mut pools: Vec<(Count, usize)> = Vec::new();
    for &count in counts {
        let (mut pool, mut points) = (count, 1);
        while let Some((below, more)) = pools.pop_if(|(below, _)| below.share() > pool.share()) {
            pool.failed += below.failed;
            pool.runs += below.runs;
            points += more;
        }
        pools.push((pool, points));
    }
    let shares = (pools.iter()).map(|(pool, points)| iter::repeat_n(pool.share(), *points));
    shares.flatten().collect()
}

/// ε_safe.
pub fn safe(counts: &[Count]) -> Option<f64> {
    let clean = from_lowest(counts).iter().take_while(|c| c.failed == 0);
    clean.last().map(|c| c.rate)
}

/// ε_half.
pub fn crossing(counts: &[Count]) -> Crossing {
    let rising = from_lowest(counts);
    let shares = never_falling(rising);
    match shares.first() {
        None => return Crossing::Unmeasured,
        Some(&first) if first >= 0.5 => return Crossing::BelowGrid,
        Some(_) => {}
    }
    let Some(above) = shares.iter().position(|&share| share >= 0.5) else {
        return Crossing::AboveGrid;
    };
    let below = above - 1;
    let part = (0.5 - shares[below]) / (shares[above] - shares[below]);
    let step = (rising[above].rate / rising[below].rate).ln();
    Crossing::At {
        rate: rising[below].rate * (part * step).exp(),
        step,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resample::Random;

    /// Of each rate: so many of so many runs failed.
    fn counts(rates: &[(f64, u32, u32)]) -> Vec<Count> {
        let count = |&(rate, failed, runs): &(f64, u32, u32)| Count { rate, failed, runs };
        rates.iter().map(count).collect()
    }

    /// Checks that half fail at this rate, and returns the step of the grid there.
    fn assert_half_fail_at(expected: f64, scan: &[Count]) -> f64 {
        let Crossing::At { rate, step } = crossing(scan) else {
            panic!("half fail nowhere in {scan:?}")
        };
        assert!((rate - expected).abs() < 1e-12, "{rate}");
        step
    }

    #[test]
    fn limits_by_hand() {
        // Between ε = 4 (1 of 4) and ε = 16 (3 of 4) half fail midway in ln ε: at 8.
        let scan = counts(&[
            (1.0, 0, 4),
            (2.0, 0, 4),
            (4.0, 1, 4),
            (16.0, 3, 4),
            (32.0, 4, 4),
        ]);
        assert_eq!(safe(&scan), Some(2.0));
        let step = assert_half_fail_at(8.0, &scan);
        assert!((step - 4.0_f64.ln()).abs() < 1e-12);
    }

    #[test]
    fn stalls_for_want_of_time_are_not_the_limit() {
        let scan = counts(&[(0.1, 4, 4), (1.0, 0, 4), (2.0, 0, 4), (4.0, 4, 4)]);
        assert_eq!(safe(&scan), Some(2.0));
        // From (2, 0) to (4, 1) the middle in ln ε is √8.
        assert_half_fail_at(8.0_f64.sqrt(), &scan);
    }

    #[test]
    fn neighbours_whose_share_falls_are_pooled() {
        // 10 of 20 and then 3 of 10 are 13 of 30 at both; from there to 17 of 30 it is half the way
        // to ½ in ln ε: from 4 to 16, at 8.
        let scan = counts(&[(1.0, 0, 20), (2.0, 10, 20), (4.0, 3, 10), (16.0, 17, 30)]);
        assert_half_fail_at(8.0, &scan);
        // 3 of 4, 2 of 4 and 0 of 4 are 5 of 12 at all three: the last joins both before it.
        let scan = counts(&[
            (1.0, 0, 4),
            (2.0, 3, 4),
            (3.0, 2, 4),
            (4.0, 0, 4),
            (16.0, 7, 12),
        ]);
        assert_half_fail_at(8.0, &scan);
    }

    #[test]
    fn chance_moves_the_limit_to_neither_side() {
        // Half fail at ε = 1 and the share is a logistic in 2·ln ε; rates in steps of √2, 10 runs each. The
        // first crossing of the shares as they are would be 9 % too low on average.
        let mut random = Random::stream(1, 0);
        let mut scan = || {
            let offset = random.uniform();
            let rates =
                (0..24).map(|i| ((f64::from(i) - 12.0 + offset) * 0.5 * 2.0_f64.ln()).exp());
            let counts = rates.map(|rate| {
                let share = 1.0 / (1.0 + rate.powi(-2));
                let failed = (0..10).filter(|_| random.uniform() < share).count();
                Count {
                    rate,
                    failed: failed as u32,
                    runs: 10,
                }
            });
            let counts: Vec<Count> = counts.collect();
            crossing(&counts)
        };
        let found: Vec<f64> = (0..4_000)
            .map(|_| match scan() {
                Crossing::At { rate, .. } => rate.ln(),
                elsewhere => panic!("{elsewhere:?}"),
            })
            .collect();
        let mean = found.iter().sum::<f64>() / found.len() as f64;
        assert!(mean.abs() < 0.04, "{mean}");
    }

    #[test]
    fn limits_outside_the_grid_say_so() {
        assert_eq!(
            crossing(&counts(&[(1.0, 0, 5), (2.0, 2, 5)])),
            Crossing::AboveGrid
        );
        // What is reached by chance and lost again is not reached.
        assert_eq!(
            crossing(&counts(&[(1.0, 0, 5), (2.0, 3, 5), (4.0, 1, 5)])),
            Crossing::AboveGrid
        );
        assert_eq!(
            crossing(&counts(&[(1.0, 3, 5), (2.0, 4, 5)])),
            Crossing::BelowGrid
        );
        assert_eq!(crossing(&[]), Crossing::Unmeasured);
        assert_eq!(safe(&counts(&[(1.0, 1, 10), (2.0, 4, 10)])), None);
    }
}
