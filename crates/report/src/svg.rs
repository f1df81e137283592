//! A drawing as SVG.
//!
//! Colours are attributes, so that the file stands alone in any program, and classes
//! besides, so that a page which shows it inline can draw it in its own colours. Every
//! mark holds a `<title>`: what browsers show on hover and screen readers say.

use crate::draw::scene::{Anchor, Item, Outline, Scene, Shape, Spot, Words};
use crate::font::{FAMILIES, Weight, level_drop, level_size};
use crate::words::{Level, pieces};
use std::fmt::Write;

/// The SVG text of a drawing; `alone` adds what a file of its own needs.
pub fn write(scene: &Scene, alone: bool) -> String {
    let mut out = String::new();
    if alone {
        out.push_str("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    }
    let (width, height) = (number(scene.width), number(scene.height));
    let _ = write!(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
         width=\"{width}\" height=\"{height}\" role=\"img\" font-family=\"{FAMILIES}\"",
    );
    let _ = writeln!(out, " aria-label=\"{}\">", escaped(&scene.description));
    for item in &scene.items {
        match item {
            Item::Shape(shape) => out.push_str(&shape_text(shape)),
            Item::Words(words) => out.push_str(&words_text(words)),
            Item::Mark {
                at,
                text,
                point,
                shapes,
            } => {
                let point = point.as_ref().filter(|_| !alone);
                let point = point.map_or_else(String::new, |key| {
                    format!(" data-point=\"{}\"", escaped(key))
                });
                let _ = write!(
                    out,
                    "<g class=\"mark\" data-x=\"{}\" data-y=\"{}\"{point}><title>{}</title>",
                    number(at.x),
                    number(at.y),
                    escaped(&text.join("\n"))
                );
                shapes
                    .iter()
                    .for_each(|shape| out.push_str(&shape_text(shape)));
                out.push_str("</g>");
            }
        }
        out.push('\n');
    }
    out.push_str("</svg>\n");
    out
}

/// A coordinate with at most two decimals.
fn number(value: f64) -> String {
    let text = format!("{:.2}", if value.is_finite() { value } else { 0.0 });
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" {
        "0".into()
    } else {
        text.into()
    }
}

fn shape_text(shape: &Shape) -> String {
    let paint = paint(shape);
    match &shape.outline {
        Outline::Lines(pieces) => format!("<path d=\"{}\"{paint}/>", path(pieces)),
        Outline::Polygon(corners) => {
            format!(
                "<path d=\"{}Z\"{paint}/>",
                path(std::slice::from_ref(corners))
            )
        }
        Outline::Circle { centre, radius } => format!(
            "<circle cx=\"{}\" cy=\"{}\" r=\"{}\"{paint}/>",
            number(centre.x),
            number(centre.y),
            number(*radius)
        ),
    }
}

fn path(pieces: &[Vec<Spot>]) -> String {
    let mut out = String::new();
    for piece in pieces {
        for (at, spot) in piece.iter().enumerate() {
            let command = if at == 0 { 'M' } else { 'L' };
            let _ = write!(out, "{command}{} {}", number(spot.x), number(spot.y));
        }
    }
    out
}

fn paint(shape: &Shape) -> String {
    let mut classes = Vec::new();
    let mut out = String::new();
    match shape.fill {
        Some(ink) => {
            classes.push(format!("f-{}", ink.name()));
            let _ = write!(out, " fill=\"{}\"", ink.light());
        }
        None => out.push_str(" fill=\"none\""),
    }
    if let Some(stroke) = shape.stroke {
        classes.push(format!("k-{}", stroke.ink.name()));
        let _ = write!(
            out,
            " stroke=\"{}\" stroke-width=\"{}\" stroke-linejoin=\"round\"",
            stroke.ink.light(),
            number(stroke.width)
        );
        if let Some([dash, gap]) = stroke.dash {
            let _ = write!(
                out,
                " stroke-dasharray=\"{} {}\"",
                number(dash),
                number(gap)
            );
        }
    }
    if shape.opacity < 1.0 {
        let _ = write!(out, " opacity=\"{}\"", number(shape.opacity));
    }
    format!(" class=\"{}\"{out}", classes.join(" "))
}

fn words_text(words: &Words) -> String {
    let anchor = match words.anchor {
        Anchor::Start => "",
        Anchor::Middle => " text-anchor=\"middle\"",
        Anchor::End => " text-anchor=\"end\"",
    };
    let weight = match words.weight {
        Weight::Regular => "",
        Weight::Bold => " font-weight=\"bold\"",
    };
    let (x, y) = (number(words.at.x), number(words.at.y));
    let turn = if words.upwards {
        format!(" transform=\"rotate(-90 {x} {y})\"")
    } else {
        String::new()
    };
    format!(
        "<text x=\"{x}\" y=\"{y}\" font-size=\"{}\" class=\"f-{}\" fill=\"{}\"{anchor}{weight}{turn}>{}</text>",
        number(words.size),
        words.ink.name(),
        words.ink.light(),
        spans(&words.text, words.size)
    )
}

/// The pieces of a text; `dy` moves each from the height of the one before it.
fn spans(text: &str, size: f64) -> String {
    let mut out = String::new();
    let mut last = Level::Base;
    for piece in pieces(text) {
        let text = escaped(piece.text);
        if piece.level == last && last == Level::Base {
            out.push_str(&text);
            continue;
        }
        let drop = number((level_drop(piece.level) - level_drop(last)) * size);
        let small = match piece.level {
            Level::Base => String::new(),
            level => format!(" font-size=\"{}\"", number(level_size(level) * size)),
        };
        let _ = write!(out, "<tspan dy=\"{drop}\"{small}>{text}</tspan>");
        last = piece.level;
    }
    out
}

/// Text that is safe between tags and in quoted attributes of XML and HTML.
pub fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            // Characters that XML does not allow.
            c if c < ' ' && !matches!(c, '\n' | '\t') => out.push(' '),
            '\u{fffe}' | '\u{ffff}' => out.push(' '),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_escaped() {
        assert_eq!(
            escaped("<a b=\"c\">&'\u{1}"),
            "&lt;a b=&quot;c&quot;&gt;&amp;&#39; "
        );
    }

    #[test]
    fn coordinates_are_short() {
        assert_eq!(number(1.0), "1");
        assert_eq!(number(1.255), "1.25");
        assert_eq!(number(-0.001), "0");
        assert_eq!(number(f64::NAN), "0");
    }

    #[test]
    fn subscripts_come_back_to_the_baseline() {
        assert_eq!(
            spans("a_{b} c", 10.0),
            "a<tspan dy=\"2\" font-size=\"7.2\">b</tspan><tspan dy=\"-2\"> c</tspan>"
        );
        assert_eq!(
            spans("w^{q}, q", 10.0),
            "w<tspan dy=\"-3.6\" font-size=\"7.2\">q</tspan><tspan dy=\"3.6\">, q</tspan>"
        );
    }
}
