//! From the keys of a study file to a [`Study`] whose values are all possible.

use super::error::{Source, StudyError};
use super::file::{
    FamilyKind, FamilyTable, RegularizersTable, SearchChoice, SearchTable, StudyFile, TaskTable,
    TimeTable, WidthTable,
};
use super::{
    BatchSizeSearch, GridSearch, LearningRateSearch, ReferenceTime, Search, Spending,
    StabilitySearch, Study, WidthRule,
};
use super::{against_data, trainer};
use crate::family::{Family, Pool};
use crate::quantity::{BatchSize, Momentum, WeightScale, Width};
use crate::run::{Augmentation, Optimizer, Regularizers, Setting, UpdateRule};
use crate::task::Task;
use crate::time::{Evaluation, MOST_EVALUATIONS, TimeBounds};
use std::sync::Arc;

pub(super) type Checked<T> = Result<T, StudyError>;

/// Critical for ReLU.
const WEIGHT_SCALE: f64 = 2.0;
const MOMENTUM: f64 = 0.9;
const SEEDS: u32 = 20;
/// Plans list every run.
const MOST_SEEDS: u32 = 10_000;
const EXTEND: u32 = 8;
/// Far beyond what anybody would wait for.
const LONGEST_SCALE: f64 = 1000.0;
/// Layers or blocks of a family that are counted and not listed.
const DEEPEST: usize = 1000;

pub fn study(name: &str, file: StudyFile, source: &Source<'_>) -> Checked<Study> {
    let setting = Arc::new(setting(&file, source)?);
    let usual_stall = file.time.stall_accuracy.is_none();
    let command_rules = trainer::rules(file.trainer.as_ref(), source)?;
    let widths = axis(file.family.widths, "family.widths", source)?;
    let extend = file.search.extend.unwrap_or(EXTEND);
    let spending = match file.search.adaptive {
        true => Spending::Adaptive,
        false => Spending::EverySeed,
    };
    let search = search(file.search, source)?;
    let scale = file.time.scale.unwrap_or(1.0);
    if !(scale > 0.0 && scale <= LONGEST_SCALE) {
        return Err(source.about(
            "time.scale",
            format!("must be above 0 and at most {LONGEST_SCALE}, not {scale}"),
        ));
    }
    let time = bounds(file.time.epochs, file.time.steps, "time", source)?;
    let by_width: Vec<WidthRule> = file
        .by_width
        .into_iter()
        .map(|table| width_rule(table, time, &widths, source))
        .collect::<Checked<_>>()?;
    let ruled = |width: &&Width| by_width.iter().filter(|r| r.widths.contains(width)).count();
    if let Some(twice) = widths.iter().find(|width| ruled(width) > 1) {
        let message = format!("width {twice} is in two tables; put all that differs into one");
        return Err(source.about("by_width", message));
    }
    let seeds = file.seeds.unwrap_or(SEEDS);
    if seeds == 0 {
        return Err(source.about("seeds", "0 repetitions measure nothing; give at least 1"));
    }
    if seeds > MOST_SEEDS {
        let message = format!("a point can have {MOST_SEEDS} repetitions at most, not {seeds}");
        return Err(source.about("seeds", message));
    }
    let study = Study {
        name: name.into(),
        title: file.title.unwrap_or_else(|| name.into()),
        experiment: file.experiment,
        setting,
        widths,
        search,
        seeds,
        time,
        by_width,
        extend,
        spending,
        command_rules,
        usual_stall,
    };
    against_data::check(&study, source)?;
    Ok(study.with_time_scale(scale))
}

