//! The pages in a real browser: opened, hovered over, used by keyboard, sorted, asked for
//! other widths, downloaded from, read without scripts and on a phone, and watched
//! while a study runs. Without Chromium these tests say that they were skipped.

#![cfg(unix)]

mod chromium;
#[path = "../page/mod.rs"]
mod page;
mod pictures;
#[path = "../skip/mod.rs"]
mod skip;
mod slider;

use chromium::{Browser, PATIENCE, program};
use page::program::succeed;
use page::{STUDY, Server, append, folder, noisescale, study};
use slider::slider_agrees_with_predict;
use spec::plan;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::{Duration, Instant};

/// A folder with a study of which every run is recorded.
fn recorded() -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let at = folder(&dir.path().join("digits"), STUDY, |_, _| true);
    (dir, at)
}

const TIP: &str =
    "(() => { const t = document.getElementById('tip'); return t.hidden ? '' : t.textContent; })()";

/// The first mark of the figure that scans batch sizes.
const MARK: &str =
    "document.querySelector('figure[id^=scan-batch-size-search-against-batch-size] .mark')";

/// Hovers over a mark and finds its words in the figure's CSV.
fn hover_shows_data(browser: &mut Browser, csv: &str) {
    browser.hover(MARK);
    browser.wait(&format!("{TIP} !== ''"));
    let tip = browser.text(TIP);
    let accuracy = tip
        .lines()
        .find(|line| line.starts_with("test accuracy"))
        .unwrap();
    assert!(tip.contains("n = 6") && accuracy.contains('±'), "{tip}");
    assert!(csv.contains(accuracy), "{accuracy} is not in\n{csv}");
}

fn keyboard_reaches_the_marks(browser: &mut Browser) {
    browser.eval(&format!(
        "{MARK}.closest('svg').querySelector('.mark[tabindex=\"0\"]').focus()"
    ));
    let first = browser.text(TIP);
    browser.press("ArrowRight");
    let second = browser.text(TIP);
    assert!(!second.is_empty() && first != second, "{first}\n{second}");
    browser.press("ArrowLeft");
    assert_eq!(browser.text(TIP), first);
    browser.press("Escape");
    assert_eq!(browser.text(TIP), "");
}

fn tables_sort(browser: &mut Browser) {
    let table = "document.querySelector('[data-part=s0-optima] table.sort')";
    let column =
        format!("Array.from({table}.tBodies[0].rows, r => parseFloat(r.cells[0].dataset.s))");
    browser.eval(&format!("{table}.querySelector('th button').focus()"));
    browser.press("Enter");
    let up = browser.eval(&column);
    assert_eq!(
        browser.text(&format!(
            "{table}.querySelector('th').getAttribute('aria-sort')"
        )),
        "ascending"
    );
    browser.press("Enter");
    let down = browser.eval(&column);
    let mut reversed = up.as_array().unwrap().clone();
    reversed.reverse();
    assert_eq!(down.as_array().unwrap(), &reversed);
    assert_ne!(up, down);
}

/// At first the script puts in the numbers that the page has without it.
fn script_repeats_the_page(browser: &mut Browser) {
    let differ = browser.text(
        "(async () => {
            const text = await (await fetch(location.href)).text();
            const plain = new DOMParser().parseFromString(text, 'text/html');
            const words = (p) => ['[aria-live]', 'tbody']
                .map(s => p.querySelector('.predict ' + s).textContent.replace(/\\s/g, ' ')).join();
            return words(plain) === words(document) ? '' : words(plain) + ' against ' + words(document);
        })()",
    );
    assert_eq!(differ, "");
}

/// Width and height of a PNG file.
fn picture_size(file: &[u8]) -> (u32, u32) {
    assert_eq!(&file[..8], b"\x89PNG\r\n\x1a\n");
    let number = |at: usize| u32::from_be_bytes(file[at..at + 4].try_into().unwrap());
    (number(16), number(20))
}

fn downloads(browser: &mut Browser) -> String {
    let id = browser.text(&format!("{MARK}.closest('figure').id"));
    let link = |kind: &str| {
        format!(
            "Array.from(document.getElementById('{id}').querySelectorAll('.get *')).find(e => e.textContent === '{kind}')"
        )
    };
    let svg = browser.download(&link("SVG"), &format!("{id}.svg"));
    assert!(
        String::from_utf8(svg)
            .unwrap()
            .contains("Test accuracy against batch size")
    );
    let (width, height) = picture_size(&browser.download(&link("PNG"), &format!("{id}.png")));
    assert!(width == 1440 && height > 600, "{width} × {height}");
    let csv = String::from_utf8(browser.download(&link("CSV"), &format!("{id}.csv"))).unwrap();
    assert!(csv.starts_with("series,batch size B"), "{csv}");
    csv
}

