//! Optima and laws in the course of training, as tables.

use crate::number::{self, Magnitude};
use crate::table::{Cell, Column, Table};
use crate::{phrase, words};
use analysis::course::Stage;
use analysis::{Optimum, SearchFindings};
use spec::{SearchKind, Width};

/// A table for each search, a row for each stage: the optimum of every width, and the law.
pub fn course(stages: &[Stage]) -> String {
    let kinds = [SearchKind::BatchSize, SearchKind::LearningRate];
    let tables = kinds.into_iter().filter_map(|kind| table(kind, stages));
    let mut text: Vec<String> = tables.map(|table| table.text()).collect();
    if text.iter().any(|table| table.contains(OPEN)) {
        text.push(format!(
            "  {OPEN} not bracketed: the optimum may lie beyond the grid\n"
        ));
    }
    text.join("\n")
}

/// Marks an optimum that is not bracketed.
const OPEN: char = '*';

fn table(kind: SearchKind, stages: &[Stage]) -> Option<Table> {
    let mut rows: Vec<(f64, &SearchFindings)> = Vec::new();
    for stage in stages {
        let found = stage.searches.iter().find(|search| search.kind == kind);
        rows.push((stage.share, found?));
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
