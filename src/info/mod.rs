//! `noisescale info`: all that a report of a bug should say of program and machine.
//!
//! What cannot be found out is said in its place and is no failure: somebody in trouble
//! asks this, and everything may be broken.

mod cuda;
mod machine;

use crate::cli::InfoArgs;
use crate::output::Form;
use anyhow::Result;
use cuda::Cuda;
use engine::data::{State, Status, Store};
use indicatif::BinaryBytes;
use machine::Machine;
use spec::DatasetName;
use std::collections::BTreeMap;
use std::fmt::{self, Write};
use std::path::PathBuf;

/// Other people's variables that change what this program does; our own begin with `NOISESCALE_`.
const VARIABLES: &[&str] = &[
    "CONDA_PREFIX",
    "CUDA_HOME",
    "CUDA_PATH",
    "CUDA_VISIBLE_DEVICES",
    "LD_LIBRARY_PATH",
    "NO_COLOR",
    "SLURM_JOB_ID",
    "TERM",
    "VIRTUAL_ENV",
    "XDG_CACHE_HOME",
];

/// The whole answer.
#[derive(serde::Serialize)]
struct Info {
    program: Program,
    machine: Machine,
    cuda: Cuda,
    data: Data,
    /// The tools of others that commands call.
    tools: BTreeMap<&'static str, Found>,
    environment: BTreeMap<String, String>,
}

/// How this program was built, and where it is.
#[derive(serde::Serialize)]
struct Program {
    version: &'static str,
    features: Vec<&'static str>,
    /// Whether assertions for developers are in it: `debug` or `release`.
    build: &'static str,
    target: String,
    path: Option<PathBuf>,
}

/// The data folder.
#[derive(serde::Serialize)]
struct Data {
    folder: PathBuf,
    sets: Vec<Status>,
}

/// A version, or why there is none.
#[derive(serde::Serialize)]
#[serde(untagged)]
enum Found {
    Version { version: String },
    Problem { problem: String },
}

impl Found {
    fn of<E: fmt::Display>(found: Result<String, E>) -> Self {
        match found {
            Ok(version) => Self::Version { version },
            Err(error) => Self::Problem {
                problem: error.to_string(),
            },
        }
    }

    fn problem(&self) -> Option<&str> {
        match self {
            Self::Version { .. } => None,
            Self::Problem { problem } => Some(problem),
        }
    }
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Version { version: text } | Self::Problem { problem: text } => f.pad(text),
        }
    }
}

/// Prints what there is.
pub fn run(args: &InfoArgs) -> Result<()> {
    Form::of(args.json).answer(&Info::gather(), Info::in_words)
}

impl Info {
    fn gather() -> Self {
        let store = Store::from_environment();
        Self {
            program: Program::this(),
            machine: Machine::this(),
            cuda: Cuda::find(),
            data: Data {
                folder: store.root().to_owned(),
                sets: DatasetName::ALL.map(|name| store.status(name)).into(),
            },
            tools: BTreeMap::from([("slurm", Found::of(crate::slurm::version()))]),
            environment: environment(std::env::vars_os().filter_map(|(name, value)| {
                // A name that is no text is none of those looked for.
                Some((name.into_string().ok()?, value.to_string_lossy().into()))
            })),
        }
    }

    fn in_words(&self) -> String {
        let mut lines = Lines::default();
        self.program.write(&mut lines);
        self.machine.write(&mut lines);
        self.cuda.write(&mut lines);
        lines.add("data folder", self.data.folder.display());
        for set in &self.data.sets {
            lines.add(&format!("  {}", set.dataset), in_words(set));
        }
        for (tool, version) in &self.tools {
            lines.add(tool, version);
        }
        if self.environment.is_empty() {
            lines.add("environment", "none of the variables that matter is set");
        }
        for (name, value) in &self.environment {
            lines.add(name, value);
        }
        lines.0.trim_end().to_owned()
    }
}

impl Program {
    fn this() -> Self {
        Self {
            version: env!("CARGO_PKG_VERSION"),
            features: if cfg!(feature = "cuda") {
                vec!["cuda"]
            } else {
                Vec::new()
            },
            build: match cfg!(debug_assertions) {
                true => "debug",
                false => "release",
            },
            target: format!("{}-{}", std::env::consts::ARCH, std::env::consts::OS),
            path: std::env::current_exe().ok(),
        }
    }

    fn write(&self, lines: &mut Lines) {
        let features = match self.features.as_slice() {
            [] => "without features".to_owned(),
            some => format!("with {}", some.join(", ")),
        };
        lines.add(
            "noisescale",
            format!(
                "{} ({} build for {}, {features})",
                self.version, self.build, self.target
            ),
        );
        if let Some(path) = &self.path {
            lines.add("program", path.display());
        }
    }
}

/// Name and value, a line each.
#[derive(Default)]
struct Lines(String);

impl Lines {
    fn add(&mut self, name: &str, value: impl fmt::Display) {
        // Writing to a string cannot fail.
        let _ = writeln!(self.0, "{name:<22} {value}");
    }
}

fn in_words(set: &Status) -> String {
    let size = BinaryBytes(set.bytes);
    match (set.state, &set.problem) {
        (State::Embedded, _) => format!("built in, {size}"),
        (State::Verified, _) => format!("verified, {size}"),
        (State::Missing, _) => "missing".into(),
        (State::Incomplete, problem) => described("incomplete", problem.as_deref()),
        (State::Flawed, problem) => described("flawed", problem.as_deref()),
    }
}

fn described(state: &str, problem: Option<&str>) -> String {
    problem.map_or_else(|| state.into(), |problem| format!("{state}: {problem}"))
}

/// The variables that matter, and no others: what is here may be posted in public.
fn environment(all: impl Iterator<Item = (String, String)>) -> BTreeMap<String, String> {
    all.filter(|(name, _)| name.starts_with("NOISESCALE_") || VARIABLES.contains(&name.as_str()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::{Info, environment};

    #[test]
    fn only_variables_that_matter_are_shown() {
        let all = [
            ("AWS_SECRET_ACCESS_KEY", "hidden"),
            ("CUDA_VISIBLE_DEVICES", ""),
            ("NOISESCALE_DATA", "/data"),
            ("MY_NOISESCALE_DATA", "hidden"),
        ];
        let found = environment(
            all.map(|(name, value)| (name.into(), value.into()))
                .into_iter(),
        );
        let names: Vec<&str> = found.keys().map(String::as_str).collect();
        assert_eq!(names, ["CUDA_VISIBLE_DEVICES", "NOISESCALE_DATA"]);
    }

    #[test]
    fn words_and_json_say_the_same() {
        let info = Info::gather();
        let words = info.in_words();
        let json = serde_json::to_value(&info).unwrap();
        assert_eq!(json["program"]["version"], env!("CARGO_PKG_VERSION"));
        assert!(words.contains(env!("CARGO_PKG_VERSION")), "{words}");
        let sets = json["data"]["sets"].as_array().unwrap();
        for set in sets {
            let name = set["dataset"].as_str().unwrap();
            assert!(words.contains(name), "{words}");
        }
    }
}
