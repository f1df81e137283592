//! The GPU against the CPU: same weights, batches and masks, so the same losses; results that
//! depend on no company; saved states; divergence. Where there is no GPU, one is emulated.
#![cfg(feature = "cuda")]

mod emulator;
mod networks;

use emulator::Gpu;
use engine::cuda::{Cohort, CohortPlan, Device, DeviceData, Limits, Precision};
use engine::data::Dataset;
use engine::kernels::Isa;
use engine::train::{Compiled, Training};
use networks::{MLP, ONE_LAYER, THREE_LAYERS, cases, data, run, some_cases};
use spec::{LearningRate, Outcome, Run};
use std::time::Instant;

fn cpu_losses(run: &Run, data: &Dataset) -> (Vec<f64>, f64) {
    let compiled = Compiled::new(run).unwrap();
    let mut training = Training::new(run, data, &compiled, Isa::detect()).unwrap();
    let losses = (0..run.steps).map(|_| training.step()).collect();
    (losses, training.accuracy(&data.test))
}

/// What a cohort's first run does, step by step, and which runs diverge meanwhile.
struct Course {
    losses: Vec<f64>,
    /// At the end.
    accuracy: f64,
    diverged: Vec<usize>,
}

fn course(device: &Device, runs: &[Run], data: &DeviceData, precision: Precision) -> Course {
    let plan = CohortPlan::new(&runs[0], precision, device.limits().unwrap()).unwrap();
    course_by(&plan, device, runs, data)
}

fn course_by(plan: &CohortPlan, device: &Device, runs: &[Run], data: &DeviceData) -> Course {
    let members = runs.iter().map(|run| (run.clone(), None)).collect();
    let mut cohort = Cohort::new(device, data, plan, members).unwrap();
    let mut course = Course {
        losses: Vec::new(),
        accuracy: f64::NAN,
        diverged: Vec::new(),
    };
    let (mut sum, mut count) = (0.0, 0);
    while cohort.step() < runs[0].steps && !course.accuracy.is_finite() {
        let ended = cohort.advance(1).unwrap();
        count += 1;
        let progress = cohort.progress(0);
        // An evaluation takes the sum away and leaves the mean since the last.
        let evaluated = progress.loss_count == 0;
        let total = match progress.curve.last() {
            Some(point) if evaluated => point.training_loss.unwrap() * f64::from(count),
            _ => progress.loss_sum,
        };
        course.losses.push(total - sum);
        (sum, count) = if evaluated { (0.0, 0) } else { (total, count) };
        if ended.iter().any(|(at, _)| *at == 0) {
            let last = progress.curve.last();
            course.accuracy = last.map_or(f64::NAN, |point| point.test_accuracy);
        }
        let diverged = ended
            .iter()
            .filter(|(_, outcome)| matches!(outcome, Outcome::Diverged { .. }));
        course.diverged.extend(diverged.map(|(at, _)| *at));
    }
    course
}

fn greatest_difference(losses: &[f64], expected: &[f64]) -> f64 {
    let differences = losses
        .iter()
        .zip(expected)
        .map(|(a, b)| (a / b - 1.0).abs());
    // NaN is the greatest of all, wherever it stands.
    differences.fold(0.0, |most: f64, one| match most.is_nan() || one <= most {
        true => most,
        false => one,
    })
}

#[test]
fn a_difference_that_is_no_number_is_not_forgotten() {
    assert_eq!(greatest_difference(&[1.0, 3.0, 1.0], &[1.0, 2.0, 1.0]), 0.5);
    for at in 0..3 {
        let mut losses = [1.0; 3];
        losses[at] = f64::NAN;
        assert!(greatest_difference(&losses, &[1.0; 3]).is_nan(), "{at}");
    }
}

#[test]
fn first_losses_agree_with_the_cpu() {
    let Some(gpu) = Gpu::open() else { return };
    let device = gpu.device();
    let mut failed = Vec::new();
    for (name, run) in cases(&gpu) {
        let data = data(&run, &gpu);
        let on_device = DeviceData::new(&data, device).unwrap();
        let (expected, expected_accuracy) = cpu_losses(&run, &data);
        let bounds = [(Precision::Fp32, 1e-4, 0.0), (Precision::Tf32, 0.2, 0.05)];
        for (precision, bound, accuracy_bound) in bounds {
            // Kernels of either precision take a second each to compile for the emulator.
            if gpu.is_emulated() && precision == Precision::Tf32 && name.contains(',') {
                continue;
            }
            let runs = [run.clone()];
            let Course {
                losses, accuracy, ..
            } = course(device, &runs, &on_device, precision);
            let difference = greatest_difference(&losses, &expected);
            let off = (accuracy - expected_accuracy).abs();
            println!(
                "{name}, {precision}: losses differ by {difference:.1e}, accuracy {accuracy:.4} {expected_accuracy:.4}, first {:.6} {:.6}, last {:.6} {:.6}",
                losses[0],
                expected[0],
                losses[losses.len() - 1],
                expected[losses.len() - 1]
            );
            if losses.len() != expected.len()
                || difference.is_nan()
                || difference > bound
                || off > accuracy_bound
            {
                failed.push(format!("{name}, {precision}"));
            }
        }
    }
    assert!(failed.is_empty(), "{failed:?}");
}

