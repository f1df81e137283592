//! What can be wrong with a study file, always with the file, the line and the remedy.

use super::Override;
use super::wording::reworded;
use std::ops::Range;
use std::path::PathBuf;

/// Why a study file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum StudyError {
    /// The file cannot be read.
    #[error("{}: cannot read the study file: {source}", .path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
    /// The text is not TOML, has a wrong key, or a value that cannot be.
    #[error("{}{}: {message}", .origin.display(), line_suffix(*.line))]
    Invalid {
        /// The file, or the name of a built-in study.
        origin: PathBuf,
        /// The line, from 1, where it is known.
        line: Option<usize>,
        /// What is wrong and what to do.
        message: String,
    },
    /// A change from outside the file is wrong.
    #[error("--set {key}={value}: {message}")]
    Override {
        /// The key.
        key: String,
        /// The value.
        value: String,
        /// What is wrong and what to do.
        message: String,
    },
}

fn line_suffix(line: Option<usize>) -> String {
    line.map_or_else(String::new, |line| format!(":{line}"))
}

/// The text under reading, what to call it, and what was changed in it from outside.
pub(super) struct Source<'a> {
    pub origin: PathBuf,
    pub text: &'a str,
    pub overrides: &'a [Override],
}

impl Source<'_> {
    /// An error at a byte of the text.
    pub fn at(&self, span: Option<Range<usize>>, message: String) -> StudyError {
        let line = span.map(|span| {
            let before = &self.text.as_bytes()[..span.start.min(self.text.len())];
            before.iter().filter(|byte| **byte == b'\n').count() + 1
        });
        StudyError::Invalid {
            origin: self.origin.clone(),
            line,
            message,
        }
    }

    /// An error about the value under a dotted key, laid to the override that set it or
    /// to its line. A key that the file leaves out is reported at the table that should hold it.
    pub fn about(&self, key: &str, message: impl std::fmt::Display) -> StudyError {
        let sets = |change: &&Override| {
            let rest = key.strip_prefix(change.key.as_str());
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        match self.overrides.iter().rev().find(sets) {
            Some(change) if change.key == key => wrong_override(change, message.to_string()),
            Some(change) => wrong_override(change, format!("`{key}`: {message}")),
            None => self.at(self.find(key), format!("`{key}`: {message}")),
        }
    }

    fn find(&self, key: &str) -> Option<Range<usize>> {
        let document = toml::de::DeTable::parse(self.text).ok()?;
        let mut table = document.get_ref();
        let mut found = None;
        for part in key.split('.') {
            let Some((name, value)) = table.iter().find(|(name, _)| name.get_ref() == part) else {
                break;
            };
            found = Some(name.span());
            match value.get_ref() {
                toml::de::DeValue::Table(inner) => table = inner,
                _ => break,
            }
        }
        found
    }

    /// A reading error, with the nearest right key where one was misspelled.
    pub fn unreadable(&self, error: &toml::de::Error) -> StudyError {
        self.at(error.span(), reworded(error.message()))
    }
}

/// An error laid to a change from outside.
pub(super) fn wrong_override(change: &Override, message: String) -> StudyError {
    StudyError::Override {
        key: change.key.clone(),
        value: change.value.clone(),
        message,
    }
}

/// The known word closest to a misspelled one, if any is close.
pub fn nearest<'a>(given: &str, known: &[&'a str]) -> Option<&'a str> {
    let score = |word: &str| strsim::jaro_winkler(given, word);
    known
        .iter()
        .copied()
        .max_by(|a, b| score(a).total_cmp(&score(b)))
        .filter(|w| score(w) > 0.75)
}
