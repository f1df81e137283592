//! What can go wrong with a ledger, always with the file and the remedy.

use spec::RunId;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// Why the ledger cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum LedgerError {
    /// The folder is not one that a study was run in.
    #[error(
        "{}: no ledger here (there is no `records` folder); name a folder that `noisescale run` wrote",
        .dir.display()
    )]
    NotALedger {
        /// The folder.
        dir: PathBuf,
    },
    /// A file or folder cannot be used.
    #[error("{}: cannot {action}: {source}; {}", .path.display(), remedy(.source))]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// What was tried.
        action: Action,
        /// The system's reason.
        source: io::Error,
    },
    /// A record could not be written. All earlier ones are safe.
    #[error(
        "{}: cannot append the record of run {run}: {source}; everything recorded so far is safe: \
         {}, then give the same command again to go on",
        .path.display(), remedy(.source)
    )]
    Append {
        /// The records file.
        path: PathBuf,
        /// The run whose record is not in the ledger.
        run: RunId,
        /// The system's reason.
        source: io::Error,
    },
    /// What this process records to is no longer in the folder.
    #[error(
        "{}: this file, to which records were written, is no longer there: the folder was moved or removed; \
         give the same command again where the folder is now, or with --out for a new one",
        .path.display()
    )]
    Gone {
        /// The records file.
        path: PathBuf,
    },
    /// A record would not read back as it was given.
    #[error(
        "the record of run {run} cannot be kept as JSON ({reason}); \
         accuracies and losses must be finite numbers: leave out evaluations that are not"
    )]
    Unrepresentable {
        /// The run.
        run: RunId,
        /// What is lost.
        reason: String,
    },
    /// A file was written by a later release.
    #[error(
        "{}:{line}: written in ledger format {found}, and this noisescale knows formats up to {known}; \
         use the newer noisescale that wrote it",
        .path.display()
    )]
    NewerFormat {
        /// The records file.
        path: PathBuf,
        /// The line of its header, from 1.
        line: u64,
        /// The format it names.
        found: u32,
        /// The latest format that can be read.
        known: u32,
    },
    /// A checkpoint's name would not be a plain file name.
    #[error("`{name}` cannot name a checkpoint; use letters, digits, `-` and `_`")]
    CheckpointName {
        /// The name.
        name: String,
    },
}

impl LedgerError {
    /// For `map_err`: the failed `action` on `path`.
    pub(crate) fn io(path: &Path, action: Action) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_path_buf();
        move |source| Self::Io {
            path,
            action,
            source,
        }
    }
}

/// What was tried when the system refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Make a folder.
    CreateFolder,
    /// List a folder.
    ListFolder,
    /// Make a file.
    CreateFile,
    /// Read a file.
    Read,
    /// Write a file.
    Write,
    /// Remove a file.
    Remove,
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::CreateFolder => "make this folder",
            Self::ListFolder => "list this folder",
            Self::CreateFile => "make this file",
            Self::Read => "read this file",
            Self::Write => "write this file",
            Self::Remove => "remove this file",
        })
    }
}

/// What the user can do about a refusal of the system.
fn remedy(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::StorageFull => "free space on this disk",
        io::ErrorKind::QuotaExceeded => "free space within your quota",
        io::ErrorKind::FileTooLarge => "raise the limit on file sizes (`ulimit -f`)",
        io::ErrorKind::ReadOnlyFilesystem => "mount it writable or choose another folder",
        io::ErrorKind::PermissionDenied => "give yourself the permission or choose another folder",
        io::ErrorKind::NotFound => "check that its folder is still there",
        io::ErrorKind::NotADirectory | io::ErrorKind::AlreadyExists => {
            "move away what is in its place"
        }
        _ => "check the disk",
    }
}