fn setting(file: &StudyFile, source: &Source<'_>) -> Checked<Setting> {
    let (task, family) = match &file.trainer {
        Some(table) => trainer::task_and_family(table, file, source)?,
        None => (task(&file.task, source)?, family(&file.family, source)?),
    };
    let evaluation = evaluation(&file.time, &task, source)?;
    Ok(Setting {
        task,
        family,
        scheme: file.family.scheme,
        weight_scale: match file.family.weight_scale {
            Some(scale) => scale,
            None => WeightScale::new(WEIGHT_SCALE).expect("2 is in range"),
        },
        batch_norm: file.family.batch_norm,
        optimizer: Optimizer {
            rule: file.optimizer.rule.unwrap_or(UpdateRule::Nesterov),
            momentum: match file.optimizer.momentum {
                Some(momentum) => momentum,
                None => Momentum::new(MOMENTUM).expect("0.9 is in range"),
            },
        },
        regularizers: match &file.regularizers {
            Some(table) => regularizers(table, source)?,
            None => Regularizers::default(),
        },
        evaluation,
    })
}

fn task(table: &TaskTable, source: &Source<'_>) -> Checked<Task> {
    let declared = [
        ("name", table.name.is_some()),
        ("training_examples", table.training_examples.is_some()),
        ("chance_accuracy", table.chance_accuracy.is_some()),
    ];
    if let Some((key, _)) = declared.iter().find(|(_, given)| *given) {
        let message = "only studies with a command in `[trainer]` declare their task; remove it";
        return Err(source.about(&format!("task.{key}"), message));
    }
    match (table.dataset, &table.files) {
        (Some(dataset), None) => Ok(Task::Known { dataset }),
        (None, Some(files)) if files.validation == 0 => Err(source.about(
            "task.files.validation",
            "late time is judged on held-out examples; hold out at least 1",
        )),
        (None, Some(files)) => Ok(Task::Files(files.clone())),
        _ => Err(source.about("task", "give either `dataset` or a table `files`")),
    }
}

fn family(table: &FamilyTable, source: &Source<'_>) -> Checked<Family> {
    let Some(kind) = table.kind else {
        let message =
            "say which networks: mlp, cnn, wrn or layers; or name a command in `[trainer]`";
        return Err(source.about("family.kind", message));
    };
    if table.name.is_some() {
        let message = "only the networks of a command in `[trainer]` have a name; remove it";
        return Err(source.about("family.name", message));
    }
    let belongs = |key: &str, given: bool, owner: FamilyKind| {
        if given && kind != owner {
            let owner = format!("{owner:?}").to_lowercase();
            let message = format!("only families of kind \"{owner}\" have this key; remove it");
            return Err(source.about(&format!("family.{key}"), message));
        }
        Ok(())
    };
    belongs("hidden", table.hidden.is_some(), FamilyKind::Mlp)?;
    belongs("pool", table.pool.is_some(), FamilyKind::Cnn)?;
    belongs("blocks", table.blocks.is_some(), FamilyKind::Wrn)?;
    belongs("layers", table.layers.is_some(), FamilyKind::Layers)?;
    match kind {
        FamilyKind::Mlp => match &table.hidden {
            Some(hidden) if hidden.len() > DEEPEST => Err(source.about(
                "family.hidden",
                format!("lists {} layers; {DEEPEST} are the most", hidden.len()),
            )),
            Some(hidden) if !hidden.is_empty() && !hidden.contains(&0) => Ok(Family::Mlp {
                hidden: hidden.clone(),
            }),
            _ => Err(source.about(
                "family.hidden",
                "list the hidden layers as multiples of the width, each at least 1, \
                 e.g. [1, 1] for two layers of w units",
            )),
        },
        FamilyKind::Cnn => Ok(Family::Cnn {
            pool: table.pool.unwrap_or(Pool::Max),
        }),
        FamilyKind::Wrn => match table.blocks.unwrap_or(2) {
            0 => Err(source.about("family.blocks", "a group needs at least 1 block")),
            blocks if blocks as usize > DEEPEST => Err(source.about(
                "family.blocks",
                format!("a group can have {DEEPEST} blocks at most, not {blocks}"),
            )),
            blocks => Ok(Family::Wrn { blocks }),
        },
        FamilyKind::Layers => match &table.layers {
            Some(layers) if table.batch_norm && !layers.is_empty() => Err(source.about(
                "family.batch_norm",
                "families of kind \"layers\" list their `batch-norm` layers; remove this key",
            )),
            Some(layers) if !layers.is_empty() => Ok(Family::Layers {
                layers: layers.clone(),
            }),
            _ => Err(source.about("family.layers", "list at least one layer")),
        },
    }
}

