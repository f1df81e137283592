//! `noisescale report`, `course`, `export` and `predict`: what the records of studies say.

use crate::cli::{CourseArgs, ExportArgs, PredictArgs, ReportArgs};
use crate::failure::Mistake;
use crate::folder::Folder;
use crate::output::{check_folder_of, print, say, tell};
use crate::pictures;
use crate::quoting;
use crate::studies;
use ::report::PageOptions;
use ::report::number::significant;
use analysis::course::course;
use analysis::equal_time::equal_time;
use analysis::predict::{Pair, Stability};
use analysis::{Findings, Fixed, Prediction, Request, RunCounts, predict};
use anyhow::{Result, anyhow};
use serde::Serialize;
use spec::Record;
use std::fmt::Display;
use std::fs;
use std::path::{Path, PathBuf};

/// What to do about a folder that cannot be written, as on a full disk.
pub const ELSEWHERE: &str = "`noisescale report DIR --out FOLDER` writes the report elsewhere";

/// Writes the report of one or several studies together.
pub fn run(args: &ReportArgs) -> Result<()> {
    let folders: Vec<Folder> = args
        .dirs
        .iter()
        .map(|dir| Folder::open(dir))
        .collect::<Result<_>>()?;
    let out = match (&args.out, args.dirs.as_slice()) {
        (Some(out), _) => out.clone(),
        (None, [dir]) => dir.clone(),
        (None, _) => {
            return Err(
                Mistake("several studies: say where to write with --out FOLDER".into()).into(),
            );
        }
    };
    write(&folders, &out, args.json)
}

/// Writes `report.html`, `figures/` and `results.json` into a folder, and prints the tables.
pub fn write(folders: &[Folder], out: &Path, json: bool) -> Result<()> {
    for folder in folders {
        for warning in folder.ledger.warnings() {
            tell!("noisescale: warning: {warning}");
        }
        for conflict in folder.ledger.conflicts() {
            tell!("noisescale: alarm: {conflict}");
        }
    }
    let findings = findings_of(folders);
    let figures = ::report::figures(&findings);
    let results = ::report::results_json(&findings);
    let folder = out.join("figures");
    fs::create_dir_all(&folder)
        .map_err(|error| anyhow!("{}: cannot make it: {error}; {ELSEWHERE}", folder.display()))?;
    pictures::write(&folder, &figures)?;
    let options = PageOptions {
        command: Some(go_on(folders.iter().map(|folder| folder.ledger.dir()))),
        ..PageOptions::default()
    };
    let page = ::report::html(&findings, &figures, &options);
    save(&out.join("report.html"), page.as_bytes())?;
    save(&out.join("results.json"), results.as_bytes())?;
    if json {
        say!("{results}");
    } else {
        print(&::report::tables(&findings))?;
        say!("Report: {}", out.join("report.html").display());
    }
    Ok(())
}

/// What studies found that are shown together, under names that tell them apart.
fn findings_of(folders: &[Folder]) -> Vec<Findings> {
    let names = studies::folder_names(folders.iter().map(|folder| folder.ledger.dir()));
    let named = |(folder, name): (&Folder, String)| {
        let mut findings = folder.findings();
        findings.study.name = name;
        findings
    };
    folders.iter().zip(names).map(named).collect()
}

/// The command that goes on with the studies of some folders.
pub fn go_on<'a>(dirs: impl Iterator<Item = &'a Path>) -> String {
    let run = |dir: &Path| format!("noisescale run {}", quoting::path(dir));
    dirs.map(run).collect::<Vec<_>>().join(" && ")
}

fn save(path: &PathBuf, bytes: &[u8]) -> Result<()> {
    fs::write(path, bytes)
        .map_err(|error| anyhow!("{}: cannot write it: {error}; {ELSEWHERE}", path.display()))
}

/// What the study would have found, had it ended earlier.
pub fn run_course(args: &CourseArgs) -> Result<()> {
    let folder = Folder::open(&args.dir)?;
    let records: Vec<&Record> = folder.ledger.records().collect();
    let points = folder.grown(&records).points;
    let mistake = |error: &dyn Display| Mistake(format!("{}: {error}", args.dir.display()));
    if let Some(other) = &args.against {
        let other = Folder::open(other)?.findings();
        let all = equal_time(&folder.study, &points, &records, &other)
            .map_err(|error| mistake(&error))?;
        match args.json {
            true => say!("{}", serde_json::to_string_pretty(&all)?),
            false => print(&::report::equal_time(&all))?,
        }
        return Ok(());
    }
    let stages =
        course(&folder.study, &points, &records, &args.shares).map_err(|error| mistake(&error))?;
    match args.json {
        true => say!("{}", serde_json::to_string_pretty(&stages)?),
        false => print(&::report::course(&stages))?,
    }
    Ok(())
}

