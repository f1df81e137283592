//! Who writes: a name that no other process on any machine has, found without
//! coordination, and whether the process behind such a name still lives.

use std::hash::{BuildHasher, RandomState};
use std::sync::OnceLock;
use std::time::{SystemTime, UNIX_EPOCH};

/// This process: when it began to write, where, and a random part that keeps
/// apart what shares all three (containers with equal hosts and pids).
#[derive(Debug)]
pub(crate) struct Process {
    pub host: String,
    pub pid: u32,
    /// `<UTC start>-<host>-<pid>-<random>`. The time comes first so that names
    /// sort by age, and the first record of a run stays the one that counts.
    pub writer: String,
}

impl Process {
    /// The one this code runs in.
    pub fn this() -> &'static Self {
        static THIS: OnceLock<Process> = OnceLock::new();
        THIS.get_or_init(|| {
            let host = host_name();
            let pid = std::process::id();
            let start = utc_stamp(SystemTime::now());
            let random = random_bits();
            let writer = format!("{start}-{host}-{pid}-{random:08x}");
            Self { host, pid, writer }
        })
    }

    /// Whether another process, known by what it wrote about itself, is gone: it
    /// ran here, and nothing has its pid, or this process has.
    ///
    /// A container of the same host name sees other pids, and takes a process of
    /// another one for gone that is not. Its claims are then ignored: at worst,
    /// work is done twice.
    pub fn outlived(&self, host: &str, pid: u32, writer: &str) -> bool {
        let itself = writer.starts_with(&self.writer);
        host == self.host && !itself && (pid == self.pid || !is_running(pid))
    }
}

/// The hasher's keys come from the system's random source.
pub(crate) fn random_bits() -> u32 {
    (RandomState::new().hash_one(std::process::id()) >> 32) as u32
}

#[cfg(unix)]
fn host_name() -> String {
    plain(&rustix::system::uname().nodename().to_string_lossy())
}

#[cfg(not(unix))]
fn host_name() -> String {
    plain(&std::env::var("COMPUTERNAME").unwrap_or_default())
}

/// A process of another user cannot be signalled but lives: only "no such
/// process" counts.
#[cfg(unix)]
fn is_running(pid: u32) -> bool {
    let pid = i32::try_from(pid)
        .ok()
        .and_then(rustix::process::Pid::from_raw);
    pid.is_none_or(|pid| rustix::process::test_kill_process(pid) != Err(rustix::io::Errno::SRCH))
}

#[cfg(not(unix))]
fn is_running(_pid: u32) -> bool {
    true
}

/// The host's name as part of a file name.
fn plain(host: &str) -> String {
    let fitting = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
    let plain: String = host.chars().take(40).map(fitting).collect();
    if plain.is_empty() {
        "host".into()
    } else {
        plain
    }
}

/// `20260131T235959Z`.
fn utc_stamp(time: SystemTime) -> String {
    let seconds = time
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs());
    let (days, of_day) = (seconds / 86_400, seconds % 86_400);
    let (hour, minute, second) = (of_day / 3600, of_day / 60 % 60, of_day % 60);
    let date = civil_date(days);
    format!("{date}T{hour:02}{minute:02}{second:02}Z")
}

/// Days since 1970-01-01 as `YYYYMMDD`; H. Hinnant, *chrono-Compatible
/// Low-Level Date Algorithms*, `civil_from_days`, for days that are not negative.
fn civil_date(days: u64) -> String {
    let shifted = days + 719_468;
    let (era, of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 {
        from_march + 3
    } else {
        from_march - 9
    };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    format!("{year:04}{month:02}{day:02}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn stamps_are_utc() {
        let at = |seconds| utc_stamp(UNIX_EPOCH + Duration::from_secs(seconds));
        assert_eq!(at(0), "19700101T000000Z");
        // `date -u -d @951782399` and the leap day after it.
        assert_eq!(at(951_782_399), "20000228T235959Z");
        assert_eq!(at(951_782_400), "20000229T000000Z");
        assert_eq!(at(1_767_225_599), "20251231T235959Z");
        assert_eq!(at(1_767_225_600), "20260101T000000Z");
    }

    #[test]
    fn hosts_become_plain() {
        assert_eq!(plain("node-1.cluster/é"), "node-1-cluster--");
        assert_eq!(plain(""), "host");
    }

    #[cfg(unix)]
    #[test]
    fn only_a_process_of_this_host_can_be_known_gone() {
        let this = Process::this();
        let parent = std::os::unix::process::parent_id();
        assert!(!this.outlived(&this.host, this.pid, &this.writer));
        assert!(!this.outlived(&this.host, parent, "other"));
        // The pid was given out again, to us.
        assert!(this.outlived(&this.host, this.pid, "other"));
        // Above the largest pid of any system.
        assert!(this.outlived(&this.host, 0x7fff_fff0, "other"));
        assert!(!this.outlived("elsewhere", 0x7fff_fff0, "other"));
    }
}
