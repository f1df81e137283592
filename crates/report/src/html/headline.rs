//! What stands first: how far a study is, and its law in a sentence and four numbers.

use super::page::Place;
use super::parts::rich;
use super::standing::{Standing, Work, recorded};
use crate::svg::escaped;
use crate::{phrase, words};
use analysis::{Findings, Growth, Law, SearchFindings};
use std::fmt::Write;

/// How far a study is, and who works on it.
pub fn status(findings: &Findings, standing: Option<&Standing>, place: &Place) -> String {
    let study = &findings.study;
    let label = recorded(findings);
    let mut out = format!(
        "<p class=\"study\"><code>{}</code> {}</p>\n<div class=\"progress\"><progress \
         value=\"{}\" max=\"{}\" aria-label=\"{}\"></progress><span>{label}</span></div>\n",
        escaped(&study.name),
        escaped(&words::settings(study)),
        findings.runs.recorded,
        findings.runs.planned.max(1),
        escaped(&label)
    );
    if let Some(standing) = standing {
        out.push_str(&work(standing));
    }
    if let Place::Served { base } = place {
        let base = escaped(base);
        let _ = writeln!(
            out,
            "<p class=\"get\"><a download href=\"{base}runs.csv\">Runs as CSV</a>\
             <a download href=\"{base}results.json\">Findings as JSON</a></p>"
        );
    }
    out
}

fn work(standing: &Standing) -> String {
    let class = match standing.work {
        Work::Complete => "complete",
        Work::Idle => "idle",
        Work::AtWork { .. } => "busy",
    };
    let mut out = format!(
        "<p class=\"work\"><span class=\"dot {class}\"></span>{}; {} trained, {} stalled, {} \
         diverged</p>\n",
        escaped(&standing.work.line()),
        standing.trained,
        standing.stalled,
        standing.diverged
    );
    if !standing.warnings.is_empty() {
        out.push_str("<div class=\"flags\"><strong>Warnings of the ledger</strong><ul>\n");
        for warning in &standing.warnings {
            let _ = writeln!(out, "<li>{}</li>", escaped(warning));
        }
        out.push_str("</ul></div>\n");
    }
    out
}

/// The law of every search, or why there is none; empty for a study without searches.
pub fn laws(findings: &Findings) -> String {
    if findings.searches.is_empty() {
        return String::new();
    }
    let searches: Vec<String> = (findings.searches.iter())
        .map(|search| law_of(findings, search))
        .collect();
    format!(
        "<section class=\"card law\">\n{}</section>\n",
        searches.concat()
    )
}

fn law_of(findings: &Findings, search: &SearchFindings) -> String {
    let name = format!("{} at {}", words::search(search.kind), words::fixed(search));
    let head = format!("<h2>{}</h2>\n", rich(&capital(&name)));
    let law = match search.law.law() {
        Ok(law) => law,
        Err(reason) => {
            return format!(
                "{head}<p class=\"lead\">{}.</p>\n",
                rich(&capital(&reason.to_string()))
            );
        }
    };
    let optimal = words::optimal(law.measure);
    let claim = match law.growth() {
        Some(Growth::Proportional) => {
            format!(
                "The optimum is consistent with growing in proportion to the width: {optimal} = a·w."
            )
        }
        Some(Growth::NotProportional) => {
            format!(
                "The optimum does not grow in proportion to the width; {optimal} = a·w is rough."
            )
        }
        Some(Growth::Undecided) | None => {
            format!("The optimum against the width, if it grows in proportion: {optimal} = a·w.")
        }
    };
    format!(
        "{head}<p class=\"lead\">{}</p>\n<dl class=\"tiles\">{}{}{}{}</dl>\n<p class=\"muted\">{}</p>\n",
        rich(&claim),
        tile("a", &phrase::slope(law)),
        tile("R²", &r_squared(law)),
        tile("exponent p of w", &phrase::exponent(law)),
        tile("fitted widths", &law.widths.len().to_string()),
        rich(&format!(
            "Of p: {}. {}; {}.",
            phrase::linearity(law),
            capital(&basis(findings, law)),
            excluded(law)
        ))
    )
}

fn r_squared(law: &Law) -> String {
    match phrase::tests_linearity(law) {
        true => phrase::r_squared(law),
        false => format!("{} not meaningful with two widths", phrase::r_squared(law)),
    }
}

/// A number with its name; what follows the number itself is small.
pub fn tile(name: &str, text: &str) -> String {
    let (value, rest) = text.split_once(' ').unwrap_or((text, ""));
    format!(
        "<div><dt>{name}</dt><dd>{} <small>{}</small></dd></div>",
        rich(value),
        rich(rest)
    )
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| {
        first.to_uppercase().chain(letters).collect()
    })
}

fn basis(findings: &Findings, law: &Law) -> String {
    let level = law.slope_confidence.map_or_else(String::new, |confidence| {
        format!("{} bootstrap intervals, ", phrase::level(confidence))
    });
    format!("{level}{}", words::runs_per_point(&findings.study))
}

fn excluded(law: &Law) -> String {
    if law.excluded.is_empty() {
        return "no width left out".into();
    }
    let each: Vec<String> = law.excluded.iter().map(ToString::to_string).collect();
    format!("left out: {}", each.join("; "))
}
