//! From the steps of a network to planes, operations and the layout of weights.

use super::{Affine, Blueprint, Op, Weights};
use crate::cuda::plane::Plane;
use crate::net::{Draft, DraftStep};
use spec::network::Role;
use spec::{Layer, Network, Parameter, Scheme, Shape, WeightScale};

/// Floats of a pixel of so many channels.
fn padded(channels: usize) -> usize {
    channels.next_multiple_of(4)
}

/// The planes of a network, before their borders are known. The input is not padded where
/// only dense layers read it, or where it has one channel that convolutions read.
pub(super) fn planes(draft: &Draft) -> Vec<Plane> {
    let readers: Vec<_> = (draft.steps.iter())
        .filter(|step| step.inputs.contains(&0))
        .map(|step| step.layer.as_ref())
        .collect();
    let dense = |layer: &Option<&Layer>| matches!(layer, Some(Layer::Dense { .. }));
    let affine =
        |layer: &Option<&Layer>| matches!(layer, Some(Layer::Dense { .. } | Layer::Conv { .. }));
    let input = draft.shapes[0].channels;
    let as_it_is = readers.iter().all(dense) || (input == 1 && readers.iter().all(affine));
    let plane = |(at, shape): (usize, &Shape)| Plane {
        shape: *shape,
        pixel: match at == 0 && as_it_is {
            true => shape.channels,
            false => padded(shape.channels),
        },
        border: 0,
    };
    draft.shapes.iter().enumerate().map(plane).collect()
}

/// Makes operations out of steps, and lays out their weights.
pub(super) struct Builder {
    known: Vec<Parameter>,
    scheme: Scheme,
    weight_scale: WeightScale,
    parameters: usize,
    statistics: usize,
    dropouts: u32,
}

impl Builder {
    /// Before the first step.
    pub fn new(network: &Network, scheme: Scheme, weight_scale: WeightScale) -> Self {
        Self {
            known: network.parameters(),
            scheme,
            weight_scale,
            parameters: 0,
            statistics: 0,
            dropouts: 0,
        }
    }

    /// The operation of the next step.
    pub fn op(&mut self, step: &DraftStep, print: &mut Blueprint) -> Op {
        let (input, output) = (print.planes[step.inputs[0]], print.planes[step.output]);
        let pool = |maximum, window| Op::Pool { maximum, window };
        let Shape { height, width, .. } = input.shape;
        match &step.layer {
            None => Op::Add,
            Some(Layer::Dense { bias, .. }) => {
                let affine = Affine {
                    kernel: (height, width),
                    stride: 1,
                    padding: 0,
                    dense: true,
                    ..affine(step.relu, *bias)
                };
                self.affine(affine, &input, &output, &mut print.weights)
            }
            Some(Layer::Conv {
                kernel,
                stride,
                padding,
                bias,
                ..
            }) => {
                let affine = Affine {
                    kernel: (*kernel, *kernel),
                    stride: *stride,
                    padding: *padding,
                    ..affine(step.relu, *bias)
                };
                self.affine(affine, &input, &output, &mut print.weights)
            }
            Some(Layer::BatchNorm { .. }) => {
                let (scale, statistics) = (print.weights.len(), self.statistics);
                print.norm_channels.push(input.pixel);
                self.statistics += 2 * input.pixel;
                for _ in 0..2 {
                    self.vector(&input, &mut print.weights);
                }
                let relu = step.relu;
                Op::Norm {
                    relu,
                    scale,
                    statistics,
                }
            }
            Some(Layer::Relu) => Op::Relu,
            Some(Layer::MaxPool { size }) => pool(true, (*size, *size)),
            Some(Layer::AveragePool { size }) => pool(false, (*size, *size)),
            Some(Layer::GlobalAveragePool) => pool(false, (height, width)),
            Some(Layer::Dropout { rate }) => {
                self.dropouts += 1;
                Op::Dropout {
                    rate: *rate,
                    index: self.dropouts - 1,
                }
            }
            Some(Layer::Residual { .. }) => unreachable!("residuals were taken apart"),
        }
    }

    /// Lays out W and b of a layer: W by rows (tap, channel), b as one more row.
    fn affine(
        &mut self,
        mut affine: Affine,
        input: &Plane,
        output: &Plane,
        weights: &mut Weights,
    ) -> Op {
        let parameter = &self.known[self.parameters];
        affine.scale = self.scheme.multiplier(parameter.fan_in) as f32;
        affine.weight = weights.len();
        let deviation = self
            .scheme
            .initial_deviation(self.weight_scale, parameter.fan_in);
        weights.deviation.push(deviation);
        let (taps, channels) = (affine.kernel.0 * affine.kernel.1, input.shape.channels);
        for tap in 0..taps {
            for channel in 0..input.pixel {
                for out in 0..output.pixel {
                    let real = channel < channels && out < output.shape.channels;
                    let index = (out * channels + channel) * taps + tap;
                    weights.push(real.then_some((self.parameters, index)));
                }
            }
        }
        self.parameters += 1;
        if affine.bias {
            self.vector(output, weights);
        }
        Op::Affine(affine)
    }

    /// Lays out a parameter with one value per channel.
    fn vector(&mut self, plane: &Plane, weights: &mut Weights) {
        let role = self.known[self.parameters].role;
        let constant = if role == Role::Scale { 1.0 } else { 0.0 };
        weights.deviation.push(-1.0 - constant);
        for channel in 0..plane.pixel {
            let real = channel < plane.shape.channels;
            weights.push(real.then_some((self.parameters, channel)));
        }
        self.parameters += 1;
    }
}

/// An affine layer whose sizes are still to come.
fn affine(relu: bool, bias: bool) -> Affine {
    Affine {
        kernel: (1, 1),
        stride: 1,
        padding: 0,
        dense: false,
        relu,
        scale: 1.0,
        weight: 0,
        bias,
        added: None,
        active: None,
    }
}

impl Weights {
    /// Values of one replica, padding included.
    pub fn len(&self) -> usize {
        self.parameter.len()
    }

    fn push(&mut self, value: Option<(usize, usize)>) {
        let (parameter, index) = value.map_or((u32::MAX, 0), |(p, i)| (p as u32, i as u32));
        self.parameter.push(parameter);
        self.index.push(index);
    }
}
