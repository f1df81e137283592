//! A page as a list of parts, and the two documents it is written as: a file that needs
//! nothing else, and what `noisescale serve` sends, whose parts are renewed one by one.

use crate::palette;
use crate::svg::escaped;
use std::fmt::Write;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::LazyLock;

/// A page, before it is a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// Its title, as plain text.
    pub title: String,
    /// Pages above it: their addresses and names.
    pub above: Vec<Link>,
    /// What it shows, from top to bottom.
    pub parts: Vec<Part>,
    /// Version of the program.
    pub foot: String,
}

/// The way to another page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    /// Its address.
    pub href: String,
    /// What a reader sees.
    pub text: String,
}

/// A part of a page: the smallest thing that is renewed while a study runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// Lower-case letters, digits and dashes; unique on its page.
    pub name: String,
    /// How much of the page's width it takes.
    pub room: Room,
    /// Its content.
    pub html: String,
}

/// How much of the page's width a part takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Room {
    /// All of it.
    Whole,
    /// One of two columns, where there is room for two.
    Column,
    /// A column, beside two other parts.
    Tall,
}

/// Where a page is read.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Place {
    /// From a file: downloads are inside it.
    #[default]
    File,
    /// From `noisescale serve`: downloads and the pages of points are links.
    Served {
        /// What the addresses of the page's downloads begin with; ends in a slash.
        base: String,
    },
}

impl Part {
    /// A part over the whole width.
    pub fn whole(name: impl Into<String>, html: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            room: Room::Whole,
            html: html.into(),
        }
    }

    /// A part in one of two columns.
    pub fn column(name: impl Into<String>, html: impl Into<String>) -> Self {
        Self {
            room: Room::Column,
            ..Self::whole(name, html)
        }
    }

    /// Differs where the content does.
    pub fn stamp(&self) -> String {
        stamp(&self.html)
    }

    /// The part as an element.
    pub fn element(&self) -> String {
        let class = match self.room {
            Room::Whole => "part",
            Room::Column => "part column",
            Room::Tall => "part column tall",
        };
        format!(
            "<div class=\"{class}\" data-part=\"{}\" data-stamp=\"{}\">\n{}</div>\n",
            escaped(&self.name),
            self.stamp(),
            self.html
        )
    }
}

/// A short text that differs where the content does.
pub fn stamp(content: &str) -> String {
    let mut hasher = DefaultHasher::new();
    content.hash(&mut hasher);
    format!("{:016x}", hasher.finish())
}

/// The style sheet of every page.
pub fn style() -> &'static str {
    static STYLE: LazyLock<String> = LazyLock::new(|| palette::css() + include_str!("style.css"));
    &STYLE
}

/// The script of every page.
pub fn script() -> &'static str {
    concat!(
        include_str!("page.js"),
        include_str!("predict.js"),
        include_str!("live.js")
    )
}

impl Page {
    /// The page as one file that needs nothing else.
    pub fn file(&self) -> String {
        // Nothing is fetched, whatever a study's name or title may hold.
        let policy = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; \
                      img-src data:";
        let head = format!(
            "<meta http-equiv=\"Content-Security-Policy\" content=\"{policy}\">\n<style>\n{}</style>\n",
            style()
        );
        let tail = format!("<script>\n{}</script>\n", script());
        self.document(&head, "", &tail)
    }

    /// The page as a server sends it; `feed` is where its parts are listed.
    pub fn served(&self, feed: &str) -> String {
        let head = format!(
            "<link rel=\"stylesheet\" href=\"/page.css?{}\">\n\
             <script defer src=\"/page.js?{}\"></script>\n\
             <link rel=\"icon\" href=\"/icon.svg\">\n\
             <noscript><meta http-equiv=\"refresh\" content=\"30\"></noscript>\n",
            stamp(style()),
            stamp(script())
        );
        let attributes = format!(
            " data-feed=\"{}\" data-stamp=\"{}\"",
            escaped(feed),
            self.shell_stamp()
        );
        self.document(&head, &attributes, "")
    }

    /// Differs where something outside the parts does: the page must then be loaded anew.
    pub fn shell_stamp(&self) -> String {
        stamp(&format!(
            "{}{}{}{}",
            self.title,
            self.foot,
            style(),
            script()
        ))
    }

    fn document(&self, head: &str, attributes: &str, tail: &str) -> String {
        let title = escaped(&self.title);
        let mut out = format!(
            "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <title>{title}</title>\n{head}</head>\n<body{attributes}>\n\
             <a class=\"skip\" href=\"#main\">Skip to the content</a>\n<header class=\"top\">\n"
        );
        out.push_str(&self.way());
        let _ = write!(out, "<h1>{title}</h1>\n</header>\n<main id=\"main\">\n");
        for part in &self.parts {
            out.push_str(&part.element());
        }
        let _ = write!(
            out,
            "</main>\n<footer>{}</footer>\n{tail}</body>\n</html>\n",
            escaped(&self.foot)
        );
        out
    }

    fn way(&self) -> String {
        if self.above.is_empty() {
            return String::new();
        }
        let links: Vec<String> = (self.above.iter())
            .map(|link| {
                format!(
                    "<a href=\"{}\">{}</a>",
                    escaped(&link.href),
                    escaped(&link.text)
                )
            })
            .collect();
        format!(
            "<nav aria-label=\"Pages above\">{} ›</nav>\n",
            links.join(" › ")
        )
    }
}
