//! Study files: family × widths × scheme × task × search × seeds, in TOML.
//!
//! Reading goes in two steps: `file.rs` mirrors the TOML, key by key and strictly;
//! this module turns it into a [`Study`] whose values are all possible ones.
//! `docs/STUDY.md` is the user's description of the format.

mod against_data;
mod error;
mod file;
mod trainer;
mod validate;
mod wording;

pub use error::{StudyError, nearest};

use crate::command::CommandRules;
use crate::quantity::{BatchSize, LearningRate, Width};
use crate::run::Setting;
use crate::task::{FileContent, Task};
use crate::time::TimeBounds;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A study, checked.
#[derive(Debug, Clone, PartialEq)]
pub struct Study {
    /// File name without its ending, or the name of the built-in study.
    pub name: String,
    /// One line for people.
    pub title: String,
    /// Which experiment of the paper it belongs to, if any.
    pub experiment: Option<String>,
    /// What all its runs share.
    pub setting: Arc<Setting>,
    /// The members of the family, ascending.
    pub widths: Vec<Width>,
    /// What is scanned.
    pub search: Search,
    /// Random repetitions of every point.
    pub seeds: u32,
    /// How long runs train at least.
    pub time: TimeBounds,
    /// Where some widths differ from the rest.
    pub by_width: Vec<WidthRule>,
    /// How many values the grid of one width may grow by until its optimum is bracketed.
    pub extend: u32,
    /// Which seeds are trained.
    pub spending: Spending,
    /// How the study's own command is run, if it has one.
    pub command_rules: Option<CommandRules>,
    /// Whether the file leaves it to the number of classes below which accuracy a run has not trained.
    pub usual_stall: bool,
}

/// Which seeds of a point are trained.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Spending {
    /// All of them, as in the paper.
    #[default]
    EverySeed,
    /// A few everywhere, the rest where the best interval may still lie.
    Adaptive,
}

/// What a study scans.
#[derive(Debug, Clone, PartialEq)]
pub enum Search {
    /// Batch sizes at a fixed learning rate.
    BatchSize(BatchSizeSearch),
    /// Learning rates at a fixed batch size.
    LearningRate(LearningRateSearch),
    /// Both, the second timed by the first.
    Paired(BatchSizeSearch, LearningRateSearch),
    /// Every pair of batch size and learning rate.
    Grid(GridSearch),
    /// How often runs diverge, by learning rate.
    Stability(StabilitySearch),
}

/// Batch sizes at a fixed learning rate; T = max(T_min, E_min·N/B).
#[derive(Debug, Clone, PartialEq)]
pub struct BatchSizeSearch {
    /// ε.
    pub learning_rate: LearningRate,
    /// Ascending.
    pub batch_sizes: Vec<BatchSize>,
}

/// Learning rates at a fixed batch size; T = max(T₀, T₀·ε₀/ε).
#[derive(Debug, Clone, PartialEq)]
pub struct LearningRateSearch {
    /// B.
    pub batch_size: BatchSize,
    /// Ascending.
    pub learning_rates: Vec<LearningRate>,
    /// ε₀ and T₀.
    pub reference: ReferenceTime,
}

/// The training time that others are scaled from.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ReferenceTime {
    /// ε₀.
    pub learning_rate: LearningRate,
    /// T₀; without it the study's bounds at the fixed batch size.
    pub steps: Option<u64>,
}

/// Every pair; T = max(E_min·N/B, T₀·ε₀/ε).
#[derive(Debug, Clone, PartialEq)]
pub struct GridSearch {
    /// Ascending.
    pub batch_sizes: Vec<BatchSize>,
    /// Ascending.
    pub learning_rates: Vec<LearningRate>,
    /// ε₀ and T₀.
    pub reference: ReferenceTime,
}

/// Learning rates at a fixed batch size, for the failure rate; T = max(T_min, E_min·N/B).
#[derive(Debug, Clone, PartialEq)]
pub struct StabilitySearch {
    /// B.
    pub batch_size: BatchSize,
    /// Ascending.
    pub learning_rates: Vec<LearningRate>,
}

/// What differs at some widths: the paper trained its widest standard-scheme
/// networks at a smaller rate and for longer.
#[derive(Debug, Clone, PartialEq)]
pub struct WidthRule {
    /// The widths it is about.
    pub widths: Vec<Width>,
    /// Fixed learning rate there.
    pub learning_rate: Option<LearningRate>,
    /// E_min and T_min there.
    pub time: TimeBounds,
}

/// A change to a study file from outside it, as `--set search.batch_sizes=[16,32]` makes it.
#[derive(Debug, Clone, PartialEq)]
pub struct Override {
    /// Dotted path of the key.
    pub key: String,
    /// The value, in TOML.
    pub value: String,
}

