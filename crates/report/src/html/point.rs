//! The page of one point: its numbers, its runs, and how they trained.

use super::headline::tile;
use super::page::{Page, Part};
use super::parts;
use super::{PageOptions, foot};
use crate::figure::Figure;
use crate::svg::escaped;
use crate::table::{Cell, Column, Table};
use crate::{number, words};
use analysis::measure::Place;
use analysis::observation::Observed;
use analysis::{Findings, PointFindings, Sample};
use spec::{Outcome, Point, Record};

/// The name of a planned point in addresses.
pub fn point_key(point: &Point) -> String {
    words::point_key(
        point.search,
        Place {
            width: point.width,
            batch_size: point.batch_size,
            learning_rate: point.learning_rate,
        },
    )
}

/// A point and its runs.
pub struct PointRuns<'a> {
    /// The records.
    pub observed: &'a Observed<'a>,
    /// What they say.
    pub found: &'a PointFindings,
    /// Seeds whose runs are being trained.
    pub training: &'a [u64],
}

/// The page of one point; `figures` are its learning curves.
pub fn point_page(
    findings: &Findings,
    shown: &PointRuns<'_>,
    figures: &[Figure],
    options: &PageOptions,
) -> Page {
    let point = &shown.observed.point;
    let mut listed = vec![Part::whole("numbers", numbers(findings, shown))];
    listed.extend(figures.iter().map(|figure| {
        let name = format!("figure-{}", figure.id);
        Part::column(name, parts::figure(figure, &options.place))
    }));
    listed.push(Part::whole(
        "runs",
        format!("<h2>Runs</h2>\n{}", parts::table(&runs(shown))),
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

fn numbers(findings: &Findings, shown: &PointRuns<'_>) -> String {
    let found = shown.found;
    let tally = found.runs;
    let ended = format!(
        "{} of {}, {} stalled, {} diverged",
        tally.trained, tally.planned, tally.stalled, tally.diverged
    );
    let mut tiles = vec![
        tile("test accuracy", &accuracy(found.accuracy)),
        tile("late accuracy", &accuracy(found.late_accuracy)),
        tile("runs trained", &ended),
    ];
    if let Some(noise) = found.normalized_noise {
        let text = format!("{} /[loss]", number::significant(noise.get(), 3));
        tiles.insert(0, tile("noise scale ḡ", &text));
    }
    let validation = format!("validation accuracy {}", words::late(found.late.state));
    tiles.push(tile(
        "steps",
        &format!("{} {validation}", number::count(found.steps)),
    ));
    format!(
        "<p class=\"study\"><code>{}</code> {}: {}</p>\n<dl class=\"tiles\">{}</dl>\n",
        escaped(&findings.study.name),
        words::search(shown.observed.point.search),
        escaped(&words::settings(&findings.study)),
        tiles.concat()
    )
}

/// `97.98 ± 0.05 % (2 s.e., n = 20)`, or a dash.
fn accuracy(sample: Option<Sample>) -> String {
    sample.map_or_else(|| number::ABSENT.into(), words::accuracy)
}

fn runs(shown: &PointRuns<'_>) -> Table {
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
    let seeds = (0_u64..).zip(&shown.observed.by_seed);
    table.rows = seeds
        .map(|(seed, record)| match record {
            Some(record) => run_row(record),
            None if shown.training.contains(&seed) => unrecorded(seed, "being trained"),
            None => unrecorded(seed, "no record"),
        })
        .collect();
    table
}

fn unrecorded(seed: u64, words: &str) -> Vec<Cell> {
    let mut row = vec![
        Cell::number(seed.to_string(), seed as f64),
        Cell::words(words),
    ];
    row.extend((0..8).map(|_| Cell::absent()));
    row
}

fn run_row(record: &Record) -> Vec<Cell> {
    let seed = record.seed;
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
    let loss = record.curve.last().and_then(|point| point.training_loss);
    let steps = record.steps_trained();
    vec![
        Cell::number(seed.to_string(), seed as f64),
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
    ]
}
