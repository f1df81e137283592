//! The user's own data: IDX or NPY files in a folder, or the arrays of one NPZ file.
//!
//! Reading them also finds what a plan needs (shape, classes, sizes), and a
//! digest of the arrays, so that a run's id changes with the content of its data.
//! The digest is of the values and not of the files: compressing a file, or
//! writing the same array in another format, changes nothing.

use super::array::{Array, ArrayError};
use super::error::{DataError, OwnDataError};
use super::gather::hexadecimal;
use super::{Dataset, Examples, Values, scaling};
use sha2::{Digest, Sha256};
use spec::Shape;
use spec::task::{FileContent, FileTask, SplitSizes};
use std::fs::{self, File};
use std::io::BufReader;
use std::path::Path;

/// What was read of the user's files.
#[derive(Debug, Clone, PartialEq)]
pub struct OwnData {
    /// What a plan needs to know.
    pub content: FileContent,
    /// The examples.
    pub dataset: Dataset,
}

/// Reads and checks the user's files.
pub fn read_files(task: &FileTask) -> Result<OwnData, DataError> {
    let mut container = Container::open(&task.path)?;
    let training = container.part(
        Named::new("train_images", &task.train_images),
        Named::new("train_labels", &task.train_labels),
    )?;
    let test = container.part(
        Named::new("test_images", &task.test_images),
        Named::new("test_labels", &task.test_labels),
    )?;
    check_alike(&training, &test)?;
    let classes = count_classes(&training, &test)?;
    let split = split_sizes(task, &training, &test)?;
    let digest = digest(&training, &test);
    let shape = training.shape;
    let learned = split.train as usize * shape.size();
    let values = &training.examples.values;
    let normalization = scaling::normalization(task.scaling, shape.channels, values, learned)
        .map_err(|constant| OwnDataError::Constant {
            place: training.images_place.clone(),
            value: constant.0,
        })?;
    let mut train = training.examples;
    let validation = train.split_off(shape, split.train as usize);
    Ok(OwnData {
        content: FileContent {
            shape,
            classes,
            split,
            digest,
        },
        dataset: Dataset {
            shape,
            classes,
            normalization,
            train,
            validation,
            test: test.examples,
        },
    })
}

/// A key of the study file and the name that it gives.
#[derive(Debug, Clone, Copy)]
struct Named<'a> {
    key: &'static str,
    name: &'a str,
}

impl<'a> Named<'a> {
    fn new(key: &'static str, name: &'a str) -> Self {
        Self { key, name }
    }
}

/// Images with their labels, and where both are.
struct Part {
    shape: Shape,
    examples: Examples,
    images_place: String,
    labels_place: String,
}

/// What holds the arrays.
enum Container<'a> {
    Folder(&'a Path),
    Npz(&'a Path, Box<zip::ZipArchive<BufReader<File>>>),
}

impl<'a> Container<'a> {
    fn open(path: &'a Path) -> Result<Self, DataError> {
        let none = |what: String| OwnDataError::NoContainer {
            path: path.into(),
            what,
        };
        let found =
            fs::metadata(path).map_err(|error| none(format!("cannot be read ({error})")))?;
        if found.is_dir() {
            return Ok(Self::Folder(path));
        }
        let file = File::open(path).map_err(|error| none(format!("cannot be read ({error})")))?;
        let archive = zip::ZipArchive::new(BufReader::new(file))
            .map_err(|error| none(format!("the file is not a whole NPZ file ({error})")))?;
        Ok(Self::Npz(path, Box::new(archive)))
    }

    fn part(&mut self, images: Named, labels: Named) -> Result<Part, DataError> {
        let images_place = self.place(images.name);
        let labels_place = self.place(labels.name);
        let array = self.array(images)?;
        let shape = image_shape(&images_place, &array)?;
        let values = array.into_values().map_err(|e| at(&images_place, e))?;
        let labels = self.array(labels)?;
        let labels = labels.labels().map_err(|e| at(&labels_place, e))?;
        let count = values.len() / shape.size();
        if labels.len() != count {
            return Err(OwnDataError::Count {
                place: labels_place,
                labels: labels.len(),
                images: count,
            })?;
        }
        Ok(Part {
            shape,
            examples: Examples { values, labels },
            images_place,
            labels_place,
        })
    }

    fn place(&self, name: &str) -> String {
        match self {
            Self::Folder(folder) => folder.join(name).display().to_string(),
            Self::Npz(path, _) => format!("{}: `{name}`", path.display()),
        }
    }

    fn array(&mut self, named: Named) -> Result<Array, DataError> {
        let place = self.place(named.name);
        match self {
            Self::Folder(folder) => {
                let spellings = ["", ".gz", ".npy", ".npy.gz"];
                let paths = spellings.map(|end| folder.join(format!("{}{end}", named.name)));
                let Some(path) = paths.into_iter().find(|path| path.is_file()) else {
                    return Err(no_array(folder, named, folder_names(folder)))?;
                };
                let file = File::open(&path).map_err(|reason| DataError::Unreadable {
                    path: path.clone(),
                    reason,
                })?;
                Ok(Array::read(BufReader::new(file))
                    .map_err(|e| at(&path.display().to_string(), e))?)
            }
            Self::Npz(path, archive) => {
                let index = [named.name, &format!("{}.npy", named.name)]
                    .into_iter()
                    .find_map(|name| archive.index_for_name(name));
                let Some(index) = index else {
                    let names = archive.file_names().flatten();
                    let names = names.map(|name| name.trim_end_matches(".npy").to_owned());
                    return Err(no_array(path, named, names.collect()))?;
                };
                let entry = archive.by_index(index).map_err(std::io::Error::from);
                let entry = entry.map_err(|error| at(&place, error.into()))?;
                Ok(Array::read(entry).map_err(|e| at(&place, e))?)
            }
        }
    }
}

fn at(place: &str, problem: ArrayError) -> OwnDataError {
    OwnDataError::Array {
        place: place.into(),
        problem,
    }
}

fn no_array(path: &Path, named: Named, mut found: Vec<String>) -> OwnDataError {
    const SHOWN: usize = 20;
    found.sort();
    let more = found.len().saturating_sub(SHOWN);
    found.truncate(SHOWN);
    let mut found = found.join(", ");
    if more > 0 {
        found += &format!(" and {more} more");
    }
    OwnDataError::NoArray {
        path: path.into(),
        key: named.key,
        name: named.name.into(),
        found: if found.is_empty() {
            "(nothing is there)".into()
        } else {
            found
        },
    }
}

fn folder_names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let files = entries.filter(|entry| entry.path().is_file());
    files
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect()
}

