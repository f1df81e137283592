//! Whole trainings against PyTorch's in double precision: what differs is our
//! single precision.

mod goldens;
#[allow(dead_code, reason = "what the gradient tests alone use")]
mod support;

use engine::kernels::Isa;
use goldens::{Descent, Golden, Recipe, Sketch, Tensor};
use spec::{LearningRate, Scheme, UpdateRule};
use support::noise;

/// Largest relative error of a loss; 1e-6 was the worst when this was written.
const LOSS: f64 = 2e-5;
/// Largest error of a tensor, as a share of how far it moved; the worst was 3e-5.
const TENSOR: f64 = 3e-4;

#[test]
fn mlp_matches() {
    check(&goldens::mlp());
}

#[test]
fn cnn_matches() {
    check(&goldens::cnn());
}

#[test]
fn wrn_matches() {
    check(&goldens::wrn());
}

fn check(cases: &[Golden]) {
    for golden in cases {
        for isa in Isa::available() {
            let matched = compare(golden, &golden.recipe, isa);
            let Errors { loss, tensor } =
                matched.unwrap_or_else(|reason| panic!("{} on {isa}: {reason}", golden.name));
            println!(
                "{} on {isa}: losses within {loss:.1e}, tensors {tensor:.1e}",
                golden.name
            );
        }
    }
}

/// The largest errors of a training.
struct Errors {
    loss: f64,
    tensor: f64,
}

/// Trains by a recipe and compares with the golden values: how close, or what is off.
fn compare(golden: &Golden, recipe: &Recipe, isa: Isa) -> Result<Errors, String> {
    let mut descent = Descent::new(recipe, isa, &recipe.initial());
    let mut worst = Errors {
        loss: 0.0,
        tensor: 0.0,
    };
    let mut loss = |what: String, got: f64, expected: f64| {
        let error = (got / expected - 1.0).abs();
        worst.loss = worst.loss.max(error);
        within(error, LOSS).ok_or(format!("loss {what}: {got} against {expected}"))
    };
    for (step, expected) in golden.losses.iter().enumerate() {
        let got = descent.step(|_| recipe.learning_rate.get());
        loss(format!("of step {step}"), got, *expected)?;
    }
    let got = descent.evaluation_loss();
    loss("of the evaluation".into(), got, golden.evaluation_loss)?;

    let tensors = descent.tensors();
    let ours: Vec<_> = tensors.iter().map(|t| (&t.name, &t.shape)).collect();
    let theirs: Vec<_> = golden.tensors.iter().map(|t| (&t.name, &t.shape)).collect();
    if ours != theirs {
        return Err(format!("tensors {ours:?} against {theirs:?}"));
    }
    for (tensor, expected) in tensors.iter().zip(&golden.tensors) {
        for (what, error) in distances(tensor, expected) {
            worst.tensor = worst.tensor.max(error);
            within(error, TENSOR).ok_or(format!("{} of {}: off by {error}", what, tensor.name))?;
        }
    }
    Ok(worst)
}

/// A NaN is within nothing.
fn within(error: f64, limit: f64) -> Option<()> {
    (error <= limit).then_some(())
}

/// Estimates of ‖ours − theirs‖ / ‖movement‖, from everything that is kept of theirs.
fn distances(ours: &Tensor, theirs: &Sketch) -> [(&'static str, f64); 4] {
    let values = &ours.values;
    let (size, moved) = (values.len(), theirs.moved);
    let norm = values.iter().map(|x| x * x).sum::<f64>().sqrt();
    let sum = values.iter().sum::<f64>();
    let weighted = values.iter().enumerate().map(|(i, x)| x * noise(97, i));
    let weighted = weighted.sum::<f64>();
    let count = theirs.sample.len();
    let at = |i: usize| match count == size {
        true => i,
        false => (7919 * i + 13) % size,
    };
    let off = theirs.sample.iter().enumerate();
    let off = off.map(|(i, expected)| (values[at(i)] - expected).powi(2));
    let off = (off.sum::<f64>() * size as f64 / count as f64).sqrt();
    // Errors of either sign add up like √size in a sum; noise has variance 1/12.
    [
        ("norm", (norm - theirs.norm).abs() / moved),
        (
            "sum",
            (sum - theirs.sum).abs() / (moved * (size as f64).sqrt()),
        ),
        (
            "weighted sum",
            (weighted - theirs.weighted_sum).abs() * 12f64.sqrt() / moved,
        ),
        ("sample", off / moved),
    ]
}

/// What a wrong engine would do is not taken for right.
#[test]
fn other_trainings_do_not_match() {
    for golden in [goldens::mlp(), goldens::cnn(), goldens::wrn()].concat() {
        for (what, recipe) in mistakes(&golden.recipe) {
            let matched = compare(&golden, &recipe, Isa::detect());
            assert!(matched.is_err(), "{} matched with {what}", golden.name);
        }
    }
}

/// Recipes that are nearly this one.
fn mistakes(right: &Recipe) -> Vec<(&'static str, Recipe)> {
    let wrong = |change: &dyn Fn(&mut Recipe)| {
        let mut recipe = right.clone();
        change(&mut recipe);
        recipe
    };
    let rate = LearningRate::new(right.learning_rate.get() * 1.0005).unwrap();
    let mut found = vec![
        (
            "the other scheme",
            wrong(&|recipe| {
                recipe.scheme = match right.scheme {
                    Scheme::Standard => Scheme::Ntk,
                    Scheme::Ntk => Scheme::Standard,
                };
            }),
        ),
        (
            "a rate 0.05 % too high",
            wrong(&|recipe| recipe.learning_rate = rate),
        ),
    ];
    if right.optimizer.momentum.get() > 0.0 {
        let other = match right.optimizer.rule {
            UpdateRule::Nesterov => UpdateRule::HeavyBall,
            UpdateRule::HeavyBall => UpdateRule::Nesterov,
        };
        found.push((
            "the other rule",
            wrong(&|recipe| recipe.optimizer.rule = other),
        ));
    }
    if right.dropout > 0.0 {
        found.extend([
            ("another seed", wrong(&|recipe| recipe.seed += 1)),
            ("later masks", wrong(&|recipe| recipe.first_step += 1)),
            ("hard labels", wrong(&|recipe| recipe.label_smoothing = 0.0)),
        ]);
    }
    found
}
