//! Invariants that hold for any records.

mod support;

use analysis::extension::{Limits, NewValues, extended_points, extensions};
use analysis::law::{Datum, Power, Proportion};
use analysis::optimum::threshold;
use analysis::resample::{Random, Resolution, ScanPoint, replicate};
use analysis::{Confidence, Sample, analyse, analyse_points, best_interval};
use proptest::prelude::*;
use spec::points;
use support::{Peak, batch_search, peaked, records, records_of, study, trained};

fn scan() -> impl Strategy<Value = Vec<ScanPoint>> {
    let run = prop_oneof![4 => (0.2..1.0_f64).prop_map(Some), 1 => Just(None)];
    let runs = prop::collection::vec(run, 0..8);
    prop::collection::vec(runs, 1..12).prop_map(|points| {
        let scan_point = |(at, accuracies)| ScanPoint {
            accuracies,
            coordinate: 1.0 + at as f64,
        };
        points.into_iter().enumerate().map(scan_point).collect()
    })
}

fn samples(scan: &[ScanPoint]) -> Vec<Option<Sample>> {
    scan.iter().map(ScanPoint::sample).collect()
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn the_interval_holds_the_best_and_only_means_above_the_threshold(scan in scan()) {
        let samples = samples(&scan);
        let Some(found) = best_interval(&samples) else {
            prop_assert!(samples.iter().all(Option::is_none));
            return Ok(());
        };
        prop_assert!(found.first <= found.best && found.best <= found.last);
        let best = samples[found.best].unwrap();
        prop_assert!(samples.iter().flatten().all(|s| s.mean <= best.mean));
        let above = |at: usize| samples[at]
            .zip(threshold(best))
            .is_some_and(|(s, threshold)| s.mean > threshold);
        for at in (found.first..=found.last).filter(|at| *at != found.best) {
            prop_assert!(above(at));
        }
        prop_assert!(found.first == 0 || !above(found.first - 1));
        prop_assert!(found.last + 1 == samples.len() || !above(found.last + 1));
    }

    #[test]
    fn a_constant_added_to_all_accuracies_changes_nothing(scan in scan(), shift in -0.1..0.1_f64) {
        let before = samples(&scan);
        let moved: Vec<ScanPoint> = scan.iter().map(|point| ScanPoint {
            accuracies: point.accuracies.iter().map(|a| a.map(|a| a + shift)).collect(),
            coordinate: point.coordinate,
        }).collect();
        // Means that tie up to rounding may order either way.
        let mut means: Vec<f64> = before.iter().flatten().map(|s| s.mean).collect();
        means.extend(before.iter().flatten().filter_map(|s| threshold(*s)));
        means.sort_by(f64::total_cmp);
        prop_assume!(means.windows(2).all(|pair| pair[1] - pair[0] > 1e-9));
        prop_assert_eq!(best_interval(&before), best_interval(&samples(&moved)));
    }

    #[test]
    fn the_bootstrap_is_deterministic_and_stays_on_the_grid(scan in scan(), seed in any::<u64>()) {
        let draw = || replicate(&scan, 50, Resolution::Seeds, &mut Random::stream(seed, 1));
        let one = draw();
        prop_assert_eq!(&one, &draw());
        prop_assert_eq!(one.values.len(), 50);
        let (low, high) = (1.0, scan.len() as f64);
        prop_assert!(one.values.iter().flatten().all(|v| (low..=high).contains(v)));
    }

    #[test]
    fn exact_data_give_the_law_exactly(
        slope in 1e-3..1e6_f64,
        exponent in -2.0..2.0_f64,
        widths in prop::collection::btree_set(1_u32..2000, 2..8),
    ) {
        let line: Vec<Datum> = widths.iter().map(|w| Datum {
            width: f64::from(*w),
            value: slope * f64::from(*w),
        }).collect();
        let fit = Proportion::fit(&line).unwrap();
        prop_assert!((fit.slope / slope - 1.0).abs() < 1e-12);
        prop_assert!((fit.r_squared.unwrap() - 1.0).abs() < 1e-9);
        let power: Vec<Datum> = widths.iter().map(|w| Datum {
            width: f64::from(*w),
            value: slope * f64::from(*w).powf(exponent),
        }).collect();
        prop_assert!((Power::fit(&power).unwrap().exponent - exponent).abs() < 1e-6);
    }

    #[test]
    fn percentiles_lie_among_the_values(values in prop::collection::vec(-1e3..1e3_f64, 1..60)) {
        let all = Confidence::of(values.clone(), 0.95).unwrap().interval;
        let least = values.iter().copied().fold(f64::INFINITY, f64::min);
        let most = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        prop_assert!(least <= all.low && all.low <= all.high && all.high <= most);
    }

    #[test]
    fn a_grid_is_extended_until_it_brackets(peak in 1_u32..700) {
        // Accuracy falls with the distance of ln B from ln(peak); the grid starts at
        // 16 … 32 and N is 1197.
        let study = study("ntk", &[8], 3, "kind = \"batch-size\"\nlearning_rate = 1\nbatch_sizes = [16, 24, 32]");
        let accuracy = |b: u32, seed: u64| {
            0.9 - 0.05 * (f64::from(b) / f64::from(peak)).ln().abs() + 1e-6 * (seed % 2) as f64
        };
        let limits = Limits::usual(&study, 20);
        let mut added = Vec::new();
        for _ in 0..25 {
            let all = extended_points(&study, &added);
            let records = records_of(&study, &all, |p, seed| trained(accuracy(p.batch_size.get(), seed)));
            let findings = analyse_points(&study, &all, &records, analysis::Options {
                resamples: 2,
                ..Default::default()
            });
            let new = extensions(&findings, &limits);
            if new.is_empty() {
                let optimum = findings.searches[0].widths[0].optimum.as_ref().unwrap();
                let at_one = optimum.batch_sizes.low.get() == 1;
                prop_assert!(optimum.bracketed() || at_one, "{:?}", optimum);
                return Ok(());
            }
            for extension in &new {
                let NewValues::BatchSizes(sizes) = &extension.values else {
                    return Err(TestCaseError::fail("a batch-size search"));
                };
                prop_assert!(sizes.iter().all(|b| (1..=1197).contains(&b.get())));
            }
            added.extend(new);
        }
        prop_assert!(false, "never done");
    }
}

#[test]
fn a_paper_sized_study_is_analysed() {
    // 7 widths × 14 batch sizes × 20 seeds × 1000 resamples: 2 million draws.
    let study = study("ntk", &[8, 12, 16, 24, 32, 48, 64], 20, &batch_search(192));
    let mut noise = Random::stream(5, 0);
    let all = records(&study, |p, _| {
        trained(peaked(&study, 60.0, Peak::Linear, &mut noise, p))
    });
    assert_eq!(points(&study).len(), 7 * 14);
    let start = std::time::Instant::now();
    let findings = analyse(&study, &all);
    let took = start.elapsed();
    println!("analysed {} runs in {took:?}", findings.runs.recorded);
    assert_eq!(findings.runs.recorded, 7 * 14 * 20);
}
