//! A drawing as PNG, on white paper, with the embedded font.

use crate::draw::scene::{Anchor, Item, Outline, Scene, Shape, Words};
use crate::font;
use crate::palette::Ink;
use crate::words::pieces;
use tiny_skia::{
    FillRule, LineJoin, Paint, Path, PathBuilder, Pixmap, Stroke, StrokeDash, Transform,
};
use ttf_parser::OutlineBuilder;

/// Why there is no picture.
#[derive(Debug, thiserror::Error)]
pub enum PngError {
    /// The scale gives no pixels, or too many.
    #[error(
        "a scale of {scale} gives a picture of {width} × {height} pixels; choose one between 0.1 and 20"
    )]
    Size {
        /// Pixels for every unit of the drawing.
        scale: f64,
        /// Width in pixels.
        width: f64,
        /// Height in pixels.
        height: f64,
    },
    /// The picture could not be packed.
    #[error("the picture could not be written as PNG: {0}")]
    Encoding(String),
}

/// The PNG file of a drawing, with `scale` pixels for every unit of it.
pub fn write(scene: &Scene, scale: f64) -> Result<Vec<u8>, PngError> {
    let (width, height) = ((scene.width * scale).ceil(), (scene.height * scale).ceil());
    let size_error = || PngError::Size {
        scale,
        width,
        height,
    };
    if !(0.1..=20.0).contains(&scale) {
        return Err(size_error());
    }
    let mut canvas = Canvas {
        pixels: Pixmap::new(width as u32, height as u32).ok_or_else(size_error)?,
        transform: Transform::from_scale(scale as f32, scale as f32),
    };
    for item in &scene.items {
        match item {
            Item::Shape(shape) => canvas.shape(shape),
            Item::Words(words) => canvas.words(words),
            Item::Mark { shapes, .. } => shapes.iter().for_each(|shape| canvas.shape(shape)),
        }
    }
    let encoded = canvas.pixels.encode_png();
    encoded.map_err(|error| PngError::Encoding(error.to_string()))
}

struct Canvas {
    pixels: Pixmap,
    transform: Transform,
}

fn paint(ink: Ink, opacity: f64) -> Paint<'static> {
    let [red, green, blue] = ink.rgb();
    let mut paint = Paint::default();
    paint.set_color_rgba8(red, green, blue, (255.0 * opacity).round() as u8);
    paint.anti_alias = true;
    paint
}

impl Canvas {
    fn shape(&mut self, shape: &Shape) {
        let Some(path) = path(&shape.outline) else {
            return;
        };
        if let Some(ink) = shape.fill {
            let paint = paint(ink, shape.opacity);
            let rule = FillRule::Winding;
            (self.pixels).fill_path(&path, &paint, rule, self.transform, None);
        }
        if let Some(line) = shape.stroke {
            let stroke = Stroke {
                width: line.width as f32,
                line_join: LineJoin::Round,
                dash: line
                    .dash
                    .and_then(|lengths| StrokeDash::new(lengths.map(|l| l as f32).to_vec(), 0.0)),
                ..Stroke::default()
            };
            let paint = paint(line.ink, shape.opacity);
            (self.pixels).stroke_path(&path, &paint, &stroke, self.transform, None);
        }
    }

    fn words(&mut self, words: &Words) {
        let length = font::width(&words.text, words.size, words.weight);
        let mut along = match words.anchor {
            Anchor::Start => 0.0,
            Anchor::Middle => -0.5 * length,
            Anchor::End => -length,
        };
        let turn = if words.upwards { -90.0 } else { 0.0 };
        let place = (self.transform)
            .pre_translate(words.at.x as f32, words.at.y as f32)
            .pre_concat(Transform::from_rotate(turn));
        let paint = paint(words.ink, 1.0);
        for piece in pieces(&words.text) {
            let size = font::level_size(piece.level) * words.size;
            let drop = font::level_drop(piece.level) * words.size;
            for c in piece.text.chars() {
                let transform = place.pre_translate(along as f32, drop as f32);
                if let Some(path) = glyph(c, words.weight, size) {
                    (self.pixels).fill_path(&path, &paint, FillRule::Winding, transform, None);
                }
                along += size * font::advance(c, words.weight);
            }
        }
    }
}

fn path(outline: &Outline) -> Option<Path> {
    let mut builder = PathBuilder::new();
    match outline {
        Outline::Lines(pieces) => {
            for piece in pieces {
                add(&mut builder, piece);
            }
        }
        Outline::Polygon(corners) => {
            add(&mut builder, corners);
            builder.close();
        }
        Outline::Circle { centre, radius } => {
            builder.push_circle(centre.x as f32, centre.y as f32, *radius as f32);
        }
    }
    builder.finish()
}

fn add(builder: &mut PathBuilder, piece: &[crate::draw::scene::Spot]) {
    for (at, spot) in piece.iter().enumerate() {
        let (x, y) = (spot.x as f32, spot.y as f32);
        if at == 0 {
            builder.move_to(x, y);
        } else {
            builder.line_to(x, y);
        }
    }
}

/// The outline of a character; the font's y points up, the picture's down.
fn glyph(c: char, weight: font::Weight, size: f64) -> Option<Path> {
    let face = font::face(weight)?;
    let mut outline = GlyphOutline {
        builder: PathBuilder::new(),
        scale: (size / f64::from(face.units_per_em())) as f32,
    };
    face.outline_glyph(face.glyph_index(c)?, &mut outline)?;
    outline.builder.finish()
}

struct GlyphOutline {
    builder: PathBuilder,
    scale: f32,
}

impl OutlineBuilder for GlyphOutline {
    fn move_to(&mut self, x: f32, y: f32) {
        let s = self.scale;
        self.builder.move_to(x * s, -y * s);
    }

    fn line_to(&mut self, x: f32, y: f32) {
        let s = self.scale;
        self.builder.line_to(x * s, -y * s);
    }

    fn quad_to(&mut self, x1: f32, y1: f32, x: f32, y: f32) {
        let s = self.scale;
        self.builder.quad_to(x1 * s, -y1 * s, x * s, -y * s);
    }

    fn curve_to(&mut self, x1: f32, y1: f32, x2: f32, y2: f32, x: f32, y: f32) {
        let s = self.scale;
        self.builder
            .cubic_to(x1 * s, -y1 * s, x2 * s, -y2 * s, x * s, -y * s);
    }

    fn close(&mut self) {
        self.builder.close();
    }
}
