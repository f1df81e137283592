//! Stability: how often runs fail at each learning rate, and the largest rate that
//! still trains (section H of the paper's supplement).
//!
//! Two rates, each with its Wilson 95 % interval: *diverged*, the share ended by a
//! number that is not finite, which is the paper's failure rate; and *failed*, which
//! adds the stalled runs, because a ReLU network often dies quietly instead of
//! overflowing. Each has its limit. From the smallest ε of the lowest rate upwards:
//! ε_safe is the largest ε up to which that lowest rate is 0 and stays 0, and
//! ε_half is where the rate reaches ½, by linear interpolation in ln ε between the likeliest rates
//! that nowhere fall (isotonic regression). (Starting at the lowest rate, because a very small ε can
//! stall for want of time.)
//! Expected: ε_half ∝ w⁰ in the NTK scheme, w⁻¹ in the standard one, ε̄ constant in both.

mod onset;
mod rate;

pub use rate::Rate;

use crate::law::{Datum, Power};
use crate::measure::{Interval, Place, normalized_rate};
use crate::observation::{Observed, Scan};
use crate::resample::{Confidence, Random, Resolution};
use crate::sample::Tally;
use onset::{Count, Crossing, crossing, safe};
use serde::Serialize;
use spec::{BatchSize, LearningRate, NormalizedLearningRate, Setting, Width};

/// One learning rate of a stability scan.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct StabilityPoint {
    /// ε.
    pub learning_rate: LearningRate,
    /// ε̄.
    pub normalized_learning_rate: NormalizedLearningRate,
    /// How its runs ended.
    pub runs: Tally,
    /// Share that diverged; `None` without records.
    pub diverged: Option<Rate>,
    /// Share that diverged or stalled; `None` without records.
    pub failed: Option<Rate>,
}

/// A learning rate in both units.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct RateValue {
    /// ε.
    pub learning_rate: LearningRate,
    /// ε̄.
    pub normalized: NormalizedLearningRate,
}

/// Where half of the runs fail.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(tag = "state", rename_all = "kebab-case")]
pub enum Half {
    /// Between two scanned rates.
    At(RateValue),
    /// Above the largest scanned rate.
    AboveGrid,
    /// At or below the smallest scanned rate.
    BelowGrid,
    /// Nothing is recorded.
    Unmeasured,
}

/// The onset of failure at one width.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Limit {
    /// ε_safe: the largest scanned ε below the first failure; `None` if the lowest
    /// failure rate is not 0.
    pub safe: Option<RateValue>,
    /// ε_half.
    pub half: Half,
}

/// Stability of one width.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct WidthStability {
    /// w.
    pub width: Width,
    /// Ascending in ε.
    pub points: Vec<StabilityPoint>,
    /// Onset of divergence.
    pub divergence: Limit,
    /// Onset of failure of either kind.
    pub failure: Limit,
}

/// ε_half ∝ w^q, over the widths at which it was found.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LimitTrend {
    /// q for ε: 0 expected in the NTK scheme, −1 in the standard one.
    pub exponent: f64,
    /// Bootstrap interval of q.
    pub exponent_confidence: Option<Confidence>,
    /// Share of the resamples in which some ε_half lies beyond its grid, whose end is then taken.
    pub resamples_at_grid_end: f64,
    /// q for ε̄: 0 expected in both.
    pub normalized_exponent: f64,
    /// The widths, ascending.
    pub widths: Vec<Width>,
}

impl LimitTrend {
    /// The interval of q for ε̄: that for ε, moved as q is.
    pub fn normalized_interval(&self) -> Option<Interval<f64>> {
        let by = self.normalized_exponent - self.exponent;
        self.exponent_confidence.map(|found| Interval {
            low: found.interval.low + by,
            high: found.interval.high + by,
        })
    }
}

/// What a stability study found.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StabilityFindings {
    /// B.
    pub batch_size: BatchSize,
    /// Ascending.
    pub widths: Vec<WidthStability>,
    /// How ε_half of divergence varies with the width; `None` with fewer than two widths.
    pub divergence_trend: Option<LimitTrend>,
    /// How ε_half of failure varies with the width; `None` with fewer than two widths.
    pub failure_trend: Option<LimitTrend>,
}

/// Which outcomes count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Failure {
    Diverged,
    Any,
}

impl Failure {
    fn count(self, runs: Tally) -> u32 {
        match self {
            Self::Diverged => runs.diverged,
            Self::Any => runs.diverged + runs.stalled,
        }
    }

    fn rate(self, runs: Tally) -> Option<Rate> {
        Rate::of(self.count(runs), runs.recorded)
    }
}

/// How the bootstrap of the trend is drawn.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Resampling {
    /// Seed of the generator.
    pub seed: u64,
    /// How many resamples.
    pub resamples: usize,
    /// Share between the percentiles.
    pub level: f64,
    /// What the interval accounts for.
    pub resolution: Resolution,
}

impl StabilityFindings {
    /// The findings of the scans of a stability study; `None` without points.
    pub fn of(setting: &Setting, scans: &[Scan<'_>], resampling: Resampling) -> Option<Self> {
        let batch_size = scans.first()?.points.first()?.point.batch_size;
        let widths = scans.iter().map(|scan| width_stability(setting, scan));
        Some(Self {
            batch_size,
            widths: widths.collect(),
            divergence_trend: trend(setting, scans, Failure::Diverged, resampling),
            failure_trend: trend(setting, scans, Failure::Any, resampling),
        })
    }
}

fn width_stability(setting: &Setting, scan: &Scan<'_>) -> WidthStability {
    let point = |observed: &Observed<'_>| {
        let runs = observed.tally();
        StabilityPoint {
            learning_rate: observed.point.learning_rate,
            normalized_learning_rate: normalized_rate(setting, observed.place()),
            runs,
            diverged: Failure::Diverged.rate(runs),
            failed: Failure::Any.rate(runs),
        }
    };
    WidthStability {
        width: scan.width,
        points: scan.points.iter().map(point).collect(),
        divergence: limit(setting, scan, Failure::Diverged),
        failure: limit(setting, scan, Failure::Any),
    }
}

