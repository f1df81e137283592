//! An invariant of the two schemes: an NTK network at rate ε is the standard
//! network whose layer of fan-in n is trained at rate ε/n.
//!
//! With V = W/√n both compute the same function, and ∂/∂V = √n·∂/∂W, so that
//! V − (ε/n)·∂/∂V = (W − ε·∂/∂W)/√n; velocities follow suit.

#[allow(dead_code, reason = "what the comparison with PyTorch alone uses")]
mod goldens;
#[allow(dead_code, reason = "what the gradient tests alone use")]
mod support;

use engine::kernels::Isa;
use goldens::{Descent, Golden, Recipe, STEPS};
use spec::network::Role;
use spec::{Parameter, Scheme};

/// Largest relative difference of a loss; 5e-7 was the worst when this was written.
const LOSS: f64 = 1e-5;
/// Largest difference of a tensor, as a share of how far it moved; the worst was 4e-5.
const TENSOR: f64 = 3e-4;

#[test]
fn mlp_has_a_twin() {
    check(goldens::mlp());
}

#[test]
fn cnn_has_a_twin() {
    check(goldens::cnn());
}

#[test]
fn wrn_has_a_twin() {
    check(goldens::wrn());
}

fn check(cases: Vec<Golden>) {
    let ntk = cases
        .into_iter()
        .filter(|case| case.recipe.scheme == Scheme::Ntk);
    for Golden { name, recipe, .. } in ntk {
        let rate = |p: &Parameter| recipe.learning_rate.get() / p.fan_in as f64;
        for isa in Isa::available() {
            let Differences { loss, tensor } = differences(&recipe, isa, rate);
            println!("{name} on {isa}: losses within {loss:.1e}, tensors {tensor:.1e}");
            assert!(
                loss <= LOSS && tensor <= TENSOR,
                "{name} on {isa}: {loss}, {tensor}"
            );
        }
        // With biases at another rate it is another training.
        let other = |p: &Parameter| match p.role {
            Role::Bias => 2.0 * rate(p),
            _ => rate(p),
        };
        let apart = differences(&recipe, Isa::detect(), other);
        assert!(
            apart.loss > 10.0 * LOSS && apart.tensor > 10.0 * TENSOR,
            "{name}"
        );
    }
}

/// The largest differences between an NTK network and its twin.
struct Differences {
    loss: f64,
    tensor: f64,
}

/// Trains the NTK network of a recipe, and the standard one of the same function at these rates.
fn differences(ntk: &Recipe, isa: Isa, rate: impl Fn(&Parameter) -> f64) -> Differences {
    let standard = Recipe {
        scheme: Scheme::Standard,
        ..ntk.clone()
    };
    let parameters = ntk.network().parameters();
    let initial = ntk.initial();
    let shrunk = parameters.iter().zip(&initial).map(|(parameter, values)| {
        let root = (parameter.fan_in as f64).sqrt();
        values
            .iter()
            .map(|value| (f64::from(*value) / root) as f32)
            .collect()
    });
    let shrunk: Vec<Vec<f32>> = shrunk.collect();
    let mut one = Descent::new(ntk, isa, &initial);
    let mut other = Descent::new(&standard, isa, &shrunk);
    let mut worst = Differences {
        loss: 0.0,
        tensor: 0.0,
    };
    for _ in 0..STEPS {
        let loss = one.step(|_| ntk.learning_rate.get());
        let twin = other.step(&rate);
        worst.loss = larger(worst.loss, (twin / loss - 1.0).abs());
    }
    let (ours, twins) = (one.tensors(), other.tensors());
    for ((parameter, initial), (one, other)) in
        parameters.iter().zip(&initial).zip(ours.iter().zip(&twins))
    {
        let root = (parameter.fan_in as f64).sqrt();
        let moved = one
            .values
            .iter()
            .zip(initial)
            .map(|(x, start)| x - f64::from(*start));
        let apart = one
            .values
            .iter()
            .zip(&other.values)
            .map(|(x, y)| x - root * y);
        worst.tensor = larger(worst.tensor, norm(apart) / norm(moved));
    }
    worst
}

/// The larger of two, NaN if either is.
fn larger(x: f64, y: f64) -> f64 {
    if x > y || x.is_nan() { x } else { y }
}

fn norm(values: impl Iterator<Item = f64>) -> f64 {
    values.map(|x| x * x).sum::<f64>().sqrt()
}
