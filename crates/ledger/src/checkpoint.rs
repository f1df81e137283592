//! Checkpoints: where a long cohort stood, so that a killed one goes on from
//! there. What is in them is the engine's business; here they are bytes that are
//! either whole or not there.
//!
//! Losing one costs time and nothing else. A process that comes back from the
//! dead may put an older one in place of a newer one; that too costs only time.

use crate::disk::{create_folder, is_temporary, remove, replace, stems};
use crate::error::{Action, LedgerError};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

const SUFFIX: &str = ".safetensors";

/// Age at which a half-written checkpoint is certainly nobody's any more.
pub const LEFTOVER_AGE: Duration = Duration::from_secs(3600);

/// The checkpoints of a study, by the id of a run or a cohort.
#[derive(Debug, Clone)]
pub struct Checkpoints {
    folder: PathBuf,
}

impl Checkpoints {
    pub(crate) fn new(dir: &Path) -> Self {
        Self {
            folder: dir.join("checkpoints"),
        }
    }

    /// Puts a checkpoint in place of the last one. If it fails the last one stays.
    pub fn save(&self, id: &str, content: &[u8]) -> Result<(), LedgerError> {
        let path = self.path(id)?;
        create_folder(&self.folder)?;
        replace(&path, content)
    }

    /// The last checkpoint, if there is one.
    pub fn load(&self, id: &str) -> Result<Option<Vec<u8>>, LedgerError> {
        let path = self.path(id)?;
        // On NFS a file that another machine replaces while it is read here
        // fails with a stale handle; the new one can then be read.
        let content = match fs::read(&path) {
            Err(error) if error.kind() == io::ErrorKind::StaleNetworkFileHandle => fs::read(&path),
            content => content,
        };
        match content {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            content => content
                .map(Some)
                .map_err(LedgerError::io(&path, Action::Read)),
        }
    }

    /// Removes a checkpoint, if there is one.
    pub fn delete(&self, id: &str) -> Result<(), LedgerError> {
        remove(&self.path(id)?)
    }

    /// The ids of all checkpoints, sorted.
    pub fn ids(&self) -> Result<Vec<String>, LedgerError> {
        stems(&self.folder, SUFFIX)
    }

    /// Removes what killed processes left half-written at least
    /// [`LEFTOVER_AGE`] ago, and says how many files that were. One that stays
    /// is an error, after the others are gone.
    pub fn sweep(&self, now: SystemTime) -> Result<usize, LedgerError> {
        let leftovers = self.leftovers(now)?;
        let (swept, stayed): (Vec<_>, Vec<_>) = leftovers
            .iter()
            .map(|leftover| remove(leftover))
            .partition(Result::is_ok);
        stayed.into_iter().collect::<Result<(), _>>()?;
        Ok(swept.len())
    }

    fn leftovers(&self, now: SystemTime) -> Result<Vec<PathBuf>, LedgerError> {
        let refused = || LedgerError::io(&self.folder, Action::ListFolder);
        let entries = match fs::read_dir(&self.folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(refused())?,
        };
        let mut leftovers = Vec::new();
        for entry in entries {
            let entry = entry.map_err(refused())?;
            // Gone meanwhile, or of unknown age: not ours to sweep.
            let modified = entry.metadata().and_then(|data| data.modified());
            let age = modified.ok().and_then(|at| now.duration_since(at).ok());
            if is_temporary(&entry.file_name()) && age.is_some_and(|age| age >= LEFTOVER_AGE) {
                leftovers.push(entry.path());
            }
        }
        Ok(leftovers)
    }

    fn path(&self, id: &str) -> Result<PathBuf, LedgerError> {
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        if !id.is_empty() && id.len() <= 100 && id.chars().all(plain) {
            Ok(self.folder.join(format!("{id}{SUFFIX}")))
        } else {
            Err(LedgerError::CheckpointName { name: id.into() })
        }
    }
}
