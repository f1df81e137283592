//! Stability studies: limits, trends, and what they mean for predictions.

mod support;

use analysis::compare::{CompareError, schemes};
use analysis::predict::LimitSource;
use analysis::resample::Resolution;
use analysis::stability::Half;
use analysis::{Findings, Fixed, Interval, Options, Request, analyse, analyse_points, predict};
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

/// A study whose best batch size is 512 over the width.
fn lawful() -> Findings {
    let search = "kind = \"batch-size\"\nlearning_rate = 1.2\nbatch_sizes = [16, 32, 64, 128]";
    let law = study("ntk", &[8, 16], 4, search);
    let all = records(&law, |p, seed| {
        let best = p.width.get() * p.batch_size.get() == 512;
        trained(if best { 0.9 } else { 0.8 } + 0.0001 * (seed % 2) as f64)
    });
    analyse(&law, &all)
}

#[test]
fn predictions_keep_to_the_measured_limit() {
    let findings = lawful();
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

/// The interval of q in what accounts for runs alone, and for the grid as well.
fn trend_intervals(widths: &[u32], limit: impl Fn(u32) -> f64) -> [Interval<f64>; 2] {
    let study = study("ntk", widths, 4, SEARCH);
    let all = records(&study, |point, _| {
        if point.learning_rate.get() > limit(point.width.get()) {
            Outcome::Diverged { step: 1 }
        } else {
            trained(0.9)
        }
    });
    [Resolution::Seeds, Resolution::SeedsAndGrid].map(|resolution| {
        let options = Options {
            resolution,
            ..Options::default()
        };
        let findings = analyse_points(&study, &spec::points(&study), &all, options);
        let trend = findings.stability.unwrap().failure_trend.unwrap();
        assert_eq!(trend.exponent, 0.0);
        trend.exponent_confidence.unwrap().interval
    })
}

#[test]
fn a_limit_is_known_to_a_step_of_the_grid_and_no_better() {
    // All runs train at ε = 8 and none at 11, at both widths: resamples find the same.
    let [runs, grid] = trend_intervals(&[8, 16], |_| 10.0);
    assert_eq!((runs.low, runs.high), (0.0, 0.0));
    // Half a step up at one width and down at the other is the most: ln(11/8) / ln 2 = 0.459.
    let most = (11.0_f64 / 8.0).ln() / 2.0_f64.ln();
    assert!(grid.high < most && grid.high > 0.6 * most, "{grid:?}");
    assert!(grid.low > -most && grid.low < -0.6 * most, "{grid:?}");
}

#[test]
fn a_width_without_a_limit_is_in_no_resample() {
    // At w = 4 all runs fail at every rate.
    let [runs, _] = trend_intervals(&[4, 8, 16], |w| if w == 4 { 0.5 } else { 10.0 });
    assert_eq!((runs.low, runs.high), (0.0, 0.0));
}

#[test]
fn limits_that_are_not_there_are_refused() {
    let findings = lawful();
    let request = Request {
        width: Width::new(32).unwrap(),
        search: None,
        fixed: None,
    };
    let refusal = |stability: &Findings| {
        predict(&findings, Some(stability), &request)
            .unwrap_err()
            .to_string()
    };
    assert!(refusal(&findings).contains("is no stability study"));
    let none_safe = stability("ntk", |w| if w < 10.0 { 0.5 } else { 10.0 });
    assert!(refusal(&none_safe).contains("at width 8 of"));
    let mut other = stability("ntk", |_| 10.0);
    other.study.momentum = spec::Momentum::new(0.0).unwrap();
    assert!(refusal(&other).contains("optimizer"));
    // The limit of w = 8 is below those of the others, and not constant.
    let rising = stability("ntk", |w| w);
    let limit = predict(&findings, Some(&rising), &request).unwrap().limit;
    assert_eq!((limit.width.get(), limit.batch_size.get()), (8, 64));
    assert_eq!(limit.constant, Some(false));
    // At a fixed rate it is the batch size that has an interval.
    let rate = spec::LearningRate::new(1.2).unwrap();
    let fixed = Request {
        fixed: Some(Fixed::LearningRate(rate)),
        ..request
    };
    let pair = predict(&findings, None, &fixed).unwrap().chosen.unwrap();
    // B = 64 at w = 8 and 32 at w = 16: 16 at w = 32.
    assert_eq!(pair.batch_size.get(), 16);
    let sizes = pair.batch_sizes;
    assert!(sizes.low.get() < 16 && sizes.high.get() > 16, "{sizes:?}");
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

#[test]
fn the_largest_trained_rate_says_where_it_trained_and_where_not() {
    // Best at ε/w = 1/8: ε = 1, 2 and 4. At w = 32 all rates train, at w = 16 and below not 8.
    let search = "kind = \"learning-rate\"\nbatch_size = 16\n\
                  learning_rates = [0.25, 0.5, 1, 2, 4, 8, 16]\nreference_learning_rate = 1";
    let law = study("ntk", &[8, 16, 32], 4, search);
    let all = records(&law, |p, seed| {
        let (width, rate) = (p.width.get(), p.learning_rate.get());
        if rate >= 16.0 || (width <= 16 && rate >= 8.0 && seed > 0) {
            return Outcome::Diverged { step: 1 };
        }
        let best = rate * 8.0 == f64::from(width);
        trained(if best { 0.9 } else { 0.8 } + 0.0001 * (seed % 2) as f64)
    });
    let findings = analyse(&law, &all);
    let limit = |width| {
        let request = Request {
            width: Width::new(width).unwrap(),
            search: None,
            fixed: None,
        };
        predict(&findings, None, &request).unwrap().limit
    };
    // Whatever is asked, 8 trained at w = 32 alone.
    for width in [4, 8, 20, 32, 100] {
        let found = limit(width);
        assert_eq!(found.learning_rate.get(), 8.0);
        assert_eq!((found.width.get(), found.batch_size.get()), (32, 16));
    }
    // 32 is nearer to 23 than 16 is: 1.39 times against 1.44.
    assert_eq!(limit(23).failing, None);
    let failing = limit(22).failing.unwrap();
    assert_eq!(failing.width.get(), 16);
    assert_eq!(failing.learning_rate.get(), 8.0);
    assert_eq!((failing.failed, failing.recorded), (3, 4));
    assert_eq!(limit(4).failing.unwrap().width.get(), 8);
}
