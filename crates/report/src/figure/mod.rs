//! Figures as data: what is on the paper, before it is drawn.
//!
//! Built from [`Findings`](analysis::Findings) alone. A figure knows its title and
//! settings, its axes with unit and scale, its series with intervals, n and the words
//! that a reader sees on hover, its fitted lines and its notes; how large it is and
//! where its legend stands is decided when it is drawn. SVG, PNG and CSV are three
//! views of the same data.

mod agreement;
mod build;
mod curves;
mod grid;
mod group;
mod law;
mod range;
mod scan;
mod schemes;
mod series;
mod stability;

pub use build::figures;
pub use curves::curve_figures;
pub(crate) use group::{Group, groups};
pub(crate) use range::Ranges;

use crate::palette::Ink;
use analysis::Interval;

/// Which of the paper's figures it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FigureKind {
    /// The optimum against the width, with the fitted law.
    Law,
    /// Accuracy along a search, one curve for every width.
    Scan,
    /// Batch-size search against learning-rate search.
    Agreement,
    /// Accuracy over a grid, one curve for every ε.
    Grid,
    /// Failure rate against ε.
    Stability,
    /// Standard against NTK peak accuracy.
    Schemes,
    /// Accuracy or loss of the runs of one point, by step.
    Curves,
}

/// A figure. Words in it may hold subscripts and superscripts, written `ḡ_{opt}`
/// and `w^{q}`.
#[derive(Debug, Clone, PartialEq)]
pub struct Figure {
    /// Name for files and links: lower-case letters, digits and dashes; unique among
    /// the figures that were built together.
    pub id: String,
    /// Which of the paper's figures it is.
    pub kind: FigureKind,
    /// The networks it is about, e.g. `MNIST 1LP, NTK scheme`.
    pub group: String,
    /// What is shown.
    pub title: String,
    /// Settings, n and what was fitted, a line each.
    pub subtitle: Vec<String>,
    /// The horizontal axis.
    pub x: AxisSpec,
    /// The vertical axis.
    pub y: AxisSpec,
    /// Title of the legend, e.g. `width w`.
    pub legend: String,
    /// What is plotted.
    pub series: Vec<Series>,
    /// Best intervals along x, drawn in a strip above the plot.
    pub spans: Vec<Span>,
    /// Lines that were fitted.
    pub fits: Vec<Fit>,
    /// Whether y = x is drawn, with equal ranges on both axes.
    pub diagonal: bool,
    /// What hollow marks mean, if there are any.
    pub hollow: Option<String>,
    /// What bars, bands and arrows mean, and what is left out.
    pub notes: Vec<String>,
}

/// One axis.
#[derive(Debug, Clone, PartialEq)]
pub struct AxisSpec {
    /// What it shows, e.g. `ḡ_{opt}`.
    pub label: String,
    /// In which unit; empty for a pure number.
    pub unit: String,
    /// How values are placed.
    pub scale: Scale,
    /// Where ticks are wanted.
    pub ticks: TickStyle,
    /// Which part of the line is shown.
    pub extent: Extent,
}

/// How values are placed along an axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scale {
    /// In proportion to their value.
    Linear,
    /// In proportion to their logarithm.
    Log,
}

/// Where ticks are wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TickStyle {
    /// 1, 2 and 5 times powers of ten.
    Decimal,
    /// Powers of two, for batch sizes.
    PowersOfTwo,
}

/// Which part of an axis is shown.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Extent {
    /// The data with a margin.
    Data,
    /// From zero to the data.
    FromZero,
    /// The best part of the data: values far below the rest are drawn at the edge.
    Upper,
    /// These two ends.
    Fixed(Interval<f64>),
}

/// Marks that belong together.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    /// Its name in the legend; series of the same name, colour and shape share an entry.
    pub label: String,
    /// Its colour.
    pub ink: Ink,
    /// The shape of its marks.
    pub marker: Marker,
    /// Whether its marks are joined by a line.
    pub joined: bool,
    /// How strongly it is drawn.
    pub stress: Stress,
    /// Places to the left (negative) or right at which it is drawn, so that marks of equal x
    /// are set apart.
    pub dodge: f64,
    /// Its marks, ascending in x.
    pub marks: Vec<Mark>,
}

