//! What the records of a study say: samples, optima, laws, stability,
//! comparisons, predictions, and which seeds are worth spending next.
//!
//! It goes one way: [`analyse`] turns a study and its records into [`Findings`],
//! and everything else (figures, report, CSV, `results.json`, [`predict()`]) reads
//! those. Nothing here trains, reads a clock or does I/O; the bootstrap draws from
//! a seeded generator, so the same records give the same findings, bit for bit.
//!
//! `docs/METHOD.md` describes the method; each module states its equation.

pub mod adaptive;
pub mod brief;
pub mod compare;
pub mod course;
pub mod distribution;
pub mod equal_time;
pub mod extension;
pub mod findings;
pub mod grid;
pub mod late;
pub mod law;
pub mod measure;
pub mod observation;
pub mod optimum;
pub mod point;
pub mod predict;
pub mod resample;
pub mod sample;
pub mod stability;

pub use brief::StudyBrief;
pub use findings::{
    Findings, Options, RunCounts, SearchFindings, WidthFindings, analyse, analyse_points,
};
pub use law::{Exclusion, Growth, Law, LawFit, NoLaw};
pub use measure::{Axis, Estimate, Fixed, Interval, Measure};
pub use observation::{observe, wanted};
pub use optimum::{BestInterval, Edge, Optimum, best_interval};
pub use point::PointFindings;
pub use predict::{PredictError, Prediction, Request, predict};
pub use resample::{Confidence, Resolution};
pub use sample::{Sample, Tally};
