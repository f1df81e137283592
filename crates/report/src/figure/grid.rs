//! Accuracy over a grid of batch sizes and learning rates, one curve for every ε
//! (section G of the paper's supplement): against B, and against ḡ, where the curves
//! should fall on one another.

use super::scan::Against;
use super::series::{
    ACCURACY_BARS, FEW_TRAINED, STRIP, accuracy_curve, span, trained_counts, untrained_note,
};
use super::{AxisSpec, Extent, Figure, FigureKind};
use crate::palette::Ink;
use crate::{phrase, words};
use analysis::Findings;
use analysis::grid::{GridFindings, RateCurve};
use spec::SearchKind;

/// Two figures for every width; one with batch norm, where ḡ is not defined.
pub fn figures(findings: &Findings) -> Vec<Figure> {
    let mut against = vec![Against::BatchSize];
    if !findings.study.batch_norm {
        against.push(Against::Noise);
    }
    (findings.grids.iter())
        .flat_map(|grid| against.iter().map(move |what| (grid, *what)))
        .map(|(grid, what)| figure(findings, grid, what))
        .collect()
}

fn figure(findings: &Findings, grid: &GridFindings, against: Against) -> Figure {
    let points = || grid.curves.iter().flat_map(|curve| &curve.points);
    let few = points().any(|point| point.few_trained && point.accuracy.is_some());
    let count = grid.curves.len();
    let mut notes = vec![ACCURACY_BARS.to_string(), STRIP.to_string()];
    notes.extend(untrained_note(points()));
    let mut subtitle = vec![
        words::settings(&findings.study),
        format!("w = {} · {}", grid.width, trained_counts(points())),
    ];
    if let Some(optima) = grid.optima {
        let middle = 0.5 * (optima.low + optima.high);
        subtitle.push(format!(
            "middle and range of {} over the bracketed curves: {}",
            words::optimal(grid.measure),
            phrase::quantity(middle, Some(optima), grid.measure)
        ));
    }
    Figure {
        id: words::slug(&format!(
            "grid w{} against {} {}",
            grid.width,
            against.slug(),
            findings.study.name
        )),
        kind: FigureKind::Grid,
        group: words::networks(&findings.study),
        title: format!("Test accuracy against {}, by learning rate", against.name()),
        subtitle,
        x: against.axis(),
        y: AxisSpec::linear("test accuracy", "%").showing(Extent::Upper),
        legend: "learning rate".into(),
        series: (grid.curves.iter().enumerate())
            .map(|(at, curve)| {
                let x = |point: &_| against.at(point);
                accuracy_curve(label(curve), at, count, SearchKind::Grid, &curve.points, x)
            })
            .collect(),
        spans: (grid.curves.iter().enumerate())
            .filter_map(|(at, curve)| {
                span(
                    &label(curve),
                    Ink::ordered(at, count),
                    &curve.points,
                    curve.optimum.as_ref()?,
                    |point| against.at(point),
                )
            })
            .collect(),
        fits: Vec::new(),
        diagonal: false,
        hollow: few.then(|| FEW_TRAINED.into()),
        notes,
    }
}

fn label(curve: &RateCurve) -> String {
    format!("ε = {}", words::rate(curve.learning_rate))
}
