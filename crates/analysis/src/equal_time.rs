//! The two searches at equal training time.
//!
//! A batch-size search trains all of its points for the same number of epochs, a learning-rate search for
//! times in inverse proportion to ε. At their optima the two are so trained for different times, and
//! optima move as training goes on. At rates that are not too large SGD follows a flow whose time is ε·T;
//! where that is the same for both, they can be compared. Of a search that was trained for longer, what it
//! had found by then is known ([`course`]).

use crate::compare::{self, SearchAgreement};
use crate::course::{CourseError, course};
use crate::findings::{Findings, Options, SearchFindings, WidthFindings, analyse_points};
use serde::Serialize;
use spec::{Point, Record, SearchKind, Study, Width};

/// Both searches at one width, this one as it was when it had been trained for as long as the other.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct EqualTime {
    /// w.
    pub width: Width,
    /// ε·T of the other search over that of this one, at their optima.
    pub time: f64,
    /// The evaluation next to that time, as a share of the training time: 1 at most.
    pub share: f64,
    /// Evaluations of a run.
    pub evaluations: u32,
    /// The two searches then.
    pub agreement: SearchAgreement,
}

/// Why two studies have no searches to compare.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum EqualTimeError {
    /// They are about different networks or data.
    #[error("`{own}` and `{other}` differ in task, family, scheme or batch norm")]
    DifferentNetworks {
        /// Name of the study whose runs are cut off.
        own: String,
        /// Name of the other.
        other: String,
    },
    /// Not one of each kind.
    #[error(
        "of `{own}` and `{other}` one must have a learning-rate search and the other a batch-size search"
    )]
    NoPair {
        /// Name of the study whose runs are cut off.
        own: String,
        /// Name of the other.
        other: String,
    },
    /// The study has no stages.
    #[error(transparent)]
    Course(#[from] CourseError),
}

/// The learning-rate search of a study beside the batch-size search of another, or of the same, at every width
/// where both have an optimum; the other way round where the first study has no learning-rate search.
pub fn equal_time(
    study: &Study,
    points: &[Point],
    records: &[&Record],
    other: &Findings,
) -> Result<Vec<EqualTime>, EqualTimeError> {
    let own = analyse_points(study, points, records.iter().copied(), Options::default());
    let names = || (own.study.name.clone(), other.study.name.clone());
    if own.study.scheme != other.study.scheme || !own.study.same_networks(&other.study) {
        let (own, other) = names();
        return Err(EqualTimeError::DifferentNetworks { own, other });
    }
    let pairs = [
        (SearchKind::LearningRate, SearchKind::BatchSize),
        (SearchKind::BatchSize, SearchKind::LearningRate),
    ];
    let pair = (pairs.into_iter()).find_map(|(kind, beside)| {
        search(&own.searches, kind).zip(search(&other.searches, beside))
    });
    let Some((search_here, beside)) = pair else {
        let (own, other) = names();
        return Err(EqualTimeError::NoPair { own, other });
    };
    let evaluations = study.setting.evaluation.count;
    let count = f64::from(evaluations);
    let mut all = Vec::new();
    for found in &search_here.widths {
        let there = beside
            .widths
            .iter()
            .find(|there| there.width == found.width);
        let (Some(here), Some(there)) = (time(found), there.and_then(time)) else {
            continue;
        };
        let time = there / here;
        let share = (time * count).round().clamp(1.0, count) / count;
        let stages = course(study, points, records, &[share])?;
        let then = (stages.iter()).find_map(|stage| search(&stage.searches, search_here.kind));
        let both = compare::searches(&[beside.clone(), then.unwrap_or(search_here).clone()]);
        let agreement = both.into_iter().find(|both| both.width == found.width);
        all.extend(agreement.map(|agreement| EqualTime {
            width: found.width,
            time,
            share,
            evaluations,
            agreement,
        }));
    }
    Ok(all)
}

fn search(all: &[SearchFindings], kind: SearchKind) -> Option<&SearchFindings> {
    all.iter().find(|search| search.kind == kind)
}

/// ε·T at the optimum, the geometric mean of the ends of the best interval.
fn time(found: &WidthFindings) -> Option<f64> {
    let at = found.optimum.as_ref()?.at;
    let time = |point: usize| {
        let point = found.points.get(point)?;
        Some(point.learning_rate.get() * point.steps as f64)
    };
    Some((time(at.first)? * time(at.last)?).sqrt())
}
