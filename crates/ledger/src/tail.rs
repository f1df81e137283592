//! Reading an append-only file as it grows: only what is new is read.
//!
//! A line counts once it ends in a newline and can be understood. Lines at the
//! end that do not are left unread, for they may be on their way: a write in
//! progress, or on a network filesystem a page that has not arrived. They are
//! torn if they stay so. Once a good line follows, bad ones before it are
//! damaged for good.

use crate::error::{Action, LedgerError};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// How far one file has been read.
#[derive(Debug)]
pub(crate) struct Tail {
    path: PathBuf,
    /// Where the next unread line starts.
    offset: u64,
    /// Lines read so far.
    lines: u64,
    /// When it last grew.
    pub modified: Option<SystemTime>,
    /// Lines amid good ones that could not be understood.
    pub damaged: Vec<BadLine>,
    /// The first line at the end that could not be.
    pub torn: Option<BadLine>,
}

/// A line that does not count.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BadLine {
    /// From 1.
    pub line: u64,
    pub reason: String,
}

/// What the reader of a line says about it.
pub(crate) enum Verdict {
    Good,
    Bad(String),
}

/// What happened to a file since it was last read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Growth {
    /// So many good lines were added.
    Lines(u64),
    /// It is gone or shorter: what was read from it no longer holds.
    Cut,
}

impl Tail {
    pub fn new(path: PathBuf) -> Self {
        Self {
            path,
            offset: 0,
            lines: 0,
            modified: None,
            damaged: Vec::new(),
            torn: None,
        }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads the new lines, handing each with its number, from 1, to `take`.
    ///
    /// The file is opened anew each time: on NFS that is what makes lines from
    /// other machines visible.
    pub fn read(
        &mut self,
        mut take: impl FnMut(u64, &[u8]) -> Result<Verdict, LedgerError>,
    ) -> Result<Growth, LedgerError> {
        let file = match File::open(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(self.vanished()),
            file => file.map_err(LedgerError::io(&self.path, Action::Read))?,
        };
        let metadata = file
            .metadata()
            .map_err(LedgerError::io(&self.path, Action::Read))?;
        self.read_from(file, metadata.len(), metadata.modified().ok(), &mut take)
    }

    /// Reads what follows the lines read so far in a file of this length.
    fn read_from(
        &mut self,
        mut file: impl Read + Seek,
        length: u64,
        modified: Option<SystemTime>,
        take: &mut impl FnMut(u64, &[u8]) -> Result<Verdict, LedgerError>,
    ) -> Result<Growth, LedgerError> {
        if length < self.offset {
            return Ok(Growth::Cut);
        }
        if length == self.offset && self.torn.is_none() {
            return Ok(Growth::Lines(0));
        }
        self.modified = modified;
        file.seek(SeekFrom::Start(self.offset))
            .map_err(LedgerError::io(&self.path, Action::Read))?;
        self.read_lines(BufReader::new(file), take)
    }

    fn vanished(&self) -> Growth {
        if self.offset == 0 {
            Growth::Lines(0)
        } else {
            Growth::Cut
        }
    }

    fn read_lines(
        &mut self,
        mut source: impl BufRead,
        take: &mut impl FnMut(u64, &[u8]) -> Result<Verdict, LedgerError>,
    ) -> Result<Growth, LedgerError> {
        let mut good = 0;
        let mut doubtful: Vec<BadLine> = Vec::new();
        let mut position = self.offset;
        let mut bytes = Vec::new();
        loop {
            bytes.clear();
            let size = source
                .read_until(b'\n', &mut bytes)
                .map_err(LedgerError::io(&self.path, Action::Read))? as u64;
            let line = self.lines + doubtful.len() as u64 + 1;
            let Some(content) = bytes.strip_suffix(b"\n") else {
                if size > 0 {
                    let reason = format!("{size} bytes without an end of line");
                    doubtful.push(BadLine { line, reason });
                }
                break;
            };
            position += size;
            match judge(line, content, take)? {
                Verdict::Bad(reason) => doubtful.push(BadLine { line, reason }),
                Verdict::Good => {
                    self.damaged.append(&mut doubtful);
                    (self.offset, self.lines) = (position, line);
                    good += 1;
                }
            }
        }
        let more = doubtful.len().saturating_sub(1);
        self.torn = doubtful.into_iter().next().map(|mut first| {
            if more > 0 {
                first.reason += &format!(", and {more} more behind it");
            }
            first
        });
        Ok(Growth::Lines(good))
    }
}

/// Blank lines are skipped.
fn judge(
    line: u64,
    content: &[u8],
    take: &mut impl FnMut(u64, &[u8]) -> Result<Verdict, LedgerError>,
) -> Result<Verdict, LedgerError> {
    if content.trim_ascii().is_empty() {
        return Ok(Verdict::Good);
    }
    take(line, content)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, OpenOptions};
    use std::io::{Cursor, Write};