#[test]
fn a_served_page_is_used() {
    let Some(program) = program() else { return };
    let (dir, _) = recorded();
    let server = Server::start(dir.path(), &["digits"]);
    let mut browser = Browser::start(&program);
    browser.open(&server.url);
    assert_eq!(browser.text("location.pathname"), "/s/digits");
    let csv = downloads(&mut browser);
    hover_shows_data(&mut browser, &csv);
    keyboard_reaches_the_marks(&mut browser);
    tables_sort(&mut browser);
    script_repeats_the_page(&mut browser);
    slider_agrees_with_predict(&mut browser, dir.path(), "digits");
    // A mark leads to its runs and how they trained.
    browser.eval(&format!("{MARK}.focus()"));
    browser.press("Enter");
    browser.wait("location.pathname.includes('/points/') && document.readyState === 'complete'");
    assert_eq!(
        browser.number("document.querySelectorAll('figure svg').length"),
        2.0
    );
    assert_eq!(
        browser.number("document.querySelectorAll('tbody tr').length"),
        6.0
    );
    browser.hover("document.querySelector('figure .mark')");
    browser.wait(&format!("{TIP}.includes('seed 0, step')"));
}

#[test]
fn a_report_file_is_used() {
    let Some(program) = program() else { return };
    let (dir, at) = recorded();
    succeed(dir.path(), &["report", "digits"]);
    let mut browser = Browser::start(&program);
    browser.open(&format!("file://{}", at.join("report.html").display()));
    let csv = downloads(&mut browser);
    hover_shows_data(&mut browser, &csv);
    keyboard_reaches_the_marks(&mut browser);
    tables_sort(&mut browser);
    slider_agrees_with_predict(&mut browser, dir.path(), "digits");
}

#[test]
fn the_slider_cautions_where_runs_failed() {
    let Some(program) = program() else { return };
    let dir = tempfile::tempdir().unwrap();
    // At B = 1 all runs of w = 8 and 16 diverge, at B = 2 those of w = 8.
    let text = STUDY.replace("batch_sizes = [4,", "batch_sizes = [1, 2, 4,");
    let at = folder(&dir.path().join("small"), &text, |_, _| true);
    let told = succeed(dir.path(), &["predict", "small", "--width", "14"]);
    assert!(
        told.contains("at w = 16 with B = 1, 6 of 6 runs failed"),
        "{told}"
    );
    succeed(dir.path(), &["report", "small"]);
    let mut browser = Browser::start(&program);
    browser.open(&format!("file://{}", at.join("report.html").display()));
    slider_agrees_with_predict(&mut browser, dir.path(), "small");
}

#[test]
fn without_scripts_the_report_is_there() {
    let Some(program) = program() else { return };
    let (dir, _) = recorded();
    let server = Server::start(dir.path(), &["digits"]);
    let mut browser = Browser::start(&program);
    browser.call(
        "Emulation.setScriptExecutionDisabled",
        serde_json::json!({ "value": true }),
    );
    browser.call("Page.navigate", serde_json::json!({ "url": server.url }));
    // The debugger still evaluates; the page's own script does not run.
    browser.wait("document.readyState === 'complete' && location.pathname === '/s/digits'");
    assert_eq!(browser.eval("typeof window.noisescale"), "undefined");
    let text = browser.text("document.body.innerText");
    for words in [
        "planned runs recorded",
        "growing in proportion",
        "For w = 64",
        "Test accuracy against batch size",
    ] {
        assert!(text.contains(words), "{words} is not in\n{text}");
    }
    assert_eq!(
        browser.eval("document.querySelector('.ask').checkVisibility()"),
        false
    );
    assert!(browser.number("document.querySelectorAll('.get a').length") >= 18.0);
    assert!(browser.number("document.querySelectorAll('svg .mark title').length") > 50.0);
}

/// How bright a colour is against another, by WCAG 2.
const CONTRAST: &str = "(function (one, other) {
    const light = (colour) => {
        const c = document.createElement('canvas').getContext('2d');
        c.fillStyle = colour; c.fillRect(0, 0, 1, 1);
        const [r, g, b] = Array.from(c.getImageData(0, 0, 1, 1).data).map(v => v / 255).map(v => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const v = (name) => getComputedStyle(document.documentElement).getPropertyValue(name);
    const [a, b] = [light(v(one)), light(v(other))].sort((x, y) => y - x);
    return (a + 0.05) / (b + 0.05);
})";

