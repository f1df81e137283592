//! The few things done to a disk that need care: what must survive power loss
//! is synced, and a file that is replaced is replaced whole.

use crate::error::{Action, LedgerError};
use crate::process::{Process, random_bits};
use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// How names of files that are not yet whole end.
const TEMPORARY: &str = ".tmp";

/// Makes a folder and those above it, unless it is there.
pub(crate) fn create_folder(path: &Path) -> Result<(), LedgerError> {
    if path.is_dir() {
        return Ok(());
    }
    fs::create_dir_all(path)
        .and_then(|()| path.parent().map_or(Ok(()), sync_folder))
        .map_err(LedgerError::io(path, Action::CreateFolder))
}

/// Makes the entries of a folder survive power loss.
pub(crate) fn sync_folder(path: &Path) -> io::Result<()> {
    if !cfg!(unix) {
        return Ok(());
    }
    let path = if path.as_os_str().is_empty() {
        Path::new(".")
    } else {
        path
    };
    match File::open(path).and_then(|folder| folder.sync_all()) {
        // Some network filesystems do not sync folders, and do not need to.
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported
            ) =>
        {
            Ok(())
        }
        done => done,
    }
}

/// Writes a whole file: to a temporary name, synced, then renamed. Whoever reads
/// `path` finds the old content or the new one, never a part.
pub fn replace(path: &Path, content: &[u8]) -> Result<(), LedgerError> {
    let temporary = temporary_name(path);
    let written = write_new(&temporary, content)
        .and_then(|()| fs::rename(&temporary, path))
        .and_then(|()| path.parent().map_or(Ok(()), sync_folder));
    written.map_err(|source| {
        // Best effort: the failed write is what the user must hear about.
        let _ = fs::remove_file(&temporary);
        LedgerError::io(path, Action::Write)(source)
    })
}

fn write_new(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).open(path)?;
    file.write_all(content)?;
    file.sync_all()
}

fn temporary_name(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let (writer, random) = (&Process::this().writer, random_bits());
    path.with_file_name(format!(".{name}.{writer}.{random:08x}{TEMPORARY}"))
}

/// Whether a name is one that [`replace`] writes to first.
pub(crate) fn is_temporary(name: &OsStr) -> bool {
    let name = name.to_string_lossy();
    name.starts_with('.') && name.ends_with(TEMPORARY)
}

/// The file names in a folder that end in `suffix`, without it, sorted. A folder
/// that is not there holds none.
pub(crate) fn stems(folder: &Path, suffix: &str) -> Result<Vec<String>, LedgerError> {
    let refused = || LedgerError::io(folder, Action::ListFolder);
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(refused())?,
    };
    let mut stems = Vec::new();
    for entry in entries {
        let name = entry.map_err(refused())?.file_name();
        let stem = name.to_str().and_then(|name| name.strip_suffix(suffix));
        stems.extend(stem.filter(|stem| !stem.starts_with('.')).map(String::from));
    }
    stems.sort_unstable();
    Ok(stems)
}

/// Removes a file that may be gone already.
pub(crate) fn remove(path: &Path) -> Result<(), LedgerError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        done => done.map_err(LedgerError::io(path, Action::Remove)),
    }
}
