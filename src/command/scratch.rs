//! What commands keep while their runs are under way: for every run a folder of its own and,
//! beside it, the evaluations it has reported.

use spec::RunId;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// How the names of the files with evaluations end.
const EVALUATIONS: &str = ".evaluations.jsonl";

/// Where a study's folder has the folders of its runs.
pub fn within(dir: &Path) -> PathBuf {
    dir.join("scratch")
}

/// The folder of a run.
pub fn folder(scratch: &Path, run: RunId) -> PathBuf {
    scratch.join(run.to_string())
}

/// The evaluations of a run.
pub fn evaluations(scratch: &Path, run: RunId) -> PathBuf {
    scratch.join(format!("{run}{EVALUATIONS}"))
}

/// The runs that have left something here, as far as can be seen.
pub fn runs(scratch: &Path) -> BTreeSet<RunId> {
    let entries = fs::read_dir(scratch).into_iter().flatten().flatten();
    let run = |entry: fs::DirEntry| {
        let name = entry.file_name().into_string().ok()?;
        let id = name.strip_suffix(EVALUATIONS).unwrap_or(&name);
        RunId::try_from(id.to_owned()).ok()
    };
    entries.filter_map(run).collect()
}

/// Removes what a recorded run needs no more. Best effort: what stays is in nobody's way.
pub fn tidy(scratch: &Path, run: RunId) {
    let _ = fs::remove_dir_all(folder(scratch, run));
    let _ = fs::remove_file(evaluations(scratch, run));
}
