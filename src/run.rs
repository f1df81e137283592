//! `noisescale run`: plan a study, train what is missing, and report.

use crate::cli::RunStudyArgs;
use crate::failure::{FailedRuns, Interrupted};
use crate::folder::Folder;
use crate::output::{Form, counted};
use crate::runner::{self, Display, Finish, Means, Task, human_duration};
use crate::{report, signals, studies};
use anyhow::Result;
use std::time::{Duration, Instant};

/// Runs the study and writes its report.
pub fn run(args: &RunStudyArgs) -> Result<()> {
    let overrides = args.select.overrides();
    let source = studies::open(&args.select.study, &overrides)?;
    let dir = source.folder(args.out.as_deref());
    let trainer = args.device.open(&source.study)?;
    let mut folder = Folder::create(&dir, source)?;
    let stop = signals::stop_on_signal()?;
    let display = Display::new(args.quiet);
    let form = Form::of(args.json);
    let start = Instant::now();
    if !args.quiet {
        form.remark(&format!(
            "{}: {}, into {}",
            folder.study.title,
            trainer.in_words(),
            dir.display()
        ));
    }
    let means = Means {
        trainer: &trainer,
        save_every: Duration::from_secs_f64(args.checkpoint_every),
        stop: &stop,
        display: &display,
    };
    let finish = runner::execute(&mut folder, Task::Study, &means);
    display.clear();
    let finish = finish?;
    folder.ledger.refresh()?;
    if finish == Finish::Interrupted {
        return Err(Interrupted::after(folder.ledger.runs()).into());
    }
    if !args.quiet {
        let resumed = match display.runs_resumed() {
            0 => String::new(),
            some => format!(", {some} of them from a checkpoint"),
        };
        form.remark(&format!(
            "{} trained in {}{resumed}, {} recorded",
            counted(display.runs_trained(), "run"),
            human_duration(start.elapsed().as_secs_f64()),
            folder.ledger.runs()
        ));
    }
    let failed = match finish {
        Finish::WithFailures => failed_runs(&folder)?,
        Finish::Complete | Finish::Interrupted => None,
    };
    report::write(&[folder], &dir, args.json)?;
    match failed {
        Some(failed) => Err(failed.into()),
        None => Ok(()),
    }
}

/// The runs at which the study's own command failed, as an error; none if another process
/// has trained them meanwhile.
pub fn failed_runs(folder: &Folder) -> Result<Option<FailedRuns>> {
    let failed = folder.failed_runs(&folder.asked_now())?;
    let newest = failed.iter().max_by_key(|run| run.failure.at_ms);
    Ok(newest.map(|newest| FailedRuns {
        count: failed.len(),
        run: newest.failure.run,
        reason: newest.failure.reason.clone(),
        log: newest
            .failure
            .log
            .as_ref()
            .map(|log| folder.ledger.dir().join(log)),
    }))
}
