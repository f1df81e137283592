//! Studies made from a known law: what went in must come out.

mod support;

use analysis::late::LateState;
use analysis::law::{ExclusionReason, Growth, LawFit};
use analysis::optimum::Edge;
use analysis::resample::Random;
use analysis::{Fixed, Measure, Options, PredictError, Request, analyse, predict, wanted};
use spec::{LearningRate, Outcome, Record, SearchKind, Spending, Study, Width, points};
use support::{Peak, batch_search, peaked, records, study, trained};

const WIDTHS: [u32; 7] = [8, 12, 16, 24, 32, 48, 64];
/// ḡ = 5 · 1197/(B · 0.1 · 2) = 29925/B at any width: 60·w is B ≈ 62 at w = 8 and 8 at 64.
const A: f64 = 60.0;

fn law_study(widths: &[u32]) -> Study {
    study("ntk", widths, 20, &batch_search(192))
}

fn law_records(study: &Study, seed: u64) -> Vec<Record> {
    let mut noise = Random::stream(seed, 0);
    records(study, |point, _| {
        trained(peaked(study, A, Peak::Linear, &mut noise, point))
    })
}

fn width(w: u32) -> Width {
    Width::new(w).unwrap()
}

fn request(w: u32, fixed: Option<Fixed>) -> Request {
    Request {
        width: width(w),
        search: None,
        fixed,
    }
}

#[test]
fn the_law_that_went_in_comes_out() {
    let study = law_study(&WIDTHS);
    let findings = analyse(&study, &law_records(&study, 1));
    let search = findings.search(SearchKind::BatchSize).unwrap();
    assert_eq!(search.measure, Measure::NormalizedNoise);
    let law = search.law.law().unwrap();
    assert_eq!(law.widths.len(), WIDTHS.len());
    let slope = law.slope_confidence.unwrap();
    assert_eq!(slope.resamples, 1000);
    assert!(slope.interval.contains(&A), "{slope:?}");
    assert!(slope.interval.contains(&law.proportion.slope), "{law:?}");
    assert!(law.proportion.r_squared.unwrap() > 0.97, "{law:?}");
    assert_eq!(law.growth(), Some(Growth::Proportional), "{law:?}");
    for found in &search.widths {
        let optimum = found.optimum.as_ref().unwrap();
        assert!(optimum.bracketed() && !optimum.few_trained);
        assert_eq!(optimum.late, LateState::Settled);
        assert_eq!(optimum.peak.count, 20);
    }
}

#[test]
fn intervals_cover_as_often_as_they_should() {
    // a varies over more than a step of the grid, so that the truth lies anywhere in it.
    let study = law_study(&WIDTHS);
    let all = points(&study);
    let options = Options {
        resamples: 300,
        ..Options::default()
    };
    for peak in [Peak::Linear, Peak::Logarithmic] {
        let (mut slopes, mut exponents, mut fitted) = (0, 0, 0);
        let mut off = 0.0;
        for seed in 0..60 {
            let mut noise = Random::stream(seed, 1);
            let a = 45.0 * 1.8_f64.powf(noise.uniform());
            let records = records(&study, |p, _| {
                trained(peaked(&study, a, peak, &mut noise, p))
            });
            let findings = analysis::analyse_points(&study, &all, &records, options);
            let Ok(law) = findings.searches[0].law.law() else {
                continue;
            };
            fitted += 1;
            off += law.proportion.slope / a - 1.0;
            slopes += u32::from(law.slope_confidence.unwrap().interval.contains(&a));
            exponents += u32::from(law.growth() == Some(Growth::Proportional));
        }
        println!(
            "{peak:?}: of {fitted} laws, {slopes} intervals hold a and {exponents} hold p = 1; \
             a is off by {:+.1} % on average",
            100.0 * off / f64::from(fitted)
        );
        assert!(fitted >= 55 && slopes * 10 >= fitted * 9 && exponents * 10 >= fitted * 9);
    }
}

