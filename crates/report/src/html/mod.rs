//! What studies found as pages: the report, which is one file that needs nothing else,
//! and the pages that `noisescale serve` keeps up to date. Both are lists of the same
//! parts; a file holds its downloads, a server links to them.
//!
//! Everything is readable without JavaScript; the script adds hover, keyboard, sorting,
//! the slider of the prediction and, on a served page, renewal. Colours follow the
//! reader's scheme.

mod headline;
mod overview;
mod page;
mod parts;
mod point;
mod predict;
mod settings;
mod standing;
mod study;

pub use page::{Link, Page, Part, Place, Room, script, stamp, style};
pub use point::{PointRuns, point_key, point_page};
pub use standing::{Standing, Work};

use crate::figure::{Figure, FigureKind, Group, groups};
use crate::svg::escaped;
use crate::words;
use analysis::Findings;
use overview::Listed;
use std::collections::HashSet;
use study::Shown;

/// What a page says beside its findings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageOptions {
    /// Title; by default that of the study, or how many there are.
    pub title: Option<String>,
    /// The command that goes on with the studies; without it the page does not say how to repeat them.
    pub command: Option<String>,
    /// Version of the program.
    pub version: String,
    /// Where it is read.
    pub place: Place,
    /// Pages above it.
    pub above: Vec<Link>,
    /// How each study stands, in their order; none for a report.
    pub standings: Vec<Standing>,
}

impl Default for PageOptions {
    fn default() -> Self {
        Self {
            title: None,
            command: None,
            version: env!("CARGO_PKG_VERSION").into(),
            place: Place::File,
            above: Vec::new(),
            standings: Vec::new(),
        }
    }
}

/// The report: one self-contained HTML file.
pub fn html(findings: &[Findings], figures: &[Figure], options: &PageOptions) -> String {
    page(findings, figures, options).file()
}

/// The page of one or several studies.
pub fn page(findings: &[Findings], figures: &[Figure], options: &PageOptions) -> Page {
    let mut listed = Vec::new();
    if findings.is_empty() {
        listed.push(Part::whole("nothing", "<p>No study was given.</p>\n"));
    }
    let groups = groups(findings);
    if findings.len() > 1 {
        let studies: Vec<Listed<'_>> = (findings.iter().enumerate())
            .map(|(at, findings)| Listed {
                findings,
                standing: options.standings.get(at),
                href: None,
            })
            .collect();
        let table = parts::table(&overview::overview(&studies));
        listed.push(Part::whole("overview", table));
    }
    for (at, group) in groups.iter().enumerate() {
        if groups.len() > 1 {
            listed.push(group_head(at, group));
        }
        listed.extend(group_parts(group, findings, figures, options));
    }
    listed.extend(comparisons(figures, &options.place));
    keep_names_unique(&mut listed);
    if !findings.is_empty() {
        listed.push(Part::whole(
            "settings",
            settings::section(findings, options),
        ));
    }
    Page {
        title: title(findings, options),
        above: options.above.clone(),
        parts: listed,
        foot: foot(options),
    }
}

/// The page above those of several studies: how each stands, with its law and the way
/// to its own page. `hrefs` are those ways, in the order of the studies.
pub fn overview_page(
    findings: &[Findings],
    figures: &[Figure],
    hrefs: &[String],
    options: &PageOptions,
) -> Page {
    let studies: Vec<Listed<'_>> = (findings.iter().enumerate())
        .map(|(at, findings)| Listed {
            findings,
            standing: options.standings.get(at),
            href: hrefs.get(at).map(String::as_str),
        })
        .collect();
    let table = parts::table(&overview::overview(&studies));
    let mut listed = vec![Part::whole("overview", table)];
    let drawn = |figure: &Figure| figure_part(figure, &options.place);
    for (at, group) in groups(findings).iter().enumerate() {
        let shared = |figure: &&Figure| {
            let kind = matches!(figure.kind, FigureKind::Law | FigureKind::Agreement);
            kind && figure.group == group.label
        };
        let figures: Vec<Part> = figures.iter().filter(shared).map(drawn).collect();
        if !figures.is_empty() {
            listed.push(group_head(at, group));
            listed.extend(figures);
        }
    }
    listed.extend(comparisons(figures, &options.place));
    keep_names_unique(&mut listed);
    Page {
        title: title(findings, options),
        above: options.above.clone(),
        parts: listed,
        foot: foot(options),
    }
}

