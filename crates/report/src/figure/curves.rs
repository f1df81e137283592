//! The runs of one point as they trained: test accuracy and training loss by step, a
//! thin line for every run in the colour of its outcome, and their mean above them.
//!
//! Not among the figures of a study: a study of 10,000 runs would draw 400,000 marks.

use super::series::two_errors;
use super::{AxisSpec, Extent, Figure, FigureKind, Mark, Marker, Series, Stress, TickStyle};
use crate::palette::Ink;
use crate::{number, words};
use analysis::observation::Observed;
use analysis::{Interval, Sample, StudyBrief};
use spec::{CurvePoint, Outcome, Record};

/// What is drawn by step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shown {
    Accuracy,
    Loss,
}

impl Shown {
    fn mean(self) -> &'static str {
        match self {
            Self::Accuracy => "mean",
            Self::Loss => "geometric mean",
        }
    }
}

/// Test accuracy and training loss of a point's runs; none before the first record.
pub fn curve_figures(study: &StudyBrief, observed: &Observed<'_>) -> Vec<Figure> {
    let figures = [Shown::Accuracy, Shown::Loss].map(|shown| figure(study, observed, shown));
    let drawn = |figure: &Figure| figure.marks().next().is_some();
    figures.into_iter().filter(drawn).collect()
}

fn figure(study: &StudyBrief, observed: &Observed<'_>, shown: Shown) -> Figure {
    let point = &observed.point;
    let place = format!(
        "w = {}, B = {}, ε = {}",
        point.width,
        point.batch_size,
        words::rate(point.learning_rate)
    );
    let recorded = observed.records().count() as u64;
    let (title, name, y) = match shown {
        Shown::Accuracy => (
            "Test accuracy by step",
            "accuracy",
            AxisSpec::linear("test accuracy", "%").showing(Extent::Upper),
        ),
        Shown::Loss => (
            "Training loss by step",
            "loss",
            AxisSpec::log("training loss", "", TickStyle::Decimal),
        ),
    };
    let mut series: Vec<Series> = (observed.records())
        .map(|record| run_series(record, shown))
        .collect();
    series.extend(mean_series(observed, shown));
    Figure {
        id: words::slug(&format!("{name} w{} b{}", point.width, point.batch_size)),
        kind: FigureKind::Curves,
        group: words::networks(study),
        title: title.into(),
        subtitle: vec![
            words::settings(study),
            format!("{place} · n = {}", words::counted(recorded, "recorded run")),
        ],
        x: AxisSpec::linear("step", "").showing(Extent::FromZero),
        y,
        legend: String::new(),
        series,
        spans: Vec::new(),
        fits: Vec::new(),
        diagonal: false,
        hollow: None,
        notes: notes(shown),
    }
}

fn notes(shown: Shown) -> Vec<String> {
    let bars = match shown {
        Shown::Accuracy => "Bars of the mean: ± 2 standard errors over the trained runs.",
        Shown::Loss => {
            "The mean is the geometric one, as suits a logarithmic axis; its bars are × and ÷ the \
             factor exp(2 s.e. of the logarithm) over the trained runs."
        }
    };
    let mut notes = vec![format!("A thin line for every run. {bars}")];
    if shown == Shown::Loss {
        notes.push("The loss is the mean of the steps since the previous evaluation.".into());
    }
    notes
}

/// What a value is on the axis; a loss of 0 has no place on a logarithmic one.
fn value(point: &CurvePoint, shown: Shown) -> Option<f64> {
    match shown {
        Shown::Accuracy => Some(100.0 * point.test_accuracy),
        Shown::Loss => point.training_loss.filter(|loss| *loss > 0.0),
    }
}

