//! The law of a family: ḡ_opt(w) = a·w, and the exponent that tests it.
//!
//! a = Σ w·ḡ / Σ w² (least squares through the origin), R² = 1 − SS_res/SS_tot with
//! SS_tot about the mean of ḡ, so that a constant scores 0 and not the inflated value
//! of an uncentred R². Beside it p of ḡ_opt ∝ w^p, least squares of ln ḡ on ln w:
//! "linear" is p = 1, tested and not assumed. The intervals of a and p come from the
//! same resamples as those of every ḡ_opt.
//!
//! Only bracketed optima with a known spread are fitted: one that touches the end of
//! its grid bounds ḡ_opt from one side and says no more. The others are listed.

use crate::findings::WidthFindings;
use crate::measure::Measure;
use crate::resample::Confidence;
use serde::Serialize;
use spec::Width;
use std::fmt;

/// One optimum as the fit sees it: a width and a value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Datum {
    /// w.
    pub width: f64,
    /// ḡ_opt, or what stands for it.
    pub value: f64,
}

/// y = a·w, least squares through the origin.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Proportion {
    /// a, in the unit of the measure.
    pub slope: f64,
    /// 1 − SS_res/SS_tot about the mean; `None` where all values are equal.
    pub r_squared: Option<f64>,
}

/// y = c·w^p, least squares in ln y against ln w.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Power {
    /// p.
    pub exponent: f64,
    /// c.
    pub prefactor: f64,
}

impl Proportion {
    /// The fit; `None` without data.
    pub fn fit(data: &[Datum]) -> Option<Self> {
        let squares: f64 = data.iter().map(|d| d.width * d.width).sum();
        let products: f64 = data.iter().map(|d| d.width * d.value).sum();
        let slope = products / squares;
        let mean = data.iter().map(|d| d.value).sum::<f64>() / data.len() as f64;
        let residual: f64 = data
            .iter()
            .map(|d| (d.value - slope * d.width).powi(2))
            .sum();
        let total: f64 = data.iter().map(|d| (d.value - mean).powi(2)).sum();
        slope.is_finite().then(|| Self {
            slope,
            r_squared: (total > 0.0).then(|| 1.0 - residual / total),
        })
    }
}

impl Power {
    /// The fit; `None` with fewer than two different widths or a value that is not positive.
    pub fn fit(data: &[Datum]) -> Option<Self> {
        let count = data.len() as f64;
        let mean_x = data.iter().map(|d| d.width.ln()).sum::<f64>() / count;
        let mean_y = data.iter().map(|d| d.value.ln()).sum::<f64>() / count;
        let squares: f64 = data.iter().map(|d| (d.width.ln() - mean_x).powi(2)).sum();
        let products: f64 = data
            .iter()
            .map(|d| (d.width.ln() - mean_x) * (d.value.ln() - mean_y))
            .sum();
        let exponent = products / squares;
        let prefactor = (mean_y - exponent * mean_x).exp();
        (squares > 0.0 && exponent.is_finite() && prefactor.is_finite()).then_some(Self {
            exponent,
            prefactor,
        })
    }
}

/// The law of one search over a family.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Law {
    /// What follows the width; gives the unit of a.
    pub measure: Measure,
    /// a and R².
    pub proportion: Proportion,
    /// Bootstrap interval of a.
    pub slope_confidence: Option<Confidence>,
    /// p and its prefactor.
    pub power: Power,
    /// Bootstrap interval of p.
    pub exponent_confidence: Option<Confidence>,
    /// The widths whose optima were fitted, ascending; n of the fit is their number.
    pub widths: Vec<Width>,
    /// The widths that were not, and why.
    pub excluded: Vec<Exclusion>,
}

/// What the interval of p says of how the optimum grows with the width.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Growth {
    /// It holds 1, and not 0: consistent with a linear law.
    Proportional,
    /// It does not hold 1.
    NotProportional,
    /// It holds 1, and 0 as well: an optimum that does not move would fit, too.
    Undecided,
}

