//! What holds between processes: killed at any moment, several at once, and on
//! disks that refuse. This test program starts itself again as those processes.
#![cfg(unix)]

mod support;

use ledger::{Ledger, LedgerError, Writer};
use std::collections::BTreeSet;
use std::env;
use std::fs::Permissions;
use std::hash::{BuildHasher, RandomState};
use std::io::{BufRead, BufReader, Write};
use std::ops::Range;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;
use support::{record, run_id};

const DIR: &str = "LEDGER_TEST_DIR";
const FIRST: &str = "LEDGER_TEST_FIRST";
const COUNT: &str = "LEDGER_TEST_COUNT";
const MODE: &str = "LEDGER_TEST_MODE";
const CHECKPOINT_BYTES: usize = 100_000;

/// What a started process does besides appending.
#[derive(Clone, Copy, PartialEq)]
enum Mode {
    /// Nothing.
    Records,
    /// Saves checkpoints.
    Checkpoints,
    /// Looks after itself on a disk that only it can see.
    SmallDisk,
}

const MODES: [(&str, Mode); 3] = [
    ("records", Mode::Records),
    ("checkpoints", Mode::Checkpoints),
    ("small-disk", Mode::SmallDisk),
];

/// Not a test of its own: what the started processes do.
#[test]
fn helper_appends() {
    let Ok(mode) = env::var(MODE) else { return };
    let (_, mode) = MODES.into_iter().find(|(name, _)| *name == mode).unwrap();
    if let Err(error) = append_and_tell(mode) {
        say(&format!("refused {error}"));
    }
}

/// Tells of each record once it is recorded.
fn append_and_tell(mode: Mode) -> Result<(), LedgerError> {
    let number = |name: &str| env::var(name).unwrap().parse::<u64>().unwrap();
    let (first, count) = (number(FIRST), number(COUNT));
    let dir = PathBuf::from(env::var(DIR).unwrap());
    let ledger = Ledger::create(&dir)?;
    let mut writer = ledger.writer()?;
    for number in first..first + count {
        if let Err(error) = writer.append(&record(number)) {
            if mode == Mode::SmallDisk {
                go_on_after_refusal(&dir, first, number, &mut writer);
            }
            return Err(error);
        }
        say(&format!("recorded {number}"));
        if number % 4 == 0 && mode == Mode::Checkpoints {
            let content = vec![number as u8; CHECKPOINT_BYTES];
            ledger.checkpoints().save("cohort", &content)?;
        }
    }
    Ok(())
}

fn go_on_after_refusal(dir: &Path, first: u64, refused: u64, writer: &mut Writer) {
    let kept = Ledger::open(dir).unwrap();
    assert_eq!(kept.runs() as u64, refused - first);
    assert_eq!(kept.warnings(), []);
    std::fs::remove_file(dir.join("ballast")).unwrap();
    writer.append(&record(refused)).unwrap();
    let kept = Ledger::open(dir).unwrap();
    assert_eq!(kept.runs() as u64, refused - first + 1);
    assert_eq!(kept.warnings(), []);
    say("verified");
}

/// Past the test harness, which would hold it back.
fn say(text: &str) {
    let mut out = std::io::stdout().lock();
    // The reader may be gone already.
    let _ = writeln!(out, "\n{text}").and_then(|()| out.flush());
}

struct Helper {
    child: Child,
    output: BufReader<ChildStdout>,
}

/// What a helper said.
#[derive(Default)]
struct Said {
    recorded: Vec<u64>,
    refused: Option<String>,
    verified: bool,
}

impl Helper {
    fn start(mode: Mode, dir: &Path, first: u64, count: u64) -> Self {
        Self::start_with(
            Command::new(this_program()),
            mode,
            dir,
            first..first + count,
        )
    }

    /// `command` is this program, perhaps behind others that prepare for it.
    fn start_with(mut command: Command, mode: Mode, dir: &Path, numbers: Range<u64>) -> Self {
        let (name, _) = MODES.into_iter().find(|(_, other)| *other == mode).unwrap();
        let mut child = command
            .args([
                "--exact",
                "helper_appends",
                "--nocapture",
                "--test-threads=1",
            ])
            .env(MODE, name)
            .env(DIR, dir)
            .env(FIRST, numbers.start.to_string())
            .env(COUNT, (numbers.end - numbers.start).to_string())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        Self { child, output }
    }

