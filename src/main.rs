//! `noisescale`: finds the SGD noise scale at which a family of networks
//! generalizes best, shows how it grows with width, and tells the batch size and
//! learning rate for the next width.

mod bench;
mod check;
mod cli;
mod command;
mod data_cli;
mod device;
mod examples;
mod failure;
mod folder;
mod info;
mod output;
mod pictures;
mod prepare;
mod quoting;
mod report;
mod run;
mod runner;
mod serve;
mod shard;
mod shell;
mod signals;
mod slurm;
mod speed;
mod status;
mod studies;
mod trace;
mod train;
mod values;
mod work;

use clap::Parser;
use std::process::ExitCode;
#[cfg(unix)]
use std::sync::Arc;
#[cfg(unix)]
use std::sync::atomic::AtomicBool;

fn main() -> ExitCode {
    #[cfg(unix)]
    outlive_file_limits();
    let result = match cli::Cli::parse().command {
        cli::Command::Run(args) => run::run(&args),
        cli::Command::Check(args) => check::run(&args),
        cli::Command::List(args) => check::list(&args),
        cli::Command::Status(args) => status::run(&args),
        cli::Command::Report(args) => report::run(&args),
        cli::Command::Course(args) => report::run_course(&args),
        cli::Command::Serve(args) => serve::run(&args),
        cli::Command::Export(args) => report::export(&args),
        cli::Command::Predict(args) => report::run_predict(&args),
        cli::Command::Train(args) => train::run(&args),
        cli::Command::Trace(args) => trace::run(&args),
        cli::Command::Bench(args) => bench::run(&args),
        cli::Command::Prepare(args) => prepare::run(&args),
        cli::Command::Work(args) => work::run(&args),
        cli::Command::Slurm(command) => slurm::run(&command),
        cli::Command::Data(command) => data_cli::run(&command),
        cli::Command::Info(args) => info::run(&args),
        cli::Command::Completions(args) => shell::completions(&args),
        cli::Command::Man(args) => shell::man(&args),
        #[cfg(unix)]
        cli::Command::Guard(args) => command::guard(&args),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failure::report(&error),
    }
}

/// A file that outgrows `ulimit -f` raises a signal that ends a program without a word. Caught,
/// the write fails and can be told. It is caught and not ignored, because commands inherit what
/// is ignored.
#[cfg(unix)]
fn outlive_file_limits() {
    let nobody = Arc::new(AtomicBool::new(false));
    // Without it such a write ends the program, as before; nothing else is lost.
    let _ = signal_hook::flag::register(signal_hook::consts::SIGXFSZ, nobody);
}
