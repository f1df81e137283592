//! The pieces of a page: text with subscripts, tables, figures with their downloads.

use super::page::Place;
use crate::draw::{Form, draw};
use crate::figure::{Figure, FigureKind};
use crate::svg::{self, escaped};
use crate::table::{Cell, Show, Table};
use crate::words::{self, Level, pieces};
use std::fmt::Write;

/// Escaped text with its subscripts and superscripts.
pub fn rich(text: &str) -> String {
    pieces(text)
        .iter()
        .map(|piece| {
            let text = words::unbroken(&escaped(piece.text));
            match piece.level {
                Level::Base => text,
                Level::Sub => format!("<sub>{text}</sub>"),
                Level::Super => format!("<sup>{text}</sup>"),
            }
        })
        .collect()
}

/// The words of a flag or a caution, which a terminal and `results.json` show as well: commands between
/// backticks, the exponent after a caret.
pub fn told(text: &str) -> String {
    let raised = text.replace("w^p", "w^{p}");
    let pieces = raised.split('`').enumerate();
    pieces
        .map(|(at, piece)| match at % 2 {
            0 => rich(piece),
            _ => format!("<code>{}</code>", escaped(piece)),
        })
        .collect()
}

/// Characters from which on the words of a cell may take several lines.
const LONG: usize = 16;

/// Keeps an interval on one line, not with its value: cells are narrow.
fn whole_intervals(text: &str) -> String {
    let mut inside = false;
    let kept = text.chars().map(|c| {
        inside = c == '[' || (inside && c != ']');
        if inside && c == ' ' { words::TIE } else { c }
    });
    kept.collect()
}

/// A table that scripts can sort.
pub fn table(table: &Table) -> String {
    let mut out = String::from("<div class=\"scroll\"><table class=\"sort\">");
    if !table.caption.is_empty() {
        let _ = write!(out, "<caption>{}</caption>", rich(&table.caption));
    }
    out.push_str("<thead><tr>");
    for column in &table.columns {
        let class = if column.numeric { " class=\"n\"" } else { "" };
        let unit = if column.unit.is_empty() {
            String::new()
        } else {
            format!(" <small>{}</small>", escaped(&column.unit))
        };
        let _ = write!(
            out,
            "<th scope=\"col\"{class}>{}{unit}</th>",
            rich(&column.name)
        );
    }
    out.push_str("</tr></thead><tbody>");
    for row in &table.rows {
        out.push_str("<tr>");
        for (cell, column) in row.iter().zip(&table.columns) {
            let class = match column.numeric {
                true => " class=\"n\"",
                false if cell.text.chars().count() >= LONG => " class=\"long\"",
                false => "",
            };
            let sort = cell
                .sort
                .map_or_else(String::new, |key| format!(" data-s=\"{key}\""));
            let _ = write!(out, "<td{class}{sort}>{}</td>", content(cell));
        }
        out.push_str("</tr>");
    }
    out.push_str("</tbody></table></div>\n");
    out
}

fn content(cell: &Cell) -> String {
    let text = whole_intervals(&escaped(&cell.text));
    match &cell.show {
        Show::Words => text,
        Show::Link(href) => format!("<a href=\"{}\">{text}</a>", escaped(href)),
        Show::Bar(share) => {
            format!("<progress value=\"{share:.4}\" aria-hidden=\"true\"></progress> {text}")
        }
    }
}

/// A figure with its words and downloads.
pub fn figure(figure: &Figure, place: &Place) -> String {
    let points = match place {
        Place::File => String::new(),
        Place::Served { base } => format!(" data-points=\"{}points/\"", escaped(base)),
    };
    let mut out = format!(
        "<figure id=\"{}\"{points}><figcaption><h3>{}</h3>",
        escaped(&figure.id),
        rich(&figure.title)
    );
    // The page states the settings of a study once.
    let stated = match figure.kind {
        FigureKind::Schemes => 0,
        _ => 1,
    };
    for line in figure.subtitle.iter().skip(stated) {
        let _ = write!(out, "<p>{}</p>", rich(line));
    }
    out.push_str("</figcaption>\n");
    out.push_str(&svg::write(&draw(figure, Form::OnPage), false));
    let _ = write!(
        out,
        "<p class=\"notes\">{}</p>",
        rich(&figure.notes.join(" "))
    );
    out.push_str(&downloads(figure, place));
    out.push_str("</figure>\n");
    out
}

/// SVG, PNG and CSV of a figure. In a file the script adds the PNG, drawn from the SVG.
fn downloads(figure: &Figure, place: &Place) -> String {
    let id = escaped(&figure.id);
    let name = escaped(&words::spoken(&figure.title));
    let link = |kind: &str, href: String, attribute: &str| {
        format!(
            "<a{attribute} download=\"{id}.{}\" href=\"{href}\" aria-label=\"{kind} of {name}\">{kind}</a>",
            kind.to_lowercase()
        )
    };
    let links = match place {
        Place::File => [
            link("SVG", data_uri("image/svg+xml", &figure.svg()), " data-svg"),
            link("CSV", data_uri("text/csv", &figure.csv()), ""),
        ]
        .concat(),
        Place::Served { base } => ["SVG", "PNG", "CSV"]
            .map(|kind| {
                let href = format!("{base}figures/{id}.{}", kind.to_lowercase());
                link(kind, escaped(&href), "")
            })
            .concat(),
    };
    format!("<p class=\"get\">{links}</p>\n")
}

/// A link that holds its file.
fn data_uri(kind: &str, content: &str) -> String {
    let mut out = format!("data:{kind};charset=utf-8,");
    for byte in content.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' => out.push(byte.into()),
            b'-' | b'_' | b'.' | b'~' | b'/' | b':' | b'=' | b',' | b';' | b'(' | b')' => {
                out.push(byte.into());
            }
            _ => {
                let _ = write!(out, "%{byte:02X}");
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::{Cell, Column};

    #[test]
    fn words_are_escaped_lowered_and_raised() {
        assert_eq!(rich("ḡ_{opt} < <b>"), "ḡ<sub>opt</sub> &lt; &lt;b&gt;");
        assert_eq!(rich("w^{p}"), "w<sup>p</sup>");
        assert_eq!(
            rich("a = 1 [0, 2] ·10³, b"),
            "a\u{a0}=\u{a0}1\u{a0}[0,\u{a0}2]\u{a0}·10³, b"
        );
    }

    #[test]
    fn data_uris_hold_no_quotes_or_tags() {
        let uri = data_uri("text/csv", "a,\"b\"\n<&'ḡ");
        assert_eq!(
            uri,
            "data:text/csv;charset=utf-8,a,%22b%22%0A%3C%26%27%E1%B8%A1"
        );
    }

    #[test]
    fn tables_carry_their_sort_keys() {
        let mut one = Table::new("", vec![Column::numbers("w", "")]);
        one.rows.push(vec![Cell::number("1,000", 1000.0)]);
        assert!(table(&one).contains("<td class=\"n\" data-s=\"1000\">1,000</td>"));
    }
}