fn run_series(record: &Record, shown: Shown) -> Series {
    let (label, ink) = match record.outcome {
        Outcome::Trained { .. } => ("trained", Ink::unordered(0)),
        Outcome::Stalled { .. } => ("stalled", Ink::unordered(4)),
        Outcome::Diverged { .. } => ("diverged", Ink::unordered(1)),
    };
    let mark = |point: &CurvePoint| {
        let mut text = vec![
            format!("seed {}, step {}", record.seed, number::count(point.step)),
            format!("test accuracy {} %", number::percent(point.test_accuracy)),
            format!(
                "validation accuracy {} %",
                number::percent(point.validation_accuracy)
            ),
        ];
        let loss = point.training_loss;
        text.extend(loss.map(|loss| format!("training loss {}", number::significant(loss, 3))));
        Some(Mark {
            x: point.step as f64,
            y: value(point, shown)?,
            n: Some(1),
            text,
            ..Mark::default()
        })
    };
    Series {
        label: label.into(),
        ink,
        marker: Marker::Circle,
        joined: true,
        stress: Stress::Faint,
        dodge: 0.0,
        marks: record.curve.iter().filter_map(mark).collect(),
    }
}

/// The mean over the trained runs at every step that all of them were evaluated at.
fn mean_series(observed: &Observed<'_>, shown: Shown) -> Option<Series> {
    let trained: Vec<&Record> = (observed.records())
        .filter(|record| record.outcome.trained().is_some())
        .collect();
    let first = trained.first().filter(|_| trained.len() > 1)?;
    let mark = |at: usize| {
        let step = first.curve[at].step;
        let values: Option<Vec<f64>> = (trained.iter())
            .map(|record| {
                let point = record.curve.get(at).filter(|point| point.step == step)?;
                value(point, shown)
            })
            .collect();
        mean_mark(step, &values?, shown)
    };
    Some(Series {
        label: format!(
            "{} of {}",
            shown.mean(),
            words::counted(trained.len() as u64, "trained run")
        ),
        ink: Ink::Text,
        marker: Marker::Circle,
        joined: true,
        stress: Stress::Plain,
        dodge: 0.0,
        marks: (0..first.curve.len()).filter_map(mark).collect(),
    })
}

fn mean_mark(step: u64, values: &[f64], shown: Shown) -> Option<Mark> {
    let head = format!(
        "step {}, {} of {} runs",
        number::count(step),
        shown.mean(),
        values.len()
    );
    let (y, y_bar, text) = match shown {
        Shown::Accuracy => {
            let shares: Vec<f64> = values.iter().map(|percent| percent / 100.0).collect();
            let sample = Sample::of(&shares)?;
            let text = format!("test accuracy {}", words::accuracy(sample));
            (100.0 * sample.mean, two_errors(sample), text)
        }
        Shown::Loss => {
            let (mean, ends) = geometric(values)?;
            let text = format!(
                "training loss {} (2 s.e. of its logarithm, n = {})",
                number::with_interval(mean, ends),
                values.len()
            );
            (mean, ends, text)
        }
    };
    Some(Mark {
        x: step as f64,
        y,
        y_bar,
        n: u32::try_from(values.len()).ok(),
        text: vec![head, text],
        ..Mark::default()
    })
}

/// exp of the mean of ln x, and of its ends at ± 2 standard errors.
fn geometric(values: &[f64]) -> Option<(f64, Option<Interval<f64>>)> {
    let logarithms: Vec<f64> = values.iter().map(|value| value.ln()).collect();
    let sample = Sample::of(&logarithms)?;
    let ends = sample.standard_error.map(|error| Interval {
        low: (sample.mean - 2.0 * error).exp(),
        high: (sample.mean + 2.0 * error).exp(),
    });
    Some((sample.mean.exp(), ends))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn geometric_means_by_hand() {
        // ln 1 = 0 and ln e² = 2: mean 1, deviation √2, standard error 1.
        let (mean, ends) = geometric(&[1.0, 2.0_f64.exp()]).unwrap();
        let ends = ends.unwrap();
        assert!((mean.ln() - 1.0).abs() < 1e-12);
        assert!((ends.low.ln() + 1.0).abs() < 1e-12 && (ends.high.ln() - 3.0).abs() < 1e-12);
    }
}
