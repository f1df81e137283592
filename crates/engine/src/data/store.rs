//! The data folder: `$NOISESCALE_DATA`, or `noisescale` in the platform's cache
//! folder, with one folder per data set and its official files in it.

use super::digits;
use super::error::DataError;
use super::gather::{Gathered, Keep, Slot, gather};
use super::incoming::{Incoming, Staged};
use super::official::{self, Download, OfficialFile};
use serde::Serialize;
use spec::DatasetName;
use std::path::{Path, PathBuf};

/// The environment variable that names the data folder.
pub const DATA_VARIABLE: &str = "NOISESCALE_DATA";

/// The data folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Store {
    root: PathBuf,
}

/// What a data set's folder holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// In the program.
    Embedded,
    /// All there, and every checksum was right just now.
    Verified,
    /// Some files are not there.
    Incomplete,
    /// Some file is not what it should be.
    Flawed,
    /// Nothing is there.
    Missing,
}

/// What is there of a data set, and how to get what is not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Status {
    /// Which.
    pub dataset: DatasetName,
    /// How much of it is there.
    pub state: State,
    /// Its folder; none for what is in the program.
    pub folder: Option<PathBuf>,
    /// Bytes of the verified files, decompressed.
    pub bytes: u64,
    /// Bytes that a download of the rest takes.
    pub download_bytes: u64,
    /// What is wrong, where something is.
    pub problem: Option<String>,
    /// The command that mends it.
    pub command: Option<String>,
}

/// What an import did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Imported {
    /// Where the files are now.
    pub folder: PathBuf,
    /// The files that were written.
    pub written: Vec<&'static str>,
    /// The files that are still not there.
    pub missing: Vec<&'static str>,
}

/// An official file in memory, decompressed.
#[derive(Debug)]
pub(super) struct Content {
    /// Where it is, or would be if it were not in an archive.
    pub path: PathBuf,
    pub bytes: Vec<u8>,
}

/// Writes the content to a file on its way.
impl Keep for Staged {
    fn write(&mut self, bytes: &[u8]) -> Result<(), DataError> {
        Self::write(self, bytes)
    }
}

impl Store {
    /// The folder that the environment names; a folder `noisescale-data` in the
    /// current one where it names neither that nor a home.
    pub fn from_environment() -> Self {
        let named = named_folder(DATA_VARIABLE);
        let cached = || cache_folder().map(|cache| cache.join("noisescale"));
        let root = named.or_else(cached);
        Self::at(root.unwrap_or_else(|| PathBuf::from("noisescale-data")))
    }

