//! Comparisons: the two searches of one study, and the two schemes of one family.
//!
//! If ḡ alone matters, a batch-size search and a learning-rate search must find the
//! same ḡ_opt and the same peak accuracy at every width (figures 2 and 3 of the
//! paper). Standard and NTK networks are compared by peak accuracy (its section I).

use crate::findings::{Findings, SearchFindings, WidthFindings};
use crate::measure::{Estimate, Interval};
use crate::optimum::Optimum;
use crate::resample::Confidence;
use crate::sample::Sample;
use serde::Serialize;
use spec::{Scheme, SearchKind, Width};

/// What one search found at one width.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Found {
    /// ḡ_opt, or what stands for it.
    pub estimate: Estimate,
    /// Its bootstrap interval.
    pub confidence: Option<Confidence>,
    /// Accuracy at the best point.
    pub peak: Sample,
    /// Whether the best interval is bracketed on both sides.
    pub bracketed: bool,
}

impl Found {
    /// Whether the scatter of runs is known at the best point: with one run the range has no width.
    fn has_spread(&self) -> bool {
        self.peak.standard_error.is_some()
    }

    /// The error bar, widened to the bootstrap interval.
    pub fn range(&self) -> Interval<f64> {
        let bar = self.estimate.bar;
        self.confidence.map_or(bar, |confidence| Interval {
            low: bar.low.min(confidence.interval.low),
            high: bar.high.max(confidence.interval.high),
        })
    }
}

/// The difference of two means.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Difference {
    /// Second minus first.
    pub value: f64,
    /// √(σ₁²/n₁ + σ₂²/n₂); `None` where a deviation is not defined.
    pub standard_error: Option<f64>,
}

impl Difference {
    /// The difference of the means of two samples.
    pub fn between(first: Sample, second: Sample) -> Self {
        let errors = first.standard_error.zip(second.standard_error);
        Self {
            value: second.mean - first.mean,
            standard_error: errors.map(|(a, b)| a.hypot(b)),
        }
    }
}

/// Batch-size search against learning-rate search at one width.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct SearchAgreement {
    /// w.
    pub width: Width,
    /// What the batch-size search found.
    pub batch_size: Found,
    /// What the learning-rate search found.
    pub learning_rate: Found,
    /// ḡ_opt of the learning-rate search over that of the batch-size search; `None`
    /// with batch norm, where the two are measured in different things.
    pub ratio: Option<f64>,
    /// Bootstrap interval of the ratio.
    pub ratio_confidence: Option<Confidence>,
    /// Whether the two ranges (error bar and bootstrap interval) overlap; `None` with
    /// batch norm, and where one of the best points has a single trained run.
    pub ranges_overlap: Option<bool>,
    /// Peak accuracy of the learning-rate search minus that of the batch-size search.
    pub peak_difference: Difference,
}

/// Standard against NTK at one width.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct SchemeDifference {
    /// w.
    pub width: Width,
    /// Highest mean accuracy in the standard scheme.
    pub standard: Sample,
    /// Highest mean accuracy in the NTK scheme.
    pub ntk: Sample,
    /// NTK minus standard.
    pub difference: Difference,
}

/// Why two studies cannot be compared.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum CompareError {
    /// Both are of one scheme.
    #[error(
        "`{first}` and `{second}` are both in the {scheme} scheme; \
         give one study of each scheme"
    )]
    SameScheme {
        /// Name of the first study.
        first: String,
        /// Name of the second study.
        second: String,
        /// The scheme of both.
        scheme: Scheme,
    },
    /// They are about different networks or data.
    #[error(
        "`{first}` and `{second}` differ in task, family, batch norm, optimizer, weight scale or regularizers; \
         only their scheme may differ"
    )]
    DifferentNetworks {
        /// Name of the first study.
        first: String,
        /// Name of the second study.
        second: String,
    },
    /// No width was measured in both.
    #[error("`{first}` and `{second}` have no width in common at which runs trained")]
    NoCommonWidth {
        /// Name of the first study.
        first: String,
        /// Name of the second study.
        second: String,
    },
}

/// The two searches of a paired study, at every width where both have an optimum.
pub fn searches(all: &[SearchFindings]) -> Vec<SearchAgreement> {
    let of_kind = |kind| all.iter().find(|search| search.kind == kind);
    let (Some(batch), Some(rate)) = (
        of_kind(SearchKind::BatchSize),
        of_kind(SearchKind::LearningRate),
    ) else {
        return Vec::new();
    };
    let agreement = |one: &WidthFindings| {
        let other = rate.widths.iter().find(|w| w.width == one.width)?;
        at_width(one, other)
    };
    batch.widths.iter().filter_map(agreement).collect()
}

/// The two searches at one width, if both have an optimum.
pub fn at_width(
    batch_size: &WidthFindings,
    learning_rate: &WidthFindings,
) -> Option<SearchAgreement> {
    let [one, other] = [batch_size, learning_rate].map(|found| found.optimum.as_ref());
    let mut both = agreement(batch_size.width, found(one?), found(other?));
    if both.ratio.is_some() {
        both.ratio_confidence = ratio_confidence(batch_size, learning_rate);
    }
    Some(both)
}

