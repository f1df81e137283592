//! The binary form of CIFAR-10: records of one label byte and 3,072 pixel bytes,
//! the red plane first, then the green, then the blue, each 32 rows of 32.

use super::{Examples, Values};

const PLANE: usize = 32 * 32;
const CHANNELS: usize = 3;
const RECORD: usize = 1 + CHANNELS * PLANE;
const CLASSES: u8 = 10;

/// What is wrong with a file of records.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CifarError {
    /// A record is cut.
    #[error("{0} bytes are not a whole number of records of {RECORD}")]
    Size(usize),
    /// No such class.
    #[error("record {record} has the label {label}, where labels go from 0 to 9")]
    Label {
        /// Which, from 0.
        record: usize,
        /// Its label.
        label: u8,
    },
}

/// Reads a file of records, planes turned into channels last.
pub fn cifar_examples(file: &[u8]) -> Result<Examples, CifarError> {
    let (records, rest) = file.as_chunks::<RECORD>();
    if !rest.is_empty() {
        return Err(CifarError::Size(file.len()));
    }
    let mut pixels = vec![0; records.len() * (RECORD - 1)];
    let mut labels = Vec::with_capacity(records.len());
    let images = pixels.chunks_exact_mut(RECORD - 1);
    for (record, (content, image)) in records.iter().zip(images).enumerate() {
        let (label, planes) = (content[0], &content[1..]);
        if label >= CLASSES {
            return Err(CifarError::Label { record, label });
        }
        labels.push(u16::from(label));
        for (channel, plane) in planes.as_chunks::<PLANE>().0.iter().enumerate() {
            for (pixel, value) in image.as_chunks_mut::<CHANNELS>().0.iter_mut().zip(plane) {
                pixel[channel] = *value;
            }
        }
    }
    Ok(Examples {
        values: Values::Bytes(pixels),
        labels,
    })
}
