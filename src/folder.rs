//! A study's folder: its study, its ledger, and the points that its grid has grown to.

use crate::failure::Mistake;
use crate::studies::{self, Source};
use analysis::extension::{Extension, Limits, extended_points, extensions};
use analysis::{Findings, Options};
use anyhow::{Context, Result};
use ledger::{Ledger, StudyCopy};
use spec::{Failure, Override, Point, Record, Run, RunId, Study, Task};
use std::collections::{BTreeMap, HashSet};
use std::path::Path;

/// A study and what it has recorded.
pub struct Folder {
    /// The study as it was run.
    pub study: Study,
    /// Its records.
    pub ledger: Ledger,
}

impl Folder {
    /// Opens a folder that a study was run in.
    pub fn open(dir: &Path) -> Result<Self> {
        let copy = studies::copy_in(dir)?;
        let name = studies::folder_name(dir);
        let origin = dir.join("study.toml");
        let study = studies::complete(Study::parse(&name, &origin, &copy.text, &copy.overrides)?)?;
        Ok(Self {
            study,
            ledger: Ledger::open(dir)?,
        })
    }

    /// Opens or makes the folder of a study; an older copy of the study there is
    /// replaced, and its runs that are still in the study keep counting. A folder with
    /// records of other networks is refused.
    pub fn create(dir: &Path, source: Source) -> Result<Self> {
        let Source {
            mut study,
            text,
            mut overrides,
            ..
        } = source;
        let mut note = |key: &str, value: String| {
            overrides.retain(|change| change.key != key);
            let key = key.into();
            overrides.push(Override { key, value });
        };
        if study.title == study.name {
            // The file's name, which its copy does not have.
            note("title", toml_string(&study.title));
        }
        study.name = studies::folder_name(dir);
        if let Task::Files(files) = &study.setting.task {
            // The copy lies elsewhere than the file it came from.
            let path = std::path::absolute(&files.path)
                .with_context(|| format!("{}: cannot find the data", files.path.display()))?;
            note("task.files.path", in_toml(&path)?);
        }
        if let Some(rules) = &study.command_rules {
            note("trainer.folder", in_toml(&rules.folder)?);
        }
        refuse_other_networks(dir, &study)?;
        let ledger = Ledger::create(dir)?;
        StudyCopy { text, overrides }.write(dir)?;
        Ok(Self { study, ledger })
    }

    /// The findings, over the study's grid and what it has grown by.
    pub fn findings(&self) -> Findings {
        let records: Vec<&Record> = self.ledger.records().collect();
        let points = self.grown(&records).points;
        self.findings_at(&points, records)
    }

    /// The findings over these points.
    pub fn findings_at(&self, points: &[Point], records: Vec<&Record>) -> Findings {
        let mut findings =
            analysis::analyse_points(&self.study, points, records, Options::default());
        // The records are one for each run already.
        findings.runs.duplicates = self.ledger.duplicates();
        // A journal that cannot be read explains nothing; `status` says so.
        findings.runs.failed = self.failed_runs(points).unwrap_or_default().len();
        findings
    }

    /// The runs of these points that a command was to train, that failed and have no record.
    pub fn failed_runs(&self, points: &[Point]) -> Result<Vec<FailedRun>> {
        let mut failed: BTreeMap<RunId, FailedRun> = BTreeMap::new();
        if self.study.command_rules.is_none() {
            return Ok(Vec::new());
        }
        for failure in self.ledger.failures().read()? {
            let attempts = failed
                .get(&failure.run)
                .map_or(0, |earlier| earlier.attempts);
            let latest = FailedRun {
                attempts: attempts + 1,
                failure,
            };
            failed.insert(latest.failure.run, latest);
        }
        failed.retain(|run, _| self.ledger.get(*run).is_none());
        if failed.is_empty() {
            return Ok(Vec::new());
        }
        let planned: HashSet<RunId> = points
            .iter()
            .flat_map(|point| point.runs(&self.study).map(|run| run.id()))
            .collect();
        failed.retain(|run, _| planned.contains(run));
        Ok(failed.into_values().collect())
    }

    /// The points to train now, by what is recorded.
    pub fn asked_now(&self) -> Vec<Point> {
        let records: Vec<&Record> = self.ledger.records().collect();
        self.asked(&self.grown(&records), &records)
    }