    fn wait_for_records(&mut self, count: u64) -> Said {
        let mut said = Said::default();
        let mut line = String::new();
        while (said.recorded.len() as u64) < count && self.output.read_line(&mut line).unwrap() > 0
        {
            said.note(line.trim_end());
            line.clear();
        }
        said
    }

    fn finish(mut self, mut said: Said) -> Said {
        for line in self.output.lines() {
            said.note(&line.unwrap());
        }
        self.child.wait().unwrap();
        said
    }
}

impl Said {
    fn note(&mut self, line: &str) {
        if let Some(number) = line.strip_prefix("recorded ") {
            self.recorded.push(number.parse().unwrap());
        } else if let Some(reason) = line.strip_prefix("refused ") {
            self.refused = Some(reason.into());
        }
        self.verified |= line == "verified";
    }
}

fn this_program() -> PathBuf {
    env::current_exe().unwrap()
}

/// Whether this user may have namespaces of his own.
fn may_unshare(flags: &[&str]) -> bool {
    let probe = Command::new("unshare").args(flags).arg("true").output();
    probe.is_ok_and(|done| done.status.success())
}

fn random_below(bound: u64) -> u64 {
    RandomState::new().hash_one(0) % bound
}

/// Seen even when the test passes.
fn skipped(test: &str, why: &str) {
    let _ = writeln!(std::io::stderr(), "{test}: skipped: {why}");
}

fn assert_recorded(ledger: &Ledger, reported: impl IntoIterator<Item = u64>) {
    for number in reported {
        let found = ledger.get(run_id(number));
        assert_eq!(found, Some(&record(number)), "record {number}");
    }
}

#[test]
fn what_was_reported_survives_any_kill() {
    let dir = tempfile::tempdir().unwrap();
    let mut reported = BTreeSet::new();
    let mut live = Ledger::create(dir.path()).unwrap();
    for round in 0..60 {
        let mut helper = Helper::start(Mode::Checkpoints, dir.path(), 1 + round * 10_000, 10_000);
        // Some are killed while they start, the others among their first records, which take what a
        // sync takes on this disk.
        let said = match round % 4 {
            0 => {
                std::thread::sleep(Duration::from_micros(random_below(20_000)));
                Said::default()
            }
            _ => helper.wait_for_records(3 + random_below(10)),
        };
        std::thread::sleep(Duration::from_micros(random_below(2_000)));
        helper.child.kill().unwrap();
        reported.extend(helper.finish(said).recorded);
        live.refresh().unwrap();
        assert_recorded(&live, reported.iter().copied());
    }
    let afterwards = Ledger::open(dir.path()).unwrap();
    assert_recorded(&afterwards, reported.iter().copied());
    assert!(live.records().eq(afterwards.records()));
    // At most the record in hand of each is there without having been reported.
    assert!(reported.len() > 100 && afterwards.runs() <= reported.len() + 60);
    assert!(afterwards.warnings().len() <= 60);
    let checkpoint = afterwards.checkpoints().load("cohort").unwrap().unwrap();
    assert_eq!(checkpoint.len(), CHECKPOINT_BYTES);
    assert!(checkpoint.iter().all(|byte| *byte == checkpoint[0]));
}

#[test]
fn processes_append_side_by_side() {
    let dir = tempfile::tempdir().unwrap();
    // Each shares half of its runs with the next.
    let start = |at: u64| Helper::start(Mode::Records, dir.path(), 1 + at * 50, 100);
    let helpers: Vec<Helper> = (0..4).map(start).collect();
    for helper in helpers {
        let said = helper.finish(Said::default());
        assert_eq!((said.recorded.len(), said.refused), (100, None));
    }
    let ledger = Ledger::open(dir.path()).unwrap();
    assert_recorded(&ledger, 1..=250);
    assert_eq!((ledger.runs(), ledger.duplicates()), (250, 150));
    assert_eq!((ledger.warnings(), ledger.conflicts()), (vec![], vec![]));
}

