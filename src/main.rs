//! `noisescale`: finds the SGD noise scale at which a family of networks
//! generalizes best, shows how it grows with width, and tells the batch size and
//! learning rate for the next width.

mod cli;
mod data_cli;
mod failure;
mod studies;
mod trace;
mod train;

use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    let result = match cli::Cli::parse().command {
        cli::Command::Train(args) => train::run(&args),
        cli::Command::Trace(args) => trace::run(&args),
        cli::Command::Data(command) => data_cli::run(&command),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failure::report(&error),
    }
}
