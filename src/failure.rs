//! How a command fails: one sentence, and an exit code that says whose turn it is.

use crate::studies::UnknownStudy;
use engine::data::DataError;
use engine::train::TrainError;
use spec::{FamilyError, StudyError};
use std::process::ExitCode;

/// What was asked for cannot be: a wrong file, flag or value.
const MISTAKE: u8 = 2;
/// What was asked for failed.
const FAILURE: u8 = 1;

/// Prints the error and gives the exit code.
pub fn report(error: &anyhow::Error) -> ExitCode {
    eprintln!("noisescale: {error}");
    let mistake = error.is::<StudyError>()
        || error
            .downcast_ref::<DataError>()
            .is_some_and(DataError::is_mistake)
        || error.is::<UnknownStudy>()
        || error.is::<TrainError>()
        || error.is::<FamilyError>();
    ExitCode::from(if mistake { MISTAKE } else { FAILURE })
}