#[test]
fn company_changes_rounding_only() {
    let Some(gpu) = Gpu::open() else { return };
    let device = gpu.device();
    for (name, run) in some_cases(&gpu, |_| true) {
        let data = DeviceData::new(&data(&run, &gpu), device).unwrap();
        let alone = std::slice::from_ref(&run);
        let alone = course(device, alone, &data, Precision::Fp32).losses;
        let mut company = vec![run.clone()];
        let others = if gpu.is_emulated() { 2 } else { 5 };
        company.extend((0..others).map(|seed| Run {
            seed,
            learning_rate: LearningRate::new(1e-3 * (seed + 1) as f64).unwrap(),
            ..run.clone()
        }));
        // One of them diverges at once.
        company[2].learning_rate = LearningRate::new(1e36).unwrap();
        let together = course(device, &company, &data, Precision::Fp32);
        assert_eq!(together.diverged, [2], "{name}");
        let difference = greatest_difference(&together.losses, &alone);
        println!("{name}: {difference:.1e}");
        assert!(difference < 1e-4, "{name}: {difference}");
    }
}

/// Warps that multiply by fours take the same sums. A GPU of one multiprocessor is given large tiles
/// already by small networks.
#[test]
fn warps_multiply_together_as_one_by_one() {
    let Some(gpu) = Gpu::open() else { return };
    let device = gpu.device();
    let own = device.limits().unwrap();
    if !own.groups {
        eprintln!("skipped: this GPU's warps do not multiply together");
        return;
    }
    let digits = |batch| ["task.dataset=\"digits\"", batch];
    let mnist = ["task.dataset=\"mnist\"", "search.batch_sizes=[128]"];
    let wrn = "kind = \"wrn\"\nblocks = 1";
    let mlp = "kind = \"mlp\"\nhidden = [1, 1]";
    for run in [
        run(wrn, &digits("search.batch_sizes=[32]"), 4, 1e-3, 2),
        // Its last columns, and of the first layer the last terms, fill no tile.
        run(mlp, &digits("search.batch_sizes=[104]"), 520, 1.0, 3),
        // In tiles of 128, which the last terms of the first layer do not fill.
        run(mlp, &mnist, 256, 1.0, 2),
    ] {
        let data = DeviceData::new(&data(&run, &gpu), device).unwrap();
        let losses = |groups| {
            let limits = Limits {
                processors: 1,
                groups,
                ..own
            };
            let plan = CohortPlan::new(&run, Precision::Tf32, limits).unwrap();
            course_by(&plan, device, std::slice::from_ref(&run), &data).losses
        };
        let (together, one_by_one) = (losses(true), losses(false));
        let difference = greatest_difference(&together, &one_by_one);
        println!("{together:?}, {one_by_one:?}: {difference:.1e}");
        assert!(difference < 1e-5, "{difference}");
    }
}

#[test]
fn a_diverged_run_is_recorded_and_its_company_goes_on() {
    let Some(gpu) = Gpu::open() else { return };
    let device = gpu.device();
    let good = run(MLP, &["task.dataset=\"mnist\""], 32, 0.5, 200);
    let bad = Run {
        learning_rate: LearningRate::new(1e12).unwrap(),
        ..good.clone()
    };
    let on_device = DeviceData::new(&data(&good, &gpu), device).unwrap();
    let plan = CohortPlan::new(&good, Precision::Tf32, device.limits().unwrap()).unwrap();
    let members = vec![(good, None), (bad, None)];
    let mut cohort = Cohort::new(device, &on_device, &plan, members).unwrap();
    let mut outcomes = [None; 2];
    while cohort.running().next().is_some() {
        for (at, outcome) in cohort.advance(16).unwrap() {
            outcomes[at] = Some(outcome);
        }
    }
    assert!(
        matches!(outcomes[0], Some(Outcome::Trained { .. })),
        "{outcomes:?}"
    );
    assert!(
        matches!(outcomes[1], Some(Outcome::Diverged { step }) if step < 20),
        "{outcomes:?}"
    );
}

/// Times of runs add up to the time of their cohort.
#[test]
fn time_is_shared_by_the_runs_under_way() {
    let Some(gpu) = Gpu::open() else { return };
    let device = gpu.device();
    let good = run(MLP, &["task.dataset=\"mnist\""], 32, 0.5, 64);
    let bad = Run {
        learning_rate: LearningRate::new(1e12).unwrap(),
        ..good.clone()
    };
    let on_device = DeviceData::new(&data(&good, &gpu), device).unwrap();
    let plan = CohortPlan::new(&good, Precision::Tf32, device.limits().unwrap()).unwrap();
    let mut members = vec![(good, None)];
    members.extend((0..3).map(|seed| {
        (
            Run {
                seed,
                ..bad.clone()
            },
            None,
        )
    }));
    let mut cohort = Cohort::new(device, &on_device, &plan, members).unwrap();
    while cohort.running().count() > 1 {
        cohort.advance(4).unwrap();
    }
    let (start, before) = (Instant::now(), cohort.progress(0).spent);
    while cohort.running().next().is_some() {
        cohort.advance(16).unwrap();
    }
    let (whole, own) = (start.elapsed(), cohort.progress(0).spent - before);
    assert!(own > whole / 2, "{own:?} of {whole:?}");
}

