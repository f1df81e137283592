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

/// The command line of one run, as a shell would take it.
pub fn command_line(words: &[String]) -> String {
    let quoted: Vec<String> = words.iter().map(|word| quoted(word)).collect();
    quoted.join(" ")
}

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

/// A word in single quotes where a shell would otherwise read something into it.
pub fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_=./:,+@%".contains(c);
    match !word.is_empty() && word.chars().all(plain) {
        true => word.into(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::quoted;

    #[test]
    fn words_are_quoted_where_a_shell_needs_it() {
        for (word, expected) in [
            ("--width=8", "--width=8"),
            ("a b", "'a b'"),
            ("", "''"),
            ("it's", r"'it'\''s'"),
        ] {
            assert_eq!(quoted(word), expected);
        }
    }
}
