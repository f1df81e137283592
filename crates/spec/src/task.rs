//! What is learned: a known data set, files of the user's own, or what a command learns.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::PathBuf;

/// The data sets that noisescale knows by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DatasetName {
    /// UCI handwritten digits, 8×8, embedded in the program.
    Digits,
    /// MNIST, 28×28.
    Mnist,
    /// Fashion-MNIST, 28×28.
    FashionMnist,
    /// CIFAR-10, 32×32×3.
    Cifar10,
}

impl DatasetName {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Digits, Self::Mnist, Self::FashionMnist, Self::Cifar10];

    /// The name that study files and commands use.
    pub fn id(self) -> &'static str {
        match self {
            Self::Digits => "digits",
            Self::Mnist => "mnist",
            Self::FashionMnist => "fashion-mnist",
            Self::Cifar10 => "cifar10",
        }
    }

    /// The name that titles use.
    pub fn title(self) -> &'static str {
        match self {
            Self::Digits => "Digits",
            Self::Mnist => "MNIST",
            Self::FashionMnist => "F-MNIST",
            Self::Cifar10 => "CIFAR-10",
        }
    }

    /// Training, validation and test examples of the split in use. Digits have
    /// too few for the three to be large: 1,197, 100 and 500 of 1,797.
    pub fn split(self) -> SplitSizes {
        let (train, validation, test) = match self {
            Self::Digits => (1_197, 100, 500),
            Self::Mnist | Self::FashionMnist => (55_000, 5_000, 10_000),
            Self::Cifar10 => (45_000, 5_000, 10_000),
        };
        SplitSizes {
            train,
            validation,
            test,
        }
    }

    /// Shape of one example.
    pub fn shape(self) -> crate::Shape {
        let (side, channels) = match self {
            Self::Digits => (8, 1),
            Self::Mnist | Self::FashionMnist => (28, 1),
            Self::Cifar10 => (32, 3),
        };
        crate::Shape {
            height: side,
            width: side,
            channels,
        }
    }
}

impl fmt::Display for DatasetName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.id())
    }
}

/// How many examples each part of a data set has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SplitSizes {
    /// N.
    pub train: u32,
    /// Held out of the training set.
    pub validation: u32,
    /// The official test set.
    pub test: u32,
}

/// How raw values become inputs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scaling {
    /// The range of the stored type (0..255 for bytes) to [−0.5, 0.5].
    HalfRange,
    /// Each channel to zero mean and unit variance over the training part.
    Standardized,
    /// As stored.
    AsIs,
}

/// What is learned.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Task {
    /// A data set known by name.
    Known {
        /// Which.
        dataset: DatasetName,
    },
    /// The user's own arrays.
    Files(FileTask),
    /// What the user's own command learns, as far as a plan needs to know.
    Declared(DeclaredTask),
}

/// The task of a command, as the study file declares it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeclaredTask {
    /// The name that titles use.
    pub name: String,
    /// N.
    pub training_examples: u32,
    /// Accuracy of guessing: 0.1 for ten classes of equal size.
    pub chance_accuracy: f64,
}

/// A data set in the user's own files: IDX (plain or gzip) or NPY, or arrays of one NPZ.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileTask {
    /// The folder that holds the files, or the NPZ file that holds the arrays.
    /// Relative to the study file.
    pub path: PathBuf,
    /// Images (n, h, w), (n, h, w, c) or (n, features): file or array name.
    pub train_images: String,
    /// Labels (n), from 0.
    pub train_labels: String,
    /// Test images.
    pub test_images: String,
    /// Test labels.
    pub test_labels: String,
    /// How many of the last training examples are held out for validation.
    pub validation: u32,
    /// How raw values become inputs.
    #[serde(default = "half_range")]
    pub scaling: Scaling,
    /// Shape, sizes and digest, filled in when the files are read: a plan needs them,
    /// and a run's id must change with the content of its data.
    #[serde(default, skip_deserializing, skip_serializing_if = "Option::is_none")]
    pub content: Option<FileContent>,
}

fn half_range() -> Scaling {
    Scaling::HalfRange
}

/// What reading the user's files found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FileContent {
    /// Shape of one example.
    pub shape: crate::Shape,
    /// Largest label + 1.
    pub classes: usize,
    /// Sizes of the three parts.
    pub split: SplitSizes,
    /// SHA-256 over the arrays.
    pub digest: String,
}

impl Task {
    /// The name that titles use.
    pub fn title(&self) -> String {
        match self {
            Self::Known { dataset } => dataset.title().into(),
            Self::Files(files) => files.path.file_stem().map_or_else(
                || "own data".into(),
                |stem| stem.to_string_lossy().into_owned(),
            ),
            Self::Declared(task) => task.name.clone(),
        }
    }

    /// Shape, classes and sizes; `None` for the user's files before they are read,
    /// and for a task that is only declared.
    pub fn content(&self) -> Option<TaskContent> {
        match self {
            Self::Known { dataset } => Some(TaskContent {
                shape: dataset.shape(),
                classes: 10,
                split: dataset.split(),
            }),
            Self::Files(files) => files.content.as_ref().map(|found| TaskContent {
                shape: found.shape,
                classes: found.classes,
                split: found.split,
            }),
            Self::Declared(_) => None,
        }
    }
}

/// What a plan needs to know of the data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TaskContent {
    /// Shape of one example.
    pub shape: crate::Shape,
    /// Number of classes.
    pub classes: usize,
    /// Sizes of the three parts.
    pub split: SplitSizes,
}
