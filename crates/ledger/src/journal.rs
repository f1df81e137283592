//! The ledger of a study: all records files of its folder, read as one.

use crate::checkpoint::Checkpoints;
use crate::claims::Claims;
use crate::disk::{create_folder, stems};
use crate::error::{Action, LedgerError};
use crate::failures::Failures;
use crate::line_file::{FORMAT, Header, SUFFIX};
use crate::merge::{Conflict, Merged, Place};
use crate::tail::{Growth, Tail, Verdict};
use crate::writer::Writer;
use spec::{Record, Run, RunId};
use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

/// The records of a study, as far as they have been read.
#[derive(Debug)]
pub struct Ledger {
    dir: PathBuf,
    files: BTreeMap<Arc<str>, RecordsFile>,
    merged: Merged,
}

#[derive(Debug)]
struct RecordsFile {
    tail: Tail,
    records: usize,
    headed: bool,
}

/// What a reader of the ledger should know but need not stop for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Warning {
    /// The end of a file is not a whole line: its writer was stopped while
    /// writing, or is writing now. That run was not recorded and will be
    /// trained again.
    Torn {
        /// Where.
        place: Place,
        /// Why it is not a record.
        reason: String,
    },
    /// A line between good ones is not a record: the file was changed, or the
    /// disk is failing.
    Damaged {
        /// Where.
        place: Place,
        /// Why it is not a record.
        reason: String,
    },
    /// A file with records does not begin with a header.
    NoHeader {
        /// Where it should be.
        place: Place,
    },
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Torn { place, reason } => write!(
                f,
                "{place}: unfinished line left out ({reason}); a run counts as missing until another line records it"
            ),
            Self::Damaged { place, reason } => write!(
                f,
                "{place}: damaged line left out ({reason}); its run counts as missing until another line \
                 records it; check the disk, or who changed the file"
            ),
            Self::NoHeader { place } => write!(
                f,
                "{place}: the file does not begin with a header; its records are read all the same"
            ),
        }
    }
}

impl Ledger {
    /// Makes the folders that are missing, then reads what is there: a new
    /// ledger, or one to go on with.
    pub fn create(dir: &Path) -> Result<Self, LedgerError> {
        create_folder(dir)?;
        for folder in ["records", "claims", "checkpoints"] {
            create_folder(&dir.join(folder))?;
        }
        Self::open(dir)
    }

    /// Reads a ledger that is there. Writes nothing.
    pub fn open(dir: &Path) -> Result<Self, LedgerError> {
        let folder = dir.join("records");
        let found = folder
            .try_exists()
            .map_err(LedgerError::io(&folder, Action::ListFolder))?;
        if !found {
            return Err(LedgerError::NotALedger { dir: dir.into() });
        }
        Self::peek(dir)
    }

    /// Reads a ledger that may not be there yet, and is then empty. Writes nothing.
    pub fn peek(dir: &Path) -> Result<Self, LedgerError> {
        let mut ledger = Self {
            dir: dir.into(),
            files: BTreeMap::new(),
            merged: Merged::default(),
        };
        ledger.refresh()?;
        Ok(ledger)
    }

    fn folder(&self) -> PathBuf {
        self.dir.join("records")
    }

    /// The study's folder.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Starts a records file of this process. Do so only when there is something
    /// to record: every writer leaves a file.
    pub fn writer(&self) -> Result<Writer, LedgerError> {
        Writer::create(&self.folder())
    }

    /// What this process and others are working on.
    pub fn claims(&self) -> Claims {
        Claims::new(&self.dir)
    }

    /// Attempts that gave no outcome.
    pub fn failures(&self) -> Failures {
        Failures::new(&self.dir)
    }

    /// Where long cohorts stand.
    pub fn checkpoints(&self) -> Checkpoints {
        Checkpoints::new(&self.dir)
    }

    /// Reads what any writer appended since the last reading, this process
    /// included, and says how many runs are new.
    pub fn refresh(&mut self) -> Result<usize, LedgerError> {
        let before = self.merged.runs();
        if self.read_growth()? == Growth::Cut {
            // Someone removed or restored files: nothing read so far is certain.
            if !self.folder().is_dir() {
                let dir = self.dir.clone();
                return Err(LedgerError::NotALedger { dir });
            }
            self.files.clear();
            self.merged = Merged::default();
            self.read_growth()?;
        }
        Ok(self.merged.runs().saturating_sub(before))
    }

