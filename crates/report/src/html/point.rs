//! The page of one point: its numbers, its runs, and how they trained.

use super::page::{Page, Part};
use super::parts;
use super::{PageOptions, foot};
use crate::figure::Figure;
use crate::table::{Cell, Column, Table};
use crate::{number, tables, words};
use analysis::observation::Observed;
use analysis::{Findings, PointFindings};
use spec::{Outcome, Point, Record, SearchKind};

/// The name of a point in addresses: `batch-size-w16-b8-e5`.
pub fn point_key(search: SearchKind, point: &PointFindings) -> String {
    key(search, point.width, point.batch_size, point.learning_rate)
}

/// The same name from the plan.
pub fn planned_point_key(point: &Point) -> String {
    key(
        point.search,
        point.width,
        point.batch_size,
        point.learning_rate,
    )
}

fn key(
    search: SearchKind,
    width: spec::Width,
    size: spec::BatchSize,
    rate: spec::LearningRate,
) -> String {
    let search = match search {
        SearchKind::BatchSize => "batch-size",
        SearchKind::LearningRate => "learning-rate",
        SearchKind::Grid => "grid",
        SearchKind::Stability => "stability",
    };
    format!("{search}-w{width}-b{size}-e{}", rate.get())
}

/// The page of one point; `figures` are its learning curves.
pub fn point_page(
    findings: &Findings,
    observed: &Observed<'_>,
    found: &PointFindings,
    figures: &[Figure],
    options: &PageOptions,
) -> Page {
    let point = &observed.point;
    let mut listed = vec![Part::whole(
        "numbers",
        format!(
            "<p class=\"study\"><code>{}</code> {}</p>\n{}",
            crate::svg::escaped(&findings.study.name),
            crate::svg::escaped(&words::settings(&findings.study)),
            parts::table(&tables::points(words::search(point.search), [found]))
        ),
    )];
    listed.extend(figures.iter().map(|figure| {
        let name = format!("figure-{}", figure.id);
        Part::column(name, parts::figure(figure, &options.place))
    }));
    listed.push(Part::whole(
        "runs",
        format!("<h2>Runs</h2>\n{}", parts::table(&runs(observed))),
    ));
    Page {
        title: format!(
            "w = {}, B = {}, ε = {}",
            point.width,
            point.batch_size,
            words::rate(point.learning_rate)
        ),
        above: options.above.clone(),
        parts: listed,
        foot: foot(options),
    }
}

fn runs(observed: &Observed<'_>) -> Table {
    let mut table = Table::new(
        "",
        vec![
            Column::numbers("seed", ""),
            Column::words("outcome"),
            Column::numbers("test accuracy", "%"),
            Column::numbers("late accuracy", "%"),
            Column::numbers("validation accuracy", "%"),
            Column::numbers("training loss", ""),
            Column::numbers("steps", ""),
            Column::numbers("time", ""),
            Column::words("device"),
            Column::words("run"),
        ],
    );
    table.rows = (observed.by_seed.iter().enumerate())
        .map(|(seed, record)| run_row(seed, *record))
        .collect();
    table
}

fn run_row(seed: usize, record: Option<&Record>) -> Vec<Cell> {
    let mut row = vec![Cell::number(seed.to_string(), seed as f64)];
    let Some(record) = record else {
        row.push(Cell::words("no record"));
        row.extend((0..8).map(|_| Cell::absent()));
        return row;
    };
    let percent = |share: Option<f64>| {
        share.map_or_else(Cell::absent, |share| {
            Cell::number(number::percent(share), share)
        })
    };
    let (outcome, accuracy) = match record.outcome {
        Outcome::Trained { test_accuracy } => ("trained", Some(test_accuracy)),
        Outcome::Stalled { test_accuracy, .. } => ("stalled", Some(test_accuracy)),
        Outcome::Diverged { .. } => ("diverged", None),
    };
    let loss = record.curve.last().map(|point| point.training_loss);
    let steps = record.steps_trained();
    row.extend([
        Cell::words(outcome),
        percent(accuracy),
        percent(record.late_test_accuracy()),
        percent(record.validation_accuracy()),
        loss.map_or_else(Cell::absent, |loss| {
            Cell::number(number::significant(loss, 3), loss)
        }),
        Cell::number(number::count(steps), steps as f64),
        Cell::number(number::duration(record.seconds), record.seconds),
        Cell::words(record.device.clone()),
        Cell::words(record.run.to_string()),
    ]);
    row
}
