//! The user's own data: read from every form, split and scaled as the study says,
//! and refused with one sentence that names the place and the remedy.

mod data_support;

use data_support::{gzip, idx, is_one_sentence, le_floats, npy, npz, write};
use engine::data::{DataError, Store, Values, inspect_files, load, read_files};
use proptest::prelude::*;
use spec::Shape;
use spec::task::{FileTask, Scaling, SplitSizes, Task};
use std::path::Path;

fn task(path: &Path) -> FileTask {
    FileTask {
        path: path.into(),
        train_images: "x".into(),
        train_labels: "y".into(),
        test_images: "xt".into(),
        test_labels: "yt".into(),
        validation: 1,
        scaling: Scaling::HalfRange,
        content: None,
    }
}

/// Three training images and one test image of 1×2 bytes.
fn arrays() -> Vec<(&'static str, Vec<u8>)> {
    vec![
        (
            "x",
            npy("|u1", false, "(3, 1, 2)", &[0, 255, 10, 20, 30, 40]),
        ),
        ("y", npy("|u1", false, "(3,)", &[0, 1, 2])),
        ("xt", npy("|u1", false, "(1, 1, 2)", &[5, 6])),
        ("yt", npy("|u1", false, "(1,)", &[3])),
    ]
}

fn replaced(name: &str, array: Vec<u8>) -> Vec<(&'static str, Vec<u8>)> {
    let mut all = arrays();
    all.iter_mut().find(|entry| entry.0 == name).unwrap().1 = array;
    all
}

/// Reads arrays from an NPZ file, with changes to the task.
fn read(
    arrays: &[(&str, Vec<u8>)],
    change: impl Fn(&mut FileTask),
) -> Result<engine::data::OwnData, DataError> {
    let folder = tempfile::tempdir().unwrap();
    let path = write(folder.path(), "own.npz", &npz(arrays, true));
    let mut task = task(&path);
    change(&mut task);
    read_files(&task)
}

fn refusal(arrays: &[(&str, Vec<u8>)], change: impl Fn(&mut FileTask)) -> String {
    let message = read(arrays, change).unwrap_err().to_string();
    assert!(is_one_sentence(&message), "{message}");
    message
}

#[test]
fn all_forms_give_the_same_data_and_digest() {
    let folder = tempfile::tempdir().unwrap();
    let as_idx = [
        ("x", idx(0x08, &[3, 1, 2], &[0, 255, 10, 20, 30, 40])),
        ("y", idx(0x08, &[3], &[0, 1, 2])),
        ("xt", idx(0x08, &[1, 1, 2], &[5, 6])),
        ("yt", idx(0x08, &[1], &[3])),
    ];
    for (name, file) in &as_idx {
        write(folder.path(), &format!("idx/{name}"), file);
        write(folder.path(), &format!("zipped/{name}.gz"), &gzip(file));
    }
    for (name, file) in arrays() {
        write(folder.path(), &format!("npy/{name}.npy"), &file);
    }
    write(folder.path(), "stored.npz", &npz(&arrays(), false));
    write(folder.path(), "packed.npz", &npz(&arrays(), true));
    let forms = ["idx", "zipped", "npy", "stored.npz", "packed.npz"];
    let read: Vec<_> = forms
        .map(|form| read_files(&task(&folder.path().join(form))).unwrap())
        .into();
    for other in &read {
        assert_eq!(*other, read[0]);
    }
    let (content, data) = (&read[0].content, &read[0].dataset);
    let shape = Shape {
        height: 1,
        width: 2,
        channels: 1,
    };
    assert_eq!((content.shape, content.classes), (shape, 4));
    let split = SplitSizes {
        train: 2,
        validation: 1,
        test: 1,
    };
    assert_eq!(content.split, split);
    assert_eq!(content.digest.len(), 64);
    assert_eq!(data.train.values, Values::Bytes(vec![0, 255, 10, 20]));
    assert_eq!(data.validation.values, Values::Bytes(vec![30, 40]));
    assert_eq!(data.validation.labels, [2]);
    assert_eq!(data.test.labels, [3]);
    assert_eq!(
        (data.normalization.offset[0], data.normalization.factor[0]),
        (127.5, 1.0 / 255.0)
    );
}

