//! Data sets in memory: raw values as stored, with the rule that turns them into inputs.
//!
//! Images stay bytes until a batch is gathered: MNIST then takes 55 MB instead
//! of 220, is shared by all runs, and goes to a GPU as it is.
//!
//! [`load`] brings a study's data from where they are: the digits from the
//! program, MNIST, Fashion-MNIST and CIFAR-10 from the data folder ([`Store`]),
//! the user's own from the files that the study names.

mod array;
mod cifar;
mod digits;
mod error;
mod files;
mod gather;
mod idx;
mod incoming;
mod known;
mod npy;
pub mod official;
mod scaling;
mod store;

pub use array::{Array, ArrayError, Axes, ByteOrder, Element};
pub use cifar::{CifarError, cifar_examples};
pub use error::{DataError, Flaw, OwnDataError};
pub use files::{OwnData, read_files};
pub use gather::hexadecimal;
pub use incoming::Incoming;
pub use store::{DATA_VARIABLE, Imported, State, Status, Store};

use spec::task::{FileContent, FileTask};
use spec::{DatasetName, Shape, Task};

/// Classes of every data set that is known by name.
const CLASSES: usize = 10;

/// Raw values of all examples, (n, height, width, channels), channels last.
#[derive(Debug, Clone, PartialEq)]
pub enum Values {
    /// Bytes, as image sets store them.
    Bytes(Vec<u8>),
    /// Floats, as users' own arrays may be.
    Floats(Vec<f32>),
}

/// One part of a data set.
#[derive(Debug, Clone, PartialEq)]
pub struct Examples {
    /// (n, height, width, channels).
    pub values: Values,
    /// (n), each below the number of classes.
    pub labels: Vec<u16>,
}

/// How a raw value of channel c becomes an input: (value − offset\[c\]) · factor\[c\].
#[derive(Debug, Clone, PartialEq)]
pub struct Normalization {
    /// Subtracted, per channel.
    pub offset: Vec<f32>,
    /// Multiplied, per channel.
    pub factor: Vec<f32>,
}

/// A data set, split.
#[derive(Debug, Clone, PartialEq)]
pub struct Dataset {
    /// Shape of one example.
    pub shape: Shape,
    /// Number of classes.
    pub classes: usize,
    /// How raw values become inputs.
    pub normalization: Normalization,
    /// What is trained on.
    pub train: Examples,
    /// What late time is judged on.
    pub validation: Examples,
    /// What accuracy is measured on.
    pub test: Examples,
}

/// Brings the data of a task. Official files are checked against their
/// checksums, and the user's own against the digest of the plan where the task has one.
pub fn load(task: &Task, store: &Store) -> Result<Dataset, DataError> {
    match task {
        Task::Known { dataset } => match dataset {
            DatasetName::Digits => Ok(digits::load()),
            DatasetName::Mnist | DatasetName::FashionMnist => known::load_mnist(store, *dataset),
            DatasetName::Cifar10 => known::load_cifar10(store),
        },
        Task::Files(files) => {
            let found = read_files(files)?;
            match &files.content {
                Some(planned) if *planned != found.content => Err(OwnDataError::Changed {
                    path: files.path.clone(),
                })?,
                _ => Ok(found.dataset),
            }
        }
        Task::Declared(task) => Err(DataError::Declared {
            name: task.name.clone(),
        }),
    }
}

/// Shape, classes, sizes and digest of the user's own files: what a plan needs.
pub fn inspect_files(task: &FileTask) -> Result<FileContent, DataError> {
    read_files(task).map(|found| found.content)
}

impl Values {
    /// How many values there are, over all examples.
    pub fn len(&self) -> usize {
        match self {
            Self::Bytes(bytes) => bytes.len(),
            Self::Floats(floats) => floats.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Examples {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.labels.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty()
    }

    /// Takes the examples from the `first`-th on away, as `Vec::split_off` does.
    fn split_off(&mut self, shape: Shape, first: usize) -> Self {
        let values = match &mut self.values {
            Values::Bytes(bytes) => Values::Bytes(bytes.split_off(first * shape.size())),
            Values::Floats(floats) => Values::Floats(floats.split_off(first * shape.size())),
        };
        Self {
            values,
            labels: self.labels.split_off(first),
        }
    }
}

/// A known data set from its official parts: the last of the training part are held out.
fn split_in_order(
    dataset: DatasetName,
    normalization: Normalization,
    training: Examples,
    test: Examples,
) -> Dataset {
    let shape = dataset.shape();
    let mut train = training;
    let validation = train.split_off(shape, dataset.split().train as usize);
    Dataset {
        shape,
        classes: CLASSES,
        normalization,
        train,
        validation,
        test,
    }
}
