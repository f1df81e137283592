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

use crate::disk::{create_folder, stems};
use crate::error::{Action, LedgerError};
use crate::line_file::{Header, LineFile, SUFFIX};
use crate::process::Process;
use crate::tail::{Growth, Tail, Verdict};
use serde::{Deserialize, Serialize};
use spec::RunId;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// How long a silent claimant keeps its claims.
pub const LEASE: Duration = Duration::from_secs(600);

/// How often a claimant gives a sign of life: often enough that several may be
/// late within a lease.
pub const HEARTBEAT: Duration = Duration::from_secs(60);

/// A line of a claims file.
#[derive(Debug, Default, Serialize, Deserialize)]
struct ClaimLine {
    /// Milliseconds since 1970, by the claimant's clock.
    at_ms: u64,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    claim: Vec<RunId>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    release: Vec<RunId>,
}

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
    /// pass for another's.
    own: HashSet<String>,
    held: BTreeSet<RunId>,
    last_line: Option<SystemTime>,
}

impl Claims {
    pub(crate) fn new(dir: &Path) -> Self {
        let view = ClaimsView::new(dir);
        Self {
            folder: view.folder.clone(),
            view,
            file: None,
            own: HashSet::new(),
            held: BTreeSet::new(),
            last_line: None,
        }
    }

    /// Claims those of `runs` that nobody else works on, and returns them in
    /// their order. Of two processes that claim at the same moment the one with
    /// the earlier stamp, then name, keeps the run.
    ///
    /// After an error nothing is claimed; training the runs all the same is
    /// safe, it may only be done twice.
    pub fn claim(&mut self, runs: &[RunId], now: SystemTime) -> Result<Vec<RunId>, LedgerError> {
        let taken = self.others_claims(now)?;
        let free: Vec<RunId> = runs
            .iter()
            .copied()
            .filter(|run| !taken.contains(run))
            .collect();
        if free.is_empty() {
            return Ok(free);
        }
        self.held.extend(&free);
        let at_ms = milliseconds(now);
        let claim = ClaimLine {
            at_ms,
            claim: free.clone(),
            ..ClaimLine::default()
        };
        if let Err(error) = self.say(&claim, now) {
            free.iter().for_each(|run| {
                self.held.remove(run);
            });
            return Err(error);
        }
        let lost = self.claimed_before(&free, at_ms, now)?;
        self.release(&lost, now)?;
        Ok(free.into_iter().filter(|run| !lost.contains(run)).collect())
    }

    /// Those of `runs` that another claimed at the same moment, and before us.
    fn claimed_before(
        &mut self,
        runs: &[RunId],
        at_ms: u64,
        now: SystemTime,
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
    pub fn release(&mut self, runs: &[RunId], now: SystemTime) -> Result<(), LedgerError> {
        let held: Vec<RunId> = runs
            .iter()
            .copied()
            .filter(|run| self.held.remove(run))
            .collect();
        if held.is_empty() {
            return Ok(());
        }
        let release = ClaimLine {
            at_ms: milliseconds(now),
            release: held,
            ..ClaimLine::default()
        };
        self.say(&release, now)
    }

    /// Gives a sign of life if one is due. Call it as often as you like.
    pub fn heartbeat(&mut self, now: SystemTime) -> Result<(), LedgerError> {
        let recent = self
            .last_line
            .is_some_and(|last| elapsed(last, now) < HEARTBEAT);
        if self.held.is_empty() || recent {
            return Ok(());
        }
        let beat = ClaimLine {
            at_ms: milliseconds(now),
            ..ClaimLine::default()
        };
        self.say(&beat, now)
    }

    /// Runs that other living processes work on.
    pub fn others_claims(&mut self, now: SystemTime) -> Result<HashSet<RunId>, LedgerError> {
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

    fn say(&mut self, line: &ClaimLine, now: SystemTime) -> Result<(), LedgerError> {
        let said = match &mut self.file {
            Some(file) => file
                .append(line)
                .map_err(LedgerError::io(file.path(), Action::Write)),
            None => self.start_over(line.at_ms),
        };
        match said {
            Ok(()) => self.last_line = Some(now),
            Err(_) => self.withdraw(),
        }
        said
    }

    /// A new file, with everything that is held.
    fn start_over(&mut self, at_ms: u64) -> Result<(), LedgerError> {
        create_folder(&self.folder)?;
        let file = self.file.insert(LineFile::create(&self.folder)?);
        self.own.insert(file.name().into());
        let everything = ClaimLine {
            at_ms,
            claim: self.held.iter().copied().collect(),
            ..ClaimLine::default()
        };
        file.append(&everything)
            .map_err(LedgerError::io(file.path(), Action::Write))
    }

    /// Best effort: a file that stays is ignored in time.
    fn withdraw(&mut self) {
        self.last_line = None;
        if let Some(file) = self.file.take() {
            let _ = std::fs::remove_file(file.path());
        }
    }
}

impl Drop for Claims {
    fn drop(&mut self) {
        self.withdraw();
    }
}

/// A process that is at work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claimant {
    /// The name of its file.
    pub writer: String,
    /// What it works on, by run id.
    pub runs: Vec<RunId>,
    /// Its last sign of life.
    pub last_activity: SystemTime,
}

/// Reads everyone's claims; writes nothing.
#[derive(Debug)]
pub struct ClaimsView {
    folder: PathBuf,
    seen: BTreeMap<String, Seen>,
}

/// What is known of one claims file.
#[derive(Debug)]
struct Seen {
    tail: Tail,
    author: Option<Header>,
    /// When each run was claimed, by the claimant's clock.
    claims: HashMap<RunId, u64>,
    /// The last sign of life, by the reader's clock.
    last_activity: Option<SystemTime>,
}

impl ClaimsView {
    /// The claims on a study's folder.
    pub fn new(dir: &Path) -> Self {
        Self {
            folder: dir.join("claims"),
            seen: BTreeMap::new(),
        }
    }