#[test]
fn the_widest_is_predicted_from_the_others() {
    let (widest, rest) = WIDTHS.split_last().unwrap();
    let all = law_study(&WIDTHS);
    let records = law_records(&all, 1);
    let measured = analyse(&all, &records);
    let mut narrower = analyse(&law_study(rest), &records);
    // The records of the held-out width belong to no run of the narrower study.
    assert_eq!(narrower.runs.strays, 14 * 20);
    let prediction = predict(&narrower, None, &request(*widest, None)).unwrap();
    assert_eq!(prediction.reach, analysis::predict::Reach::Extrapolates);
    let optimum = measured.searches[0].widths.last().unwrap().optimum.as_ref();
    let measured = optimum.unwrap().confidence.unwrap().interval;
    assert!(
        prediction.noise.interval.overlaps(&measured),
        "{prediction:?}"
    );
    assert!(measured.contains(&prediction.noise.value), "{prediction:?}");
    assert_eq!(prediction.still_rising, []);

    // Where runs are too short for their optimum, whoever predicts from it hears of it.
    let optimum = narrower.searches[0].widths[1].optimum.as_mut();
    optimum.unwrap().late = LateState::StillRising;
    let prediction = predict(&narrower, None, &request(*widest, None)).unwrap();
    assert_eq!(prediction.still_rising, [width(WIDTHS[1])]);
}

#[test]
fn an_incomplete_ledger_is_shown_as_it_is() {
    let study = law_study(&[8, 16]);
    let mut records = law_records(&study, 1);
    // Width 16 has no record; of width 8 every third is missing, and B = 2 altogether.
    records.retain(|r| r.width.get() == 8 && r.seed % 3 != 0 && r.batch_size.get() > 2);
    let copy = records[0].clone();
    records.push(copy);
    let findings = analyse(&study, &records);
    let counts = findings.runs;
    // Seeds 0, 3, …, 18 are seven of 20: 13 · 13 records remain, one of them twice.
    assert_eq!((counts.planned, counts.recorded), (2 * 14 * 20, 13 * 13));
    assert_eq!((counts.duplicates, counts.strays), (1, 0));
    let search = &findings.searches[0];
    let narrow = &search.widths[0];
    assert_eq!(narrow.points[0].accuracy, None);
    assert_eq!(narrow.points[1].runs.missing(), 7);
    // 13 of 20 planned runs trained.
    assert!(narrow.points[1].few_trained && narrow.optimum.as_ref().unwrap().few_trained);
    assert_eq!(search.widths[1].optimum, None);
    let LawFit::Unfitted(reason) = &search.law else {
        panic!("one width makes no law")
    };
    assert_eq!(reason.usable, [width(8)]);
    assert_eq!(reason.excluded[0].reason, ExclusionReason::NoOptimum);
    let error = predict(&findings, None, &request(32, None)).unwrap_err();
    assert_eq!(
        error.to_string(),
        "`synthetic` gives no law: a law needs bracketed optima at two widths or more, \
         and there are 1 (w = 16: no trained run)"
    );
}

#[test]
fn skipped_seeds_are_neither_missing_nor_few() {
    let mut study = law_study(&[8]);
    let mut records = law_records(&study, 1);
    // B = 2 is far from the optimum near 62: 4 seeds show it. Of B = 3 seed 3 is missing,
    // so its later seeds do not count yet.
    records.retain(|r| match r.batch_size.get() {
        2 => r.seed < 4,
        3 => r.seed != 3,
        _ => true,
    });
    let found = analyse(&study, &records);
    assert_eq!((found.runs.planned, found.runs.skipped), (280, 0));
    assert!(found.searches[0].widths[0].points[0].few_trained);

    study.spending = Spending::Adaptive;
    let found = analyse(&study, &records);
    assert_eq!(
        (found.runs.planned, found.runs.recorded, found.runs.skipped),
        (264, 263, 16)
    );
    let point = &found.searches[0].widths[0].points[0];
    assert_eq!((point.runs.planned, point.runs.skipped), (4, 16));
    assert!(!point.few_trained);
    let next: Vec<(u32, u64)> = wanted(&study, &points(&study), &records)
        .iter()
        .map(|run| (run.batch_size.get(), run.seed))
        .collect();
    assert_eq!(next, [(3, 3)]);
}

