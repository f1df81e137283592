//! The grid of batch sizes and learning rates (section G of the paper's supplement):
//! accuracy against B and against ḡ, one curve for every ε.
//!
//! If the noise scale alone governs the final accuracy, the curves fall on one
//! another when drawn against ḡ, and each has its optimum at the same ḡ. So every
//! curve gets its optimum by the rule of a batch-size search.

use crate::measure::{Axis, Interval, Measure};
use crate::observation::{Observed, Scan};
use crate::optimum::Optimum;
use crate::point::PointFindings;
use serde::Serialize;
use spec::{LearningRate, Setting, Width};

/// One learning rate of a grid.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RateCurve {
    /// ε.
    pub learning_rate: LearningRate,
    /// Ascending in B.
    pub points: Vec<PointFindings>,
    /// The best batch sizes at this ε, without bootstrap; `None` if no run trained.
    pub optimum: Option<Optimum>,
}

/// The grid of one width.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct GridFindings {
    /// w.
    pub width: Width,
    /// What the optima are reported in.
    pub measure: Measure,
    /// Ascending in ε.
    pub curves: Vec<RateCurve>,
    /// Smallest and largest optimum over the bracketed curves; `None` if there is none.
    pub optima: Option<Interval<f64>>,
}

impl GridFindings {
    /// The grid of one width.
    pub fn of(setting: &Setting, scan: &Scan<'_>) -> Self {
        let measure = Measure::of(setting, Axis::BatchSize);
        let mut rates: Vec<LearningRate> = Vec::new();
        for observed in &scan.points {
            if !rates.contains(&observed.point.learning_rate) {
                rates.push(observed.point.learning_rate);
            }
        }
        rates.sort_by(|a, b| a.get().total_cmp(&b.get()));
        let curve = |rate: LearningRate| rate_curve(setting, measure, scan, rate);
        let curves: Vec<RateCurve> = rates.into_iter().map(curve).collect();
        let optima = curves
            .iter()
            .filter_map(|curve| curve.optimum.as_ref())
            .filter(|optimum| optimum.bracketed())
            .map(|optimum| optimum.estimate.value)
            .map(|value| Interval::between(value, value))
            .reduce(|all, one| Interval {
                low: all.low.min(one.low),
                high: all.high.max(one.high),
            });
        Self {
            width: scan.width,
            measure,
            curves,
            optima,
        }
    }
}

fn rate_curve(
    setting: &Setting,
    measure: Measure,
    scan: &Scan<'_>,
    learning_rate: LearningRate,
) -> RateCurve {
    let here = |observed: &&Observed<'_>| observed.point.learning_rate == learning_rate;
    let mut points: Vec<PointFindings> = scan
        .points
        .iter()
        .filter(here)
        .map(|observed| PointFindings::of(setting, observed))
        .collect();
    points.sort_by_key(|point| point.batch_size);
    RateCurve {
        learning_rate,
        optimum: Optimum::of(setting, measure, &points),
        points,
    }
}
