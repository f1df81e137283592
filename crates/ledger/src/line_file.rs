//! An append-only file of lines with one writer.
//!
//! Invariant, on which readers rely: a byte that has a newline after it never
//! changes. What a failed append leaves behind is an unfinished line at the
//! end, and only that is ever cut off.

use crate::disk::sync_folder;
use crate::error::{Action, LedgerError};
use crate::process::Process;
use serde::{Deserialize, Serialize};
use std::collections::HashSet;
use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// The format of the ledger that this release writes, and the latest it reads.
pub const FORMAT: u32 = 1;

/// How the names of the ledger's files end.
pub(crate) const SUFFIX: &str = ".jsonl";

/// The first line of every file.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Header {
    #[serde(rename = "noisescale_ledger")]
    pub format: u32,
    #[serde(default)]
    pub writer: String,
    #[serde(default)]
    pub host: String,
    #[serde(default)]
    pub pid: u32,
    #[serde(default)]
    pub version: String,
}

impl Header {
    fn of(writer: &str) -> Self {
        let process = Process::this();
        Self {
            format: FORMAT,
            writer: writer.into(),
            host: process.host.clone(),
            pid: process.pid,
            version: env!("CARGO_PKG_VERSION").into(),
        }
    }
}

/// The open file.
#[derive(Debug)]
pub(crate) struct LineFile {
    file: File,
    path: PathBuf,
    name: String,
    /// Where the last whole line ends.
    end: u64,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// It ends with a whole, synced line.
    Sound,
    /// It may not: nothing more goes into it.
    Abandoned,
}

impl LineFile {
    /// Makes a file of this process and writes its header. It has the name of
    /// the process, with a number where the process has made one before.
    pub fn create(folder: &Path) -> Result<Self, LedgerError> {
        Self::create_unlike(folder, &HashSet::new())
    }

    /// The same, with none of these names: who has read a file that was removed since goes on
    /// where it ended, and would not see the beginning of another of its name.
    pub fn create_unlike(folder: &Path, used: &HashSet<String>) -> Result<Self, LedgerError> {
        let writer = &Process::this().writer;
        let mut number = 1_u32;
        loop {
            let name = match number {
                1 => writer.clone(),
                _ => format!("{writer}-{number}"),
            };
            if used.contains(&name) {
                number += 1;
                continue;
            }
            let path = folder.join(format!("{name}{SUFFIX}"));
            match Self::create_at(&path, name) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => number += 1,
                made => return made.map_err(LedgerError::io(&path, Action::CreateFile)),
            }
        }
    }

    fn create_at(path: &Path, name: String) -> io::Result<Self> {
        let file = OpenOptions::new()
            .append(true)
            .create_new(true)
            .open(path)?;
        let mut made = Self::over(file, path.into(), name);
        let header = Header::of(&made.name);
        let begun = made
            .append(&header)
            .and_then(|()| path.parent().map_or(Ok(()), sync_folder));
        if begun.is_err() {
            // Nobody has seen it; best effort, for an empty file does no harm.
            let _ = std::fs::remove_file(path);
        }
        begun.map(|()| made)
    }

    fn over(file: File, path: PathBuf, name: String) -> Self {
        Self {
            file,
            path,
            name,
            end: 0,
            state: State::Sound,
        }
    }

    /// Appends one line in one write and syncs it. Once this has returned the
    /// line survives power loss.
    ///
    /// After an error the line does not count, though a reader may still find
    /// it; see [`is_sound`](Self::is_sound) for whether to go on in this file.
    pub fn append(&mut self, content: &impl Serialize) -> io::Result<()> {
        let mut line = serde_json::to_vec(content)?;
        line.push(b'\n');
        if let Err(error) = self.file.write_all(&line) {
            self.cut_unfinished_line();
            return Err(error);
        }
        if let Err(error) = self.file.sync_data() {
            // The whole line may be visible, so it must not be cut; and what
            // the system still holds of it is unknown, so nothing may follow.
            self.state = State::Abandoned;
            return Err(error);
        }
        self.end += line.len() as u64;
        Ok(())
    }

    fn cut_unfinished_line(&mut self) {
        let cut = self.file.set_len(self.end);
        if cut.and_then(|()| self.file.sync_data()).is_err() {
            self.state = State::Abandoned;
        }
    }

    /// Whether more can be appended; if not, a new file is due.
    pub fn is_sound(&self) -> bool {
        self.state == State::Sound
    }

    /// Whether its path still leads to it: a folder that was moved or removed takes the file along, and
    /// what is appended then is written where nobody reads it. Where that cannot be asked it is believed.
    pub fn is_in_place(&self) -> bool {
        match std::fs::metadata(&self.path) {
            Err(error) => error.kind() != io::ErrorKind::NotFound,
            Ok(found) => self.file.metadata().map_or(true, |own| same(&own, &found)),
        }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The file's name without its suffix.
    pub fn name(&self) -> &str {
        &self.name
    }
}

#[cfg(unix)]
fn same(one: &Metadata, other: &Metadata) -> bool {
    use std::os::unix::fs::MetadataExt;
    (one.dev(), one.ino()) == (other.dev(), other.ino())
}

#[cfg(not(unix))]
fn same(_: &Metadata, _: &Metadata) -> bool {
    true
}

#[cfg(all(test, target_os = "linux"))]
impl LineFile {
    /// A file that refuses every write with "no space left".
    pub fn full() -> io::Result<Self> {
        let file = OpenOptions::new().append(true).open("/dev/full")?;
        Ok(Self::over(file, "/dev/full".into(), "full".into()))
    }
}