/// One row per run.
pub fn export(args: &ExportArgs) -> Result<()> {
    let folder = Folder::open(&args.dir)?;
    let records: Vec<&Record> = folder.ledger.records().collect();
    let grown = folder.grown(&records);
    let text = ::report::runs_csv(&folder.study, &grown.points, records);
    match &args.out {
        Some(path) => {
            check_folder_of(path)?;
            fs::write(path, text)
                .map_err(|error| anyhow!("{}: cannot write it: {error}", path.display()))
        }
        None => print(&text),
    }
}

/// What `predict --json` says.
#[derive(Serialize)]
struct Answer<'a> {
    #[serde(flatten)]
    prediction: &'a Prediction,
    /// What to know before trusting it, a sentence each.
    cautions: Vec<String>,
}

/// The settings for a width.
pub fn run_predict(args: &PredictArgs) -> Result<()> {
    let findings = Folder::open(&args.dir)?.findings();
    let stability = args
        .stability
        .as_ref()
        .map(|dir| Folder::open(dir))
        .transpose()?;
    let stability = stability.as_ref().map(Folder::findings);
    let fixed = match (args.batch_size, args.learning_rate) {
        (Some(batch_size), _) => Some(Fixed::BatchSize(batch_size)),
        (None, Some(rate)) => Some(Fixed::LearningRate(rate)),
        (None, None) => None,
    };
    let request = Request {
        width: args.width,
        search: None,
        fixed,
    };
    let prediction = predict(&findings, stability.as_ref(), &request)?;
    let answer = Answer {
        prediction: &prediction,
        cautions: (::report::cautions(&prediction, findings.runs).into_iter())
            .map(|caution| caution.text)
            .collect(),
    };
    match args.json {
        true => say!("{}", serde_json::to_string_pretty(&answer)?),
        false => print(&in_words(&prediction, findings.runs))?,
    }
    Ok(())
}

/// The pairs, ascending, up to the first that is above the largest learning rate: so are all
/// after it.
fn up_to_limit(pairs: &[Pair]) -> &[Pair] {
    let above = |pair: &Pair| pair.stability == Stability::AboveLimit;
    let end = pairs.iter().position(above);
    &pairs[..end.map_or(pairs.len(), |at| at + 1)]
}

/// `32   11.4 [9.23, 14.8]`, or at a fixed rate `38 [28, 43]   10` and what noise that is.
fn pair_line(pair: &Pair, wanted: f64) -> String {
    let digits = |value: f64| significant(value, 3);
    let (sizes, rates) = (pair.batch_sizes, pair.learning_rates);
    let mut size = pair.batch_size.to_string();
    if sizes.low < sizes.high {
        size += &format!(" [{}, {}]", sizes.low, sizes.high);
    }
    let mut rate = digits(pair.learning_rate.get());
    if rates.low < rates.high {
        let [low, high] = [rates.low, rates.high].map(|rate| digits(rate.get()));
        rate += &format!(" [{low}, {high}]");
    }
    let mut line = format!("  {size:>10}   {rate}");
    if pair.noise != wanted {
        line += &format!("   ḡ = {} /[loss]", digits(pair.noise));
    }
    if pair.stability == Stability::AboveLimit {
        line += "  above the largest learning rate";
    }
    line
}

/// A prediction for people.
fn in_words(found: &Prediction, runs: RunCounts) -> String {
    let Prediction {
        noise,
        limit,
        critical_width,
        ..
    } = found;
    let digits = |value: f64| significant(value, 3);
    let mut lines = vec![format!(
        "Width {}: ḡ_opt = {} [{}, {}] /[loss], from the law of {} widths ({})",
        found.width,
        digits(noise.value),
        digits(noise.interval.low),
        digits(noise.interval.high),
        found.fitted.len(),
        ::report::search_name(found.search),
    )];
    let cautions = ::report::cautions(found, runs);
    lines.extend(cautions.into_iter().map(|caution| caution.text));
    lines.push(format!(
        "Largest learning rate: {} ({})",
        digits(limit.learning_rate.get()),
        ::report::limit_source(found)
    ));
    lines.push(String::new());
    lines.push("  batch size   learning rate".into());
    let pairs = match &found.chosen {
        Some(chosen) => std::slice::from_ref(chosen),
        None => up_to_limit(&found.pairs),
    };
    lines.extend(pairs.iter().map(|pair| pair_line(pair, noise.value)));
    lines.push(String::new());
    lines.push(match found.largest_batch_size {
        Some(size) => format!("Largest batch size that still reaches it: {size}"),
        None => "No batch size reaches it with a stable learning rate.".into(),
    });
    lines.push(format!(
        "Critical width (beyond it no batch size reaches ḡ_opt): {:.0} [{:.0}, {:.0}]",
        critical_width.value, critical_width.interval.low, critical_width.interval.high
    ));
    lines.join("\n") + "\n"
}