#[test]
fn an_unmeasured_neighbour_does_not_bracket() {
    let study = study("ntk", &[4], 2, &batch_search(8));
    let mut noise = Random::stream(1, 0);
    // The best batch size is 4; B = 3 has no record, B = 6 and 8 fail.
    let mut all = records(&study, |point, _| match point.batch_size.get() {
        6.. => Outcome::Diverged { step: 3 },
        4 => trained(0.9 + 0.001 * noise.normal()),
        _ => trained(0.5),
    });
    all.retain(|record| record.batch_size.get() != 3);
    let findings = analyse(&study, &all);
    let optimum = findings.searches[0].widths[0].optimum.as_ref().unwrap();
    assert_eq!(optimum.low_edge, Edge::Unmeasured);
    assert_eq!(optimum.high_edge, Edge::Bracketed);
}

#[test]
fn findings_do_not_depend_on_the_order_of_records() {
    let study = law_study(&[8, 16, 32]);
    let mut records = law_records(&study, 3);
    let findings = analyse(&study, &records);
    records.reverse();
    // Not `assert_eq`, which would print thousands of numbers.
    assert!(analyse(&study, &records) == findings);
}

/// The searches of a paired study agree if accuracy is a function of ḡ alone.
#[test]
fn both_searches_find_the_same_noise() {
    let study = study(
        "ntk",
        &[8, 16, 32],
        10,
        "kind = \"paired\"\nlearning_rate = 5.0\n\
         batch_sizes = [4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128]\n\
         batch_size = 16\nlearning_rates = [0.5, 0.7, 1, 1.4, 2, 2.8, 4, 5.6, 8]",
    );
    let findings = analyse(&study, &law_records(&study, 1));
    assert_eq!(findings.agreement.len(), 3);
    for both in &findings.agreement {
        assert_eq!(both.ranges_overlap, Some(true), "{both:?}");
        assert!((0.6..1.7).contains(&both.ratio.unwrap()), "{both:?}");
        assert!(both.peak_difference.value.abs() < 0.005);
    }
}

#[test]
fn a_grid_has_a_curve_for_every_rate() {
    let study = study(
        "ntk",
        &[16],
        5,
        "kind = \"grid\"\nbatch_sizes = [8, 16, 24, 32, 48, 64, 96]\n\
         learning_rates = [5, 2.5]\nreference_learning_rate = 5",
    );
    let findings = analyse(&study, &law_records(&study, 1));
    let grid = &findings.grids[0];
    assert_eq!(grid.curves.len(), 2);
    assert_eq!(grid.curves[0].learning_rate.get(), 2.5);
    assert_eq!(grid.curves[0].points.len(), 7);
    // Both curves peak at ḡ = 60 · 16 = 960, within their grids' steps.
    let optima = grid.optima.unwrap();
    assert!(optima.low > 640.0 && optima.high < 1440.0, "{optima:?}");
    assert!(findings.peak(width(16)).unwrap().mean > 0.96);
}

