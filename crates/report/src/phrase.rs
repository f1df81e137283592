//! Sentences about findings that several pages share: an estimate, a law, its meaning.

use crate::number::{self, Magnitude};
use crate::words;
use analysis::stability::LimitTrend;
use analysis::{Confidence, Growth, Law, Measure, Optimum, SearchFindings};
use spec::Scheme;

/// A value of a measure with its interval and unit: `5.2 [4.3, 6.1] ·10³/[loss]`.
pub fn quantity(value: f64, interval: Option<analysis::Interval<f64>>, measure: Measure) -> String {
    let largest = interval.map_or(value, |ends| ends.high.max(value));
    let magnitude = Magnitude::of(largest);
    let scaled = interval.map(|ends| magnitude.scaled_interval(ends));
    let text = number::with_interval(magnitude.scaled(value), scaled);
    in_unit(text, &magnitude.unit(measure.unit()))
}

fn in_unit(text: String, unit: &str) -> String {
    if unit.is_empty() {
        text
    } else if unit.starts_with("10") {
        format!("{text} ·{unit}")
    } else {
        format!("{text} {}", unit.replacen("1/", "/", 1))
    }
}

/// `ḡ_opt = 5.2 [4.3, 6.1] ·10³/[loss]`, for marks.
pub fn estimate(optimum: &Optimum) -> String {
    let estimate = optimum.estimate;
    format!(
        "{} = {}",
        words::plain(&words::optimal(estimate.measure)),
        quantity(estimate.value, Some(estimate.bar), estimate.measure)
    )
}

/// `95 % bootstrap interval [4.0, 6.4] ·10³/[loss]`.
pub fn bootstrap(confidence: Confidence, measure: Measure) -> String {
    let magnitude = Magnitude::of(confidence.interval.high);
    let text = number::interval(magnitude.scaled_interval(confidence.interval));
    format!(
        "{} bootstrap interval {}",
        level(confidence),
        in_unit(text, &magnitude.unit(measure.unit()))
    )
}

/// `95 %`.
pub fn level(confidence: Confidence) -> String {
    format!("{} %", number::significant(100.0 * confidence.level, 3))
}

/// What a search says of the law, in one line.
pub fn law_line(search: &SearchFindings) -> String {
    let head = format!("{} at {}", words::search(search.kind), words::fixed(search));
    match search.law.law() {
        Ok(law) => format!("{head}: {}", law_numbers(law)),
        Err(reason) => format!(
            "{head}: no law ({} usable)",
            words::counted_as(reason.usable.len() as u64, "optimum", "optima")
        ),
    }
}

/// `a = 1.53 [1.40, 1.66] ·10³/[loss], R² = 0.993, p = 0.98 [0.91, 1.05], 7 widths (95 % intervals)`.
pub fn law_numbers(law: &Law) -> String {
    let mut parts = vec![
        format!("a = {}", slope(law)),
        format!("R² = {}", r_squared(law)),
        format!("p = {}", exponent(law)),
        words::counted(law.widths.len() as u64, "width"),
    ];
    if let Some(confidence) = law.slope_confidence {
        parts.push(format!("{} intervals", level(confidence)));
    }
    parts.join(", ")
}

/// `ε_{half} ∝ w^{q}, q = 0.02 [−0.05, 0.10], 5 widths; 0 is expected in the NTK scheme`.
pub fn limit_trend(trend: &LimitTrend, scheme: Scheme) -> String {
    let expected = match scheme {
        Scheme::Ntk => "0 is expected in the NTK scheme",
        Scheme::Standard => "−1 is expected in the standard scheme",
    };
    // From half of what the interval leaves out on.
    let beyond = match trend.resamples_at_grid_end {
        share if share > 0.025 => format!(
            "; in {} % of the resamples a limit lies beyond the grid, whose end is taken",
            number::fixed(100.0 * share, 0)
        ),
        _ => String::new(),
    };
    format!(
        "ε_{{half}} ∝ w^{{q}}, q = {}, {}; {expected}{beyond}",
        limit_exponent(trend),
        words::counted(trend.widths.len() as u64, "width")
    )
}

/// q with its interval.
pub fn limit_exponent(trend: &LimitTrend) -> String {
    let interval = trend.exponent_confidence.map(|found| found.interval);
    // What is expected in the two schemes.
    number::with_interval_about(trend.exponent, interval, &[0.0, -1.0])
}

/// a with its interval and unit.
pub fn slope(law: &Law) -> String {
    let interval = law.slope_confidence.map(|confidence| confidence.interval);
    quantity(law.proportion.slope, interval, law.measure)
}

/// Whether R² says something: of two widths it is near 1 whatever the optima do.
pub fn tests_linearity(law: &Law) -> bool {
    law.widths.len() > 2
}

/// R², or that it is not defined; a dash with two widths.
pub fn r_squared(law: &Law) -> String {
    if !tests_linearity(law) {
        return number::ABSENT.into();
    }
    (law.proportion.r_squared).map_or("not defined".into(), |value| number::fixed(value, 3))
}

/// p with its interval.
pub fn exponent(law: &Law) -> String {
    let interval = law
        .exponent_confidence
        .map(|confidence| confidence.interval);
    // What `linearity` tells of it.
    number::with_interval_about(law.power.exponent, interval, &[0.0, 1.0])
}

/// What the exponent says of linearity.
pub fn linearity(law: &Law) -> &'static str {
    match law.growth() {
        Some(Growth::Proportional) => "its interval holds 1: consistent with a linear law",
        Some(Growth::NotProportional) => "its interval does not hold 1: not linear",
        Some(Growth::Undecided) => {
            "its interval holds 1, but 0 as well: too wide to tell whether the optimum grows"
        }
        None => "without an interval, so that linearity is not tested",
    }
}
