//! The bootstrap: random resamples, and percentile intervals of what they give.
//!
//! Runs are drawn with replacement within every point, and the whole procedure is
//! redone (Efron & Tibshirani, *An Introduction to the Bootstrap*, chapter 13). A
//! failed run is drawn like any other, so the number of trained runs varies too.
//!
//! Seeds are not all that is uncertain: an optimum is only looked for on a grid, and
//! with a sharp peak every resample finds the same point, as if it were known exactly.
//! So each resample's best interval is also moved by u steps of its grid, u uniform in
//! [−½, ½] and steps taken in ln ([`Resolution::SeedsAndGrid`], the default).
//!
//! The generator is SplitMix64 (Steele, Lea & Flood 2014): 64 bits of state, one
//! multiply-xorshift chain per number, ample for drawing indices, and the same
//! everywhere. Each scan has a stream of its own, so adding a width to a study does
//! not move the intervals of the others.

use crate::measure::Interval;
use crate::optimum::{BestInterval, best_interval};
use crate::sample::Sample;
use serde::Serialize;

/// A percentile interval of bootstrap resamples.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Confidence {
    /// The two percentiles.
    pub interval: Interval<f64>,
    /// Share of the resamples between them, e.g. 0.95.
    pub level: f64,
    /// Resamples that gave a value.
    pub resamples: usize,
}

impl Confidence {
    /// The middle `level` of the values; `None` if there are none.
    pub fn of(mut values: Vec<f64>, level: f64) -> Option<Self> {
        values.retain(|value| value.is_finite());
        values.sort_by(f64::total_cmp);
        let tail = 0.5 * (1.0 - level);
        Some(Self {
            interval: Interval {
                low: percentile(&values, tail)?,
                high: percentile(&values, 1.0 - tail)?,
            },
            level,
            resamples: values.len(),
        })
    }
}

/// The value below which a share of ascending values lies, interpolated between the
/// ranks 0 … n−1 (type 7 of Hyndman & Fan).
fn percentile(ascending: &[f64], share: f64) -> Option<f64> {
    let rank = share.clamp(0.0, 1.0) * ascending.len().checked_sub(1)? as f64;
    let below = ascending.get(rank.floor() as usize)?;
    let above = ascending.get(rank.ceil() as usize)?;
    Some(below + (above - below) * rank.fract())
}

/// SplitMix64.
#[derive(Debug, Clone)]
pub struct Random {
    state: u64,
}

impl Random {
    /// The stream of a seed and a key, e.g. a width.
    pub fn stream(seed: u64, key: u64) -> Self {
        let mut keyed = Self { state: key };
        Self {
            state: seed ^ keyed.next(),
        }
    }

    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// An index below `count`, by multiply and shift: the bias is count/2⁶⁴.
    pub fn index(&mut self, count: usize) -> usize {
        ((u128::from(self.next()) * count as u128) >> 64) as usize
    }

    /// Uniform in (0, 1): the upper 53 bits, at the middle of their step.
    pub fn uniform(&mut self) -> f64 {
        ((self.next() >> 11) as f64 + 0.5) / (1_u64 << 53) as f64
    }

    /// Standard normal, by Box and Muller's transform.
    pub fn normal(&mut self) -> f64 {
        let radius = (-2.0 * self.uniform().ln()).sqrt();
        radius * (std::f64::consts::TAU * self.uniform()).cos()
    }

    /// χ² with so many degrees of freedom: −2·ln of a uniform for every two of them,
    /// and a squared normal for an odd one.
    pub fn chi_squared(&mut self, degrees: u32) -> f64 {
        // One logarithm for many uniforms, taken before their product underflows.
        let (mut logarithm, mut product) = (0.0, 1.0);
        for _ in 0..degrees / 2 {
            product *= self.uniform();
            if product < 1e-200 {
                logarithm += f64::ln(product);
                product = 1.0;
            }
        }
        let odd = if degrees % 2 == 1 { self.normal() } else { 0.0 };
        odd * odd - 2.0 * (logarithm + product.ln())
    }
}