/// How strongly a series is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Stress {
    /// As one of a few.
    #[default]
    Plain,
    /// As one of many, behind the others: small marks, a thin line.
    Faint,
}

/// Shapes of marks; they tell series apart where colours do not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Marker {
    /// ●
    Circle,
    /// ■
    Square,
    /// ▲
    Triangle,
    /// ◆
    Diamond,
    /// Five corners.
    Pentagon,
    /// ✚
    Plus,
    /// Six corners.
    Hexagon,
    /// ✖
    Cross,
}

impl Marker {
    /// The shape of one of several series; repeats after eight.
    pub fn of(at: usize) -> Self {
        const ALL: [Marker; 8] = [
            Marker::Circle,
            Marker::Square,
            Marker::Triangle,
            Marker::Diamond,
            Marker::Pentagon,
            Marker::Plus,
            Marker::Hexagon,
            Marker::Cross,
        ];
        ALL[at % ALL.len()]
    }
}

/// One value with its intervals.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Mark {
    /// Along x.
    pub x: f64,
    /// Along y.
    pub y: f64,
    /// Interval of x: a horizontal bar.
    pub x_bar: Option<Interval<f64>>,
    /// A second, wider interval of x: a light line.
    pub x_whisker: Option<Interval<f64>>,
    /// Interval of y: a vertical bar with caps.
    pub y_bar: Option<Interval<f64>>,
    /// A second, wider interval of y: a light line.
    pub y_whisker: Option<Interval<f64>>,
    /// Runs behind it.
    pub n: Option<u32>,
    /// Drawn hollow: see [`Figure::hollow`].
    pub hollow: bool,
    /// The true value may lie further up or down.
    pub open: Open,
    /// What a reader sees on hover, a line each.
    pub text: Vec<String>,
    /// The name of the point that it shows, where a page may lead to its runs.
    pub point: Option<String>,
}

/// On which sides a value is only a bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Open {
    /// It may be larger.
    pub above: bool,
    /// It may be smaller.
    pub below: bool,
}

/// A best interval along x.
#[derive(Debug, Clone, PartialEq)]
pub struct Span {
    /// Colour of its series.
    pub ink: Ink,
    /// Its two ends.
    pub ends: Interval<f64>,
    /// The best point.
    pub best: f64,
    /// On which sides it is not bracketed; `above` is towards larger x.
    pub open: Open,
    /// What a reader sees on hover.
    pub text: Vec<String>,
}

/// A fitted line y = slope·x from the origin, with its band.
#[derive(Debug, Clone, PartialEq)]
pub struct Fit {
    /// Its name in the legend.
    pub label: String,
    /// Colour of its series.
    pub ink: Ink,
    /// y/x.
    pub slope: f64,
    /// Interval of the slope, drawn as a band.
    pub slopes: Option<Interval<f64>>,
    /// Where the fitted values begin;
    pub from: f64,
    /// where they end, so that the line is solid between;
    pub until: f64,
    /// and how far it reaches in x.
    pub beyond: f64,
}

impl Figure {
    /// All marks with their series.
    pub fn marks(&self) -> impl Iterator<Item = (&Series, &Mark)> {
        self.series
            .iter()
            .flat_map(|series| series.marks.iter().map(move |mark| (series, mark)))
    }
}

impl AxisSpec {
    /// A linear axis over the data, with decimal ticks.
    pub fn linear(label: impl Into<String>, unit: impl Into<String>) -> Self {
        Self {
            label: label.into(),
            unit: unit.into(),
            scale: Scale::Linear,
            ticks: TickStyle::Decimal,
            extent: Extent::Data,
        }
    }

    /// A logarithmic axis over the data.
    pub fn log(label: impl Into<String>, unit: impl Into<String>, ticks: TickStyle) -> Self {
        Self {
            scale: Scale::Log,
            ticks,
            ..Self::linear(label, unit)
        }
    }

    /// The same axis with another extent.
    pub fn showing(self, extent: Extent) -> Self {
        Self { extent, ..self }
    }

    /// Label and unit: `ḡ_{opt} (10³/[loss])`.
    pub fn caption(&self) -> String {
        if self.unit.is_empty() {
            self.label.clone()
        } else {
            format!("{} ({})", self.label, self.unit)
        }
    }
}
