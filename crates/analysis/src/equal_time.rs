//! The two searches at equal training time.
//!
//! A batch-size search trains all of its points for the same number of epochs, a learning-rate search for
//! times in inverse proportion to ε. At their optima the two are so trained for different times, and
//! optima move as training goes on. At rates that are not too large SGD follows a flow whose time is ε·T;
//! where that is the same for both, they can be compared. Of a search that was trained for longer, what it
//! had found by then is known ([`course`]).

use crate::compare::{self, SearchAgreement};
use crate::course::{CourseError, course};
use crate::findings::{Findings, Options, WidthFindings, analyse_points};
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
    /// The first evaluation, as such a share.
    pub first: f64,
    /// The two searches then.
    pub agreement: SearchAgreement,
}

/// Why two studies have no searches to compare.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum EqualTimeError {
    /// They are about different networks or data.
    #[error(
        "`{own}` and `{other}` differ in task, family, scheme, batch norm, optimizer, weight scale or regularizers"
    )]
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
    let pair =
        (pairs.into_iter()).find_map(|(kind, beside)| own.search(kind).zip(other.search(beside)));
    let Some((search, beside)) = pair else {
        let (own, other) = names();
        return Err(EqualTimeError::NoPair { own, other });
    };
    let count = f64::from(study.setting.evaluation.count);
    let both = search.widths.iter().filter_map(|found| {
        let there = beside.widths.iter().find(|w| w.width == found.width)?;
        let time = time(there)? / time(found)?;
        let share = (time * count).round().clamp(1.0, count) / count;
        Some((there, time, share))
    });
    let both: Vec<_> = both.collect();
    let mut shares: Vec<f64> = both.iter().map(|(_, _, share)| *share).collect();
    shares.sort_by(f64::total_cmp);
    shares.dedup();
    let stages = course(study, points, records, &shares)?;
    let compared = both.into_iter().filter_map(|(there, time, share)| {
        let stage = stages.iter().find(|stage| stage.share == share)?;
        let then = stage.search(search.kind)?;
        let here = then.widths.iter().find(|w| w.width == there.width)?;
        let [batch_size, learning_rate] = match search.kind {
            SearchKind::BatchSize => [here, there],
            _ => [there, here],
        };
        Some(EqualTime {
            width: there.width,
            time,
            share,
            first: 1.0 / count,
            agreement: compare::at_width(batch_size, learning_rate)?,
        })
    });
    Ok(compared.collect())
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
