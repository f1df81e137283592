//! A run: one training, with everything that determines its result.

use crate::command::CommandFamily;
use crate::family::{Family, FamilyError, Variant};
use crate::network::Network;
use crate::quantity::{
    BatchSize, LearningRate, Momentum, NoiseScale, NormalizedLearningRate, NormalizedNoiseScale,
    WeightScale, Width,
};
use crate::scheme::Scheme;
use crate::task::{FileTask, Task, TaskContent};
use crate::time::Evaluation;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// How the velocity enters the step; v ← m·v + ∇ in both.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum UpdateRule {
    /// θ ← θ − ε(∇ + m·v).
    #[default]
    Nesterov,
    /// θ ← θ − ε·v.
    HeavyBall,
}

/// Stochastic gradient descent at a constant rate. Momentum 0 is plain SGD.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Optimizer {
    /// How the velocity enters.
    pub rule: UpdateRule,
    /// m.
    pub momentum: Momentum,
}

/// Random changes to training images.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Augmentation {
    /// Zeros added on each side before a random crop back to size; 0 is no crop.
    pub crop_padding: u32,
    /// Whether half of the images are mirrored left to right.
    pub flip: bool,
}

/// What is added against overfitting (section F of the paper).
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Regularizers {
    /// Dropout rate; see [`Variant::dropout`] for where.
    pub dropout: f64,
    /// α: the target is (1 − α) on the label plus α spread over all classes.
    pub label_smoothing: f64,
    /// Crop and flip.
    pub augmentation: Augmentation,
}

/// All that the runs of a study have in common.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Setting {
    /// The data.
    pub task: Task,
    /// The rule for networks.
    pub family: Family,
    /// The parameterization.
    pub scheme: Scheme,
    /// σ₀².
    pub weight_scale: WeightScale,
    /// Whether the family's batch norm is on.
    pub batch_norm: bool,
    /// The descent.
    pub optimizer: Optimizer,
    /// What is added against overfitting.
    pub regularizers: Regularizers,
    /// When runs are looked at and given up.
    pub evaluation: Evaluation,
}

/// One training.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Run {
    /// What it shares with the other runs of its study.
    pub setting: Arc<Setting>,
    /// w.
    pub width: Width,
    /// B.
    pub batch_size: BatchSize,
    /// ε.
    pub learning_rate: LearningRate,
    /// Which of the point's random repetitions.
    pub seed: u64,
    /// T.
    pub steps: u64,
}

/// Hash of everything that determines a run's result: 32 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct RunId([u8; 16]);

/// Raised when a change to the engine changes what a run gives; old records then no longer match.
const RESULT_VERSION: u32 = 3;

impl Run {
    /// Whether a device can train both together: they differ in seed and ε alone.
    pub fn shares_cohort(&self, other: &Self) -> bool {
        self.width == other.width
            && self.batch_size == other.batch_size
            && self.steps == other.steps
            && self.setting == other.setting
    }

    /// The run's id: SHA-256 over its canonical JSON, cut to 16 bytes. The user's
    /// own data enter by their content: where they lie does not matter.
    pub fn id(&self) -> RunId {
        if let Task::Files(FileTask {
            path,
            content: Some(_),
            ..
        }) = &self.setting.task
            && path != Path::new("")
        {
            let mut elsewhere = self.clone();
            if let Task::Files(files) = &mut Arc::make_mut(&mut elsewhere.setting).task {
                files.path = PathBuf::new();
            }
            return elsewhere.id();
        }
        let text = serde_json::to_string(&(RESULT_VERSION, self))
            .expect("a run holds numbers, names and lists alone");
        let digest = Sha256::digest(text.as_bytes());
        RunId(std::array::from_fn(|at| digest[at]))
    }

    /// The network it trains.
    pub fn network(&self) -> Result<Network, FamilyError> {
        self.setting.network(self.width)
    }

    /// g.
    pub fn noise_scale(&self) -> NoiseScale {
        let examples = self.setting.training_examples();
        let momentum = self.setting.optimizer.momentum;
        NoiseScale::of(self.learning_rate, momentum, self.batch_size, examples)
    }

    /// ḡ. Not meaningful with batch norm.
    pub fn normalized_noise(&self) -> NormalizedNoiseScale {
        let Setting {
            scheme,
            weight_scale,
            ..
        } = *self.setting;
        scheme.normalized_noise(self.noise_scale(), weight_scale, self.width)
    }

