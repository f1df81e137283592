//! Extension: the next values of a grid whose best interval touches its end.
//!
//! Batch sizes go on along 1, 2, 3, 4, 6, 8, 12, … (2^k and 1.5·2^k); learning rates
//! by the grid's own mean ratio, √2 where it has a single value, rounded to two
//! digits. A side that is bracketed, or whose next point is only unmeasured, is left
//! alone. The caller adds the values, runs them, analyses again, and asks again,
//! until nothing is asked for: every side is bracketed or a limit is reached.

use crate::findings::{Findings, SearchFindings, WidthFindings};
use crate::measure::Axis;
use crate::optimum::{Edge, Optimum};
use serde::{Deserialize, Serialize};
use spec::{BatchSize, LearningRate, Point, Search, SearchKind, Study, Width};

/// How far a grid may be extended.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Limits {
    /// Batch sizes stay between 1 and this: N.
    pub examples: u32,
    /// Learning rates stay at or below this, if given.
    pub learning_rate: Option<LearningRate>,
    /// Values added per side and call.
    pub step: usize,
    /// Most values that the grid of one width may have, added ones included.
    pub points: usize,
}

impl Limits {
    /// One value per side and call, and at most `extra` on top of the study's grid.
    pub fn usual(study: &Study, extra: usize) -> Self {
        let planned = match &study.search {
            Search::BatchSize(search) => search.batch_sizes.len(),
            Search::LearningRate(search) => search.learning_rates.len(),
            Search::Paired(batch, rate) => batch.batch_sizes.len().max(rate.learning_rates.len()),
            Search::Grid(_) | Search::Stability(_) => 0,
        };
        Self {
            examples: study.setting.training_examples(),
            learning_rate: None,
            step: 1,
            points: planned + extra,
        }
    }
}

/// The values to add.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NewValues {
    /// To a batch-size search.
    BatchSizes(Vec<BatchSize>),
    /// To a learning-rate search.
    LearningRates(Vec<LearningRate>),
}

/// The values to add to the grid of one search at one width.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Extension {
    /// Batch-size or learning-rate search.
    pub search: SearchKind,
    /// w.
    pub width: Width,
    /// Never empty.
    pub values: NewValues,
}

/// Which sides of a best interval touch the end of the grid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sides {
    /// Beyond the smallest value.
    pub low: Edge,
    /// Beyond the largest value.
    pub high: Edge,
}

impl From<&Optimum> for Sides {
    fn from(optimum: &Optimum) -> Self {
        Self {
            low: optimum.low_edge,
            high: optimum.high_edge,
        }
    }
}

/// The values that the grids of a study want next.
pub fn extensions(findings: &Findings, limits: &Limits) -> Vec<Extension> {
    let per_search = |search: &SearchFindings| {
        let (kind, axis) = (search.kind, search.axis);
        let one = move |found: &WidthFindings| {
            new_values(axis, found, limits).map(|values| Extension {
                search: kind,
                width: found.width,
                values,
            })
        };
        search.widths.iter().filter_map(one).collect::<Vec<_>>()
    };
    findings.searches.iter().flat_map(per_search).collect()
}

fn new_values(axis: Axis, found: &WidthFindings, limits: &Limits) -> Option<NewValues> {
    let sides = Sides::from(found.optimum.as_ref()?);
    match axis {
        Axis::BatchSize => {
            let grid: Vec<BatchSize> = found.points.iter().map(|p| p.batch_size).collect();
            let new = batch_sizes(&grid, sides, limits);
            (!new.is_empty()).then_some(NewValues::BatchSizes(new))
        }
        Axis::LearningRate => {
            let grid: Vec<LearningRate> = found.points.iter().map(|p| p.learning_rate).collect();
            let new = learning_rates(&grid, sides, limits);
            (!new.is_empty()).then_some(NewValues::LearningRates(new))
        }
    }
}

