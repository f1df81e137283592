//! The UCI handwritten digits: 1,797 images of 8×8 pixels from 0 to 16, in the
//! program itself, so that the first study needs no download.
//!
//! "Optical Recognition of Handwritten Digits" by E. Alpaydin and C. Kaynak, UCI
//! Machine Learning Repository, 1998, doi:10.24432/C50P49, licensed under
//! Creative Commons Attribution 4.0 International (CC BY 4.0). The images and
//! their order are those of scikit-learn's `load_digits`; they are unchanged
//! but for the packing, which `scripts/make_digits.py` does.

use super::{Dataset, Examples, Normalization, Values, split_in_order};
use flate2::read::GzDecoder;
use spec::DatasetName;
use std::io::Read;

/// Gzip of all pixels, (1797, 8, 8), followed by all labels, (1797).
const PACKED: &[u8] = include_bytes!("../../assets/digits.bin");

/// Bytes that the packed digits take in the program.
pub(super) const PACKED_BYTES: u64 = PACKED.len() as u64;

/// The largest pixel: how many of the 4×4 fine pixels under it are set.
const LARGEST: f32 = 16.0;

pub(super) fn load() -> Dataset {
    let name = DatasetName::Digits;
    let (shape, split) = (name.shape(), name.split());
    let examples = (split.train + split.validation + split.test) as usize;
    let mut pixels = Vec::with_capacity(examples * (shape.size() + 1));
    GzDecoder::new(PACKED)
        .read_to_end(&mut pixels)
        .expect("the embedded digits are a whole gzip file");
    let labels = pixels.split_off(examples * shape.size());
    let mut training = Examples {
        values: Values::Bytes(pixels),
        labels: labels.into_iter().map(u16::from).collect(),
    };
    let test = training.split_off(shape, (split.train + split.validation) as usize);
    let normalization = Normalization {
        offset: vec![LARGEST / 2.0],
        factor: vec![1.0 / LARGEST],
    };
    split_in_order(name, normalization, training, test)
}
