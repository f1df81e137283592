//! A drawing as shapes and words at their places: what SVG and PNG are written from.

use crate::font::Weight;
use crate::palette::Ink;

/// A place, in pixels from the upper left corner.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spot {
    /// To the right.
    pub x: f64,
    /// Downwards.
    pub y: f64,
}

/// A place, in short.
pub fn spot(x: f64, y: f64) -> Spot {
    Spot { x, y }
}

/// A finished drawing.
#[derive(Debug, Clone, PartialEq)]
pub struct Scene {
    /// Width in pixels.
    pub width: f64,
    /// Height in pixels.
    pub height: f64,
    /// What it shows, for those who cannot see it.
    pub description: String,
    /// In drawing order.
    pub items: Vec<Item>,
}

/// A part of a drawing.
#[derive(Debug, Clone, PartialEq)]
pub enum Item {
    /// Shapes that show one value, with the words for it.
    Mark {
        /// Where the value is.
        at: Spot,
        /// A line each.
        text: Vec<String>,
        /// The name of the point that it shows, if it shows one.
        point: Option<String>,
        /// Its shapes.
        shapes: Vec<Shape>,
    },
    /// A shape without meaning of its own.
    Shape(Shape),
    /// Words.
    Words(Words),
}

/// A shape with its paint.
#[derive(Debug, Clone, PartialEq)]
pub struct Shape {
    /// Its outline.
    pub outline: Outline,
    /// Its line, if it has one.
    pub stroke: Option<Stroke>,
    /// Its inside, if that is painted.
    pub fill: Option<Ink>,
    /// From 0, invisible, to 1.
    pub opacity: f64,
}

/// A line.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Stroke {
    /// Its colour.
    pub ink: Ink,
    /// Its width.
    pub width: f64,
    /// Lengths of dashes and gaps; `None` for a solid line.
    pub dash: Option<[f64; 2]>,
}

/// An outline.
#[derive(Debug, Clone, PartialEq)]
pub enum Outline {
    /// Pieces of straight lines.
    Lines(Vec<Vec<Spot>>),
    /// A closed polygon.
    Polygon(Vec<Spot>),
    /// A circle.
    Circle {
        /// Its centre.
        centre: Spot,
        /// Its radius.
        radius: f64,
    },
}

/// Where text lies against its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Anchor {
    /// To its right.
    Start,
    /// Around it.
    Middle,
    /// To its left.
    End,
}

/// Text with subscripts.
#[derive(Debug, Clone, PartialEq)]
pub struct Words {
    /// Baseline.
    pub at: Spot,
    /// The text.
    pub text: String,
    /// Height of the font.
    pub size: f64,
    /// Its weight.
    pub weight: Weight,
    /// Where it lies.
    pub anchor: Anchor,
    /// Its colour.
    pub ink: Ink,
    /// Whether it runs upwards.
    pub upwards: bool,
}

impl Shape {
    /// A line of these pieces.
    pub fn lines(pieces: Vec<Vec<Spot>>, ink: Ink, width: f64) -> Self {
        Self {
            outline: Outline::Lines(pieces),
            stroke: Some(Stroke {
                ink,
                width,
                dash: None,
            }),
            fill: None,
            opacity: 1.0,
        }
    }

    /// A straight line.
    pub fn line(from: Spot, to: Spot, ink: Ink, width: f64) -> Self {
        Self::lines(vec![vec![from, to]], ink, width)
    }

    /// A painted rectangle.
    pub fn rectangle(corner: Spot, width: f64, height: f64, ink: Ink) -> Self {
        let (x, y) = (corner.x, corner.y);
        Self::polygon(
            vec![
                corner,
                spot(x + width, y),
                spot(x + width, y + height),
                spot(x, y + height),
            ],
            ink,
        )
    }

    /// A painted polygon.
    pub fn polygon(corners: Vec<Spot>, ink: Ink) -> Self {
        Self {
            outline: Outline::Polygon(corners),
            stroke: None,
            fill: Some(ink),
            opacity: 1.0,
        }
    }

    /// The same shape, fainter.
    pub fn faint(self, opacity: f64) -> Self {
        Self { opacity, ..self }
    }

    /// The same shape with a dashed line.
    pub fn dashed(mut self, dash: [f64; 2]) -> Self {
        if let Some(stroke) = &mut self.stroke {
            stroke.dash = Some(dash);
        }
        self
    }
}

impl Words {
    /// Plain text.
    pub fn new(at: Spot, text: impl Into<String>, size: f64, anchor: Anchor) -> Self {
        Self {
            at,
            text: text.into(),
            size,
            weight: Weight::Regular,
            anchor,
            ink: Ink::Text,
            upwards: false,
        }
    }

    /// The same text in another colour.
    pub fn in_ink(self, ink: Ink) -> Self {
        Self { ink, ..self }
    }

    /// The same text in bold.
    pub fn bold(self) -> Self {
        Self {
            weight: Weight::Bold,
            ..self
        }
    }

    /// The same text running upwards.
    pub fn upwards(self) -> Self {
        Self {
            upwards: true,
            ..self
        }
    }
}

impl Scene {
    /// Adds a shape.
    pub fn shape(&mut self, shape: Shape) {
        self.items.push(Item::Shape(shape));
    }

    /// Adds text.
    pub fn words(&mut self, words: Words) {
        self.items.push(Item::Words(words));
    }
}