fn regularizers(table: &RegularizersTable, source: &Source<'_>) -> Checked<Regularizers> {
    for (key, value) in [
        ("dropout", table.dropout),
        ("label_smoothing", table.label_smoothing),
    ] {
        if !(0.0..1.0).contains(&value) {
            let message = format!("must be at least 0 and below 1, not {value}");
            return Err(source.about(&format!("regularizers.{key}"), message));
        }
    }
    Ok(Regularizers {
        dropout: table.dropout,
        label_smoothing: table.label_smoothing,
        augmentation: Augmentation {
            crop_padding: table.crop_padding,
            flip: table.flip,
        },
    })
}

fn evaluation(table: &TimeTable, task: &Task, source: &Source<'_>) -> Checked<Evaluation> {
    let usual = trainer::usual_evaluation(task);
    let rule = Evaluation {
        count: table.evaluations.unwrap_or(usual.count),
        stall_accuracy: table.stall_accuracy.unwrap_or(usual.stall_accuracy),
        stall_after: table.stall_after.unwrap_or(usual.stall_after),
    };
    if rule.count == 0 {
        return Err(source.about("time.evaluations", "a run needs at least 1 evaluation"));
    }
    if rule.count > MOST_EVALUATIONS {
        let message = format!("give at most {MOST_EVALUATIONS}, not {}", rule.count);
        return Err(source.about("time.evaluations", message));
    }
    for (key, value) in [
        ("stall_accuracy", rule.stall_accuracy),
        ("stall_after", rule.stall_after),
    ] {
        if !(0.0..=1.0).contains(&value) {
            let message = format!("must lie between 0 and 1, not {value}");
            return Err(source.about(&format!("time.{key}"), message));
        }
    }
    Ok(rule)
}

fn bounds(epochs: f64, steps: u64, key: &str, source: &Source<'_>) -> Checked<TimeBounds> {
    if !epochs.is_finite() || epochs < 0.0 || (epochs == 0.0 && steps == 0) {
        let message = "give epochs above 0, or epochs = 0 with steps of at least 1";
        return Err(source.about(&format!("{key}.epochs"), message));
    }
    Ok(TimeBounds { epochs, steps })
}

fn width_rule(
    table: WidthTable,
    time: TimeBounds,
    widths: &[Width],
    source: &Source<'_>,
) -> Checked<WidthRule> {
    if let Some(stray) = table.widths.iter().find(|width| !widths.contains(width)) {
        let message = format!("width {stray} is not among family.widths");
        return Err(source.about("by_width", message));
    }
    let epochs = table.epochs.unwrap_or(time.epochs);
    let steps = table.steps.unwrap_or(time.steps);
    Ok(WidthRule {
        widths: table.widths,
        learning_rate: table.learning_rate,
        time: bounds(epochs, steps, "by_width", source)?,
    })
}

/// An axis must have values; they are used in ascending order, each once.
fn axis<T: PartialOrd>(mut values: Vec<T>, key: &str, source: &Source<'_>) -> Checked<Vec<T>> {
    if values.is_empty() {
        return Err(source.about(key, "lists no values; give at least one"));
    }
    values.sort_by(|a, b| a.partial_cmp(b).expect("quantities are never NaN"));
    values.dedup();
    Ok(values)
}

