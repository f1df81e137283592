//! The TOML of a study file, key by key. Strict: what is not here is an error.

use super::Override;
use super::error::{Source, StudyError, wrong_override};
use super::wording::reworded;
use crate::family::{LayerRule, Pool};
use crate::quantity::{BatchSize, LearningRate, Momentum, WeightScale, Width};
use crate::run::UpdateRule;
use crate::scheme::Scheme;
use crate::task::{DatasetName, FileTask};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::PathBuf;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StudyFile {
    pub title: Option<String>,
    pub experiment: Option<String>,
    pub seeds: Option<u32>,
    pub trainer: Option<TrainerTable>,
    pub task: TaskTable,
    pub family: FamilyTable,
    #[serde(default)]
    pub optimizer: OptimizerTable,
    pub regularizers: Option<RegularizersTable>,
    pub search: SearchTable,
    pub time: TimeTable,
    #[serde(default)]
    pub by_width: Vec<WidthTable>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TaskTable {
    pub dataset: Option<DatasetName>,
    pub files: Option<FileTask>,
    pub name: Option<String>,
    pub training_examples: Option<u32>,
    pub chance_accuracy: Option<f64>,
}

/// A command of the user's own in place of the engine.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrainerTable {
    pub command: Vec<String>,
    #[serde(default)]
    pub environment: BTreeMap<String, String>,
    pub version: Option<Version>,
    pub folder: Option<PathBuf>,
    pub concurrency: Option<usize>,
    pub timeout_seconds: Option<f64>,
    pub memory_mb: Option<u64>,
    pub retries: Option<u32>,
    pub grace_seconds: Option<f64>,
}

/// A number or a word, as the user likes to count.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub enum Version {
    Number(u64),
    Word(String),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FamilyKind {
    Mlp,
    Cnn,
    Wrn,
    Layers,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FamilyTable {
    pub kind: Option<FamilyKind>,
    pub name: Option<String>,
    pub widths: Vec<Width>,
    pub scheme: Scheme,
    pub weight_scale: Option<WeightScale>,
    #[serde(default)]
    pub batch_norm: bool,
    pub hidden: Option<Vec<u32>>,
    pub pool: Option<Pool>,
    pub blocks: Option<u32>,
    pub layers: Option<Vec<LayerRule>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OptimizerTable {
    pub rule: Option<UpdateRule>,
    pub momentum: Option<Momentum>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RegularizersTable {
    #[serde(default)]
    pub dropout: f64,
    #[serde(default)]
    pub label_smoothing: f64,
    #[serde(default)]
    pub crop_padding: u32,
    #[serde(default)]
    pub flip: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SearchChoice {
    BatchSize,
    LearningRate,
    Paired,
    Grid,
    Stability,
}

impl SearchChoice {
    /// As study files write it.
    pub fn name(self) -> &'static str {
        match self {
            Self::BatchSize => "batch-size",
            Self::LearningRate => "learning-rate",
            Self::Paired => "paired",
            Self::Grid => "grid",
            Self::Stability => "stability",
        }
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SearchTable {
    pub kind: SearchChoice,
    pub learning_rate: Option<LearningRate>,
    pub batch_sizes: Option<Vec<BatchSize>>,
    pub batch_size: Option<BatchSize>,
    pub learning_rates: Option<Vec<LearningRate>>,
    pub reference_learning_rate: Option<LearningRate>,
    pub reference_steps: Option<u64>,
    pub extend: Option<u32>,
    #[serde(default)]
    pub adaptive: bool,
    /// The kind was changed from outside: keys of the file's own kind may be left over.
    #[serde(skip)]
    pub kind_overridden: bool,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TimeTable {
    pub epochs: f64,
    #[serde(default)]
    pub steps: u64,
    pub evaluations: Option<u32>,
    pub stall_accuracy: Option<f64>,
    pub stall_after: Option<f64>,
    pub scale: Option<f64>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WidthTable {
    pub widths: Vec<Width>,
    pub learning_rate: Option<LearningRate>,
    pub epochs: Option<f64>,
    pub steps: Option<u64>,
}

impl StudyFile {
    /// Reads the text, then applies the overrides. The text is read strictly on
    /// its own first, so that an error in it names its line.
    pub fn read(source: &Source<'_>) -> Result<Self, StudyError> {
        let overrides = source.overrides;
        let file: Self = toml::from_str(source.text).map_err(|e| source.unreadable(&e))?;
        if overrides.is_empty() {
            return Ok(file);
        }
        let mut table: toml::Table =
            toml::from_str(source.text).map_err(|e| source.unreadable(&e))?;
        let mut file = file;
        for change in overrides {
            set(&mut table, change)?;
            file = Self::deserialize(toml::Value::Table(table.clone()))
                .map_err(|error| wrong_override(change, reworded(error.message())))?;
        }
        let changes = |key: &str| overrides.iter().any(|change| change.key == key);
        file.search.kind_overridden = changes("search.kind");
        if changes("family.widths") {
            file.keep_studied_widths();
        }
        Ok(file)
    }

    /// Rules for widths that an override has left out go with them.
    fn keep_studied_widths(&mut self) {
        let studied = &self.family.widths;
        for rule in &mut self.by_width {
            rule.widths.retain(|width| studied.contains(width));
        }
        self.by_width.retain(|rule| !rule.widths.is_empty());
    }
}

/// Sets the value under a dotted key, making tables on the way.
fn set(table: &mut toml::Table, change: &Override) -> Result<(), StudyError> {
    // What is no value is a word without its quotes.
    let word = || toml::Value::String(change.value.clone());
    let wrapped: toml::Table = toml::from_str(&format!("value = {}", change.value))
        .unwrap_or_else(|_| toml::Table::from_iter([("value".to_owned(), word())]));
    let mut parts = change.key.split('.').collect::<Vec<_>>();
    let last = parts.pop().unwrap_or_default();
    let mut inner = table;
    for part in parts {
        inner = inner
            .entry(part)
            .or_insert_with(|| toml::Value::Table(toml::Table::new()))
            .as_table_mut()
            .ok_or_else(|| wrong_override(change, format!("`{part}` is not a table")))?;
    }
    inner.extend(
        wrapped
            .into_iter()
            .map(|(_, value)| (last.to_owned(), value)),
    );
    Ok(())
}
