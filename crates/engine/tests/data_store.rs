//! The data folder: official files are found in every form, checked, and refused
//! with one sentence when they are not what they should be.
//!
//! Tests on real content run where the machine's data folder has it.

mod data_support;
#[path = "../../../tests/skip/mod.rs"]
mod skip;

use data_support::{gzip, is_one_sentence, tar_gz, write};
use engine::data::official::{downloads, files};
use engine::data::{Dataset, State, Store, Values, load};
use spec::{DatasetName, Task};
use std::fs;
use std::path::Path;

fn known(dataset: DatasetName) -> Task {
    Task::Known { dataset }
}

/// The machine's own data folder, where it has the data set.
fn real(dataset: DatasetName) -> Option<Store> {
    let store = Store::from_environment();
    let there = store.status(dataset).state == State::Verified;
    if !there {
        let name = dataset.to_string();
        skip::skipped(&name, &format!("{name} is not in the data folder"));
    }
    there.then_some(store)
}

fn sum(values: &Values) -> u64 {
    match values {
        Values::Bytes(bytes) => bytes.iter().map(|byte| u64::from(*byte)).sum(),
        Values::Floats(_) => panic!("known data sets have bytes"),
    }
}

fn assert_sizes(data: &Dataset, dataset: DatasetName) {
    let (shape, split) = (dataset.shape(), dataset.split());
    assert_eq!((data.shape, data.classes), (shape, 10));
    let parts = [
        (&data.train, split.train),
        (&data.validation, split.validation),
        (&data.test, split.test),
    ];
    for (part, expected) in parts {
        assert_eq!(part.len(), expected as usize);
        assert_eq!(part.values.len(), part.len() * shape.size());
        assert!(part.labels.iter().all(|label| *label < 10));
    }
}

/// Everything under a folder, hidden or not.
fn everything(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names = Vec::new();
    for entry in entries {
        names.push(entry.file_name().to_string_lossy().into_owned());
        names.extend(everything(&entry.path()));
    }
    names.sort();
    names
}

#[test]
fn digits_are_those_of_scikit_learn() {
    let store = Store::at("/nowhere");
    let data = load(&known(DatasetName::Digits), &store).unwrap();
    assert_sizes(&data, DatasetName::Digits);
    let Values::Bytes(pixels) = &data.train.values else {
        panic!("digits have bytes");
    };
    assert_eq!(
        pixels[..16],
        [0, 0, 5, 13, 9, 1, 0, 0, 0, 0, 13, 15, 10, 15, 5, 0]
    );
    assert_eq!(data.train.labels[..10], [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
    assert_eq!(data.test.labels[495..], [9, 0, 8, 9, 8]);
    let sums = [&data.train, &data.validation, &data.test].map(|part| sum(&part.values));
    assert_eq!(sums, [375_456, 30_806, 155_456]);
    let rule = data.normalization;
    let scaled = |value: f32| (value - rule.offset[0]) * rule.factor[0];
    assert_eq!((scaled(0.0), scaled(16.0)), (-0.5, 0.5));
}

#[test]
fn what_is_missing_names_the_place_and_the_command() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::at(folder.path());
    for dataset in [
        DatasetName::Mnist,
        DatasetName::FashionMnist,
        DatasetName::Cifar10,
    ] {
        let message = load(&known(dataset), &store).unwrap_err().to_string();
        let first = store.folder(dataset).join(files(dataset)[0].name);
        assert!(message.contains(&first.display().to_string()), "{message}");
        assert!(
            message.contains(&format!("noisescale data fetch {dataset}")),
            "{message}"
        );
        assert!(
            message.contains(&format!("noisescale data import {dataset} PATH")),
            "{message}"
        );
        assert!(is_one_sentence(&message), "{message}");
        let status = store.status(dataset);
        assert_eq!((status.state, status.bytes), (State::Missing, 0));
        let all: u64 = downloads(dataset)
            .iter()
            .map(|download| download.bytes)
            .sum();
        assert_eq!(status.download_bytes, all);
    }
    assert!(everything(folder.path()).is_empty());
}

#[test]
fn wrong_content_is_refused_and_nothing_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::at(folder.path().join("store"));
    let labels = files(DatasetName::Mnist)[3];
    let right_size = vec![0; labels.bytes as usize];
    let mut broken = gzip(&right_size);
    let middle = broken.len() / 2;
    broken[middle] ^= 0xff;
    let cases = [
        ("a/t10k-labels-idx1-ubyte", right_size.clone(), "checksum"),
        ("b/t10k-labels.idx1-ubyte.gz", gzip(&right_size), "checksum"),
        (
            "c/t10k-labels-idx1-ubyte",
            vec![0; 100],
            "truncated: 100 bytes of 10008",
        ),
        (
            "d/t10k-labels-idx1-ubyte.gz",
            gzip(&vec![0; 1 << 20]),
            "longer",
        ),
        ("e/t10k-labels-idx1-ubyte.gz", broken, "the file "),
        (
            "f/all.tar.gz",
            tar_gz(&[("x/t10k-labels-idx1-ubyte", &right_size)]),
            "checksum",
        ),
    ];
    for (name, content, expected) in cases {
        let path = write(folder.path(), name, &content);
        for named in [path.as_path(), path.parent().unwrap()] {
            if name.contains("tar") && named != path {
                continue;
            }
            let message = store
                .import(DatasetName::Mnist, named)
                .unwrap_err()
                .to_string();
            assert!(message.contains(expected), "{message}");
            assert!(message.contains(&path.display().to_string()), "{message}");
            assert!(is_one_sentence(&message), "{message}");
            assert!(everything(store.root()).is_empty());
        }
    }
}

