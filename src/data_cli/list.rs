//! `noisescale data list`.

use crate::output::print;
use engine::data::{State, Status, Store};
use indicatif::DecimalBytes;
use spec::DatasetName;

/// Shows what is there. All content is read and checked, about half a second
/// where everything is there, so that "verified" is true when it is shown.
pub fn list(store: &Store, json: bool) -> anyhow::Result<()> {
    let all = DatasetName::ALL.map(|name| store.status(name));
    if json {
        return print(&format!("{}\n", serde_json::to_string_pretty(&all)?));
    }
    let mut text = format!("Data folder: {}\n\n", store.root().display());
    text += &format!("{:<15}{:<12}{:<11}WHERE\n", "NAME", "STATE", "SIZE");
    text.extend(all.iter().map(lines));
    print(&text)
}

/// One line, and one each for what is wrong and what to do.
fn lines(status: &Status) -> String {
    let mut text = format!("{}\n", line(status));
    if let Some(problem) = &status.problem {
        text += &format!("{:15}{problem}\n", "");
    }
    if let Some(command) = &status.command {
        let size = DecimalBytes(status.download_bytes);
        text += &format!("{:15}get it ({size}): {command}\n", "");
    }
    text
}

fn line(status: &Status) -> String {
    let state = match status.state {
        State::Embedded => "built in",
        State::Verified => "verified",
        State::Incomplete => "incomplete",
        State::Flawed => "flawed",
        State::Missing => "missing",
    };
    let size = match status.state {
        State::Missing => "-".to_owned(),
        _ => DecimalBytes(status.bytes).to_string(),
    };
    let place = match &status.folder {
        Some(folder) => folder.display().to_string(),
        None => "in the program".to_owned(),
    };
    format!("{:<15}{state:<12}{size:<11}{place}", status.dataset.id())
}
