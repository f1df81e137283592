//! Prediction: the batch size and learning rate for the next width.
//!
//! The law gives ḡ = a·W, and every pair (B, ε) with
//! ε·N·c/(B(1 − m)) = ḡ is on it, c being 1/σ₀² in the NTK scheme and W/σ₀² in the
//! standard one. The rate must stay stable: ε ≤ ε_max, with ε̄_max = ε_max·c constant
//! over widths (section 2.1 of the paper). So the largest batch size that still
//! reaches ḡ is B_max = ε̄_max·N/((1 − m)·ḡ), and since B ≥ 1 there is a critical
//! width w* = ε̄_max·N/((1 − m)·a) beyond which no pair reaches it (its section 5).

mod error;
mod limit;
mod scale;

pub use error::PredictError;
pub use limit::{Failing, LimitSource, RateLimit, measured_widths};

use crate::findings::{Findings, SearchFindings};
use crate::late::LateState;
use crate::law::{Growth, Law};
use crate::measure::{Fixed, Interval, Measure};
use limit::rate_limit;
use scale::Scale;
use serde::Serialize;
use spec::{BatchSize, LearningRate, SearchKind, Width};

/// What is asked.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Request {
    /// W.
    pub width: Width,
    /// Which search's law; `None` takes the batch-size search's if it has one.
    pub search: Option<SearchKind>,
    /// What is given already; the answer then holds the other.
    pub fixed: Option<Fixed>,
}

/// Where W lies against the fitted widths.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reach {
    /// Between the smallest and the largest.
    Interpolates,
    /// Outside them: the law was not tested there.
    Extrapolates,
}

/// Whether a learning rate keeps to ε_max.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stability {
    /// ε ≤ ε_max.
    Allowed,
    /// ε > ε_max.
    AboveLimit,
}

/// A batch size and the learning rate that reaches ḡ with it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Pair {
    /// B.
    pub batch_size: BatchSize,
    /// At a fixed ε, B over the interval of ḡ; else that B twice.
    pub batch_sizes: Interval<BatchSize>,
    /// ε.
    pub learning_rate: LearningRate,
    /// ε over the interval of ḡ, or, at a fixed ε, that ε twice.
    pub learning_rates: Interval<LearningRate>,
    /// ḡ that the pair has; differs from the law's where B had to be rounded.
    pub noise: f64,
    /// Whether ε keeps to ε_max.
    pub stability: Stability,
}

/// A value that follows from a, with the interval that follows from that of a.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Predicted {
    /// The value.
    pub value: f64,
    /// From the bootstrap interval of a; the value twice if a has none.
    pub interval: Interval<f64>,
}

/// The settings for a width.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Prediction {
    /// W.
    pub width: Width,
    /// The search whose law it rests on.
    pub search: SearchKind,
    /// The widths of that law.
    pub fitted: Vec<Width>,
    /// Where W lies against them.
    pub reach: Reach,
    /// Whether the law is linear, as far as the interval of its exponent tells: it does not where it
    /// holds both 1 and 0.
    pub linear: Option<bool>,
    /// Those of its widths at whose optimum validation accuracy still rises: trained for longer, they
    /// may have another.
    pub still_rising: Vec<Width>,
    /// ḡ = a·W, in 1/\[loss\].
    pub noise: Predicted,
    /// ε_max.
    pub limit: RateLimit,
    /// Pairs on the law at B = 1, 2, 4, … up to N.
    pub pairs: Vec<Pair>,
    /// The pair at the fixed B or ε; `None` if none was fixed.
    pub chosen: Option<Pair>,
    /// The largest B that reaches ḡ with ε ≤ ε_max; `None` beyond the critical width.
    pub largest_batch_size: Option<BatchSize>,
    /// w*, the width beyond which no B ≥ 1 and ε ≤ ε_max reach ḡ.
    pub critical_width: Predicted,
}

