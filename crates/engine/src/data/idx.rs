//! IDX, the format of MNIST: two zero bytes, one for the type of the values, one
//! for the number of axes, four big-endian bytes per axis for its length, and
//! the values, big-endian, the last axis varying fastest.

use super::array::{Array, ArrayError, ByteOrder, Element};
use std::io::Read;

pub(super) fn read_after_magic(
    element: u8,
    axes: u8,
    mut reader: impl Read,
) -> Result<Array, ArrayError> {
    let element = match element {
        0x08 => Element::U8,
        0x09 => Element::I8,
        0x0b => Element::I16,
        0x0c => Element::I32,
        0x0d => Element::F32,
        0x0e => Element::F64,
        other => {
            let what = format!("no IDX type has the number {other:#04x}");
            return Err(ArrayError::Header(what));
        }
    };
    let mut lengths = Vec::new();
    let header = u64::from(axes) * 4;
    reader.by_ref().take(header).read_to_end(&mut lengths)?;
    if lengths.len() as u64 != header {
        let what = format!("it ends before the lengths of its {axes} axes");
        return Err(ArrayError::Header(what));
    }
    let lengths = lengths.as_chunks::<4>().0.iter();
    let axes = lengths.map(|raw| u32::from_be_bytes(*raw) as usize);
    Array::read_values(axes.collect(), element, ByteOrder::BigEndian, reader)
}
