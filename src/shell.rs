//! `noisescale completions` and `man`: what shells and `man` know of the command line,
//! made from the command line itself.

use crate::cli::{Cli, CompletionsArgs, ManArgs};
use crate::output::print;
use anyhow::{Context, Result, anyhow};
use clap::CommandFactory;
use std::fs;

/// Prints a script that completes commands and flags.
pub fn completions(args: &CompletionsArgs) -> Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "noisescale", &mut script);
    print(&String::from_utf8(script).context("the script is no text")?)
}

/// Prints the manual page of the program, or writes those of all commands into a folder.
pub fn man(args: &ManArgs) -> Result<()> {
    let Some(dir) = &args.out else {
        let mut page = Vec::new();
        let manual = clap_mangen::Man::new(Cli::command());
        manual.render(&mut page).context("cannot make the page")?;
        return print(&String::from_utf8(page).context("the page is no text")?);
    };
    fs::create_dir_all(dir)
        .map_err(|error| anyhow!("{}: cannot make it: {error}", dir.display()))?;
    clap_mangen::generate_to(Cli::command(), dir)
        .map_err(|error| anyhow!("{}: cannot write the pages: {error}", dir.display()))
}
