//! Flags: what a reader must know before trusting a number, in words.

use crate::words;
use analysis::grid::{GridFindings, RateCurve};
use analysis::late::LateState;
use analysis::optimum::Edge;
use analysis::{Axis, Findings, Growth, Optimum, SearchFindings, WidthFindings};
use serde::Serialize;
use spec::{SearchKind, Width};

/// What is flagged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum FlagKind {
    /// Runs of the plan have no record yet.
    Incomplete,
    /// Records belong to no run of the plan, or to one that had a record.
    OtherRecords,
    /// There is no law.
    NoLaw,
    /// The interval of p does not hold 1.
    NotLinear,
    /// The law is of two widths only.
    TwoWidths,
    /// The best interval is not bracketed.
    NotBracketed,
    /// Many resamples touch the end of the grid, or a point without records.
    NearGridEnd,
    /// The best point has a single trained run.
    SpreadUnknown,
    /// No run is recorded yet.
    NoRecord,
    /// No run trained.
    NoTrained,
    /// Points have fewer than 75 % of their planned runs trained.
    FewTrained,
    /// Validation accuracy still rises.
    NotLate,
    /// It falls.
    Falling,
    /// Whether it has settled is not known.
    LateUnknown,
    /// The two searches disagree.
    SearchesDisagree,
}

impl FlagKind {
    /// In a word or two, for tables.
    pub fn short(self) -> &'static str {
        match self {
            Self::Incomplete => "incomplete",
            Self::OtherRecords => "other records",
            Self::NoLaw => "no law",
            Self::NotLinear => "not linear",
            Self::TwoWidths => "two widths",
            Self::NotBracketed => "not bracketed",
            Self::NearGridEnd => "near grid end",
            Self::SpreadUnknown => "spread unknown",
            Self::NoRecord => "no record yet",
            Self::NoTrained => "none trained",
            Self::FewTrained => "few trained",
            Self::NotLate => "not at late time",
            Self::Falling => "accuracy falling",
            Self::LateUnknown => "late time unknown",
            Self::SearchesDisagree => "searches disagree",
        }
    }
}

/// One flag.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Flag {
    /// What is flagged.
    pub kind: FlagKind,
    /// Name of the study.
    pub study: String,
    /// The search it is about, if it is about one.
    pub search: Option<SearchKind>,
    /// The width it is about, if it is about one.
    pub width: Option<Width>,
    /// A sentence with its remedy.
    pub text: String,
}

/// All flags of some studies, in their order.
pub fn flags(findings: &[Findings]) -> Vec<Flag> {
    findings.iter().flat_map(study_flags).collect()
}

/// The flags of one study.
pub fn study_flags(findings: &Findings) -> Vec<Flag> {
    let mut all = record_flags(findings);
    for search in &findings.searches {
        let about = |kind, width, text| Flag {
            kind,
            study: findings.study.name.clone(),
            search: Some(search.kind),
            width,
            text,
        };
        for (kind, text) in law_flags(search) {
            all.push(about(kind, None, text));
        }
        for found in &search.widths {
            for (kind, text) in width_flags(search, found) {
                all.push(about(kind, Some(found.width), text));
            }
        }
    }
    for grid in &findings.grids {
        all.extend(grid_flags(findings, grid));
    }
    for both in &findings.agreement {
        if both.ranges_overlap == Some(false) {
            all.push(Flag {
                kind: FlagKind::SearchesDisagree,
                study: findings.study.name.clone(),
                search: None,
                width: Some(both.width),
                text: "the two searches find optima whose ranges do not overlap; at equal training time they \
                       may (`noisescale course DIR --against DIR`)"
                    .into(),
            });
        }
    }
    all
}

