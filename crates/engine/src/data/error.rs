//! What can be wrong with data: always the place, the matter and the remedy, in one sentence.

use super::array::{ArrayError, Axes};
use spec::DatasetName;
use std::io;
use std::path::PathBuf;

/// Why data cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum DataError {
    /// An official file is not in the data folder.
    #[error("{}: the file is not there; {}", .path.display(), get(*.dataset))]
    Missing {
        /// Where it would be.
        path: PathBuf,
        /// Whose file.
        dataset: DatasetName,
    },
    /// An official file is not what it should be.
    #[error("{}: the file {flaw}; {}", .path.display(), get(*.dataset))]
    Flawed {
        /// The file, or the archive followed by the file in it.
        path: PathBuf,
        /// What is wrong with it.
        flaw: Flaw,
        /// Whose file.
        dataset: DatasetName,
    },
    /// A path that one named has nothing of the data set.
    #[error(
        "{}: none of the files of {dataset} is there (looked for {names}, plain, .gz, or in a .tar.gz or .zip); \
         name the file, folder or archive that holds them",
        .path.display()
    )]
    NothingToImport {
        /// What was searched.
        path: PathBuf,
        /// For what.
        dataset: DatasetName,
        /// The files that it should have had.
        names: String,
    },
    /// The digits are in the program.
    #[error("{0} is a part of the program and always there; nothing has to be fetched or imported")]
    Embedded(DatasetName),
    /// Only the study's own command has them.
    #[error("the data of {name} are known to the study's own command alone")]
    Declared {
        /// What the study calls them.
        name: String,
    },
    /// The system does not let us read.
    #[error("{}: cannot be read ({reason}); check the path and its permissions", .path.display())]
    Unreadable {
        /// What.
        path: PathBuf,
        /// The system's reason.
        reason: io::Error,
    },
    /// The system does not let us write.
    #[error(
        "{}: cannot be written ({reason}); make room and give permission there, \
         or set NOISESCALE_DATA to another folder",
        .path.display()
    )]
    Unwritable {
        /// What.
        path: PathBuf,
        /// The system's reason.
        reason: io::Error,
    },
    /// The user's own files cannot be used.
    #[error(transparent)]
    Own(#[from] OwnDataError),
}

impl DataError {
    /// Whether the user can mend it, and not the machine.
    pub fn is_mistake(&self) -> bool {
        !matches!(self, Self::Unwritable { .. })
    }
}

/// The commands that bring a data set.
fn get(dataset: DatasetName) -> String {
    format!(
        "run `noisescale data fetch {dataset}`, \
         or `noisescale data import {dataset} PATH` with a copy that you have"
    )
}

/// In what an official file differs from what it should be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Flaw {
    /// Too short.
    #[error("is truncated: {found} bytes of {expected}")]
    Truncated {
        /// Its official size.
        expected: u64,
        /// How much of it there is.
        found: u64,
    },
    /// Too long.
    #[error("is longer than its {expected} bytes")]
    Overlong {
        /// Its official size.
        expected: u64,
    },
    /// The right size and other bytes.
    #[error(
        "is another file than the published one, or was changed: its MD5 checksum is {found} and should be {expected}"
    )]
    Checksum {
        /// MD5 of the official content.
        expected: &'static str,
        /// MD5 of this content.
        found: String,
    },
    /// It cannot be read to its end.
    #[error("is damaged: {0}")]
    Damaged(String),
    /// The right bytes, which we take for something else.
    #[error("has an unexpected structure: {0}")]
    Structure(String),
}

/// What can be wrong with the user's own files.
#[derive(Debug, thiserror::Error)]
pub enum OwnDataError {
    /// Neither a folder nor an NPZ file.
    #[error(
        "{}: {what}; `path` of the study's task must be a folder with IDX or NPY files, or one NPZ file",
        .path.display()
    )]
    NoContainer {
        /// The path of the study file.
        path: PathBuf,
        /// What is there instead.
        what: String,
    },
    /// A name that is not there.
    #[error("{}: no array `{name}` is there; give the study's `{key}` one of: {found}", .path.display())]
    NoArray {
        /// The folder or NPZ file.
        path: PathBuf,
        /// The key of the study file.
        key: &'static str,
        /// The name that it gives.
        name: String,
        /// The names that would do.
        found: String,
    },
    /// The file is no array, or not one that can be examples or labels.
    #[error("{place}: the array {problem}; write the file again{}", rewrite(.problem))]
    Array {
        /// The file, or the NPZ file and the array in it.
        place: String,
        /// What is wrong.
        problem: ArrayError,
    },
    /// A shape that images cannot have.
    #[error(
        "{place}: the array has shape {axes}; images must be (n, h, w), (n, h, w, c) or (n, features), all above 0"
    )]
    ImageAxes {
        /// The file, or the NPZ file and the array in it.
        place: String,
        /// Its shape.
        axes: Axes,
    },
    /// A shape that says channels come first.
    #[error(
        "{place}: the array has shape {axes}, which looks like (n, c, h, w); store (n, h, w, c), with `x.transpose(0, 2, 3, 1)`"
    )]
    ChannelsFirst {
        /// The file, or the NPZ file and the array in it.
        place: String,
        /// Its shape.
        axes: Axes,
    },
    /// More labels than images, or fewer.
    #[error("{place}: {labels} labels are there for {images} images; store one for each")]
    Count {
        /// The labels' file or array.
        place: String,
        /// How many labels.
        labels: usize,
        /// How many images.
        images: usize,
    },
    /// Test images unlike the training images.
    #[error(
        "{place}: images of shape and type {test} are tested where {train} are learned; store both alike"
    )]
    Unlike {
        /// The test images' file or array.
        place: String,
        /// Shape and type of a training image.
        train: String,
        /// Shape and type of a test image.
        test: String,
    },
    /// Nothing is left to learn from.
    #[error(
        "{place}: {images} images are there and `validation` holds out {validation}; hold out fewer"
    )]
    NothingToTrain {
        /// The training images' file or array.
        place: String,
        /// How many there are.
        images: usize,
        /// How many are held out.
        validation: u32,
    },
    /// Too few, or too many to count.
    #[error("{place}: {found}; at least two classes are needed")]
    Classes {
        /// The labels' file or array.
        place: String,
        /// What was found.
        found: String,
    },
    /// More examples than a split can count.
    #[error(
        "{place}: {images} images are more than the {} that can be counted; store fewer",
        u32::MAX
    )]
    TooMany {
        /// The images' file or array.
        place: String,
        /// How many there are.
        images: usize,
    },
    /// No range to scale.
    #[error(
        "{place}: all training values are {value}, so that their range cannot be scaled; set `scaling = \"as-is\"` or mend the data"
    )]
    Constant {
        /// The training images' file or array.
        place: String,
        /// The one value.
        value: f32,
    },
    /// The files are no longer those that the plan was made for.
    #[error("{}: the data changed since the study was planned; start the study again", .path.display())]
    Changed {
        /// The folder or NPZ file.
        path: PathBuf,
    },
}

/// What to do when the array is written again.
fn rewrite(problem: &ArrayError) -> &'static str {
    match problem {
        ArrayError::UnknownFormat => ", for example with `numpy.save`",
        ArrayError::Element(_) => ", with `x.astype(\"float32\")`",
        ArrayError::NotFinite { .. } => " without such values",
        ArrayError::BeyondFloat { .. } => " with values scaled down",
        ArrayError::FloatLabels => ", with `y.astype(\"int64\")`",
        ArrayError::LabelAxes(_) => ", with one class number per image",
        ArrayError::Label { .. } => " with classes numbered from 0",
        _ => "",
    }
}
