//! The two searches against each other, width by width (figures 2 and 3 of the paper):
//! ḡ_opt, and peak accuracy. On the line y = x they agree.

use super::series::{peak_counts, two_errors};
use super::{AxisSpec, Extent, Figure, FigureKind, Group, Mark, Marker, Series, Stress};
use crate::number::Magnitude;
use crate::palette::Ink;
use crate::{phrase, words};
use analysis::compare::{self, Found, SearchAgreement};
use analysis::{Measure, SearchFindings, StudyBrief};
use spec::SearchKind;

/// The agreement of the group's searches, if it has both.
pub fn figures(group: &Group<'_>) -> Vec<Figure> {
    let Some(study) = group.study() else {
        return Vec::new();
    };
    let all: Vec<SearchFindings> = (group.members.iter())
        .flat_map(|findings| findings.searches.iter().cloned())
        .collect();
    let pairs = compare::searches(&all);
    let defined = |pair: &SearchAgreement| {
        pair.batch_size.estimate.measure == Measure::NormalizedNoise
            && pair.learning_rate.estimate.measure == Measure::NormalizedNoise
    };
    let mut figures = Vec::new();
    if !pairs.is_empty() && pairs.iter().all(defined) {
        figures.push(noise(group, study, &pairs));
    }
    if !pairs.is_empty() {
        figures.push(peaks(group, study, &pairs));
    }
    figures
}

fn blank(group: &Group<'_>, study: &StudyBrief, what: &str) -> Figure {
    let axis = AxisSpec::linear("", "").showing(Extent::Data);
    Figure {
        id: words::slug(&format!("agreement {what} {}", group.label)),
        kind: FigureKind::Agreement,
        group: group.label.clone(),
        title: String::new(),
        subtitle: subtitle(group, study),
        x: axis.clone(),
        y: axis,
        legend: "width".into(),
        series: Vec::new(),
        spans: Vec::new(),
        fits: Vec::new(),
        diagonal: true,
        hollow: None,
        notes: Vec::new(),
    }
}

/// The settings; where several studies share a figure, also which two are compared: the first with either search.
fn subtitle(group: &Group<'_>, study: &StudyBrief) -> Vec<String> {
    let first = |kind: SearchKind| {
        let with = (group.members.iter()).find(|findings| findings.search(kind).is_some());
        with.map_or_else(String::new, |findings| findings.study.name.clone())
    };
    if group.members.len() < 2 {
        return vec![words::settings(study)];
    }
    vec![
        words::shared_settings(study),
        format!(
            "batch-size search of {}, learning-rate search of {}",
            first(SearchKind::BatchSize),
            first(SearchKind::LearningRate)
        ),
    ]
}

fn series(at: usize, count: usize, pair: &SearchAgreement, mark: Mark) -> Series {
    Series {
        label: format!("w = {}", pair.width),
        ink: Ink::ordered(at, count),
        marker: Marker::of(at),
        joined: false,
        stress: Stress::Plain,
        dodge: 0.0,
        marks: vec![mark],
    }
}

fn noise(group: &Group<'_>, study: &StudyBrief, pairs: &[SearchAgreement]) -> Figure {
    let values = |pair: &SearchAgreement| {
        let (one, other) = (pair.batch_size.estimate, pair.learning_rate.estimate);
        one.value.max(other.value)
    };
    let magnitude = Magnitude::of(pairs.iter().map(values).fold(0.0, f64::max));
    let unit = magnitude.unit(Measure::NormalizedNoise.unit());
    let mut figure = blank(group, study, "noise");
    figure.title = "Optimal noise scale: learning-rate against batch-size search".into();
    let both = |pair: &SearchAgreement| [pair.batch_size.peak, pair.learning_rate.peak];
    figure.subtitle.push(format!(
        "{} · {}",
        peak_counts(pairs.iter().flat_map(both)),
        verdict(pairs)
    ));
    figure.x =
        AxisSpec::linear("ḡ_{opt}, batch-size search", unit.as_str()).showing(Extent::FromZero);
    figure.y = AxisSpec::linear("ḡ_{opt}, learning-rate search", unit).showing(Extent::FromZero);
    for (at, pair) in pairs.iter().enumerate() {
        let (one, other) = (&pair.batch_size, &pair.learning_rate);
        let mark = Mark {
            x: magnitude.scaled(one.estimate.value),
            y: magnitude.scaled(other.estimate.value),
            x_bar: Some(magnitude.scaled_interval(one.estimate.bar)),
            y_bar: Some(magnitude.scaled_interval(other.estimate.bar)),
            x_whisker: (one.confidence).map(|c| magnitude.scaled_interval(c.interval)),
            y_whisker: (other.confidence).map(|c| magnitude.scaled_interval(c.interval)),
            n: smaller_count(one, other),
            hollow: !(one.bracketed && other.bracketed),
            text: vec![
                format!("w = {}", pair.width),
                format!("batch-size search ḡ_opt = {}", value(one)),
                format!("learning-rate search ḡ_opt = {}", value(other)),
                ratio(pair),
            ],
            ..Mark::default()
        };
        figure.series.push(series(at, pairs.len(), pair, mark));
    }
    figure.notes = vec![noise_bars(pairs)];
    if figure.marks().any(|(_, mark)| mark.hollow) {
        figure.hollow = Some("not bracketed in one of the searches".into());
    }
    figure
}

