//! Failure rate against the learning rate, one curve for every width (section H of
//! the paper's supplement): against ε, and in the standard scheme against ε·w, where
//! the curves should fall on one another.
//!
//! The paper's failure rate is the share of diverged runs. Where runs stalled as
//! well, a second pair of figures counts both.

use super::series::dodge;
use super::{AxisSpec, Extent, Figure, FigureKind, Mark, Marker, Series, Stress, TickStyle};
use crate::palette::Ink;
use crate::{number, phrase, words};
use analysis::measure::Place;
use analysis::stability::{LimitTrend, Rate, StabilityFindings, StabilityPoint, WidthStability};
use analysis::{Findings, Interval};
use spec::{Scheme, SearchKind};

/// Which runs count as failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Counted {
    Diverged,
    Failed,
}

impl Counted {
    fn rate(self, point: &StabilityPoint) -> Option<Rate> {
        match self {
            Self::Diverged => point.diverged,
            Self::Failed => point.failed,
        }
    }

    fn words(self) -> &'static str {
        match self {
            Self::Diverged => "diverged runs",
            Self::Failed => "diverged or stalled runs",
        }
    }

    /// What half of the runs do at ε_half.
    fn verb(self) -> &'static str {
        match self {
            Self::Diverged => "diverge",
            Self::Failed => "fail",
        }
    }

    fn trend(self, found: &StabilityFindings) -> Option<&LimitTrend> {
        match self {
            Self::Diverged => found.divergence_trend.as_ref(),
            Self::Failed => found.failure_trend.as_ref(),
        }
    }
}

/// What the rate is drawn against.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Against {
    Rate,
    RateTimesWidth,
}

/// The figures of a stability study.
pub fn figures(findings: &Findings) -> Vec<Figure> {
    let Some(found) = &findings.stability else {
        return Vec::new();
    };
    let stalled = |point: &StabilityPoint| point.runs.stalled > 0;
    let any_stalled = found.widths.iter().flat_map(|w| &w.points).any(stalled);
    let mut counted = vec![Counted::Diverged];
    if any_stalled {
        counted.push(Counted::Failed);
    }
    let mut against = vec![Against::Rate];
    if findings.study.scheme == Scheme::Standard {
        against.push(Against::RateTimesWidth);
    }
    (counted.iter())
        .flat_map(|what| against.iter().map(move |along| (*what, *along)))
        .map(|(what, along)| figure(findings, found, what, along))
        .collect()
}

fn figure(
    findings: &Findings,
    found: &StabilityFindings,
    counted: Counted,
    against: Against,
) -> Figure {
    let unit = "[weight]²/[loss]";
    let (name, x) = match against {
        Against::Rate => (
            "ε",
            AxisSpec::log("learning rate ε", unit, TickStyle::Decimal),
        ),
        Against::RateTimesWidth => ("ε·w", AxisSpec::log("ε·w", unit, TickStyle::Decimal)),
    };
    let mut subtitle = vec![
        words::settings(&findings.study),
        format!("B = {} · {}", found.batch_size, recorded(found)),
    ];
    subtitle.extend(
        counted
            .trend(found)
            .map(|trend| trend_words(trend, counted, against, findings.study.scheme)),
    );
    let share = Interval {
        low: 0.0,
        high: 100.0,
    };
    Figure {
        id: words::slug(&format!(
            "stability {} against {} {}",
            counted.words(),
            if against == Against::Rate {
                "rate"
            } else {
                "rate times width"
            },
            findings.study.name
        )),
        kind: FigureKind::Stability,
        group: words::networks(&findings.study),
        title: format!("Share of {} against {name}", counted.words()),
        subtitle,
        x,
        y: AxisSpec::linear(counted.words(), "%").showing(Extent::Fixed(share)),
        legend: "width".into(),
        series: (found.widths.iter().enumerate())
            .map(|(at, width)| series(found, width, at, counted, against))
            .collect(),
        spans: Vec::new(),
        fits: Vec::new(),
        diagonal: false,
        hollow: None,
        notes: vec![notes(found, against)],
    }
}

fn notes(found: &StabilityFindings, against: Against) -> String {
    let bars = "Bars: Wilson 95 % intervals of the share of recorded runs.";
    match against {
        Against::Rate if found.widths.len() > 1 => {
            format!("{bars} Widths are drawn a little apart.")
        }
        _ => bars.into(),
    }
}

fn recorded(found: &StabilityFindings) -> String {
    let points = || found.widths.iter().flat_map(|width| &width.points);
    let counts = || points().map(|point| point.runs.recorded).filter(|n| *n > 0);
    match (counts().min(), counts().max()) {
        (Some(least), Some(most)) if least == most => format!("n = {least} runs per point"),
        (Some(least), Some(most)) => format!("n = {least} to {most} runs per point"),
        _ => "n = 0".into(),
    }
}

fn trend_words(trend: &LimitTrend, counted: Counted, against: Against, scheme: Scheme) -> String {
    let half = format!("Half of the runs {}", counted.verb());
    let widths = words::counted(trend.widths.len() as u64, "width");
    match against {
        Against::Rate => format!(
            "{half} at ε_{{half}} ∝ w^{{q}} with q = {} ({widths}; the paper: {})",
            phrase::limit_exponent(trend),
            match scheme {
                Scheme::Ntk => "0",
                Scheme::Standard => "−1",
            }
        ),
        Against::RateTimesWidth => format!(
            "{half} at ε̄_{{half}} ∝ w^{{q}} with q = {} ({widths}; the paper: 0)",
            number::with_interval_about(
                trend.normalized_exponent,
                trend.normalized_interval(),
                &[0.0]
            )
        ),
    }
}

fn series(
    found: &StabilityFindings,
    width: &WidthStability,
    at: usize,
    counted: Counted,
    against: Against,
) -> Series {
    let count = found.widths.len();
    let factor = match against {
        Against::Rate => 1.0,
        Against::RateTimesWidth => f64::from(width.width.get()),
    };
    let mark = |point: &StabilityPoint| {
        let rate = counted.rate(point)?;
        let [share, low, high] =
            [rate.share, rate.interval.low, rate.interval.high].map(|share| 100.0 * share);
        Some(Mark {
            x: point.learning_rate.get() * factor,
            y: share,
            y_bar: Some(Interval::between(low, high)),
            n: Some(point.runs.recorded),
            point: Some(words::point_key(
                SearchKind::Stability,
                Place {
                    width: width.width,
                    batch_size: found.batch_size,
                    learning_rate: point.learning_rate,
                },
            )),
            text: vec![
                format!(
                    "w = {}, ε = {}",
                    width.width,
                    words::rate(point.learning_rate)
                ),
                format!(
                    "{} {} % [{}, {}]",
                    counted.words(),
                    number::fixed(share, 1),
                    number::fixed(low, 1),
                    number::fixed(high, 1)
                ),
                format!(
                    "of {} recorded: {} trained, {} stalled, {} diverged",
                    point.runs.recorded,
                    point.runs.trained,
                    point.runs.stalled,
                    point.runs.diverged
                ),
            ],
            ..Mark::default()
        })
    };
    Series {
        label: format!("w = {}", width.width),
        ink: Ink::ordered(at, count),
        marker: Marker::of(at),
        joined: true,
        stress: Stress::Plain,
        dodge: match against {
            // Shares of few runs are often equal, above all 0 and 100 %.
            Against::Rate => dodge(at, count),
            Against::RateTimesWidth => 0.0,
        },
        marks: width.points.iter().filter_map(mark).collect(),
    }
}
