//! The tables of a study: optima and laws, points, grids, failure rates; and all of
//! them as text for the terminal.

use crate::flag::{FlagKind, curve_flags, study_flags, width_flags};
use crate::number::{self, Magnitude};
use crate::table::{Cell, Column, Table};
use crate::{phrase, words};
use analysis::grid::GridFindings;
use analysis::late::LateState;
use analysis::stability::{Half, Rate, RateValue, StabilityFindings, StabilityPoint};
use analysis::{Findings, PointFindings, SearchFindings, WidthFindings};
use spec::Scheme;

/// The optimum of every width of a search.
pub fn optima(search: &SearchFindings) -> Table {
    let largest = (search.optima())
        .map(|optimum| optimum.estimate.value)
        .fold(0.0, f64::max);
    let magnitude = Magnitude::of(largest);
    let unit = magnitude.unit(search.measure.unit());
    let level = (search.optima())
        .find_map(|optimum| optimum.confidence)
        .map_or("95 %".into(), phrase::level);
    let mut columns = vec![
        Column::numbers("w", ""),
        Column::words(&format!("best {}", words::axis_symbol(search.axis))),
        Column::numbers(words::optimal(search.measure), unit.as_str()),
        Column::words("error bar"),
        Column::words(&format!("{level} bootstrap")),
        Column::numbers("peak accuracy", "% ± 2 s.e."),
        Column::numbers("n trained/planned", ""),
        Column::words("flags"),
    ];
    if let Some(beside) = search.measure.beside() {
        columns.insert(5, Column::numbers(words::optimal(beside), beside.unit()));
    }
    let mut table = Table::new(
        format!("{} at {}", words::search(search.kind), words::fixed(search)),
        columns,
    );
    for found in &search.widths {
        table.rows.push(optimum_row(search, found, magnitude));
    }
    table
}

fn optimum_row(search: &SearchFindings, found: &WidthFindings, magnitude: Magnitude) -> Vec<Cell> {
    let width = found.width.get();
    let mut row = vec![Cell::number(width.to_string(), width.into())];
    match &found.optimum {
        None => {
            let planned: u32 = found.points.iter().map(|point| point.runs.planned).sum();
            row.extend((0..5).map(|_| Cell::absent()));
            if search.measure.beside().is_some() {
                row.push(Cell::absent());
            }
            row.push(Cell::number(format!("0/{planned}"), 0.0));
        }
        Some(optimum) => {
            let estimate = optimum.estimate;
            let bar = magnitude.scaled_interval(estimate.bar);
            let value = magnitude.scaled(estimate.value);
            row.push(Cell::words(words::best_values(search.axis, optimum)));
            row.push(Cell::number(
                number::beside_interval(value, bar),
                estimate.value,
            ));
            row.push(Cell::words(number::interval(bar)));
            row.push(optimum.confidence.map_or_else(Cell::absent, |confidence| {
                Cell::words(number::interval(
                    magnitude.scaled_interval(confidence.interval),
                ))
            }));
            if let Some(beside) = optimum.beside {
                row.push(Cell::number(
                    number::with_interval(beside.value, Some(beside.bar)),
                    beside.value,
                ));
            }
            row.push(accuracy_cell(optimum.peak));
            let best = found.points.get(optimum.at.best);
            let planned = best.map_or(0, |point| point.runs.planned);
            let trained = optimum.peak.count;
            row.push(Cell::number(format!("{trained}/{planned}"), trained as f64));
        }
    }
    row.push(Cell::words(flag_words(&width_flags(search, found))));
    row
}

fn flag_words(flags: &[(FlagKind, String)]) -> String {
    let words: Vec<&str> = flags.iter().map(|(kind, _)| kind.short()).collect();
    words.join(", ")
}

/// A mean in percent, ± two standard errors.
pub(crate) fn accuracy_cell(sample: analysis::Sample) -> Cell {
    let text = match sample.standard_error {
        Some(error) => format!(
            "{} ± {}",
            number::percent(sample.mean),
            number::percent(2.0 * error)
        ),
        None => number::percent(sample.mean),
    };
    Cell::number(text, sample.mean)
}

/// The points of one width, of one curve of a grid, or of a whole grid.
pub fn points<'a>(
    caption: impl Into<String>,
    points: impl IntoIterator<Item = &'a PointFindings>,
) -> Table {
    let columns = vec![
        Column::numbers("B", ""),
        Column::numbers("ε", "[weight]²/[loss]"),
        Column::numbers("ḡ", "1/[loss]"),
        Column::numbers("ε̄", "1/[loss]"),
        Column::numbers("steps", ""),
        Column::numbers("test accuracy", "% ± 2 s.e."),
        Column::numbers("late accuracy", "% ± 2 s.e."),
        Column::numbers("trained", ""),
        Column::numbers("stalled", ""),
        Column::numbers("diverged", ""),
        Column::numbers("planned", ""),
        Column::words("late time"),
        Column::numbers("time", ""),
        Column::words("flags"),
    ];
    let mut table = Table::new(caption, columns);
    table.rows = points.into_iter().map(point_row).collect();
    table
}

