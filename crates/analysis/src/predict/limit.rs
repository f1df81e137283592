//! ε_max: the largest learning rate that is taken to be stable, whose it is, and what in the
//! study's own records speaks against it at the width that is asked for.

use super::PredictError;
use super::scale::Scale;
use crate::findings::Findings;
use crate::point::PointFindings;
use crate::stability::WidthStability;
use serde::Serialize;
use spec::{BatchSize, LearningRate, Width};

/// Where ε_max comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum LimitSource {
    /// The smallest ε_safe, in ε̄, of a stability study.
    Stability,
    /// The largest ε̄ at which at least 75 % of the runs trained: the true limit may
    /// be higher, and at another width lower.
    LargestTrained,
}

/// The largest learning rate that is taken to be stable.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct RateLimit {
    /// ε_max at W.
    pub learning_rate: LearningRate,
    /// ε̄_max, in 1/\[loss\].
    pub normalized: f64,
    /// Where it comes from.
    pub source: LimitSource,
    /// The width at which it was found: of the stability study, or, of the widths at which this
    /// rate trained, the one nearest to W.
    pub width: Width,
    /// The batch size there.
    pub batch_size: BatchSize,
    /// Whether the interval of q, of ε̄_half ∝ w^q, holds the 0 on which the limit at other widths rests;
    /// `None` where it is not known.
    pub constant: Option<bool>,
    /// Without a stability study: a point of the measured width nearest to W at which most runs failed
    /// though its ε̄ is not above the limit.
    pub failing: Option<Failing>,
}

/// A point at which most runs failed.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Failing {
    /// w.
    pub width: Width,
    /// B.
    pub batch_size: BatchSize,
    /// ε.
    pub learning_rate: LearningRate,
    /// Runs that stalled or diverged,
    pub failed: u32,
    /// of so many that are recorded.
    pub recorded: u32,
}

/// ε_max from a stability study, or else from the study's own records.
pub(super) fn rate_limit(
    findings: &Findings,
    stability: Option<&Findings>,
    scale: &Scale<'_>,
) -> Result<RateLimit, PredictError> {
    let at = |normalized: f64| scale.rate(normalized / scale.inverse_weight_scale());
    if let Some(other) = stability {
        let safe = safe_rate(findings, other)?;
        return Ok(RateLimit {
            learning_rate: at(safe.normalized)?,
            normalized: safe.normalized,
            source: LimitSource::Stability,
            width: safe.width,
            batch_size: safe.batch_size,
            constant: is_constant(other),
            failing: None,
        });
    }
    let best = largest_trained(findings, scale.width)
        .ok_or_else(|| PredictError::NoStableRate(findings.study.name.clone()))?;
    let normalized = best.normalized_learning_rate.get();
    Ok(RateLimit {
        learning_rate: at(normalized)?,
        normalized,
        source: LimitSource::LargestTrained,
        width: best.width,
        batch_size: best.batch_size,
        constant: None,
        failing: failing(findings, normalized, scale.width),
    })
}

fn is_constant(stability: &Findings) -> Option<bool> {
    let trend = stability.stability.as_ref()?.failure_trend.as_ref()?;
    Some(trend.normalized_interval()?.contains(&0.0))
}

/// The smallest ε̄_safe of a stability study.
struct Safe {
    normalized: f64,
    width: Width,
    batch_size: BatchSize,
}

/// The smallest ε̄_safe over the widths of a stability study of the same networks, and whose it is.
fn safe_rate(findings: &Findings, other: &Findings) -> Result<Safe, PredictError> {
    let (one, two) = (&findings.study, &other.study);
    if one.scheme != two.scheme || !one.same_networks(two) {
        return Err(PredictError::OtherStability {
            study: one.name.clone(),
            stability: two.name.clone(),
        });
    }
    let Some(found) = &other.stability else {
        return Err(PredictError::NotStability(two.name.clone()));
    };
    let recorded = |width: &&WidthStability| width.points.iter().any(|p| p.runs.recorded > 0);
    let safe = |at: &WidthStability| match at.failure.safe {
        Some(rate) => Ok(Safe {
            normalized: rate.normalized.get(),
            width: at.width,
            batch_size: found.batch_size,
        }),
        None => Err(PredictError::NoSafeRate {
            stability: two.name.clone(),
            width: at.width,
        }),
    };
    let all: Vec<Safe> = (found.widths.iter().filter(recorded))
        .map(safe)
        .collect::<Result<_, _>>()?;
    let least = (all.into_iter()).min_by(|a, b| a.normalized.total_cmp(&b.normalized));
    least.ok_or_else(|| PredictError::NoStableRate(two.name.clone()))
}

fn recorded_points(findings: &Findings) -> impl Iterator<Item = &PointFindings> {
    (findings.searches.iter())
        .flat_map(|search| &search.widths)
        .flat_map(|found| &found.points)
        .filter(|point| point.runs.recorded > 0)
}

/// The point of the largest ε̄ at which at least 75 % of the recorded runs trained; of several, the one
/// nearest in width to W, and there that of the smallest B.
fn largest_trained(findings: &Findings, wanted: Width) -> Option<&PointFindings> {
    let rate = |point: &PointFindings| point.normalized_learning_rate.get();
    let trained = || recorded_points(findings).filter(|point| point.runs.mostly_trains());
    let largest = trained().map(rate).reduce(f64::max)?;
    trained()
        .filter(|point| rate(point) == largest)
        .min_by(|a, b| nearer(a.width, b.width, wanted).then(a.batch_size.cmp(&b.batch_size)))
}

/// The widths at which a search of the study has records, ascending.
pub fn measured_widths(findings: &Findings) -> Vec<Width> {
    let mut widths: Vec<Width> = recorded_points(findings).map(|point| point.width).collect();
    widths.sort_unstable();
    widths.dedup();
    widths
}

/// At the measured width nearest to W, a point of the largest B, which has the least noise, and there of
/// the smallest ε.
fn failing(findings: &Findings, limit: f64, wanted: Width) -> Option<Failing> {
    let widths = measured_widths(findings).into_iter();
    let nearest = widths.min_by(|a, b| nearer(*a, *b, wanted))?;
    let failed = |point: &PointFindings| point.runs.stalled + point.runs.diverged;
    let contrary = |point: &&PointFindings| {
        let below = point.normalized_learning_rate.get() <= limit * (1.0 + 1e-9);
        point.width == nearest && below && 2 * failed(point) > point.runs.recorded
    };
    let point = recorded_points(findings).filter(contrary).min_by(|a, b| {
        let rates = (a.learning_rate.get()).total_cmp(&b.learning_rate.get());
        b.batch_size.cmp(&a.batch_size).then(rates)
    })?;
    Some(Failing {
        width: point.width,
        batch_size: point.batch_size,
        learning_rate: point.learning_rate,
        failed: failed(point),
        recorded: point.runs.recorded,
    })
}

/// Which of two widths is nearer to a third by its ratio; the smaller of two that are equally near.
fn nearer(a: Width, b: Width, wanted: Width) -> std::cmp::Ordering {
    let ratio = |width: Width| {
        let ratio = f64::from(width.get()) / f64::from(wanted.get());
        ratio.max(ratio.recip())
    };
    ratio(a).total_cmp(&ratio(b)).then(a.cmp(&b))
}