/// One point of a scan as the bootstrap sees it.
#[derive(Debug, Clone, PartialEq)]
pub struct ScanPoint {
    /// The accuracy of each recorded run, by seed; `None` for one that failed.
    pub accuracies: Vec<Option<f64>>,
    /// The value of the measure here.
    pub coordinate: f64,
}

impl ScanPoint {
    /// The sample of its trained runs.
    pub fn sample(&self) -> Option<Sample> {
        let trained: Vec<f64> = self.accuracies.iter().flatten().copied().collect();
        Sample::of(&trained)
    }
}

/// What the intervals account for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Resolution {
    /// The scatter of seeds alone.
    Seeds,
    /// The scatter of seeds, and that the grid has steps.
    SeedsAndGrid,
}

/// The optimum of every resample of one scan.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Replicates {
    /// Mean of the two ends of the best interval; `None` where no run of the
    /// resample trained.
    pub values: Vec<Option<f64>>,
    /// Resamples whose interval is not bracketed: it touches an end of the grid, or a point without records.
    pub open: usize,
}

/// Resamples the runs of every point of a scan and redoes the optimum.
pub fn replicate(
    scan: &[ScanPoint],
    resamples: usize,
    resolution: Resolution,
    random: &mut Random,
) -> Replicates {
    let mut drawn: Vec<f64> = Vec::new();
    let mut samples: Vec<Option<Sample>> = Vec::with_capacity(scan.len());
    let mut replicates = Replicates::default();
    for _ in 0..resamples {
        samples.clear();
        for point in scan {
            let runs = &point.accuracies;
            drawn.clear();
            drawn.extend((0..runs.len()).filter_map(|_| runs[random.index(runs.len())]));
            samples.push(Sample::of(&drawn));
        }
        // Drawn in any case, so that both resolutions see the same resamples.
        let offset = random.uniform() - 0.5;
        let steps = match resolution {
            Resolution::Seeds => 0.0,
            Resolution::SeedsAndGrid => offset,
        };
        let best = best_interval(&samples);
        if best.is_some_and(|best| is_open(scan, best)) {
            replicates.open += 1;
        }
        let end = |at: usize| moved(scan, at, steps);
        let value = best.map(|best| 0.5 * (end(best.first) + end(best.last)));
        replicates.values.push(value);
    }
    replicates
}

/// Whether nothing was measured on one side of an interval.
fn is_open(scan: &[ScanPoint], best: BestInterval) -> bool {
    let measured = |at: Option<usize>| {
        at.and_then(|at| scan.get(at))
            .is_some_and(|point| !point.accuracies.is_empty())
    };
    !measured(best.first.checked_sub(1)) || !measured(best.last.checked_add(1))
}