fn point_row(point: &PointFindings) -> Vec<Cell> {
    let number = |value: f64| Cell::number(number::significant(value, 3), value);
    let count = |value: u32| Cell::number(value.to_string(), value.into());
    let runs = point.runs;
    let mut flags = Vec::new();
    if runs.recorded == 0 {
        flags.push("no record yet");
    } else if point.few_trained {
        flags.push(FlagKind::FewTrained.short());
    }
    match point.late.state {
        LateState::StillRising => flags.push(FlagKind::NotLate.short()),
        LateState::Falling => flags.push(FlagKind::Falling.short()),
        LateState::Settled | LateState::Unknown => {}
    }
    vec![
        count(point.batch_size.get()),
        number(point.learning_rate.get()),
        (point.normalized_noise).map_or_else(Cell::absent, |noise| number(noise.get())),
        number(point.normalized_learning_rate.get()),
        Cell::number(number::count(point.steps), point.steps as f64),
        point.accuracy.map_or_else(Cell::absent, accuracy_cell),
        point.late_accuracy.map_or_else(Cell::absent, accuracy_cell),
        count(runs.trained),
        count(runs.stalled),
        count(runs.diverged),
        count(runs.planned),
        late_cell(point),
        Cell::number(number::duration(point.seconds), point.seconds),
        Cell::words(flags.join(", ")),
    ]
}

/// The verdict, with the rise that it rests on.
fn late_cell(point: &PointFindings) -> Cell {
    let verdict = words::late(point.late.state);
    match point.late.rise {
        Some(rise) => {
            let points = 100.0 * rise.mean;
            let sign = if points < 0.0 { "" } else { "+" };
            let text = format!("{verdict} ({sign}{} points)", number::fixed(points, 2));
            Cell::number(text, rise.mean)
        }
        None => Cell::words(verdict),
    }
}

/// The optimum of every curve of a grid.
pub fn grid(grid: &GridFindings) -> Table {
    let values = grid
        .curves
        .iter()
        .filter_map(|curve| curve.optimum.as_ref());
    let largest = values
        .map(|optimum| optimum.estimate.value)
        .fold(0.0, f64::max);
    let magnitude = Magnitude::of(largest);
    let mut table = Table::new(
        format!("grid, w = {}", grid.width),
        vec![
            Column::numbers("ε", "[weight]²/[loss]"),
            Column::words("best B"),
            Column::numbers(
                words::optimal(grid.measure),
                magnitude.unit(grid.measure.unit()),
            ),
            Column::words("error bar"),
            Column::numbers("peak accuracy", "% ± 2 s.e."),
            Column::numbers("n", ""),
            Column::words("flags"),
        ],
    );
    for curve in &grid.curves {
        let rate = curve.learning_rate;
        let mut row = vec![Cell::number(words::rate(rate), rate.get())];
        match &curve.optimum {
            None => {
                row.extend((0..4).map(|_| Cell::absent()));
                row.push(Cell::number("0", 0.0));
            }
            Some(optimum) => {
                let value = magnitude.scaled(optimum.estimate.value);
                let bar = magnitude.scaled_interval(optimum.estimate.bar);
                row.push(Cell::words(words::best_values(
                    analysis::Axis::BatchSize,
                    optimum,
                )));
                row.push(Cell::number(number::beside_interval(value, bar), value));
                row.push(Cell::words(number::interval(bar)));
                row.push(accuracy_cell(optimum.peak));
                row.push(Cell::number(
                    optimum.peak.count.to_string(),
                    optimum.peak.count as f64,
                ));
            }
        }
        let flags: Vec<&str> = (curve_flags(curve).into_iter())
            .map(FlagKind::short)
            .collect();
        row.push(Cell::words(flags.join(", ")));
        table.rows.push(row);
    }
    table
}

