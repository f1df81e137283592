//! Signals as flags that work looks at: a stop between two steps loses nothing.
//!
//! | signal | from | `run` | `work` |
//! |---|---|---|---|
//! | SIGINT | Ctrl-C | save and stop; the second ends at once | the same |
//! | SIGTERM, SIGHUP | `kill`, `scancel`, preemption, a closed terminal | save and stop | the same |
//! | SIGUSR1 | Slurm, some time before the limit or at preemption | – | save, stop, and ask to be run again |
//!
//! `train` stops as `run` does, and has nothing to save. A second SIGTERM or SIGHUP changes nothing: Slurm
//! sends several before it kills, a terminal that is
//! closed sends one and its shell another, and the first may find a checkpoint half written. SIGHUP that was
//! ignored when the program began, as `nohup` has it, stays ignored. SIGINT does not: shells begin what is to
//! run in the background so, and Ctrl-C is to stop it, too.

use anyhow::{Context, Result};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// What a shell gives for a program that an interrupt ended.
const INTERRUPTED: i32 = 130;

/// The signals that ask for an end.
const END: &[i32] = &[
    SIGINT,
    SIGTERM,
    #[cfg(unix)]
    signal_hook::consts::SIGHUP,
];

/// A flag that a request to end raises; a second Ctrl-C ends the program at once.
pub fn stop_on_signal() -> Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    raise_on_end(&stop).context("cannot listen for Ctrl-C")?;
    Ok(stop)
}

/// Lets requests to end pass.
pub fn disregard() -> Result<()> {
    let nobody = Arc::new(AtomicBool::new(false));
    for signal in END {
        flag::register(*signal, Arc::clone(&nobody)).context("cannot listen for signals")?;
    }
    Ok(())
}

/// What a worker was told.
pub struct Told {
    /// It is to save its work and stop.
    pub stop: Arc<AtomicBool>,
    again: Arc<AtomicBool>,
}

impl Told {
    /// Listens from now on. Until then SIGUSR1 ends a program, so this comes first.
    pub fn listen() -> Result<Self> {
        let told = Self {
            stop: Arc::new(AtomicBool::new(false)),
            again: Arc::new(AtomicBool::new(false)),
        };
        told.register().context("cannot listen for signals")?;
        Ok(told)
    }

    fn register(&self) -> io::Result<()> {
        raise_on_end(&self.stop)?;
        #[cfg(unix)]
        for raised in [&self.again, &self.stop] {
            flag::register(signal_hook::consts::SIGUSR1, Arc::clone(raised))?;
        }
        Ok(())
    }

    /// Whether the stop is for a while only: what is left is to be run again.
    pub fn to_come_again(&self) -> bool {
        self.again.load(Ordering::Relaxed)
    }
}

/// Requests to end raise the flag; a Ctrl-C that finds it raised ends the program.
fn raise_on_end(stop: &Arc<AtomicBool>) -> io::Result<()> {
    for signal in END.iter().filter(|signal| !is_hangup_ignored(**signal)) {
        if *signal == SIGINT {
            flag::register_conditional_shutdown(SIGINT, INTERRUPTED, Arc::clone(stop))?;
        }
        flag::register(*signal, Arc::clone(stop))?;
    }
    Ok(())
}

/// Whether it is SIGHUP, and whoever started this program wants it ignored; where there is no /proc,
/// that is not known.
#[cfg(unix)]
fn is_hangup_ignored(signal: i32) -> bool {
    if signal != signal_hook::consts::SIGHUP {
        return false;
    }
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status
        .lines()
        .find_map(|line| line.strip_prefix("SigIgn:"))
        .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}

#[cfg(not(unix))]
fn is_hangup_ignored(_: i32) -> bool {
    false
}
