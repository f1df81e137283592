//! Stability studies: limits, trends, and what they mean for predictions.

mod support;

use analysis::compare::{CompareError, schemes};
use analysis::predict::LimitSource;
use analysis::stability::Half;
use analysis::{Findings, Request, analyse, predict};
use spec::{Outcome, Width};
use support::{records, study, trained};

const SEARCH: &str = "kind = \"stability\"\nbatch_size = 64\n\
    learning_rates = [1, 1.4, 2, 2.8, 4, 5.6, 8, 11, 16, 22, 32, 45, 64]";

/// Runs diverge above ε = limit(w), the last grid value below it spoiled for one in four.
fn stability(scheme: &str, limit: impl Fn(f64) -> f64) -> Findings {
    let study = study(scheme, &[8, 16, 32], 20, SEARCH);
    let all = records(&study, |point, seed| {
        let share = point.learning_rate.get() / limit(f64::from(point.width.get()));
        if share > 1.0 || (share > 0.71 && seed % 4 == 0) {
            Outcome::Diverged { step: 1 }
        } else {
            trained(0.9)
        }
    });
    analyse(&study, &all)
}

#[test]
fn the_limit_follows_the_width_as_its_scheme_says() {
    let standard = stability("standard", |w| 200.0 / w);
    let found = standard.stability.as_ref().unwrap();
    let trend = found.failure_trend.as_ref().unwrap();
    assert!((trend.exponent + 1.0).abs() < 0.15, "{trend:?}");
    assert!(trend.normalized_exponent.abs() < 0.15);
    let confidence = trend.exponent_confidence.unwrap();
    assert!(confidence.interval.contains(&trend.exponent));
    let ntk = stability("ntk", |_| 10.0);
    let found = ntk.stability.as_ref().unwrap();
    let trend = found.failure_trend.as_ref().unwrap();
    assert!(trend.exponent.abs() < 1e-9, "{trend:?}");
    // Above 10 all fail, at 8 one in four: ½ is a third of the way from ln 8 to ln 11.
    let expected = 8.0 * (11.0_f64 / 8.0).powf(1.0 / 3.0);
    for width in &found.widths {
        let Half::At(half) = width.divergence.half else {
            panic!("{width:?}")
        };
        assert!((half.learning_rate.get() - expected).abs() < 1e-9);
        assert_eq!(width.failure.safe.unwrap().learning_rate.get(), 5.6);
        // σ₀² = 2 in the NTK scheme: ε̄ = ε/2.
        assert_eq!(width.failure.safe.unwrap().normalized.get(), 2.8);
        assert_eq!(width.points[6].diverged.unwrap().count, 5);
    }
}

#[test]
fn stalled_runs_fail_but_do_not_diverge() {
    let study = study("ntk", &[8], 4, SEARCH);
    let all = records(&study, |point, _| {
        if point.learning_rate.get() > 4.0 {
            Outcome::Stalled {
                step: 9,
                test_accuracy: 0.1,
            }
        } else {
            trained(0.9)
        }
    });
    let findings = analyse(&study, &all);
    let width = &findings.stability.as_ref().unwrap().widths[0];
    assert_eq!(width.divergence.half, Half::AboveGrid);
    assert_eq!(width.failure.safe.unwrap().learning_rate.get(), 4.0);
    assert_eq!(findings.stability.as_ref().unwrap().failure_trend, None);
}

#[test]
fn predictions_keep_to_the_measured_limit() {
    let law = study(
        "ntk",
        &[8, 16],
        4,
        "kind = \"batch-size\"\nlearning_rate = 1.2\nbatch_sizes = [16, 32, 64, 128]",
    );
    let all = records(&law, |p, seed| {
        let best = p.width.get() * p.batch_size.get() == 512;
        trained(if best { 0.9 } else { 0.8 } + 0.0001 * (seed % 2) as f64)
    });
    let findings = analyse(&law, &all);
    let request = Request {
        width: Width::new(32).unwrap(),
        search: None,
        fixed: None,
    };
    let stable = stability("ntk", |_| 10.0);
    let prediction = predict(&findings, Some(&stable), &request).unwrap();
    assert_eq!(prediction.limit.source, LimitSource::Stability);
    // ε_safe = 5.6 at every width, in the NTK scheme the same at W.
    assert!((prediction.limit.learning_rate.get() - 5.6).abs() < 1e-12);
    let other = stability("standard", |w| 200.0 / w);
    let error = predict(&findings, Some(&other), &request).unwrap_err();
    assert!(error.to_string().contains("does not apply"), "{error}");
}

#[test]
fn schemes_are_compared_by_peak_accuracy() {
    let search = "kind = \"batch-size\"\nlearning_rate = 1.2\nbatch_sizes = [16, 32, 64]";
    let of = |scheme: &str, best: f64| {
        let study = study(scheme, &[8, 16], 2, search);
        let all = records(&study, |p, seed| {
            let top = if p.batch_size.get() == 32 { best } else { 0.7 };
            trained(top + 0.02 * seed as f64)
        });
        analyse(&study, &all)
    };
    let (standard, ntk) = (of("standard", 0.90), of("ntk", 0.88));
    // Peaks 0.91 and 0.89, each of two values 0.02 apart: σ/√2 = 0.01, together 0.01·√2.
    let compared = schemes(&ntk, &standard).unwrap();
    assert_eq!(compared.len(), 2);
    assert!((compared[0].difference.value + 0.02).abs() < 1e-12);
    let error = compared[0].difference.standard_error.unwrap();
    assert!((error - 0.01 * 2.0_f64.sqrt()).abs() < 1e-12);
    assert!(matches!(
        schemes(&ntk, &ntk),
        Err(CompareError::SameScheme { .. })
    ));
}
