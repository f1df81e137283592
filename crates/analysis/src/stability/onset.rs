//! The onset of failure along ascending learning rates: ε_safe and ε_half.

/// A learning rate and the share of its runs that failed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Share {
    /// ε.
    pub rate: f64,
    /// Share of the runs that failed.
    pub failed: f64,
}

/// Where the share of failures first reaches ½.
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
fn from_lowest(shares: &[Share]) -> &[Share] {
    let lowest = shares
        .iter()
        .map(|s| s.failed)
        .fold(f64::INFINITY, f64::min);
    let start = shares.iter().position(|s| s.failed <= lowest);
    &shares[start.unwrap_or(shares.len())..]
}

/// ε_safe.
pub fn safe(shares: &[Share]) -> Option<f64> {
    let clean = from_lowest(shares).iter().take_while(|s| s.failed == 0.0);
    clean.last().map(|s| s.rate)
}

/// ε_half.
pub fn crossing(shares: &[Share]) -> Crossing {
    let rising = from_lowest(shares);
    match rising.first() {
        None => return Crossing::Unmeasured,
        Some(first) if first.failed >= 0.5 => return Crossing::BelowGrid,
        Some(_) => {}
    }
    let crossed = rising.windows(2).find(|pair| pair[1].failed >= 0.5);
    crossed.map_or(Crossing::AboveGrid, |pair| {
        let part = (0.5 - pair[0].failed) / (pair[1].failed - pair[0].failed);
        let step = (pair[1].rate / pair[0].rate).ln();
        Crossing::At {
            rate: pair[0].rate * (part * step).exp(),
            step,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shares(pairs: &[(f64, f64)]) -> Vec<Share> {
        let share = |(rate, failed): &(f64, f64)| Share {
            rate: *rate,
            failed: *failed,
        };
        pairs.iter().map(share).collect()
    }

    #[test]
    fn limits_by_hand() {
        // Between ε = 4 (0.25) and ε = 16 (0.75) half fail midway in ln ε: at 8.
        let scan = shares(&[
            (1.0, 0.0),
            (2.0, 0.0),
            (4.0, 0.25),
            (16.0, 0.75),
            (32.0, 1.0),
        ]);
        assert_eq!(safe(&scan), Some(2.0));
        let Crossing::At { rate, step } = crossing(&scan) else {
            panic!("crosses")
        };
        assert!((rate - 8.0).abs() < 1e-12);
        assert!((step - 4.0_f64.ln()).abs() < 1e-12);
    }

    #[test]
    fn stalls_for_want_of_time_are_not_the_limit() {
        let scan = shares(&[(0.1, 1.0), (1.0, 0.0), (2.0, 0.0), (4.0, 1.0)]);
        assert_eq!(safe(&scan), Some(2.0));
        // From (2, 0) to (4, 1) the middle in ln ε is √8.
        let Crossing::At { rate, .. } = crossing(&scan) else {
            panic!("crosses")
        };
        assert!((rate - 8.0_f64.sqrt()).abs() < 1e-12);
    }

    #[test]
    fn limits_outside_the_grid_say_so() {
        assert_eq!(
            crossing(&shares(&[(1.0, 0.0), (2.0, 0.4)])),
            Crossing::AboveGrid
        );
        assert_eq!(
            crossing(&shares(&[(1.0, 0.6), (2.0, 0.9)])),
            Crossing::BelowGrid
        );
        assert_eq!(crossing(&[]), Crossing::Unmeasured);
        assert_eq!(safe(&shares(&[(1.0, 0.1), (2.0, 0.4)])), None);
    }
}
