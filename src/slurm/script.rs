//! The batch scripts of a submission, and the commands that submit them.
//!
//! A script ends in `exec`, so that signals for the batch script reach the program.
//! Before that it ignores SIGUSR1, which the program inherits until it listens: a
//! signal that comes early is then missed and not deadly.

use super::cluster::JobId;
use super::packing::warning;
use super::parameters::{Parameters, TimeLimit};
use super::submission::Submission;
use crate::device::Precision;
use crate::failure::Mistake;
use crate::quoting::{command_line, quoted};
use std::path::Path;

/// Writing a report takes seconds, of a large study minutes.
const FINISH_TIME: &str = "00:30:00";

/// A script with the command that submits it.
#[derive(Debug, Clone, PartialEq)]
pub struct Batch {
    /// Its file's name.
    pub file: &'static str,
    /// Its text.
    pub text: String,
    /// Arguments of `sbatch`, the script included.
    pub args: Vec<String>,
}

impl Batch {
    /// The command that submits it, for a shell.
    pub fn command(&self) -> String {
        format!("sbatch {}", command_line(&self.args))
    }
}

/// The script of the array's tasks.
pub fn task(
    dir: &Path,
    submission: &Submission,
    tasks: usize,
    limit: TimeLimit,
) -> Result<Batch, Mistake> {
    let Parameters {
        checkpoint_every,
        patience,
        gpus_per_task,
        precision,
        commands,
        ..
    } = &submission.parameters;
    // A study's own command knows what it trains on, and how many at once.
    let threads = "--threads \"${SLURM_CPUS_PER_TASK:-1}\" ";
    let device = match (commands, gpus_per_task, precision) {
        (Some(_), _, _) => String::new(),
        (None, None, _) => format!("--device cpu {threads}"),
        (None, Some(_), Precision::Tf32) => format!("--device cuda --precision tf32 {threads}"),
        (None, Some(_), Precision::Fp32) => format!("--device cuda --precision fp32 {threads}"),
    };
    let command = format!(
        "work {} --submission {} --shard \"$SLURM_ARRAY_TASK_ID/{tasks}\" {device}\
         --checkpoint-every {checkpoint_every} --patience {patience}",
        quoted(text(dir)?),
        submission.name,
    );
    let mut args = shared_args(dir, submission)?;
    args.push(format!(
        "--cpus-per-task={}",
        submission.parameters.cpus_per_task
    ));
    args.extend(gpus_per_task.map(|gpus| format!("--gpus-per-task={gpus}")));
    args.push(format!("--time={limit}"));
    args.push(format!("--signal=B:USR1@{}", warning(limit)));
    args.extend(submission.parameters.extra.clone());
    // Flags we rely on come last, so they override the user's.
    args.push(format!("--array=1-{tasks}"));
    let purpose =
        "One task: trains its share of the runs and saves its work when it is told to stop.";
    batch(dir, submission, "task.sh", "%A_%a", purpose, &command, args)
}

/// The script of the job that comes after an array.
pub fn finish(dir: &Path, submission: &Submission, array: JobId) -> Result<Batch, Mistake> {
    let command = format!(
        "slurm finish {} --submission {}",
        quoted(text(dir)?),
        submission.name
    );
    let mut args = shared_args(dir, submission)?;
    args.push("--cpus-per-task=1".into());
    args.push(format!("--time={FINISH_TIME}"));
    args.extend(submission.parameters.extra.clone());
    args.push(format!("--dependency=afterany:{array}"));
    let purpose = "After the tasks: sends what is missing or asked for next, or writes the report.";
    batch(
        dir,
        submission,
        "finish.sh",
        "finish",
        purpose,
        &command,
        args,
    )
}

/// A name for Slurm's lists, by which the folder's jobs are known again.
pub fn job_name(submission: &Submission) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
    let study: String = submission.study.chars().take(40).map(plain).collect();
    format!("noisescale-{study}-{}", submission.name)
}

fn shared_args(dir: &Path, submission: &Submission) -> Result<Vec<String>, Mistake> {
    let parameters = &submission.parameters;
    let mut args = vec![
        format!("--chdir={}", text(dir)?),
        "--nodes=1".into(),
        "--ntasks=1".into(),
        "--requeue".into(),
    ];
    args.extend(
        parameters
            .partition
            .as_ref()
            .map(|name| format!("--partition={name}")),
    );
    args.extend(parameters.mem.as_ref().map(|size| format!("--mem={size}")));
    Ok(args)
}

fn batch(
    dir: &Path,
    submission: &Submission,
    file: &'static str,
    log: &str,
    purpose: &str,
    command: &str,
    mut args: Vec<String>,
) -> Result<Batch, Mistake> {
    // A % of the path is not one of Slurm's patterns.
    let logs = submission.folder(dir).join("logs");
    let logs = text(&logs)?.replace('%', "%%");
    args.push(format!("--output={logs}/{log}.out"));
    args.push(format!("--job-name={}", job_name(submission)));
    args.push("--open-mode=append".into());
    args.push("--parsable".into());
    let path = submission.folder(dir).join(file);
    args.push(text(&path)?.into());
    let mut made = Batch {
        file,
        text: String::new(),
        args,
    };
    let exports: String = submission
        .parameters
        .environment
        .iter()
        .map(|(name, value)| format!("export {name}={}\n", quoted(value)))
        .collect();
    let binary = quoted(text(&submission.parameters.binary)?);
    made.text = format!(
        "#!/bin/sh\n\
         # {purpose}\n\
         # Written by noisescale and submitted with:\n\
         #   {}\n\
         # The program listens for SIGUSR1 itself. Until it does, the signal must not end it.\n\
         trap '' USR1\n\
         {exports}exec {binary} {command}\n",
        made.command()
    );
    Ok(made)
}

fn text(path: &Path) -> Result<&str, Mistake> {
    let text = path.to_str().filter(|text| !text.contains('\n'));
    text.ok_or_else(|| {
        Mistake(format!(
            "{}: Slurm cannot be given this path; choose one in UTF-8 and on one line",
            path.display()
        ))
    })
}
