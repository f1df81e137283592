//! IDX, NPY and CIFAR-10 files: what was written is read, and nothing that is
//! damaged is read, makes a panic, or takes memory for what is not there.

mod data_support;

use data_support::{gzip, idx, le_floats, npy};
use engine::data::{Array, ArrayError, CifarError, Element, Values, cifar_examples};
use proptest::prelude::*;

#[test]
fn idx_bytes_plain_and_gzip() {
    let file = idx(0x08, &[2, 1, 3], &[1, 2, 3, 4, 5, 6]);
    for content in [file.clone(), gzip(&file)] {
        let array = Array::read(content.as_slice()).unwrap();
        assert_eq!(array.axes.0, [2, 1, 3]);
        assert_eq!(array.element(), Element::U8);
        let values = array.into_values().unwrap();
        assert_eq!(values, Values::Bytes(vec![1, 2, 3, 4, 5, 6]));
    }
}

#[test]
fn every_idx_type_is_big_endian() {
    let cases: [(u8, &[u8], f32); 5] = [
        (0x09, &[0xff], -1.0),
        (0x0b, &[0x01, 0x02], 258.0),
        (0x0c, &[0xff, 0xff, 0xff, 0xfe], -2.0),
        (0x0d, &1.5_f32.to_be_bytes(), 1.5),
        (0x0e, &(-2.5_f64).to_be_bytes(), -2.5),
    ];
    for (element, raw, value) in cases {
        let array = Array::read(idx(element, &[1], raw).as_slice()).unwrap();
        assert_eq!(array.into_values().unwrap(), Values::Floats(vec![value]));
    }
}

#[test]
fn every_npy_type_in_both_orders() {
    let cases: [(&str, Vec<u8>); 11] = [
        ("b1", vec![1]),
        ("i1", vec![1]),
        ("u2", 1_u16.to_le_bytes().into()),
        ("i2", 1_i16.to_le_bytes().into()),
        ("u4", 1_u32.to_le_bytes().into()),
        ("i4", 1_i32.to_le_bytes().into()),
        ("u8", 1_u64.to_le_bytes().into()),
        ("i8", 1_i64.to_le_bytes().into()),
        ("f4", 1_f32.to_le_bytes().into()),
        ("f8", 1_f64.to_le_bytes().into()),
        ("u1", vec![1]),
    ];
    for (name, mut raw) in cases {
        let one = |descr: String, raw: &[u8]| {
            let array = Array::read(npy(&descr, false, "(1,)", raw).as_slice()).unwrap();
            if !name.starts_with('f') {
                assert_eq!(array.labels().unwrap(), [1]);
            }
            match array.into_values().unwrap() {
                Values::Bytes(bytes) => assert_eq!((bytes, name), (vec![1], "u1")),
                Values::Floats(floats) => assert_eq!(floats, [1.0]),
            }
        };
        one(format!("<{name}"), &raw);
        raw.reverse();
        one(format!(">{name}"), &raw);
    }
}

#[test]
fn fortran_order_is_turned() {
    // numpy: asfortranarray(arange(6).reshape(3, 2)) is stored 0 2 4 1 3 5.
    let file = npy("|u1", true, "(3, 2)", &[0, 2, 4, 1, 3, 5]);
    let values = Array::read(file.as_slice()).unwrap().into_values().unwrap();
    assert_eq!(values, Values::Bytes(vec![0, 1, 2, 3, 4, 5]));
    // asfortranarray(arange(8).reshape(2, 2, 2)) is stored 0 4 2 6 1 5 3 7.
    let cube = npy(
        "<i2",
        true,
        "(2, 2, 2)",
        &[0, 0, 4, 0, 2, 0, 6, 0, 1, 0, 5, 0, 3, 0, 7, 0],
    );
    let values = Array::read(cube.as_slice()).unwrap().into_values().unwrap();
    assert_eq!(values, Values::Floats((0..8_u8).map(f32::from).collect()));
}

#[test]
fn labels_are_small_whole_numbers() {
    let read = |file: Vec<u8>| Array::read(file.as_slice()).unwrap().labels();
    assert_eq!(
        read(npy("<i4", false, "(2, 1)", &[1, 0, 0, 0, 2, 0, 0, 0])).unwrap(),
        [1, 2]
    );
    let negative = read(npy("|i1", false, "(2,)", &[0, 0xff])).unwrap_err();
    assert!(matches!(
        negative,
        ArrayError::Label {
            label: -1,
            position: 1
        }
    ));
    let huge = read(npy("<u8", false, "(1,)", &[0xff; 8])).unwrap_err();
    assert!(huge.to_string().contains("18446744073709551615"), "{huge}");
    let floats = read(npy("<f4", false, "(1,)", &le_floats(&[1.0]))).unwrap_err();
    assert!(matches!(floats, ArrayError::FloatLabels));
    let square = read(npy("|u1", false, "(1, 2)", &[0, 1])).unwrap_err();
    assert!(square.to_string().contains("(1, 2)"), "{square}");
}

#[test]
fn what_is_not_finite_is_refused_with_its_place() {
    for value in [f32::NAN, f32::INFINITY] {
        let file = npy("<f4", false, "(3,)", &le_floats(&[0.0, 1.0, value]));
        let error = Array::read(file.as_slice()).unwrap().into_values();
        let message = error.unwrap_err().to_string();
        assert!(message.contains("position 2"), "{message}");
    }
    let message = |order: &str, bytes: &[u8]| {
        let file = npy(order, false, "(1,)", bytes);
        let error = Array::read(file.as_slice()).unwrap().into_values();
        error.unwrap_err().to_string()
    };
    assert!(message("<f8", &f64::INFINITY.to_le_bytes()).contains("holds inf at position 0"));
    // Finite, but not as a float of 32 bits.
    for said in [
        message("<f8", &(-1e300_f64).to_le_bytes()),
        message(">f8", &(-1e300_f64).to_be_bytes()),
    ] {
        assert!(said.contains("holds -1e300 at position 0"), "{said}");
        assert!(said.contains("a 32-bit float can hold"), "{said}");
    }
}

