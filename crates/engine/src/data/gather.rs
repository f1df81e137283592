//! Finds official files by name in a folder, an archive or a file, and checks
//! each by size and checksum while it is read.
//!
//! Loading, importing and listing differ only in what they keep of the content.
//! A name can occur more than once (MNIST and Fashion-MNIST use the same
//! names, and other tools keep the two side by side): the first file with the
//! right content is taken.

use super::array::decompressed;
use super::error::{DataError, Flaw};
use super::official::{Download, OfficialFile};
use md5::{Digest, Md5};
use std::fs::{self, File};
use std::io::{self, BufReader, Read, Seek};
use std::path::{Path, PathBuf};

/// Folders below the one that was named.
const DEEPEST: usize = 4;

/// What a reader of official files makes of their content.
pub(super) trait Keep {
    fn write(&mut self, bytes: &[u8]) -> Result<(), DataError>;
}

/// Keeps the content in memory.
impl Keep for Vec<u8> {
    fn write(&mut self, bytes: &[u8]) -> Result<(), DataError> {
        self.extend_from_slice(bytes);
        Ok(())
    }
}

/// Keeps nothing: only the check counts.
impl Keep for () {
    fn write(&mut self, _: &[u8]) -> Result<(), DataError> {
        Ok(())
    }
}

/// A file with the name of an official file and other content, or an archive
/// that cannot be read to its end.
#[derive(Debug)]
pub(super) struct Rejected {
    /// None for an archive: any file might have been in it.
    file: Option<OfficialFile>,
    /// The file, or the archive followed by the file in it.
    pub path: PathBuf,
    pub flaw: Flaw,
}

/// What was found.
pub(super) struct Gathered<K> {
    /// One for each official file, in their order.
    pub slots: Vec<Slot<K>>,
    pub rejected: Vec<Rejected>,
}

/// The place of one official file.
pub(super) struct Slot<K> {
    pub file: OfficialFile,
    pub kept: Option<K>,
}

impl<K> Gathered<K> {
    /// What an empty folder holds.
    pub fn nothing(downloads: &[Download]) -> Self {
        let files = downloads.iter().flat_map(|download| download.holds);
        Self {
            slots: files
                .map(|file| Slot {
                    file: *file,
                    kept: None,
                })
                .collect(),
            rejected: Vec::new(),
        }
    }

    /// The first flaw that matters: of a file without a right copy elsewhere.
    pub fn take_flaw(&mut self) -> Option<Rejected> {
        let missing: Vec<OfficialFile> = self.missing().collect();
        let matters = |rejected: &Rejected| match &rejected.file {
            Some(file) => missing.contains(file),
            None => !missing.is_empty(),
        };
        let first = self.rejected.iter().position(matters)?;
        Some(self.rejected.swap_remove(first))
    }

    /// The files that were not found, flawed or not.
    pub fn missing(&self) -> impl Iterator<Item = OfficialFile> {
        let unmet = self.slots.iter().filter(|slot| slot.kept.is_none());
        unmet.map(|slot| slot.file)
    }
}

/// Reads every official file that can be found under `path`.
pub(super) fn gather<K: Keep>(
    path: &Path,
    downloads: &[Download],
    start: &mut dyn FnMut(OfficialFile) -> Result<K, DataError>,
) -> Result<Gathered<K>, DataError> {
    let mut search = Search {
        found: Gathered::nothing(downloads),
        start,
    };
    let found = fs::metadata(path).map_err(|reason| unreadable(path, reason))?;
    if found.is_dir() {
        search.folder(path, downloads)?;
    } else {
        search.named_file(path)?;
    }
    Ok(search.found)
}

struct Search<'a, K> {
    found: Gathered<K>,
    start: &'a mut dyn FnMut(OfficialFile) -> Result<K, DataError>,
}

