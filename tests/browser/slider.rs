//! The slider of the prediction: whatever it shows is what `noisescale predict` says.

use super::chromium::Browser;
use super::succeed;
use serde_json::Value;
use std::path::Path;

/// Moves the slider and compares every number with those of `noisescale predict`.
pub fn slider_agrees_with_predict(browser: &mut Browser, dir: &Path, study: &str) {
    let card = "document.querySelector('.predict')";
    for width in [8, 14, 23, 100, 333, 5000] {
        browser.eval(&format!(
            "(() => {{ const i = {card}.querySelector('input[type=number]'); i.value = {width};
               i.dispatchEvent(new Event('input', {{ bubbles: true }})); }})()"
        ));
        let text = succeed(
            dir,
            &["predict", study, "--width", &width.to_string(), "--json"],
        );
        let told: Value = serde_json::from_str(&text).unwrap();
        let close = |shown: f64, told: &Value| {
            let told = told.as_f64().unwrap();
            assert!(
                (shown - told).abs() <= 1e-9 * told.abs(),
                "w = {width}: {shown} against {told}"
            );
        };
        close(
            browser.number(&format!("Number({card}.dataset.noise)")),
            &told["noise"]["value"],
        );
        let shown = browser.eval(&format!(
            "Array.from({card}.querySelectorAll('tbody tr'), r => [Number(r.cells[0].dataset.s), Number(r.cells[1].dataset.s), r.cells[3].textContent])"
        ));
        let pairs = told["pairs"].as_array().unwrap();
        assert_eq!(shown.as_array().unwrap().len(), pairs.len());
        for (row, pair) in shown.as_array().unwrap().iter().zip(pairs) {
            assert_eq!(row[0].as_f64(), pair["batch_size"].as_f64());
            close(row[1].as_f64().unwrap(), &pair["learning_rate"]);
            let within = pair["stability"] == "allowed";
            assert_eq!(
                row[2] == "within the known limit",
                within,
                "{row} against {pair}"
            );
        }
        let largest = browser.eval(&format!(
            "(() => {{ const s = {card}.querySelector('[data-when=reached]'); return s.hidden ? null : s.querySelector('[data-p=largest]').textContent; }})()"
        ));
        assert_eq!(
            largest.as_str().map(|text| text.replace(',', "")),
            told["largest_batch_size"]
                .as_u64()
                .map(|size| size.to_string())
        );
        proposal_agrees_with_its_command(browser, dir, study);
        let shown = browser.text(&format!(
            "Array.from({card}.querySelectorAll('.cautions li')).filter(i => !i.hidden).map(i => i.textContent).sort().join('\\n')"
        ));
        let mut cautions: Vec<String> = (told["cautions"].as_array().unwrap().iter())
            .map(|caution| caution.as_str().unwrap().replace('`', ""))
            .collect();
        cautions.sort();
        assert_eq!(
            shown.replace('\u{a0}', " "),
            cautions.join("\n"),
            "w = {width}"
        );
    }
    // The slider itself moves the width.
    let before = browser.text(&format!(
        "{card}.querySelector('[data-p=width]').textContent"
    ));
    browser.eval(&format!(
        "{card}.querySelector('input[type=range]').focus()"
    ));
    browser.press("ArrowLeft");
    let after = browser.text(&format!(
        "{card}.querySelector('[data-p=width]').textContent"
    ));
    assert_ne!(before, after);
}

/// The pair that the card proposes is what the command beside it says.
fn proposal_agrees_with_its_command(browser: &mut Browser, dir: &Path, study: &str) {
    let card = "document.querySelector('.predict')";
    let command = browser.text(&format!("{card}.querySelector('.muted code').innerText"));
    let (_, arguments) = command.split_once(" DIR ").unwrap();
    let mut all = vec!["predict", study];
    all.extend(arguments.split_whitespace());
    all.push("--json");
    let told: Value = serde_json::from_str(&succeed(dir, &all)).unwrap();
    let said = browser.text(&format!("{card}.querySelector('[aria-live]').innerText"));
    let Some(pair) = told["chosen"].as_object() else {
        assert!(!said.contains("] with B ="), "{command}: {said}");
        return;
    };
    assert_eq!(pair["noise"], told["noise"]["value"], "{command}");
    let rate = browser.number(&format!(
        "parseFloat({card}.querySelector('[data-p=rate]').textContent)"
    ));
    let exact = pair["learning_rate"].as_f64().unwrap();
    assert!((rate - exact).abs() <= 0.005 * exact, "{command}: {said}");
    let size = format!("with B\u{a0}= {}.", pair["batch_size"]);
    assert!(said.contains(&size), "{command}: {said}");
}
