//! What the job after an array does: look at the ledger, and send what is left or
//! write the report.

use super::overview::{Overview, Tracked};
use super::send::{self, Claim, Mode, Order, Sent};
use super::submission::{Submission, array_of, finish_of};
use crate::folder::Folder;
use crate::output::say;
use crate::quoting;
use crate::report;
use crate::runner::next_runs;
use anyhow::{Result, bail};
use std::fmt;
use std::path::Path;
use std::time::{Duration, Instant};

/// On a network filesystem a folder's listing may be this old.
const STALE: Duration = Duration::from_secs(60);
/// How often to look again.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Why no further round is sent though runs are missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum GiveUp {
    /// A round that recorded nothing would be followed by others like it.
    NoProgress,
    /// So many rounds were asked for.
    Rounds,
    /// Somebody cancelled tasks.
    Cancelled,
}

impl fmt::Display for GiveUp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoProgress => "none of the tasks recorded a run, so none is sent again",
            Self::Rounds => "this was the last round",
            Self::Cancelled => "tasks were cancelled, so none is sent again",
        })
    }
}

/// Looks what came of a submission.
pub fn run(dir: &Path, name: &str) -> Result<()> {
    let mut folder = Folder::open(dir)?;
    let submission = Submission::read(dir, name)?;
    let recorded = settle(&mut folder, &submission)?;
    say!(
        "Submission {name}: {recorded} of {} runs recorded",
        submission.runs().count()
    );
    if next_runs(&folder).is_empty() {
        return report::write(&[folder], dir, false);
    }
    let overview = Overview::ask(dir)?;
    let one = overview
        .tracked
        .iter()
        .find(|one| one.submission.name == name);
    let cancelled = one.is_some_and(Tracked::was_cancelled);
    match reason_to_give_up(&submission, recorded, cancelled) {
        None => follow_up(folder, &submission),
        Some(reason) => give_up(folder, &submission, reason),
    }
}

/// How long this job waits for what others may have written.
fn patience(submission: &Submission) -> Duration {
    let asked = Duration::try_from_secs_f64(submission.parameters.patience);
    asked.map_or(STALE, |asked| asked.min(STALE))
}

/// How many runs of the submission are recorded, once the ledger shows everything.
fn settle(folder: &mut Folder, submission: &Submission) -> Result<usize> {
    let patience = patience(submission);
    let start = Instant::now();
    loop {
        folder.ledger.refresh()?;
        let (mut recorded, mut missing) = (0, 0);
        for run in submission.runs() {
            match folder.ledger.get(run) {
                Some(_) => recorded += 1,
                None => missing += 1,
            }
        }
        if missing == 0 || start.elapsed() >= patience {
            return Ok(recorded);
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

fn reason_to_give_up(submission: &Submission, recorded: usize, cancelled: bool) -> Option<GiveUp> {
    match () {
        () if cancelled => Some(GiveUp::Cancelled),
        () if recorded == 0 => Some(GiveUp::NoProgress),
        () if submission.round >= submission.parameters.rounds => Some(GiveUp::Rounds),
        () => None,
    }
}

/// The next round: what the tasks lost, or what the study asks for next.
fn follow_up(folder: Folder, submission: &Submission) -> Result<()> {
    let order = Order {
        parameters: submission.parameters.clone(),
        claim: Claim::Respected,
        after: Some(submission),
    };
    match send::send(&folder, order, Mode::Submit)? {
        Sent::Submitted(next) => next.announce(folder.ledger.dir()),
        Sent::OnItsWay { runs } => {
            say!("The {runs} missing runs are with tasks of other submissions.");
        }
        Sent::Taken(name) => sent_by_another(&folder, submission, &name)?,
        Sent::Shown | Sent::NothingMissing => {
            let dir = folder.ledger.dir().to_path_buf();
            report::write(&[folder], &dir, false)?;
        }
    }
    Ok(())
}

/// The next round has its name from another process, as from this job before Slurm ran it again.
/// One that died before it had sent everything has ended the chain.
fn sent_by_another(folder: &Folder, submission: &Submission, name: &str) -> Result<()> {
    let (dir, start) = (folder.ledger.dir(), Instant::now());
    loop {
        let array = array_of(dir, name);
        if array.is_some() && finish_of(dir, name).is_some() {
            say!("Submission {name} has been made already.");
            return Ok(());
        }
        if start.elapsed() < patience(submission) {
            std::thread::sleep(LOOK_EVERY);
            continue;
        }
        match array {
            None => bail!(
                "{} runs are missing: submission {name} was begun, and whoever began it ended before \
                 its tasks were submitted; `noisescale slurm resubmit {}` sends what is missing",
                next_runs(folder).len(),
                quoting::path(dir)
            ),
            Some(array) => bail!(
                "submission {name}: array {array} is submitted, but not the job after it; \
                 `noisescale slurm status {}` says when the tasks are done and what is then to do",
                quoting::path(dir)
            ),
        }
    }
}

/// The report of what there is.
fn give_up(folder: Folder, submission: &Submission, reason: GiveUp) -> Result<()> {
    let missing = next_runs(&folder).len();
    let dir = folder.ledger.dir().to_path_buf();
    if folder.ledger.runs() > 0 {
        report::write(&[folder], &dir, false)?;
    }
    bail!(
        "{missing} runs are missing: {reason}; the logs are in {}; \
         `noisescale slurm resubmit {}` sends what is missing",
        submission.folder(&dir).join("logs").display(),
        quoting::path(&dir)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slurm::parameters::Parameters;

    #[test]
    fn rounds_end() {
        let parameters = Parameters {
            rounds: 2,
            ..Parameters::usual().unwrap()
        };
        let round =
            |round| Submission::new("0001".into(), "s".into(), round, parameters.clone(), &[]);
        assert_eq!(reason_to_give_up(&round(1), 5, false), None);
        assert_eq!(
            reason_to_give_up(&round(1), 0, false),
            Some(GiveUp::NoProgress)
        );
        assert_eq!(reason_to_give_up(&round(2), 5, false), Some(GiveUp::Rounds));
        assert_eq!(
            reason_to_give_up(&round(1), 5, true),
            Some(GiveUp::Cancelled)
        );
    }
}
