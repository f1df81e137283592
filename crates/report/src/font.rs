//! The embedded font: DejaVu Sans, regular and bold, cut down to Latin, Greek and the
//! signs that figures use.
//!
//! Pictures must not depend on what is installed. PNG draws its outlines; the layout of
//! SVG is measured with it too, and since it is a wide font, text in a browser's own
//! font fits where this one does. No shaping is needed for these scripts: its combining
//! marks have no advance and lie over the letter before them.

use crate::words::{Level, TIE, pieces, unbroken};
use std::sync::LazyLock;
use ttf_parser::Face;

/// Font families for browsers, widest first.
pub const FAMILIES: &str = "DejaVu Sans, Verdana, Segoe UI, Helvetica, Arial, sans-serif";

/// Size of text at a level, against the text around it.
pub fn level_size(level: Level) -> f64 {
    match level {
        Level::Base => 1.0,
        Level::Sub | Level::Super => 0.72,
    }
}

/// How far text at a level hangs below the baseline, in sizes of the text around it.
pub fn level_drop(level: Level) -> f64 {
    match level {
        Level::Base => 0.0,
        Level::Sub => 0.2,
        Level::Super => -0.36,
    }
}

static REGULAR: &[u8] = include_bytes!("../assets/DejaVuSans-subset.ttf");
static BOLD: &[u8] = include_bytes!("../assets/DejaVuSans-Bold-subset.ttf");

/// Weight of text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Weight {
    /// Plain text.
    #[default]
    Regular,
    /// Titles.
    Bold,
}

/// The face of a weight; `None` only if the embedded file were damaged.
pub fn face(weight: Weight) -> Option<&'static Face<'static>> {
    static FACES: LazyLock<[Option<Face<'static>>; 2]> =
        LazyLock::new(|| [REGULAR, BOLD].map(|data| Face::parse(data, 0).ok()));
    match weight {
        Weight::Regular => FACES[0].as_ref(),
        Weight::Bold => FACES[1].as_ref(),
    }
}

/// Width of a text with subscripts and superscripts, in the unit of `size`.
pub fn width(text: &str, size: f64, weight: Weight) -> f64 {
    pieces(text)
        .iter()
        .map(|piece| {
            let size = level_size(piece.level) * size;
            piece.text.chars().map(|c| advance(c, weight)).sum::<f64>() * size
        })
        .sum()
}

/// Advance of a character, in sizes.
pub fn advance(c: char, weight: Weight) -> f64 {
    const TYPICAL: f64 = 0.6;
    let Some(face) = face(weight) else {
        return TYPICAL;
    };
    let units = f64::from(face.units_per_em());
    face.glyph_index(c)
        .and_then(|glyph| face.glyph_hor_advance(glyph))
        .map_or(TYPICAL, |advance| f64::from(advance) / units)
}

/// The text broken into lines of at most `most`, at spaces; an interval stays with its value.
pub fn wrapped(text: &str, size: f64, weight: Weight, most: f64) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in unbroken(text).split(' ') {
        let word = word.replace(TIE, " ");
        if let Some(line) = lines.last_mut() {
            let longer = format!("{line} {word}");
            if width(&longer, size, weight) <= most {
                *line = longer;
                continue;
            }
        }
        lines.push(word);
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_font_has_every_sign_in_use() {
        for weight in [Weight::Regular, Weight::Bold] {
            let face = face(weight).unwrap();
            for c in "aZ09ḡεσ²₀³⁻⁶×±·≥≤∝–—√≈−µ→↑↓°§é".chars().chain(['\u{304}'])
            {
                assert!(face.glyph_index(c).is_some(), "{c}");
            }
        }
        assert!(REGULAR.len() + BOLD.len() < 100_000);
    }

    #[test]
    fn combining_marks_take_no_room() {
        assert_eq!(
            width("ε\u{304}", 10.0, Weight::Regular),
            width("ε", 10.0, Weight::Regular)
        );
    }

    #[test]
    fn lines_break_at_spaces() {
        let lines = wrapped("one two three four", 10.0, Weight::Regular, 60.0);
        assert!(lines.len() > 1);
        assert_eq!(lines.join(" "), "one two three four");
        assert!(
            lines
                .iter()
                .all(|l| width(l, 10.0, Weight::Regular) <= 60.0)
        );
        // An interval and its value are one word.
        assert_eq!(
            wrapped("at p = 1 [0, 2], of", 10.0, Weight::Regular, 70.0),
            ["at", "p = 1 [0, 2],", "of"]
        );
        // A word that is too long stands alone.
        assert_eq!(
            wrapped("extraordinarily", 10.0, Weight::Regular, 5.0).len(),
            1
        );
    }
}
