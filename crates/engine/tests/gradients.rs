//! Every layer's loss and gradient against the plain definition: the loss as it
//! is, the gradient by central differences of it in double precision.

mod support;

use engine::kernels::Isa;
use proptest::prelude::*;
use spec::family::{Family, Variant};
use spec::{Layer, Scheme, Shape, Width};
use support::{Case, noise};

const H: f64 = 1e-6;
/// Values looked at per parameter: all of a small one, a sample of a large one.
const SAMPLE: usize = 24;
/// The same for a network of many parameters.
const SPARSE_SAMPLE: usize = 3;

/// Compares loss and gradients on every instruction set of this machine.
fn check(case: &Case) {
    check_sample(case, SAMPLE);
}

fn check_sample(case: &Case, sample: usize) {
    for isa in Isa::available() {
        let mut values = case.values();
        let pass = case.engine(isa, &values);
        let expected = case.reference(&values, &pass.masks);
        let error = (pass.loss - expected).abs() / expected.abs().max(1.0);
        assert!(error < 1e-5, "{isa}: loss {} against {expected}", pass.loss);
        for parameter in case.network.parameters() {
            let name = &parameter.name;
            let size = parameter.size();
            let scale = pass.gradients[name]
                .iter()
                .fold(0.0, |max: f64, g| max.max(g.abs()));
            for i in 0..size.min(sample) {
                let at = if size <= sample {
                    i
                } else {
                    (i * 7919 + 13) % size
                };
                let mut shifted = |by: f64| {
                    let value = &mut values.get_mut(name).unwrap()[at];
                    *value += by;
                    let loss = case.reference(&values, &pass.masks);
                    values.get_mut(name).unwrap()[at] -= by;
                    loss
                };
                let slope = (shifted(H) - shifted(-H)) / (2.0 * H);
                let got = pass.gradients[name][at];
                assert!(
                    (got - slope).abs() < 1e-4 * scale.max(1e-2),
                    "{isa}: {name}[{at}]: {got} against {slope} (largest {scale})"
                );
            }
        }
    }
}

fn check_both_schemes(input: Shape, layers: &[Layer]) {
    for scheme in [Scheme::Standard, Scheme::Ntk] {
        check(&Case::new(input, layers.to_vec(), scheme));
    }
}

fn dense(name: &str, units: usize) -> Layer {
    Layer::Dense {
        name: name.into(),
        units,
        bias: true,
    }
}

fn conv(name: &str, channels: usize, kernel: usize, stride: usize, padding: usize) -> Layer {
    Layer::Conv {
        name: name.into(),
        channels,
        kernel,
        stride,
        padding,
        bias: true,
    }
}

fn norm(name: &str) -> Layer {
    Layer::BatchNorm { name: name.into() }
}

const IMAGE: Shape = Shape {
    height: 7,
    width: 6,
    channels: 3,
};

#[test]
fn dense_and_relu() {
    check_both_schemes(
        Shape::flat(13),
        &[dense("a", 9), Layer::Relu, dense("b", 17), Layer::Relu],
    );
}

/// From 16 images on, both factors of the weight gradient are turned first.
#[test]
fn dense_in_batches_that_fill_panels() {
    for batch in [16, 17, 35] {
        let layers = vec![dense("a", 9), Layer::Relu, dense("b", 17), Layer::Relu];
        let mut case = Case::new(Shape::flat(13), layers, Scheme::Ntk);
        case.batch = batch;
        check(&case);
    }
}

#[test]
fn relu_behind_layers_without_a_bias() {
    let bare = [
        Layer::Conv {
            name: "a".into(),
            channels: 5,
            kernel: 3,
            stride: 1,
            padding: 1,
            bias: false,
        },
        Layer::Relu,
        Layer::Dense {
            name: "b".into(),
            units: 17,
            bias: false,
        },
        Layer::Relu,
    ];
    check_both_schemes(IMAGE, &bare);
}

#[test]
fn dense_over_an_image_with_a_border() {
    // Both branches read one plane; the convolution's padding gives it a border.
    let fork = Layer::Residual {
        body: vec![conv("b", 3, 3, 1, 1), dense("c", 4)],
        shortcut: vec![dense("d", 4)],
    };
    check_both_schemes(IMAGE, &[conv("a", 3, 3, 1, 1), Layer::Relu, fork]);
}

