//! The legend: beside the plot where its words are short, else below it in rows.

use super::marks::marker;
use super::scene::{Anchor, Scene, Shape, Spot, Words, spot};
use crate::figure::{Figure, Mark, Marker, Ranges};
use crate::font::{self, Weight};
use crate::palette::Ink;

/// Size of the legend's text.
pub const SIZE: f64 = 11.5;

/// Height of a row.
const ROW: f64 = 18.0;

/// Room for the sample left of the words.
const SWATCH: f64 = 30.0;

/// Widest text that still stands beside a plot.
const BESIDE: f64 = 120.0;

/// What an entry shows beside its words.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Swatch {
    Title,
    Series {
        ink: Ink,
        marker: Marker,
        joined: bool,
    },
    Fit(Ink),
    Diagonal,
    /// In the shapes of the first two series that have such marks.
    Hollow(Marker, Option<Marker>),
    Span,
}

#[derive(Debug, Clone, PartialEq)]
struct Entry {
    swatch: Swatch,
    text: String,
}

/// A legend, before it is placed.
#[derive(Debug, Clone, PartialEq)]
pub struct Legend {
    column: Vec<Entry>,
    row: Vec<Entry>,
}

impl Legend {
    /// The legend of a figure; beside the plot only where that is allowed.
    pub fn of(figure: &Figure, ranges: Ranges, may_stand_beside: bool) -> Self {
        let series = series_entries(figure);
        let others = other_entries(figure, ranges);
        let short = |entry: &Entry| entry.width() <= BESIDE;
        if may_stand_beside && series.len() > 1 && series.iter().all(short) {
            let (near, far): (Vec<_>, Vec<_>) = others.into_iter().partition(short);
            let title = title_entry(figure);
            Self {
                column: title.into_iter().chain(series).chain(near).collect(),
                row: far,
            }
        } else {
            let title = title_entry(figure);
            Self {
                column: Vec::new(),
                row: title.into_iter().chain(series).chain(others).collect(),
            }
        }
    }

    /// Room it takes beside the plot.
    pub fn width_beside(&self) -> f64 {
        let widths = self.column.iter().map(Entry::width);
        let widest = widths.fold(0.0, f64::max);
        if widest > 0.0 { widest + 14.0 } else { 0.0 }
    }

    /// Height of the part beside the plot.
    pub fn height_beside(&self) -> f64 {
        ROW * self.column.len() as f64
    }

    /// Height of the rows below the plot.
    pub fn height_below(&self, width: f64) -> f64 {
        let rows = self.rows(width).len() as f64;
        if rows > 0.0 { ROW * rows + 6.0 } else { 0.0 }
    }

    fn rows(&self, width: f64) -> Vec<Vec<&Entry>> {
        let mut rows: Vec<Vec<&Entry>> = Vec::new();
        let mut used = 0.0;
        for entry in &self.row {
            let needed = entry.width() + 16.0;
            match rows.last_mut() {
                Some(row) if used + needed <= width + 16.0 => row.push(entry),
                _ => {
                    rows.push(vec![entry]);
                    used = 0.0;
                }
            }
            used += needed;
        }
        rows
    }

    /// Draws the part beside the plot.
    pub fn draw_beside(&self, scene: &mut Scene, corner: Spot) {
        for (at, entry) in self.column.iter().enumerate() {
            entry.draw(scene, spot(corner.x, corner.y + ROW * (at as f64 + 0.5)));
        }
    }

    /// Draws the rows below the plot.
    pub fn draw_below(&self, scene: &mut Scene, corner: Spot, width: f64) {
        for (at, row) in self.rows(width).into_iter().enumerate() {
            let mut x = corner.x;
            for entry in row {
                entry.draw(scene, spot(x, corner.y + ROW * (at as f64 + 0.5)));
                x += entry.width() + 16.0;
            }
        }
    }
}

fn title_entry(figure: &Figure) -> Option<Entry> {
    (!figure.legend.is_empty() && figure.series.len() > 1).then(|| Entry {
        swatch: Swatch::Title,
        text: figure.legend.clone(),
    })
}

fn series_entries(figure: &Figure) -> Vec<Entry> {
    let entry = |series: &crate::figure::Series| Entry {
        swatch: Swatch::Series {
            ink: series.ink,
            marker: series.marker,
            joined: series.joined,
        },
        text: series.label.clone(),
    };
    let mut all: Vec<Entry> = Vec::new();
    for series in &figure.series {
        let entry = entry(series);
        if !all.contains(&entry) {
            all.push(entry);
        }
    }
    all
}

fn other_entries(figure: &Figure, ranges: Ranges) -> Vec<Entry> {
    let mut all = Vec::new();
    let mut add = |swatch, text: &str| {
        all.push(Entry {
            swatch,
            text: text.into(),
        });
    };
    for fit in &figure.fits {
        add(Swatch::Fit(fit.ink), &fit.label);
    }
    if figure.diagonal {
        add(Swatch::Diagonal, "y = x");
    }
    if !figure.spans.is_empty() {
        add(Swatch::Span, "best interval");
    }
    // Marks below the range of the axis are not drawn as what they are.
    let hollow = |mark: &Mark| mark.hollow && mark.y >= ranges.y.low;
    let drawn = figure.marks().filter(|(_, mark)| hollow(mark));
    let mut markers: Vec<Marker> = drawn.map(|(series, _)| series.marker).collect();
    markers.dedup();
    if let (Some(words), Some(first)) = (&figure.hollow, markers.first()) {
        let second = markers.iter().copied().find(|marker| marker != first);
        add(Swatch::Hollow(*first, second), words);
    }
    all
}

impl Entry {
    fn width(&self) -> f64 {
        let words = font::width(&self.text, SIZE, Weight::Regular);
        match self.swatch {
            Swatch::Title => words,
            _ => words + SWATCH,
        }
    }

    fn draw(&self, scene: &mut Scene, at: Spot) {
        let middle = spot(at.x + 11.0, at.y);
        let line = |ink, width| Shape::line(spot(at.x, at.y), spot(at.x + 22.0, at.y), ink, width);
        match self.swatch {
            Swatch::Title => {}
            Swatch::Series {
                ink,
                marker: kind,
                joined,
            } => {
                if joined {
                    scene.shape(line(ink, 1.4).faint(0.85));
                }
                scene.shape(marker(kind, middle, 4.2, ink, false));
            }
            Swatch::Fit(ink) => {
                let corner = spot(at.x, at.y - 5.0);
                scene.shape(Shape::rectangle(corner, 22.0, 10.0, ink).faint(0.14));
                scene.shape(line(ink, 1.6));
            }
            Swatch::Diagonal => scene.shape(line(Ink::Axis, 1.2).dashed([5.0, 4.0])),
            Swatch::Hollow(first, None) => {
                scene.shape(marker(first, middle, 4.2, Ink::Axis, true));
            }
            Swatch::Hollow(first, Some(second)) => {
                for (kind, x) in [(first, at.x + 4.0), (second, at.x + 18.0)] {
                    scene.shape(marker(kind, spot(x, at.y), 4.2, Ink::Axis, true));
                }
            }
            Swatch::Span => {
                scene.shape(line(Ink::Axis, 3.0));
                scene.shape(marker(Marker::Circle, middle, 2.6, Ink::Axis, true));
            }
        }
        let (x, ink) = match self.swatch {
            Swatch::Title => (at.x, Ink::Muted),
            _ => (at.x + SWATCH, Ink::Text),
        };
        let place = spot(x, at.y + 0.36 * SIZE);
        scene.words(Words::new(place, self.text.as_str(), SIZE, Anchor::Start).in_ink(ink));
    }
}
