//! Appending records.

use crate::error::LedgerError;
use crate::line_file::LineFile;
use spec::Record;
use std::path::{Path, PathBuf};

/// The one writer of one records file.
#[derive(Debug)]
pub struct Writer {
    folder: PathBuf,
    /// None after a file had to be abandoned; the next record starts another.
    file: Option<LineFile>,
}

impl Writer {
    /// Makes the file at once, so that an unwritable folder is found before
    /// hours of training and not after.
    pub(crate) fn create(folder: &Path) -> Result<Self, LedgerError> {
        Ok(Self {
            folder: folder.into(),
            file: Some(LineFile::create(folder)?),
        })
    }

    /// Records a run. Once this has returned `Ok`, the record survives a kill
    /// and a power loss.
    ///
    /// After an error the record does not count as recorded and all earlier ones
    /// are safe. The writer stays usable: the same record may be given again.
    pub fn append(&mut self, record: &Record) -> Result<(), LedgerError> {
        check_representable(record)?;
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(LineFile::create(&self.folder)?),
        };
        let appended = file.append(record);
        let path = file.path().to_path_buf();
        let in_place = file.is_in_place();
        if !file.is_sound() {
            self.file = None;
        }
        appended.map_err(|source| LedgerError::Append {
            path: path.clone(),
            run: record.run,
            source,
        })?;
        match in_place {
            true => Ok(()),
            false => Err(LedgerError::Gone { path }),
        }
    }

    /// The name of the file without `.jsonl`; none while a new one is due.
    pub fn name(&self) -> Option<&str> {
        self.file.as_ref().map(LineFile::name)
    }
}

/// JSON has no infinity and no NaN: a line with one would be written and never
/// read. Reading it back costs far less than the sync that follows.
fn check_representable(record: &Record) -> Result<(), LedgerError> {
    let refused = |reason: String| LedgerError::Unrepresentable {
        run: record.run,
        reason,
    };
    let text = serde_json::to_string(record).map_err(|error| refused(error.to_string()))?;
    let back: Record = serde_json::from_str(&text).map_err(|error| refused(error.to_string()))?;
    if back == *record {
        Ok(())
    } else {
        Err(refused("it reads back as another".into()))
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use crate::Ledger;
    use spec::{BatchSize, LearningRate, Outcome, RunId, Width};

    fn record(number: u32) -> Record {
        Record {
            run: RunId::try_from(format!("{number:032x}")).unwrap(),
            width: Width::new(16).unwrap(),
            batch_size: BatchSize::new(32).unwrap(),
            learning_rate: LearningRate::new(5.0).unwrap(),
            seed: 0,
            steps: 100,
            outcome: Outcome::Diverged { step: 7 },
            curve: Vec::new(),
            seconds: 1.0,
            device: "cpu test".into(),
        }
    }

    /// A study must not go on for ever with records that nobody finds.
    #[test]
    fn a_folder_that_was_moved_is_told() {
        let place = tempfile::tempdir().unwrap();
        let (before, after) = (place.path().join("before"), place.path().join("after"));
        let mut ledger = Ledger::create(&before).unwrap();
        let mut writer = ledger.writer().unwrap();
        writer.append(&record(1)).unwrap();
        ledger.refresh().unwrap();
        std::fs::rename(&before, &after).unwrap();
        let error = writer.append(&record(2)).unwrap_err().to_string();
        assert!(error.contains("moved or removed"), "{error}");
        let error = ledger.refresh().unwrap_err().to_string();
        assert!(error.contains("no ledger here"), "{error}");
        // Another ledger in its place is not the writer's.
        Ledger::create(&before).unwrap().writer().unwrap();
        let error = writer.append(&record(3)).unwrap_err();
        assert!(matches!(error, LedgerError::Gone { .. }), "{error}");
        assert_eq!(Ledger::open(&after).unwrap().runs(), 3);
    }

    #[test]
    fn a_file_that_cannot_be_cut_back_is_abandoned_for_a_new_one() {
        let dir = tempfile::tempdir().unwrap();
        let mut ledger = Ledger::create(dir.path()).unwrap();
        let mut writer = ledger.writer().unwrap();
        writer.append(&record(1)).unwrap();
        let first = writer.name().unwrap().to_owned();
        // A device cannot be cut back, so the writer has to give it up.
        let Ok(full) = LineFile::full() else {
            eprintln!("skipped: there is no /dev/full");
            return;
        };
        writer.file = Some(full);
        let error = writer.append(&record(2)).unwrap_err().to_string();
        assert!(
            error.contains("everything recorded so far is safe"),
            "{error}"
        );
        assert!(error.contains("free space on this disk"), "{error}");
        assert_eq!(writer.name(), None);
        writer.append(&record(2)).unwrap();
        assert_ne!(writer.name(), Some(first.as_str()));
        assert_eq!(ledger.refresh().unwrap(), 2);
        assert_eq!(ledger.warnings(), []);
    }
}