#[test]
fn phones_and_dark_rooms() {
    let Some(program) = program() else { return };
    let (dir, _) = recorded();
    folder(&dir.path().join("second"), STUDY, |at, _| at % 2 == 0);
    let server = Server::start(dir.path(), &["digits", "second"]);
    let mut browser = Browser::start(&program);
    for scheme in ["light", "dark"] {
        browser.scheme(scheme);
        browser.size(360, 740);
        for path in [
            "",
            "s/digits",
            "s/second",
            "s/digits/points/batch-size-w16-b16-e5",
        ] {
            browser.open(&format!("{}{path}", server.url));
            browser.eval("document.querySelectorAll('details').forEach(d => d.open = true)");
            let wide = browser.number("document.documentElement.scrollWidth");
            assert!(wide <= 360.0, "{path} is {wide} pixels wide");
        }
        for (ink, paper) in [
            ("--text", "--paper"),
            ("--muted", "--paper"),
            ("--accent", "--paper"),
            ("--warn", "--paper"),
            ("--text", "--soft"),
            ("--muted", "--soft"),
            ("--muted", "--card"),
            ("--accent", "--card"),
            ("--warn", "--warn-soft"),
            ("--text", "--warn-soft"),
        ] {
            let contrast = browser.number(&format!("{CONTRAST}('{ink}', '{paper}')"));
            assert!(contrast >= 4.5, "{ink} on {paper}, {scheme}: {contrast}");
        }
    }
    // A finger first sees, then follows.
    browser.open(&format!("{}s/digits", server.url));
    browser.tap(MARK);
    browser.wait(&format!("{TIP}.includes('test accuracy')"));
    assert_eq!(browser.text("location.pathname"), "/s/digits");
    browser.tap(MARK);
    browser.wait("location.pathname.includes('/points/') && document.readyState === 'complete'");
    let dark = browser.text("getComputedStyle(document.body).backgroundColor");
    assert_eq!(dark, "rgb(21, 25, 30)");
}

const RUNNING: &str = r#"
title = "A study that runs"
seeds = 6
[task]
dataset = "digits"
[family]
kind = "mlp"
hidden = [1]
widths = [16, 32, 64]
scheme = "ntk"
[search]
kind = "batch-size"
learning_rate = 5.0
batch_sizes = [4, 8, 16, 32, 64, 128]
extend = 0
[time]
epochs = 20
"#;

/// A study runs in another process while its page is open and being used.
#[test]
fn a_running_study_grows_on_the_page() {
    let Some(program) = program() else { return };
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("running.toml"), RUNNING).unwrap();
    let at = folder(&dir.path().join("running"), RUNNING, |place, _| {
        place % 6 == 0
    });
    let server = Server::start(dir.path(), &["running"]);
    let mut browser = Browser::start(&program);
    browser.open(&server.url);
    let count = "Number(document.querySelector('progress').value)";
    let first = browser.number(count);
    assert!(first > 0.0 && first < 108.0, "{first}");
    browser.eval(
        "window.stayed = true;
         document.querySelector('details[open]')?.removeAttribute('open');
         const points = Array.from(document.querySelectorAll('details')).at(-2); points.open = true;
         points.querySelector('th button').click(); points.querySelector('th button').click();
         points.querySelector('summary').focus();
         document.querySelector('figure[id^=scan]').scrollIntoView();",
    );
    let points = "Array.from(document.querySelectorAll('details')).at(-2)";
    let place = "document.querySelector('figure[id^=scan]').getBoundingClientRect().top";
    let height = "document.documentElement.scrollHeight";
    let (before, tall) = (browser.number(place), browser.number(height));
    // It grows twice by other hands before the rest is trained, however fast that is.
    let runs = plan(&study("running", RUNNING));
    for part in [1, 2] {
        let before = browser.number(count);
        let brought = runs.iter().enumerate();
        let brought = brought.filter(|(place, _)| place % 6 == part);
        append(&at, "other", brought.map(|(_, run)| run));
        browser.wait(&format!("{count} === {before} + 18"));
    }
    let run = ["run", "running.toml", "--out", "running", "--quiet"];
    let mut trainer = noisescale(dir.path(), &run)
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let start = Instant::now();
    let ended = loop {
        if let Some(ended) = trainer.try_wait().unwrap() {
            break ended;
        }
        if start.elapsed() > PATIENCE {
            trainer.kill().unwrap();
        }
        std::thread::sleep(Duration::from_millis(100));
    };
    assert!(ended.success(), "after {:?}: {ended}", start.elapsed());
    browser.wait(&format!("{count} === 108"));
    browser.wait("document.querySelector('.work').textContent.startsWith('complete')");
    // The same document, with what the reader did to it.
    assert_eq!(browser.eval("window.stayed"), true);
    assert_eq!(
        browser.text("document.querySelector('.live').textContent"),
        "live"
    );
    assert_eq!(browser.eval(&format!("{points}.open")), true);
    assert_eq!(
        browser.text(&format!(
            "{points}.querySelector('th').getAttribute('aria-sort')"
        )),
        "descending"
    );
    assert_eq!(
        browser.eval(&format!(
            "document.activeElement === {points}.querySelector('summary')"
        )),
        true
    );
    assert!(
        (browser.number(height) - tall).abs() > 40.0,
        "nothing above has changed"
    );
    let moved = browser.number(place) - before;
    assert!(moved.abs() < 4.0, "scrolled away by {moved}");
    // What goes wrong later is said on the page.
    std::fs::remove_dir_all(at).unwrap();
    browser.wait("document.querySelector('[role=alert]') !== null");
    drop(server);
    browser.wait("document.querySelector('.live').dataset.state === 'lost'");
}
