//! CSV: one row per run of a study, and one row per mark of a figure.
//!
//! Comma-separated with a header, UTF-8, quoted where RFC 4180 asks for it. Numbers are
//! written in full, so that they read back as they were; a value that is not defined is
//! empty.

use crate::figure::{Figure, Mark};
use crate::words::plain;
use analysis::measure::{Place, normalized_noise, normalized_rate};
use spec::{Outcome, Point, Record, RunId, SearchKind, Study};
use std::collections::HashMap;

/// The columns of [`runs_csv`].
pub const RUN_COLUMNS: [&str; 18] = [
    "run",
    "searches",
    "width",
    "batch_size",
    "learning_rate",
    "seed",
    "steps",
    "steps_trained",
    "normalized_noise",
    "normalized_learning_rate",
    "outcome",
    "test_accuracy",
    "late_test_accuracy",
    "validation_accuracy",
    "final_training_loss",
    "seconds",
    "device",
    "study",
];

/// One row for every recorded run of these points of a study, in their order. A run that was
/// recorded twice has one row; other records have none.
pub fn runs_csv<'a>(
    study: &Study,
    points: &[Point],
    records: impl IntoIterator<Item = &'a Record>,
) -> String {
    let mut by_run: HashMap<RunId, &Record> = HashMap::new();
    for record in records {
        by_run.entry(record.run).or_insert(record);
    }
    // A run of two searches is one row that names both.
    let mut order: Vec<RunId> = Vec::new();
    let mut searches: HashMap<RunId, Vec<SearchKind>> = HashMap::new();
    for point in points {
        for run in point.runs(study) {
            let id = run.id();
            let kinds = searches.entry(id).or_default();
            if kinds.is_empty() {
                order.push(id);
            }
            if !kinds.contains(&point.search) {
                kinds.push(point.search);
            }
        }
    }
    let mut out = row(RUN_COLUMNS.iter().map(ToString::to_string));
    for id in order {
        if let (Some(record), Some(kinds)) = (by_run.get(&id), searches.get(&id)) {
            out += &row(run_cells(study, record, kinds));
        }
    }
    out
}

fn run_cells(study: &Study, record: &Record, kinds: &[SearchKind]) -> Vec<String> {
    let place = Place {
        width: record.width,
        batch_size: record.batch_size,
        learning_rate: record.learning_rate,
    };
    let setting = &study.setting;
    let noise = (!setting.has_batch_norm()).then(|| normalized_noise(setting, place).get());
    let (outcome, accuracy) = match record.outcome {
        Outcome::Trained { test_accuracy } => ("trained", Some(test_accuracy)),
        Outcome::Stalled { test_accuracy, .. } => ("stalled", Some(test_accuracy)),
        Outcome::Diverged { .. } => ("diverged", None),
    };
    let names: Vec<&str> = kinds.iter().map(|kind| search_id(*kind)).collect();
    vec![
        record.run.to_string(),
        names.join("+"),
        record.width.to_string(),
        record.batch_size.to_string(),
        record.learning_rate.to_string(),
        record.seed.to_string(),
        record.steps.to_string(),
        record.steps_trained().to_string(),
        value(noise),
        value(Some(normalized_rate(setting, place).get())),
        outcome.into(),
        value(accuracy),
        value(record.late_test_accuracy()),
        value(record.validation_accuracy()),
        value(record.curve.last().and_then(|point| point.training_loss)),
        value(Some(record.seconds)),
        record.device.clone(),
        study.name.clone(),
    ]
}

fn search_id(kind: SearchKind) -> &'static str {
    match kind {
        SearchKind::BatchSize => "batch-size",
        SearchKind::LearningRate => "learning-rate",
        SearchKind::Grid => "grid",
        SearchKind::Stability => "stability",
    }
}

/// One number of a mark.
type Part = fn(&Mark) -> Option<f64>;

/// The columns of a figure's CSV after `series`, x and y standing for the axes' names.
const MARK_COLUMNS: [(&str, Part); 10] = [
    ("x", |mark| Some(mark.x)),
    ("x low", |mark| mark.x_bar.map(|i| i.low)),
    ("x high", |mark| mark.x_bar.map(|i| i.high)),
    ("y", |mark| Some(mark.y)),
    ("y low", |mark| mark.y_bar.map(|i| i.low)),
    ("y high", |mark| mark.y_bar.map(|i| i.high)),
    ("x bootstrap low", |mark| mark.x_whisker.map(|i| i.low)),
    ("x bootstrap high", |mark| mark.x_whisker.map(|i| i.high)),
    ("y bootstrap low", |mark| mark.y_whisker.map(|i| i.low)),
    ("y bootstrap high", |mark| mark.y_whisker.map(|i| i.high)),
];

/// One row for every mark of a figure.
pub fn figure_csv(figure: &Figure) -> String {
    let name = |column: &str| match column.split_at(1) {
        ("x", rest) => format!("{}{rest}", plain(&figure.x.caption())),
        (_, rest) => format!("{}{rest}", plain(&figure.y.caption())),
    };
    let mut header = vec!["series".to_string()];
    header.extend(MARK_COLUMNS.iter().map(|(column, _)| name(column)));
    header.extend(["n", "hollow", "may be larger", "may be smaller", "words"].map(String::from));
    let mut out = row(header);
    for (series, mark) in figure.marks() {
        let mut cells = vec![plain(&series.label)];
        cells.extend(MARK_COLUMNS.iter().map(|(_, of)| value(of(mark))));
        cells.push(mark.n.map_or_else(String::new, |n| n.to_string()));
        cells.extend([mark.hollow, mark.open.above, mark.open.below].map(|flag| flag.to_string()));
        cells.push(mark.text.join("; "));
        out += &row(cells);
    }
    out
}

fn value(number: Option<f64>) -> String {
    number
        .filter(|number| number.is_finite())
        .map_or_else(String::new, |number| number.to_string())
}

fn row(cells: impl IntoIterator<Item = String>) -> String {
    let cells: Vec<String> = cells.into_iter().map(|cell| quoted(&cell)).collect();
    cells.join(",") + "\n"
}

/// Quoted where it holds a comma, a quote or a line end.
fn quoted(cell: &str) -> String {
    if cell.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", cell.replace('"', "\"\""))
    } else {
        cell.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_quoted_where_they_must_be() {
        assert_eq!(quoted("plain"), "plain");
        assert_eq!(quoted("a,b"), "\"a,b\"");
        assert_eq!(quoted("say \"a\"\n"), "\"say \"\"a\"\"\n\"");
        assert_eq!(value(Some(f64::NAN)), "");
        assert_eq!(value(Some(0.1)), "0.1");
    }
}
