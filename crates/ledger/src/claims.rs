//! Sharing work between processes on one folder, without locks.
//!
//! A claim is a hint: "I am training these runs." Others leave them alone while
//! the claimant gives signs of life, and take them over once it has been silent
//! for a [`LEASE`]. Two processes may still train one run (claims cross on a slow
//! filesystem, a node comes back from the dead); then the ledger counts one
//! record. So nothing is ever wrong because of claims, at worst some work is
//! done twice, and no claim needs to be exact, agreed upon or synchronised.
//!
//! Each process appends to its own file: `{"at_ms":…,"claim":[…]}`,
//! `{"at_ms":…,"release":[…]}`, or `{"at_ms":…}` as a bare sign of life.

use crate::claims_view::{ClaimLine, ClaimsView};
use crate::disk::create_folder;
use crate::error::{Action, LedgerError};
use crate::line_file::LineFile;
use crate::moment::Moment;
use spec::RunId;
use std::collections::{BTreeSet, HashSet};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// How long a silent claimant keeps its claims.
pub const LEASE: Duration = Duration::from_secs(600);

/// How often a claimant gives a sign of life: often enough that several may be
/// late within a lease.
pub const HEARTBEAT: Duration = Duration::from_secs(60);

/// The claims of this process, and a view on those of others.
///
/// Its file is removed when this is dropped; that of a killed process stays and
/// is ignored once its lease is over, or at once on the same machine.
#[derive(Debug)]
pub struct Claims {
    folder: PathBuf,
    view: ClaimsView,
    /// None before the first claim and after a failed line: the next line goes
    /// to a new file and repeats all claims.
    file: Option<LineFile>,
    /// The names of all files made here: one that could not be removed must not
    /// pass for another's, and none is used twice.
    own: HashSet<String>,
    held: BTreeSet<RunId>,
    /// When a line was last written, or could not be: a disk that refuses one is not asked again
    /// at every step.
    last_attempt: Option<Moment>,
}

impl Claims {
    pub(crate) fn new(dir: &Path) -> Self {
        let view = ClaimsView::new(dir);
        Self {
            folder: view.folder().into(),
            view,
            file: None,
            own: HashSet::new(),
            held: BTreeSet::new(),
            last_attempt: None,
        }
    }

    /// Claims those of `runs` that nobody else works on, and returns them in
    /// their order. Of two processes that claim at the same moment the one with
    /// the earlier stamp, then name, keeps the run.
    ///
    /// After an error some of the runs may be claimed or none; training them all
    /// the same is safe, it may only be done twice.
    pub fn claim(&mut self, runs: &[RunId], now: Moment) -> Result<Vec<RunId>, LedgerError> {
        let taken = self.others_claims(now)?;
        let free: Vec<RunId> = runs
            .iter()
            .copied()
            .filter(|run| !taken.contains(run))
            .collect();
        if free.is_empty() {
            return Ok(free);
        }
        self.claim_too(&free, now)?;
        let lost = self.claimed_before(&free, milliseconds(now.wall), now)?;
        self.release(&lost, now)?;
        Ok(free.into_iter().filter(|run| !lost.contains(run)).collect())
    }

    /// Claims all of `runs`, also those that others work on: they are trained here too.
    pub fn claim_too(&mut self, runs: &[RunId], now: Moment) -> Result<(), LedgerError> {
        self.held.extend(runs);
        let claim = ClaimLine {
            at_ms: milliseconds(now.wall),
            claim: runs.to_vec(),
            ..ClaimLine::default()
        };
        self.say(&claim, now).inspect_err(|_| {
            runs.iter().for_each(|run| {
                self.held.remove(run);
            });
        })
    }

    /// Those of `runs` that another claimed at the same moment, and before us.
    fn claimed_before(
        &mut self,
        runs: &[RunId],
        at_ms: u64,
        now: Moment,
    ) -> Result<Vec<RunId>, LedgerError> {
        let Self {
            view, own, file, ..
        } = self;
        let ours = (at_ms, file.as_ref().map_or("", LineFile::name));
        let living = view.look(now)?;
        let others: Vec<_> = living.filter(|(name, _)| !own.contains(*name)).collect();
        let before_us = |run: &&RunId| {
            let mut claims = others
                .iter()
                .filter_map(|(name, seen)| Some((*seen.claims.get(*run)?, *name)));
            claims.any(|theirs| theirs < ours)
        };
        Ok(runs.iter().filter(before_us).copied().collect())
    }

    /// Gives up runs: they are recorded, or will not be trained here.
    pub fn release(&mut self, runs: &[RunId], now: Moment) -> Result<(), LedgerError> {
        let held: Vec<RunId> = runs
            .iter()
            .copied()
            .filter(|run| self.held.remove(run))
            .collect();
        if held.is_empty() {
            return Ok(());
        }
        let release = ClaimLine {
            at_ms: milliseconds(now.wall),
            release: held,
            ..ClaimLine::default()
        };
        self.say(&release, now)
    }

