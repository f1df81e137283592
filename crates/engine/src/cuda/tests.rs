//! What can be tested of the GPU without one: launches are made, and kernels compile.

#[path = "../../../../tests/skip/mod.rs"]
mod skip;

use super::*;
use crate::cuda::args::{ExamplesArgs, Replica};
use crate::cuda::blueprint::{Blueprint, Op};
use crate::cuda::compiler::Compiler;
use crate::cuda::emit::{Common, Part, Setup};
use crate::cuda::launch::{Define, Kernel, Launch, Memory, Tables};
use crate::cuda::product::{Units, array};
use crate::cuda::resident::{A100, H200, Resident};
use spec::family::{Family, Pool, Variant};
use spec::{
    DatasetName, Momentum, Network, Optimizer, Regularizers, Scheme, Shape, UpdateRule,
    WeightScale, Width,
};
use std::collections::BTreeSet;

/// With batch norm there is dropout as well.
fn network(family: &Family, width: u32, batch_norm: bool, input: Shape) -> Network {
    let variant = Variant {
        batch_norm,
        dropout: if batch_norm { 0.3 } else { 0.0 },
    };
    let width = Width::new(width).unwrap();
    family.network(width, variant, input, 10).unwrap()
}

fn blueprint(network: &Network) -> Blueprint {
    Blueprint::new(network, Scheme::Ntk, WeightScale::new(2.0).unwrap())
}

fn setup<'a>(
    print: &'a Blueprint,
    replicas: usize,
    precision: Precision,
    limits: Limits,
    memory: &mut Memory,
) -> Setup<'a> {
    let stride = print.weights.len().next_multiple_of(4);
    let common = Common {
        replicas: memory.take(replicas * size_of::<Replica>() / 4),
        weights: array(memory.take(stride * replicas), stride),
        velocity: memory.take(stride * replicas),
        statistics: array(memory.take(10_000), 100),
    };
    Setup {
        print,
        replicas,
        units: Units {
            precision,
            groups: limits.groups,
            processors: limits.processors,
        },
        optimizer: Optimizer {
            rule: UpdateRule::Nesterov,
            momentum: Momentum::new(0.9).unwrap(),
        },
        regularizers: Regularizers::default(),
        common,
    }
}

/// Images of bytes, somewhere.
const PART: Part = Part {
    args: ExamplesArgs {
        bytes: 256,
        floats: 0,
        labels: 256,
        offset: 256,
        factor: 256,
        height: 28,
        width: 28,
        channels: 1,
        pad: 0,
    },
    examples: 1000,
};

/// The launches of a step and an evaluation.
fn launches(
    print: &Blueprint,
    replicas: usize,
    batch: usize,
    precision: Precision,
    limits: Limits,
) -> Vec<Launch> {
    let (mut memory, mut tables) = (Memory::at(0), Tables::at(0));
    let setup = setup(print, replicas, precision, limits, &mut memory);
    let mut all = emit::training_step(setup, PART, batch, &mut memory, &mut tables);
    all.extend(emit::evaluation(
        setup,
        [PART; 2],
        512,
        &mut memory,
        &mut tables,
    ));
    all
}

fn families() -> Vec<(Family, Shape, Vec<u32>)> {
    let mlp = Family::Mlp { hidden: vec![1, 1] };
    vec![
        (mlp, DatasetName::Mnist.shape(), vec![10, 512]),
        (
            Family::Cnn { pool: Pool::Max },
            DatasetName::Mnist.shape(),
            vec![2, 12],
        ),
        (
            Family::Cnn {
                pool: Pool::Average,
            },
            DatasetName::Cifar10.shape(),
            vec![1],
        ),
        (
            Family::Wrn { blocks: 2 },
            DatasetName::Cifar10.shape(),
            vec![2, 4],
        ),
    ]
}

fn every_kernel(limits: Limits) -> BTreeSet<Kernel> {
    let mut kernels = BTreeSet::new();
    for (family, input, widths) in families() {
        for width in widths {
            for (batch_norm, batch, replicas) in [(false, 8, 100), (false, 72, 20), (true, 64, 20)]
            {
                // Other families have dense layers of as many images in the last.
                if batch == 72 && !matches!(family, Family::Mlp { .. }) {
                    continue;
                }
                let print = blueprint(&network(&family, width, batch_norm, input));
                for precision in [Precision::Tf32, Precision::Fp32] {
                    let all = launches(&print, replicas, batch, precision, limits);
                    kernels.extend(all.into_iter().map(|launch| launch.kernel));
                }
            }
        }
    }
    kernels.insert(Kernel::plain(launch::Source::Weights, "initial_weights"));
    kernels
}

