//! The settings that the page proposes for another width.

mod support;

use analysis::predict::LimitSource;
use analysis::{Findings, Fixed, Prediction, Request, predict};
use report::{Page, PageOptions, cautions, figures, number::significant, page};
use spec::{BatchSize, SearchKind, Width};
use support::Sample;

fn shown(findings: &[Findings]) -> Page {
    page(findings, &figures(findings), &PageOptions::default())
}

/// The text of the first card of settings, without markup and ties; what is hidden is left out.
fn card(findings: &[Findings]) -> String {
    let shown = shown(findings);
    let part = shown.parts.iter().find(|part| part.name == "s0-predict");
    let mut out = String::new();
    let mut rest = part.expect("a card").html.as_str();
    while let Some((before, tag)) = rest.split_once('<') {
        let (tag, after) = tag.split_once('>').unwrap();
        out += before;
        // Hidden words hold other elements of their own.
        let name = tag.split(' ').next().unwrap();
        rest = if ["span", "li"].contains(&name) && tag.ends_with(" hidden") {
            let mut depth = 1;
            let mut at = 0;
            while depth > 0 {
                let next = at + after[at..].find(name).unwrap();
                match &after[..next] {
                    before if before.ends_with("</") => depth -= 1,
                    before if before.ends_with('<') => depth += 1,
                    _ => {}
                }
                at = next + name.len();
            }
            &after[at + 1..]
        } else {
            after
        };
    }
    out.replace('\u{a0}', " ")
}

fn at(findings: &Findings, width: u32, fixed: Option<Fixed>) -> Prediction {
    let width = Width::new(width).unwrap();
    let search = None;
    predict(
        findings,
        None,
        &Request {
            width,
            search,
            fixed,
        },
    )
    .unwrap()
}

#[test]
fn the_proposed_pair_is_on_the_law() {
    // At ε = 5 the law wants no whole B: the one nearest to it has another ε.
    let findings = [support::paired().findings()];
    let text = card(&findings);
    let (_, command) = text.split_once("predict DIR --width 128").unwrap();
    let (_, size) = command.split_once("--batch-size ").unwrap();
    let size: String = size.chars().take_while(char::is_ascii_digit).collect();
    let size = Fixed::BatchSize(BatchSize::new(size.parse().unwrap()).unwrap());
    let found = at(&findings[0], 128, Some(size));
    let pair = found.chosen.unwrap();
    let three = |rate: spec::LearningRate| significant(rate.get(), 3);
    let ends = pair.learning_rates;
    let words = format!(
        "ε = {} [{}, {}] with B = {}",
        three(pair.learning_rate),
        three(ends.low),
        three(ends.high),
        pair.batch_size
    );
    assert!(text.contains(&words), "{words} is not in {text}");
    // Exactly the law's noise, at a rate that is nearest to the study's own of all whole sizes.
    assert_eq!(pair.noise, found.noise.value);
    let alone = found.pairs[0].learning_rate.get();
    assert!((pair.learning_rate.get() - 5.0).abs() <= 0.5 * alone + 1e-12);
    assert_ne!(three(pair.learning_rate), "5");
    assert_eq!(found.limit.source, LimitSource::LargestTrained);
}

#[test]
fn a_fixed_batch_size_is_kept_where_its_rate_is_safe() {
    let mut findings = support::paired().findings();
    let rates = |search: &analysis::SearchFindings| search.kind == SearchKind::LearningRate;
    findings.searches.retain(rates);
    // At w = 128 the rate would be 19.8, and 16 is the largest that trained.
    let text = card(std::slice::from_ref(&findings));
    assert!(!text.contains("--batch-size"), "{text}");
    assert!(!text.contains("] with B ="), "{text}");
    findings.study.widths.retain(|width| width.get() <= 32);
    let text = card(&[findings]);
    assert!(text.contains("] with B = 16. "), "{text}");
    assert!(text.contains("--width 64 --batch-size 16"), "{text}");
}

#[test]
fn a_limit_of_another_study_is_in_the_command() {
    let mut limits = Sample::findings(&support::stability("ntk"));
    let findings = support::paired().findings();
    // As if they were of the same networks.
    let name = limits.study.name.clone();
    limits.study = analysis::StudyBrief {
        name,
        ..findings.study.clone()
    };
    let text = card(&[findings, limits]);
    assert!(text.contains("--stability STABILITY_DIR"), "{text}");
}

/// A study whose largest rate trains at its widest networks alone.
fn failing_where_narrow() -> Sample {
    let mut sample = support::paired();
    for record in &mut sample.records {
        let rate = record.learning_rate.get();
        record.outcome = match record.outcome {
            _ if rate > 10.0 && record.width.get() < 64 => spec::Outcome::Diverged { step: 3 },
            _ if rate > 10.0 => spec::Outcome::Trained { test_accuracy: 0.9 },
            outcome => outcome,
        };
    }
    sample
}

#[test]
fn the_card_has_the_cautions_of_predict() {
    let mut sample = failing_where_narrow();
    sample.records.pop();
    let findings = [sample.findings()];
    let shown = shown(&findings);
    let part = shown.parts.iter().find(|part| part.name == "s0-predict");
    let html = &part.unwrap().html.replace('\u{a0}', " ");
    for width in [8, 48, 64, 128] {
        let found = at(&findings[0], width, None);
        for caution in cautions(&found, findings[0].runs) {
            assert!(html.contains(&caution.text), "{width}: {}", caution.text);
        }
    }
    // The card speaks of w = 128, nearest to 64, where all rates train.
    let text = card(&findings);
    assert!(text.contains("so far: the law may still change"), "{text}");
    assert!(text.contains("This extrapolates"), "{text}");
    assert!(
        text.contains("trained here, at w = 64 with B = 16;"),
        "{text}"
    );
    let beware = "at w = 48 with B = 16, 20 of 20 runs failed at ε = 11,";
    assert!(!text.contains(beware), "{text}");
    let hidden = "<li data-when=\"near-48\" hidden>Beware: at w = 48";
    assert!(html.contains(hidden) && html.contains(beware), "{html}");
}
