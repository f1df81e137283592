//! `noisescale status`: where a study stands, from any shell.

use crate::cli::StatusArgs;
use crate::folder::Folder;
use anyhow::Result;
use ledger::Status;
use spec::Record;
use std::time::SystemTime;

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
    in_progress: usize,
    warnings: Vec<String>,
    alarms: Vec<String>,
}

/// Prints where a study stands.
pub fn run(args: &StatusArgs) -> Result<()> {
    let folder = Folder::open(&args.dir)?;
    let status: Status = folder.ledger.status(SystemTime::now())?;
    let records: Vec<&Record> = folder.ledger.records().collect();
    let grown = folder.grown(&records);
    let study = &folder.study;
    let counts = analysis::observe(study, &grown.points, records).counts;
    let standing = Standing {
        study: study.title.clone(),
        recorded: counts.recorded,
        planned: counts.planned,
        skipped: counts.skipped,
        trained: status.outcomes.trained,
        stalled: status.outcomes.stalled,
        diverged: status.outcomes.diverged,
        in_progress: status.claimed(),
        warnings: status.warnings.iter().map(ToString::to_string).collect(),
        alarms: status.conflicts.iter().map(ToString::to_string).collect(),
    };
    match args.json {
        true => println!("{}", serde_json::to_string_pretty(&standing)?),
        false => print(&standing),
    }
    Ok(())
}

fn print(standing: &Standing) {
    let share = 100.0 * standing.recorded as f64 / standing.planned.max(1) as f64;
    println!("{}", standing.study);
    println!(
        "{} of {} runs recorded ({share:.0} %)",
        standing.recorded, standing.planned
    );
    if standing.skipped > 0 {
        println!(
            "{} more left out so far by the adaptive rule",
            standing.skipped
        );
    }
    println!(
        "{} trained, {} stalled, {} diverged; {} claimed by running processes",
        standing.trained, standing.stalled, standing.diverged, standing.in_progress
    );
    for warning in &standing.warnings {
        println!("warning: {warning}");
    }
    for alarm in &standing.alarms {
        println!("alarm: {alarm}");
    }
}