#[test]
fn convolutions_of_all_kinds() {
    for (kernel, stride, padding) in [
        (1, 1, 0),
        (3, 1, 1),
        (3, 2, 1),
        (5, 1, 0),
        (5, 1, 2),
        (1, 2, 0),
        (2, 2, 0),
        (3, 3, 2),
        (1, 7, 0),
    ] {
        let layers = [
            conv("a", 5, 3, 1, 1),
            Layer::Relu,
            conv("b", 4, kernel, stride, padding),
            Layer::Relu,
        ];
        check_both_schemes(IMAGE, &layers);
    }
}

#[test]
fn one_output_of_many_pixels() {
    // Both read one plane of 2 × 2 pixels, with a border; the second one pixel of it.
    let fork = Layer::Residual {
        body: vec![conv("b", 3, 3, 2, 1)],
        shortcut: vec![conv("c", 3, 1, 2, 0)],
    };
    let input = Shape {
        height: 2,
        width: 2,
        channels: 3,
    };
    check_both_schemes(input, &[conv("a", 5, 3, 1, 1), Layer::Relu, fork]);
}

#[test]
fn pools() {
    for pool in [
        Layer::MaxPool { size: 2 },
        Layer::MaxPool { size: 3 },
        Layer::AveragePool { size: 2 },
        Layer::GlobalAveragePool,
    ] {
        check_both_schemes(IMAGE, &[conv("a", 5, 3, 1, 1), pool.clone()]);
        // Straight from the input: nothing to learn before it.
        check_both_schemes(IMAGE, &[pool, dense("b", 4)]);
    }
}

#[test]
fn batch_norm() {
    check_both_schemes(IMAGE, &[conv("a", 5, 3, 1, 1), norm("n")]);
    check_both_schemes(
        IMAGE,
        &[
            conv("a", 5, 3, 1, 1),
            norm("n"),
            Layer::Relu,
            conv("b", 4, 3, 1, 1),
        ],
    );
    check_both_schemes(
        Shape::flat(6),
        &[norm("m"), dense("a", 9), norm("n"), Layer::Relu],
    );
}

#[test]
fn relu_on_its_own_and_dropout() {
    check_both_schemes(
        IMAGE,
        &[
            Layer::Relu,
            conv("a", 5, 3, 1, 1),
            Layer::Dropout { rate: 0.3 },
        ],
    );
    check_both_schemes(
        Shape::flat(7),
        &[
            dense("a", 30),
            Layer::Relu,
            Layer::Dropout { rate: 0.5 },
            dense("b", 8),
            Layer::Dropout { rate: 0.2 },
        ],
    );
}

#[test]
fn residuals() {
    let identity = Layer::Residual {
        body: vec![
            Layer::Relu,
            conv("b", 4, 3, 1, 1),
            Layer::Relu,
            conv("c", 4, 3, 1, 1),
        ],
        shortcut: vec![],
    };
    let projection = Layer::Residual {
        body: vec![conv("d", 6, 3, 2, 1)],
        shortcut: vec![conv("e", 6, 1, 2, 0)],
    };
    check_both_schemes(
        IMAGE,
        &[conv("a", 4, 3, 1, 1), identity, Layer::Relu, projection],
    );
}

#[test]
fn a_whole_wide_resnet() {
    let input = Shape {
        height: 8,
        width: 8,
        channels: 3,
    };
    let width = Width::new(1).unwrap();
    for batch_norm in [false, true] {
        for scheme in [Scheme::Standard, Scheme::Ntk] {
            let variant = Variant {
                batch_norm,
                dropout: 0.3,
            };
            let family = Family::Wrn { blocks: 1 };
            let network = family.network(width, variant, input, 3).unwrap();
            let mut case = Case {
                network,
                scheme,
                batch: 2,
                smoothing: 0.1,
            };
            // Batch norm over four values per channel is too rough for differences.
            case.batch = if batch_norm { 4 } else { 2 };
            check_sample(&case, SPARSE_SAMPLE);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// Random stacks of convolutions: sizes that fill no tile evenly.
    #[test]
    fn odd_sizes(
        height in 3usize..9, width in 3usize..9, channels in 1usize..4,
        first in 1usize..20, second in 1usize..20, kernel in 1usize..4, stride in 1usize..3,
        padding in 0usize..3, batch in 1usize..7,
    ) {
        let input = Shape { height, width, channels };
        let layers = vec![conv("a", first, 3, 1, 1), Layer::Relu, conv("b", second, kernel, stride, padding)];
        let mut case = Case::new(input, layers, Scheme::Ntk);
        case.batch = batch;
        check(&case);
    }
}

#[test]
fn the_noise_of_these_tests_is_spread() {
    let mean = (0..1000).map(|i| noise(1, i)).sum::<f64>() / 1000.0;
    assert!(mean.abs() < 0.03);
}
