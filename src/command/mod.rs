//! The third trainer: a command of the user's own, one process per run.
//!
//! A study file names the command; each run is one call of it with the run's
//! values, and what it prints is its result (`docs/TRAINERS.md`). An outcome is
//! recorded as the engine's are. A call that gives none (it crashed, hung, took too
//! much memory or wrote something else) is a failure: it measures nothing, is kept
//! in the ledger's journal of failures, and the run is tried again.
//!
//! Processes are watched from both ends. While noisescale lives it watches the
//! command's time and memory and can stop it; should noisescale itself be killed, a
//! guard in the command's process group ends the group (`group.rs`). So no process
//! outlives its study.

#[cfg(unix)]
mod attempt;
mod desk;
#[cfg(unix)]
mod ending;
#[cfg(unix)]
mod fields;
#[cfg(unix)]
mod group;
#[cfg(unix)]
mod history;
#[cfg(unix)]
mod log;
#[cfg(unix)]
mod output;
#[cfg(unix)]
mod processes;
#[cfg(unix)]
mod protocol;
#[cfg(unix)]
mod running;
pub mod scratch;
#[cfg(unix)]
mod trainer;
mod trial;

pub use desk::{After, Desk, Kept, Sink};
#[cfg(unix)]
pub use group::guard;
#[cfg(unix)]
pub use trainer::CommandTrainer;
pub use trial::Trial;

/// What records call a command.
pub const DEVICE: &str = "command";

use spec::{Call, Study};

/// The command line of the first run that a study plans, for people.
pub fn example(study: &Study) -> Option<Vec<String>> {
    let command = study.setting.command()?;
    let run = spec::plan(study).into_iter().next()?;
    let call = Call {
        run: &run,
        run_folder: "RUN_FOLDER",
        slot: 0,
    };
    Some(command.words(&call))
}