/// The interval of ḡ_opt over ḡ_opt: the two searches are resampled independently, so any
/// resample of one goes with any of the other.
fn ratio_confidence(under: &WidthFindings, over: &WidthFindings) -> Option<Confidence> {
    let level = |found: &WidthFindings| Some(found.optimum.as_ref()?.confidence?.level);
    let level = level(under).and(level(over))?;
    let pairs = under.replicates.values.iter().zip(&over.replicates.values);
    let ratios = pairs.filter_map(|(under, over)| Some((*over)? / (*under)?));
    Confidence::of(ratios.collect(), level)
}

fn found(optimum: &Optimum) -> Found {
    Found {
        estimate: optimum.estimate,
        confidence: optimum.confidence,
        peak: optimum.peak,
        bracketed: optimum.bracketed(),
    }
}

fn agreement(width: Width, batch_size: Found, learning_rate: Found) -> SearchAgreement {
    let [one, other] = [batch_size.estimate, learning_rate.estimate];
    let comparable = one.measure == other.measure;
    let spread = batch_size.has_spread() && learning_rate.has_spread();
    SearchAgreement {
        width,
        ratio: comparable.then(|| other.value / one.value),
        ratio_confidence: None,
        ranges_overlap: (comparable && spread)
            .then(|| batch_size.range().overlaps(&learning_rate.range())),
        peak_difference: Difference::between(batch_size.peak, learning_rate.peak),
        batch_size,
        learning_rate,
    }
}

/// Peak accuracies of two studies that differ in their scheme, in either order, at
/// every width where both have one.
pub fn schemes(one: &Findings, other: &Findings) -> Result<Vec<SchemeDifference>, CompareError> {
    let (first, second) = (one.study.name.clone(), other.study.name.clone());
    if one.study.scheme == other.study.scheme {
        let scheme = one.study.scheme;
        return Err(CompareError::SameScheme {
            first,
            second,
            scheme,
        });
    }
    if !one.study.same_networks(&other.study) {
        return Err(CompareError::DifferentNetworks { first, second });
    }
    let (standard, ntk) = match one.study.scheme {
        Scheme::Standard => (one, other),
        Scheme::Ntk => (other, one),
    };
    let difference = |width: &Width| {
        let (standard, ntk) = (standard.peak(*width)?, ntk.peak(*width)?);
        Some(SchemeDifference {
            width: *width,
            standard,
            ntk,
            difference: Difference::between(standard, ntk),
        })
    };
    let all: Vec<SchemeDifference> = (standard.study.widths.iter())
        .filter_map(difference)
        .collect();
    if all.is_empty() {
        return Err(CompareError::NoCommonWidth { first, second });
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::Measure;

    fn side(measure: Measure, ends: [f64; 2], peak: &[f64]) -> Found {
        Found {
            estimate: Estimate::between(measure, ends[0], ends[1]),
            confidence: None,
            peak: Sample::of(peak).unwrap(),
            bracketed: true,
        }
    }

    #[test]
    fn agreement_by_hand() {
        let width = Width::new(4).unwrap();
        // ḡ 15 of [10, 20] against 24 of [18, 30]: ratio 1.6, overlapping in [18, 20].
        // Peaks 0.90, 0.92 and 0.93, 0.97: means 0.91 and 0.95, errors
        // 0.01414/√2 = 0.01 and 0.02828/√2 = 0.02, together √0.0005.
        let one = side(Measure::NormalizedNoise, [10.0, 20.0], &[0.90, 0.92]);
        let other = side(Measure::NormalizedNoise, [18.0, 30.0], &[0.93, 0.97]);
        let both = agreement(width, one, other);
        assert!((both.ratio.unwrap() - 1.6).abs() < 1e-12);
        assert_eq!(both.ranges_overlap, Some(true));
        assert!((both.peak_difference.value - 0.04).abs() < 1e-12);
        let error = both.peak_difference.standard_error.unwrap();
        assert!((error - 0.0005_f64.sqrt()).abs() < 1e-12);
    }

    #[test]
    fn one_run_tells_nothing_of_ranges() {
        let one = side(Measure::NormalizedNoise, [10.0, 10.0], &[0.90, 0.92]);
        let other = side(Measure::NormalizedNoise, [18.0, 18.0], &[0.93]);
        for (one, other) in [(one, other), (other, one)] {
            let both = agreement(Width::new(4).unwrap(), one, other);
            assert!(both.ratio.is_some());
            assert_eq!(both.ranges_overlap, None);
        }
        let both = agreement(Width::new(4).unwrap(), one, one);
        assert_eq!(both.ranges_overlap, Some(true));
    }

    #[test]
    fn different_measures_have_no_ratio() {
        let one = side(Measure::InverseBatchSize, [0.1, 0.2], &[0.9]);
        let other = side(Measure::LearningRate, [1.0, 2.0], &[0.9]);
        let both = agreement(Width::new(4).unwrap(), one, other);
        assert_eq!((both.ratio, both.ranges_overlap), (None, None));
        assert_eq!(both.peak_difference.standard_error, None);
    }
}
