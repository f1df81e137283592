//! Stopping, killing and sharing: no process outlives its study, and nothing is lost.

use super::{Place, errors};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// How long anything may take here.
const PATIENCE: Duration = Duration::from_secs(60);

pub fn wait_until(what: &str, mut reached: impl FnMut() -> bool) {
    let start = Instant::now();
    while !reached() {
        assert!(start.elapsed() < PATIENCE, "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

pub fn signal(name: &str, child: &Child) {
    let id = child.id().to_string();
    let sent = Command::new("kill").args([name, &id]).status();
    assert!(sent.unwrap().success());
}

pub fn spawn(place: &Place, options: &[&str]) -> Child {
    let args = [&["run", "study.toml", "--out", "out", "--quiet"], options].concat();
    let mut command = place.command(&args);
    command.stdout(Stdio::null()).stderr(Stdio::piped());
    command.spawn().unwrap()
}

/// A length of sleep that no other process on this machine has, in its command line.
fn odd_time() -> String {
    static CALLS: AtomicU32 = AtomicU32::new(0);
    let number = CALLS.fetch_add(1, Ordering::Relaxed);
    format!("4321.{}{number}", std::process::id())
}

/// How many living processes sleep for this long.
fn sleepers(time: &str) -> usize {
    let Ok(entries) = std::fs::read_dir("/proc") else {
        return 0;
    };
    let is_sleeper = |entry: std::io::Result<std::fs::DirEntry>| {
        let folder = entry.unwrap().path();
        let read = |name: &str| std::fs::read(folder.join(name)).unwrap_or_default();
        // A zombie has no command line.
        read("cmdline") == format!("sleep\0{time}\0").into_bytes()
    };
    entries.map(is_sleeper).filter(|found| *found).count()
}

/// Two processes that sleep: one of the script, one of its child.
fn sleeping_script(time: &str) -> String {
    format!("(sleep {time}) & sleep {time}")
}

#[cfg(target_os = "linux")]
#[test]
fn commands_die_with_a_killed_noisescale_and_the_study_goes_on() {
    let time = odd_time();
    let place = Place::new(&format!(
        "[ $b$seed = 40 ] && {{ trained 0.5; exit; }}\n{}",
        sleeping_script(&time)
    ));
    let mut child = spawn(&place, &["--set", "trainer.concurrency=2"]);
    wait_until("two commands with two processes each", || {
        sleepers(&time) == 4
    });
    wait_until("the first record", || !place.records().is_empty());
    child.kill().unwrap();
    child.wait().unwrap();
    wait_until("no process outlives the study", || sleepers(&time) == 0);
    assert!(
        place.failures().is_empty(),
        "being killed is no failure of the command"
    );
    place.script("echo x >> calls; trained 0.75");
    let output = place.run(&[]);
    assert!(output.status.success(), "{}", errors(&output));
    assert_eq!(place.records().len(), 4);
    assert_eq!(place.read("calls").lines().count(), 3);
}

/// Deaf to a request to end, they are killed after the grace period: by noisescale when a
/// run has to stop, by the guard when noisescale is gone.
#[cfg(target_os = "linux")]
#[test]
fn deaf_commands_are_killed_after_the_grace_period() {
    let time = odd_time();
    let place = Place::new(&format!("trap '' TERM; {}", sleeping_script(&time)));
    let grace = ["--set", "trainer.grace_seconds=0.3"];
    let one = [
        "--seeds",
        "1",
        "--set",
        "search.batch_sizes=[4]",
        "--set",
        "trainer.retries=0",
    ];
    let options = [&grace[..], &one, &["--set", "trainer.timeout_seconds=0.5"]].concat();
    let output = place.run(&options);
    assert_eq!(output.status.code(), Some(1), "{}", errors(&output));
    assert_eq!(sleepers(&time), 0);
    let mut child = spawn(&place, &grace);
    wait_until("a command", || sleepers(&time) == 2);
    child.kill().unwrap();
    child.wait().unwrap();
    wait_until("the guard kills", || sleepers(&time) == 0);
}

/// A second interrupt ends noisescale at once, and its commands all the same.
#[cfg(target_os = "linux")]
#[test]
fn a_second_interrupt_leaves_nothing_behind() {
    let time = odd_time();
    // Deaf when noisescale asks; when its guard asks, the script ends what it has started.
    let deaf = format!("(trap '' TERM; exec sleep {time}) &");
    let place = Place::new(&format!(
        r#"
        trap '[ -e asked ] && {{ kill -KILL $one $two; exit; }}; touch asked' TERM
        {deaf} one=$!
        {deaf} two=$!
        while :; do wait; done"#
    ));
    // Longer than the test waits for anything.
    let grace = Duration::from_secs(120);
    assert!(grace > PATIENCE);
    let grace_seconds = format!("trainer.grace_seconds={}", grace.as_secs());
    let mut child = spawn(&place, &["--set", &grace_seconds]);
    wait_until("a command", || sleepers(&time) == 2);
    signal("-INT", &child);
    wait_until("it is asked to end", || place.path("asked").exists());
    assert_eq!((child.try_wait().unwrap(), sleepers(&time)), (None, 2));
    signal("-INT", &child);
    let mut ended = None;
    wait_until("noisescale ends at once", || {
        ended = child.try_wait().unwrap();
        ended.is_some()
    });
    assert_eq!(ended.unwrap().code(), Some(130));
    wait_until("the guard asks", || sleepers(&time) == 0);
}

/// Ctrl-C: the script is asked to end, saves its state, and goes on from it the next time.
#[test]
fn an_interrupt_lets_scripts_save_their_state() {
    let place = Place::new(
        r#"
        [ -e "$folder/saved" ] && { echo x >> resumed; report 20 0.6; trained 0.6; exit; }
        trap 'echo state > "$folder/saved"; exit 0' TERM
        report 10 0.5
        touch started
        while :; do sleep 0.05; done"#,
    );
    let one = ["--set", "search.batch_sizes=[4]", "--seeds", "1"];
    let child = spawn(&place, &one);
    wait_until("the script has started", || place.path("started").exists());
    signal("-INT", &child);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", errors(&output));
    assert!(
        errors(&output).contains("Go on with:"),
        "{}",
        errors(&output)
    );
    assert!(place.failures().is_empty() && place.records().is_empty());
    let output = place.run(&one);
    assert!(output.status.success(), "{}", errors(&output));
    assert_eq!(place.read("resumed").lines().count(), 1);
    assert_eq!(place.records()[0]["curve"].as_array().unwrap().len(), 2);
}

/// A cluster ends a job by a signal to all of its processes: a command that ends before
/// noisescale has heard of it has not failed.
#[test]
fn a_job_that_ends_is_no_failure() {
    let place = Place::new("report 10 0.5; kill -TERM $PPID; exit 143");
    let output = place.run(&[]);
    assert_eq!(output.status.code(), Some(130), "{}", errors(&output));
    assert!(place.failures().is_empty() && place.records().is_empty());
}

/// What a script leaves running ends with it, and keeps nobody waiting.
#[cfg(target_os = "linux")]
#[test]
fn what_a_script_leaves_behind_ends_with_it() {
    let time = odd_time();
    let place = Place::new(&format!("sleep {time} & trained 0.5"));
    let start = Instant::now();
    let output = place.run(&[]);
    assert!(output.status.success(), "{}", errors(&output));
    assert!(start.elapsed() < PATIENCE);
    assert_eq!((place.records().len(), sleepers(&time)), (4, 0));
}

/// One that has told its outcome and does not end is ended, and its outcome counts.
#[test]
fn an_outcome_counts_though_the_script_does_not_end() {
    let place = Place::new("trained 0.5; sleep 60");
    let options = ["--seeds", "1", "--set", "trainer.grace_seconds=0.2"];
    let output = place.run(&options);
    assert!(output.status.success(), "{}", errors(&output));
    assert_eq!(place.records().len(), 2);
}

#[test]
fn two_processes_share_a_folder() {
    // Whoever comes first waits for the other, for at most a minute.
    let place = Place::new(
        r#"
        echo "$b $seed $PPID" >> calls
        tries=0
        while [ $(cut -d ' ' -f 3 calls | sort -u | wc -l) -lt 2 ] && [ $tries -lt 600 ]; do
            sleep 0.1; tries=$((tries + 1))
        done
        trained 0.5"#,
    );
    let children = [0, 1].map(|_| spawn(&place, &["--seeds", "8"]));
    for child in children {
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", errors(&output));
    }
    let mut runs: Vec<String> = (place.records().iter())
        .map(|record| record["run"].as_str().unwrap().to_owned())
        .collect();
    runs.sort();
    runs.dedup();
    assert_eq!(runs.len(), 16);
    let calls = place.read("calls");
    let parent = |line: &str| line.rsplit(' ').next().unwrap().to_owned();
    let mut parents: Vec<String> = calls.lines().map(parent).collect();
    parents.sort();
    parents.dedup();
    assert_eq!(parents.len(), 2, "both work: {calls}");
    // One of records for each, and at most one more for what was left to the other.
    let files = std::fs::read_dir(place.path("out/records"))
        .unwrap()
        .count();
    assert!(files <= 6, "{files} files");
}