#[test]
fn with_batch_norm_the_optimum_is_an_inverse_batch_size() {
    let text = |scheme: &str| {
        format!(
            "seeds = 3\n[task]\ndataset = \"mnist\"\n[family]\nkind = \"cnn\"\nwidths = [2, 4]\n\
             scheme = \"{scheme}\"\nbatch_norm = true\n[search]\nkind = \"batch-size\"\n\
             learning_rate = 1.0\nbatch_sizes = [8, 16, 32, 64]\n[time]\nepochs = 1\n"
        )
    };
    // The best batch size is 32/w·2: 32 at w = 2 and 16 at w = 4.
    let accuracy = |w: u32, b: u32, seed: u64| match w * b {
        64 => 0.9 + 0.0001 * seed as f64,
        _ => 0.8,
    };
    for (scheme, measure, expected) in [
        ("ntk", Measure::InverseBatchSize, [1.0 / 32.0, 1.0 / 16.0]),
        (
            "standard",
            Measure::WidthOverBatchSize,
            [2.0 / 32.0, 4.0 / 16.0],
        ),
    ] {
        let study = support::parse(&text(scheme));
        let all = records(&study, |p, seed| {
            trained(accuracy(p.width.get(), p.batch_size.get(), seed))
        });
        let findings = analyse(&study, &all);
        let search = &findings.searches[0];
        assert_eq!(search.measure, measure);
        assert_eq!(search.widths[0].points[0].normalized_noise, None);
        for (found, expected) in search.widths.iter().zip(expected) {
            let optimum = found.optimum.as_ref().unwrap();
            assert_eq!(optimum.estimate.value, expected);
            assert_eq!(optimum.beside.is_some(), scheme == "standard");
        }
        let error = predict(&findings, None, &request(8, None)).unwrap_err();
        assert_eq!(error, PredictError::BatchNorm("synthetic".into()));
    }
}

#[test]
fn prediction_by_hand() {
    // Accuracy 0.9 at ḡ = 60·w exactly and less elsewhere, without scatter but for
    // ±0.0001: ε is chosen so that 60·w is on the grid. With N = 1197, m = 0.9, σ₀² = 2:
    // ḡ = ε · 1197/(B · 0.1 · 2) = 5985·ε/B; ε = 1 gives 60·w at B = 99.75/w, so with
    // ε = 1.2 ḡ = 7182/B. Take the optimum at B = 64 for w = 8 and at B = 32 for w = 16:
    // ḡ = 112.21875 and 224.4375, a = 14.02734375 exactly.
    let study = study(
        "ntk",
        &[8, 16],
        4,
        "kind = \"batch-size\"\nlearning_rate = 1.2\nbatch_sizes = [16, 32, 64, 128]",
    );
    let all = records(&study, |p, seed| {
        let best = p.width.get() * p.batch_size.get() == 512;
        trained(if best { 0.9 } else { 0.8 } + 0.0001 * (seed % 2) as f64)
    });
    let findings = analyse(&study, &all);
    let law = findings.searches[0].law.law().unwrap();
    assert!((law.proportion.slope - 14.027_343_75).abs() < 1e-9);
    assert!((law.power.exponent - 1.0).abs() < 1e-12);

    let rate = LearningRate::new(2.4).unwrap();
    let asked = request(32, Some(Fixed::LearningRate(rate)));
    let prediction = predict(&findings, None, &asked).unwrap();
    // ḡ = 448.875; the largest ε that trained is 1.2, so B_max = 7182/448.875 = 16.
    assert!((prediction.noise.value - 448.875).abs() < 1e-9);
    assert_eq!(prediction.largest_batch_size.unwrap().get(), 16);
    // At ε = 2.4: B = 14364/448.875 = 32, above ε_max.
    let chosen = prediction.chosen.unwrap();
    assert_eq!(chosen.batch_size.get(), 32);
    assert_eq!(chosen.stability, analysis::predict::Stability::AboveLimit);
    // w* = 7182/14.02734375 = 512.
    assert!((prediction.critical_width.value - 512.0).abs() < 1e-9);
    // B = 8 on the law: ε = 448.875 · 8/5985 = 0.6.
    let eight = prediction.pairs.iter().find(|p| p.batch_size.get() == 8);
    assert!((eight.unwrap().learning_rate.get() - 0.6).abs() < 1e-12);
    // Beyond the critical width no batch size is left.
    let wide = predict(&findings, None, &request(1000, None)).unwrap();
    assert_eq!(wide.largest_batch_size, None);
    let tiny = LearningRate::new(0.001).unwrap();
    let asked = request(32, Some(Fixed::LearningRate(tiny)));
    assert_eq!(
        predict(&findings, None, &asked),
        Err(PredictError::RateTooSmall(tiny))
    );
}
