//! Curves of accuracy: what scans and grids have in common.

use super::{Mark, Marker, Open, Series, Span, Stress};
use crate::palette::Ink;
use crate::{number, words};
use analysis::optimum::Edge;
use analysis::{Interval, Optimum, PointFindings, Sample};
use spec::SearchKind;

/// Hollow marks of accuracy curves.
pub const FEW_TRAINED: &str = "fewer than 75 % of the planned runs trained";

/// What the bars of accuracy curves are.
pub const ACCURACY_BARS: &str = "Bars: ± 2 standard errors over the trained runs.";

/// What the strip above a plot is.
pub const STRIP: &str = "Strip above the plot: best interval of each curve, the mark its best point, an arrow a side that is not bracketed.";

/// Mean ± 2 standard errors of an accuracy, in percent.
pub fn two_errors(sample: Sample) -> Option<Interval<f64>> {
    let (mean, error) = (100.0 * sample.mean, 100.0 * sample.standard_error?);
    Some(Interval::between(mean - 2.0 * error, mean + 2.0 * error))
}

/// A curve of accuracies, the `at`th of `count`, in the coordinate that `x` gives.
pub fn accuracy_curve(
    label: String,
    at: usize,
    count: usize,
    search: SearchKind,
    points: &[PointFindings],
    x: impl Fn(&PointFindings) -> f64,
) -> Series {
    let mut marks: Vec<Mark> = (points.iter())
        .filter_map(|point| {
            let mark = accuracy_mark(point, x(point))?;
            let point = Some(words::point_key(search, point.place()));
            Some(Mark { point, ..mark })
        })
        .collect();
    marks.sort_by(|a, b| a.x.total_cmp(&b.x));
    Series {
        label,
        ink: Ink::ordered(at, count),
        marker: Marker::of(at),
        joined: true,
        stress: Stress::Plain,
        dodge: 0.0,
        marks,
    }
}

/// The place of the `at`th of `count` series that are set apart.
pub fn dodge(at: usize, count: usize) -> f64 {
    (at as f64 - 0.5 * (count as f64 - 1.0)).clamp(-3.0, 3.0)
}

/// `n = 20 trained runs at every peak`, or their range.
pub fn peak_counts(peaks: impl IntoIterator<Item = Sample>) -> String {
    let counts: Vec<usize> = peaks.into_iter().map(|sample| sample.count).collect();
    match (counts.iter().min(), counts.iter().max()) {
        (Some(least), Some(most)) if least == most => {
            format!(
                "n = {} at every peak",
                words::counted(*least as u64, "trained run")
            )
        }
        (Some(least), Some(most)) => format!("n = {least} to {most} trained runs at the peaks"),
        _ => "n = 0".into(),
    }
}

/// The mark of a point's accuracy at x; `None` without a trained run.
fn accuracy_mark(point: &PointFindings, x: f64) -> Option<Mark> {
    let sample = point.accuracy?;
    let y = 100.0 * sample.mean;
    let finite = x.is_finite() && y.is_finite();
    finite.then(|| Mark {
        x,
        y,
        y_bar: two_errors(sample),
        n: Some(point.runs.trained),
        hollow: point.few_trained,
        text: point_text(point),
        ..Mark::default()
    })
}

/// What a point says on hover.
fn point_text(point: &PointFindings) -> Vec<String> {
    let mut lines = vec![format!(
        "w = {}, B = {}, ε = {}",
        point.width,
        point.batch_size,
        words::rate(point.learning_rate)
    )];
    if let Some(noise) = point.normalized_noise {
        lines.push(format!(
            "ḡ = {} /[loss]",
            number::significant(noise.get(), 3)
        ));
    }
    lines.push(match point.accuracy {
        Some(sample) => format!("test accuracy {}", words::accuracy(sample)),
        None => "no trained run".into(),
    });
    lines.push(runs_text(point));
    lines.push(format!(
        "{} steps, validation accuracy {}",
        number::count(point.steps),
        words::late(point.late.state)
    ));
    lines
}

/// `18 of 20 runs trained, 1 stalled, 1 diverged`.
fn runs_text(point: &PointFindings) -> String {
    let runs = point.runs;
    let mut text = format!("{} of {} runs trained", runs.trained, runs.planned);
    for (count, word) in [
        (runs.stalled, "stalled"),
        (runs.diverged, "diverged"),
        (runs.missing(), "to come"),
        (runs.skipped, "skipped by the adaptive rule"),
    ] {
        if count > 0 {
            text += &format!(", {count} {word}");
        }
    }
    text
}

/// The best interval of a curve, in the coordinate that `x` gives its points.
pub fn span(
    label: &str,
    ink: Ink,
    points: &[PointFindings],
    optimum: &Optimum,
    x: impl Fn(&PointFindings) -> f64,
) -> Option<Span> {
    let at = |place: usize| points.get(place).map(&x).filter(|x| x.is_finite());
    let (first, last) = (at(optimum.at.first)?, at(optimum.at.last)?);
    // Along ḡ a scan of batch sizes runs backwards.
    let (low, high) = if last < first || points_run_backwards(points, &x) {
        (optimum.high_edge, optimum.low_edge)
    } else {
        (optimum.low_edge, optimum.high_edge)
    };
    Some(Span {
        ink,
        ends: Interval::between(first, last),
        best: at(optimum.at.best)?,
        open: Open {
            below: low != Edge::Bracketed,
            above: high != Edge::Bracketed,
        },
        text: vec![
            format!("{label}: best interval"),
            format!("peak {}", words::accuracy(optimum.peak)),
            bracketing(optimum).into(),
        ],
    })
}

fn points_run_backwards(points: &[PointFindings], x: impl Fn(&PointFindings) -> f64) -> bool {
    match (points.first(), points.last()) {
        (Some(first), Some(last)) => x(last) < x(first),
        _ => false,
    }
}

/// Whether an optimum is bracketed, in words.
pub fn bracketing(optimum: &Optimum) -> &'static str {
    match (optimum.low_edge, optimum.high_edge) {
        (Edge::Bracketed, Edge::Bracketed) => "bracketed",
        (Edge::GridEnd, Edge::GridEnd) => "not bracketed: the whole grid is alike",
        (Edge::GridEnd, _) => "not bracketed: touches the low end of the grid",
        (_, Edge::GridEnd) => "not bracketed: touches the high end of the grid",
        _ => "not bracketed yet: the next point has no record",
    }
}

/// `n = 20 trained runs per point`, or their range.
pub fn trained_counts<'a>(points: impl IntoIterator<Item = &'a PointFindings>) -> String {
    let counts: Vec<u32> = (points.into_iter())
        .filter(|point| point.accuracy.is_some())
        .map(|point| point.runs.trained)
        .collect();
    match (counts.iter().min(), counts.iter().max()) {
        (Some(least), Some(most)) if least == most => {
            format!(
                "n = {} per point",
                words::counted(u64::from(*least), "trained run")
            )
        }
        (Some(least), Some(most)) => format!("n = {least} to {most} trained runs per point"),
        _ => "n = 0".into(),
    }
}

/// How many recorded points are not drawn because no run trained.
pub fn untrained_note<'a>(points: impl IntoIterator<Item = &'a PointFindings>) -> Option<String> {
    let empty = |point: &&PointFindings| point.accuracy.is_none() && point.runs.recorded > 0;
    match points.into_iter().filter(empty).count() as u64 {
        0 => None,
        count => Some(format!(
            "Not drawn: {}, at which no run trained.",
            words::counted(count, "point")
        )),
    }
}
