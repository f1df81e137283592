//! Standard output and standard error, which readers may close at any moment: `println!` and
//! `eprintln!` would panic then, and end a study that `head` has seen enough of.

use crate::failure;
use anyhow::{Context, bail};
use std::io::{self, Write};
use std::path::Path;

/// Writes a line, with the arguments of `format!`.
macro_rules! say {
    ($($text:tt)*) => {
        $crate::output::line(&format!($($text)*))
    };
}
pub(crate) use say;

/// Writes a line to standard error, with the arguments of `format!`.
macro_rules! tell {
    ($($text:tt)*) => {
        $crate::output::remark(&format!($($text)*))
    };
}
pub(crate) use tell;

/// Writes a line, or ends the program with a sentence where that is impossible, as on a full disk.
pub fn line(text: &str) {
    if let Err(error) = print(&format!("{text}\n")) {
        failure::exit(&error);
    }
}

/// Writes a line to standard error. Where that is impossible there is nobody left to tell.
pub fn remark(text: &str) {
    let _ = io::stderr()
        .lock()
        .write_all(format!("{text}\n").as_bytes());
}

/// Writes a result to standard output. A reader who has seen enough, as `head` has, is no error.
pub fn print(text: &str) -> anyhow::Result<()> {
    match io::stdout().lock().write_all(text.as_bytes()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(error).context("standard output: cannot be written; check where it goes")
        }
        _ => Ok(()),
    }
}

/// A file is to be written where there is a folder.
pub fn check_folder_of(path: &Path) -> anyhow::Result<()> {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() && !folder.is_dir() => bail!(
            "{}: there is no folder {}; make it, or choose another with --out",
            path.display(),
            folder.display()
        ),
        _ => Ok(()),
    }
}

/// So many of something, in words.
pub fn counted(count: usize, what: &str) -> String {
    match count {
        1 => format!("1 {what}"),
        many => format!("{many} {what}s"),
    }
}

/// So many of all in percent, rounded down: 100 only where nothing is missing.
pub fn percent(part: usize, all: usize) -> usize {
    100 * part / all.max(1)
}

/// So many records that belong somewhere else.
pub fn further(count: usize, whom: &str) -> String {
    match count {
        1 => format!("1 further record belongs {whom}"),
        many => format!("{many} further records belong {whom}"),
    }
}

/// That so many records do not count because another of their run does, if there are any.
pub fn duplicates(count: usize) -> Option<String> {
    (count > 0).then(|| {
        format!(
            "{} (not counted)",
            further(count, "to runs that were recorded before")
        )
    })
}

/// What an answer on standard output is written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Words for people.
    Words,
    /// JSON for programs, and nothing else.
    Json,
}

impl Form {
    /// As the flag `--json` says.
    pub fn of(json: bool) -> Self {
        match json {
            true => Self::Json,
            false => Self::Words,
        }
    }

    /// Says how work goes, where that does not disturb whoever reads the answer.
    pub fn remark(self, text: &str) {
        match self {
            Self::Words => say!("{text}"),
            Self::Json => remark(text),
        }
    }

    /// Prints an answer.
    pub fn answer<T: serde::Serialize>(
        self,
        value: &T,
        words: impl FnOnce(&T) -> String,
    ) -> anyhow::Result<()> {
        let text = match self {
            Self::Words => words(value),
            Self::Json => serde_json::to_string_pretty(value)?,
        };
        print(&format!("{text}\n"))
    }
}
