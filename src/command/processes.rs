//! The processes of a group and the memory they take, from `/proc`.
//!
//! A limit on address space would not do: CUDA and PyTorch reserve far more than they
//! use. What counts is the proportional set size: resident memory, where pages that
//! several processes share count once. It is looked up now and then, so a command may
//! exceed its limit for a moment.

use std::path::PathBuf;
use std::{fs, io};

/// Whether this system shows its processes.
pub fn are_visible() -> bool {
    fs::metadata("/proc/self/stat").is_ok()
}

/// The living processes of a group.
pub fn members(group: i32) -> io::Result<Vec<i32>> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc")? {
        let name = entry?.file_name();
        let Some(process) = name.to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        // One that ends meanwhile has no file any more.
        let stat = fs::read_to_string(file(process, "stat")).unwrap_or_default();
        if group_of(&stat) == Some(group) {
            found.push(process);
        }
    }
    Ok(found)
}

/// The group of a living process: its `stat` is `pid (name) state parent group …`,
/// where the name may hold anything.
fn group_of(stat: &str) -> Option<i32> {
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_whitespace();
    let state = fields.next()?;
    let group = fields.nth(1)?.parse().ok()?;
    (!matches!(state, "Z" | "X")).then_some(group)
}

/// Bytes that a process takes; 0 if it has ended.
pub fn memory(process: i32) -> u64 {
    let read = |name: &str| fs::read_to_string(file(process, name)).unwrap_or_default();
    let shared = kilobytes(&read("smaps_rollup"), "Pss:");
    let resident = || kilobytes(&read("status"), "VmRSS:");
    shared.or_else(resident).unwrap_or(0).saturating_mul(1024)
}

fn kilobytes(text: &str, key: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(key))?;
    line.split_whitespace().next()?.parse().ok()
}

fn file(process: i32, name: &str) -> PathBuf {
    PathBuf::from(format!("/proc/{process}/{name}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_read_past_any_name() {
        assert_eq!(group_of("17 (a) b) S 3 42 42 0"), Some(42));
        assert_eq!(group_of("17 (dead) Z 3 42 42 0"), None);
        assert_eq!(group_of(""), None);
    }

    #[test]
    fn memory_is_that_of_the_process() {
        if !are_visible() {
            eprintln!("skipped: this system has no /proc");
            return;
        }
        let this = i32::try_from(std::process::id()).unwrap();
        let before = memory(this);
        let block = std::hint::black_box(vec![1_u8; 64 << 20]);
        assert!(memory(this) >= before + (60 << 20), "{before}");
        drop(block);
    }
}