fn image_shape(place: &str, array: &Array) -> Result<Shape, OwnDataError> {
    let axes = || array.axes.clone();
    let shape = match array.axes.0[..] {
        [_, features] => Shape::flat(features),
        [_, height, width] => Shape {
            height,
            width,
            channels: 1,
        },
        // Three rows of pixels of many channels, or one of as many pixels: nobody has such images, but
        // PyTorch has images in this order. One row of pixels may be a signal.
        [_, rows @ (1 | 3), width, channels]
            if channels > 4 && (rows == 3 || width == channels) =>
        {
            return Err(OwnDataError::ChannelsFirst {
                place: place.into(),
                axes: axes(),
            });
        }
        [_, height, width, channels] => Shape {
            height,
            width,
            channels,
        },
        _ => Shape::flat(0),
    };
    if array.axes.0.contains(&0) || shape.size() == 0 {
        return Err(OwnDataError::ImageAxes {
            place: place.into(),
            axes: axes(),
        });
    }
    Ok(shape)
}

fn check_alike(training: &Part, test: &Part) -> Result<(), OwnDataError> {
    let describe = |part: &Part| {
        let shape = part.shape;
        let kind = match part.examples.values {
            Values::Bytes(_) => "bytes",
            Values::Floats(_) => "numbers",
        };
        format!("{}×{}×{} {kind}", shape.height, shape.width, shape.channels)
    };
    let (train, tested) = (describe(training), describe(test));
    if train == tested {
        return Ok(());
    }
    Err(OwnDataError::Unlike {
        place: test.images_place.clone(),
        train,
        test: tested,
    })
}

fn count_classes(training: &Part, test: &Part) -> Result<usize, OwnDataError> {
    let largest = |part: &Part| part.examples.labels.iter().copied().max().unwrap_or(0);
    let classes = usize::from(largest(training)) + 1;
    if classes < 2 {
        return Err(OwnDataError::Classes {
            place: training.labels_place.clone(),
            found: "every label is 0".into(),
        });
    }
    Ok(classes.max(usize::from(largest(test)) + 1))
}

fn split_sizes(task: &FileTask, training: &Part, test: &Part) -> Result<SplitSizes, OwnDataError> {
    let count = |part: &Part| {
        let images = part.examples.len();
        u32::try_from(images).map_err(|_| OwnDataError::TooMany {
            place: part.images_place.clone(),
            images,
        })
    };
    let train = count(training)?.saturating_sub(task.validation);
    if train == 0 {
        return Err(OwnDataError::NothingToTrain {
            place: training.images_place.clone(),
            images: training.examples.len(),
            validation: task.validation,
        });
    }
    Ok(SplitSizes {
        train,
        validation: task.validation,
        test: count(test)?,
    })
}

fn digest(training: &Part, test: &Part) -> String {
    let mut hash = Sha256::new();
    for part in [training, test] {
        let shape = part.shape;
        let examples = &part.examples;
        for length in [examples.len(), shape.height, shape.width, shape.channels] {
            hash.update((length as u64).to_le_bytes());
        }
        match &examples.values {
            Values::Bytes(bytes) => {
                hash.update(b"bytes");
                hash.update(bytes);
            }
            Values::Floats(floats) => {
                hash.update(b"float");
                floats
                    .iter()
                    .for_each(|value| hash.update(value.to_le_bytes()));
            }
        }
        let labels = examples.labels.iter();
        labels.for_each(|label| hash.update(label.to_le_bytes()));
    }
    hexadecimal(&hash.finalize())
}