fn search(table: SearchTable, source: &Source<'_>) -> Checked<Search> {
    let kind = table.kind;
    let mut keys = SearchKeys { table, source };
    let search = match kind {
        SearchChoice::BatchSize => Search::BatchSize(keys.batch_size_search()?),
        SearchChoice::LearningRate => {
            // Cut out of a paired search, it keeps the rate of its parent as reference.
            let parent = keys
                .table
                .learning_rate
                .take_if(|_| keys.table.kind_overridden);
            Search::LearningRate(keys.learning_rate_search(parent)?)
        }
        SearchChoice::Paired => {
            let parent = keys.batch_size_search()?;
            let rate = parent.learning_rate;
            Search::Paired(parent, keys.learning_rate_search(Some(rate))?)
        }
        SearchChoice::Grid => Search::Grid(GridSearch {
            batch_sizes: keys.batch_sizes()?,
            learning_rates: keys.learning_rates()?,
            reference: keys.reference(None)?,
        }),
        SearchChoice::Stability => Search::Stability(StabilitySearch {
            batch_size: keys.batch_size()?,
            learning_rates: keys.learning_rates()?,
        }),
    };
    keys.nothing_left(kind)?;
    Ok(search)
}

/// Takes the keys of the search table one by one; what is left does not belong.
struct SearchKeys<'a> {
    table: SearchTable,
    source: &'a Source<'a>,
}

impl SearchKeys<'_> {
    fn needed<T>(&self, value: Option<T>, key: &str) -> Checked<T> {
        value.ok_or_else(|| {
            self.source.about(
                &format!("search.{key}"),
                "this kind of search needs this key",
            )
        })
    }

    fn batch_size(&mut self) -> Checked<BatchSize> {
        let value = self.table.batch_size.take();
        self.needed(value, "batch_size")
    }

    fn batch_sizes(&mut self) -> Checked<Vec<BatchSize>> {
        let values = self.table.batch_sizes.take();
        axis(
            self.needed(values, "batch_sizes")?,
            "search.batch_sizes",
            self.source,
        )
    }

    fn learning_rates(&mut self) -> Checked<Vec<crate::LearningRate>> {
        let values = self.table.learning_rates.take();
        axis(
            self.needed(values, "learning_rates")?,
            "search.learning_rates",
            self.source,
        )
    }

    fn batch_size_search(&mut self) -> Checked<BatchSizeSearch> {
        let rate = self.table.learning_rate.take();
        Ok(BatchSizeSearch {
            learning_rate: self.needed(rate, "learning_rate")?,
            batch_sizes: self.batch_sizes()?,
        })
    }

    fn learning_rate_search(
        &mut self,
        parent: Option<crate::LearningRate>,
    ) -> Checked<LearningRateSearch> {
        Ok(LearningRateSearch {
            batch_size: self.batch_size()?,
            learning_rates: self.learning_rates()?,
            reference: self.reference(parent)?,
        })
    }

    fn reference(&mut self, parent: Option<crate::LearningRate>) -> Checked<ReferenceTime> {
        let rate = self.table.reference_learning_rate.take().or(parent);
        Ok(ReferenceTime {
            learning_rate: self.needed(rate, "reference_learning_rate")?,
            steps: self.table.reference_steps.take(),
        })
    }

    fn nothing_left(&self, kind: SearchChoice) -> Checked<()> {
        let table = &self.table;
        let left = [
            ("learning_rate", table.learning_rate.is_some()),
            ("batch_sizes", table.batch_sizes.is_some()),
            ("batch_size", table.batch_size.is_some()),
            ("learning_rates", table.learning_rates.is_some()),
            (
                "reference_learning_rate",
                table.reference_learning_rate.is_some(),
            ),
            ("reference_steps", table.reference_steps.is_some()),
        ];
        match left
            .iter()
            .find(|(_, given)| *given && !table.kind_overridden)
        {
            Some((key, _)) => Err(self.source.about(
                &format!("search.{key}"),
                format!(
                    "a search of kind {} does not use this key; remove it",
                    kind.name()
                ),
            )),
            None => Ok(()),
        }
    }
}
