//! What every `--help` ends with: examples, which a test gives to the program's own parser.

pub const PROGRAM: &str = "\
Examples:
  noisescale run quickstart
  noisescale predict runs/quickstart --width 128
  noisescale COMMAND --help

Exit codes:
    0  what was asked for is done
    1  it failed
    2  invalid request: a wrong file, flag or value
  130  stopped by Ctrl-C, SIGTERM or SIGHUP; everything recorded is kept

Failures are one sentence on standard error. Results go to standard output, and with --json \
nothing else does. Colours and bars are shown on terminals only; NO_COLOR removes the colours. \
docs/CLI.md has all commands and environment variables.";

pub const RUN: &str = "\
Examples:
  noisescale run quickstart
  noisescale run mnist-1lp --seeds 5 --time-scale 0.25 --out runs/short
  noisescale run my-study.toml --set search.batch_sizes=[16,32] --adaptive
  noisescale run quickstart --quiet --json > findings.json

Stop or kill it at any moment: the same command resumes where it left off.";

pub const CHECK: &str = "\
Examples:
  noisescale check mnist-1lp --time-scale 0.1
  noisescale check my-study.toml --json";

pub const LIST: &str = "\
Examples:
  noisescale list
  noisescale list --json";

pub const STATUS: &str = "\
Examples:
  noisescale status runs/quickstart
  noisescale status runs/quickstart --json";

pub const REPORT: &str = "\
Examples:
  noisescale report runs/quickstart
  noisescale report runs/mnist-ntk runs/mnist-standard --out runs/compared";

pub const COURSE: &str = "\
Examples:
  noisescale course runs/quickstart
  noisescale course runs/mnist-1lp --shares 0.1,0.2,0.5,1 --json
  noisescale course runs/quickstart --against runs/quickstart

A run cut off at half of its time is the run of a study half as long. So this shows what shorter \
studies would have found, and whether a longer one might find something else.

With --against, the learning-rate search of the study is cut off, at every width, when it has \
trained for as long (in ε times steps) as the batch-size search of the other study had at its \
optimum. Both searches may belong to one study.";

