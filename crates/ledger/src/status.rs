//! The state of a ledger at a glance: for `status`, progress and the live page.

use crate::claims_view::{Claimant, ClaimsView};
use crate::error::LedgerError;
use crate::journal::{Ledger, Warning};
use crate::merge::Conflict;
use crate::moment::Moment;
use std::collections::BTreeMap;
use std::time::SystemTime;

/// What the ledger holds and who is at work.
#[derive(Debug, Clone, PartialEq)]
pub struct Status {
    /// Records that do not count because another of their run does.
    pub duplicates: usize,
    /// Everyone who has records or living claims, by name.
    pub writers: Vec<WriterStatus>,
    /// Who is at work, on what.
    pub claimants: Vec<Claimant>,
    /// Lines that were left out.
    pub warnings: Vec<Warning>,
    /// Runs that gave different results where they must not: an alarm.
    pub conflicts: Vec<Conflict>,
}

/// One writing process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WriterStatus {
    /// The name of its file.
    pub name: String,
    /// Records it has written, duplicates included.
    pub records: usize,
    /// When it last recorded something or gave a sign of life.
    pub last_activity: Option<SystemTime>,
    /// Runs it is working on; 0 if it is done or dead.
    pub claimed: usize,
}

impl Status {
    /// Runs that someone is working on.
    pub fn claimed(&self) -> usize {
        self.writers.iter().map(|writer| writer.claimed).sum()
    }
}

impl Ledger {
    /// Its state, as far as it has been read; call [`refresh`](Self::refresh)
    /// before for the latest. Whoever asks again keeps the view of the claims: it remembers when each
    /// claimant was last heard, and a new one would trust a stamp from a fast clock.
    pub fn status(&self, claims: &mut ClaimsView, now: Moment) -> Result<Status, LedgerError> {
        let claimants = claims.living(now)?;
        Ok(Status {
            duplicates: self.duplicates(),
            writers: self.writer_statuses(&claimants),
            claimants,
            warnings: self.warnings(),
            conflicts: self.conflicts(),
        })
    }

    fn writer_statuses(&self, claimants: &[Claimant]) -> Vec<WriterStatus> {
        let mut statuses: BTreeMap<String, WriterStatus> = BTreeMap::new();
        for (name, records, last_activity) in self.writers() {
            let status = WriterStatus {
                name: name.into(),
                records,
                last_activity,
                claimed: 0,
            };
            statuses.insert(name.into(), status);
        }
        for claimant in claimants {
            let status = statuses
                .entry(claimant.writer.clone())
                .or_insert_with(|| WriterStatus {
                    name: claimant.writer.clone(),
                    records: 0,
                    last_activity: None,
                    claimed: 0,
                });
            let unrecorded = |run: &&_| self.get(**run).is_none();
            status.claimed = claimant.runs.iter().filter(unrecorded).count();
            status.last_activity = status.last_activity.max(Some(claimant.last_activity));
        }
        statuses.into_values().collect()
    }
}