impl Law {
    /// How the optimum grows with the width; `None` without an interval of p.
    pub fn growth(&self) -> Option<Growth> {
        let interval = self.exponent_confidence?.interval;
        Some(match (interval.contains(&1.0), interval.contains(&0.0)) {
            (true, false) => Growth::Proportional,
            (true, true) => Growth::Undecided,
            (false, _) => Growth::NotProportional,
        })
    }
}

/// A width that is not in the fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Exclusion {
    /// w.
    pub width: Width,
    /// Why.
    pub reason: ExclusionReason,
}

/// Why an optimum is not in the fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ExclusionReason {
    /// No run trained, or none is recorded.
    NoOptimum,
    /// The best interval touches the end of the grid or a point without records.
    NotBracketed,
    /// The best point has a single trained run.
    SpreadUnknown,
}

impl fmt::Display for Exclusion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let why = match self.reason {
            ExclusionReason::NoOptimum => "no trained run",
            ExclusionReason::NotBracketed => "best interval not bracketed",
            ExclusionReason::SpreadUnknown => "a single trained run at the best point",
        };
        write!(f, "w = {}: {why}", self.width)
    }
}

/// Why there is no law.
#[derive(Debug, Clone, PartialEq, Serialize, thiserror::Error)]
#[error(
    "a law needs bracketed optima at two widths or more, and there are {}{}",
    .usable.len(), listed(.excluded)
)]
pub struct NoLaw {
    /// The widths whose optima could be fitted.
    pub usable: Vec<Width>,
    /// The widths that could not, and why.
    pub excluded: Vec<Exclusion>,
}

fn listed(excluded: &[Exclusion]) -> String {
    let each: Vec<String> = excluded.iter().map(ToString::to_string).collect();
    if each.is_empty() {
        String::new()
    } else {
        format!(" ({})", each.join("; "))
    }
}

/// A law, or why there is none.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "state", rename_all = "kebab-case")]
pub enum LawFit {
    /// There is one.
    Fitted(Law),
    /// There is none.
    Unfitted(NoLaw),
}

impl LawFit {
    /// The law, or why there is none.
    pub fn law(&self) -> Result<&Law, &NoLaw> {
        match self {
            Self::Fitted(law) => Ok(law),
            Self::Unfitted(reason) => Err(reason),
        }
    }
}

/// What the fit takes of a width, or why it takes nothing.
fn datum(found: &WidthFindings) -> Result<Datum, Exclusion> {
    let exclude = |reason| Exclusion {
        width: found.width,
        reason,
    };
    let optimum = (found.optimum.as_ref()).ok_or_else(|| exclude(ExclusionReason::NoOptimum))?;
    if !optimum.bracketed() {
        return Err(exclude(ExclusionReason::NotBracketed));
    }
    if optimum.threshold.is_none() {
        return Err(exclude(ExclusionReason::SpreadUnknown));
    }
    Ok(Datum {
        width: f64::from(found.width.get()),
        value: optimum.estimate.value,
    })
}

/// Fits the law to the optima of a search; `level` is that of the bootstrap intervals.
pub fn fit(measure: Measure, all: &[WidthFindings], level: f64) -> LawFit {
    let (mut used, mut data, mut excluded) = (Vec::new(), Vec::new(), Vec::new());
    for found in all {
        match datum(found) {
            Ok(datum) => {
                used.push(found);
                data.push(datum);
            }
            Err(exclusion) => excluded.push(exclusion),
        }
    }
    let widths = used.iter().map(|found| found.width).collect();
    let (Some(proportion), Some(power)) = (Proportion::fit(&data), Power::fit(&data)) else {
        return LawFit::Unfitted(NoLaw {
            usable: widths,
            excluded,
        });
    };
    let resampled: Vec<Vec<Datum>> = resampled_data(&used);
    let slopes = resampled.iter().filter_map(|d| Proportion::fit(d));
    let exponents = resampled.iter().filter_map(|d| Power::fit(d));
    LawFit::Fitted(Law {
        measure,
        proportion,
        slope_confidence: Confidence::of(slopes.map(|fit| fit.slope).collect(), level),
        power,
        exponent_confidence: Confidence::of(exponents.map(|fit| fit.exponent).collect(), level),
        widths,
        excluded,
    })
}