    /// Numbers are good lines.
    fn number(found: &mut Vec<u32>, content: &[u8]) -> Verdict {
        let text = std::str::from_utf8(content).ok();
        match text.and_then(|text| text.parse().ok()) {
            Some(number) => {
                found.push(number);
                Verdict::Good
            }
            None => Verdict::Bad("no number".into()),
        }
    }

    fn numbers(tail: &mut Tail) -> (Growth, Vec<u32>) {
        let mut found = Vec::new();
        let growth = tail.read(|_, content| Ok(number(&mut found, content)));
        (growth.unwrap(), found)
    }

    fn append(path: &Path, text: &str) {
        let mut file = OpenOptions::new()
            .append(true)
            .create(true)
            .open(path)
            .unwrap();
        file.write_all(text.as_bytes()).unwrap();
    }

    #[test]
    fn only_new_lines_are_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("numbers");
        let mut tail = Tail::new(path.clone());
        assert_eq!(numbers(&mut tail), (Growth::Lines(0), vec![]));
        append(&path, "1\n2\n3");
        assert_eq!(numbers(&mut tail), (Growth::Lines(2), vec![1, 2]));
        assert_eq!(tail.torn.as_ref().unwrap().line, 3);
        // The rest of the third line arrives.
        append(&path, "4\n5\n");
        assert_eq!(numbers(&mut tail), (Growth::Lines(2), vec![34, 5]));
        assert_eq!((&tail.torn, tail.damaged.len()), (&None, 0));
        assert_eq!(numbers(&mut tail), (Growth::Lines(0), vec![]));
    }

    #[test]
    fn a_bad_line_is_torn_at_the_end_and_damaged_amid_good_ones() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("numbers");
        let mut tail = Tail::new(path.clone());
        append(&path, "1\nx\n");
        assert_eq!(numbers(&mut tail).1, [1]);
        assert_eq!(tail.torn.as_ref().unwrap().line, 2);
        append(&path, "3\n");
        assert_eq!(numbers(&mut tail).1, [3]);
        assert_eq!(tail.torn, None);
        assert_eq!(tail.damaged[0].line, 2);
    }

    #[test]
    fn a_page_that_arrives_late_is_read_then() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("numbers");
        let mut tail = Tail::new(path.clone());
        append(&path, "1\n\0\0\n");
        assert_eq!(numbers(&mut tail).1, [1]);
        // Same length, other bytes.
        fs::write(&path, "1\n23\n").unwrap();
        assert_eq!(numbers(&mut tail).1, [23]);
    }

    /// NFS may tell a file's new length before it gives what is in it.
    #[test]
    fn what_follows_a_short_reading_is_read_next() {
        let mut tail = Tail::new("numbers".into());
        let mut found = Vec::new();
        for arrived in ["1\n", "1\n2\n"] {
            let growth = tail.read_from(Cursor::new(arrived), 4, None, &mut |_, content| {
                Ok(number(&mut found, content))
            });
            assert_eq!(growth.unwrap(), Growth::Lines(1), "{arrived:?}");
        }
        assert_eq!(found, [1, 2]);
    }

    #[test]
    fn a_file_cut_short_is_noticed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("numbers");
        let mut tail = Tail::new(path.clone());
        append(&path, "1\n2\n");
        numbers(&mut tail);
        fs::write(&path, "1\n").unwrap();
        assert_eq!(numbers(&mut tail), (Growth::Cut, vec![]));
        fs::remove_file(&path).unwrap();
        assert_eq!(numbers(&mut tail), (Growth::Cut, vec![]));
    }
}
