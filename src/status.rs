//! `noisescale status`: where a study stands, from any shell.

use crate::cli::StatusArgs;
use crate::folder::{FailedRun, Folder};
use crate::output::{counted, duplicates, further, percent, say};
use anyhow::Result;
use ledger::{ClaimsView, Moment};
use spec::{Failure, FailureKind, Task};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Where a study stands.
#[derive(serde::Serialize)]
struct Standing {
    study: String,
    recorded: usize,
    planned: usize,
    skipped: usize,
    trained: usize,
    stalled: usize,
    diverged: usize,
    /// Records that do not count because another of their run does.
    duplicates: usize,
    /// Records of no run of the study.
    strays: usize,
    in_progress: usize,
    /// Runs that a command of the study's own failed at and that have no record.
    failed: Failed,
    warnings: Vec<String>,
    alarms: Vec<String>,
    /// The user's own data files.
    #[serde(skip)]
    data: Option<PathBuf>,
}

/// Failed runs, and why the last one failed.
#[derive(serde::Serialize)]
struct Failed {
    runs: usize,
    attempts: usize,
    by_kind: BTreeMap<FailureKind, usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    newest: Option<Failure>,
}

impl Failed {
    /// Of these runs.
    fn of(runs: Vec<FailedRun>) -> Self {
        let mut by_kind = BTreeMap::new();
        for run in &runs {
            *by_kind.entry(run.failure.failure).or_default() += 1;
        }
        Self {
            runs: runs.len(),
            attempts: runs.iter().map(|run| run.attempts).sum(),
            by_kind,
            newest: (runs.into_iter().map(|run| run.failure)).max_by_key(|failure| failure.at_ms),
        }
    }
}

/// Prints where a study stands.
pub fn run(args: &StatusArgs) -> Result<()> {
    let folder = Folder::open(&args.dir)?;
    let mut claims = ClaimsView::new(&args.dir);
    let status = folder.ledger.status(&mut claims, Moment::now())?;
    let points = folder.asked_now();
    let study = &folder.study;
    let counts = analysis::observe(study, &points, folder.ledger.records()).counts;
    let standing = Standing {
        study: study.title.clone(),
        recorded: counts.recorded,
        planned: counts.planned,
        skipped: counts.skipped,
        trained: counts.trained,
        stalled: counts.stalled,
        diverged: counts.diverged,
        duplicates: status.duplicates,
        strays: counts.strays,
        in_progress: status.claimed(),
        failed: Failed::of(folder.failed_runs(&points)?),
        warnings: status.warnings.iter().map(ToString::to_string).collect(),
        alarms: status.conflicts.iter().map(ToString::to_string).collect(),
        data: match &study.setting.task {
            Task::Files(files) => Some(files.path.clone()),
            Task::Known { .. } | Task::Declared(_) => None,
        },
    };
    match args.json {
        true => say!("{}", serde_json::to_string_pretty(&standing)?),
        false => print(&standing, &args.dir),
    }
    Ok(())
}

fn print(standing: &Standing, dir: &Path) {
    let share = percent(standing.recorded, standing.planned);
    say!("{}", standing.study);
    say!(
        "{} of {} runs recorded ({share} %)",
        standing.recorded,
        standing.planned
    );
    if standing.skipped > 0 {
        say!(
            "{} more left out so far by the adaptive rule",
            standing.skipped
        );
    }
    say!(
        "{} trained, {} stalled, {} diverged; {} claimed by running processes",
        standing.trained,
        standing.stalled,
        standing.diverged,
        standing.in_progress
    );
    if standing.strays > 0 {
        say!(
            "{} (not used)",
            further(standing.strays, "to no run of the current study")
        );
        if let Some(data) = &standing.data {
            say!(
                "Unless the study was changed, its data were: {} may hold other content than \
                 those runs were trained on; with the old files they count again",
                data.display()
            );
        }
    }
    if let Some(duplicates) = duplicates(standing.duplicates) {
        say!("{duplicates}");
    }
    if let Some(newest) = &standing.failed.newest {
        print_failed(&standing.failed, newest, dir);
    }
    for warning in &standing.warnings {
        say!("warning: {warning}");
    }
    for alarm in &standing.alarms {
        say!("alarm: {alarm}");
    }
}

fn print_failed(failed: &Failed, newest: &Failure, dir: &Path) {
    let kinds: Vec<String> = (failed.by_kind.iter())
        .map(|(kind, count)| format!("{count} {kind}"))
        .collect();
    say!(
        "{} failed so far, in {}: {}; the next `noisescale run` tries again",
        counted(failed.runs, "run"),
        counted(failed.attempts, "attempt"),
        kinds.join(", ")
    );
    say!(
        "the last, run {} (width {}, B {}, ε {}, seed {}): {}",
        newest.run,
        newest.width,
        newest.batch_size,
        newest.learning_rate,
        newest.seed,
        newest.reason
    );
    if let Some(log) = &newest.log {
        say!("log of its stderr: {}", dir.join(log).display());
    }
}
