//! Optima and laws in the course of training, as tables.

use crate::number::{self, Magnitude};
use crate::table::{Cell, Column, Table};
use crate::tables::accuracy_cell;
use crate::{phrase, words};
use analysis::compare::Found;
use analysis::course::Stage;
use analysis::equal_time::EqualTime;
use analysis::{Measure, Optimum, SearchFindings};
use spec::{SearchKind, Width};

/// A table for each search, a row for each stage: the optimum of every width, and the law.
pub fn course(stages: &[Stage]) -> String {
    let kinds = [SearchKind::BatchSize, SearchKind::LearningRate];
    let tables = kinds.into_iter().filter_map(|kind| table(kind, stages));
    explained(tables.map(|table| table.text()).collect())
}

/// A table of the two searches at equal training time.
pub fn equal_time(all: &[EqualTime]) -> String {
    let sides = all.iter().flat_map(|both| {
        let EqualTime { agreement, .. } = both;
        [
            agreement.batch_size.estimate,
            agreement.learning_rate.estimate,
        ]
    });
    let Some(first) = all.first() else {
        return "no width has an optimum in both searches\n".into();
    };
    // With batch norm the two are measured in different things.
    let measures = [first.agreement.batch_size, first.agreement.learning_rate]
        .map(|found| found.estimate.measure);
    let magnitude = match measures[0] == measures[1] {
        true => Magnitude::of(sides.map(|estimate| estimate.value).fold(0.0, f64::max)),
        false => Magnitude::of(1.0),
    };
    let column = |kind, measure: Measure| {
        let name = format!("{}: {}", words::search(kind), words::optimal(measure));
        Column::numbers(name, magnitude.unit(measure.unit()))
    };
    let columns = vec![
        Column::numbers("w", ""),
        Column::numbers("time", "%"),
        column(SearchKind::BatchSize, measures[0]),
        Column::numbers("peak", "% ± 2 s.e."),
        column(SearchKind::LearningRate, measures[1]),
        Column::numbers("peak", "% ± 2 s.e."),
        Column::words("ratio"),
        Column::words("ranges"),
    ];
    let mut table = Table::new("the two searches at equal training time ε·T", columns);
    table.rows = (all.iter())
        .map(|both| equal_time_row(both, magnitude))
        .collect();
    explained(vec![table.text()])
}

fn equal_time_row(both: &EqualTime, magnitude: Magnitude) -> Vec<Cell> {
    let (width, percent) = (both.width.get(), 100.0 * both.share);
    let agreement = &both.agreement;
    let (one, other) = (agreement.batch_size, agreement.learning_rate);
    let beyond = if both.time > 1.0 + 1e-6 {
        LONGER
    } else if both.time < 0.5 * both.first {
        SHORTER
    } else {
        ' '
    };
    let ranges = match agreement.ranges_overlap {
        Some(true) => "overlap",
        Some(false) => "apart",
        None => "–",
    };
    vec![
        Cell::number(width.to_string(), width.into()),
        Cell::number(
            format!("{}{beyond}", number::significant(percent, 3)),
            percent,
        ),
        found_cell(&one, magnitude),
        accuracy_cell(one.peak),
        found_cell(&other, magnitude),
        accuracy_cell(other.peak),
        agreement.ratio.map_or_else(Cell::absent, |ratio| {
            let interval = agreement.ratio_confidence.map(|found| found.interval);
            Cell::words(number::with_interval_about(ratio, interval, &[1.0]))
        }),
        Cell::words(ranges),
    ]
}

/// The optimum and its bootstrap interval.
fn found_cell(found: &Found, magnitude: Magnitude) -> Cell {
    let estimate = found.estimate;
    let interval = found
        .confidence
        .map_or(estimate.bar, |confidence| confidence.interval);
    let value = magnitude.scaled(estimate.value);
    let text = number::with_interval(value, Some(magnitude.scaled_interval(interval)));
    let mark = if found.bracketed { ' ' } else { OPEN };
    Cell::number(format!("{text}{mark}"), estimate.value)
}

/// Marks an optimum that is not bracketed,
const OPEN: char = '*';
/// a search whose whole time is less than the other's,
const LONGER: char = '+';
/// and one that was first looked at after more than twice the other's.
const SHORTER: char = '<';

/// Tables, with what the marks in them mean.
fn explained(mut tables: Vec<String>) -> String {
    let meanings = [
        (OPEN, "not bracketed: the optimum may lie beyond the grid"),
        (
            LONGER,
            "the other search was trained for longer than this one",
        ),
        (
            SHORTER,
            "the other search was trained for less than half the time to this one's first evaluation",
        ),
    ];
    let used = |mark: char| tables.iter().any(|table| table.contains(mark));
    let notes: Vec<String> = (meanings.into_iter())
        .filter(|(mark, _)| used(*mark))
        .map(|(mark, meaning)| format!("  {mark} {meaning}\n"))
        .collect();
    if !notes.is_empty() {
        tables.push(notes.concat());
    }
    tables.join("\n")
}

fn table(kind: SearchKind, stages: &[Stage]) -> Option<Table> {
    let mut rows: Vec<(f64, &SearchFindings)> = Vec::new();
    for stage in stages {
        rows.push((stage.share, stage.search(kind)?));
    }
    let (_, search) = rows.last()?;
    let values = rows.iter().flat_map(|(_, search)| search.optima());
    let largest = values
        .map(|optimum| optimum.estimate.value)
        .fold(0.0, f64::max);
    let magnitude = Magnitude::of(largest);
    let unit = match magnitude.unit(search.measure.unit()) {
        unit if unit.is_empty() => unit,
        unit => format!(" ({unit})"),
    };
    let caption = format!(
        "{} at {}: {}{unit} in the course of training",
        words::search(kind),
        words::fixed(search),
        words::plain(&words::optimal(search.measure)),
    );
    let widths: Vec<Width> = search.widths.iter().map(|found| found.width).collect();
    let mut columns = vec![Column::numbers("time", "%")];
    columns.extend(
        widths
            .iter()
            .map(|w| Column::numbers(format!("w = {w}"), "")),
    );
    columns.extend([Column::words("a"), Column::words("p")]);
    let mut table = Table::new(caption, columns);
    for (share, search) in &rows {
        table.rows.push(row(*share, search, &widths, magnitude));
    }
    Some(table)
}

fn row(share: f64, search: &SearchFindings, widths: &[Width], magnitude: Magnitude) -> Vec<Cell> {
    let percent = 100.0 * share;
    let mut row = vec![Cell::number(number::significant(percent, 3), percent)];
    row.extend(widths.iter().map(|width| {
        let found = search.widths.iter().find(|found| found.width == *width);
        match found.and_then(|found| found.optimum.as_ref()) {
            Some(optimum) => optimum_cell(optimum, magnitude),
            None => Cell::absent(),
        }
    }));
    match search.law.law() {
        Ok(law) => {
            row.push(Cell::words(phrase::slope(law)));
            row.push(Cell::words(phrase::exponent(law)));
        }
        Err(_) => row.extend([Cell::absent(), Cell::absent()]),
    }
    row
}

fn optimum_cell(optimum: &Optimum, magnitude: Magnitude) -> Cell {
    let estimate = optimum.estimate;
    let bar = magnitude.scaled_interval(estimate.bar);
    let value = number::beside_interval(magnitude.scaled(estimate.value), bar);
    let mark = if optimum.bracketed() { ' ' } else { OPEN };
    Cell::number(format!("{value}{mark}"), estimate.value)
}