    fn read_growth(&mut self) -> Result<Growth, LedgerError> {
        let folder = self.folder();
        for stem in stems(&folder, SUFFIX)? {
            let path = folder.join(format!("{stem}{SUFFIX}"));
            self.files
                .entry(stem.into())
                .or_insert_with(|| RecordsFile::new(path));
        }
        let mut read = 0;
        for (name, file) in &mut self.files {
            match file.read(name, &mut self.merged)? {
                Growth::Lines(lines) => read += lines,
                Growth::Cut => return Ok(Growth::Cut),
            }
        }
        Ok(Growth::Lines(read))
    }

    /// One record per run, by run id: the order says nothing of who trained what.
    pub fn records(&self) -> impl Iterator<Item = &Record> {
        self.merged.records()
    }

    /// The record of a run.
    pub fn get(&self, run: RunId) -> Option<&Record> {
        self.merged.get(run)
    }

    /// How many runs have a record.
    pub fn runs(&self) -> usize {
        self.merged.runs()
    }

    /// Records that do not count because another of their run does.
    pub fn duplicates(&self) -> usize {
        self.merged.duplicates()
    }

    /// The runs of a plan that have no record, in the plan's order.
    pub fn missing(&self, plan: Vec<Run>) -> Vec<Run> {
        let mut plan = plan;
        plan.retain(|run| self.get(run.id()).is_none());
        plan
    }

    /// Runs that gave different results where they must not: an alarm.
    pub fn conflicts(&self) -> Vec<Conflict> {
        self.merged.conflicts()
    }

    /// Lines that were left out.
    pub fn warnings(&self) -> Vec<Warning> {
        self.files
            .iter()
            .flat_map(|(name, file)| file.warnings(name))
            .collect()
    }

    /// Each writer, how many records it wrote and when it last did.
    pub(crate) fn writers(&self) -> impl Iterator<Item = (&str, usize, Option<SystemTime>)> {
        self.files
            .iter()
            .map(|(name, file)| (&**name, file.records, file.tail.modified))
    }
}

impl RecordsFile {
    fn new(path: PathBuf) -> Self {
        Self {
            tail: Tail::new(path),
            records: 0,
            headed: false,
        }
    }

    fn read(&mut self, name: &Arc<str>, merged: &mut Merged) -> Result<Growth, LedgerError> {
        let path = self.tail.path().to_path_buf();
        let Self {
            tail,
            records,
            headed,
        } = self;
        tail.read(|line, content| match read_line(content) {
            Line::Record(record) => {
                let writer = Arc::clone(name);
                merged.add(Place { writer, line }, *record);
                *records += 1;
                Ok(Verdict::Good)
            }
            Line::Header(header) if header.format > FORMAT => Err(LedgerError::NewerFormat {
                path: path.clone(),
                line,
                found: header.format,
                known: FORMAT,
            }),
            Line::Header(_) => {
                *headed = true;
                Ok(Verdict::Good)
            }
            Line::Neither(reason) => Ok(Verdict::Bad(reason)),
        })
    }

    fn warnings(&self, name: &Arc<str>) -> Vec<Warning> {
        let place = |line| Place {
            writer: Arc::clone(name),
            line,
        };
        let damaged = self.tail.damaged.iter().map(|bad| Warning::Damaged {
            place: place(bad.line),
            reason: bad.reason.clone(),
        });
        let torn = self.tail.torn.iter().map(|bad| Warning::Torn {
            place: place(bad.line),
            reason: bad.reason.clone(),
        });
        let headless = self.records > 0 && !self.headed;
        let no_header = headless.then(|| Warning::NoHeader { place: place(1) });
        no_header.into_iter().chain(damaged).chain(torn).collect()
    }
}

enum Line {
    Record(Box<Record>),
    Header(Header),
    Neither(String),
}

/// A header may come anywhere, so that files joined with `cat` still read.
fn read_line(content: &[u8]) -> Line {
    let reason = match serde_json::from_slice(content) {
        Ok(record) => return Line::Record(Box::new(record)),
        Err(error) => error,
    };
    match serde_json::from_slice::<Header>(content) {
        Ok(header) if header.format > 0 => Line::Header(header),
        _ => Line::Neither(format!("not a record: {reason}")),
    }
}
