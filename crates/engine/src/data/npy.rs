//! NPY, the format of `numpy.save`: a magic word, a version, and a header that
//! is the text of a Python dictionary with the type of the values (`descr`), their
//! order (`fortran_order`) and the lengths of the axes (`shape`).

use super::array::{Array, ArrayError, ByteOrder, Element};
use std::io::Read;

/// Real headers have about 100 bytes; a longer one is a damaged length.
const LONGEST_HEADER: u32 = 1 << 16;

/// Reads on after the first four bytes, `\x93NUM`.
pub(super) fn read_after_magic(mut reader: impl Read) -> Result<Array, ArrayError> {
    let header = Header::parse(&read_header(&mut reader)?)?;
    let (element, order) = element(&header.descr)?;
    let axes = header.shape;
    if !header.fortran_order || axes.len() < 2 {
        return Array::read_values(axes, element, order, reader);
    }
    let stored = Array::read_values(axes, element, order, reader)?;
    Ok(stored.with_last_axis_fastest())
}

fn read_header(reader: &mut impl Read) -> Result<String, ArrayError> {
    let damaged = |what: &str| ArrayError::Header(what.into());
    let mut start = Vec::new();
    reader.by_ref().take(4).read_to_end(&mut start)?;
    let [b'P', b'Y', version, _minor] = start[..] else {
        return Err(damaged("it is not that of an NPY file"));
    };
    let width = match version {
        1 => 2,
        2 | 3 => 4,
        _ => return Err(damaged(&format!("NPY version {version} is not known"))),
    };
    let mut length = Vec::new();
    reader.by_ref().take(width).read_to_end(&mut length)?;
    let length = match length[..] {
        [a, b] => u32::from(u16::from_le_bytes([a, b])),
        [a, b, c, d] => u32::from_le_bytes([a, b, c, d]),
        _ => return Err(damaged("it ends too early")),
    };
    if length > LONGEST_HEADER {
        return Err(damaged(&format!("it claims to be {length} bytes long")));
    }
    let mut text = Vec::new();
    reader.by_ref().take(length.into()).read_to_end(&mut text)?;
    if text.len() != length as usize {
        return Err(damaged("it ends too early"));
    }
    String::from_utf8(text).map_err(|_| damaged("it is not text"))
}

#[derive(Debug, PartialEq, Eq)]
struct Header {
    descr: String,
    fortran_order: bool,
    shape: Vec<usize>,
}

impl Header {
    fn parse(text: &str) -> Result<Self, ArrayError> {
        let missing = |key: &str| ArrayError::Header(format!("it has no readable `{key}`"));
        let descr = value_of(text, "descr").ok_or_else(|| missing("descr"))?;
        let order = value_of(text, "fortran_order").ok_or_else(|| missing("fortran_order"))?;
        let shape = value_of(text, "shape").ok_or_else(|| missing("shape"))?;
        let fortran_order = match order {
            _ if order.starts_with("True") => true,
            _ if order.starts_with("False") => false,
            _ => return Err(missing("fortran_order")),
        };
        Ok(Self {
            descr: quoted(descr).ok_or_else(|| ArrayError::Element("several fields".into()))?,
            fortran_order,
            shape: tuple(shape).ok_or_else(|| missing("shape"))?,
        })
    }
}

/// The text after `'key':`.
fn value_of<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    let (_, rest) = text.split_once(&format!("'{key}':"))?;
    Some(rest.trim_start())
}

/// The string literal that a text starts with.
fn quoted(text: &str) -> Option<String> {
    let mark = text.chars().next().filter(|c| matches!(c, '\'' | '"'))?;
    let (inside, _) = text[1..].split_once(mark)?;
    Some(inside.into())
}

/// The tuple of integers that a text starts with.
fn tuple(text: &str) -> Option<Vec<usize>> {
    let (inside, _) = text.strip_prefix('(')?.split_once(')')?;
    let lengths = inside.split(',').map(str::trim);
    lengths
        .filter(|length| !length.is_empty())
        // Python 2 wrote long integers with an L.
        .map(|length| length.trim_end_matches('L').parse().ok())
        .collect()
}

fn element(descr: &str) -> Result<(Element, ByteOrder), ArrayError> {
    let unknown = || ArrayError::Element(format!("`{descr}`"));
    let order = match descr.chars().next() {
        Some('<' | '|') => ByteOrder::LittleEndian,
        Some('>') => ByteOrder::BigEndian,
        _ => return Err(unknown()),
    };
    let element = match &descr[1..] {
        "b1" => Element::Bool,
        "u1" => Element::U8,
        "i1" => Element::I8,
        "u2" => Element::U16,
        "i2" => Element::I16,
        "u4" => Element::U32,
        "i4" => Element::I32,
        "u8" => Element::U64,
        "i8" => Element::I64,
        "f4" => Element::F32,
        "f8" => Element::F64,
        _ => return Err(unknown()),
    };
    Ok((element, order))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_as_numpy_writes_them() {
        let text = "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }";
        let header = Header::parse(text).unwrap();
        assert_eq!(header.descr, "<f4");
        assert!(!header.fortran_order);
        assert_eq!(header.shape, [3, 4]);
        let flat = "{'descr': '|u1', 'fortran_order': True, 'shape': (7,), }";
        assert_eq!(Header::parse(flat).unwrap().shape, [7]);
        let old = "{'descr': '|u1', 'fortran_order': True, 'shape': (7L,), }";
        assert_eq!(Header::parse(old).unwrap().shape, [7]);
    }

    #[test]
    fn types_that_cannot_be_examples_are_named() {
        for descr in ["|O", "<U8", "<c8", "<f2", "", "é"] {
            let message = element(descr).unwrap_err().to_string();
            assert!(message.contains(descr), "{message}");
        }
        let fields = "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (3,), }";
        let message = Header::parse(fields).unwrap_err().to_string();
        assert!(message.contains("several fields"), "{message}");
    }
}
