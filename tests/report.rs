//! `noisescale report` over folders with made-up records: names and files.

mod page;

use page::{STUDY, folder, noisescale};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

fn report(at: &Path, args: &[&str]) {
    let all: Vec<&str> = ["report"].iter().chain(args).copied().collect();
    let output = noisescale(at, &all).output().unwrap();
    assert!(output.status.success(), "{output:?}");
}

#[test]
fn studies_of_one_name_are_told_apart() {
    let dir = tempfile::tempdir().unwrap();
    for above in ["runs", "third"] {
        folder(&dir.path().join(above).join("int"), STUDY, |at, _| {
            at % 3 > 0
        });
    }
    report(dir.path(), &["runs/int", "third/int", "--out", "both"]);
    let results = fs::read_to_string(dir.path().join("both/results.json")).unwrap();
    let results: Value = serde_json::from_str(&results).unwrap();
    let names = ["runs/int", "third/int"];
    for (at, name) in names.into_iter().enumerate() {
        assert_eq!(results["studies"][at]["study"]["name"], name);
        let flags = results["flags"].as_array().unwrap();
        assert!(flags.iter().any(|flag| flag["study"] == name), "{flags:?}");
    }
    let page = fs::read_to_string(dir.path().join("both/report.html")).unwrap();
    for name in names {
        let row = format!("<td>{name}</td>");
        assert!(page.contains(&row), "the overview names {name}");
    }
}

fn names_in(folder: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(folder).unwrap();
    entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect()
}

#[test]
fn pictures_of_an_earlier_report_go_and_other_files_stay() {
    let dir = tempfile::tempdir().unwrap();
    let standard = STUDY.replace("scheme = \"ntk\"", "scheme = \"standard\"");
    folder(&dir.path().join("ntk"), STUDY, |_, _| true);
    folder(&dir.path().join("standard"), &standard, |_, _| true);
    report(dir.path(), &["standard", "--out", "alone"]);
    let alone = names_in(&dir.path().join("alone/figures"));

    report(dir.path(), &["ntk", "--out", "out"]);
    let figures = dir.path().join("out/figures");
    let first = names_in(&figures);
    assert!(first.iter().any(|name| name.starts_with("law-")));
    // The user's own: a new picture, one that was changed, and a name that only the list claims.
    let changed = first.iter().find(|name| !alone.contains(*name)).unwrap();
    fs::write(figures.join(changed), "drawn over").unwrap();
    fs::write(figures.join("law-mine.png"), "my own").unwrap();
    fs::write(dir.path().join("out/notes.png"), "").unwrap();
    let list = figures.join("SHA256SUMS");
    let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
    let sums = fs::read_to_string(&list).unwrap();
    fs::write(&list, format!("{sums}{empty}  ../notes.png\n")).unwrap();

    report(dir.path(), &["standard", "--out", "out"]);
    let mut expected = alone;
    expected.extend([changed.clone(), "law-mine.png".to_owned()]);
    assert_eq!(names_in(&figures), expected);
    assert!(dir.path().join("out/notes.png").exists());
    // Written again, nothing changes.
    let sums = fs::read_to_string(&list).unwrap();
    report(dir.path(), &["standard", "--out", "out"]);
    assert_eq!(fs::read_to_string(&list).unwrap(), sums);
    assert_eq!(names_in(&figures), expected);
}
