//! The learned values of one network, flat, and their way in and out.
//!
//! Weights are stored as the product kernel reads them: (kh, kw, in, out) by panels of
//! 16 outputs, the unused ones of the last panel 0. Outside they are PyTorch's: dense (out, in) with
//! inputs in (channel, row, column) order, convolution (out, in, kh, kw).

use crate::buffer::Buffer;
use crate::kernels::product::PANEL;
use crate::random::{Purpose, Stream};
use spec::network::Role;
use spec::{Layer, Network, Parameter, Scheme, Shape, WeightScale};
use std::collections::TryReserveError;

/// Where one parameter lies.
#[derive(Debug, Clone)]
pub struct Place {
    /// The parameter, as the outside knows it.
    pub parameter: Parameter,
    /// First float.
    pub start: usize,
    /// Rows, columns and channels that the inputs of a weight span.
    inputs: Shape,
}

/// The layout of all learned values of a network.
#[derive(Debug, Clone)]
pub struct Weights {
    places: Vec<Place>,
    len: usize,
}

impl Weights {
    /// Lays out the parameters of a network in their order.
    pub fn layout(network: &Network) -> Self {
        let mut inputs = Vec::new();
        network.visit(&mut |layer, input| match layer {
            Layer::Dense { bias, .. } => inputs.extend([input].repeat(1 + usize::from(*bias))),
            Layer::Conv { kernel, bias, .. } => {
                let taps = Shape {
                    height: *kernel,
                    width: *kernel,
                    channels: input.channels,
                };
                inputs.extend([taps].repeat(1 + usize::from(*bias)));
            }
            Layer::BatchNorm { .. } => inputs.extend([input].repeat(2)),
            _ => {}
        });
        let mut len = 0;
        let place = |(parameter, inputs): (Parameter, Shape)| {
            let start = len;
            let place = Place {
                parameter,
                start,
                inputs,
            };
            len += place.rows() * place.parameter.shape[0].next_multiple_of(PANEL);
            place
        };
        let places = network
            .parameters()
            .into_iter()
            .zip(inputs)
            .map(place)
            .collect();
        Self { places, len }
    }

    /// Floats of the whole layout.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is nothing to learn.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Where every parameter lies, in the network's order.
    pub fn places(&self) -> &[Place] {
        &self.places
    }

    /// Values at the start of training: weights normal, biases and shifts 0, scales 1.
    /// Value i (in the outside layout) of parameter p draws at position (p, i).
    pub fn initial(
        &self,
        scheme: Scheme,
        weight_scale: WeightScale,
        seed: u64,
    ) -> Result<Buffer, TryReserveError> {
        let sizes = self.places.iter().map(|place| place.parameter.size());
        let mut outside = Buffer::try_zeros(sizes.max().unwrap_or(0))?;
        let mut values = Buffer::try_zeros(self.len)?;
        let stream = Stream::new(seed, Purpose::InitialWeights);
        for (index, place) in self.places.iter().enumerate() {
            let outside = &mut outside.get_mut()[..place.parameter.size()];
            match place.parameter.role {
                Role::Weight => {
                    let deviation = scheme.initial_deviation(weight_scale, place.parameter.fan_in);
                    stream.normals(index as u64, outside, deviation);
                }
                Role::Bias | Role::Shift => outside.fill(0.0),
                Role::Scale => outside.fill(1.0),
            }
            place.put(values.get_mut(), outside);
        }
        Ok(values)
    }
}

impl Place {
    /// Reads the parameter in the outside layout.
    pub fn read(&self, values: &[f32]) -> Vec<f32> {
        self.order().map(|at| values[at]).collect()
    }

    /// Writes the parameter from the outside layout.
    pub fn put(&self, values: &mut [f32], outside: &[f32]) {
        for (at, value) in self.order().zip(outside) {
            values[at] = *value;
        }
    }

    /// Positions of the outside layout's values, in its order.
    fn order(&self) -> impl Iterator<Item = usize> + '_ {
        let Shape {
            height,
            width,
            channels,
        } = match self.parameter.role {
            Role::Weight => self.inputs,
            _ => Shape::flat(1),
        };
        let outputs = self.parameter.shape[0];
        let input = move |channel: usize, y: usize, x: usize| (y * width + x) * channels + channel;
        let inputs = move || {
            (0..channels).flat_map(move |c| {
                (0..height).flat_map(move |y| (0..width).map(move |x| input(c, y, x)))
            })
        };
        let at = move |input: usize, output: usize| {
            self.start + (output / PANEL * self.rows() + input) * PANEL + output % PANEL
        };
        (0..outputs).flat_map(move |output| inputs().map(move |input| at(input, output)))
    }

    /// Inputs of one output.
    fn rows(&self) -> usize {
        match self.parameter.role {
            Role::Weight => self.inputs.size(),
            Role::Bias | Role::Scale | Role::Shift => 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use spec::family::{Family, Pool, Variant};
    use spec::{WeightScale, Width};

    fn lenet() -> Network {
        let shape = Shape {
            height: 28,
            width: 28,
            channels: 1,
        };
        let variant = Variant {
            batch_norm: true,
            dropout: 0.0,
        };
        let family = Family::Cnn { pool: Pool::Max };
        family
            .network(Width::new(1).unwrap(), variant, shape, 10)
            .unwrap()
    }

    #[test]
    fn what_is_put_is_read() {
        let weights = Weights::layout(&lenet());
        let mut values = Buffer::zeros(weights.len());
        let outside: Vec<Vec<f32>> = weights
            .places()
            .iter()
            .enumerate()
            .map(|(p, place)| {
                (0..place.parameter.size())
                    .map(|i| (p * 100_000 + i) as f32)
                    .collect()
            })
            .collect();
        for (place, outside) in weights.places().iter().zip(&outside) {
            place.put(values.get_mut(), outside);
        }
        for (place, outside) in weights.places().iter().zip(&outside) {
            assert_eq!(
                &place.read(values.get()),
                outside,
                "{}",
                place.parameter.name
            );
        }
    }

    #[test]
    fn initial_weights_have_the_scheme_s_deviation() {
        let weights = Weights::layout(&lenet());
        let two = WeightScale::new(2.0).unwrap();
        for (scheme, expected) in [(Scheme::Ntk, 2f64.sqrt()), (Scheme::Standard, 0.1)] {
            let values = weights.initial(scheme, two, 7).unwrap();
            // dense1: 200 inputs, 60 outputs; standard deviation √(2/200) = 0.1.
            let dense = weights
                .places()
                .iter()
                .find(|p| p.parameter.name == "dense1.weight");
            let sample = dense.unwrap().read(values.get());
            let variance =
                sample.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>() / sample.len() as f64;
            assert_eq!(sample.len(), 200 * 60);
            assert!(
                (variance.sqrt() / expected - 1.0).abs() < 0.03,
                "{}",
                variance.sqrt()
            );
        }
    }
}