impl Override {
    /// Reads `key=value`; `None` without an equals sign.
    pub fn parse(text: &str) -> Option<Self> {
        let (key, value) = text.split_once('=')?;
        Some(Self {
            key: key.trim().into(),
            value: value.trim().into(),
        })
    }
}

impl Study {
    /// Reads the text of a study file; paths in it are relative to the file.
    pub fn parse_file(path: &Path, text: &str, overrides: &[Override]) -> Result<Self, StudyError> {
        let name = path
            .file_stem()
            .map_or_else(String::new, |s| s.to_string_lossy().into_owned());
        let mut study = Self::parse(&name, path, text, overrides)?;
        study.resolve_paths(path.parent().unwrap_or(Path::new("")));
        Ok(study)
    }

    /// Reads the text of a study; `origin` is what error messages call it.
    pub fn parse(
        name: &str,
        origin: &Path,
        text: &str,
        overrides: &[Override],
    ) -> Result<Self, StudyError> {
        let source = error::Source {
            origin: PathBuf::from(origin),
            text,
            overrides,
        };
        let file = file::StudyFile::read(&source)?;
        validate::study(name, file, &source)
    }

    /// Completes a study of the user's own files with what they hold, and checks batch sizes and
    /// networks against it.
    pub fn with_content(mut self, content: FileContent) -> Result<Self, StudyError> {
        let usual = self.usual_stall;
        let setting = Arc::make_mut(&mut self.setting);
        if let Task::Files(files) = &mut setting.task {
            if usual {
                setting.evaluation.stall_accuracy = trainer::stall_accuracy(content.classes);
            }
            files.content = Some(content);
        }
        self.check_data()?;
        Ok(self)
    }

    fn check_data(&self) -> Result<(), StudyError> {
        let source = error::Source {
            origin: PathBuf::from(&self.name),
            text: "",
            overrides: &[],
        };
        against_data::check(self, &source)
    }

    /// The time bounds at one width.
    pub fn time_at(&self, width: Width) -> TimeBounds {
        self.rule(width).map_or(self.time, |rule| rule.time)
    }

    /// A fixed learning rate as it is at one width.
    pub fn rate_at(&self, width: Width, otherwise: LearningRate) -> LearningRate {
        self.rule(width)
            .and_then(|rule| rule.learning_rate)
            .unwrap_or(otherwise)
    }

    fn rule(&self, width: Width) -> Option<&WidthRule> {
        self.by_width
            .iter()
            .find(|rule| rule.widths.contains(&width))
    }

    /// The same study with every training time multiplied by `factor`: what `time.scale` does.
    pub fn with_time_scale(mut self, factor: f64) -> Self {
        self.time = self.time.scaled(factor);
        for rule in &mut self.by_width {
            rule.time = rule.time.scaled(factor);
        }
        let reference = match &mut self.search {
            Search::LearningRate(search) | Search::Paired(_, search) => &mut search.reference,
            Search::Grid(search) => &mut search.reference,
            Search::BatchSize(_) | Search::Stability(_) => return self,
        };
        reference.steps = reference
            .steps
            .map(|steps| (steps as f64 * factor).ceil() as u64);
        self
    }

    /// A batch size of the search, for a single training that names none: the
    /// fixed one where there is one, else the middle of the scanned ones.
    pub fn typical_batch_size(&self) -> BatchSize {
        match &self.search {
            Search::LearningRate(search) | Search::Paired(_, search) => search.batch_size,
            Search::Stability(search) => search.batch_size,
            Search::BatchSize(search) => search.batch_sizes[search.batch_sizes.len() / 2],
            Search::Grid(search) => search.batch_sizes[search.batch_sizes.len() / 2],
        }
    }

    /// A learning rate of the search at this width, for a single training that names none.
    pub fn typical_learning_rate(&self, width: Width) -> LearningRate {
        match &self.search {
            Search::BatchSize(search) | Search::Paired(search, _) => {
                self.rate_at(width, search.learning_rate)
            }
            Search::LearningRate(search) => search.reference.learning_rate,
            Search::Grid(search) => search.reference.learning_rate,
            Search::Stability(search) => search.learning_rates[0],
        }
    }

    fn resolve_paths(&mut self, folder: &Path) {
        if let Some(rules) = &mut self.command_rules {
            rules.folder = folder.join(&rules.folder);
        }
        let setting = Arc::make_mut(&mut self.setting);
        if let crate::Task::Files(files) = &mut setting.task
            && files.path.is_relative()
        {
            files.path = folder.join(&files.path);
        }
    }
}
