//! How a process ended, in words.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

/// What a failure says of it.
pub fn in_words(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("it ended with exit code {code}"),
        (_, Some(9)) => "it was killed (signal 9); the machine may be out of memory".into(),
        (_, Some(signal)) => format!("it ended by signal {signal}{}", signal_name(signal)),
        _ => "it ended in an unknown way".into(),
    }
}

fn signal_name(signal: i32) -> &'static str {
    match signal {
        4 => ", an illegal instruction",
        6 => ", an abort",
        8 => ", an arithmetic error",
        11 => ", a wrong memory access",
        15 => ", a request to end",
        _ => "",
    }
}