pub const SERVE: &str = "\
Examples:
  noisescale serve runs/quickstart
  noisescale serve runs/* --port 0
  ssh -L 8420:localhost:8420 cluster noisescale serve runs/mnist-1lp

The page can only be read. docs/REPORT.md describes it.";

pub const EXPORT: &str = "\
Examples:
  noisescale export runs/quickstart > runs.csv
  noisescale export runs/quickstart --out runs.csv

docs/REPORT.md describes the columns.";

pub const PREDICT: &str = "\
Examples:
  noisescale predict runs/quickstart --width 128
  noisescale predict runs/quickstart --width 128 --batch-size 4
  noisescale predict runs/mnist --width 4096 --stability runs/stable --json";

pub const TRAIN: &str = "\
Examples:
  noisescale train digits-mlp --width 64
  noisescale train mnist-1lp --width 512 --batch-size 16 --epochs 30
  noisescale train mnist-cnn --width 2 --set family.batch_norm=true --json";

pub const TRACE: &str = "\
Example:
  noisescale trace digits-mlp --width 32 --steps 20 --out trace.safetensors

docs/TRACE.md describes the file.";

pub const BENCH: &str = "\
Examples:
  noisescale bench
  noisescale bench --only WRN --seconds 3
  noisescale bench --only 2LP --instructions portable --json

docs/PERFORMANCE.md explains the columns; scripts/peers/ compares with other frameworks.";

pub const PREPARE: &str = "\
Examples:
  noisescale prepare quickstart --out runs/quickstart
  noisescale prepare mnist-1lp --seeds 5 --out /shared/mnist --json

`noisescale work` then trains in that folder, on as many machines as see it.";

pub const WORK: &str = "\
Examples:
  noisescale work runs/quickstart               # what nobody else has claimed
  noisescale work runs/quickstart --shard 3/8   # its share and nothing else
  noisescale work runs/quickstart --quiet --json

`noisescale prepare STUDY --out DIR` makes the folder. Exit code 0 means that every run asked \
for is recorded. docs/CLUSTER.md has recipes for many machines.";

pub const SLURM: &str = "\
Examples:
  noisescale slurm submit quickstart --out runs/quickstart
  noisescale slurm status runs/quickstart

docs/CLUSTER.md explains it step by step.";

pub const SLURM_SUBMIT: &str = "\
Examples:
  noisescale slurm submit quickstart --out runs/quickstart
  noisescale slurm submit mnist-1lp --gpus-per-task 1 --time 2:00:00
  noisescale slurm submit my.toml --array 50 --mem 4G -- --account=lab

docs/CLUSTER.md explains it step by step.";

pub const SLURM_STATUS: &str = "\
Examples:
  noisescale slurm status runs/mnist
  noisescale slurm status runs/mnist --json";

pub const SLURM_RESUBMIT: &str = "\
Examples:
  noisescale slurm resubmit runs/mnist --dry-run
  noisescale slurm resubmit runs/mnist --time 4:00:00 --mem 8G";

pub const SLURM_CANCEL: &str = "\
Example:
  noisescale slurm cancel runs/mnist";

pub const SLURM_FINISH: &str = "\
Example:
  noisescale slurm finish runs/mnist --submission 0001

`slurm submit` sends this command to the cluster; you rarely need to run it yourself.";

pub const DATA: &str = "\
Examples:
  noisescale data list
  noisescale data fetch mnist";

pub const DATA_LIST: &str = "\
Examples:
  noisescale data list
  noisescale data list --json";

pub const DATA_FETCH: &str = "\
Examples:
  noisescale data fetch mnist
  noisescale data fetch mnist fashion-mnist cifar10";

pub const DATA_IMPORT: &str = "\
Examples:
  noisescale data import mnist ~/Downloads/mnist
  noisescale data import cifar10 cifar-10-binary.tar.gz";

pub const INFO: &str = "\
Examples:
  noisescale info
  noisescale info --json

Paste the output into a bug report.";

pub const COMPLETIONS: &str = "\
Examples:
  noisescale completions bash > ~/.local/share/bash-completion/completions/noisescale
  noisescale completions zsh > ~/.zfunc/_noisescale
  noisescale completions fish > ~/.config/fish/completions/noisescale.fish";

pub const MAN: &str = "\
Examples:
  noisescale man > noisescale.1
  noisescale man --out ~/.local/share/man/man1";

#[cfg(test)]
mod tests {
    use crate::cli::Cli;
    use clap::{Command, CommandFactory};

    /// Visible commands below this one that have none below themselves, with their words.
    fn leaves(command: &Command, words: &str) -> Vec<(String, Command)> {
        let words = format!("{words} {}", command.get_name());
        let below = command.get_subcommands().filter(|sub| !sub.is_hide_set());
        let below: Vec<&Command> = below.filter(|sub| sub.get_name() != "help").collect();
        match below.as_slice() {
            [] => vec![(words, command.clone())],
            some => some.iter().flat_map(|sub| leaves(sub, &words)).collect(),
        }
    }

    /// The words of every example in a help text, without what only a shell sees.
    fn examples(help: &str) -> Vec<Vec<&str>> {
        let lines = help.lines().map(str::trim);
        let calls = lines.filter(|line| line.starts_with("noisescale "));
        calls
            .filter(|line| !line.contains(" COMMAND "))
            .map(|line| {
                let end = |mark| line.find(mark).unwrap_or(line.len());
                line[..end(" #").min(end(" > "))]
                    .split_whitespace()
                    .collect()
            })
            .collect()
    }

    /// The help without wrapping: an example on two lines is still one.
    fn long_help(command: &Command) -> String {
        let mut command = command.clone().term_width(0);
        command.render_long_help().to_string()
    }

    #[test]
    fn every_command_has_examples_that_the_parser_takes() {
        let mut program = Cli::command();
        program.build();
        let leaves = leaves(&program, "");
        assert!(leaves.len() >= 20, "{}", leaves.len());
        for (words, leaf) in &leaves {
            let help = long_help(leaf);
            assert!(
                help.contains("\nExample"),
                "{words}: no examples in\n{help}"
            );
            let calls = examples(&help);
            assert!(!calls.is_empty(), "{words}: no call in its examples");
            for call in calls {
                let parsed = Cli::command().try_get_matches_from(&call);
                assert!(parsed.is_ok(), "{call:?}: {}", parsed.unwrap_err());
                let called = call.join(" ") + " ";
                let own = format!("{} ", words.trim());
                assert!(called.starts_with(&own), "{call:?} is under{words}");
            }
        }
    }

    /// A terminal of 80 columns breaks no example. The path of bash is as long as it is.
    #[test]
    fn examples_are_short_enough_for_a_terminal() {
        let mut program = Cli::command();
        program.build();
        for (words, leaf) in leaves(&program, "") {
            for line in long_help(&leaf).lines() {
                let is_example = line.trim().starts_with("noisescale ");
                let is_path = line.contains("completions bash >");
                let length = line.chars().count();
                assert!(!is_example || is_path || length <= 80, "{words}: {line}");
            }
        }
    }

    #[test]
    fn examples_of_groups_and_of_the_program_parse_too() {
        let program = Cli::command();
        let groups = program
            .get_subcommands()
            .filter(|sub| sub.has_subcommands());
        for command in std::iter::once(&program).chain(groups) {
            let calls = long_help(command);
            let calls = examples(&calls);
            assert!(!calls.is_empty(), "{}", command.get_name());
            for call in calls {
                let parsed = Cli::command().try_get_matches_from(&call);
                assert!(parsed.is_ok(), "{call:?}: {}", parsed.unwrap_err());
            }
        }
    }

    #[test]
    fn the_table_of_commands_is_the_programs() {
        let document = include_str!("../docs/CLI.md");
        let mut program = Cli::command();
        program.build();
        let leaves = leaves(&program, "");
        for (words, leaf) in &leaves {
            let name = words.trim().trim_start_matches("noisescale ");
            let row = document
                .lines()
                .find(|line| line.starts_with(&format!("| `{name}` |")));
            let row = row.unwrap_or_else(|| panic!("docs/CLI.md has no row of `{name}`"));
            let json = leaf.get_arguments().any(|flag| flag.get_id() == "json");
            let cell = row.split('|').nth(3).map(str::trim);
            assert_eq!(cell, Some(if json { "yes" } else { "no" }), "{name}");
        }
        let rows = document
            .lines()
            .filter(|line| line.contains(" | yes | ") || line.contains(" | no | "));
        assert_eq!(
            rows.count(),
            leaves.len(),
            "a row of a command that is gone"
        );
    }

    #[test]
    fn a_rotten_example_would_be_found() {
        let calls = examples("Example:\n  noisescale run quickstart --no-such-flag   # why\n");
        assert_eq!(
            calls,
            [["noisescale", "run", "quickstart", "--no-such-flag"]]
        );
        assert!(Cli::command().try_get_matches_from(&calls[0]).is_err());
    }
}
