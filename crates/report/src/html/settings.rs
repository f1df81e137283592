//! The settings of studies, and how to repeat them.

use super::PageOptions;
use super::parts;
use crate::svg::escaped;
use crate::{number, words};
use analysis::{Findings, Resolution, SearchFindings};
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
    let bootstrap = findings.bootstrap;
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
    for search in &findings.searches {
        all.push((words::search(search.kind), scanned(search)));
    }
    all.push((
        "bootstrap",
        format!(
            "{} resamples, {} % intervals, over {}, seed {}",
            number::count(bootstrap.resamples as u64),
            number::significant(100.0 * bootstrap.level, 3),
            match bootstrap.resolution {
                Resolution::Seeds => "seeds",
                Resolution::SeedsAndGrid => "seeds and the steps of the grid",
            },
            bootstrap.seed
        ),
    ));
    if findings.runs.seconds > 0.0 {
        all.push(("training time", number::duration(findings.runs.seconds)));
    }
    all
}

/// The values that a search scans, over all widths.
fn scanned(search: &SearchFindings) -> String {
    let mut values: Vec<f64> = (search.widths.iter().flat_map(|found| &found.points))
        .map(|point| match search.axis {
            analysis::Axis::BatchSize => f64::from(point.batch_size.get()),
            analysis::Axis::LearningRate => point.learning_rate.get(),
        })
        .collect();
    values.sort_by(f64::total_cmp);
    values.dedup();
    let each: Vec<String> = values.iter().map(|v| number::significant(*v, 4)).collect();
    format!(
        "{}; {} = {}",
        words::fixed(search),
        words::axis_symbol(search.axis),
        each.join(", ")
    )
}
