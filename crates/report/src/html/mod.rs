//! The report as one page that needs nothing else: style, script, figures and their
//! files are inside it, so that it opens from a folder, a mail or a server alike.
//!
//! Everything is readable without JavaScript; the script adds hover, keyboard, sorting
//! and PNG downloads. Colours follow the reader's scheme.

mod headline;
mod parts;
mod settings;

use crate::figure::{Figure, FigureKind, Group, groups};
use crate::flag::{Flag, study_flags};
use crate::svg::escaped;
use crate::{palette, tables, words};
use analysis::Findings;
use parts::rich;
use std::fmt::Write;

/// What a page says beside its findings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageOptions {
    /// Title; by default that of the study, or how many there are.
    pub title: Option<String>,
    /// The command that repeats the studies; by default `noisescale run` with their names.
    pub command: Option<String>,
    /// When it was written, as the reader should see it.
    pub written: Option<String>,
    /// Version of the program.
    pub version: String,
}

impl Default for PageOptions {
    fn default() -> Self {
        Self {
            title: None,
            command: None,
            written: None,
            version: env!("CARGO_PKG_VERSION").into(),
        }
    }
}

/// The whole page: one self-contained HTML file.
pub fn html(findings: &[Findings], figures: &[Figure], page: &PageOptions) -> String {
    let title = escaped(&title(findings, page));
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{title}</title>\n<style>\n{}{}</style>\n</head>\n<body>\n{}\
         <script>\n{}</script>\n</body>\n</html>\n",
        palette::css(),
        include_str!("style.css"),
        body(findings, figures, page),
        include_str!("page.js"),
    )
}

/// What is inside the page's body, for a page that renews it while a study runs; its
/// script offers `noisescale.enhance(element)` to prepare what was put in.
pub fn body(findings: &[Findings], figures: &[Figure], page: &PageOptions) -> String {
    let mut out = format!(
        "<header class=\"top\"><h1>{}</h1></header>\n<main>\n",
        escaped(&title(findings, page))
    );
    if findings.is_empty() {
        out.push_str("<p>No study was given.</p>\n");
    }
    let groups = groups(findings);
    if findings.len() > 1 {
        out.push_str(&parts::table(&settings::overview(findings)));
    }
    for group in &groups {
        out.push_str(&group_section(group, groups.len(), findings, figures));
    }
    out.push_str(&comparisons(figures));
    out.push_str(&settings::section(findings, page));
    out.push_str("</main>\n");
    let written = page
        .written
        .as_ref()
        .map_or_else(String::new, |when| format!(", written {}", escaped(when)));
    let _ = writeln!(
        out,
        "<footer>noisescale {}{written}. Method and words: docs/METHOD.md; this report: docs/REPORT.md.</footer>",
        escaped(&page.version)
    );
    out
}

fn title(findings: &[Findings], page: &PageOptions) -> String {
    match (&page.title, findings) {
        (Some(title), _) => title.clone(),
        (None, [one]) if !one.study.title.is_empty() => one.study.title.clone(),
        (None, [one]) => one.study.name.clone(),
        (None, several) => {
            words::counted(several.len() as u64, "study").replace("studys", "studies")
        }
    }
}

fn group_section(group: &Group<'_>, groups: usize, all: &[Findings], figures: &[Figure]) -> String {
    let mut out = String::from("<section>\n");
    if groups > 1 {
        let _ = writeln!(out, "<h2>{}</h2>", escaped(&group.label));
    }
    for findings in &group.members {
        out.push_str(&study_summary(findings, all));
    }
    let drawn: Vec<String> = figures
        .iter()
        .filter(|figure| figure.kind != FigureKind::Schemes && figure.group == group.label)
        .map(parts::figure)
        .collect();
    if !drawn.is_empty() {
        let _ = writeln!(
            out,
            "<h3>Figures</h3>\n<div class=\"figures\">\n{}</div>",
            drawn.concat()
        );
    }
    for findings in &group.members {
        out.push_str(&points(findings, group.members.len() > 1));
    }
    out.push_str("</section>\n");
    out
}