/// What is to be known of one curve of a grid.
pub fn curve_flags(curve: &RateCurve) -> Vec<FlagKind> {
    let Some(optimum) = &curve.optimum else {
        return vec![FlagKind::NoTrained];
    };
    let few = curve.points.iter().any(|point| point.few_trained);
    [
        (!optimum.bracketed()).then_some(FlagKind::NotBracketed),
        (optimum.threshold.is_none()).then_some(FlagKind::SpreadUnknown),
        few.then_some(FlagKind::FewTrained),
        late_flag(optimum).map(|(kind, _)| kind),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// The curves of a grid, in one flag for each kind.
fn grid_flags(findings: &Findings, grid: &GridFindings) -> Vec<Flag> {
    let about = [
        (FlagKind::NoTrained, "no run trained"),
        (
            FlagKind::NotBracketed,
            "the best batch sizes are not bracketed",
        ),
        (
            FlagKind::SpreadUnknown,
            "the best point has a single trained run",
        ),
        (
            FlagKind::FewTrained,
            "fewer than 75 % of the planned runs trained at some batch sizes",
        ),
        (
            FlagKind::NotLate,
            "validation accuracy still rises in the best interval",
        ),
        (
            FlagKind::Falling,
            "validation accuracy falls at the end of training in the best interval",
        ),
        (
            FlagKind::LateUnknown,
            "it is not known whether validation accuracy has settled in the best interval",
        ),
    ];
    let flag = |(kind, what): (FlagKind, &str)| {
        let rates: Vec<String> = (grid.curves.iter())
            .filter(|curve| curve_flags(curve).contains(&kind))
            .map(|curve| words::rate(curve.learning_rate))
            .collect();
        (!rates.is_empty()).then(|| Flag {
            kind,
            study: findings.study.name.clone(),
            search: Some(SearchKind::Grid),
            width: Some(grid.width),
            text: format!("{what} at ε = {}", rates.join(", ")),
        })
    };
    about.into_iter().filter_map(flag).collect()
}

fn record_flags(findings: &Findings) -> Vec<Flag> {
    let flag = |kind, text| Flag {
        kind,
        study: findings.study.name.clone(),
        search: None,
        width: None,
        text,
    };
    let runs = findings.runs;
    let mut all = Vec::new();
    if runs.recorded < runs.planned {
        let failed = match runs.failed {
            0 => String::new(),
            some => format!(
                "; the command failed at {}: `noisescale status` says why",
                words::counted(some as u64, "run")
            ),
        };
        all.push(flag(
            FlagKind::Incomplete,
            format!(
                "{} of {} recorded so far; all below is of these{failed}",
                crate::number::count(runs.recorded as u64),
                words::counted(runs.planned as u64, "run")
            ),
        ));
    }
    let others: Vec<String> = [
        (runs.strays, "of no planned run"),
        (runs.duplicates, "of runs that were recorded before"),
    ]
    .into_iter()
    .filter(|(count, _)| *count > 0)
    .map(|(count, which)| format!("{} {which}", words::counted(count as u64, "record")))
    .collect();
    if !others.is_empty() {
        all.push(flag(
            FlagKind::OtherRecords,
            format!("{}: not used", others.join(" and ")),
        ));
    }
    all
}

fn law_flags(search: &SearchFindings) -> Vec<(FlagKind, String)> {
    let law = match search.law.law() {
        Ok(law) => law,
        Err(reason) => return vec![(FlagKind::NoLaw, reason.to_string())],
    };
    let mut all = Vec::new();
    if law.growth() == Some(Growth::NotProportional) {
        let exponent = crate::phrase::exponent(law);
        all.push((
            FlagKind::NotLinear,
            format!("the optimum grows as w^p with p = {exponent}, whose interval does not hold 1"),
        ));
    }
    if law.widths.len() == 2 {
        all.push((
            FlagKind::TwoWidths,
            "the law rests on two widths: some power of w passes through any two optima, so that \
             nothing tests its form; add widths, or bracket more optima"
                .into(),
        ));
    }
    all
}

/// The flags of one width of one search.
pub fn width_flags(search: &SearchFindings, found: &WidthFindings) -> Vec<(FlagKind, String)> {
    let mut all = Vec::new();
    let Some(optimum) = &found.optimum else {
        let recorded: u32 = found.points.iter().map(|point| point.runs.recorded).sum();
        return vec![if recorded == 0 {
            (FlagKind::NoRecord, "no run recorded yet".into())
        } else {
            let runs = words::counted(recorded.into(), "recorded run");
            (FlagKind::NoTrained, format!("none of {runs} trained"))
        }];
    };
    if let Some(text) = bracket_text(search.axis, optimum) {
        all.push((FlagKind::NotBracketed, text));
    } else if optimum.resamples_at_grid_end > 0.05 {
        let share = crate::number::fixed(100.0 * optimum.resamples_at_grid_end, 0);
        all.push((
            FlagKind::NearGridEnd,
            format!(
                "in {share} % of the resamples the best interval touches the end of what was measured"
            ),
        ));
    }
    if optimum.threshold.is_none() {
        let text = "the best point has a single trained run: its spread is not known".into();
        all.push((FlagKind::SpreadUnknown, text));
    }
    all.extend(few_flag(found, optimum));
    all.extend(late_flag(optimum));
    all
}

fn bracket_text(axis: Axis, optimum: &Optimum) -> Option<String> {
    let symbol = words::axis_symbol(axis);
    let (low, high) = (optimum.low_edge, optimum.high_edge);
    let beyond = |edge: Edge, end: &str, more: &str| match edge {
        Edge::Bracketed => None,
        Edge::GridEnd => Some(format!(
            "touches the {end} end of the grid: add {more} {symbol}"
        )),
        Edge::Unmeasured => Some(format!("the next {more} {symbol} has no record yet")),
    };
    let sides: Vec<String> = [
        beyond(low, "low", "smaller"),
        beyond(high, "high", "larger"),
    ]
    .into_iter()
    .flatten()
    .collect();
    (!sides.is_empty()).then(|| {
        let best = words::best_values(axis, optimum);
        format!(
            "best interval {symbol} = {best} not bracketed: {}",
            sides.join("; ")
        )
    })
}

fn few_flag(found: &WidthFindings, optimum: &Optimum) -> Option<(FlagKind, String)> {
    let few: Vec<_> = found.points.iter().filter(|p| p.few_trained).collect();
    let waiting = few.iter().any(|point| point.runs.missing() > 0);
    let place = if optimum.few_trained {
        ", the best interval included"
    } else {
        ", outside the best interval"
    };
    let so_far = if waiting { " so far" } else { "" };
    (!few.is_empty()).then(|| {
        let text = format!(
            "fewer than 75 % of the planned runs trained{so_far} at {} of {}{place}",
            few.len(),
            words::counted(found.points.len() as u64, "point")
        );
        (FlagKind::FewTrained, text)
    })
}

fn late_flag(optimum: &Optimum) -> Option<(FlagKind, String)> {
    match optimum.late {
        LateState::Settled => None,
        LateState::StillRising => Some((
            FlagKind::NotLate,
            "validation accuracy still rises in the best interval: train for longer".into(),
        )),
        LateState::Falling => Some((
            FlagKind::Falling,
            "validation accuracy falls at the end of training in the best interval: less noise, \
             or a shorter time, may be better"
                .into(),
        )),
        LateState::Unknown => Some((
            FlagKind::LateUnknown,
            "too few trained runs or evaluations in the best interval to tell whether \
             validation accuracy has settled"
                .into(),
        )),
    }
}