/// For every resample, the optima of the fitted widths; a resample in which no run
/// of some width trained is left out.
fn resampled_data(used: &[&WidthFindings]) -> Vec<Vec<Datum>> {
    let resamples = used.iter().map(|found| found.replicates.values.len()).min();
    let one = |at: usize| {
        used.iter()
            .map(|found| {
                found.replicates.values[at].map(|value| Datum {
                    width: f64::from(found.width.get()),
                    value,
                })
            })
            .collect()
    };
    (0..resamples.unwrap_or(0)).filter_map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn data(pairs: &[(f64, f64)]) -> Vec<Datum> {
        let datum = |(width, value): &(f64, f64)| Datum {
            width: *width,
            value: *value,
        };
        pairs.iter().map(datum).collect()
    }

    #[test]
    fn proportion_by_hand() {
        // Σwy = 2 + 6 + 21 = 29, Σw² = 14, a = 29/14. SS_res = Σy² − aΣwy
        // = 62 − 841/14 = 27/14; about the mean 4: SS_tot = 4 + 1 + 9 = 14.
        // R² = 1 − 27/196 = 169/196.
        let fit = Proportion::fit(&data(&[(1.0, 2.0), (2.0, 3.0), (3.0, 7.0)])).unwrap();
        assert!((fit.slope - 29.0 / 14.0).abs() < 1e-12);
        assert!((fit.r_squared.unwrap() - 169.0 / 196.0).abs() < 1e-12);
    }

    #[test]
    fn a_constant_scores_no_better_than_zero() {
        // All values equal: SS_tot = 0 and R² is not defined.
        let fit = Proportion::fit(&data(&[(1.0, 5.0), (2.0, 5.0)])).unwrap();
        assert_eq!(fit.r_squared, None);
        assert_eq!(Proportion::fit(&[]), None);
    }

    #[test]
    fn power_by_hand() {
        // 3w² at w = 1, 2, 4.
        let fit = Power::fit(&data(&[(1.0, 3.0), (2.0, 12.0), (4.0, 48.0)])).unwrap();
        assert!((fit.exponent - 2.0).abs() < 1e-12);
        assert!((fit.prefactor - 3.0).abs() < 1e-12);
        // In units of ln 2: x = 0, 1, 2 and y = 0, 2, 1; about their means (1, 1)
        // Σxy = 1 + 0 + 0 = 1 and Σx² = 2: p = ½, c = 2^(1 − ½) = √2.
        let fit = Power::fit(&data(&[(1.0, 1.0), (2.0, 4.0), (4.0, 2.0)])).unwrap();
        assert!((fit.exponent - 0.5).abs() < 1e-12);
        assert!((fit.prefactor - 2.0_f64.sqrt()).abs() < 1e-12);
    }

    #[test]
    fn one_width_has_no_exponent() {
        assert_eq!(Power::fit(&data(&[(2.0, 1.0)])), None);
        assert_eq!(Power::fit(&data(&[(2.0, 1.0), (2.0, 3.0)])), None);
        assert_eq!(Power::fit(&data(&[(2.0, 1.0), (3.0, 0.0)])), None);
    }

    #[test]
    fn no_law_says_why() {
        let width = Width::new(8).unwrap();
        let no = NoLaw {
            usable: Vec::new(),
            excluded: vec![Exclusion {
                width,
                reason: ExclusionReason::NotBracketed,
            }],
        };
        assert_eq!(
            no.to_string(),
            "a law needs bracketed optima at two widths or more, and there are 0 \
             (w = 8: best interval not bracketed)"
        );
    }
}
