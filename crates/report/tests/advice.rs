//! The settings that the page proposes for another width.

mod support;

use analysis::predict::LimitSource;
use analysis::{Findings, Fixed, Prediction, Request, predict};
use report::{Page, PageOptions, figures, number::significant, page};
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
        rest = if tag.starts_with("span") && tag.ends_with(" hidden") {
            let mut depth = 1;
            let mut at = 0;
            while depth > 0 {
                let next = at + after[at..].find("span").unwrap();
                depth += if after[..next].ends_with("</") { -1 } else { 1 };
                at = next + 4;
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
    // At ε = 5 the law wants B = 9 · 128/64 of a real size: the whole one has another ε.
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
    assert!(!text.contains("with B ="), "{text}");
    findings.study.widths.retain(|width| width.get() <= 32);
    let text = card(&[findings]);
    assert!(text.contains(" with B = 16. "), "{text}");
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
