//! Several studies side by side: how each stands and the law it gives.

use super::standing::{Standing, Work, rounded};
use crate::table::{Cell, Column, Show, Table};
use crate::{number, phrase, words};
use analysis::{Findings, SearchFindings};

/// One study of an overview.
pub struct Listed<'a> {
    /// What it found.
    pub findings: &'a Findings,
    /// How it stands, if it may still grow.
    pub standing: Option<&'a Standing>,
    /// The way to its own page, if it has one.
    pub href: Option<&'a str>,
}

/// The studies, a row for every search of each.
pub fn overview(studies: &[Listed<'_>]) -> Table {
    let watched = studies.iter().any(|study| study.standing.is_some());
    let mut columns = vec![
        Column::words("study"),
        Column::words("search"),
        Column::words("recorded/planned"),
    ];
    if watched {
        columns.extend([
            Column::words("work"),
            Column::numbers("stalled", ""),
            Column::numbers("diverged", ""),
        ]);
    }
    columns.extend([
        Column::numbers("flags", ""),
        Column::words("a with interval"),
        Column::numbers("R²", ""),
        Column::words("p with interval"),
        Column::numbers("widths", ""),
    ]);
    let mut table = Table::new("Studies and laws", columns);
    for study in studies {
        let searches = &study.findings.searches;
        if searches.is_empty() {
            table.rows.push(row(study, None, watched));
        }
        let rows = searches
            .iter()
            .map(|search| row(study, Some(search), watched));
        table.rows.extend(rows);
    }
    table
}

fn row(study: &Listed<'_>, search: Option<&SearchFindings>, watched: bool) -> Vec<Cell> {
    let findings = study.findings;
    let name = Cell::words(findings.study.name.clone());
    let runs = findings.runs;
    let share = runs.recorded as f64 / runs.planned.max(1) as f64;
    let mut row = vec![
        match study.href {
            Some(href) => name.shown(Show::Link(href.into())),
            None => name,
        },
        Cell::words(search.map_or_else(|| other_kind(findings), |s| words::search(s.kind))),
        Cell::number(format!("{}/{}", runs.recorded, runs.planned), share).shown(Show::Bar(share)),
    ];
    if watched {
        row.extend(work_cells(study.standing));
    }
    let flags = crate::flag::study_flags(findings).len();
    row.push(Cell::number(flags.to_string(), flags as f64));
    row.extend(law_cells(search));
    row
}

fn other_kind(findings: &Findings) -> &'static str {
    if findings.stability.is_some() {
        "stability scan"
    } else if findings.grids.is_empty() {
        number::ABSENT
    } else {
        "grid"
    }
}

fn work_cells(standing: Option<&Standing>) -> Vec<Cell> {
    let Some(standing) = standing else {
        return (0..3).map(|_| Cell::absent()).collect();
    };
    let count = |count: usize| Cell::number(number::count(count as u64), count as f64);
    let work = match standing.work {
        Work::AtWork {
            left: Some(left), ..
        } => format!("at work, {} left", rounded(left)),
        other => other.word().into(),
    };
    vec![
        Cell::words(work),
        count(standing.stalled),
        count(standing.diverged),
    ]
}

fn law_cells(search: Option<&SearchFindings>) -> Vec<Cell> {
    match search.map(|search| search.law.law()) {
        Some(Ok(law)) => vec![
            Cell::number(phrase::slope(law), law.proportion.slope),
            law.proportion
                .r_squared
                .filter(|_| phrase::tests_linearity(law))
                .map_or_else(Cell::absent, |value| {
                    Cell::number(number::fixed(value, 3), value)
                }),
            Cell::number(phrase::exponent(law), law.power.exponent),
            Cell::number(law.widths.len().to_string(), law.widths.len() as f64),
        ],
        Some(Err(_)) => vec![
            Cell::words("no law"),
            Cell::absent(),
            Cell::absent(),
            Cell::number("0", 0.0),
        ],
        None => (0..4).map(|_| Cell::absent()).collect(),
    }
}
