//! What the records of a watched study say, how it stands, and how much is left to do.

use super::pace::Pace;
use super::watch::Drawn;
use crate::folder::{FailedRun, Folder, Grown};
use crate::output::counted;
use crate::runner::products;
use ::report::{Standing, Work};
use analysis::Findings;
use analysis::observation::{Observations, Observed};
use ledger::Status;
use spec::{Point, Record, Study};
use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A process that recorded something so recently is at work, even between two claims.
const RECENT: Duration = Duration::from_secs(20);

/// What the records say.
pub struct Found {
    /// All of it.
    pub findings: Arc<Findings>,
    /// The figures.
    pub drawn: Arc<Drawn>,
    /// The points of the grid and what it has grown by.
    pub points: Arc<[Point]>,
    /// Those and what it wants next: a command may have failed there already.
    pub asked: Vec<Point>,
    amount: Amount,
    /// Whether the study asks for more than its points.
    grows: bool,
}

/// Work in products.
struct Amount {
    done: f64,
    left: f64,
}

impl Found {
    /// Works it out, for a study that is shown under this name.
    pub fn of(folder: &Folder, name: &str) -> Self {
        let study = &folder.study;
        let records: Vec<&Record> = folder.ledger.records().collect();
        let grown = folder.grown(&records);
        let asked = folder.asked(&grown, &records);
        let Grown { points, wanted, .. } = grown;
        let observations = analysis::observe(study, &points, records.iter().copied());
        let mut findings = folder.findings_at(&points, records);
        findings.study.name = name.into();
        let figures = ::report::figures(std::slice::from_ref(&findings));
        Self {
            findings: Arc::new(findings),
            drawn: Arc::new(Drawn::new(figures)),
            amount: Amount::of(study, &observations),
            points: points.into(),
            asked,
            grows: !wanted.is_empty(),
        }
    }

    /// Work done so far, in products.
    pub fn done(&self) -> f64 {
        self.amount.done
    }

    /// How the study stands; `failed` are the runs that its own command failed at.
    pub fn standing(&self, status: &Status, pace: &Pace, failed: &[FailedRun]) -> Standing {
        let runs = self.findings.runs;
        let busy = status
            .writers
            .iter()
            .filter(|writer| writer.claimed > 0)
            .count();
        let recent = (status.writers.iter())
            .filter_map(|writer| writer.last_activity?.elapsed().ok())
            .any(|since| since < RECENT);
        let work = if busy > 0 || (recent && runs.recorded < runs.planned) {
            Work::AtWork {
                processes: busy.max(1),
                runs: status.claimed(),
                left: pace.left(Instant::now(), self.amount.left),
            }
        } else if runs.recorded >= runs.planned && !self.grows {
            Work::Complete
        } else {
            Work::Idle
        };
        let warnings = status
            .warnings
            .iter()
            .map(|warning| format!("warning: {warning}"));
        let alarms = status
            .conflicts
            .iter()
            .map(|conflict| format!("alarm: {conflict}"));
        Standing {
            work,
            trained: runs.trained,
            stalled: runs.stalled,
            diverged: runs.diverged,
            warnings: warnings.chain(alarms).chain(failures(failed)).collect(),
        }
    }
}

/// How many runs failed, and why the last one did.
fn failures(failed: &[FailedRun]) -> Option<String> {
    let newest = failed.iter().max_by_key(|run| run.failure.at_ms)?;
    let runs = counted(failed.len(), "run");
    let reason = &newest.failure.reason;
    Some(format!(
        "{runs} gave no outcome so far; the last time {reason}"
    ))
}

impl Amount {
    /// The work of a study's points, each run counted once.
    fn of(study: &Study, observations: &Observations<'_>) -> Self {
        let mut seen = HashSet::new();
        let once = |observed: &&Observed<'_>| {
            let point = observed.point;
            let rate = point.learning_rate.get().to_bits();
            seen.insert((point.width, point.batch_size, rate, point.steps))
        };
        let mut amount = Self {
            done: 0.0,
            left: 0.0,
        };
        for observed in observations.points.iter().filter(once) {
            let run = observed.point.run(study, 0);
            let products = products(&run);
            let tally = observed.tally();
            amount.done += products * f64::from(tally.recorded);
            amount.left += products * f64::from(tally.missing());
        }
        amount
    }
}
