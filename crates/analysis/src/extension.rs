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
use spec::{BatchSize, LearningRate, Point, Search, SearchKind, Study, Width};

/// How far grids may be extended.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Limits {
    /// Batch sizes stay between 1 and this: N.
    pub examples: u32,
    /// Most batch sizes that one width may have, added ones included.
    pub batch_sizes: usize,
    /// The same of learning rates.
    pub learning_rates: usize,
}

impl Limits {
    /// At most `extra` values on top of each of the study's grids.
    pub fn usual(study: &Study, extra: usize) -> Self {
        let (batch_sizes, learning_rates) = match &study.search {
            Search::BatchSize(batch) => (batch.batch_sizes.len(), 0),
            Search::LearningRate(rate) => (0, rate.learning_rates.len()),
            Search::Paired(batch, rate) => (batch.batch_sizes.len(), rate.learning_rates.len()),
            Search::Grid(_) | Search::Stability(_) => (0, 0),
        };
        Self {
            examples: study.setting.training_examples(),
            batch_sizes: batch_sizes + extra,
            learning_rates: learning_rates + extra,
        }
    }
}

/// The values to add.
#[derive(Debug, Clone, PartialEq)]
pub enum NewValues {
    /// To a batch-size search.
    BatchSizes(Vec<BatchSize>),
    /// To a learning-rate search.
    LearningRates(Vec<LearningRate>),
}

/// The values to add to the grid of one search at one width.
#[derive(Debug, Clone, PartialEq)]
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

/// The batch sizes to add to an ascending grid, one on each side at most.
pub fn batch_sizes(grid: &[BatchSize], sides: Sides, limits: &Limits) -> Vec<BatchSize> {
    let (Some(first), Some(last)) = (grid.first(), grid.last()) else {
        return Vec::new();
    };
    let below = size_below(first.get());
    let above = size_above(last.get()).filter(|size| *size <= limits.examples);
    let room = limits.batch_sizes.saturating_sub(grid.len());
    let new = take(below, above, room, sides).into_iter();
    new.filter_map(|size| BatchSize::new(size).ok()).collect()
}

/// The learning rates to add to an ascending grid, one on each side at most.
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
    let below = Some(two_digits(first.get() / ratio)).filter(|rate| *rate < first.get());
    let above = Some(two_digits(last.get() * ratio)).filter(|rate| *rate > last.get());
    let room = limits.learning_rates.saturating_sub(grid.len());
    let new = take(below, above, room, sides).into_iter();
    new.filter_map(|rate| LearningRate::new(rate).ok())
        .collect()
}

/// The next values of the open sides, the lower one first where there is room for one alone.
fn take<T>(below: Option<T>, above: Option<T>, room: usize, sides: Sides) -> Vec<T> {
    let open = |value: Option<T>, edge: Edge| value.filter(|_| edge == Edge::GridEnd);
    let ends = [open(below, sides.low), open(above, sides.high)];
    ends.into_iter().flatten().take(room).collect()
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

    fn limits(values: usize) -> Limits {
        Limits {
            examples: 100,
            batch_sizes: values,
            learning_rates: values,
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
        assert_eq!(batch_sizes(&grid, OPEN, &limits(99)), sizes(&[3, 12]));
        // Room for one more value: the low side has it.
        assert_eq!(batch_sizes(&grid, OPEN, &limits(4)), sizes(&[3]));
        assert_eq!(batch_sizes(&grid, OPEN, &limits(3)), []);
        // Never below 1 or above N = 100.
        assert_eq!(
            batch_sizes(&sizes(&[1, 96]), OPEN, &limits(99)),
            [] as [BatchSize; 0]
        );
    }

    #[test]
    fn each_grid_of_a_pair_has_a_limit_of_its_own() {
        let text = "[task]\ndataset = \"digits\"\n[family]\nkind = \"mlp\"\nhidden = [1]\nwidths = [8]\n\
                    scheme = \"ntk\"\n[search]\nkind = \"paired\"\nlearning_rate = 5.0\n\
                    batch_sizes = [4, 6, 8, 12]\nbatch_size = 4\nlearning_rates = [1.0, 2.0]\n\
                    [time]\nepochs = 1\n";
        let study = Study::parse("pair", std::path::Path::new("pair.toml"), text, &[]).unwrap();
        let limits = Limits::usual(&study, 0);
        assert_eq!((limits.batch_sizes, limits.learning_rates), (4, 2));
        assert_eq!(learning_rates(&rates(&[1.0, 2.0]), OPEN, &limits), []);
    }

    #[test]
    fn only_open_ends_are_extended() {
        let sides = Sides {
            low: Edge::Unmeasured,
            high: Edge::Bracketed,
        };
        assert_eq!(batch_sizes(&sizes(&[4, 6]), sides, &limits(99)), []);
        assert_eq!(batch_sizes(&[], OPEN, &limits(99)), []);
    }

    #[test]
    fn rates_go_on_by_the_mean_ratio() {
        // (20/5)^(1/4) = √2: 5/√2 = 3.54 and 20·√2 = 28.3.
        let grid = rates(&[5.0, 7.0, 10.0, 14.0, 20.0]);
        let new = learning_rates(&grid, OPEN, &limits(99));
        assert_eq!(new, rates(&[3.5, 28.0]));
        // A single value goes on by √2.
        let new = learning_rates(&rates(&[0.03]), OPEN, &limits(99));
        assert_eq!(new, rates(&[0.021, 0.042]));
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