    /// Gives a sign of life if one is due. Call it as often as you like.
    pub fn heartbeat(&mut self, now: Moment) -> Result<(), LedgerError> {
        let recent = self
            .last_attempt
            .is_some_and(|last| now.since(last) < HEARTBEAT);
        if self.held.is_empty() || recent {
            return Ok(());
        }
        let beat = ClaimLine {
            at_ms: milliseconds(now.wall),
            ..ClaimLine::default()
        };
        self.say(&beat, now)
    }

    /// Runs that other living processes work on.
    pub fn others_claims(&mut self, now: Moment) -> Result<HashSet<RunId>, LedgerError> {
        let living = self.view.look(now)?;
        let others = living.filter(|(name, _)| !self.own.contains(*name));
        Ok(others
            .flat_map(|(_, seen)| seen.claims.keys().copied())
            .collect())
    }

    /// The runs claimed here.
    pub fn held(&self) -> impl Iterator<Item = RunId> {
        self.held.iter().copied()
    }

    fn say(&mut self, line: &ClaimLine, now: Moment) -> Result<(), LedgerError> {
        let said = match &mut self.file {
            Some(file) => file
                .append(line)
                .map_err(LedgerError::io(file.path(), Action::Write)),
            None => self.start_over(line.at_ms),
        };
        self.last_attempt = Some(now);
        if said.is_err() {
            self.remove_file();
        }
        said
    }

    /// A new file, with everything that is held.
    fn start_over(&mut self, at_ms: u64) -> Result<(), LedgerError> {
        create_folder(&self.folder)?;
        let file = self
            .file
            .insert(LineFile::create_unlike(&self.folder, &self.own)?);
        self.own.insert(file.name().into());
        let everything = ClaimLine {
            at_ms,
            claim: self.held.iter().copied().collect(),
            ..ClaimLine::default()
        };
        file.append(&everything)
            .map_err(LedgerError::io(file.path(), Action::Write))
    }

    /// Gives up everything that is held, by removing the file that says so. What is known of
    /// others stays.
    pub fn withdraw(&mut self) {
        self.held.clear();
        self.remove_file();
    }

    /// Best effort: a file that stays is ignored in time.
    fn remove_file(&mut self) {
        if let Some(file) = self.file.take() {
            let _ = std::fs::remove_file(file.path());
        }
    }
}

impl Drop for Claims {
    fn drop(&mut self) {
        self.remove_file();
    }
}

fn milliseconds(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_claims_that_cross_the_earlier_keeps_the_run() {
        let dir = tempfile::tempdir().unwrap();
        let run = RunId::try_from("ab".repeat(16)).unwrap();
        // The stamps are of 1970, and so is the clock.
        let now = Moment {
            wall: UNIX_EPOCH,
            ..Moment::now()
        };
        let [mut first, mut second] = [Claims::new(dir.path()), Claims::new(dir.path())];
        // Neither has looked before it claimed.
        for (claims, at_ms) in [(&mut first, 7), (&mut second, 8)] {
            claims.held.insert(run);
            let claim = vec![run];
            let release = Vec::new();
            let line = ClaimLine {
                at_ms,
                claim,
                release,
            };
            claims.say(&line, now).unwrap();
        }
        assert_eq!(first.claimed_before(&[run], 7, now).unwrap(), []);
        assert_eq!(second.claimed_before(&[run], 8, now).unwrap(), [run]);
        // With equal stamps the names decide, and they never are equal.
        assert_eq!(second.claimed_before(&[run], 7, now).unwrap(), [run]);
    }

    /// A disk that refuses a line refuses the next one too.
    #[test]
    fn a_refused_sign_of_life_is_not_tried_again_at_once() {
        let dir = tempfile::tempdir().unwrap();
        let run = RunId::try_from("ab".repeat(16)).unwrap();
        let mut claims = Claims::new(dir.path());
        let now = Moment::now();
        claims.claim(&[run], now).unwrap();
        // The next line goes to a new file, and a file is where its folder should be.
        claims.remove_file();
        std::fs::remove_dir(&claims.folder).unwrap();
        std::fs::write(&claims.folder, "").unwrap();
        assert!(claims.heartbeat(now + HEARTBEAT).is_err());
        claims.heartbeat(now + HEARTBEAT * 3 / 2).unwrap();
        assert!(claims.heartbeat(now + HEARTBEAT * 2).is_err());
        // Once it can, everything that is held is said again.
        std::fs::remove_file(&claims.folder).unwrap();
        claims.heartbeat(now + HEARTBEAT * 3).unwrap();
        let mut other = Claims::new(dir.path());
        let taken = other.others_claims(now + HEARTBEAT * 3).unwrap();
        assert!(taken.contains(&run));
    }
}