/// The batch sizes to add to an ascending grid.
pub fn batch_sizes(grid: &[BatchSize], sides: Sides, limits: &Limits) -> Vec<BatchSize> {
    let (Some(first), Some(last)) = (grid.first(), grid.last()) else {
        return Vec::new();
    };
    let below = std::iter::successors(size_below(first.get()), |size| size_below(*size));
    let above = std::iter::successors(size_above(last.get()), |size| size_above(*size))
        .take_while(|size| *size <= limits.examples);
    take(below, above, grid.len(), sides, limits)
        .into_iter()
        .filter_map(|size| BatchSize::new(size).ok())
        .collect()
}

/// The learning rates to add to an ascending grid.
pub fn learning_rates(grid: &[LearningRate], sides: Sides, limits: &Limits) -> Vec<LearningRate> {
    let (Some(first), Some(last)) = (grid.first(), grid.last()) else {
        return Vec::new();
    };
    let steps = grid.len().saturating_sub(1).max(1) as f64;
    let mean_ratio = (last.get() / first.get()).powf(1.0 / steps);
    let ratio = if mean_ratio > 1.01 {
        mean_ratio
    } else {
        std::f64::consts::SQRT_2
    };
    let highest = limits.learning_rate.map_or(f64::MAX, LearningRate::get);
    // Each value is rounded by itself: rounding does not add up along the grid.
    let below = (1..).map(|n| two_digits(first.get() / ratio.powi(n)));
    let above = (1..)
        .map(|n| two_digits(last.get() * ratio.powi(n)))
        .take_while(|rate| *rate <= highest);
    take(below, above, grid.len(), sides, limits)
        .into_iter()
        .filter_map(|rate| LearningRate::new(rate).ok())
        .filter(|rate| rate.get() < first.get() || rate.get() > last.get())
        .collect()
}

/// As many values on each open side as the limits allow, ascending.
fn take<T: PartialOrd>(
    below: impl Iterator<Item = T>,
    above: impl Iterator<Item = T>,
    have: usize,
    sides: Sides,
    limits: &Limits,
) -> Vec<T> {
    let room = limits.points.saturating_sub(have);
    let on = |edge: Edge, room: usize| match edge {
        Edge::GridEnd => limits.step.min(room),
        Edge::Bracketed | Edge::Unmeasured => 0,
    };
    let mut new: Vec<T> = below.take(on(sides.low, room)).collect();
    new.reverse();
    let left = room - new.len();
    new.extend(above.take(on(sides.high, left)));
    new
}

/// The largest 2^k or 1.5·2^k below a size.
fn size_below(size: u32) -> Option<u32> {
    let power = 1_u32 << size.checked_sub(1)?.checked_ilog2()?;
    let between = power + power / 2;
    Some(if power > 1 && between < size {
        between
    } else {
        power
    })
}

/// The smallest 2^k or 1.5·2^k above a size.
fn size_above(size: u32) -> Option<u32> {
    let power = 1_u32 << size.checked_ilog2()?;
    let between = power + power / 2;
    if power > 1 && size < between {
        Some(between)
    } else {
        power.checked_mul(2)
    }
}

/// Rounded to two significant digits.
fn two_digits(value: f64) -> f64 {
    let unit = 10_f64.powi(value.log10().floor() as i32 - 1);
    let digits = (value / unit).round();
    // Dividing by a whole number keeps 0.42 from becoming 0.42000000000000004.
    if unit < 1.0 {
        digits / (1.0 / unit).round()
    } else {
        digits * unit
    }
}

/// The points of a study and of its extensions, by search and width, ascending.
pub fn extended_points(study: &Study, extensions: &[Extension]) -> Vec<Point> {
    let added = extensions.iter().flat_map(|extension| {
        let narrowed = Study {
            widths: vec![extension.width],
            search: narrowed(&study.search, &extension.values),
            ..study.clone()
        };
        let mut points = spec::points(&narrowed);
        points.retain(|point| point.search == extension.search);
        points
    });
    let mut all: Vec<Point> = spec::points(study).into_iter().chain(added).collect();
    all.sort_by(|a, b| {
        (a.search, a.width)
            .cmp(&(b.search, b.width))
            .then(a.learning_rate.get().total_cmp(&b.learning_rate.get()))
            .then(a.batch_size.cmp(&b.batch_size))
    });
    all.dedup();
    all
}

