//! The official files of MNIST, Fashion-MNIST and CIFAR-10 as data sets.
//!
//! Their checksums were right when they get here, so that a wrong structure can
//! only be a mistake of ours; it is checked all the same.

use super::array::Array;
use super::cifar::cifar_examples;
use super::error::{DataError, Flaw};
use super::scaling::{half_range_of_bytes, standardize};
use super::store::{Content, Store};
use super::{Dataset, Examples, Values, split_in_order};
use spec::DatasetName;

/// MNIST and Fashion-MNIST: bytes to [−0.5, 0.5].
pub(super) fn load_mnist(store: &Store, dataset: DatasetName) -> Result<Dataset, DataError> {
    let files = store.read(dataset)?;
    let [train_images, train_labels, test_images, test_labels] = &files[..] else {
        unreachable!("four official files are listed for {dataset}");
    };
    let training = idx_examples(dataset, train_images, train_labels)?;
    let test = idx_examples(dataset, test_images, test_labels)?;
    Ok(split_in_order(
        dataset,
        half_range_of_bytes(1),
        training,
        test,
    ))
}

fn idx_examples(
    dataset: DatasetName,
    images: &Content,
    labels: &Content,
) -> Result<Examples, DataError> {
    let read = |file: &Content| {
        let array = Array::read(file.bytes.as_slice());
        array.map_err(|error| wrong(dataset, file, error.to_string()))
    };
    let pixels = read(images)?;
    let shape = dataset.shape();
    let n = pixels.axes.0.first().copied().unwrap_or(0);
    if pixels.axes.0 != [n, shape.height, shape.width] {
        return Err(wrong(dataset, images, format!("shape {}", pixels.axes)));
    }
    let values = pixels.into_values();
    let values = values.map_err(|error| wrong(dataset, images, error.to_string()))?;
    let classes = read(labels)?.labels();
    let classes = classes.map_err(|error| wrong(dataset, labels, error.to_string()))?;
    if classes.len() != n {
        let what = format!("{} labels for {n} images", classes.len());
        return Err(wrong(dataset, labels, what));
    }
    Ok(Examples {
        values,
        labels: classes,
    })
}

/// CIFAR-10: each channel to zero mean and unit variance over the training part.
pub(super) fn load_cifar10(store: &Store) -> Result<Dataset, DataError> {
    let dataset = DatasetName::Cifar10;
    let files = store.read(dataset)?;
    let [batches @ .., test] = &files[..] else {
        unreachable!("six official files are listed for {dataset}");
    };
    let read = |file: &Content| {
        cifar_examples(&file.bytes).map_err(|error| wrong(dataset, file, error.to_string()))
    };
    let mut pixels = Vec::new();
    let mut labels = Vec::new();
    for batch in batches {
        let batch = read(batch)?;
        if let Values::Bytes(bytes) = batch.values {
            pixels.extend(bytes);
        }
        labels.extend(batch.labels);
    }
    let training = Examples {
        values: Values::Bytes(pixels),
        labels,
    };
    let test = read(test)?;
    let learned = dataset.split().train as usize * dataset.shape().size();
    let normalization = standardize(dataset.shape().channels, &training.values, learned);
    Ok(split_in_order(dataset, normalization, training, test))
}

fn wrong(dataset: DatasetName, file: &Content, what: String) -> DataError {
    DataError::Flawed {
        path: file.path.clone(),
        flaw: Flaw::Structure(what),
        dataset,
    }
}
