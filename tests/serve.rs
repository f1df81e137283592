//! `noisescale serve` over plain connections: what it shows, whom it answers, and what
//! it withstands. `browser.rs` opens its pages in a browser.

mod page;

use page::{STUDY, Server, append, folder, noisescale, study};
use serde_json::Value;
use spec::plan;
use std::net::TcpListener;
use std::path::Path;
use std::time::{Duration, Instant};

/// Ten thousand runs: 8 widths, 25 values, 50 seeds.
const LARGE: &str = r#"
title = "Ten thousand runs"
seeds = 50
[task]
dataset = "digits"
[family]
kind = "mlp"
hidden = [1]
widths = [8, 12, 16, 24, 32, 48, 64, 96]
scheme = "ntk"
[search]
kind = "paired"
learning_rate = 5.0
batch_sizes = [2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128]
batch_size = 16
learning_rates = [0.25, 0.35, 0.5, 0.7, 1.0, 1.4, 2.0, 2.8, 4.0, 5.6, 8.0, 11.0]
[time]
epochs = 40
"#;

/// How long pages take where there are many runs. Write the numbers into docs/REPORT.md:
/// `cargo test --release --test serve -- --ignored --nocapture`.
#[test]
#[ignore = "a measurement, not a test"]
fn ten_thousand_runs() {
    let dir = tempfile::tempdir().unwrap();
    let at = folder(&dir.path().join("large"), LARGE, |_, _| true);
    let bytes: u64 = std::fs::read_dir(at.join("records"))
        .unwrap()
        .map(|f| f.unwrap().metadata().unwrap().len())
        .sum();
    println!(
        "ledger: {} runs, {bytes} bytes",
        plan(&study("large", LARGE)).len()
    );
    let start = Instant::now();
    let server = Server::start(dir.path(), &["large"]);
    println!("listening after {:?}", start.elapsed());
    let first = server.get("/s/large");
    println!(
        "first page after {:?}: {} bytes",
        start.elapsed(),
        first.len()
    );
    while server.get("/s/large").contains("Reading the ledger") {
        std::thread::sleep(Duration::from_millis(10));
    }
    println!("first whole page after {:?}", start.elapsed());
    let point = "/s/large/points/batch-size-w32-b16-e5";
    for path in [
        "/s/large",
        "/s/large/parts",
        point,
        "/s/large/runs.csv",
        "/page.js",
        "/page.css",
    ] {
        let start = Instant::now();
        let text = server.get(path);
        println!("{path}: {} bytes in {:?}", text.len(), start.elapsed());
    }
}
