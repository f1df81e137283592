//! Where commands are run and keep their work: names that are hard to write down, and disks that
//! refuse a record.

use super::{PRELUDE, Place, STUDY, errors};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// A study in a folder of this name.
fn beneath(place: &Place, name: &OsStr) -> PathBuf {
    let folder = place.dir.path().join(name);
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join("study.toml"), STUDY).unwrap();
    fs::write(folder.join("train.sh"), format!("{PRELUDE}trained 0.5")).unwrap();
    folder
}

/// A letter with a combining accent, a space that does not break, quotes and the end of a line.
#[test]
fn a_study_goes_on_from_a_folder_of_any_name() {
    let place = Place::new("");
    let folder = beneath(&place, OsStr::new("e\u{301}tude\u{a0}'1\" \\ \n2"));
    for args in [
        &["prepare", "study.toml", "--out", "out"][..],
        &["work", "out"],
    ] {
        let output = place.command(args).current_dir(&folder).output().unwrap();
        assert!(output.status.success(), "{args:?}: {}", errors(&output));
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_folder_that_no_study_file_can_name_is_refused() {
    let place = Place::new("");
    let folder = beneath(&place, OsStr::from_bytes(b"\xe9tude"));
    let args = ["prepare", "study.toml", "--out", "out"];
    let output = place.command(&args).current_dir(&folder).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(
        errors(&output).contains("is not UTF-8"),
        "{}",
        errors(&output)
    );
    assert!(!folder.join("out").exists(), "nothing is made");
}

/// A comment in an override ends with its line, also in the study's folder.
#[test]
fn an_override_of_several_lines_is_kept() {
    let place = Place::new("trained 0.5");
    let sizes = "search.batch_sizes=[4, # small\n 8, 16]";
    place.succeed(&["prepare", "study.toml", "--out", "out", "--set", sizes]);
    assert_eq!(place.status()["planned"], 6);
}

/// A run whose record cannot be written is trained again, from what its command has saved.
#[cfg(target_os = "linux")]
#[test]
fn a_runs_folder_stays_until_its_record_is_written() {
    let place = Place::new(
        r#"
        echo saved > "$folder/state"
        (head -c 4096 /dev/zero > large); echo $? >> codes
        report 10 0.5; report 20 0.5; report 30 0.5
        trained 0.5"#,
    );
    place.succeed(&["prepare", "study.toml", "--out", "out"]);
    // Files may have 512 bytes, which a header and such a record exceed.
    let limited = "ulimit -f 1; exec \"$0\" work out --quiet";
    let mut shell = std::process::Command::new("sh");
    shell.args(["-c", limited, env!("CARGO_BIN_EXE_noisescale")]);
    let output = shell.current_dir(place.dir.path()).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", errors(&output));
    assert!(
        errors(&output).contains("raise the limit on file sizes"),
        "{}",
        errors(&output)
    );
    assert!(place.records().len() < 4);
    // The command is ended by its limit as usual, by SIGXFSZ.
    let codes = place.read("codes");
    assert_eq!(codes.lines().next(), Some("153"));
    let scratch = fs::read_dir(place.path("out/scratch")).unwrap().flatten();
    let kept = scratch.filter(|entry| entry.path().join("state").exists());
    assert_eq!(kept.count(), 1);
    // With room again it is brought, and tidied.
    place.succeed(&["work", "out", "--quiet"]);
    assert_eq!(place.records().len(), 4);
    assert_eq!(fs::read_dir(place.path("out/scratch")).unwrap().count(), 0);
}
