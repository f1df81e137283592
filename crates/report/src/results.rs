//! `results.json`: the findings of some studies in one documented, versioned file.
//!
//! The fields are those of [`Findings`]; around them stand the version, the unit of
//! every field that has one, and the flags in words. `docs/RESULTS_SCHEMA.md` describes it.

use crate::flag::{Flag, flags};
use analysis::Findings;
use serde::Serialize;
use std::collections::BTreeMap;

/// Version of `results.json`; raised when a field changes its name or meaning.
pub const RESULTS_VERSION: u32 = 1;

/// What `results.json` holds.
#[derive(Serialize)]
struct Results<'a> {
    version: u32,
    /// The unit of every field that has one, by its name.
    units: BTreeMap<&'static str, &'static str>,
    /// What to know before trusting a number, in words.
    flags: Vec<Flag>,
    /// The findings, in the order given.
    studies: &'a [Findings],
}

const UNITS: [(&str, &str); 15] = [
    ("accuracy", "share of the test set, 0 to 1"),
    ("bar", "that of the measure"),
    ("batch_size", "examples"),
    ("late_accuracy", "share of the test set, 0 to 1"),
    ("learning_rate", "[weight]²/[loss]"),
    ("learning_rates", "[weight]²/[loss]"),
    (
        "measure",
        "normalized-noise 1/[loss]; learning-rate and width-times-learning-rate [weight]²/[loss]; inverse-batch-size and width-over-batch-size none",
    ),
    ("normalized_learning_rate", "1/[loss]"),
    ("normalized_noise", "1/[loss]"),
    ("peak", "share of the test set, 0 to 1"),
    ("rise", "share of the validation set"),
    ("seconds", "s"),
    ("slope", "that of the measure"),
    ("steps", "updates of the weights"),
    ("weight_scale", "[weight]²"),
];

/// The text of `results.json`.
pub fn results_json(findings: &[Findings]) -> String {
    let results = Results {
        version: RESULTS_VERSION,
        units: UNITS.into(),
        flags: flags(findings),
        studies: findings,
    };
    // Numbers, names and lists cannot fail to be written; an empty file would say so.
    serde_json::to_string_pretty(&results).unwrap_or_default() + "\n"
}
