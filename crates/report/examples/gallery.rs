//! Draws every kind of figure from made-up studies, to look at:
//! `cargo run -p noisescale-report --example gallery -- FOLDER`.

#[path = "../tests/support/mod.rs"]
mod support;

use report::{PageOptions, figures, html, results_json, tables};
use std::path::Path;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = std::env::args().nth(1).ok_or("give a folder")?;
    let folder = Path::new(&folder);
    std::fs::create_dir_all(folder)?;
    let findings: Vec<_> = support::all().iter().map(|s| s.findings()).collect();
    for one in &findings {
        let one = std::slice::from_ref(one);
        let name = &one[0].study.name;
        let drawn = figures(one);
        std::fs::write(
            folder.join(format!("{name}.html")),
            html(one, &drawn, &PageOptions::default()),
        )?;
        for figure in &drawn {
            let file = format!("{name}--{}.png", figure.id);
            std::fs::write(folder.join(file), figure.png(1.5)?)?;
        }
        std::fs::write(folder.join(format!("{name}.txt")), tables(one))?;
        std::fs::write(folder.join(format!("{name}.json")), results_json(one))?;
    }
    let drawn = figures(&findings);
    for figure in &drawn {
        std::fs::write(folder.join(format!("{}.svg", figure.id)), figure.svg())?;
        std::fs::write(folder.join(format!("{}.png", figure.id)), figure.png(1.5)?)?;
        std::fs::write(folder.join(format!("{}.csv", figure.id)), figure.csv())?;
    }
    let start = std::time::Instant::now();
    let one = &findings[..1];
    let page = html(one, &figures(one), &PageOptions::default());
    let (runs, took) = (one[0].runs.recorded, start.elapsed());
    println!("a page of {runs} runs, {} bytes, in {took:?}", page.len());
    let start = std::time::Instant::now();
    drawn[0].png(2.0)?;
    println!("a picture in {:?}", start.elapsed());
    let page = html(&findings, &drawn, &PageOptions::default());
    std::fs::write(folder.join("report.html"), &page)?;
    println!("{} figures, report of {} bytes", drawn.len(), page.len());
    Ok(())
}
