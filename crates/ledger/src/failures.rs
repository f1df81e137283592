//! The journal of failed attempts: runs that a command was to train and that gave
//! no outcome. It measures nothing and decides nothing; it tells people why runs
//! are missing.
//!
//! Its files are as those of the records: one per writer, appended and synced
//! line by line, a torn end left out.

use crate::disk::{create_folder, stems};
use crate::error::{Action, LedgerError};
use crate::line_file::{FORMAT, Header, LineFile, SUFFIX};
use crate::tail::{Tail, Verdict};
use spec::Failure;
use std::path::{Path, PathBuf};

/// The failures of a study.
#[derive(Debug)]
pub struct Failures {
    folder: PathBuf,
    /// None before the first failure, and after a file had to be abandoned.
    file: Option<LineFile>,
}

impl Failures {
    pub(crate) fn new(dir: &Path) -> Self {
        Self {
            folder: dir.join("failures"),
            file: None,
        }
    }

    /// Keeps a failure, in a file of this process that is made for the first one.
    pub fn append(&mut self, failure: &Failure) -> Result<(), LedgerError> {
        let file = match &mut self.file {
            Some(file) => file,
            none => {
                create_folder(&self.folder)?;
                none.insert(LineFile::create(&self.folder)?)
            }
        };
        let appended = file
            .append(failure)
            .map_err(LedgerError::io(file.path(), Action::Write));
        if !file.is_sound() {
            self.file = None;
        }
        appended
    }

    /// The failures of all writers, oldest first. Lines that are none are left out:
    /// nothing but an explanation is lost.
    pub fn read(&self) -> Result<Vec<Failure>, LedgerError> {
        let mut all: Vec<Failure> = Vec::new();
        for stem in stems(&self.folder, SUFFIX)? {
            let path = self.folder.join(format!("{stem}{SUFFIX}"));
            Tail::new(path.clone()).read(|line, content| {
                if let Ok(failure) = serde_json::from_slice(content) {
                    all.push(failure);
                    return Ok(Verdict::Good);
                }
                match serde_json::from_slice::<Header>(content) {
                    Ok(header) if header.format > FORMAT => Err(LedgerError::NewerFormat {
                        path: path.clone(),
                        line,
                        found: header.format,
                        known: FORMAT,
                    }),
                    Ok(_) => Ok(Verdict::Good),
                    Err(error) => Ok(Verdict::Bad(error.to_string())),
                }
            })?;
        }
        all.sort_by_key(|failure| failure.at_ms);
        Ok(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use spec::{BatchSize, FailureKind, LearningRate, RunId, Width};

    fn failure(number: u64) -> Failure {
        Failure {
            run: RunId::try_from(format!("{number:032x}")).unwrap(),
            width: Width::new(16).unwrap(),
            batch_size: BatchSize::new(32).unwrap(),
            learning_rate: LearningRate::new(5.0).unwrap(),
            seed: 0,
            steps: 100,
            failure: FailureKind::Crash,
            reason: "exit code 3".into(),
            attempt: 1,
            log: None,
            seconds: 0.5,
            at_ms: 1000 - number,
        }
    }

    #[test]
    fn failures_of_several_writers_come_by_time() {
        let dir = tempfile::tempdir().unwrap();
        let [mut one, mut two] = [Failures::new(dir.path()), Failures::new(dir.path())];
        assert_eq!(one.read().unwrap(), []);
        assert!(
            !dir.path().join("failures").exists(),
            "reading writes nothing"
        );
        one.append(&failure(1)).unwrap();
        two.append(&failure(2)).unwrap();
        one.append(&failure(3)).unwrap();
        assert_eq!(two.read().unwrap(), [failure(3), failure(2), failure(1)]);
    }

    #[test]
    fn a_torn_line_costs_itself_alone() {
        let dir = tempfile::tempdir().unwrap();
        let mut failures = Failures::new(dir.path());
        failures.append(&failure(1)).unwrap();
        let path = failures.file.as_ref().unwrap().path().to_path_buf();
        let mut text = std::fs::read_to_string(&path).unwrap();
        assert!(text.starts_with("{\"noisescale_ledger\":1,"), "{text}");
        text.push_str("{\"run\":\"5f0c");
        std::fs::write(&path, text).unwrap();
        assert_eq!(failures.read().unwrap(), [failure(1)]);
    }
}