/// At how many widths the two agree.
fn verdict(pairs: &[SearchAgreement]) -> String {
    let known = || pairs.iter().filter_map(|pair| pair.ranges_overlap);
    let ratios: Vec<_> = (pairs.iter())
        .filter_map(|pair| pair.ratio_confidence)
        .collect();
    let one = ratios.iter().filter(|ratio| ratio.interval.contains(&1.0));
    let mut text = match known().count() {
        0 => "single runs: whether the ranges overlap is not known".into(),
        count => format!(
            "ranges, of bar and thin line together, overlap at {} of {}",
            known().filter(|overlap| *overlap).count(),
            words::counted(count as u64, "width")
        ),
    };
    if let Some(first) = ratios.first() {
        text += &format!(
            "; the {} bootstrap interval of the ratio contains 1 at {} of {}",
            phrase::level(*first),
            one.count(),
            words::counted(ratios.len() as u64, "width")
        );
    }
    text
}

fn noise_bars(pairs: &[SearchAgreement]) -> String {
    let both = pairs.iter().flat_map(|p| [p.batch_size, p.learning_rate]);
    match both.filter_map(|found| found.confidence).next() {
        Some(confidence) => format!(
            "Thick bars: ends of the best interval. Thin lines: {} bootstrap interval.",
            phrase::level(confidence)
        ),
        None => "Bars: ends of the best interval.".into(),
    }
}

fn value(found: &Found) -> String {
    let estimate = found.estimate;
    let n = found.peak.count;
    let open = if found.bracketed {
        ""
    } else {
        ", not bracketed"
    };
    format!(
        "{} (n = {n}{open})",
        phrase::quantity(estimate.value, Some(estimate.bar), estimate.measure)
    )
}

fn ratio(pair: &SearchAgreement) -> String {
    let ratio = pair.ratio.map_or_else(String::new, |ratio| {
        let interval = pair.ratio_confidence.map(|found| found.interval);
        format!(
            "ratio {}",
            crate::number::with_interval_about(ratio, interval, &[1.0])
        )
    });
    match pair.ranges_overlap {
        Some(true) => format!("{ratio}, ranges overlap"),
        Some(false) => format!("{ratio}, ranges do not overlap"),
        None => ratio,
    }
}

fn smaller_count(one: &Found, other: &Found) -> Option<u32> {
    u32::try_from(one.peak.count.min(other.peak.count)).ok()
}

fn peaks(group: &Group<'_>, study: &StudyBrief, pairs: &[SearchAgreement]) -> Figure {
    let mut figure = blank(group, study, "peak accuracy");
    figure.title = "Peak accuracy: learning-rate against batch-size search".into();
    figure.x = AxisSpec::linear("peak test accuracy, batch-size search", "%");
    figure.y = AxisSpec::linear("peak test accuracy, learning-rate search", "%");
    let both = |pair: &SearchAgreement| [pair.batch_size.peak, pair.learning_rate.peak];
    figure
        .subtitle
        .push(peak_counts(pairs.iter().flat_map(both)));
    for (at, pair) in pairs.iter().enumerate() {
        let (one, other) = (pair.batch_size.peak, pair.learning_rate.peak);
        let mark = Mark {
            x: 100.0 * one.mean,
            y: 100.0 * other.mean,
            x_bar: two_errors(one),
            y_bar: two_errors(other),
            n: smaller_count(&pair.batch_size, &pair.learning_rate),
            text: vec![
                format!("w = {}", pair.width),
                format!("batch-size search {}", words::accuracy(one)),
                format!("learning-rate search {}", words::accuracy(other)),
            ],
            ..Mark::default()
        };
        figure.series.push(series(at, pairs.len(), pair, mark));
    }
    figure.notes = vec!["Bars: ± 2 standard errors.".into()];
    figure
}