impl<K: Keep> Search<'_, K> {
    /// Files that lie open are tried before archives.
    fn folder(&mut self, path: &Path, downloads: &[Download]) -> Result<(), DataError> {
        let mut files = Vec::new();
        list_files(path, DEEPEST, &mut files).map_err(|reason| unreadable(path, reason))?;
        for file in &files {
            if self.index_of(file).is_some() {
                let content = File::open(file).map_err(|reason| unreadable(file, reason))?;
                self.offer(file, BufReader::new(content))?;
            }
        }
        for file in &files {
            let name = file_name(file);
            let archive = downloads.iter().any(|download| download.is_archive(&name));
            if archive && self.found.missing().next().is_some() {
                self.named_file(file)?;
            }
        }
        Ok(())
    }

    /// A file by the name of an official one, or any archive.
    fn named_file(&mut self, path: &Path) -> Result<(), DataError> {
        let unread = |reason| unreadable(path, reason);
        let mut file = File::open(path).map_err(unread)?;
        let mut magic = Vec::new();
        file.by_ref()
            .take(2)
            .read_to_end(&mut magic)
            .map_err(unread)?;
        file.rewind().map_err(unread)?;
        if self.index_of(path).is_some() {
            return self.offer(path, BufReader::new(file));
        }
        match magic[..] {
            [b'P', b'K'] => self.zip(path, file),
            _ => self.tar(path, BufReader::new(file)),
        }
    }

    /// What is no archive from its start on holds nothing; what breaks off later is flawed.
    fn tar(&mut self, path: &Path, file: impl Read) -> Result<(), DataError> {
        let plain = decompressed(file).map_err(|reason| unreadable(path, reason))?;
        let mut archive = tar::Archive::new(plain);
        let Ok(entries) = archive.entries() else {
            return Ok(());
        };
        for (index, entry) in entries.enumerate() {
            match entry {
                Ok(entry) if entry.header().entry_type().is_file() => {
                    let inside = path.join(String::from_utf8_lossy(&entry.path_bytes()).as_ref());
                    self.offer(&inside, entry)?;
                }
                Ok(_) => {}
                Err(_) if index == 0 => break,
                Err(error) => {
                    self.break_off(path, &error);
                    break;
                }
            }
        }
        Ok(())
    }

    fn zip(&mut self, path: &Path, file: File) -> Result<(), DataError> {
        let mut archive = match zip::ZipArchive::new(BufReader::new(file)) {
            Ok(archive) => archive,
            Err(error) => {
                self.break_off(path, &error);
                return Ok(());
            }
        };
        for index in 0..archive.len() {
            match archive.by_index(index) {
                Ok(entry) if entry.is_file() => {
                    let inside = entry.name().map(|name| path.join(&*name));
                    self.offer(&inside.unwrap_or_else(|_| path.into()), entry)?;
                }
                Ok(_) => {}
                Err(error) => self.break_off(path, &error),
            }
        }
        Ok(())
    }

    fn break_off(&mut self, path: &Path, error: &dyn std::error::Error) {
        self.found.rejected.push(Rejected {
            file: None,
            path: path.into(),
            flaw: Flaw::Damaged(error.to_string()),
        });
    }

    /// Which official file, still to be found, a path would be by its name.
    fn index_of(&self, path: &Path) -> Option<usize> {
        let name = file_name(path);
        let mut slots = self.found.slots.iter();
        slots.position(|slot| slot.kept.is_none() && slot.file.bears_name(&name))
    }

    /// Reads a file if it is wanted, and keeps it if it is right.
    fn offer(&mut self, path: &Path, content: impl Read) -> Result<(), DataError> {
        let Some(index) = self.index_of(path) else {
            return Ok(());
        };
        let file = self.found.slots[index].file;
        let mut keep = (self.start)(file)?;
        match read_checked(file, content, &mut keep)? {
            None => self.found.slots[index].kept = Some(keep),
            Some(flaw) => self.found.rejected.push(Rejected {
                file: Some(file),
                path: path.into(),
                flaw,
            }),
        }
        Ok(())
    }
}

/// Reads a file to its end, but no further than its official size, and tells
/// what is wrong with it. Errors are those of keeping, not of reading.
fn read_checked<K: Keep>(
    file: OfficialFile,
    content: impl Read,
    keep: &mut K,
) -> Result<Option<Flaw>, DataError> {
    let damaged = |error: io::Error| Some(Flaw::Damaged(error.to_string()));
    let mut content = match decompressed(content) {
        Ok(content) => content.take(file.bytes + 1),
        Err(error) => return Ok(damaged(error)),
    };
    let mut buffer = vec![0; 1 << 16];
    let mut hash = Md5::new();
    let mut found = 0;
    loop {
        match content.read(&mut buffer) {
            Ok(0) => break,
            Ok(length) => {
                found += length as u64;
                hash.update(&buffer[..length]);
                keep.write(&buffer[..length])?;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => break,
            Err(error) => return Ok(damaged(error)),
        }
    }
    let expected = file.bytes;
    let md5 = hexadecimal(&hash.finalize());
    Ok(match found {
        _ if found > expected => Some(Flaw::Overlong { expected }),
        _ if found < expected => Some(Flaw::Truncated { expected, found }),
        _ if md5 != file.md5 => Some(Flaw::Checksum {
            expected: file.md5,
            found: md5,
        }),
        _ => None,
    })
}

/// Digits of a checksum.
pub fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// All files at most `depth` folders down, by name. Folders that are hidden, or
/// links, are left out.
fn list_files(folder: &Path, depth: usize, files: &mut Vec<PathBuf>) -> io::Result<()> {
    let mut entries: Vec<_> = fs::read_dir(folder)?.collect::<io::Result<_>>()?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let path = entry.path();
        let hidden = entry.file_name().to_string_lossy().starts_with('.');
        if !entry.file_type()?.is_dir() {
            files.push(path);
        } else if depth > 0 && !hidden {
            // A folder that one may not read holds nothing for us.
            let _ = list_files(&path, depth - 1, files);
        }
    }
    Ok(())
}

fn file_name(path: &Path) -> String {
    path.file_name()
        .map(|name| name.to_string_lossy().into_owned())
        .unwrap_or_default()
}

fn unreadable(path: &Path, reason: io::Error) -> DataError {
    DataError::Unreadable {
        path: path.into(),
        reason,
    }
}