#[test]
fn nothing_to_import_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::at(folder.path().join("store"));
    let other = write(folder.path(), "other/notes.txt", b"no data");
    for path in [other.as_path(), other.parent().unwrap()] {
        let message = store
            .import(DatasetName::Cifar10, path)
            .unwrap_err()
            .to_string();
        assert!(message.contains("data_batch_1.bin"), "{message}");
        assert!(is_one_sentence(&message), "{message}");
    }
    let none = folder.path().join("none");
    let message = store
        .import(DatasetName::Mnist, &none)
        .unwrap_err()
        .to_string();
    assert!(message.contains(&none.display().to_string()), "{message}");
    assert!(store.import(DatasetName::Digits, &other).is_err());
    assert!(everything(store.root()).is_empty());
}

#[test]
fn real_mnist_is_split_in_its_official_order() {
    let Some(store) = real(DatasetName::Mnist) else {
        return;
    };
    let data = load(&known(DatasetName::Mnist), &store).unwrap();
    assert_sizes(&data, DatasetName::Mnist);
    assert_eq!(data.train.labels[..5], [5, 0, 4, 1, 9]);
    assert_eq!(data.validation.labels[..5], [1, 2, 8, 7, 4]);
    assert_eq!(data.test.labels[..5], [7, 2, 1, 0, 4]);
    assert_eq!(sum(&data.train.values), 1_437_309_103);
    assert_eq!(sum(&data.validation.values), 129_989_442);
    assert_eq!(
        (data.normalization.offset[0], data.normalization.factor[0]),
        (127.5, 1.0 / 255.0)
    );
}

#[test]
fn real_fashion_mnist_is_not_mnist() {
    let Some(store) = real(DatasetName::FashionMnist) else {
        return;
    };
    let data = load(&known(DatasetName::FashionMnist), &store).unwrap();
    assert_sizes(&data, DatasetName::FashionMnist);
    assert_eq!(data.train.labels[..5], [9, 0, 0, 3, 0]);
    assert_eq!(data.test.labels[..5], [9, 2, 1, 1, 6]);
}

