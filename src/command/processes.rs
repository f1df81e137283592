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
    use std::io::{BufRead, BufReader, Write};
    use std::process::{Command, Stdio};

    #[test]
    fn groups_are_read_past_any_name() {
        assert_eq!(group_of("17 (a) b) S 3 42 42 0"), Some(42));
        assert_eq!(group_of("17 (dead) Z 3 42 42 0"), None);
        assert_eq!(group_of(""), None);
    }

    /// Set for the process that is measured: this program again, so that no other test gives or
    /// takes memory in it.
    const MEASURED: &str = "NOISESCALE_TEST_MEASURED";
    const BLOCK: usize = 64 << 20;

    /// Not a test of its own: what the measured process does, a step for every line it is sent.
    #[test]
    fn helper_takes_memory() {
        if std::env::var_os(MEASURED).is_none() {
            return;
        }
        let mut line = String::new();
        println!("\nstarted");
        io::stdin().read_line(&mut line).unwrap();
        let block = std::hint::black_box(vec![1_u8; BLOCK]);
        println!("\ntaken");
        io::stdin().read_line(&mut line).unwrap();
        drop(block);
    }

    #[test]
    fn memory_is_that_of_the_process() {
        if !are_visible() {
            eprintln!("skipped: this system has no /proc");
            return;
        }
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "--nocapture", "--test-threads=1"])
            .arg("command::processes::tests::helper_takes_memory")
            .env(MEASURED, "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let process = i32::try_from(child.id()).unwrap();
        let mut orders = child.stdin.take().unwrap();
        let mut words = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut memory_when = |word: &str| {
            assert!(words.any(|line| line.unwrap() == word), "never {word}");
            memory(process)
        };
        let before = memory_when("started");
        orders.write_all(b"\n").unwrap();
        let after = memory_when("taken");
        drop(orders);
        assert!(child.wait().unwrap().success());
        let block = BLOCK as u64;
        assert!(0 < before && before < block, "{before}");
        assert!(after >= block, "{before}, then {after}");
        assert_eq!(memory(process), 0, "it has ended");
    }
}
