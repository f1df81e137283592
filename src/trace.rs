//! `noisescale trace`: the first steps of a run, for checking from outside.

use crate::cli::TraceArgs;
use crate::failure::Mistake;
use crate::output::{self, say};
use crate::studies;
use crate::train::{Length, select};
use anyhow::Result;
use engine::kernels::Isa;
use engine::trace::Trace;

/// Takes the steps and writes the file.
pub fn run(args: &TraceArgs) -> Result<()> {
    output::check_folder_of(&args.out)?;
    let study = studies::open(&args.run.study, &args.run.overrides)?.study;
    if study.setting.command().is_some() {
        let text =
            "a trace needs the built-in engine; this study is trained by a command of its own";
        return Err(Mistake(text.into()).into());
    }
    let run = select(&study, &args.run, Length::Steps(args.steps));
    let data = studies::data(&study)?;
    Trace::of(&run, &data, Isa::detect())?.write(&args.out)?;
    say!(
        "{}: {} steps of run {}",
        args.out.display(),
        args.steps,
        run.id()
    );
    Ok(())
}
