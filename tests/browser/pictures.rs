//! Pictures of the pages, and how those of many runs feel: to look at, not to pass or fail.

use crate::chromium::{Browser, program};
use crate::page::{self, STUDY, Server, folder};
use crate::recorded;
use std::path::PathBuf;

/// Leaves pictures of the page in the folder that `NOISESCALE_SCREENSHOTS` names, for
/// the README and to be looked at; of the study in `NOISESCALE_SCREENSHOT_OF`, if named.
#[test]
fn pictures_of_the_page() {
    let Some(out) = std::env::var_os("NOISESCALE_SCREENSHOTS").map(PathBuf::from) else {
        println!("skipped: NOISESCALE_SCREENSHOTS names no folder");
        return;
    };
    let Some(program) = program() else { return };
    let (dir, at) = recorded();
    let at = std::env::var_os("NOISESCALE_SCREENSHOT_OF").map_or(at, PathBuf::from);
    folder(&dir.path().join("half"), STUDY, |place, _| place % 2 == 0);
    let study = at.to_str().unwrap();
    let one = Server::start(dir.path(), &[study]);
    let two = Server::start(dir.path(), &[study, "half"]);
    let key = at.file_name().unwrap().to_str().unwrap();
    let page = format!("{}s/{key}", one.url);
    let point = format!("{page}/points/batch-size-w32-b16-e5");
    let mut browser = Browser::start(&program);
    for (name, url, [width, height], scheme) in [
        ("page", &page, [1200, 1000], "light"),
        ("dark", &page, [1200, 1000], "dark"),
        ("long", &page, [1200, 3600], "light"),
        ("phone", &page, [360, 2400], "light"),
        ("overview", &two.url, [1200, 900], "light"),
        ("point", &point, [1200, 900], "dark"),
    ] {
        browser.size(width, height);
        browser.scheme(scheme);
        browser.open(url);
        if height == 1000 {
            browser.hover("document.querySelectorAll('figure[id^=law] .mark')[5]");
            browser.eval("window.scrollTo(0, 0)");
        }
        std::fs::write(out.join(format!("{name}.png")), browser.screenshot()).unwrap();
    }
}

/// A page of many runs is opened, hovered over and scrolled. For the numbers of docs/REPORT.md:
/// `cargo test --release --test browser ten_thousand -- --nocapture`.
#[test]
fn ten_thousand_runs() {
    let Some(program) = program() else { return };
    let dir = tempfile::tempdir().unwrap();
    folder(&dir.path().join("large"), page::LARGE, |_, _| true);
    let server = Server::start(dir.path(), &["large"]);
    let mut browser = Browser::start(&program);
    browser.open(&format!("{}s/large", server.url));
    browser.wait("document.querySelectorAll('figure').length > 4");
    browser.open(&format!("{}s/large", server.url));
    // On a busy machine the page is there before it is painted.
    browser.wait("performance.getEntriesByName('first-contentful-paint').length > 0");
    let timing = "performance.getEntriesByType('navigation')[0]";
    for (what, script) in [
        ("first byte", format!("{timing}.responseStart")),
        (
            "whole page read",
            format!("{timing}.domContentLoadedEventEnd"),
        ),
        (
            "first picture",
            "performance.getEntriesByName('first-contentful-paint')[0].startTime".into(),
        ),
    ] {
        println!("{what}: {:.0} ms", browser.number(&script));
    }
    let hover = "(() => { const svg = document.querySelector('figure[id^=scan] svg');
        const box = svg.getBoundingClientRect(); const start = performance.now();
        for (let at = 0; at < 100; at++) svg.dispatchEvent(new PointerEvent('pointermove',
            { clientX: box.left + at * box.width / 100, clientY: box.top + box.height / 2 }));
        return (performance.now() - start) / 100; })()";
    let moved = browser.number(hover);
    println!("a move over a figure: {moved:.2} ms");
    let scroll = "new Promise(done => { let frames = 0, worst = 0, last = performance.now();
        const step = (now) => { worst = Math.max(worst, now - last); last = now; scrollBy(0, 80);
            if (++frames < 60) requestAnimationFrame(step); else done(worst); };
        requestAnimationFrame(step); })";
    println!(
        "longest of 60 frames while scrolling: {:.0} ms",
        browser.number(scroll)
    );
}
