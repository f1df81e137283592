//! What `check` and `list` say of a study before it is run.

use super::json;

/// Of tiny and of huge networks alike. A rate of the tiny ones for all is off by 2.5 and more.
#[test]
fn list_and_check_agree_on_the_time() {
    let dir = tempfile::tempdir().unwrap();
    let list = json(dir.path(), &["list", "--json"]);
    for study in ["quickstart", "mnist-1lp", "stability-std-mnist-2lp"] {
        let listed = (list.as_array().unwrap().iter())
            .find(|row| row["study"] == study)
            .unwrap();
        let alone = json(dir.path(), &["check", study, "--json"]);
        let ratio = listed["seconds"].as_f64().unwrap() / alone["seconds"].as_f64().unwrap();
        // The machine may be busy: by themselves they differ by some hundredths.
        assert!((0.6..1.7).contains(&ratio), "{study}: {ratio}");
    }
}
