//! The settings of studies, and how to repeat them.

use super::PageOptions;
use super::parts;
use crate::svg::escaped;
use crate::{number, words};
use analysis::brief::Training;
use analysis::grid::GridFindings;
use analysis::stability::StabilityFindings;
use analysis::{Findings, Options, Resolution, SearchFindings};
use spec::{SearchKind, TimeBounds};
use std::fmt::Write;

/// Settings, and how to repeat the studies.
pub fn section(findings: &[Findings], page: &PageOptions) -> String {
    if findings.is_empty() {
        return String::new();
    }
    let mut out = String::from("<h2>Settings</h2>\n");
    for one in findings {
        let _ = writeln!(
            out,
            "<details{}><summary><code>{}</code></summary>{}</details>",
            if findings.len() == 1 { " open" } else { "" },
            escaped(&one.study.name),
            list(&settings(one))
        );
    }
    if let Some(command) = &page.command {
        let _ = write!(
            out,
            "<h2>How to repeat it</h2>\n<p><code>{}</code> with version {} of noisescale. Runs that \
             are recorded are not trained again; the same records give the same intervals. Elsewhere, \
             <code>noisescale run</code> takes the folder's <code>study.toml</code>: it holds the study \
             with all changes that were made on the command line.</p>\n",
            escaped(command),
            escaped(&page.version)
        );
    }
    out
}

fn list(pairs: &[(&'static str, String)]) -> String {
    let mut out = String::from("<div class=\"scroll\"><table><tbody>");
    for (name, value) in pairs {
        let _ = write!(
            out,
            "<tr><th scope=\"row\">{name}</th><td class=\"wide\">{}</td></tr>",
            parts::rich(value)
        );
    }
    out.push_str("</tbody></table></div>");
    out
}

fn settings(findings: &Findings) -> Vec<(&'static str, String)> {
    let study = &findings.study;
    let widths: Vec<String> = study.widths.iter().map(ToString::to_string).collect();
    let mut all = vec![
        (
            "task",
            format!(
                "{}, N = {}",
                study.task,
                number::count(study.examples.into())
            ),
        ),
        ("family", study.family_label.clone()),
        ("scheme", words::scheme(study.scheme)),
        (
            "batch norm",
            if study.batch_norm { "yes" } else { "no" }.into(),
        ),
        ("optimizer", words::rule(study.rule).into()),
        ("momentum m", study.momentum.to_string()),
        (
            "weight scale σ₀²",
            format!("{} [weight]²", study.weight_scale),
        ),
        (
            "regularizers",
            words::regularizers(study).unwrap_or_else(|| "none".into()),
        ),
        ("widths w", widths.join(", ")),
        ("runs per point", study.seeds.to_string()),
    ];
    if let Some(experiment) = &study.experiment {
        all.push(("experiment of the paper", experiment.clone()));
    }
    all.extend(training(&study.training));
    for search in &findings.searches {
        all.push((words::search(search.kind), scanned(search)));
    }
    if !findings.grids.is_empty() {
        all.push((words::search(SearchKind::Grid), gridded(&findings.grids)));
    }
    if let Some(found) = &findings.stability {
        all.push((words::search(SearchKind::Stability), stability(found)));
    }
    all.push(("bootstrap", resampling(&findings.bootstrap)));
    if findings.runs.seconds > 0.0 {
        all.push((
            "compute time (sum over runs)",
            number::duration(findings.runs.seconds),
        ));
    }
    all
}

/// How the bootstrap was done.
fn resampling(bootstrap: &Options) -> String {
    format!(
        "{} resamples, {} % intervals, over {}, seed {}",
        number::count(bootstrap.resamples as u64),
        number::significant(100.0 * bootstrap.level, 3),
        match bootstrap.resolution {
            Resolution::Seeds => "seeds",
            Resolution::SeedsAndGrid => "seeds and the steps of the grid",
        },
        bootstrap.seed
    )
}

/// How long runs train, as the studies' files say it after `time.scale`, and when they are given up.
fn training(training: &Training) -> Vec<(&'static str, String)> {
    let mut all = vec![("least epochs E_min", {
        let widths = each_time(training, |time| time.epochs);
        number::significant(training.time.epochs, 4) + &widths
    })];
    let by_width = training.by_width.iter().map(|rule| rule.time.steps);
    if by_width.chain([training.time.steps]).any(|steps| steps > 0) {
        let widths = each_time(training, |time| time.steps as f64);
        all.push((
            "least steps T_min",
            number::count(training.time.steps) + &widths,
        ));
    }
    if let Some(reference) = training.reference {
        let steps = match reference.steps {
            Some(steps) => format!("T₀ = {} steps", number::count(steps)),
            None => "T₀ by the least epochs and steps".into(),
        };
        let rate = words::rate(reference.learning_rate);
        all.push((
            "reference of times",
            format!("{steps} at ε₀ = {rate}; smaller rates train for T₀·ε₀/ε steps"),
        ));
    }
    let evaluation = training.evaluation;
    all.push((
        "evaluations per run",
        number::count(evaluation.count.into()),
    ));
    all.push((
        "stalled",
        format!(
            "below a test accuracy of {} %: stopped after {} % of the steps, not trained at the end",
            number::significant(100.0 * evaluation.stall_accuracy, 3),
            number::significant(100.0 * evaluation.stall_after, 3)
        ),
    ));
    all
}

/// ` (w = 256, 512: 240)`: where widths differ.
fn each_time(training: &Training, of: impl Fn(&TimeBounds) -> f64) -> String {
    let usual = of(&training.time);
    let differ = (training.by_width.iter()).filter(|rule| of(&rule.time) != usual);
    let each: Vec<String> = differ
        .map(|rule| {
            let widths: Vec<String> = rule.widths.iter().map(ToString::to_string).collect();
            format!(
                "w = {}: {}",
                widths.join(", "),
                number::significant(of(&rule.time), 6)
            )
        })
        .collect();
    match each.is_empty() {
        true => String::new(),
        false => format!(" ({})", each.join("; ")),
    }
}

/// What a grid study scans.
fn gridded(grids: &[GridFindings]) -> String {
    let curves = || grids.iter().flat_map(|grid| &grid.curves);
    let points = curves().flat_map(|curve| &curve.points);
    let sizes = points.map(|point| f64::from(point.batch_size.get()));
    let rates = curves().map(|curve| curve.learning_rate.get());
    format!(
        "B = {}; ε = {}",
        values(sizes.collect()),
        values(rates.collect())
    )
}

/// What a stability study scans.
fn stability(found: &StabilityFindings) -> String {
    let points = found.widths.iter().flat_map(|width| &width.points);
    let rates = points.map(|point| point.learning_rate.get()).collect();
    let size = number::count(found.batch_size.get().into());
    format!("B = {size}; ε = {}", values(rates))
}

/// Different values, ascending.
fn values(mut all: Vec<f64>) -> String {
    all.sort_by(f64::total_cmp);
    all.dedup();
    let each: Vec<String> = all.iter().map(|v| number::significant(*v, 4)).collect();
    each.join(", ")
}

/// The values that a search scans, over all widths.
fn scanned(search: &SearchFindings) -> String {
    let scanned = (search.widths.iter().flat_map(|found| &found.points))
        .map(|point| match search.axis {
            analysis::Axis::BatchSize => f64::from(point.batch_size.get()),
            analysis::Axis::LearningRate => point.learning_rate.get(),
        })
        .collect();
    format!(
        "{}; {} = {}",
        words::fixed(search),
        words::axis_symbol(search.axis),
        values(scanned)
    )
}