#[test]
fn real_cifar10_is_standardized_over_the_training_part() {
    let Some(store) = real(DatasetName::Cifar10) else {
        return;
    };
    let data = load(&known(DatasetName::Cifar10), &store).unwrap();
    assert_sizes(&data, DatasetName::Cifar10);
    assert_eq!(data.train.labels[..5], [6, 9, 9, 4, 1]);
    assert_eq!(data.test.labels[..5], [3, 8, 8, 0, 6]);
    let Values::Bytes(pixels) = &data.train.values else {
        panic!("CIFAR-10 has bytes");
    };
    assert_eq!(pixels[..9], [59, 62, 63, 43, 46, 45, 50, 48, 43]);
    // Computed with NumPy over the first 45,000 images.
    let expected = [
        (125.345_03, 63.023_796),
        (122.941_9, 62.137_237),
        (113.838_83, 66.742_31),
    ];
    for (channel, (mean, deviation)) in expected.into_iter().enumerate() {
        assert!((data.normalization.offset[channel] - mean).abs() < 1e-4);
        assert!((1.0 / data.normalization.factor[channel] - deviation).abs() < 1e-4);
    }
}

#[test]
fn real_files_are_found_among_namesakes_and_in_archives() {
    let (Some(store), Some(_)) = (real(DatasetName::Mnist), real(DatasetName::FashionMnist)) else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let content =
        |dataset: DatasetName, name: &str| fs::read(store.folder(dataset).join(name)).unwrap();
    // As other tools keep them: Fashion-MNIST, which comes first, has the same names.
    for file in files(DatasetName::Mnist) {
        let fashion = content(DatasetName::FashionMnist, file.name);
        write(
            folder.path(),
            &format!("both/FashionMNIST/raw/{}", file.name),
            &fashion,
        );
        let dotted = format!("both/MNIST/raw/{}.gz", file.name.replace("-idx", ".idx"));
        write(
            folder.path(),
            &dotted,
            &gzip(&content(DatasetName::Mnist, file.name)),
        );
    }
    let target = Store::at(folder.path().join("store"));
    let imported = target
        .import(DatasetName::Mnist, &folder.path().join("both"))
        .unwrap();
    assert_eq!((imported.written.len(), imported.missing.len()), (4, 0));
    assert_eq!(target.status(DatasetName::Mnist).state, State::Verified);
    assert!(target.to_download(DatasetName::Mnist).is_empty());
    let task = known(DatasetName::Mnist);
    assert_eq!(load(&task, &target).unwrap(), load(&task, &store).unwrap());
    // One file of an archive: the rest is reported as missing.
    let labels = content(DatasetName::FashionMnist, "t10k-labels-idx1-ubyte");
    let archive = tar_gz(&[("some/t10k-labels-idx1-ubyte.gz", &gzip(&labels))]);
    let archive = write(folder.path(), "part.tgz", &archive);
    let imported = target.import(DatasetName::FashionMnist, &archive).unwrap();
    assert_eq!(imported.written, ["t10k-labels-idx1-ubyte"]);
    assert_eq!(imported.missing.len(), 3);
    let status = target.status(DatasetName::FashionMnist);
    assert_eq!((status.state, status.bytes), (State::Incomplete, 10_008));
    assert_eq!(target.to_download(DatasetName::FashionMnist).len(), 3);
}

#[test]
fn a_real_file_with_one_flipped_bit_is_found_out() {
    let Some(store) = real(DatasetName::Mnist) else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let target = Store::at(folder.path());
    target
        .import(DatasetName::Mnist, &store.folder(DatasetName::Mnist))
        .unwrap();
    let path = target
        .folder(DatasetName::Mnist)
        .join("train-images-idx3-ubyte");
    let mut content = fs::read(&path).unwrap();
    content[20_000_000] ^= 4;
    fs::write(&path, content).unwrap();
    let message = load(&known(DatasetName::Mnist), &target)
        .unwrap_err()
        .to_string();
    assert!(message.contains(&path.display().to_string()), "{message}");
    assert!(
        message.contains("data fetch mnist") && is_one_sentence(&message),
        "{message}"
    );
    let status = target.status(DatasetName::Mnist);
    assert_eq!(status.state, State::Flawed);
    assert!(status.problem.unwrap().contains("checksum"));
    assert_eq!(target.to_download(DatasetName::Mnist).len(), 1);
}