/// The coordinate of a point, moved by a part of the step to its neighbour; where it
/// has none on that side, by as much of the step on the other.
fn moved(scan: &[ScanPoint], at: usize, steps: f64) -> f64 {
    let here = scan[at].coordinate;
    let neighbour = |at: Option<usize>| at.and_then(|at| scan.get(at)).map(|p| p.coordinate);
    let (before, after) = (neighbour(at.checked_sub(1)), neighbour(at.checked_add(1)));
    let forward = after.map(|after| (after / here).ln());
    let backward = before.map(|before| (here / before).ln());
    let step = if steps < 0.0 {
        backward.or(forward)
    } else {
        forward.or(backward)
    };
    here * (steps * step.unwrap_or(0.0)).exp()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_by_hand() {
        // 0, 1, …, 40: the 2.5 % rank is 0.025 · 40 = 1, the 97.5 % rank 39.
        let values = (0..=40).rev().map(f64::from).collect();
        let confidence = Confidence::of(values, 0.95).unwrap();
        assert!((confidence.interval.low - 1.0).abs() < 1e-12);
        assert!((confidence.interval.high - 39.0).abs() < 1e-12);
        // 1, 2: rank 0.025 · 1, so 1.025 and 1.975.
        let confidence = Confidence::of(vec![1.0, 2.0], 0.95).unwrap();
        assert!((confidence.interval.low - 1.025).abs() < 1e-12);
        assert_eq!(Confidence::of(Vec::new(), 0.95), None);
    }

    #[test]
    fn the_generator_is_splitmix64() {
        // The first outputs for seed 1234567 in the reference implementation.
        let mut random = Random { state: 1_234_567 };
        assert_eq!(random.next(), 6_457_827_717_110_365_317);
        assert_eq!(random.next(), 3_203_168_211_198_807_973);
    }

    #[test]
    fn indices_are_even() {
        let mut random = Random::stream(1, 2);
        let mut counts = [0; 5];
        for _ in 0..50_000 {
            counts[random.index(5)] += 1;
        }
        // 10000 each, with a deviation of √(50000 · 0.2 · 0.8) = 89: within five of them.
        assert!(
            counts
                .iter()
                .all(|count: &i32| (count - 10_000).abs() < 450)
        );
    }

    #[test]
    fn chi_squared_has_its_mean_and_variance() {
        // Mean ν and variance 2ν. Over 40000 draws with ν = 5 the mean scatters by
        // √(10/40000) = 0.016 and the variance by √((μ₄ − σ⁴)/n) ≈ 0.11 (μ₄ = 12ν(ν + 4) = 540).
        let mut random = Random::stream(3, 4);
        let draws: Vec<f64> = (0..40_000).map(|_| random.chi_squared(5)).collect();
        let sample = Sample::of(&draws).unwrap();
        assert!((sample.mean - 5.0).abs() < 0.08);
        assert!((sample.deviation.unwrap().powi(2) - 10.0).abs() < 0.5);
        assert_eq!(random.chi_squared(0), 0.0);
        // With very many the mean is still ν: 20000 ± √40000 = 200.
        assert!((random.chi_squared(20_000) - 20_000.0).abs() < 1000.0);
    }

    #[test]
    fn a_scan_without_spread_has_one_replicate() {
        let point = |accuracy, coordinate| ScanPoint {
            accuracies: vec![Some(accuracy); 4],
            coordinate,
        };
        let scan = [point(0.5, 1.0), point(0.9, 2.0), point(0.6, 3.0)];
        let draw = |resolution| replicate(&scan, 1000, resolution, &mut Random::stream(1, 1));
        let seeds = draw(Resolution::Seeds);
        assert_eq!(seeds.values, vec![Some(2.0); 1000]);
        assert_eq!(seeds.open, 0);
        // Half a step down from 2 is √(1·2), half a step up √(2·3).
        let grid = draw(Resolution::SeedsAndGrid);
        let values = || grid.values.iter().flatten();
        let least = values().copied().fold(f64::INFINITY, f64::min);
        let most = values().copied().fold(0.0, f64::max);
        assert!((least - 2.0_f64.sqrt()).abs() < 0.01 && least >= 2.0_f64.sqrt());
        assert!((most - 6.0_f64.sqrt()).abs() < 0.01 && most <= 6.0_f64.sqrt());
    }

    #[test]
    fn an_interval_beside_an_unmeasured_point_is_open() {
        let point = |accuracies: &[f64], coordinate| ScanPoint {
            accuracies: accuracies.iter().copied().map(Some).collect(),
            coordinate,
        };
        let scan = |first: &[f64]| {
            [
                point(first, 1.0),
                point(&[0.9; 4], 2.0),
                point(&[0.5; 4], 3.0),
            ]
        };
        let open = |first: &[f64]| {
            let random = &mut Random::stream(1, 1);
            replicate(&scan(first), 10, Resolution::Seeds, random).open
        };
        assert_eq!(open(&[0.5; 4]), 0);
        assert_eq!(open(&[]), 10);
    }

    #[test]
    fn steps_by_hand() {
        let point = |coordinate| ScanPoint {
            accuracies: Vec::new(),
            coordinate,
        };
        let scan = [point(1.0), point(4.0), point(64.0)];
        // Half the step from 4 to 64 is a factor of 4, to 1 a factor of 2; at the ends
        // the only step serves both sides.
        let cases = [
            (1, 0.5, 16.0),
            (1, -0.5, 2.0),
            (0, -0.5, 0.5),
            (2, 0.5, 256.0),
        ];
        for (at, steps, expected) in cases {
            assert!((moved(&scan, at, steps) - expected).abs() < 1e-9);
        }
        assert_eq!(moved(&scan[..1], 0, 0.5), 1.0);
    }
}
