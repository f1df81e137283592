//! The pictures of a report in its folder, with a list of them by which those of an earlier report are
//! known again: the ones that the report no longer has are removed, and no other file ever is.

use anyhow::{Result, anyhow};
use engine::data::hexadecimal;
use report::Figure;
use sha2::{Digest, Sha256};
use std::fs;
use std::path::Path;

/// The list, as `sha256sum` writes it.
const LIST: &str = "SHA256SUMS";

/// A picture that was written.
struct Written {
    sum: String,
    name: String,
}

/// Writes every figure as SVG and PNG, and removes what an earlier report wrote and this one did not,
/// unless it has been changed since.
pub fn write(folder: &Path, figures: &[Figure]) -> Result<()> {
    let earlier = listed(folder);
    let mut all: Vec<Written> = Vec::new();
    for figure in figures {
        all.push(save(
            folder,
            format!("{}.svg", figure.id),
            figure.svg().as_bytes(),
        )?);
        all.push(save(
            folder,
            format!("{}.png", figure.id),
            &figure.png(2.0)?,
        )?);
    }
    for old in earlier {
        let current = all.iter().any(|written| written.name == old.name);
        // One that cannot be removed stays in the list for the next report.
        if !current && !remove(folder, &old) {
            all.push(old);
        }
    }
    let lines = all
        .iter()
        .map(|written| format!("{}  {}\n", written.sum, written.name));
    save(folder, LIST.into(), lines.collect::<String>().as_bytes())?;
    Ok(())
}

fn save(folder: &Path, name: String, bytes: &[u8]) -> Result<Written> {
    let path = folder.join(&name);
    fs::write(&path, bytes).map_err(|error| {
        let path = path.display();
        anyhow!(
            "{path}: cannot write it: {error}; {}",
            crate::report::ELSEWHERE
        )
    })?;
    Ok(Written {
        sum: sum(bytes),
        name,
    })
}

fn sum(bytes: &[u8]) -> String {
    hexadecimal(&Sha256::digest(bytes))
}

/// What an earlier report says that it wrote; nothing where there is no list that can be read.
fn listed(folder: &Path) -> Vec<Written> {
    let text = fs::read_to_string(folder.join(LIST)).unwrap_or_default();
    let line = |line: &str| {
        let (sum, name) = line.split_once("  ")?;
        let written = Written {
            sum: sum.into(),
            name: name.into(),
        };
        is_picture(name).then_some(written)
    };
    text.lines().filter_map(line).collect()
}

/// Whether this is a name that a figure's picture may have: of this folder, SVG or PNG.
fn is_picture(name: &str) -> bool {
    let id = name.strip_suffix(".svg").or(name.strip_suffix(".png"));
    id.is_some_and(|id| !id.is_empty() && id == report::slug(id))
}

/// Removes a picture as it was written; false where it is there still and should not be.
fn remove(folder: &Path, old: &Written) -> bool {
    let path = folder.join(&old.name);
    let plain = fs::symlink_metadata(&path).is_ok_and(|found| found.is_file());
    let same = plain && fs::read(&path).is_ok_and(|bytes| sum(&bytes) == old.sum);
    !same || fs::remove_file(&path).is_ok()
}