/// How many runs failed at each rate that has records.
fn counts(scan: &Scan<'_>, failure: Failure) -> Vec<Count> {
    let points = (scan.points.iter()).map(|observed| (observed.point, observed.tally()));
    let recorded = points.filter(|(_, runs)| runs.recorded > 0);
    recorded
        .map(|(point, runs)| Count {
            rate: point.learning_rate.get(),
            failed: failure.count(runs),
            runs: runs.recorded,
        })
        .collect()
}

fn limit(setting: &Setting, scan: &Scan<'_>, failure: Failure) -> Limit {
    let counts = counts(scan, failure);
    let value = |rate: f64| rate_value(setting, scan, rate);
    let half = match crossing(&counts) {
        Crossing::At { rate, .. } => value(rate).map_or(Half::Unmeasured, Half::At),
        Crossing::AboveGrid => Half::AboveGrid,
        Crossing::BelowGrid => Half::BelowGrid,
        Crossing::Unmeasured => Half::Unmeasured,
    };
    Limit {
        safe: safe(&counts).and_then(value),
        half,
    }
}

fn rate_value(setting: &Setting, scan: &Scan<'_>, rate: f64) -> Option<RateValue> {
    let learning_rate = LearningRate::new(rate).ok()?;
    let place = Place {
        learning_rate,
        ..scan.points.first()?.place()
    };
    Some(RateValue {
        learning_rate,
        normalized: normalized_rate(setting, place),
    })
}

/// A width's scan as the bootstrap of the trend sees it.
struct Draws {
    width: f64,
    counts: Vec<Count>,
    random: Random,
}

impl Draws {
    /// ε_half of the runs as recorded.
    fn recorded(&self) -> Option<Found> {
        self.found(&self.counts, 0.0)
    }

    /// ε_half of a resample, moved within the grid's resolution.
    fn resampled(&mut self, resolution: Resolution) -> Option<Found> {
        let random = &mut self.random;
        let draw = |count: &Count| {
            let fails = |_| random.index(count.runs as usize) < count.failed as usize;
            let failed = (0..count.runs).map(fails).map(u32::from).sum();
            Count { failed, ..*count }
        };
        let counts: Vec<Count> = self.counts.iter().map(draw).collect();
        // Drawn in any case, so that both resolutions see the same resamples.
        let offset = self.random.uniform() - 0.5;
        let steps = match resolution {
            Resolution::SeedsAndGrid => offset,
            Resolution::Seeds => 0.0,
        };
        self.found(&counts, steps)
    }

    /// ε_half of these runs, moved by so many steps of the grid.
    fn found(&self, counts: &[Count], steps: f64) -> Option<Found> {
        let (value, inside) = match crossing(counts) {
            Crossing::At { rate, step } => (rate * (steps * step).exp(), true),
            Crossing::AboveGrid => (counts.last()?.rate, false),
            Crossing::BelowGrid => (counts.first()?.rate, false),
            Crossing::Unmeasured => return None,
        };
        let width = self.width;
        Some(Found {
            at: Datum { width, value },
            inside,
        })
    }
}

/// An ε_half, or the end of the grid that it lies beyond.
struct Found {
    at: Datum,
    inside: bool,
}

fn trend(
    setting: &Setting,
    scans: &[Scan<'_>],
    failure: Failure,
    resampling: Resampling,
) -> Option<LimitTrend> {
    let draws = |scan: &Scan<'_>| Draws {
        width: f64::from(scan.width.get()),
        counts: counts(scan, failure),
        random: Random::stream(resampling.seed, u64::from(scan.width.get())),
    };
    let (mut fitted, data): (Vec<Draws>, Vec<Datum>) = (scans.iter().map(draws))
        .filter_map(|scan| {
            let half = scan.recorded().filter(|half| half.inside)?;
            Some((scan, half.at))
        })
        .unzip();
    let exponent = Power::fit(&data)?.exponent;
    let mut beyond = 0;
    let resampled = (0..resampling.resamples).filter_map(|_| {
        let halves = (fitted.iter_mut()).filter_map(|scan| scan.resampled(resampling.resolution));
        let (halves, inside): (Vec<Datum>, Vec<bool>) =
            halves.map(|half| (half.at, half.inside)).unzip();
        beyond += usize::from(inside.contains(&false));
        Power::fit(&halves).map(|fit| fit.exponent)
    });
    let exponent_confidence = Confidence::of(resampled.collect(), resampling.level);
    let found = |width: &Width| data.iter().any(|d| d.width == f64::from(width.get()));
    Some(LimitTrend {
        exponent,
        exponent_confidence,
        resamples_at_grid_end: beyond as f64 / resampling.resamples.max(1) as f64,
        // ε̄ = ε·w/σ₀² in the standard scheme, ε/σ₀² in the NTK one.
        normalized_exponent: match setting.scheme {
            spec::Scheme::Standard => exponent + 1.0,
            spec::Scheme::Ntk => exponent,
        },
        widths: scans.iter().map(|s| s.width).filter(found).collect(),
    })
}
