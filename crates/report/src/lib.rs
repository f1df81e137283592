//! Figures and reports: what a study found, as SVG, PNG, CSV, JSON, tables and one
//! self-contained page.
//!
//! It goes one way: [`figures`] turns [`Findings`](analysis::Findings) into figure data,
//! a figure is drawn as SVG or PNG from the same shapes, and [`page()`] puts figures,
//! tables and sentences on a page: a list of parts, written as one file by [`html()`] or
//! served part by part. Figures see findings, never records, except the learning curves
//! of one point ([`curve_figures`]), which are its runs. Nothing here reads a clock or
//! does I/O, so the same findings give the same bytes.
//!
//! Every number that is shown carries its n, its interval and its unit; what is not
//! bracketed, not at late time or has too few trained runs says so ([`flag`]).
//! `docs/REPORT.md` describes what comes out.

mod caution;
mod course;
mod csv;
mod draw;
pub mod figure;
pub mod flag;
mod font;
mod html;
pub mod number;
pub mod palette;
mod phrase;
mod png;
pub mod results;
mod svg;
pub mod table;
pub mod tables;
mod words;

pub use caution::{Caution, Holds, cautions, limit_source};
pub use course::{course, equal_time};
pub use csv::{RUN_COLUMNS, runs_csv};
pub use figure::{Figure, FigureKind, curve_figures, figures};
pub use flag::{Flag, FlagKind, flags};
pub use html::{
    Link, Page, PageOptions, Part, Place, PointRuns, Room, Standing, Work, html, overview_page,
    page, point_key, point_page, script, stamp, style, trouble,
};
pub use png::PngError;
pub use results::{RESULTS_VERSION, results_json};
pub use tables::tables;
pub use words::{search as search_name, slug};

use draw::Form;

impl Figure {
    /// The figure as an SVG file of its own, with title, settings and notes.
    pub fn svg(&self) -> String {
        svg::write(&draw::draw(self, Form::Alone), true)
    }

    /// The same drawing as a PNG file; `scale` 2 is twice as many pixels each way.
    pub fn png(&self, scale: f64) -> Result<Vec<u8>, PngError> {
        png::write(&draw::draw(self, Form::Alone), scale)
    }

    /// What the figure shows, a row for every mark.
    pub fn csv(&self) -> String {
        csv::figure_csv(self)
    }
}
