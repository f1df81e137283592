//! A folder for files on their way into the data folder.
//!
//! A file is written here, checked, and then renamed to its place, so that the
//! place has the whole file or none. The folder goes when it is dropped; what a
//! killed program left is removed a day later, when the next one starts.

use super::DataError;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

const PREFIX: &str = ".incoming-";

const ABANDONED_AFTER: Duration = Duration::from_secs(24 * 60 * 60);

/// A folder that is removed with all it holds when it is dropped.
#[derive(Debug)]
pub struct Incoming {
    path: PathBuf,
}

impl Incoming {
    /// Makes a new folder inside `root`, which is made where it is not there.
    pub(super) fn new(root: &Path) -> Result<Self, DataError> {
        let unwritable = |path: &Path, reason| DataError::Unwritable {
            path: path.into(),
            reason,
        };
        fs::create_dir_all(root).map_err(|reason| unwritable(root, reason))?;
        remove_abandoned(root);
        let process = std::process::id();
        for attempt in 0_u32.. {
            let path = root.join(format!("{PREFIX}{process}-{attempt}"));
            match fs::create_dir(&path) {
                Ok(()) => return Ok(Self { path }),
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
                Err(reason) => return Err(unwritable(&path, reason)),
            }
        }
        unreachable!("there are fewer folders than numbers")
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A file in the folder that will be renamed.
    pub(super) fn stage(&self, name: &str) -> Result<Staged, DataError> {
        let path = self.path.join(format!("{name}.partial"));
        match File::create(&path) {
            Ok(file) => Ok(Staged { path, file }),
            Err(reason) => Err(DataError::Unwritable { path, reason }),
        }
    }
}

impl Drop for Incoming {
    fn drop(&mut self) {
        // Nobody is left to tell; the next program tries again.
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// A file that is not in its place yet.
#[derive(Debug)]
pub(super) struct Staged {
    path: PathBuf,
    file: File,
}

impl Staged {
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), DataError> {
        self.file
            .write_all(bytes)
            .map_err(|reason| self.unwritable(reason))
    }

    /// Renames the file to its place, once the disk has it.
    pub fn settle(self, place: &Path) -> Result<(), DataError> {
        let synced = self.file.sync_all();
        synced
            .and_then(|()| fs::rename(&self.path, place))
            .map_err(|reason| DataError::Unwritable {
                path: place.into(),
                reason,
            })
    }

    fn unwritable(&self, reason: std::io::Error) -> DataError {
        DataError::Unwritable {
            path: self.path.clone(),
            reason,
        }
    }
}

/// Removes what killed programs left. What cannot be removed does no harm.
fn remove_abandoned(root: &Path) {
    let Ok(entries) = fs::read_dir(root) else {
        return;
    };
    for entry in entries.flatten() {
        let ours = entry.file_name().to_string_lossy().starts_with(PREFIX);
        let age = entry
            .metadata()
            .and_then(|found| found.modified())
            .ok()
            .and_then(|time| time.elapsed().ok());
        if ours && age.is_some_and(|age| age > ABANDONED_AFTER) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}
