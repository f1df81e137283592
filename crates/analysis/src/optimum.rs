//! The optimum of one network: its best point and the interval around it.
//!
//! The paper's rule (section 3.1): the best point b is the one with the highest mean
//! accuracy μ_b of its trained runs; the best interval is every point of the grid
//! that is contiguous with it and has μ > μ_b − 2σ_b/√n_b. From the interval's ends
//! [B₀, B₁] (or [ε₀, ε₁]) follow two values of ḡ; their mean is ḡ_opt and they are
//! its error bar.
//!
//! What the paper leaves open: of equal means the first along the axis is the best;
//! points whose means equal its own are in the interval, even with σ_b = 0;
//! with n_b = 1, σ_b is not defined and the interval is the best point alone; a point
//! without a trained run has no mean, so it is never in an interval, and ends one.

use crate::late::{LateState, together};
use crate::measure::{Estimate, Interval, Measure};
use crate::point::PointFindings;
use crate::resample::Confidence;
use crate::sample::Sample;
use serde::Serialize;
use spec::{BatchSize, LearningRate, Setting};

/// The best point and its interval, as indices along a scan, both ends included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct BestInterval {
    /// The point of the highest mean.
    pub best: usize,
    /// First point of the interval; at most `best`.
    pub first: usize,
    /// Last point of the interval; at least `best`.
    pub last: usize,
}

/// What lies beyond one end of the best interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Edge {
    /// A measured point that is worse, or at which no run trained.
    Bracketed,
    /// Nothing: the interval touches the end of the grid.
    GridEnd,
    /// A point of the grid that has no record yet.
    Unmeasured,
}

/// The optimum of one scan.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Optimum {
    /// Where in the scan's points.
    pub at: BestInterval,
    /// Test accuracy at the best point.
    pub peak: Sample,
    /// μ_b − 2σ_b/√n_b; `None` with a single trained run at the best point.
    pub threshold: Option<f64>,
    /// Beyond the interval's smallest scanned value.
    pub low_edge: Edge,
    /// Beyond the interval's largest scanned value.
    pub high_edge: Edge,
    /// [B₀, B₁]; both the fixed one in a learning-rate search.
    pub batch_sizes: Interval<BatchSize>,
    /// [ε₀, ε₁]; both the fixed one in a batch-size search.
    pub learning_rates: Interval<LearningRate>,
    /// ḡ_opt, or what stands for it with batch norm.
    pub estimate: Estimate,
    /// 1/B beside w/B, or ε beside w·ε.
    pub beside: Option<Estimate>,
    /// Bootstrap interval of the estimate; `None` with a single trained run at the
    /// best point.
    pub confidence: Option<Confidence>,
    /// Share of the resamples whose interval touches an end of the grid or a point without records.
    pub resamples_at_grid_end: f64,
    /// Some point of the interval has fewer than 75 % of its planned runs trained.
    pub few_trained: bool,
    /// Whether validation accuracy has settled at every point of the interval.
    pub late: LateState,
}

/// The best interval of a scan; `None` if no point has a mean.
pub fn best_interval(samples: &[Option<Sample>]) -> Option<BestInterval> {
    let mut best: Option<(usize, Sample)> = None;
    for (at, sample) in samples.iter().enumerate() {
        if let Some(sample) = sample
            && best.is_none_or(|(_, so_far)| sample.mean > so_far.mean)
        {
            best = Some((at, *sample));
        }
    }
    let (best, peak) = best?;
    let alike = |sample: &&Option<Sample>| match (sample, threshold(peak)) {
        (Some(sample), Some(threshold)) => sample.mean > threshold || sample.mean == peak.mean,
        _ => false,
    };
    let before = samples[..best].iter().rev().take_while(alike).count();
    let after = samples[best + 1..].iter().take_while(alike).count();
    Some(BestInterval {
        best,
        first: best - before,
        last: best + after,
    })
}

/// μ_b − 2σ_b/√n_b; `None` where σ_b is not defined.
pub fn threshold(peak: Sample) -> Option<f64> {
    peak.standard_error.map(|error| peak.mean - 2.0 * error)
}

