//! The studies that come with the program, and how a study is named on the command line.

use anyhow::Result;
use engine::data::{self, Store};
use spec::{Override, Study, Task};
use std::path::Path;
use std::sync::Arc;

/// A study that comes with the program.
pub struct BuiltIn {
    /// Its name.
    pub name: &'static str,
    /// Its text.
    pub text: &'static str,
}

macro_rules! built_in {
    ($($name:literal),* $(,)?) => {
        &[$(BuiltIn { name: $name, text: include_str!(concat!("../studies/", $name, ".toml")) }),*]
    };
}

/// All of them.
pub const BUILT_IN: &[BuiltIn] = built_in!["digits-mlp", "mnist-1lp", "fmnist-cnn", "cifar10-wrn"];

/// A name that is neither a file nor a built-in study.
#[derive(Debug, thiserror::Error)]
#[error("`{name}` is neither a study file nor a built-in study{}; built in are: {}", nearest(.name), names())]
pub struct UnknownStudy {
    name: String,
}

fn names() -> String {
    BUILT_IN
        .iter()
        .map(|study| study.name)
        .collect::<Vec<_>>()
        .join(", ")
}

fn nearest(name: &str) -> String {
    let score = |study: &&BuiltIn| strsim::jaro_winkler(name, study.name);
    let best = BUILT_IN.iter().max_by(|a, b| score(a).total_cmp(&score(b)));
    best.filter(|study| score(study) > 0.75)
        .map_or_else(String::new, |study| {
            format!(" (did you mean `{}`?)", study.name)
        })
}

/// Reads the study of a file or of a built-in name. The user's own data are
/// looked at, since a plan needs their size.
pub fn open(name: &str, overrides: &[Override]) -> Result<Study> {
    let built_in = BUILT_IN.iter().find(|study| study.name == name);
    let mut study = match built_in {
        Some(found) => {
            let origin = format!("built-in study {name}");
            Study::parse(name, Path::new(&origin), found.text, overrides)?
        }
        None if name.ends_with(".toml") || Path::new(name).exists() => {
            Study::load(Path::new(name), overrides)?
        }
        None => return Err(UnknownStudy { name: name.into() }.into()),
    };
    if let Task::Files(files) = &study.setting.task {
        let content = data::inspect_files(files)?;
        let files = spec::task::FileTask {
            content: Some(content),
            ..files.clone()
        };
        Arc::make_mut(&mut study.setting).task = Task::Files(files);
    }
    Ok(study)
}

/// The data of a study.
pub fn data(study: &Study) -> Result<data::Dataset> {
    Ok(data::load(&study.setting.task, &Store::from_environment())?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_built_in_study_reads() {
        for study in BUILT_IN {
            open(study.name, &[]).unwrap();
        }
    }

    #[test]
    fn every_study_file_is_built_in() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("studies");
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_stem().unwrap().to_str().unwrap();
            assert!(
                BUILT_IN.iter().any(|study| study.name == name),
                "{name} is not embedded"
            );
        }
    }

    #[test]
    fn a_misspelled_name_is_put_right() {
        let error = open("mnist-1pl", &[]).unwrap_err().to_string();
        assert!(error.contains("did you mean `mnist-1lp`?"), "{error}");
    }
}
