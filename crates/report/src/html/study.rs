//! The parts of one study: status, law, prediction, flags, optima and all points.

use super::page::{Part, Place};
use super::parts::{self, rich};
use super::standing::Standing;
use super::{headline, predict};
use crate::flag::{Flag, study_flags};
use crate::svg::escaped;
use crate::table::{Show, Table};
use crate::{tables, words};
use analysis::measure::Place as Spot;
use analysis::{Findings, PointFindings};
use spec::SearchKind;
use std::fmt::Write;

/// One study on a page.
pub struct Shown<'a> {
    /// What it found.
    pub findings: &'a Findings,
    /// What all studies of the page found.
    pub all: &'a [Findings],
    /// How it stands, if it may still grow.
    pub standing: Option<&'a Standing>,
    /// What the names of its parts begin with.
    pub prefix: String,
    /// Where the page is read.
    pub place: &'a Place,
}

impl Shown<'_> {
    fn name(&self, what: &str) -> String {
        format!("{}-{what}", self.prefix)
    }

    /// How far it is and its law.
    pub fn opening(&self) -> Vec<Part> {
        let status = headline::status(self.findings, self.standing, self.place);
        let mut all = vec![Part::whole(self.name("status"), status)];
        let laws = headline::laws(self.findings);
        if !laws.is_empty() {
            all.push(Part::column(self.name("law"), laws));
        }
        all
    }

    /// Prediction, flags and optima.
    pub fn numbers(&self) -> Vec<Part> {
        let mut all = Vec::new();
        let prediction = predict::card(self.findings, self.all, &self.prefix);
        if !prediction.is_empty() {
            all.push(Part::column(self.name("predict"), prediction));
        }
        all.push(Part::whole(self.name("flags"), self.flags()));
        let optima = self.optima();
        if !optima.is_empty() {
            all.push(Part::whole(self.name("optima"), optima));
        }
        all
    }

    /// The flags; where the page shows several studies, below the name of this one.
    fn flags(&self) -> String {
        let flags = flag_list(
            &study_flags(self.findings),
            !self.findings.searches.is_empty(),
        );
        match self.all.len() {
            0 | 1 => flags,
            _ => format!(
                "<h2>Flags and optima of <code>{}</code></h2>\n{flags}",
                escaped(&self.findings.study.name)
            ),
        }
    }

    fn optima(&self) -> String {
        let mut out = String::new();
        for search in &self.findings.searches {
            let _ = write!(
                out,
                "<h2>{} against width, {}</h2>\n{}",
                rich(&words::optimal(search.measure)),
                words::search(search.kind),
                parts::table(&tables::optima(search))
            );
        }
        for grid in &self.findings.grids {
            out.push_str("<h2>Optimum at every learning rate</h2>\n");
            out.push_str(&parts::table(&tables::grid(grid)));
        }
        if let Some(found) = &self.findings.stability {
            out.push_str("<h2>Limits of stability</h2>\n");
            out.push_str(&parts::table(&tables::stability(found)));
            for line in tables::stability_trends(found, self.findings.study.scheme) {
                let _ = writeln!(out, "<p>{}</p>", rich(&line));
            }
        }
        out
    }

    /// All points, folded, a part for every width.
    pub fn points(&self) -> Vec<Part> {
        let mut all = Vec::new();
        for search in &self.findings.searches {
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
                let kind = words::search(search.kind);
                let summary = format!("w = {}, {kind}: {best}", found.width);
                all.push(self.points_of(all.len(), &summary, search.kind, &found.points));
            }
        }
        for grid in &self.findings.grids {
            for curve in &grid.curves {
                let rate = words::rate(curve.learning_rate);
                let summary = format!("w = {}, ε = {rate}", grid.width);
                all.push(self.points_of(all.len(), &summary, SearchKind::Grid, &curve.points));
            }
        }
        if let Some(found) = &self.findings.stability {
            for width in &found.widths {
                let summary = format!("w = {}", width.width);
                let keys = width.points.iter().map(|point| {
                    let place = Spot {
                        width: width.width,
                        batch_size: found.batch_size,
                        learning_rate: point.learning_rate,
                    };
                    words::point_key(SearchKind::Stability, place)
                });
                let table = tables::stability_points(&width.points);
                all.push(self.folded(all.len(), &summary, table, keys));
            }
        }
        if !all.is_empty() {
            let head = format!(
                "<h2>All points of <code>{}</code></h2>\n<p class=\"muted\">{}</p>\n",
                escaped(&self.findings.study.name),
                match self.place {
                    Place::File =>
                        "<code>noisescale serve DIR</code> shows the runs of every point and how \
                         they trained; <code>noisescale export DIR</code> writes them as CSV.",
                    Place::Served { .. } =>
                        "The first column leads to the runs of a point, and so does a mark of a figure.",
                }
            );
            all.insert(0, Part::whole(self.name("points"), head));
        }
        all
    }

    fn points_of(
        &self,
        at: usize,
        summary: &str,
        search: SearchKind,
        points: &[PointFindings],
    ) -> Part {
        let keys = points
            .iter()
            .map(|found| words::point_key(search, found.place()));
        self.folded(at, summary, tables::points("", points), keys)
    }

    /// A table of points, each of which leads to its runs where that is possible.
    fn folded(
        &self,
        at: usize,
        summary: &str,
        mut table: Table,
        keys: impl Iterator<Item = String>,
    ) -> Part {
        if let Place::Served { base } = self.place {
            for (row, key) in table.rows.iter_mut().zip(keys) {
                let href = format!("{base}points/{key}");
                if let Some(cell) = row.first_mut() {
                    cell.show = Show::Link(href);
                }
            }
        }
        Part::whole(
            self.name(&format!("points-{at}")),
            format!(
                "<details><summary>{}</summary>{}</details>\n",
                escaped(summary),
                parts::table(&table)
            ),
        )
    }
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
    let open = if flags.len() <= 8 { " open" } else { "" };
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
            parts::told(&flag.text)
        );
    }
    out.push_str("</ul></details></div>\n");
    out
}
