//! The optimum against the width, with the line through the origin that was fitted
//! (figures 1 and 4 of the paper; with batch norm, the optimal 1/B or ε of figure 5).
//!
//! Searches of the same networks share a figure where they are measured in the same
//! thing. An optimum that is not bracketed is a bound: hollow, with an arrow, and
//! not in the fit.

use super::series::{bracketing, dodge};
use super::{AxisSpec, Extent, Figure, FigureKind, Fit, Group, Mark, Marker, Open, Series, Stress};
use crate::number::{self, Magnitude};
use crate::palette::Ink;
use crate::{phrase, words};
use analysis::optimum::Edge;
use analysis::{Axis, Findings, Law, Measure, Optimum, SearchFindings, WidthFindings};

const HOLLOW: &str = "a bound, not fitted: not bracketed, or one trained run";

/// One search of one study of the group.
#[derive(Clone, Copy)]
struct Source<'a> {
    findings: &'a Findings,
    search: &'a SearchFindings,
}

/// A figure for every measure that the group's searches are reported in.
pub fn figures(group: &Group<'_>) -> Vec<Figure> {
    let sources: Vec<Source<'_>> = (group.members.iter())
        .flat_map(|findings| {
            let source = move |search| Source { findings, search };
            findings.searches.iter().map(source)
        })
        .collect();
    let mut measures: Vec<Measure> = Vec::new();
    for source in &sources {
        if !measures.contains(&source.search.measure) {
            measures.push(source.search.measure);
        }
    }
    let figure = |measure: &Measure| {
        let alike = |source: &&Source<'_>| source.search.measure == *measure;
        let used: Vec<Source<'_>> = sources.iter().filter(alike).copied().collect();
        law_figure(group, *measure, &used)
    };
    measures.iter().filter_map(figure).collect()
}

fn law_figure(group: &Group<'_>, measure: Measure, sources: &[Source<'_>]) -> Option<Figure> {
    let study = group.study()?;
    let magnitude = Magnitude::of(largest(sources));
    let several = group.members.len() > 1;
    let mut figure = Figure {
        id: words::slug(&format!("law {} {}", measure_slug(measure), group.label)),
        kind: FigureKind::Law,
        group: group.label.clone(),
        title: format!("Optimal {} against width", words::measure_name(measure)),
        subtitle: vec![match several {
            true => words::shared_settings(study),
            false => words::settings(study),
        }],
        x: AxisSpec::linear("width w", "").showing(Extent::FromZero),
        y: AxisSpec::linear(words::optimal(measure), magnitude.unit(measure.unit()))
            .showing(Extent::FromZero),
        legend: String::new(),
        series: Vec::new(),
        spans: Vec::new(),
        fits: Vec::new(),
        diagonal: false,
        hollow: None,
        notes: Vec::new(),
    };
    for (at, source) in sources.iter().enumerate() {
        let same = |other: &&Source<'_>| other.search.axis == source.search.axis;
        let earlier = sources[..at].iter().filter(same).count();
        let ink = match source.search.axis {
            Axis::BatchSize => Ink::unordered(2 * earlier),
            Axis::LearningRate => Ink::unordered(2 * earlier + 1),
        };
        let mut label = format!(
            "{}, {}",
            words::search(source.search.kind),
            words::fixed(source.search)
        );
        let mut line = phrase::law_line(source.search);
        if several {
            let study = &source.findings.study;
            label += &format!(" ({})", study.name);
            line = format!("{}, {}: {line}", study.name, words::runs_per_point(study));
        }
        figure.subtitle.push(line);
        let name = fit_name(source, sources.len() > 1, several);
        figure
            .fits
            .extend(fit(source.search, magnitude, ink, &name));
        figure.series.push(Series {
            label,
            ink,
            marker: Marker::of(at),
            joined: false,
            stress: Stress::Plain,
            dodge: dodge(at, sources.len()),
            marks: marks(source.search, magnitude),
        });
    }
    finish(&mut figure, sources);
    Some(figure)
}

/// Of which search, and which study, a line is, where there are several.
fn fit_name(source: &Source<'_>, searches: bool, studies: bool) -> String {
    let name = words::search(source.search.kind);
    match (searches, studies) {
        (false, _) => String::new(),
        (true, false) => format!(" of the {name}"),
        (true, true) => format!(" of the {name} ({})", source.findings.study.name),
    }
}

