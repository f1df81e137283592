//! The claims of this process on a study's runs. They are hints: without them work may be done
//! twice but never wrongly, so an error in them, or in looking what others have recorded, is told
//! once and no more.

use super::progress::Display;
use ledger::{Claims, Ledger, LedgerError, Moment};
use spec::RunId;
use std::collections::HashSet;

/// Keep one instance for the whole study. It remembers when each claimant was last heard; a new view
/// would trust a stamp from a fast clock.
pub struct Hints {
    claims: Claims,
    warned: bool,
}

impl Hints {
    /// None so far.
    pub fn new(ledger: &Ledger) -> Self {
        Self {
            claims: ledger.claims(),
            warned: false,
        }
    }

    /// Claims those of `runs` that nobody else works on; all of them where claims fail.
    pub fn claim(&mut self, runs: &[RunId], display: &Display) -> Vec<RunId> {
        let claimed = self.claims.claim(runs, Moment::now());
        self.told(claimed, display).unwrap_or_else(|| runs.to_vec())
    }

    /// Claims all of `runs`, whoever works on them.
    pub fn claim_too(&mut self, runs: &[RunId], display: &Display) {
        let claimed = self.claims.claim_too(runs, Moment::now());
        self.told(claimed, display);
    }

    /// Gives a sign of life if one is due.
    pub fn beat(&mut self, display: &Display) {
        let beaten = self.claims.heartbeat(Moment::now());
        self.told(beaten, display);
    }

    /// Gives up a run.
    pub fn release(&mut self, run: RunId, display: &Display) {
        let released = self.claims.release(&[run], Moment::now());
        self.told(released, display);
    }

    /// Gives up all of them.
    pub fn withdraw(&mut self) {
        self.claims.withdraw();
    }

    /// Runs that other living processes work on, as far as can be seen.
    pub fn of_others(&mut self, display: &Display) -> HashSet<RunId> {
        let taken = self.claims.others_claims(Moment::now());
        self.told(taken, display).unwrap_or_default()
    }

    /// What came of reading or writing where work goes on all the same: an error is a warning.
    pub fn told<T>(&mut self, result: Result<T, LedgerError>, display: &Display) -> Option<T> {
        result
            .map_err(|error| {
                if !std::mem::replace(&mut self.warned, true) {
                    display.warn(&error.to_string());
                }
            })
            .ok()
    }
}