    /// Who is at work, by name.
    pub fn living(&mut self, now: SystemTime) -> Result<Vec<Claimant>, LedgerError> {
        let claimant = |(name, seen): (&str, &Seen)| {
            let mut runs: Vec<RunId> = seen.claims.keys().copied().collect();
            runs.sort_unstable();
            Some(Claimant {
                writer: name.into(),
                runs,
                last_activity: seen.last_activity?,
            })
        };
        Ok(self.look(now)?.filter_map(claimant).collect())
    }

    /// Reads what is new, then gives the files whose writers live.
    fn look(
        &mut self,
        now: SystemTime,
    ) -> Result<impl Iterator<Item = (&str, &Seen)>, LedgerError> {
        let stems = stems(&self.folder, SUFFIX)?;
        self.seen
            .retain(|name, _| stems.binary_search(name).is_ok());
        for stem in stems {
            let path = self.folder.join(format!("{stem}{SUFFIX}"));
            let seen = self.seen.entry(stem).or_insert_with(|| Seen::new(path));
            seen.read(now)?;
        }
        Ok(self
            .seen
            .iter()
            .filter(move |(_, seen)| seen.is_living(now))
            .map(|(name, seen)| (name.as_str(), seen)))
    }
}

impl Seen {
    fn new(path: PathBuf) -> Self {
        Self {
            tail: Tail::new(path),
            author: None,
            claims: HashMap::new(),
            last_activity: None,
        }
    }

    fn read(&mut self, now: SystemTime) -> Result<(), LedgerError> {
        let Self {
            tail,
            author,
            claims,
            ..
        } = self;
        let mut stamp = None;
        let growth = tail.read(|_, content| {
            if let Ok(line) = serde_json::from_slice::<ClaimLine>(content) {
                claims.extend(line.claim.iter().map(|run| (*run, line.at_ms)));
                line.release.iter().for_each(|run| {
                    claims.remove(run);
                });
                let since = Duration::from_millis(line.at_ms);
                // A stamp beyond what a clock can show is in the future.
                stamp = Some(UNIX_EPOCH.checked_add(since).unwrap_or(now));
                return Ok(Verdict::Good);
            }
            match serde_json::from_slice(content) {
                Ok(header) => {
                    *author = Some(header);
                    Ok(Verdict::Good)
                }
                Err(error) => Ok(Verdict::Bad(error.to_string())),
            }
        })?;
        match growth {
            Growth::Lines(_) => self.note_life(stamp, now),
            Growth::Cut => *self = Self::new(self.tail.path().to_path_buf()),
        }
        Ok(())
    }

    /// Clocks of machines differ. On first sight there is only the claimant's
    /// own stamp, of which a future one says no more than "now"; afterwards a
    /// file that grew is a sign of life by the reader's clock alone.
    fn note_life(&mut self, stamp: Option<SystemTime>, now: SystemTime) {
        let Some(stamp) = stamp else { return };
        self.last_activity = Some(match self.last_activity {
            None => stamp.min(now),
            Some(_) => now,
        });
    }

    fn is_living(&self, now: SystemTime) -> bool {
        let fresh = self
            .last_activity
            .is_some_and(|last| elapsed(last, now) <= LEASE);
        let outlived = self
            .author
            .as_ref()
            .is_some_and(|by| Process::this().outlived(&by.host, by.pid, &by.writer));
        fresh && !outlived
    }
}

/// Zero if the clock was set back.
fn elapsed(since: SystemTime, now: SystemTime) -> Duration {
    now.duration_since(since).unwrap_or_default()
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
            claims.say(&line, UNIX_EPOCH).unwrap();
        }
        assert_eq!(first.claimed_before(&[run], 7, UNIX_EPOCH).unwrap(), []);
        assert_eq!(second.claimed_before(&[run], 8, UNIX_EPOCH).unwrap(), [run]);
        // With equal stamps the names decide, and they never are equal.
        assert_eq!(second.claimed_before(&[run], 7, UNIX_EPOCH).unwrap(), [run]);
    }
}