fn finish(figure: &mut Figure, sources: &[Source<'_>]) {
    let marks = || figure.series.iter().flat_map(|series| &series.marks);
    let hollow = marks().any(|mark| mark.hollow);
    let whiskers = marks().any(|mark| mark.y_whisker.is_some());
    let level = sources.first().map_or(0.95, |s| s.findings.bootstrap.level);
    let level = number::significant(100.0 * level, 3);
    let mut bars = "Thick bars: ends of the best interval.".to_string();
    if whiskers {
        bars += &format!(" Thin lines: {level} % bootstrap interval.");
    }
    if figure.fits.iter().any(|fit| fit.slopes.is_some()) {
        bars += &format!(" Bands: {level} % bootstrap interval of a.");
    }
    if sources.len() > 1 {
        bars += " Searches are drawn a little apart.";
    }
    figure.notes.push(bars);
    if hollow {
        figure.hollow = Some(HOLLOW.into());
        figure
            .notes
            .push("An arrow points to where an optimum that is not bracketed may lie.".into());
    }
}

fn measure_slug(measure: Measure) -> &'static str {
    match measure {
        Measure::NormalizedNoise => "noise",
        Measure::InverseBatchSize => "inverse batch size",
        Measure::WidthOverBatchSize => "width over batch size",
        Measure::LearningRate => "learning rate",
        Measure::WidthTimesLearningRate => "width times learning rate",
    }
}

fn optima(search: &SearchFindings) -> impl Iterator<Item = (&WidthFindings, &Optimum)> {
    let with = |found: &'_ WidthFindings| found.optimum.is_some();
    (search.widths.iter().filter(move |found| with(found)))
        .filter_map(|found| found.optimum.as_ref().map(|optimum| (found, optimum)))
}

fn largest(sources: &[Source<'_>]) -> f64 {
    sources
        .iter()
        .flat_map(|source| optima(source.search))
        .map(|(_, optimum)| optimum.estimate.value)
        .filter(|value| value.is_finite())
        .fold(0.0, f64::max)
}

fn marks(search: &SearchFindings, magnitude: Magnitude) -> Vec<Mark> {
    optima(search)
        .filter(|(_, optimum)| optimum.estimate.value.is_finite())
        .map(|(found, optimum)| Mark {
            x: f64::from(found.width.get()),
            y: magnitude.scaled(optimum.estimate.value),
            y_bar: Some(magnitude.scaled_interval(optimum.estimate.bar)),
            y_whisker: (optimum.confidence).map(|c| magnitude.scaled_interval(c.interval)),
            n: u32::try_from(optimum.peak.count).ok(),
            hollow: !optimum.bracketed() || optimum.threshold.is_none(),
            open: open(search.axis, optimum),
            text: text(search, found, optimum),
            ..Mark::default()
        })
        .collect()
}

/// Beyond small batches and large rates lies more noise.
fn open(axis: Axis, optimum: &Optimum) -> Open {
    let (above, below) = match axis {
        Axis::BatchSize => (optimum.low_edge, optimum.high_edge),
        Axis::LearningRate => (optimum.high_edge, optimum.low_edge),
    };
    Open {
        above: above != Edge::Bracketed,
        below: below != Edge::Bracketed,
    }
}

fn text(search: &SearchFindings, found: &WidthFindings, optimum: &Optimum) -> Vec<String> {
    let mut lines = vec![
        format!("w = {}, {}", found.width, words::search(search.kind)),
        phrase::estimate(optimum),
        format!(
            "best {} {} at {}",
            words::axis_symbol(search.axis),
            words::best_values(search.axis, optimum),
            words::fixed_value(found.fixed)
        ),
    ];
    if let Some(confidence) = optimum.confidence {
        lines.push(phrase::bootstrap(confidence, optimum.estimate.measure));
    }
    lines.push(format!("peak {}", words::accuracy(optimum.peak)));
    lines.push(bracketing(optimum).into());
    lines
}

/// The line of a search; `name` says of which, where there are several.
fn fit(search: &SearchFindings, magnitude: Magnitude, ink: Ink, name: &str) -> Option<Fit> {
    let law: &Law = search.law.law().ok()?;
    let widths = optima(search).map(|(found, _)| f64::from(found.width.get()));
    Some(Fit {
        label: match law.measure {
            Measure::NormalizedNoise => format!("fit{name}: ḡ_{{opt}} = a·w"),
            other => format!("fit{name}: {} = a·w", other.symbol()),
        },
        ink,
        slope: magnitude.scaled(law.proportion.slope),
        slopes: law
            .slope_confidence
            .map(|confidence| magnitude.scaled_interval(confidence.interval)),
        from: law.widths.first().map_or(0.0, |w| f64::from(w.get())),
        until: law.widths.last().map_or(0.0, |w| f64::from(w.get())),
        beyond: widths.fold(0.0, f64::max),
    })
}
