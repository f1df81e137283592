//! The studies that come with the program, and how a study is named on the command line.

use crate::failure::Mistake;
use anyhow::{Context, Result};
use engine::data::{self, Store};
use ledger::StudyCopy;
use spec::{Override, Study, Task};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

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
pub const BUILT_IN: &[BuiltIn] = built_in![
    "quickstart",
    "digits-mlp",
    "mnist-1lp",
    "mnist-2lp",
    "mnist-3lp",
    "mnist-cnn",
    "fmnist-1lp",
    "fmnist-2lp",
    "fmnist-3lp",
    "fmnist-cnn",
    "cifar10-cnn",
    "cifar10-wrn",
    "std-mnist-1lp",
    "std-mnist-2lp",
    "std-mnist-3lp",
    "std-fmnist-cnn",
    "std-cifar10-wrn",
    "bn-mnist-cnn",
    "bn-fmnist-cnn",
    "bn-cifar10-cnn",
    "bn-cifar10-wrn",
    "std-bn-cifar10-wrn",
    "std-reg-cifar10-wrn",
    "grid-mnist-3lp",
    "stability-ntk-mnist-2lp",
    "stability-ntk-fmnist-cnn",
    "stability-ntk-cifar10-wrn",
    "stability-std-mnist-2lp",
    "stability-std-fmnist-cnn",
    "stability-std-cifar10-wrn",
    "mnist-bh",
    "std-mnist-bh",
    "mnist-th",
    "std-mnist-th",
];

/// A name that is neither a file nor a built-in study.
#[derive(Debug, thiserror::Error)]
#[error("`{name}` is neither a study file nor a built-in study{}; `noisescale list` shows the built-in ones", likely(.name))]
pub struct UnknownStudy {
    name: String,
}

fn likely(name: &str) -> String {
    let known: Vec<&str> = BUILT_IN.iter().map(|study| study.name).collect();
    spec::study::nearest(name, &known)
        .map_or_else(String::new, |near| format!(" (did you mean `{near}`?)"))
}

/// A study with what it was read from.
#[derive(Debug)]
pub struct Source {
    /// The study, complete.
    pub study: Study,
    /// Its text.
    pub text: String,
    /// What was changed in it, by a folder's copy first and then by the command line.
    pub overrides: Vec<Override>,
    /// The folder that it was read from, if it was one.
    folder: Option<PathBuf>,
}

impl Source {
    /// Where the study is run unless the command line says so.
    pub fn folder(&self, out: Option<&Path>) -> PathBuf {
        out.or(self.folder.as_deref())
            .map_or_else(|| Path::new("runs").join(&self.study.name), Path::to_owned)
    }
}

/// Reads the study of a built-in name, of a file, or of the folder of a study.
pub fn open(name: &str, overrides: &[Override]) -> Result<Source> {
    if let Some(found) = BUILT_IN.iter().find(|study| study.name == name) {
        let origin = format!("built-in study {name}");
        let study = Study::parse(name, Path::new(&origin), found.text, overrides)?;
        return Ok(Source {
            study: complete(study)?,
            text: found.text.into(),
            overrides: overrides.to_vec(),
            folder: None,
        });
    }
    let path = Path::new(name);
    if !name.ends_with(".toml") && !path.exists() {
        return Err(UnknownStudy { name: name.into() }.into());
    }
    match path.is_dir() {
        true => open_copy(path, &path.join("study.toml"), copy_in(path)?, overrides),
        false => open_file(path, overrides),
    }
}

/// Reads a study file. One that is the copy of a folder has the overrides that it notes.
fn open_file(path: &Path, overrides: &[Override]) -> Result<Source> {
    let text = std::fs::read_to_string(path).map_err(|source| spec::StudyError::Unreadable {
        path: path.into(),
        source,
    })?;
    if let Some(copy) = StudyCopy::from_content(&text) {
        // Of a bare name it is where one stands.
        let folder = match path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        return Ok(Source {
            folder: None,
            ..open_copy(folder, path, copy, overrides)?
        });
    }
    let study = Study::parse_file(path, &text, overrides)?;
    Ok(Source {
        study: complete(study)?,
        text,
        overrides: overrides.to_vec(),
        folder: None,
    })
}

fn open_copy(
    folder: &Path,
    origin: &Path,
    copy: StudyCopy,
    overrides: &[Override],
) -> Result<Source> {
    let mut all = copy.overrides;
    all.retain(|old| overrides.iter().all(|new| new.key != old.key));
    all.extend_from_slice(overrides);
    let study = Study::parse(&folder_name(folder), origin, &copy.text, &all)?;
    Ok(Source {
        study: complete(study)?,
        text: copy.text,
        overrides: all,
        folder: Some(folder.into()),
    })
}