#[test]
fn the_digest_follows_the_content() {
    let digest = |arrays: &[(&str, Vec<u8>)]| read(arrays, |_| ()).unwrap().content.digest;
    let first = digest(&arrays());
    let pixel = npy("|u1", false, "(1, 1, 2)", &[5, 7]);
    assert_ne!(first, digest(&replaced("xt", pixel)));
    let label = npy("|u1", false, "(3,)", &[0, 1, 1]);
    assert_ne!(first, digest(&replaced("y", label)));
    let same_in_other_type = npy("<i8", false, "(1,)", &[3, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(first, digest(&replaced("yt", same_in_other_type)));
}

#[test]
fn a_task_that_was_planned_for_other_content_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = write(folder.path(), "own.npz", &npz(&arrays(), true));
    let mut task = task(&path);
    task.content = Some(inspect_files(&task).unwrap());
    let store = Store::at(folder.path());
    assert!(load(&Task::Files(task.clone()), &store).is_ok());
    let changed = replaced("y", npy("|u1", false, "(3,)", &[0, 1, 1]));
    write(folder.path(), "own.npz", &npz(&changed, true));
    let message = load(&Task::Files(task), &store).unwrap_err().to_string();
    assert!(
        message.contains("own.npz") && message.contains("changed"),
        "{message}"
    );
}

#[test]
fn features_floats_and_scalings() {
    let floats = |shape, values: &[f32]| npy("<f4", false, shape, &le_floats(values));
    let mut own = replaced("x", floats("(3, 2)", &[0.0, 1.0, 4.0, 1.0, 100.0, 7.0]));
    own[2].1 = floats("(1, 2)", &[0.0, 0.0]);
    let rule = |scaling| {
        let data = read(&own, |task| task.scaling = scaling).unwrap().dataset;
        assert_eq!(data.shape, Shape::flat(2));
        data.normalization
    };
    // The two training rows are (0, 1) and (4, 1); the third is held out.
    let half = rule(Scaling::HalfRange);
    assert_eq!((half.offset, half.factor), (vec![2.0; 2], vec![0.25; 2]));
    let standard = rule(Scaling::Standardized);
    assert_eq!(
        (standard.offset, standard.factor),
        (vec![2.0, 1.0], vec![0.5, 0.0])
    );
    let as_is = rule(Scaling::AsIs);
    assert_eq!((as_is.offset, as_is.factor), (vec![0.0; 2], vec![1.0; 2]));
}

#[test]
fn what_is_not_there_names_what_is() {
    let message = refusal(&arrays(), |task| task.train_images = "z".into());
    assert!(
        message.contains("`z`") && message.contains("`train_images`"),
        "{message}"
    );
    assert!(message.contains("x, xt, y, yt"), "{message}");
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "other.npy", b"");
    let message = read_files(&task(folder.path())).unwrap_err().to_string();
    assert!(message.contains("other.npy"), "{message}");
    let message = read_files(&task(&folder.path().join("no")))
        .unwrap_err()
        .to_string();
    assert!(
        message.contains("a folder") && is_one_sentence(&message),
        "{message}"
    );
    let message = read_files(&task(&folder.path().join("other.npy")))
        .unwrap_err()
        .to_string();
    assert!(
        message.contains("NPZ") && is_one_sentence(&message),
        "{message}"
    );
}

#[test]
fn what_does_not_fit_is_refused() {
    let bytes = |shape, n| npy("|u1", false, shape, &vec![1; n]);
    let cases: [(&str, Vec<u8>, &str); 11] = [
        ("x", bytes("(3,)", 3), "(n, h, w)"),
        ("x", bytes("(1, 1, 1, 1, 3)", 3), "(n, h, w)"),
        ("x", bytes("(0, 1, 2)", 0), "above 0"),
        ("x", bytes("(3, 3, 8, 8)", 576), "transpose(0, 2, 3, 1)"),
        ("x", bytes("(3, 3, 6, 5)", 270), "transpose(0, 2, 3, 1)"),
        ("x", bytes("(3, 1, 8, 8)", 192), "transpose(0, 2, 3, 1)"),
        (
            "x",
            bytes("(2, 1, 2)", 4),
            "3 labels are there for 2 images",
        ),
        ("xt", bytes("(1, 2, 2)", 4), "1×2×1"),
        (
            "xt",
            npy("<f4", false, "(1, 1, 2)", &le_floats(&[0.0, 1.0])),
            "store both alike",
        ),
        ("y", bytes("(3,)", 2), "truncated"),
        ("y", npy("|u1", false, "(3,)", &[0; 3]), "two classes"),
    ];
    for (name, array, expected) in cases {
        let message = refusal(&replaced(name, array), |_| ());
        assert!(
            message.contains(expected) && message.contains("own.npz"),
            "{message}"
        );
    }
    let message = refusal(&arrays(), |task| task.validation = 3);
    assert!(message.contains("hold out fewer"), "{message}");
    let constant = npy("<f4", false, "(3, 1, 2)", &le_floats(&[2.0; 6]));
    let mut own = replaced("x", constant.clone());
    own[2].1 = npy("<f4", false, "(1, 1, 2)", &le_floats(&[2.0; 2]));
    let message = refusal(&own, |_| ());
    assert!(message.contains("as-is"), "{message}");
}

#[test]
fn signals_of_many_channels_and_images_of_three_rows_are_read() {
    for (training, test, shape) in [
        ("(3, 1, 6, 8)", "(1, 1, 6, 8)", [1, 6, 8]),
        ("(3, 3, 6, 4)", "(1, 3, 6, 4)", [3, 6, 4]),
    ] {
        let [height, width, channels] = shape;
        let size = height * width * channels;
        let values = |n: usize| (0..n * size).map(|i| i as u8).collect::<Vec<_>>();
        let mut own = replaced("x", npy("|u1", false, training, &values(3)));
        own[2].1 = npy("|u1", false, test, &values(1));
        let expected = Shape {
            height,
            width,
            channels,
        };
        assert_eq!(read(&own, |_| ()).unwrap().content.shape, expected);
    }
}

proptest! {
    #[test]
    fn a_damaged_npz_is_read_or_refused(position in any::<prop::sample::Index>(), bit in 0..8_u32, compressed: bool, cut: bool) {
        let mut file = npz(&arrays(), compressed);
        let at = position.index(file.len());
        if cut {
            file.truncate(at);
        } else {
            file[at] ^= 1 << bit;
        }
        let folder = tempfile::tempdir().unwrap();
        let path = write(folder.path(), "own.npz", &file);
        if let Err(error) = read_files(&task(&path)) {
            let message = error.to_string();
            prop_assert!(message.contains("own.npz"), "{}", message);
        } else {
            prop_assert!(!cut);
        }
    }
}
