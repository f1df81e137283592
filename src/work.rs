//! `noisescale work`: train what is missing from a study's folder, or one share of it.
//!
//! The one command that every way of using many machines comes down to: plain,
//! idempotent, with no one to talk to but the folder. With `--shard` it trains
//! its share and nothing else, and 0 as exit code means that every run of the share is
//! recorded, whoever trained it. Without, it takes whatever nobody else has claimed,
//! and goes on with what the study asks for then, until nothing is left.

use crate::device::DeviceArgs;
use crate::failure::{Interrupted, Mistake};
use crate::folder::Folder;
use crate::output::{Form, counted, tell};
use crate::run::failed_runs;
use crate::runner::{self, Display, Finish, Means, Task, human_duration};
use crate::shard::{self, Shard};
use crate::signals::Told;
use crate::slurm::{Submission, requeue};
use crate::values::seconds;
use anyhow::Result;
use clap::Args;
use spec::Run;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// An attempt that was stopped sooner has nothing to show. Were it to ask for another
/// one, a time limit below the warning time would make it come again for ever.
const WORTH_ANOTHER: Duration = Duration::from_secs(5);

/// Which runs of which folder, and on what.
#[derive(Args)]
pub struct WorkArgs {
    /// Folder of a study
    pub dir: PathBuf,
    /// Train this share of the runs, the first being 1/N
    #[arg(long, value_name = "I/N")]
    pub shard: Option<Shard>,
    /// Use the shares of this submission to Slurm
    #[arg(long, value_name = "NAME", requires = "shard")]
    pub submission: Option<String>,
    #[command(flatten)]
    pub device: DeviceArgs,
    /// Save running work every SECONDS seconds, in case it is killed
    #[arg(long, value_name = "SECONDS", value_parser = seconds, allow_negative_numbers = true, default_value_t = 60.0)]
    pub checkpoint_every: f64,
    /// Wait this long for runs of the shard that another process has claimed, then train them too
    #[arg(long, value_name = "SECONDS", value_parser = seconds, allow_negative_numbers = true, default_value_t = 120.0)]
    pub patience: f64,
    /// Show no progress
    #[arg(long, short)]
    pub quiet: bool,
    /// Print the outcome as JSON
    #[arg(long)]
    pub json: bool,
}

/// What came of the work.
#[derive(serde::Serialize)]
struct Worked {
    folder: PathBuf,
    #[serde(skip_serializing_if = "Option::is_none")]
    shard: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    submission: Option<String>,
    end: End,
    /// Runs in the folder when it began, whoever trained them, and now.
    recorded_before: usize,
    recorded: usize,
    seconds: f64,
}

/// How the work ended, if it did not fail.
#[derive(serde::Serialize)]
#[serde(rename_all = "kebab-case")]
enum End {
    /// Every run asked for is recorded.
    Done,
    /// Stopped for a while; Slurm runs the task again.
    Requeued { task: String },
}

/// Trains, and says what came of it.
pub fn run(args: &WorkArgs) -> Result<()> {
    let told = Told::listen()?;
    let start = Instant::now();
    let mut folder = Folder::open(&args.dir)?;
    let share = share(args, &folder)?;
    let title = title(args);
    let form = Form::of(args.json);
    if let Some(runs) = &share
        && folder.ledger.missing(runs.clone()).is_empty()
    {
        let worked = Worked::so_far(args, &folder, folder.ledger.runs(), start);
        return form.answer(&worked, |_| {
            format!("{title}: {} recorded already", all_runs(runs.len()))
        });
    }
    let before = folder.ledger.runs();
    let display = Display::new(args.quiet);
    let finish = train(args, &mut folder, share.as_deref(), &told, &display);
    display.clear();
    let finish = finish?;
    folder.ledger.refresh()?;
    if finish == Finish::Interrupted {
        return stopped(Worked::so_far(args, &folder, before, start), &told, form);
    }
    if finish == Finish::WithFailures
        && let Some(failed) = failed_runs(&folder)?
    {
        return Err(failed.into());
    }
    let worked = Worked::so_far(args, &folder, before, start);
    form.answer(&worked, |worked| {
        format!(
            "{title}: done in {}, {} recorded in the folder",
            human_duration(worked.seconds),
            counted(worked.recorded, "run")
        )
    })
}

fn all_runs(count: usize) -> String {
    match count {
        1 => "its 1 run is".into(),
        many => format!("all {many} runs are"),
    }
}

impl Worked {
    fn so_far(args: &WorkArgs, folder: &Folder, before: usize, start: Instant) -> Self {
        Self {
            folder: args.dir.clone(),
            shard: args.shard.as_ref().map(Shard::to_string),
            submission: args.submission.clone(),
            end: End::Done,
            recorded_before: before,
            recorded: folder.ledger.runs(),
            seconds: start.elapsed().as_secs_f64(),
        }
    }
}

fn train(
    args: &WorkArgs,
    folder: &mut Folder,
    share: Option<&[Run]>,
    told: &Told,
    display: &Display,
) -> Result<Finish> {
    let trainer = args.device.open(&folder.study)?;
    let means = Means {
        trainer: &trainer,
        save_every: Duration::from_secs_f64(args.checkpoint_every),
        stop: &told.stop,
        display,
    };
    if !args.quiet {
        Form::of(args.json).remark(&format!(
            "{}: {}, into {}",
            title(args),
            trainer.in_words(),
            args.dir.display()
        ));
    }
    let task = share.map_or(Task::Study, |runs| Task::Listed {
        runs,
        patience: Duration::from_secs_f64(args.patience),
    });
    runner::execute(folder, task, &means)
}

/// The runs of the shard, or none if there is no shard.
fn share(args: &WorkArgs, folder: &Folder) -> Result<Option<Vec<Run>>> {
    let Some(shard) = args.shard else {
        return Ok(None);
    };
    let mut shares = match &args.submission {
        None => shard::of_study(folder, shard.of()),
        Some(name) => {
            let submission = Submission::read(&args.dir, name)?;
            let shares = submission.shards(&args.dir, &folder.study)?;
            if shares.len() != shard.of() {
                return Err(Mistake(format!(
                    "submission {name} has {} shards: there is no {shard}",
                    shares.len()
                ))
                .into());
            }
            shares
        }
    };
    Ok(Some(shares.swap_remove(shard.index())))
}

fn title(args: &WorkArgs) -> String {
    let shard = |shard: &Shard| format!("shard {shard}");
    match (&args.submission, &args.shard) {
        (Some(name), Some(one)) => format!("{} of submission {name}", shard(one)),
        (_, one) => one.as_ref().map_or("all runs".into(), shard),
    }
}

/// Saved and stopped, for good or to come again.
fn stopped(worked: Worked, told: &Told, form: Form) -> Result<()> {
    let recorded = worked.recorded;
    let long = worked.seconds >= WORTH_ANOTHER.as_secs_f64();
    let progress = recorded > worked.recorded_before || long;
    if told.to_come_again() && progress {
        match requeue() {
            Ok(Some(task)) => {
                let text = format!("saved and stopped; Slurm will run task {task} again");
                let end = End::Requeued { task };
                return form.answer(&Worked { end, ..worked }, |_| text);
            }
            Ok(None) => {}
            Err(error) => tell!("noisescale: warning: {error}"),
        }
    }
    Err(Interrupted::after(recorded).into())
}