/// A limit on file sizes lets part of a line through, as a disk does that fills up.
#[test]
fn a_record_cut_short_by_a_limit_leaves_no_trace() {
    let dir = tempfile::tempdir().unwrap();
    let mut shell = Command::new("sh");
    // Ignored, the signal that goes with the limit leaves an error to handle.
    let limited = "trap '' XFSZ; ulimit -f 64 || exit 9; exec \"$@\"";
    shell.args(["-c", limited, "sh"]).arg(this_program());
    let helper = Helper::start_with(shell, Mode::Records, dir.path(), 1..100_000);
    let said = helper.finish(Said::default());
    let Some(reason) = said.refused else {
        let test = "a_record_cut_short_by_a_limit_leaves_no_trace";
        assert!(said.recorded.is_empty());
        return skipped(test, "this shell cannot limit file sizes");
    };
    assert!(
        reason.contains("cannot append the record of run"),
        "{reason}"
    );
    assert!(
        reason.contains("everything recorded so far is safe"),
        "{reason}"
    );
    assert!(reason.contains("ulimit -f"), "{reason}");
    let ledger = Ledger::open(dir.path()).unwrap();
    assert!(said.recorded.len() > 5);
    assert_eq!(ledger.runs(), said.recorded.len());
    assert_recorded(&ledger, said.recorded.iter().copied());
    assert_eq!(ledger.warnings(), []);
    // Without the limit it goes on where it stopped.
    let next = said.recorded.len() as u64 + 1;
    let said = Helper::start(Mode::Records, dir.path(), next, 10).finish(Said::default());
    assert_eq!((said.recorded.len(), said.refused), (10, None));
    assert_recorded(&Ledger::open(dir.path()).unwrap(), 1..next + 10);
}

/// A real full disk, where a user may mount one for himself.
#[test]
fn a_full_disk_stops_with_a_clear_sentence_and_loses_nothing() {
    let test = "a_full_disk_stops_with_a_clear_sentence_and_loses_nothing";
    let dir = tempfile::tempdir().unwrap();
    let mount = "mount -t tmpfs -o size=256k tmpfs \"$LEDGER_TEST_DIR\" || exit 9; \
                 head -c 100000 /dev/zero > \"$LEDGER_TEST_DIR/ballast\"; exec \"$@\"";
    let mut namespace = Command::new("unshare");
    namespace
        .args([
            "--user",
            "--map-root-user",
            "--mount",
            "sh",
            "-c",
            mount,
            "sh",
        ])
        .arg(this_program());
    if !may_unshare(&["--user", "--map-root-user", "--mount"]) {
        return skipped(test, "no mounts in a namespace of one's own here");
    }
    let helper = Helper::start_with(namespace, Mode::SmallDisk, dir.path(), 1..100_000);
    let said = helper.finish(Said::default());
    let Some(reason) = said.refused else {
        assert!(said.recorded.is_empty());
        return skipped(test, "no tmpfs in a namespace of one's own here");
    };
    assert!(reason.contains("free space on this disk"), "{reason}");
    assert!(
        reason.contains("give the same command again to go on"),
        "{reason}"
    );
    assert!(said.verified && said.recorded.len() > 5);
}

#[test]
fn a_folder_that_cannot_be_written_is_found_before_any_training() {
    let test = "a_folder_that_cannot_be_written_is_found_before_any_training";
    let dir = tempfile::tempdir().unwrap();
    let ledger = Ledger::create(dir.path()).unwrap();
    ledger.writer().unwrap().append(&record(1)).unwrap();
    let records = dir.path().join("records");
    let allow = |mode| std::fs::set_permissions(&records, Permissions::from_mode(mode)).unwrap();
    allow(0o555);
    let refused = match ledger.writer() {
        Err(error) => Some(error.to_string()),
        // Root may write anywhere, but not from a namespace that does not map it.
        Ok(_) if !may_unshare(&["--user"]) => None,
        Ok(_) => {
            let mut unprivileged = Command::new("unshare");
            unprivileged.arg("--user").arg(this_program());
            let helper = Helper::start_with(unprivileged, Mode::Records, dir.path(), 2..3);
            helper.finish(Said::default()).refused
        }
    };
    let read = Ledger::open(dir.path());
    allow(0o755);
    // Reading needs no permission to write.
    assert_recorded(&read.unwrap(), [1]);
    let Some(sentence) = refused else {
        return skipped(test, "this user may write anywhere");
    };
    assert!(sentence.contains("cannot make this file"), "{sentence}");
    assert!(sentence.contains("choose another folder"), "{sentence}");
}