#[test]
fn a_lying_header_takes_no_memory() {
    let terabytes = idx(0x08, &[u32::MAX, 300], &[0; 10]);
    let error = Array::read(terabytes.as_slice()).unwrap_err();
    assert!(
        matches!(error, ArrayError::Truncated { found: 10, .. }),
        "{error}"
    );
    let impossible = idx(0x0e, &[u32::MAX, u32::MAX, u32::MAX], &[0; 10]);
    let error = Array::read(impossible.as_slice()).unwrap_err();
    assert!(matches!(error, ArrayError::TooLarge(_)), "{error}");
    let wide = npy("<f8", true, "(4611686018427387904, 0)", &[]);
    assert!(Array::read(wide.as_slice()).is_ok());
    let mut header = b"\x93NUMPY\x02\x00".to_vec();
    header.extend(u32::MAX.to_le_bytes());
    assert!(matches!(
        Array::read(header.as_slice()),
        Err(ArrayError::Header(_))
    ));
}

#[test]
fn truncated_overlong_and_foreign_files_say_so() {
    let file = npy("|u1", false, "(4,)", &[1, 2, 3, 4]);
    let short = Array::read(&file[..file.len() - 1]).unwrap_err();
    assert!(
        matches!(
            short,
            ArrayError::Truncated {
                expected: 4,
                found: 3
            }
        ),
        "{short}"
    );
    let packed = gzip(&idx(0x08, &[100], &[7; 100]));
    assert!(Array::read(&packed[..packed.len() - 9]).is_err());
    let long = Array::read([file.as_slice(), &[5]].concat().as_slice()).unwrap_err();
    assert!(
        matches!(long, ArrayError::Overlong { expected: 4 }),
        "{long}"
    );
    for foreign in [&b""[..], b"\x00", b"PK\x03\x04", b"a,b\n1,2\n"] {
        let error = Array::read(foreign).unwrap_err();
        assert!(matches!(error, ArrayError::UnknownFormat), "{error}");
    }
}

#[test]
fn cifar_planes_become_channels_last() {
    let mut record = vec![7];
    for plane in [10_u8, 20, 30] {
        record.extend((0..1024_u32).map(|at| plane + u8::from(at == 1023)));
    }
    let examples = cifar_examples(&record).unwrap();
    assert_eq!(examples.labels, [7]);
    let Values::Bytes(pixels) = examples.values else {
        panic!("CIFAR-10 has bytes");
    };
    assert_eq!(pixels.len(), 3072);
    assert_eq!(pixels[..6], [10, 20, 30, 10, 20, 30]);
    assert_eq!(pixels[3069..], [11, 21, 31]);
    assert_eq!(cifar_examples(&record[..3072]), Err(CifarError::Size(3072)));
    record[0] = 10;
    let wrong = Err(CifarError::Label {
        record: 0,
        label: 10,
    });
    assert_eq!(cifar_examples(&record), wrong);
}

proptest! {
    #[test]
    fn idx_and_npy_read_back(values in proptest::collection::vec(any::<f32>(), 0..64)) {
        let finite = values.iter().all(|value| value.is_finite());
        let big: Vec<u8> = values.iter().flat_map(|v| v.to_be_bytes()).collect();
        let files = [
            idx(0x0d, &[values.len() as u32], &big),
            npy("<f4", false, &format!("({},)", values.len()), &le_floats(&values)),
        ];
        for file in files {
            match Array::read(file.as_slice()).unwrap().into_values() {
                Ok(found) => prop_assert_eq!(found, Values::Floats(values.clone())),
                Err(_) => prop_assert!(!finite),
            }
        }
    }

    #[test]
    fn any_bytes_are_read_or_refused(mut bytes in proptest::collection::vec(any::<u8>(), 0..300), start in 0..5_usize) {
        let starts = [&b""[..], b"\0\0\x08", b"\0\0\x0d\x02", b"\x93NUMPY\x01\0", b"\x1f\x8b\x08\0"];
        bytes.splice(0..0, starts[start].iter().copied());
        if let Ok(array) = Array::read(bytes.as_slice()) {
            let _ = array.labels();
            let _ = array.into_values();
        }
        let _ = cifar_examples(&bytes);
    }

    #[test]
    fn a_flipped_bit_is_read_or_refused(position in any::<prop::sample::Index>(), bit in 0..8_u32, which in 0..4_usize) {
        let plain = idx(0x08, &[3, 2, 2], &[9; 12]);
        let header = npy("<f4", true, "(3, 2)", &le_floats(&[0.5; 6]));
        let files = [gzip(&plain), plain, gzip(&header), header];
        let mut file = files[which].clone();
        let at = position.index(file.len());
        file[at] ^= 1 << bit;
        if let Ok(array) = Array::read(file.as_slice()) {
            let _ = array.labels();
            let _ = array.into_values();
        }
    }

    #[test]
    fn a_cut_file_is_refused(keep in any::<prop::sample::Index>()) {
        let plain = idx(0x08, &[3, 2, 2], &[9; 12]);
        for file in [gzip(&plain), plain, npy("|u1", false, "(5,)", &[1; 5])] {
            let cut = keep.index(file.len());
            prop_assert!(Array::read(&file[..cut]).is_err());
        }
    }
}
