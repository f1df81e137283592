//! The results in `docs/results` are what the program finds in their ledgers, and what
//! `docs/RESULTS.md` says.

use flate2::read::GzDecoder;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A study of the results as a folder of studies has it.
fn unpack(folder: &Path, place: &Path) -> PathBuf {
    let dir = place.join(folder.file_name().unwrap());
    fs::create_dir_all(dir.join("records")).unwrap();
    fs::copy(folder.join("study.toml"), dir.join("study.toml")).unwrap();
    let packed = fs::File::open(folder.join("records.jsonl.gz")).unwrap();
    let mut records = fs::File::create(dir.join("records/h200.jsonl")).unwrap();
    io::copy(&mut GzDecoder::new(packed), &mut records).unwrap();
    dir
}

/// What a command says of the study in a folder of results, and perhaps of another against it.
fn ask(command: &str, folder: &Path, against: Option<&Path>) -> String {
    let place = tempfile::tempdir().unwrap();
    let mut program = Command::new(env!("CARGO_BIN_EXE_noisescale"));
    program.arg(command).arg(unpack(folder, place.path()));
    if let Some(other) = against {
        program.arg("--against").arg(unpack(other, place.path()));
    }
    let output = program.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// The rows of the page's table below this end of its header, by cells.
fn table(page: &str, header: &str) -> Vec<Vec<String>> {
    let (_, table) = page.split_once(header).unwrap();
    let rows = table.lines().skip(2);
    rows.take_while(|line| line.starts_with('|'))
        .map(|row| {
            let cells = row.trim_matches('|').split('|');
            cells.map(|cell| cell.trim().to_owned()).collect()
        })
        .collect()
}

#[test]
fn the_results_page_says_what_the_ledgers_say() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs");
    let page = fs::read_to_string(docs.join("RESULTS.md")).unwrap();
    let entries = fs::read_dir(docs.join("results")).unwrap();
    let folders = entries.map(|entry| entry.unwrap().path());
    // Whether a row on this study has all of these.
    let says_of = |study: &str, values: &[String]| {
        let own = format!("| {study} |");
        let mut rows = page.lines().filter(|line| line.contains(&own));
        rows.any(|row| values.iter().all(|value| row.contains(value)))
    };
    let (mut laws, mut trends, mut grids) = (0, 0, 0);
    for folder in folders.filter(|folder| folder.join("study.toml").exists()) {
        let text = ask("report", &folder, None);
        let name = folder.file_name().unwrap().to_string_lossy();
        assert!(
            page.contains(&format!("results/{name}/study.toml")),
            "{name}"
        );
        // With batch norm it is 1/B that grows.
        for law in text.lines().filter(|line| line.contains(" = a·w: a = ")) {
            // A law of two widths is none to speak of.
            if law.contains(" 2 widths") {
                continue;
            }
            let (_, a) = law.split_once(": a = ").unwrap();
            let (a, rest) = a.split_once(", R² = ").unwrap();
            let (_, p) = rest.split_once("p = ").unwrap();
            let (p, _) = p.split_once(']').unwrap();
            let a = a.trim_end_matches("/[loss]").trim_end();
            let values = [format!("| {a} |"), format!("| {p}] |")];
            assert!(
                says_of(&name, &values),
                "{name}: no row of the page says {values:?}"
            );
            laws += 1;
        }
        if let Some((_, grid)) = text.split_once("grid, w = ") {
            // Below the header: ε, best B, ḡ_opt.
            let rows = grid
                .lines()
                .skip(2)
                .take_while(|line| !line.trim().is_empty());
            let optima: Vec<_> = rows
                .map(|row| row.split_whitespace().nth(2).unwrap())
                .collect();
            let said = format!("ḡ_opt = {} ·", optima.join(", "));
            assert!(page.contains(&said), "{name}: the page does not say {said}");
            grids += 1;
        }
        for trend in text.lines().filter(|line| line.contains("ε_half ∝ w^q, ")) {
            let (_, q) = trend.split_once("w^q, ").unwrap();
            let (q, _) = q.split_once(']').unwrap();
            let q = [format!("{q}]")];
            assert!(says_of(&name, &q), "{name}: no row of the page says {q:?}");
            trends += 1;
        }
    }
    assert_eq!((laws, trends, grids), (18, 16, 1));
}

/// The exponents that the page says studies would have found after shares of their time.
#[test]
fn the_course_of_the_exponents_is_that_of_the_ledgers() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs");
    let page = fs::read_to_string(docs.join("RESULTS.md")).unwrap();
    let rows = table(&page, "| 25 % | 50 % | 75 % | all |");
    assert!(rows.len() > 5);
    for row in rows {
        let [name, _, exponents @ ..] = row.as_slice() else {
            panic!("{row:?}");
        };
        let text = ask("course", &docs.join("results").join(name), None);
        // A caption and a header; the exponent is the last column.
        let stages = text.lines().skip(2).take(4);
        let found: Vec<&str> = stages
            .map(|line| line.trim_end().rsplit("  ").next().unwrap())
            .collect();
        assert_eq!(found, exponents, "{name}");
    }
}

/// What the page says of the two searches at equal times.
#[test]
fn the_searches_meet_as_the_page_says() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs");
    let page = fs::read_to_string(docs.join("RESULTS.md")).unwrap();
    let rows = table(
        &page,
        "| learning-rate search then: ḡ_opt | peak (%) | ratio |",
    );
    assert!(rows.len() > 5);
    for row in &rows {
        let (name, folder) = (&row[0], |name: &str| docs.join("results").join(name));
        let (other, _) = name.split_once("-rates").unwrap();
        let text = ask("course", &folder(name), Some(&folder(other)));
        let said = text.lines().map(|line| {
            let cells = line.split("  ").map(str::trim);
            cells.filter(|cell| !cell.is_empty()).collect::<Vec<_>>()
        });
        let found = said
            .filter(|cells| cells.first() == Some(&row[1].as_str()))
            .collect::<Vec<_>>();
        assert_eq!(found.len(), 1, "{name}, {}: {text}", row[1]);
        assert_eq!(found[0][..7], row[1..], "{name}");
    }
}
