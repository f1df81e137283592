//! What a command writes besides messages: its standard error, and lines of its
//! output that are none. Kept in a file per run, bounded: the beginning is written as
//! it comes, of the rest the end, where the reason of a crash stands.

use super::desk::Sink;
use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, PoisonError};

/// Bytes that are kept of the beginning of an attempt, and of its end.
const KEPT: usize = 256 << 10;
/// A file of earlier attempts that is larger is begun anew.
const LARGEST: u64 = 4 << 20;

/// The log of one attempt.
pub struct Log {
    to: To,
    room: usize,
    end: VecDeque<u8>,
    dropped: u64,
}

enum To {
    Terminal,
    /// A file that is made with the first byte, so that silent commands leave none.
    Unopened {
        path: PathBuf,
        title: String,
    },
    File(File),
    /// What cannot be written is lost: a log is a help, not a record.
    Nowhere,
}

impl Log {
    /// The log of an attempt, which its title begins.
    pub fn new(sink: &Sink, title: String) -> Self {
        let to = match sink {
            Sink::Terminal => To::Terminal,
            Sink::File { path, .. } => To::Unopened {
                path: path.clone(),
                title,
            },
        };
        Self {
            to,
            room: KEPT,
            end: VecDeque::new(),
            dropped: 0,
        }
    }

    /// Adds bytes.
    pub fn add(&mut self, bytes: &[u8]) {
        if let To::Unopened { path, title } = &self.to {
            self.to = open(path, title).map_or(To::Nowhere, To::File);
        }
        match &mut self.to {
            To::Terminal => {
                let _ = io::stderr().write_all(bytes);
            }
            To::File(file) => {
                let (now, later) = bytes.split_at(bytes.len().min(self.room));
                let _ = file.write_all(now);
                self.room -= now.len();
                self.end.extend(later);
                let excess = self.end.len().saturating_sub(KEPT);
                self.end.drain(..excess);
                self.dropped += excess as u64;
            }
            To::Unopened { .. } | To::Nowhere => {}
        }
    }
}

impl Drop for Log {
    /// Writes what was kept of the end.
    fn drop(&mut self) {
        if let To::File(file) = &mut self.to {
            if self.dropped > 0 {
                let _ = writeln!(file, "\n--- {} bytes left out", self.dropped);
            }
            let _ = file.write_all(self.end.make_contiguous());
        }
    }
}

fn open(path: &Path, title: &str) -> io::Result<File> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    let large = std::fs::metadata(path).is_ok_and(|data| data.len() > LARGEST);
    let mut options = OpenOptions::new();
    options.create(true);
    match large {
        true => options.write(true).truncate(true),
        false => options.append(true),
    };
    let mut file = options.open(path)?;
    writeln!(file, "--- {title}")?;
    Ok(file)
}

/// Copies a stream into a log on a thread of its own; the receiver hears when it has ended.
pub fn copy(mut source: impl Read + Send + 'static, log: Arc<Mutex<Log>>) -> Receiver<()> {
    let (done, ended) = channel();
    std::thread::spawn(move || {
        let mut buffer = vec![0; 16 << 10];
        loop {
            match source.read(&mut buffer) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Ok(0) | Err(_) => break,
                Ok(size) => log
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .add(&buffer[..size]),
            }
        }
        drop(log);
        // Nobody may be waiting.
        let _ = done.send(());
    });
    ended
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_beginning_and_the_end_are_kept() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("logs/run.stderr");
        let sink = Sink::File {
            path: path.clone(),
            name: "run".into(),
        };
        drop(Log::new(&sink, "silent".into()));
        assert!(!path.exists());
        let mut log = Log::new(&sink, "attempt 1".into());
        log.add(&vec![b'a'; KEPT]);
        log.add(&vec![b'b'; 1000]);
        log.add(&vec![b'c'; KEPT]);
        drop(log);
        let text = std::fs::read_to_string(&path).unwrap();
        let expected = format!(
            "--- attempt 1\n{}\n--- 1000 bytes left out\n{}",
            "a".repeat(KEPT),
            "c".repeat(KEPT)
        );
        assert!(text == expected, "{} bytes", text.len());
    }
}
