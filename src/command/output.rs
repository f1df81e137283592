//! Standard output of a command, line by line, whatever it writes.

use std::io::{BufRead, BufReader, Read};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

/// Longer lines are cut: a message has a few hundred bytes.
pub const LONGEST_LINE: usize = 64 << 10;

/// Lines that wait to be read; a command that is faster than that waits too.
const WAITING: usize = 64;

/// A line, as far as it was kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Line {
    /// Whole.
    Whole(String),
    /// Cut after [`LONGEST_LINE`] bytes.
    Cut(String),
}

/// Reads lines on a thread of their own. Nothing waits for that thread: a process
/// that left its group may hold the other end open for as long as it likes.
pub fn lines(source: impl Read + Send + 'static) -> Receiver<Line> {
    let (send, receive) = sync_channel(WAITING);
    std::thread::spawn(move || send_lines(BufReader::new(source), &send));
    receive
}

fn send_lines(mut source: impl BufRead, to: &SyncSender<Line>) {
    let mut wanted = true;
    while let Some(line) = next_line(&mut source) {
        // Nobody listens any more, but a command that cannot write would not end.
        wanted = wanted && to.send(line).is_ok();
    }
}

/// The next line, or the rest after the last one.
fn next_line(source: &mut impl BufRead) -> Option<Line> {
    let mut kept = Vec::new();
    let mut length = 0_usize;
    loop {
        let found = match source.fill_buf() {
            Ok([]) if length == 0 => return None,
            Ok(bytes) => bytes,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            Err(_) => return None,
        };
        let end = found.iter().position(|byte| *byte == b'\n');
        let part = &found[..end.unwrap_or(found.len())];
        kept.extend(part.iter().take(LONGEST_LINE - kept.len()));
        length = length.saturating_add(part.len());
        let (used, ended) = (
            part.len() + usize::from(end.is_some()),
            end.is_some() || found.is_empty(),
        );
        source.consume(used);
        if ended {
            let text = String::from_utf8_lossy(&kept).into_owned();
            return Some(match length > LONGEST_LINE {
                true => Line::Cut(text),
                false => Line::Whole(text),
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_whole_or_cut() {
        let long = "x".repeat(LONGEST_LINE + 5);
        let text = format!("a\n\n{long}\nlast");
        let found: Vec<Line> = lines(std::io::Cursor::new(text)).iter().collect();
        let whole = |text: &str| Line::Whole(text.into());
        assert_eq!(
            found,
            [
                whole("a"),
                whole(""),
                Line::Cut("x".repeat(LONGEST_LINE)),
                whole("last")
            ]
        );
    }
}