/// The settings for a width from the law of a study; `stability` is a stability study
/// of the same networks, if there is one.
pub fn predict(
    findings: &Findings,
    stability: Option<&Findings>,
    request: &Request,
) -> Result<Prediction, PredictError> {
    let (search, law) = law_of(findings, request.search)?;
    let scale = Scale {
        study: &findings.study,
        width: request.width,
    };
    let limit = rate_limit(findings, stability, &scale)?;
    let noise = predicted(law, f64::from(request.width.get()));
    let (Some(low), Some(high)) = (law.widths.first(), law.widths.last()) else {
        return Err(PredictError::NoSearch(findings.study.name.clone()));
    };
    let reach = if (low..=high).contains(&&request.width) {
        Reach::Interpolates
    } else {
        Reach::Extrapolates
    };
    let most_noise = scale.noise(limit.learning_rate.get(), 1.0);
    let pairs = powers_of_two(findings.study.examples)
        .map(|size| scale.pair_at_size(size, noise, limit))
        .collect::<Result<_, _>>()?;
    Ok(Prediction {
        width: request.width,
        search: search.kind,
        fitted: law.widths.clone(),
        reach,
        linear: match law.growth() {
            Some(Growth::Proportional) => Some(true),
            Some(Growth::NotProportional) => Some(false),
            Some(Growth::Undecided) | None => None,
        },
        still_rising: still_rising(search, law),
        noise,
        limit,
        pairs,
        chosen: request
            .fixed
            .map(|fixed| scale.chosen(fixed, noise, limit))
            .transpose()?,
        largest_batch_size: scale.batch_size(most_noise / noise.value),
        critical_width: critical_width(law, most_noise),
    })
}

fn still_rising(search: &SearchFindings, law: &Law) -> Vec<Width> {
    let fitted = (search.widths.iter()).filter(|found| law.widths.contains(&found.width));
    fitted
        .filter(|found| {
            let late = found.optimum.as_ref().map(|optimum| optimum.late);
            late == Some(LateState::StillRising)
        })
        .map(|found| found.width)
        .collect()
}

fn law_of(
    findings: &Findings,
    wanted: Option<SearchKind>,
) -> Result<(&SearchFindings, &Law), PredictError> {
    let study = || findings.study.name.clone();
    if findings.study.batch_norm {
        return Err(PredictError::BatchNorm(study()));
    }
    let candidates: Vec<&SearchFindings> = (findings.searches.iter())
        .filter(|search| search.measure == Measure::NormalizedNoise)
        .filter(|search| wanted.is_none_or(|kind| kind == search.kind))
        .collect();
    let first = candidates
        .first()
        .ok_or_else(|| PredictError::NoSearch(study()))?;
    for search in &candidates {
        if let Ok(law) = search.law.law() {
            return Ok((search, law));
        }
    }
    match first.law.law() {
        Ok(law) => Ok((first, law)),
        Err(reason) => Err(PredictError::NoLaw {
            study: study(),
            reason: reason.clone(),
        }),
    }
}

/// a·w with the interval of a.
fn predicted(law: &Law, width: f64) -> Predicted {
    let value = law.proportion.slope * width;
    let interval = law
        .slope_confidence
        .map_or(Interval::between(value, value), |confidence| Interval {
            low: confidence.interval.low * width,
            high: confidence.interval.high * width,
        });
    Predicted { value, interval }
}

/// w* = ḡ_max/a; the larger a, the sooner it comes.
fn critical_width(law: &Law, most_noise: f64) -> Predicted {
    let slope = predicted(law, 1.0);
    Predicted {
        value: most_noise / slope.value,
        interval: Interval {
            low: most_noise / slope.interval.high,
            high: most_noise / slope.interval.low,
        },
    }
}

fn powers_of_two(most: u32) -> impl Iterator<Item = u32> {
    std::iter::successors(Some(1_u32), |size| size.checked_mul(2)).take_while(move |s| *s <= most)
}