/// Headline, progress, flags and tables of one study.
fn study_summary(findings: &Findings, all: &[Findings]) -> String {
    let study = &findings.study;
    let mut out = format!(
        "<p class=\"study\"><code>{}</code> {}</p>\n{}",
        escaped(&study.name),
        escaped(&words::settings(study)),
        headline::progress(findings)
    );
    out.push_str(&headline::law_sentences(findings));
    out.push_str(&headline::meaning(findings, all));
    out.push_str(&flag_list(
        &study_flags(findings),
        !findings.searches.is_empty(),
    ));
    for search in &findings.searches {
        let _ = write!(
            out,
            "<h3>{} against width, {}</h3>\n{}",
            rich(&words::optimal(search.measure)),
            words::search(search.kind),
            parts::table(&tables::optima(search))
        );
    }
    for grid in &findings.grids {
        out.push_str("<h3>Optimum at every learning rate</h3>\n");
        out.push_str(&parts::table(&tables::grid(grid)));
    }
    if let Some(found) = &findings.stability {
        out.push_str("<h3>Limits of stability</h3>\n");
        out.push_str(&parts::table(&tables::stability(found)));
    }
    out
}

/// The flags of a study, open where they are few.
fn flag_list(flags: &[Flag], has_optima: bool) -> String {
    if flags.is_empty() && !has_optima {
        return "<p class=\"muted\">No flags.</p>\n".into();
    }
    if flags.is_empty() {
        return "<p class=\"muted\">No flags: every optimum is bracketed, at late time and has \
                enough trained runs.</p>\n"
            .into();
    }
    let open = if flags.len() <= 6 { " open" } else { "" };
    let mut out = format!(
        "<div class=\"flags\"><details{open}><summary><strong>{}</strong>: read these before the \
         numbers</summary><ul>\n",
        words::counted(flags.len() as u64, "flag")
    );
    for flag in flags {
        let place = flag.search.map_or("study", words::search);
        let width = flag
            .width
            .map_or_else(String::new, |w| format!(", w = {w}"));
        let _ = writeln!(
            out,
            "<li><strong>{}</strong> ({place}{width}): {}.</li>",
            flag.kind.short(),
            escaped(&flag.text)
        );
    }
    out.push_str("</ul></details></div>\n");
    out
}

/// All points of a study, folded, a table for every width.
fn points(findings: &Findings, named: bool) -> String {
    let mut out = String::new();
    for search in &findings.searches {
        for found in &search.widths {
            let best = found.optimum.as_ref().map_or_else(
                || "no trained run".into(),
                |optimum| {
                    format!(
                        "best {} {}, peak {}",
                        words::axis_symbol(search.axis),
                        words::best_values(search.axis, optimum),
                        words::accuracy(optimum.peak)
                    )
                },
            );
            let summary = format!(
                "w = {}, {}: {best}",
                found.width,
                words::search(search.kind)
            );
            out.push_str(&folded(
                &summary,
                &parts::table(&tables::points("", &found.points)),
            ));
        }
    }
    for grid in &findings.grids {
        for curve in &grid.curves {
            let rate = words::rate(curve.learning_rate);
            let summary = format!("w = {}, ε = {rate}", grid.width);
            out.push_str(&folded(
                &summary,
                &parts::table(&tables::points("", &curve.points)),
            ));
        }
    }
    if out.is_empty() {
        return out;
    }
    let name = if named {
        format!(" of <code>{}</code>", escaped(&findings.study.name))
    } else {
        String::new()
    };
    format!("<h3>All points{name}</h3>\n{out}")
}

fn folded(summary: &str, content: &str) -> String {
    format!(
        "<details><summary>{}</summary>{content}</details>\n",
        escaped(summary)
    )
}

/// Figures of more than one group.
fn comparisons(figures: &[Figure]) -> String {
    let drawn: Vec<String> = figures
        .iter()
        .filter(|figure| figure.kind == FigureKind::Schemes)
        .map(parts::figure)
        .collect();
    if drawn.is_empty() {
        return String::new();
    }
    format!(
        "<section><h2>Standard against NTK scheme</h2>\n<div class=\"figures\">\n{}</div></section>\n",
        drawn.concat()
    )
}