    /// ε̄.
    pub fn normalized_learning_rate(&self) -> NormalizedLearningRate {
        let Setting {
            scheme,
            weight_scale,
            ..
        } = *self.setting;
        scheme.normalized_learning_rate(self.learning_rate, weight_scale, self.width)
    }
}

impl Setting {
    /// The network of the family at one width.
    pub fn network(&self, width: Width) -> Result<Network, FamilyError> {
        if let Family::Command(_) = self.family {
            return Err(FamilyError::OwnCommand);
        }
        let TaskContent { shape, classes, .. } = self.content();
        let variant = Variant {
            batch_norm: self.batch_norm,
            dropout: self.regularizers.dropout,
        };
        self.family.network(width, variant, shape, classes)
    }

    /// Shape, classes and sizes of the data.
    ///
    /// # Panics
    /// If the task is the user's own files and they have not been read: studies
    /// are completed with their content before anything is planned. And if it is
    /// only declared, for a command: nothing but the command knows more.
    pub fn content(&self) -> TaskContent {
        self.task
            .content()
            .expect("the content of own files is filled in before planning")
    }

    /// N.
    ///
    /// # Panics
    /// As [`content`](Self::content), but never for a declared task.
    pub fn training_examples(&self) -> u32 {
        match &self.task {
            Task::Declared(task) => task.training_examples,
            Task::Known { .. } | Task::Files(_) => self.content().split.train,
        }
    }

    /// The command that trains the runs, if one does.
    pub fn command(&self) -> Option<&CommandFamily> {
        match &self.family {
            Family::Command(command) => Some(command),
            _ => None,
        }
    }

    /// Whether ḡ is undefined because gradients mix the examples of a batch.
    pub fn has_batch_norm(&self) -> bool {
        self.batch_norm || self.family.lists_batch_norm()
    }
}

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RunId({self})")
    }
}

impl From<RunId> for String {
    fn from(id: RunId) -> Self {
        id.to_string()
    }
}

impl TryFrom<String> for RunId {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let bytes =
            (text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit())).then(|| {
                let mut id = [0; 16];
                for (at, byte) in id.iter_mut().enumerate() {
                    *byte = u8::from_str_radix(&text[2 * at..2 * at + 2], 16).ok()?;
                }
                Some(id)
            });
        bytes
            .flatten()
            .map(Self)
            .ok_or_else(|| format!("`{text}` is not a run id"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::task::{FileContent, Scaling, SplitSizes};

    fn run_on(path: &str, digest: &str) -> Run {
        let content = FileContent {
            shape: crate::Shape::flat(4),
            classes: 2,
            split: SplitSizes {
                train: 10,
                validation: 2,
                test: 3,
            },
            digest: digest.into(),
        };
        let task = Task::Files(FileTask {
            path: path.into(),
            train_images: "a".into(),
            train_labels: "b".into(),
            test_images: "c".into(),
            test_labels: "d".into(),
            validation: 2,
            scaling: Scaling::HalfRange,
            content: Some(content),
        });
        let setting = Setting {
            task,
            family: Family::Mlp { hidden: vec![1] },
            scheme: Scheme::Ntk,
            weight_scale: WeightScale::new(2.0).unwrap(),
            batch_norm: false,
            optimizer: Optimizer {
                rule: UpdateRule::Nesterov,
                momentum: Momentum::new(0.9).unwrap(),
            },
            regularizers: Regularizers::default(),
            evaluation: Evaluation::default(),
        };
        Run {
            setting: Arc::new(setting),
            width: Width::new(4).unwrap(),
            batch_size: BatchSize::new(2).unwrap(),
            learning_rate: LearningRate::new(1.0).unwrap(),
            seed: 0,
            steps: 5,
        }
    }

    #[test]
    fn own_data_count_by_content_and_not_by_place() {
        assert_eq!(run_on("here", "x").id(), run_on("there", "x").id());
        assert_ne!(run_on("here", "x").id(), run_on("here", "y").id());
    }

    #[test]
    fn ids_read_and_print() {
        let id = run_on("here", "x").id();
        assert_eq!(RunId::try_from(id.to_string()), Ok(id));
        for bad in ["", "12", "+f0c6d1be4a93c77d2086bb3f1a9e254", "zz"] {
            assert!(RunId::try_from(bad.to_owned()).is_err());
        }
    }
}