/// The copy of a study in its folder.
pub fn copy_in(folder: &Path) -> Result<StudyCopy> {
    let copy = match folder.is_dir() {
        true => StudyCopy::read(folder)?,
        false => None,
    };
    copy.ok_or_else(|| {
        let folder = folder.display();
        let remedy = "give a folder that `noisescale run STUDY --out FOLDER` made";
        Mistake(format!("{folder}: contains no study; {remedy}")).into()
    })
}

/// What a folder's study is called.
pub fn folder_name(folder: &Path) -> String {
    let lexical = std::path::absolute(folder).unwrap_or_else(|_| folder.into());
    // `..` and links at the end have no name of their own.
    let real = || {
        std::fs::canonicalize(folder)
            .ok()?
            .file_name()
            .map(OsString::from)
    };
    let name = lexical.file_name().map(OsString::from).or_else(real);
    name.map_or_else(
        || "study".into(),
        |name| name.to_string_lossy().into_owned(),
    )
}

/// What the studies of several folders are called together: as their folders are, with as many of the
/// folders above as it takes to tell them apart, and a number where one folder is given twice.
pub fn folder_names<'a>(folders: impl IntoIterator<Item = &'a Path>) -> Vec<String> {
    let paths: Vec<PathBuf> = (folders.into_iter())
        .map(|folder| std::path::absolute(folder).unwrap_or_else(|_| folder.into()))
        .collect();
    let mut names: Vec<String> = Vec::new();
    for path in &paths {
        let own = folder_name(path);
        let alike: Vec<&PathBuf> = (paths.iter())
            .filter(|other| folder_name(other) == own && *other != path)
            .collect();
        let differs = |depth: &usize| {
            let name = last_of(path, *depth);
            alike.iter().all(|other| last_of(other, *depth) != name)
        };
        let deepest = path.components().count().max(1);
        let depth = (1..=deepest).find(differs).unwrap_or(deepest);
        let name = match depth {
            1 => own,
            depth => last_of(path, depth),
        };
        let numbered = (2..).map(|number| format!("{name}-{number}"));
        let mut tried = std::iter::once(name.clone()).chain(numbered);
        names.extend(tried.find(|name| !names.contains(name)));
    }
    names
}

/// The last so many names of a path: `runs/digits`.
fn last_of(path: &Path, depth: usize) -> String {
    let names: Vec<_> = (path.components())
        .map(|part| part.as_os_str().to_string_lossy())
        .collect();
    names[names.len().saturating_sub(depth)..].join("/")
}

/// Looks at the user's own data, if the study has such: a plan needs their size. A
/// command's working folder becomes one that holds wherever the study's copy lies.
pub fn complete(mut study: Study) -> Result<Study> {
    if let Some(rules) = &mut study.command_rules {
        let folder = std::path::absolute(Path::new(".").join(&rules.folder))
            .with_context(|| format!("{}: cannot find the folder", rules.folder.display()))?;
        rules.folder = folder.components().collect();
    }
    if let Task::Files(files) = &study.setting.task {
        let content = data::inspect_files(files)?;
        study = study.with_content(content)?;
    }
    Ok(study)
}

/// Whether the data of a study are there; those of a command are its own affair.
pub fn check_data(study: &Study) -> Result<()> {
    match study.setting.command() {
        Some(_) => Ok(()),
        None => data(study).map(|_| ()),
    }
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
    fn folders_of_one_name_are_told_apart() {
        let names = |folders: &[&str]| folder_names(folders.iter().map(Path::new));
        assert_eq!(names(&["/a/x", "/a/y"]), ["x", "y"]);
        assert_eq!(names(&["/a/x", "/b/x", "/b/y"]), ["a/x", "b/x", "y"]);
        assert_eq!(names(&["/a/r/x", "/b/r/x"]), ["a/r/x", "b/r/x"]);
        // One folder above tells the third apart, two the others.
        let three = names(&["/a/r/x", "/b/r/x", "/c/x"]);
        assert_eq!(three, ["a/r/x", "b/r/x", "c/x"]);
        assert_eq!(names(&["/a/x", "/a/x"]), ["x", "x-2"]);
        assert_eq!(names(&["/a/x", "/a/x", "/b/x"]), ["a/x", "a/x-2", "b/x"]);
    }

    #[test]
    fn a_misspelled_name_is_put_right() {
        let error = open("mnist-1pl", &[]).unwrap_err().to_string();
        assert!(error.contains("did you mean `mnist-1lp`?"), "{error}");
    }
}
