//! Shares of runs with their Wilson intervals, which stay inside [0, 1] and are
//! sensible for 0 of n (Wilson 1927).

use crate::measure::Interval;
use serde::Serialize;

/// Two-sided 95 % point of the normal distribution.
const Z: f64 = 1.959_963_984_540_054;

/// A share of runs with its Wilson interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Rate {
    /// Runs counted.
    pub count: u32,
    /// Their share of the recorded runs.
    pub share: f64,
    /// Wilson 95 % interval.
    pub interval: Interval<f64>,
}

impl Rate {
    /// k of n, with (k + z²/2 ± z·√(k(n − k)/n + z²/4))/(n + z²); `None` if n = 0.
    pub fn of(count: u32, total: u32) -> Option<Self> {
        if total == 0 || count > total {
            return None;
        }
        let (k, n) = (f64::from(count), f64::from(total));
        let half = Z * (k * (n - k) / n + 0.25 * Z * Z).sqrt();
        let end = |sign: f64| ((k + 0.5 * Z * Z + sign * half) / (n + Z * Z)).clamp(0.0, 1.0);
        Some(Self {
            count,
            share: k / n,
            interval: Interval {
                low: end(-1.0),
                high: end(1.0),
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wilson_by_hand() {
        // 0 of 20: low 0, high z²/(n + z²) = 3.8415/23.8415 = 0.16113.
        let none = Rate::of(0, 20).unwrap();
        assert!(none.interval.low.abs() < 1e-12);
        assert!((none.interval.high - 0.161_13).abs() < 1e-5);
        // 10 of 20: ½ ± z√(5 + 0.9604)/23.8415 = ½ ± 1.95996 · 2.44138/23.8415 = ½ ± 0.20070.
        let half = Rate::of(10, 20).unwrap();
        assert!((half.interval.low - 0.299_30).abs() < 1e-5);
        assert!((half.interval.high - 0.700_70).abs() < 1e-5);
        assert_eq!(Rate::of(0, 0), None);
    }
}
