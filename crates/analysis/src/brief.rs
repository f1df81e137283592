//! The settings of a study in brief: what titles, legends and predictions need.

use serde::Serialize;
use spec::{
    Evaluation, Family, LearningRate, Momentum, Regularizers, Scheme, Search, Spending, Study,
    TimeBounds, UpdateRule, WeightScale, Width,
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
    /// How long runs train.
    pub training: Training,
}

/// How long the runs of a study train, after any `time.scale`, and when they are given up.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Training {
    /// E_min and T_min.
    pub time: TimeBounds,
    /// Where some widths differ from them.
    pub by_width: Vec<TimeOfWidths>,
    /// ε₀ and T₀, if times are scaled from one rate to others.
    pub reference: Option<Reference>,
    /// When runs are looked at, and which have not trained.
    pub evaluation: Evaluation,
}

/// The time bounds of some widths.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TimeOfWidths {
    /// The widths.
    pub widths: Vec<Width>,
    /// E_min and T_min there.
    pub time: TimeBounds,
}

/// What T = T₀·ε₀/ε is scaled from.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Reference {
    /// ε₀.
    pub learning_rate: LearningRate,
    /// T₀; without it max(T_min, E_min·N/B).
    pub steps: Option<u64>,
}

impl Training {
    /// That of a study.
    fn of(study: &Study) -> Self {
        let reference = match &study.search {
            Search::LearningRate(search) | Search::Paired(_, search) => Some(search.reference),
            Search::Grid(search) => Some(search.reference),
            Search::BatchSize(_) | Search::Stability(_) => None,
        };
        let differs = study.by_width.iter().filter(|rule| rule.time != study.time);
        Self {
            time: study.time,
            by_width: differs
                .map(|rule| TimeOfWidths {
                    widths: rule.widths.clone(),
                    time: rule.time,
                })
                .collect(),
            reference: reference.map(|time| Reference {
                learning_rate: time.learning_rate,
                steps: time.steps,
            }),
            evaluation: study.setting.evaluation,
        }
    }
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
            training: Training::of(study),
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
