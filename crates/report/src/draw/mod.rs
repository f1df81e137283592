//! Places a figure on paper: heading, legend, axes and data.
//!
//! Our own drawing and not a plotting crate's, because every mark carries words for
//! hover and screen readers, colours change with the reader's scheme, a legend stands
//! outside the data, and text is measured with a font that is not installed.

mod axes;
mod below;
pub mod frame;
mod legend;
mod marks;
pub mod scene;
mod ticks;

use crate::figure::{Figure, Ranges};
use crate::font::{self, Weight};
use crate::palette::Ink;
use crate::words::spoken;
use axes::Margins;
use frame::Frame;
use legend::Legend;
use scene::{Anchor, Scene, Shape, Words, spot};

/// Where a drawing is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// As a file of its own: with title, settings and notes.
    Alone,
    /// On a page that writes title, settings and notes itself; legible on a phone.
    OnPage,
}

const TITLE: f64 = 15.0;
const SUBTITLE: f64 = 11.0;
const NOTE: f64 = 10.5;
const EDGE: f64 = 14.0;

impl Form {
    fn width(self, figure: &Figure) -> f64 {
        match self {
            Self::Alone if figure.diagonal => 580.0,
            Self::Alone => 720.0,
            Self::OnPage => 460.0,
        }
    }

    fn plot_height(self, figure: &Figure) -> f64 {
        match self {
            Self::Alone if figure.diagonal => 370.0,
            Self::Alone => 330.0,
            Self::OnPage if figure.diagonal => 340.0,
            Self::OnPage => 270.0,
        }
    }

    fn edge(self) -> f64 {
        match self {
            Self::Alone => EDGE,
            Self::OnPage => 4.0,
        }
    }
}

/// A line of the heading or the notes.
struct Line {
    text: String,
    size: f64,
    weight: Weight,
    ink: Ink,
    height: f64,
}

/// The drawing of a figure.
pub fn draw(figure: &Figure, form: Form) -> Scene {
    let width = form.width(figure);
    let edge = form.edge();
    let inner = width - 2.0 * edge;
    let heading = heading(figure, form, inner);
    let notes = notes(figure, form, inner);
    let ranges = Ranges::of(figure);
    let legend = Legend::of(figure, ranges, form == Form::Alone);
    let height = form.plot_height(figure).max(legend.height_beside());
    let margins = Margins::of(figure, ranges, height);
    let height_of = |lines: &[Line]| lines.iter().map(|line| line.height).sum::<f64>();
    let strip = marks::strip_height(figure);
    let top = edge + height_of(&heading) + if heading.is_empty() { 6.0 } else { 10.0 } + strip;
    let mut frame = Frame {
        left: edge + margins.left,
        top,
        width: inner - margins.left - margins.right - legend.width_beside(),
        height,
        ranges,
        x_scale: figure.x.scale,
        y_scale: figure.y.scale,
    };
    if figure.diagonal {
        frame.width = frame.width.min(frame.height);
    }
    let legend_top = frame.bottom() + margins.bottom;
    let notes_top = legend_top + legend.height_below(inner);
    let mut scene = Scene {
        width,
        height: (notes_top + height_of(&notes) + edge).ceil(),
        description: description(figure),
        items: Vec::new(),
    };
    if form == Form::Alone {
        let (width, height) = (scene.width, scene.height);
        scene.shape(Shape::rectangle(spot(0.0, 0.0), width, height, Ink::Paper));
    }
    write_lines(&mut scene, heading, spot(edge, edge));
    axes::draw(&mut scene, figure, &frame, &margins);
    marks::draw(&mut scene, figure, &frame);
    marks::draw_strip(&mut scene, figure, &frame);
    legend.draw_beside(&mut scene, spot(frame.right() + 14.0, frame.top));
    legend.draw_below(&mut scene, spot(edge, legend_top), inner);
    write_lines(&mut scene, notes, spot(edge, notes_top));
    scene
}

fn description(figure: &Figure) -> String {
    format!(
        "{}. {}",
        spoken(&figure.title),
        spoken(&figure.subtitle.join("; "))
    )
}

fn heading(figure: &Figure, form: Form, width: f64) -> Vec<Line> {
    if form == Form::OnPage {
        return Vec::new();
    }
    let mut lines = paragraph(&figure.title, TITLE, Weight::Bold, Ink::Text, width);
    for text in &figure.subtitle {
        lines.extend(paragraph(
            text,
            SUBTITLE,
            Weight::Regular,
            Ink::Muted,
            width,
        ));
    }
    lines
}

fn notes(figure: &Figure, form: Form, width: f64) -> Vec<Line> {
    match form {
        Form::OnPage => Vec::new(),
        Form::Alone => paragraph(
            &figure.notes.join(" "),
            NOTE,
            Weight::Regular,
            Ink::Muted,
            width,
        ),
    }
}

fn paragraph(text: &str, size: f64, weight: Weight, ink: Ink, width: f64) -> Vec<Line> {
    if text.is_empty() {
        return Vec::new();
    }
    font::wrapped(text, size, weight, width)
        .into_iter()
        .map(|text| Line {
            text,
            size,
            weight,
            ink,
            height: 1.45 * size,
        })
        .collect()
}

fn write_lines(scene: &mut Scene, lines: Vec<Line>, corner: scene::Spot) {
    let mut y = corner.y;
    for line in lines {
        let place = spot(corner.x, y + line.size);
        let words = Words::new(place, line.text, line.size, Anchor::Start).in_ink(line.ink);
        scene.words(match line.weight {
            Weight::Bold => words.bold(),
            Weight::Regular => words,
        });
        y += line.height;
    }
}