/// The limits of stability at every width.
pub fn stability(found: &StabilityFindings) -> Table {
    let columns = vec![
        Column::numbers("w", ""),
        Column::numbers("ε_{safe}, diverged", ""),
        Column::numbers("ε_{half}, diverged", ""),
        Column::numbers("ε_{safe}, any failure", ""),
        Column::numbers("ε_{half}, any failure", ""),
        Column::numbers("ε̄_{safe}, any failure", "1/[loss]"),
        Column::numbers("runs recorded/planned", ""),
    ];
    let mut table = Table::new(
        format!(
            "stability at B = {}, ε in [weight]²/[loss]",
            found.batch_size
        ),
        columns,
    );
    let rate = |value: Option<RateValue>| {
        value.map_or_else(Cell::absent, |value| {
            Cell::number(words::rate(value.learning_rate), value.learning_rate.get())
        })
    };
    let half = |half: Half| match half {
        Half::At(value) => rate(Some(value)),
        Half::AboveGrid => Cell::number("above grid", f64::MAX),
        Half::BelowGrid => Cell::number("below grid", 0.0),
        Half::Unmeasured => Cell::absent(),
    };
    for width in &found.widths {
        let (recorded, planned) = width.points.iter().fold((0, 0), |(r, p), point| {
            (r + point.runs.recorded, p + point.runs.planned)
        });
        let safe = width.failure.safe.map_or_else(Cell::absent, |value| {
            let normalized = value.normalized.get();
            Cell::number(number::significant(normalized, 3), normalized)
        });
        table.rows.push(vec![
            Cell::number(width.width.to_string(), width.width.get().into()),
            rate(width.divergence.safe),
            half(width.divergence.half),
            rate(width.failure.safe),
            half(width.failure.half),
            safe,
            Cell::number(format!("{recorded}/{planned}"), recorded.into()),
        ]);
    }
    table
}

/// How the limits vary with the width, where that was found.
pub fn stability_trends(found: &StabilityFindings, scheme: Scheme) -> Vec<String> {
    let trends = [
        ("diverged", &found.divergence_trend),
        ("any failure", &found.failure_trend),
    ];
    trends
        .into_iter()
        .filter_map(|(counted, trend)| {
            let trend = trend.as_ref()?;
            Some(format!("{counted}: {}", phrase::limit_trend(trend, scheme)))
        })
        .collect()
}

/// The learning rates of a stability scan at one width.
pub fn stability_points(points: &[StabilityPoint]) -> Table {
    let columns = vec![
        Column::numbers("ε", "[weight]²/[loss]"),
        Column::numbers("ε̄", "1/[loss]"),
        Column::numbers("diverged", "%, Wilson 95 %"),
        Column::numbers("diverged or stalled", "%, Wilson 95 %"),
        Column::numbers("trained", ""),
        Column::numbers("stalled", ""),
        Column::numbers("diverged", ""),
        Column::numbers("planned", ""),
    ];
    let number = |value: f64| Cell::number(number::significant(value, 3), value);
    let count = |value: u32| Cell::number(value.to_string(), value.into());
    let share = |rate: Option<Rate>| {
        rate.map_or_else(Cell::absent, |rate| {
            let [share, low, high] = [rate.share, rate.interval.low, rate.interval.high]
                .map(|s| number::fixed(100.0 * s, 0));
            Cell::number(format!("{share} [{low}, {high}]"), rate.share)
        })
    };
    let mut table = Table::new("", columns);
    for point in points {
        table.rows.push(vec![
            number(point.learning_rate.get()),
            number(point.normalized_learning_rate.get()),
            share(point.diverged),
            share(point.failed),
            count(point.runs.trained),
            count(point.runs.stalled),
            count(point.runs.diverged),
            count(point.runs.planned),
        ]);
    }
    table
}

/// Everything that a terminal shows of some studies: for each its optima, laws, limits
/// and flags, in plain text.
pub fn tables(findings: &[Findings]) -> String {
    let parts: Vec<String> = findings.iter().map(study_text).collect();
    parts.join("\n")
}

fn study_text(findings: &Findings) -> String {
    let study = &findings.study;
    let mut out = format!(
        "{}: {}\n{}\n",
        study.name,
        study.title,
        words::settings(study)
    );
    out += &format!(
        "{} of {} recorded\n",
        number::count(findings.runs.recorded as u64),
        words::counted(findings.runs.planned as u64, "planned run")
    );
    if let Some(skipped) = words::skipped(findings.runs) {
        out += &format!("{skipped}\n");
    }
    for search in &findings.searches {
        out += &format!("\n{}", optima(search).text());
        out += &match search.law.law() {
            Ok(law) => format!(
                "  {} = a·w: {}\n  p is the exponent of w; {}\n",
                words::plain(&words::optimal(law.measure)),
                phrase::law_numbers(law),
                phrase::linearity(law)
            ),
            Err(reason) => format!("  {reason}\n"),
        };
    }
    for one in &findings.grids {
        out += &format!("\n{}", grid(one).text());
    }
    if let Some(found) = &findings.stability {
        out += &format!("\n{}", stability(found).text());
        for line in stability_trends(found, study.scheme) {
            out += &format!("  {}\n", words::plain(&line));
        }
    }
    let flags = study_flags(findings);
    if !flags.is_empty() {
        out += "\nflags\n";
    }
    for flag in flags {
        let width = flag
            .width
            .map_or_else(String::new, |w| format!(", w = {w}"));
        let place = flag.search.map_or("study", words::search);
        out += &format!("  {place}{width}: {}\n", flag.text);
    }
    out
}