    /// The points to train now: the current grid, plus its next extension once every wanted run of
    /// the grid is recorded.
    pub fn asked(&self, grown: &Grown, records: &[&Record]) -> Vec<Point> {
        let study = &self.study;
        let left = analysis::wanted(study, &grown.points, records.iter().copied());
        if grown.wanted.is_empty() || !left.is_empty() {
            return grown.points.clone();
        }
        let all: Vec<Extension> = (grown.grown.iter().chain(&grown.wanted)).cloned().collect();
        extended_points(study, &all)
    }

    /// The study's points and those that its grid has grown by so far: an end
    /// that the best interval touches asks for one more value, and so on, as long as
    /// the values asked for have been trained.
    pub fn grown(&self, records: &[&Record]) -> Grown {
        let recorded: HashSet<RunId> = records.iter().map(|record| record.run).collect();
        let limits = Limits::usual(&self.study, self.study.extend as usize);
        // Where an interval ends does not depend on its bootstrap.
        let options = Options {
            resamples: 0,
            ..Options::default()
        };
        let base = spec::points(&self.study);
        let mut grown: Vec<Extension> = Vec::new();
        loop {
            let points = extended_points(&self.study, &grown);
            let sources = records.iter().copied();
            let findings = analysis::analyse_points(&self.study, &points, sources, options);
            let wanted = extensions(&findings, &limits);
            let begun = |one: &&Extension| {
                let mut points = extended_points(&self.study, std::slice::from_ref(*one));
                points.retain(|point| !base.contains(point));
                let mut runs = points.iter().flat_map(|point| point.runs(&self.study));
                runs.any(|run| recorded.contains(&run.id()))
            };
            let begun: Vec<Extension> = wanted.iter().filter(begun).cloned().collect();
            if begun.is_empty() {
                return Grown {
                    points,
                    wanted,
                    grown,
                };
            }
            grown.extend(begun);
        }
    }
}

/// A path as a value of a study file: UTF-8, on one line, escaped as TOML wants it and Rust's own
/// quotes are not.
fn in_toml(path: &Path) -> Result<String> {
    let text = path.to_str().ok_or_else(|| {
        Mistake(format!(
            "{}: the name is not UTF-8, so no study file can hold it; give the folder another one",
            path.display()
        ))
    })?;
    Ok(toml_string(text))
}

fn toml_string(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            // Also those that would end the line.
            c if c.is_control() => quoted.push_str(&format!("\\u{:04X}", u32::from(c))),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

/// Two files of one name would otherwise share a folder, and the second hide the first. A study some of
/// whose runs are recorded there is at home, wherever its data are now.
fn refuse_other_networks(dir: &Path, study: &Study) -> Result<()> {
    // What cannot be read is told when it is opened.
    let Ok(ledger) = Ledger::open(dir) else {
        return Ok(());
    };
    let is_recorded = |run: &Run| ledger.get(run.id()).is_some();
    let points = spec::points(study);
    let mut runs = points.iter().flat_map(|point| point.runs(study));
    if ledger.runs() == 0 || runs.any(|run| is_recorded(&run)) {
        return Ok(());
    }
    // Its data may be gone.
    let copy = studies::copy_in(dir).and_then(|copy| {
        let name = studies::folder_name(dir);
        let origin = dir.join("study.toml");
        Ok(Study::parse(&name, &origin, &copy.text, &copy.overrides)?)
    });
    let new = networks(study);
    let old = match copy.map(|old| networks(&old)) {
        Ok(old) if old == new => return Ok(()),
        Ok(old) => format!("{old}; this one is {new}"),
        Err(_) => "its study.toml cannot be read".into(),
    };
    Err(Mistake(format!(
        "{}: contains {} runs of another study ({old}); choose another folder with --out",
        dir.display(),
        ledger.runs()
    ))
    .into())
}

/// The networks of a study, in words.
fn networks(study: &Study) -> String {
    let setting = &study.setting;
    format!(
        "{} on {}, {} scheme",
        setting.family.label(),
        setting.task.title(),
        setting.scheme
    )
}

/// A run that failed and has no record.
pub struct FailedRun {
    /// Its last failure.
    pub failure: Failure,
    /// How often it has failed.
    pub attempts: usize,
}

/// How far a study's grid has grown.
pub struct Grown {
    /// All points so far.
    pub points: Vec<Point>,
    /// Values that the grid wants next.
    pub wanted: Vec<Extension>,
    /// Values it has grown by.
    pub grown: Vec<Extension>,
}