impl Optimum {
    /// The optimum of one scan's points, ascending along its axis, without bootstrap;
    /// `None` if no run trained.
    pub fn of(setting: &Setting, measure: Measure, points: &[PointFindings]) -> Option<Self> {
        let samples: Vec<Option<Sample>> = points.iter().map(|p| p.accuracy).collect();
        let at = best_interval(&samples)?;
        let peak = points[at.best].accuracy?;
        let inside = &points[at.first..=at.last];
        let (low, high) = (&points[at.first], &points[at.last]);
        let estimate = |measure: Measure| {
            let [low, high] = [low, high].map(|p| measure.at(setting, p.place()));
            Estimate::between(measure, low, high)
        };
        Some(Self {
            at,
            peak,
            threshold: threshold(peak),
            low_edge: edge(at.first.checked_sub(1).and_then(|at| points.get(at))),
            high_edge: edge(points.get(at.last + 1)),
            batch_sizes: Interval::between(low.batch_size, high.batch_size),
            learning_rates: Interval::between(low.learning_rate, high.learning_rate),
            estimate: estimate(measure),
            beside: measure.beside().map(estimate),
            confidence: None,
            resamples_at_grid_end: 0.0,
            few_trained: inside.iter().any(|point| point.few_trained),
            late: together(inside.iter().map(|point| point.late.state)),
        })
    }

    /// Whether both sides of the interval are bracketed.
    pub fn bracketed(&self) -> bool {
        self.low_edge == Edge::Bracketed && self.high_edge == Edge::Bracketed
    }
}

fn edge(beyond: Option<&PointFindings>) -> Edge {
    match beyond {
        None => Edge::GridEnd,
        Some(point) if point.runs.recorded == 0 => Edge::Unmeasured,
        Some(_) => Edge::Bracketed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(mean: f64, deviation: f64, count: usize) -> Option<Sample> {
        Some(Sample {
            count,
            mean,
            deviation: Some(deviation),
            standard_error: Some(deviation / (count as f64).sqrt()),
        })
    }

    fn found(samples: &[Option<Sample>]) -> [usize; 3] {
        let BestInterval { best, first, last } = best_interval(samples).unwrap();
        [best, first, last]
    }

    #[test]
    fn interval_by_hand() {
        // μ_b = 0.90, σ_b = 0.04, n = 16: threshold 0.90 − 2 · 0.04/4 = 0.88.
        let best = sample(0.90, 0.04, 16);
        let [near, far] = [sample(0.885, 1.0, 16), sample(0.875, 1.0, 16)];
        assert_eq!(found(&[far, near, best, near, far]), [2, 1, 3]);
        // Beyond a worse point nothing counts, however good.
        assert_eq!(found(&[near, far, best, near, near]), [2, 2, 4]);
        // Only the best point's spread matters; equal to the threshold is not above it.
        let at = sample(threshold(best.unwrap()).unwrap(), 1.0, 16);
        assert_eq!(found(&[at, best, at]), [1, 1, 1]);
    }

    #[test]
    fn points_without_a_mean_end_the_interval() {
        let (best, near) = (sample(0.90, 0.04, 16), sample(0.885, 0.04, 16));
        assert_eq!(found(&[near, None, best, near]), [2, 2, 3]);
        assert_eq!(best_interval(&[None, None]), None);
        assert_eq!(best_interval(&[]), None);
    }

    #[test]
    fn a_single_run_has_no_interval_but_itself() {
        let one = Sample::of(&[0.9]);
        let near = sample(0.8999, 0.1, 16);
        assert_eq!(found(&[near, one, near]), [1, 1, 1]);
    }

    #[test]
    fn of_equal_means_the_first_is_best() {
        let tie = sample(0.9, 0.0, 4);
        // σ = 0: nothing is above the threshold, which is the mean itself, but equals are alike.
        assert_eq!(found(&[tie, tie]), [0, 0, 1]);
    }
}