fn group_head(at: usize, group: &Group<'_>) -> Part {
    let head = format!("<h2 class=\"group\">{}</h2>\n", escaped(&group.label));
    Part::whole(format!("group-{at}"), head)
}

/// Groups of the same label share their figures, which are shown once.
fn keep_names_unique(listed: &mut Vec<Part>) {
    let mut names = HashSet::new();
    listed.retain(|part| names.insert(part.name.clone()));
}

/// A part that says what is wrong with a study's folder.
pub fn trouble(text: &str) -> Part {
    Part::whole(
        "trouble",
        format!(
            "<div class=\"flags\" role=\"alert\"><p>{}</p></div>\n",
            escaped(text)
        ),
    )
}

fn foot(options: &PageOptions) -> String {
    format!(
        "noisescale {}. Method and words: docs/METHOD.md; this page: docs/REPORT.md.",
        options.version
    )
}

fn title(findings: &[Findings], options: &PageOptions) -> String {
    match (&options.title, findings) {
        (Some(title), _) => title.clone(),
        (None, [one]) if !one.study.title.is_empty() => one.study.title.clone(),
        (None, [one]) => one.study.name.clone(),
        (None, several) => words::counted_as(several.len() as u64, "study", "studies"),
    }
}

/// Status and laws with the figures of the laws beside them, then the other numbers,
/// the other figures, and all points.
fn group_parts(
    group: &Group<'_>,
    all: &[Findings],
    figures: &[Figure],
    options: &PageOptions,
) -> Vec<Part> {
    let place_of = |one: &Findings| all.iter().position(|other| std::ptr::eq(one, other));
    let members: Vec<Shown<'_>> = (group.members.iter())
        .map(|findings| {
            let at = place_of(findings).unwrap_or(0);
            Shown {
                findings,
                all,
                standing: options.standings.get(at),
                prefix: format!("s{at}"),
                place: &options.place,
            }
        })
        .collect();
    let own = |figure: &&Figure| figure.kind != FigureKind::Schemes && figure.group == group.label;
    let (laws, others): (Vec<&Figure>, Vec<&Figure>) =
        (figures.iter().filter(own)).partition(|figure| figure.kind == FigureKind::Law);
    let drawn = |figures: Vec<&Figure>| -> Vec<Part> {
        let part = |figure| figure_part(figure, &options.place);
        figures.into_iter().map(part).collect()
    };
    let beside = |part: Part| Part {
        room: Room::Tall,
        ..part
    };
    let mut listed: Vec<Part> = members.iter().flat_map(Shown::opening).collect();
    listed.extend(drawn(laws).into_iter().map(beside));
    listed.extend(members.iter().flat_map(Shown::numbers));
    listed.extend(drawn(others));
    listed.extend(members.iter().flat_map(Shown::points));
    listed
}

fn figure_part(figure: &Figure, place: &Place) -> Part {
    Part::column(
        format!("figure-{}", figure.id),
        parts::figure(figure, place),
    )
}

/// Figures of more than one group.
fn comparisons(figures: &[Figure], place: &Place) -> Vec<Part> {
    let mut listed: Vec<Part> = (figures.iter())
        .filter(|figure| figure.kind == FigureKind::Schemes)
        .map(|figure| figure_part(figure, place))
        .collect();
    if !listed.is_empty() {
        let head = "<h2>Standard against NTK scheme</h2>\n";
        listed.insert(0, Part::whole("schemes", head));
    }
    listed
}
