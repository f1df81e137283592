//! Who works on what, as the claims files say, and who of them lives.

use crate::claims::LEASE;
use crate::disk::stems;
use crate::error::LedgerError;
use crate::line_file::{Header, SUFFIX};
use crate::moment::Moment;
use crate::process::Process;
use crate::tail::{Growth, Tail, Verdict};
use serde::{Deserialize, Serialize};
use spec::RunId;
use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A line of a claims file.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct ClaimLine {
    /// Milliseconds since 1970, by the claimant's clock.
    pub at_ms: u64,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub claim: Vec<RunId>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub release: Vec<RunId>,
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
pub(crate) struct Seen {
    tail: Tail,
    author: Option<Header>,
    /// When each run was claimed, by the claimant's clock.
    pub claims: HashMap<RunId, u64>,
    life: Option<Life>,
}

/// The last sign of life of a claimant.
#[derive(Debug)]
struct Life {
    /// When the reader met it.
    met: Moment,
    /// How old it was then.
    age: Duration,
}

impl Life {
    /// How long the claimant has been silent.
    fn silence(&self, now: Moment) -> Duration {
        self.age.saturating_add(now.since(self.met))
    }

    /// When it was, by the reader's clock on the wall.
    fn at(&self) -> SystemTime {
        let wall = self.met.wall;
        wall.checked_sub(self.age).unwrap_or(wall)
    }
}

impl ClaimsView {
    /// The claims on a study's folder.
    pub fn new(dir: &Path) -> Self {
        Self {
            folder: dir.join("claims"),
            seen: BTreeMap::new(),
        }
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Who is at work, by name.
    pub fn living(&mut self, now: Moment) -> Result<Vec<Claimant>, LedgerError> {
        let claimant = |(name, seen): (&str, &Seen)| {
            let mut runs: Vec<RunId> = seen.claims.keys().copied().collect();
            runs.sort_unstable();
            Some(Claimant {
                writer: name.into(),
                runs,
                last_activity: seen.life.as_ref()?.at(),
            })
        };
        Ok(self.look(now)?.filter_map(claimant).collect())
    }

    /// Reads what is new, then gives the files whose writers live.
    pub(crate) fn look(
        &mut self,
        now: Moment,
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
            life: None,
        }
    }

    fn read(&mut self, now: Moment) -> Result<(), LedgerError> {
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
                stamp = Some(UNIX_EPOCH.checked_add(since).unwrap_or(now.wall));
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
    fn note_life(&mut self, stamp: Option<SystemTime>, now: Moment) {
        let Some(stamp) = stamp else { return };
        let age = match self.life {
            None => now.wall.duration_since(stamp).unwrap_or_default(),
            Some(_) => Duration::ZERO,
        };
        self.life = Some(Life { met: now, age });
    }

    fn is_living(&self, now: Moment) -> bool {
        let fresh = (self.life.as_ref()).is_some_and(|life| life.silence(now) <= LEASE);
        let outlived = self
            .author
            .as_ref()
            .is_some_and(|by| Process::this().outlived(&by.host, by.pid, &by.writer));
        fresh && !outlived
    }
}