/// The search with the new values in place of its grid.
fn narrowed(search: &Search, values: &NewValues) -> Search {
    let mut search = search.clone();
    match (&mut search, values) {
        (Search::BatchSize(batch) | Search::Paired(batch, _), NewValues::BatchSizes(sizes)) => {
            batch.batch_sizes.clone_from(sizes);
        }
        (Search::LearningRate(rate) | Search::Paired(_, rate), NewValues::LearningRates(rates)) => {
            rate.learning_rates.clone_from(rates)
        }
        _ => {}
    }
    search
}

#[cfg(test)]
mod tests {
    use super::*;

    const OPEN: Sides = Sides {
        low: Edge::GridEnd,
        high: Edge::GridEnd,
    };

    fn limits(step: usize, points: usize) -> Limits {
        Limits {
            examples: 100,
            learning_rate: None,
            step,
            points,
        }
    }

    fn sizes(values: &[u32]) -> Vec<BatchSize> {
        values.iter().map(|v| BatchSize::new(*v).unwrap()).collect()
    }

    fn rates(values: &[f64]) -> Vec<LearningRate> {
        let rate = |v: &f64| LearningRate::new(*v).unwrap();
        values.iter().map(rate).collect()
    }

    #[test]
    fn batch_sizes_go_on_as_powers_and_one_and_a_half_powers() {
        let above: Vec<u32> = std::iter::successors(Some(1), |s| size_above(*s))
            .take(9)
            .collect();
        assert_eq!(above, [1, 2, 3, 4, 6, 8, 12, 16, 24]);
        let below: Vec<u32> = std::iter::successors(Some(24), |s| size_below(*s)).collect();
        assert_eq!(below, [24, 16, 12, 8, 6, 4, 3, 2, 1]);
        // From a size off the progression to the next one on it.
        assert_eq!((size_below(5), size_above(5)), (Some(4), Some(6)));
        assert_eq!((size_below(1), size_above(0)), (None, None));
        assert_eq!(size_above(3_221_225_472), None);
    }

    #[test]
    fn both_ends_within_the_limits() {
        let grid = sizes(&[4, 6, 8]);
        assert_eq!(
            batch_sizes(&grid, OPEN, &limits(2, 99)),
            sizes(&[2, 3, 12, 16])
        );
        // Room for three more values: the low side takes its two first.
        assert_eq!(batch_sizes(&grid, OPEN, &limits(2, 6)), sizes(&[2, 3, 12]));
        assert_eq!(batch_sizes(&grid, OPEN, &limits(2, 3)), []);
        // Never below 1 or above N = 100.
        let wide = sizes(&[2, 64]);
        assert_eq!(batch_sizes(&wide, OPEN, &limits(3, 99)), sizes(&[1, 96]));
    }

    #[test]
    fn only_open_ends_are_extended() {
        let sides = Sides {
            low: Edge::Unmeasured,
            high: Edge::Bracketed,
        };
        assert_eq!(batch_sizes(&sizes(&[4, 6]), sides, &limits(2, 99)), []);
        assert_eq!(batch_sizes(&[], OPEN, &limits(2, 99)), []);
    }

    #[test]
    fn rates_go_on_by_the_mean_ratio() {
        // (20/5)^(1/4) = √2: 5/√2 = 3.54 and 20·√2 = 28.3, then 2.5 and 40.
        let grid = rates(&[5.0, 7.0, 10.0, 14.0, 20.0]);
        let new = learning_rates(&grid, OPEN, &limits(2, 99));
        assert_eq!(new, rates(&[2.5, 3.5, 28.0, 40.0]));
        // A single value goes on by √2; the highest rate is a limit.
        let capped = Limits {
            learning_rate: LearningRate::new(0.05).ok(),
            ..limits(2, 99)
        };
        let new = learning_rates(&rates(&[0.03]), OPEN, &capped);
        assert_eq!(new, rates(&[0.015, 0.021, 0.042]));
    }

    #[test]
    fn two_digits_by_hand() {
        for (value, rounded) in [
            (0.4242, 0.42),
            (28.28, 28.0),
            (0.00176, 0.0018),
            (995.0, 1000.0),
        ] {
            assert_eq!(two_digits(value), rounded);
        }
    }
}
