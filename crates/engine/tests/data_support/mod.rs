//! Small files in the formats that the loaders read, made byte by byte.

#![allow(dead_code, reason = "every test file uses some of it")]

use flate2::Compression;
use flate2::write::GzEncoder;
use std::io::Write;
use std::path::{Path, PathBuf};

/// An IDX file of the type `element`.
pub fn idx(element: u8, axes: &[u32], values: &[u8]) -> Vec<u8> {
    let mut file = vec![0, 0, element, axes.len() as u8];
    axes.iter().for_each(|n| file.extend(n.to_be_bytes()));
    file.extend(values);
    file
}

/// An NPY file of version 1, as NumPy writes it.
pub fn npy(descr: &str, fortran: bool, shape: &str, values: &[u8]) -> Vec<u8> {
    let order = if fortran { "True" } else { "False" };
    let mut header =
        format!("{{'descr': '{descr}', 'fortran_order': {order}, 'shape': {shape}, }}");
    while (10 + header.len() + 1) % 64 != 0 {
        header.push(' ');
    }
    header.push('\n');
    let mut file = b"\x93NUMPY\x01\x00".to_vec();
    file.extend((header.len() as u16).to_le_bytes());
    file.extend(header.as_bytes());
    file.extend(values);
    file
}

/// The bytes of floats as NPY has them.
pub fn le_floats(values: &[f32]) -> Vec<u8> {
    values
        .iter()
        .flat_map(|value| value.to_le_bytes())
        .collect()
}

/// An NPZ file of the given arrays, compressed as `savez_compressed` does or not.
pub fn npz(arrays: &[(&str, Vec<u8>)], compressed: bool) -> Vec<u8> {
    let method = if compressed {
        zip::CompressionMethod::Deflated
    } else {
        zip::CompressionMethod::Stored
    };
    let options = zip::write::SimpleFileOptions::default().compression_method(method);
    let mut archive = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    for (name, array) in arrays {
        archive.start_file(format!("{name}.npy"), options).unwrap();
        archive.write_all(array).unwrap();
    }
    archive.finish().unwrap().into_inner()
}

pub fn gzip(content: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(content).unwrap();
    encoder.finish().unwrap()
}

/// A tar file, gzipped, of the given files.
pub fn tar_gz(files: &[(&str, &[u8])]) -> Vec<u8> {
    let mut archive = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
    for (name, content) in files {
        let mut header = tar::Header::new_ustar();
        header.set_size(content.len() as u64);
        header.set_mode(0o644);
        archive.append_data(&mut header, name, *content).unwrap();
    }
    archive.into_inner().unwrap().finish().unwrap()
}

pub fn write(folder: &Path, name: &str, content: &[u8]) -> PathBuf {
    let path = folder.join(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(&path, content).unwrap();
    path
}

/// Whether a message is one sentence: no line breaks, and no full stop but at its end.
pub fn is_one_sentence(message: &str) -> bool {
    !message.contains('\n') && !message.trim_end_matches('.').contains(". ")
}