    /// A data folder of one's own choice.
    pub fn at(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// The folder.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The folder of one data set.
    pub fn folder(&self, dataset: DatasetName) -> PathBuf {
        self.root.join(dataset.id())
    }

    /// A place for files on their way into the folder.
    pub fn incoming(&self) -> Result<Incoming, DataError> {
        Incoming::new(&self.root)
    }

    /// What is there of a data set. Reads all of it and computes every
    /// checksum, which takes a fraction of a second per 100 MB.
    pub fn status(&self, dataset: DatasetName) -> Status {
        if dataset == DatasetName::Digits {
            return Status {
                bytes: digits::PACKED_BYTES,
                ..Status::of(dataset, State::Embedded)
            };
        }
        let mut status = match self.gather(dataset, &mut |_| Ok(())) {
            Ok(found) => judge(dataset, found),
            Err(error) => Status {
                download_bytes: total_bytes(official::downloads(dataset)),
                problem: Some(error.to_string()),
                ..Status::of(dataset, State::Flawed)
            },
        };
        status.folder = Some(self.folder(dataset));
        if status.state != State::Verified {
            status.command = Some(format!("noisescale data fetch {dataset}"));
        }
        status
    }

    /// The downloads that hold what is not there or not right.
    pub fn to_download(&self, dataset: DatasetName) -> Vec<Download> {
        match self.gather(dataset, &mut |_| Ok(())) {
            Ok(found) => missing_downloads(dataset, &found),
            Err(_) => official::downloads(dataset).to_vec(),
        }
    }

    /// Takes over the official files under `path`: a file, a folder, or an
    /// archive of them. Each is checked; if one is wrong, none is taken.
    pub fn import(&self, dataset: DatasetName, path: &Path) -> Result<Imported, DataError> {
        let downloads = official::downloads(dataset);
        if downloads.is_empty() {
            return Err(DataError::Embedded(dataset));
        }
        let incoming = self.incoming()?;
        let mut found = gather(path, downloads, &mut |file| incoming.stage(file.name))?;
        if let Some(wrong) = found.take_flaw() {
            return Err(DataError::Flawed {
                path: wrong.path,
                flaw: wrong.flaw,
                dataset,
            });
        }
        if found.slots.iter().all(|slot| slot.kept.is_none()) {
            let names: Vec<_> = official::files(dataset).iter().map(|f| f.name).collect();
            return Err(DataError::NothingToImport {
                path: path.into(),
                dataset,
                names: names.join(", "),
            });
        }
        let folder = self.folder(dataset);
        std::fs::create_dir_all(&folder).map_err(|reason| DataError::Unwritable {
            path: folder.clone(),
            reason,
        })?;
        let mut written = Vec::new();
        for slot in found.slots {
            if let Some(staged) = slot.kept {
                staged.settle(&folder.join(slot.file.name))?;
                written.push(slot.file.name);
            }
        }
        let there = self.gather(dataset, &mut |_| Ok(()))?;
        Ok(Imported {
            folder,
            written,
            missing: there.missing().map(|file| file.name).collect(),
        })
    }

    /// The content of a data set's files, in their order.
    pub(super) fn read(&self, dataset: DatasetName) -> Result<Vec<Content>, DataError> {
        let mut start = |file: OfficialFile| Ok(Vec::with_capacity(file.bytes as usize));
        let mut found = self.gather(dataset, &mut start)?;
        if let Some(wrong) = found.take_flaw() {
            return Err(DataError::Flawed {
                path: wrong.path,
                flaw: wrong.flaw,
                dataset,
            });
        }
        let content = |slot: Slot<Vec<u8>>| {
            let path = self.folder(dataset).join(slot.file.name);
            match slot.kept {
                Some(bytes) => Ok(Content { path, bytes }),
                None => Err(DataError::Missing { path, dataset }),
            }
        };
        found.slots.into_iter().map(content).collect()
    }

    /// Searches a data set's folder; one that is not there is an empty one.
    fn gather<K: Keep>(
        &self,
        dataset: DatasetName,
        start: &mut dyn FnMut(OfficialFile) -> Result<K, DataError>,
    ) -> Result<Gathered<K>, DataError> {
        let folder = self.folder(dataset);
        if !folder.exists() {
            return Ok(Gathered::nothing(official::downloads(dataset)));
        }
        gather(&folder, official::downloads(dataset), start)
    }
}

impl Status {
    fn of(dataset: DatasetName, state: State) -> Self {
        Self {
            dataset,
            state,
            folder: None,
            bytes: 0,
            download_bytes: 0,
            problem: None,
            command: None,
        }
    }
}

fn judge(dataset: DatasetName, mut found: Gathered<()>) -> Status {
    let there = found.slots.iter().filter(|slot| slot.kept.is_some());
    let bytes = there.map(|slot| slot.file.bytes).sum();
    let missing: Vec<_> = found.missing().map(|file| file.name).collect();
    let flaw = found.take_flaw();
    let state = match missing.len() {
        _ if flaw.is_some() => State::Flawed,
        0 => State::Verified,
        all if all == found.slots.len() => State::Missing,
        _ => State::Incomplete,
    };
    let problem = match flaw {
        Some(wrong) => Some(format!("{}: the file {}", wrong.path.display(), wrong.flaw)),
        None => (state == State::Incomplete).then(|| format!("not there: {}", missing.join(", "))),
    };
    Status {
        bytes,
        download_bytes: total_bytes(&missing_downloads(dataset, &found)),
        problem,
        ..Status::of(dataset, state)
    }
}

fn missing_downloads<K>(dataset: DatasetName, found: &Gathered<K>) -> Vec<Download> {
    let missing: Vec<OfficialFile> = found.missing().collect();
    let needed = |download: &&Download| download.holds.iter().any(|f| missing.contains(f));
    let all = official::downloads(dataset).iter();
    all.filter(needed).copied().collect()
}

fn total_bytes(downloads: &[Download]) -> u64 {
    downloads.iter().map(|download| download.bytes).sum()
}

/// Where the platform keeps what programs can get again.
fn cache_folder() -> Option<PathBuf> {
    if cfg!(windows) {
        return named_folder("LOCALAPPDATA");
    }
    let home = std::env::home_dir().filter(|home| !home.as_os_str().is_empty());
    if cfg!(target_os = "macos") {
        return home.map(|home| home.join("Library").join("Caches"));
    }
    // The XDG standard has relative folders ignored.
    named_folder("XDG_CACHE_HOME")
        .filter(|folder| folder.is_absolute())
        .or_else(|| home.map(|home| home.join(".cache")))
}

/// The folder that an environment variable names.
fn named_folder(variable: &str) -> Option<PathBuf> {
    let value = std::env::var_os(variable)?;
    (!value.is_empty()).then(|| value.into())
}
