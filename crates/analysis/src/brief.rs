//! The settings of a study in brief: what titles, legends and predictions need.

use serde::Serialize;
use spec::{
    Family, Momentum, Regularizers, Scheme, Spending, Study, UpdateRule, WeightScale, Width,
};

/// What the runs of a study have in common, in brief.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StudyBrief {
    /// Name of the study.
    pub name: String,
    /// One line for people.
    pub title: String,
    /// Which experiment of the paper it belongs to, if any.
    pub experiment: Option<String>,
    /// Name of the task, e.g. `MNIST`.
    pub task: String,
    /// Label of the family, e.g. `2LP`.
    pub family_label: String,
    /// The family itself.
    pub family: Family,
    /// The parameterization.
    pub scheme: Scheme,
    /// Whether the networks have batch norm, so that ḡ is not defined.
    pub batch_norm: bool,
    /// How the velocity enters the step.
    pub rule: UpdateRule,
    /// m.
    pub momentum: Momentum,
    /// σ₀².
    pub weight_scale: WeightScale,
    /// What is added against overfitting.
    pub regularizers: Regularizers,
    /// N.
    pub examples: u32,
    /// The members of the family, ascending.
    pub widths: Vec<Width>,
    /// Runs planned at every point, or the most if the adaptive rule decides.
    pub seeds: u32,
    /// Which of them are trained.
    pub spending: Spending,
}

impl StudyBrief {
    /// The brief of a study.
    pub fn of(study: &Study) -> Self {
        let setting = &study.setting;
        Self {
            name: study.name.clone(),
            title: study.title.clone(),
            experiment: study.experiment.clone(),
            task: setting.task.title(),
            family_label: setting.family.label(),
            family: setting.family.clone(),
            scheme: setting.scheme,
            batch_norm: setting.has_batch_norm(),
            rule: setting.optimizer.rule,
            momentum: setting.optimizer.momentum,
            weight_scale: setting.weight_scale,
            regularizers: setting.regularizers,
            examples: setting.training_examples(),
            widths: study.widths.clone(),
            seeds: study.seeds,
            spending: study.spending,
        }
    }

    /// Whether two studies train the same networks on the same task, in whatever scheme.
    pub fn same_networks(&self, other: &Self) -> bool {
        self.task == other.task
            && self.examples == other.examples
            && self.family == other.family
            && self.batch_norm == other.batch_norm
            && self.rule == other.rule
            && self.momentum == other.momentum
            && self.weight_scale == other.weight_scale
            && self.regularizers == other.regularizers
    }
}