#[test]
fn a_run_diverges_at_the_step_at_which_it_does_on_the_cpu() {
    let Some(gpu) = Gpu::open() else { return };
    let device = gpu.device();
    // On the chip, and layer by layer.
    for batch in ["search.batch_sizes=[8]", "search.batch_sizes=[128]"] {
        for rate in [1e12, 1e36] {
            let run = run(
                THREE_LAYERS,
                &["task.dataset=\"mnist\"", batch],
                32,
                rate,
                40,
            );
            let data = data(&run, &gpu);
            let on_device = DeviceData::new(&data, device).unwrap();
            let (losses, _) = cpu_losses(&run, &data);
            let finite = losses.iter().take_while(|loss| loss.is_finite()).count();
            for precision in [Precision::Tf32, Precision::Fp32] {
                let plan = CohortPlan::new(&run, precision, device.limits().unwrap()).unwrap();
                let members = vec![(run.clone(), None)];
                let mut cohort = Cohort::new(device, &on_device, &plan, members).unwrap();
                let mut outcome = None;
                while outcome.is_none() {
                    outcome = cohort.advance(1).unwrap().first().map(|(_, end)| *end);
                }
                let step = finite as u64 + 1;
                let same = matches!(outcome, Some(Outcome::Diverged { step: at }) if at == step);
                assert!(
                    same,
                    "{batch}, {rate:e}, {precision}: {outcome:?}, not {step}"
                );
            }
        }
    }
}

#[test]
fn a_saved_cohort_goes_on_as_if_never_stopped() {
    let Some(gpu) = Gpu::open() else { return };
    let device = gpu.device();
    let cases = some_cases(&gpu, |name| name.contains("norm") || name.contains("layer"));
    for (name, run) in cases {
        let on_device = DeviceData::new(&data(&run, &gpu), device).unwrap();
        let plan = CohortPlan::new(&run, Precision::Tf32, device.limits().unwrap()).unwrap();
        let start = || Cohort::new(device, &on_device, &plan, vec![(run.clone(), None)]).unwrap();
        let finish = |mut cohort: Cohort<'_>| loop {
            if let Some((at, outcome)) = cohort.advance(16).unwrap().first() {
                let record = cohort.record(*at, *outcome);
                return serde_json::to_string(&(record.outcome, record.curve)).unwrap();
            }
        };
        let mut stopped = start();
        while stopped.step() < run.steps / 2 {
            stopped.advance(5).unwrap();
        }
        let saved = stopped.checkpoint(0).unwrap();
        let saved = engine::checkpoint::Checkpoint::from_bytes(&saved.to_bytes().unwrap()).unwrap();
        drop(stopped);
        let members = vec![(run.clone(), Some(saved))];
        let resumed = Cohort::new(device, &on_device, &plan, members).unwrap();
        assert_eq!(finish(resumed), finish(start()), "{name}");
    }
}

/// A launch takes as many steps as are asked for, and they are those that it would take one by one.
#[test]
fn steps_at_once_are_steps_one_by_one() {
    let Some(gpu) = Gpu::open() else { return };
    let device = gpu.device();
    let changes = ["task.dataset=\"mnist\"", "time.evaluations=1"];
    for (family, width) in [(ONE_LAYER, 40), (THREE_LAYERS, 24)] {
        let run = run(family, &changes, width, 0.2, 40);
        let on_device = DeviceData::new(&data(&run, &gpu), device).unwrap();
        let plan = CohortPlan::new(&run, Precision::Tf32, device.limits().unwrap()).unwrap();
        // 19 is a graph of several steps and some of one.
        let after = |steps_at_once: u64| {
            let members = vec![(run.clone(), None)];
            let mut cohort = Cohort::new(device, &on_device, &plan, members).unwrap();
            while cohort.step() < 38 {
                cohort.advance(steps_at_once).unwrap();
            }
            let state = cohort.checkpoint(0).unwrap();
            let loss = state.progress.loss_sum;
            (
                state.model.weights.get().to_vec(),
                state.velocity.get().to_vec(),
                loss,
            )
        };
        let (weights, velocity, loss) = after(1);
        let (many_weights, many_velocity, many_loss) = after(19);
        assert!(
            weights == many_weights && velocity == many_velocity,
            "{family}"
        );
        // Sums of losses are taken in other parts.
        assert!((many_loss / loss - 1.0).abs() < 1e-12, "{many_loss} {loss}");
    }
}
