//! Accuracy along a search, one curve for every width (figure 6 of the paper and
//! those of its supplement): against what is scanned, against ḡ where it is defined,
//! and in the standard scheme against w·ε/B, to which ḡ is proportional and which
//! stands for it with batch norm.

use super::series::{
    ACCURACY_BARS, FEW_TRAINED, STRIP, accuracy_curve, span, trained_counts, untrained_note,
};
use super::{AxisSpec, Extent, Figure, FigureKind, TickStyle};
use crate::palette::Ink;
use crate::{phrase, words};
use analysis::{Axis, Findings, PointFindings, SearchFindings};
use spec::Scheme;

/// What accuracy is drawn against.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Against {
    /// B.
    BatchSize,
    /// ε.
    LearningRate,
    /// ḡ.
    Noise,
    /// w·ε/B.
    WidthRateOverBatch,
}

impl Against {
    /// Its value at a point; not a number where it is not defined.
    pub fn at(self, point: &PointFindings) -> f64 {
        let size = f64::from(point.batch_size.get());
        match self {
            Self::BatchSize => size,
            Self::LearningRate => point.learning_rate.get(),
            Self::Noise => point.normalized_noise.map_or(f64::NAN, |noise| noise.get()),
            Self::WidthRateOverBatch => {
                f64::from(point.width.get()) * point.learning_rate.get() / size
            }
        }
    }

    /// The axis it is drawn on.
    pub fn axis(self) -> AxisSpec {
        let rate_unit = "[weight]²/[loss]";
        match self {
            Self::BatchSize => AxisSpec::log("batch size B", "", TickStyle::PowersOfTwo),
            Self::LearningRate => AxisSpec::log("learning rate ε", rate_unit, TickStyle::Decimal),
            Self::Noise => {
                AxisSpec::log("normalized noise scale ḡ", "1/[loss]", TickStyle::Decimal)
            }
            Self::WidthRateOverBatch => AxisSpec::log("w·ε/B", rate_unit, TickStyle::Decimal),
        }
    }

    /// Its name in titles.
    pub fn name(self) -> &'static str {
        match self {
            Self::BatchSize => "batch size",
            Self::LearningRate => "learning rate",
            Self::Noise => "noise scale",
            Self::WidthRateOverBatch => "w·ε/B",
        }
    }

    /// Its name in file names.
    pub fn slug(self) -> &'static str {
        match self {
            Self::WidthRateOverBatch => "width rate over batch",
            other => other.name(),
        }
    }
}

/// The scans of every search of a study.
pub fn figures(findings: &Findings) -> Vec<Figure> {
    let mut all = Vec::new();
    for search in &findings.searches {
        let mut against = vec![match search.axis {
            Axis::BatchSize => Against::BatchSize,
            Axis::LearningRate => Against::LearningRate,
        }];
        if !findings.study.batch_norm {
            against.push(Against::Noise);
        }
        if findings.study.scheme == Scheme::Standard {
            against.push(Against::WidthRateOverBatch);
        }
        all.extend(against.iter().map(|what| scan(findings, search, *what)));
    }
    all
}

fn scan(findings: &Findings, search: &SearchFindings, against: Against) -> Figure {
    let points = || search.widths.iter().flat_map(|found| &found.points);
    let mut notes = vec![ACCURACY_BARS.to_string(), STRIP.to_string()];
    notes.extend(untrained_note(points()));
    let few = points().any(|point| point.few_trained && point.accuracy.is_some());
    let count = search.widths.len();
    Figure {
        id: words::slug(&format!(
            "scan {} against {} {}",
            words::search(search.kind),
            against.slug(),
            findings.study.name
        )),
        kind: FigureKind::Scan,
        group: words::networks(&findings.study),
        title: format!("Test accuracy against {}", against.name()),
        subtitle: vec![
            words::settings(&findings.study),
            format!(
                "{} at {} · {}",
                words::search(search.kind),
                words::fixed(search),
                trained_counts(points())
            ),
        ],
        x: against.axis(),
        y: AxisSpec::linear("test accuracy", "%").showing(Extent::Upper),
        legend: "width".into(),
        series: (search.widths.iter().enumerate())
            .map(|(at, found)| {
                let label = format!("w = {}", found.width);
                accuracy_curve(label, at, count, search.kind, &found.points, |point| {
                    against.at(point)
                })
            })
            .collect(),
        spans: (search.widths.iter().enumerate())
            .filter_map(|(at, found)| {
                let mut span = span(
                    &format!("w = {}", found.width),
                    Ink::ordered(at, count),
                    &found.points,
                    found.optimum.as_ref()?,
                    |point| against.at(point),
                )?;
                span.text
                    .insert(1, phrase::estimate(found.optimum.as_ref()?));
                Some(span)
            })
            .collect(),
        fits: Vec::new(),
        diagonal: false,
        hollow: few.then(|| FEW_TRAINED.into()),
        notes,
    }
}