/// Kernels of networks that stay on the chip, each for the GPUs that it is cut for.
fn resident_kernels() -> Vec<(Kernel, (i32, i32))> {
    let input = DatasetName::Mnist.shape();
    let gpus = [((9, 0), H200), ((8, 0), A100)];
    let mut kernels = Vec::new();
    let cases = [
        (1, 24, 16, Precision::Tf32),
        (1, 200, 64, Precision::Fp32),
        (1, 1024, 8, Precision::Tf32),
        (2, 24, 16, Precision::Tf32),
        (2, 200, 64, Precision::Fp32),
        (3, 512, 16, Precision::Tf32),
    ];
    for (layers, width, batch, precision) in cases {
        let family = Family::Mlp {
            hidden: vec![1; layers],
        };
        let network = family.network(Width::new(width).unwrap(), Variant::default(), input, 10);
        let print = blueprint(&network.unwrap());
        for (architecture, limits) in gpus {
            let mut memory = Memory::at(0);
            let setup = setup(&print, 20, precision, limits, &mut memory);
            let fitted = Resident::fit(&setup, PART, batch, &limits, &mut memory);
            let launches = fitted.map(|resident| resident.launches(1));
            let own = launches.into_iter().flatten();
            let cut = own.filter(|launch| launch.kernel.source != launch::Source::Batch);
            kernels.extend(cut.map(|launch| (launch.kernel, architecture)));
        }
    }
    kernels
}

#[test]
fn networks_stay_on_the_chip_where_they_fit() {
    let kernels = resident_kernels();
    let cut_for = |gpu| {
        kernels
            .iter()
            .filter(|(_, for_gpu)| *for_gpu == gpu)
            .count()
    };
    // All on Hopper; without clusters the narrowest.
    assert_eq!((cut_for((9, 0)), cut_for((8, 0))), (6, 2));
}

#[test]
fn a_residual_chain_has_one_gradient() {
    let print = blueprint(&network(
        &Family::Wrn { blocks: 2 },
        2,
        false,
        DatasetName::Cifar10.shape(),
    ));
    let sums: Vec<_> = (print.nodes.iter())
        .filter(|node| matches!(&node.op, Op::Affine(affine) if affine.added.is_some()))
        .collect();
    assert_eq!(sums.len(), 6);
    // The second block of a group adds to the gradient of the first one's sum.
    for pair in sums.chunks(2) {
        assert_eq!(
            print.gradient[pair[0].output],
            print.gradient[pair[1].output]
        );
    }
    assert_ne!(
        print.gradient[sums[1].output],
        print.gradient[sums[2].output]
    );
    assert!(!print.nodes.iter().any(|node| matches!(node.op, Op::Add)));
}

/// Those alone may be rounded when they are written.
#[test]
fn planes_between_dense_layers_are_factors() {
    let input = DatasetName::Mnist.shape();
    let factors = |family: &Family, batch_norm| {
        let print = blueprint(&network(family, 8, batch_norm, input));
        let planes = 0..print.planes.len();
        planes.filter(|at| print.factor[*at]).collect::<Vec<_>>()
    };
    let mlp = Family::Mlp { hidden: vec![1, 1] };
    // The input and two hidden layers; the logits are for the loss.
    assert_eq!(factors(&mlp, false), [0, 1, 2]);
    // Norms and dropout come between.
    assert_eq!(factors(&mlp, true), [0]);
    // Behind two convolutions and their pools, which write what the first dense layer reads.
    assert_eq!(factors(&Family::Cnn { pool: Pool::Max }, false), [5, 6]);
    assert!(factors(&Family::Wrn { blocks: 2 }, false).is_empty());
}

#[test]
fn every_weight_has_its_place_once() {
    for (family, input, widths) in families() {
        let network = network(&family, widths[0], true, input);
        let print = blueprint(&network);
        let mut found = BTreeSet::new();
        for (parameter, index) in print.weights.parameter.iter().zip(&print.weights.index) {
            if *parameter != u32::MAX {
                assert!(found.insert((*parameter, *index)));
            }
        }
        let expected = network.parameters().into_iter().enumerate();
        let expected: BTreeSet<_> = expected
            .flat_map(|(p, parameter)| (0..parameter.size()).map(move |i| (p as u32, i as u32)))
            .collect();
        assert!(found == expected);
    }
}

/// Macros by which variants differ in more than distances in memory.
fn without_distances(defines: &[Define]) -> Vec<Define> {
    let distances = [
        "HALO",
        "PIXEL",
        "A_SEGMENT",
        "A_STEP",
        "A_JUMP",
        "B_SEGMENT",
        "B_STEP",
        "B_JUMP",
    ];
    let essence = |(name, value): &Define| match distances.contains(name) {
        true => (*name, u32::from(*value > 0)),
        false => (*name, *value),
    };
    defines.iter().map(essence).collect()
}

/// Compiles every variant that the families need, for the oldest GPU and for Hopper.
#[test]
fn kernels_compile() {
    let compiler = match Compiler::find() {
        Ok(compiler) => compiler,
        Err(reason) => {
            return skip::skipped("nvrtc", &reason.to_string());
        }
    };
    // A file without variants is compiled whole, whichever of its functions is asked for.
    let mut todo = resident_kernels();
    for (limits, architecture) in [(A100, (8, 0)), (H200, (9, 0))] {
        let mut seen = BTreeSet::new();
        let mut first =
            |kernel: &Kernel| seen.insert((kernel.source, without_distances(&kernel.defines)));
        let kernels = every_kernel(limits)
            .into_iter()
            .filter(|kernel| first(kernel));
        todo.extend(kernels.map(|kernel| (kernel, architecture)));
    }
    eprintln!("{} variants", todo.len());
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for part in todo.chunks(todo.len().div_ceil(threads)) {
            scope.spawn(move || {
                for (kernel, architecture) in part {
                    let code = compiler.compile(kernel, *architecture).unwrap();
                    assert!(code.starts_with(b"\x7fELF"), "{kernel:?}");
                }
            });
        }
    });
}
