//! The adaptive rule against full studies: over many synthetic scans it must find the
//! interval of the full study in at least 1 − α of them, with clearly fewer seeds.

use analysis::adaptive::{ERROR_RATE, Progress, Rule, Verdict, decide};
use analysis::resample::Random;
use analysis::{BestInterval, Sample, best_interval};

const SEEDS: u32 = 20;
const SCANS: usize = 150;

/// The accuracies of a full study, by point and seed; `None` for a failed run.
type Full = Vec<Vec<Option<f64>>>;

fn interval(points: &[Vec<Option<f64>>]) -> Option<BestInterval> {
    let sample = |runs: &Vec<Option<f64>>| {
        let trained: Vec<f64> = runs.iter().flatten().copied().collect();
        Sample::of(&trained)
    };
    best_interval(&points.iter().map(sample).collect::<Vec<_>>())
}

/// Spends seeds by the rule until nothing is needed, and says how many it took.
fn spend(rule: &Rule, full: &Full) -> (Full, usize) {
    let mut have: Full = vec![Vec::new(); full.len()];
    loop {
        let progress: Vec<Progress> = have
            .iter()
            .map(|outcomes| Progress {
                outcomes: outcomes.clone(),
            })
            .collect();
        let mut idle = true;
        for (at, verdict) in decide(rule, &progress).into_iter().enumerate() {
            if let Verdict::Needs { total } = verdict {
                idle = false;
                have[at] = full[at][..total as usize].to_vec();
            }
        }
        if idle {
            let spent = have.iter().map(Vec::len).sum();
            return (have, spent);
        }
    }
}

struct Score {
    same: f64,
    spent: f64,
}

fn score(rule: &Rule, mut scan: impl FnMut(&mut Random) -> Full) -> Score {
    let mut noise = Random::stream(1, 0);
    let (mut same, mut spent, mut planned) = (0, 0, 0);
    for _ in 0..SCANS {
        let full = scan(&mut noise);
        let (have, seeds) = spend(rule, &full);
        same += usize::from(interval(&have) == interval(&full));
        spent += seeds;
        planned += full.len() * SEEDS as usize;
    }
    Score {
        same: same as f64 / SCANS as f64,
        spent: spent as f64 / planned as f64,
    }
}

fn runs(noise: &mut Random, mean: f64, deviation: f64) -> Vec<Option<f64>> {
    let mut run = || Some((mean + deviation * noise.normal()).clamp(0.0, 1.0));
    (0..SEEDS).map(|_| run()).collect()
}

/// The means and deviations of a one-layer perceptron of width 512 on MNIST at
/// B = 4 … 128, those of B = 8, 16, 32, 64 and 128 measured and the others between.
fn mnist(noise: &mut Random) -> Full {
    [
        (0.920, 0.0100),
        (0.950, 0.0060),
        (0.9702, 0.0029),
        (0.9805, 0.0012),
        (0.9846, 0.0007),
        (0.9842, 0.0007),
        (0.9834, 0.0007),
        (0.9825, 0.0008),
        (0.9816, 0.0009),
        (0.9808, 0.0009),
        (0.9802, 0.0009),
    ]
    .into_iter()
    .map(|(mean, deviation)| runs(noise, mean, deviation))
    .collect()
}

/// A flat optimum: neighbours lie within fractions of a deviation of each other, where
/// dropping the wrong point is easiest. The place of the peak varies.
fn flat(noise: &mut Random) -> Full {
    let peak = 3.0 + 4.0 * noise.uniform();
    (0..11)
        .map(|at| {
            let off = f64::from(at) - peak;
            runs(noise, 0.95 - 0.0002 * off * off, 0.002)
        })
        .collect()
}

/// The measured curve with accuracies whose lower tail is long: exponential instead
/// of normal.
fn skewed(noise: &mut Random) -> Full {
    let mut full = mnist(noise);
    for point in &mut full {
        let trained: Vec<f64> = point.iter().flatten().copied().collect();
        let sample = Sample::of(&trained).unwrap();
        let (mean, deviation) = (sample.mean, sample.deviation.unwrap());
        for run in point.iter_mut() {
            *run = Some(mean + deviation * (1.0 + (1.0 - noise.uniform()).ln()));
        }
    }
    full
}

/// The measured curve with runs that fail at the noisy end: all at the first point,
/// four fifths at the second, one in ten at the third.
fn failing(noise: &mut Random) -> Full {
    let mut full = mnist(noise);
    for (point, share) in full.iter_mut().zip([1.0, 0.8, 0.1]) {
        for run in point.iter_mut() {
            if noise.uniform() < share {
                *run = None;
            }
        }
    }
    full
}

/// Holds the usual rule to its error rate on one kind of scan, and to a most share of
/// the seeds.
fn check(name: &str, scan: impl FnMut(&mut Random) -> Full, most: f64) {
    let rule = Rule::usual(SEEDS);
    let score = score(&rule, scan);
    println!(
        "{name}: the full study's interval in {:.1} % of {SCANS} scans, {:.0} % of the seeds saved",
        100.0 * score.same,
        100.0 * (1.0 - score.spent)
    );
    assert!(score.same >= 1.0 - ERROR_RATE, "{name}");
    assert!(score.spent <= most, "{name}");
}

#[test]
fn a_measured_curve_needs_half_the_seeds() {
    check("measured curve", mnist, 0.55);
}

#[test]
fn a_flat_optimum_keeps_the_error_rate() {
    check("flat optimum", flat, 0.9);
}

#[test]
fn skewed_accuracies_keep_the_error_rate() {
    check("skewed accuracies", skewed, 0.65);
}

#[test]
fn failing_runs_do_not_hold_up_the_rest() {
    check("failing runs", failing, 0.6);
}

/// Every scan of `quickstart` at 20 seeds and of `digits-mlp`, as recorded with all
/// seeds: study, search, width, scanned value, then the accuracy of each seed or `-`.
fn digits() -> Vec<Full> {
    let rows: Vec<Vec<&str>> = include_str!("fixtures/digits.csv")
        .lines()
        .map(|line| line.split(',').collect())
        .collect();
    rows.chunk_by(|a, b| a[..3] == b[..3])
        .map(|scan| {
            scan.iter()
                .map(|row| row[4..].iter().map(|run| run.parse().ok()).collect())
                .collect()
        })
        .collect()
}

#[test]
fn the_digits_keep_their_intervals_with_fewer_seeds() {
    let rule = Rule::usual(SEEDS);
    let (mut spent, mut planned) = (0, 0);
    for (at, full) in digits().iter().enumerate() {
        let (have, seeds) = spend(&rule, full);
        assert_eq!(interval(&have), interval(full), "scan {at}");
        spent += seeds;
        planned += full.len() * SEEDS as usize;
    }
    println!("digits: {spent} of {planned} runs");
    assert!(spent * 4 < planned * 3, "{spent} of {planned}");
}
