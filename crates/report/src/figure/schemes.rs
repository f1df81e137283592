//! Peak accuracy of the standard scheme against the NTK scheme, width by width
//! (section I of the paper's supplement).

use super::series::{peak_counts, two_errors};
use super::{AxisSpec, Figure, FigureKind, Mark, Marker, Series, Stress};
use crate::number;
use crate::palette::Ink;
use crate::words;
use analysis::Findings;
use analysis::compare::{SchemeDifference, schemes};
use spec::Scheme;

/// A figure for every two studies that differ in their scheme.
pub fn figures(findings: &[Findings]) -> Vec<Figure> {
    let mut all = Vec::new();
    for (at, one) in findings.iter().enumerate() {
        for other in &findings[at + 1..] {
            if one.study.regularizers != other.study.regularizers {
                continue;
            }
            if let Ok(widths) = schemes(one, other) {
                all.push(figure(one, other, &widths));
            }
        }
    }
    all
}

fn figure(one: &Findings, other: &Findings, widths: &[SchemeDifference]) -> Figure {
    let (standard, ntk) = match one.study.scheme {
        Scheme::Standard => (one, other),
        Scheme::Ntk => (other, one),
    };
    let networks = words::without_scheme(&one.study);
    let count = widths.len();
    Figure {
        id: words::slug(&format!(
            "schemes {} {}",
            standard.study.name, ntk.study.name
        )),
        kind: FigureKind::Schemes,
        group: networks.clone(),
        title: "Peak accuracy: standard against NTK scheme".into(),
        subtitle: vec![
            format!(
                "{networks} · N = {} · {} and {}",
                number::count(one.study.examples.into()),
                standard.study.name,
                ntk.study.name
            ),
            format!(
                "{} · {}",
                words::counted(count as u64, "width"),
                peak_counts(widths.iter().flat_map(|both| [both.standard, both.ntk]))
            ),
        ],
        x: AxisSpec::linear("peak test accuracy, NTK scheme", "%"),
        y: AxisSpec::linear("peak test accuracy, standard scheme", "%"),
        legend: "width".into(),
        series: (widths.iter().enumerate())
            .map(|(at, both)| Series {
                label: format!("w = {}", both.width),
                ink: Ink::ordered(at, count),
                marker: Marker::of(at),
                joined: false,
                stress: Stress::Plain,
                dodge: 0.0,
                marks: vec![mark(both)],
            })
            .collect(),
        spans: Vec::new(),
        fits: Vec::new(),
        diagonal: true,
        hollow: None,
        notes: vec!["Bars: ± 2 standard errors.".into()],
    }
}

fn mark(both: &SchemeDifference) -> Mark {
    let difference = match both.difference.standard_error {
        Some(error) => format!(
            "NTK − standard {} ± {} points (2 s.e.)",
            number::percent(both.difference.value),
            number::percent(2.0 * error)
        ),
        None => format!(
            "NTK − standard {} points",
            number::percent(both.difference.value)
        ),
    };
    Mark {
        x: 100.0 * both.ntk.mean,
        y: 100.0 * both.standard.mean,
        x_bar: two_errors(both.ntk),
        y_bar: two_errors(both.standard),
        n: u32::try_from(both.ntk.count.min(both.standard.count)).ok(),
        text: vec![
            format!("w = {}", both.width),
            format!("NTK scheme {}", words::accuracy(both.ntk)),
            format!("standard scheme {}", words::accuracy(both.standard)),
            difference,
        ],
        ..Mark::default()
    }
}
