//! The study as it was run, kept beside its records: a folder explains itself,
//! and can go on without the file it came from.

use crate::disk::replace;
use crate::error::{Action, LedgerError};
use spec::Override;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Begins the notes on overrides. They come last, so that line numbers are
/// those of the original.
const MARK: &str = "# noisescale ran the text above with these overrides:";
/// The same where there are none.
const BARE_MARK: &str = "# noisescale ran the text above without overrides.";
const NOTE: &str = "# --set ";
/// Begins the note on one that goes over several lines: a comment ends with its line, so the
/// whole is written as a string of JSON.
const LINES_NOTE: &str = "# --set-lines ";

/// A study file's text, and what was changed from outside it.
#[derive(Debug, Clone, PartialEq)]
pub struct StudyCopy {
    /// The text of the study file.
    pub text: String,
    /// What `--set` and its kin changed, in order.
    pub overrides: Vec<Override>,
}

impl StudyCopy {
    /// Keeps the copy as `study.toml` in a study's folder. One that is there is
    /// replaced whole, or left alone if it is the same.
    pub fn write(&self, dir: &Path) -> Result<(), LedgerError> {
        let path = path(dir);
        let content = self.content();
        if fs::read(&path).is_ok_and(|there| there == content.as_bytes()) {
            return Ok(());
        }
        replace(&path, content.as_bytes())
    }

    /// Reads the copy in a study's folder, if there is one.
    pub fn read(dir: &Path) -> Result<Option<Self>, LedgerError> {
        let path = path(dir);
        match fs::read_to_string(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            content => content
                .map(|content| {
                    Some(Self::from_content(&content).unwrap_or(Self {
                        text: content,
                        overrides: Vec::new(),
                    }))
                })
                .map_err(LedgerError::io(&path, Action::Read)),
        }
    }

    /// The mark is always there, so that notes in a text that is itself such a
    /// copy are not taken for notes on this one.
    fn content(&self) -> String {
        let mark = match self.overrides.is_empty() {
            true => BARE_MARK,
            false => MARK,
        };
        let mut content = format!("{}\n{mark}\n", self.text);
        for Override { key, value } in &self.overrides {
            let change = format!("{key}={value}");
            content.push_str(&match change.contains(['\r', '\n']) {
                true => format!("{LINES_NOTE}{}\n", serde_json::Value::String(change)),
                false => format!("{NOTE}{change}\n"),
            });
        }
        content
    }

    /// Reads the text of a copy; `None` if it is no copy. Its own mark is the last one.
    pub fn from_content(content: &str) -> Option<Self> {
        let split = |mark: &str| content.rsplit_once(&format!("\n{mark}\n"));
        let (text, notes) = [MARK, BARE_MARK]
            .into_iter()
            .filter_map(split)
            .max_by_key(|(text, _)| text.len())?;
        let note = |line: &str| match line.strip_prefix(LINES_NOTE) {
            Some(json) => Override::parse(&serde_json::from_str::<String>(json).ok()?),
            None => Override::parse(line.strip_prefix(NOTE)?),
        };
        Some(Self {
            text: text.into(),
            overrides: notes.lines().filter_map(note).collect(),
        })
    }
}

fn path(dir: &Path) -> PathBuf {
    dir.join("study.toml")
}
