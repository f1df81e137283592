//! What to know before trusting settings for another width: the same words for the terminal, the page
//! and JSON.

use crate::number::significant;
use crate::words;
use analysis::predict::{Failing, LimitSource, Reach};
use analysis::{Prediction, RunCounts};
use spec::Width;

/// At which widths a caution holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Holds {
    /// Whichever width is asked for.
    Always,
    /// Outside the fitted widths.
    Beyond,
    /// Where this is the nearest of the measured widths.
    Near(Width),
}

/// A sentence, with commands between backticks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caution {
    /// At which widths it holds.
    pub holds: Holds,
    /// The sentence.
    pub text: String,
}

/// The cautions of a prediction from a study with so many runs.
pub fn cautions(found: &Prediction, runs: RunCounts) -> Vec<Caution> {
    let always = [
        incomplete(runs),
        not_linear(found),
        rising(found),
        limit_varies(found),
    ];
    let always = always.into_iter().flatten().map(|text| Caution {
        holds: Holds::Always,
        text,
    });
    let beyond = extrapolates(found).map(|text| Caution {
        holds: Holds::Beyond,
        text,
    });
    let near = found.limit.failing.map(|failing| Caution {
        holds: Holds::Near(failing.width),
        text: fails(failing),
    });
    always.chain(beyond).chain(near).collect()
}

/// Where the largest learning rate comes from.
pub fn limit_source(found: &Prediction) -> String {
    let limit = found.limit;
    let (width, size) = (limit.width, limit.batch_size);
    match limit.source {
        LimitSource::Stability => format!(
            "from that measured at w = {width} with B = {size} in the stability study, the least of its widths"
        ),
        LimitSource::LargestTrained => format!(
            "the largest that trained, at w = {width} with B = {size}; the true limit may be higher"
        ),
    }
}

fn incomplete(runs: RunCounts) -> Option<String> {
    (runs.recorded < runs.planned).then(|| {
        format!(
            "{} of {} runs are recorded so far: the law may still change.",
            runs.recorded, runs.planned
        )
    })
}

fn not_linear(found: &Prediction) -> Option<String> {
    match found.linear {
        Some(true) => None,
        Some(false) => {
            Some("Beware: the measured exponent's interval does not contain 1.".into())
        }
        None => Some(
            "Beware: the exponent is not known well enough to tell whether the optimum grows with width."
                .into(),
        ),
    }
}

fn rising(found: &Prediction) -> Option<String> {
    let widths: Vec<String> = found.still_rising.iter().map(Width::to_string).collect();
    (!widths.is_empty()).then(|| {
        format!(
            "Beware: validation accuracy still rises at the optima of w = {}; trained for longer they may \
             lie elsewhere (see `noisescale course`).",
            widths.join(", ")
        )
    })
}

fn limit_varies(found: &Prediction) -> Option<String> {
    (found.limit.constant == Some(false)).then(|| {
        "Beware: in the stability study the normalized limit varies with width; measure it near this one."
            .into()
    })
}

fn extrapolates(found: &Prediction) -> Option<String> {
    let (first, last) = (found.fitted.first()?, found.fitted.last()?);
    (found.reach == Reach::Extrapolates)
        .then(|| format!("This extrapolates: the law was measured at widths {first} to {last}."))
}

fn fails(failing: Failing) -> String {
    format!(
        "Beware: at w = {} with B = {}, {} of {} failed at ε = {}, within the largest learning rate \
         given here; a stability study would find the limit there.",
        failing.width,
        failing.batch_size,
        failing.failed,
        words::counted(failing.recorded.into(), "run"),
        significant(failing.learning_rate.get(), 3),
    )
}
