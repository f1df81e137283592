//! The plain definition of every layer, in double precision: what the engine is
//! checked against, and nothing that trains.
//!
//! Activations are (channel, row, column) and weights are in the outside layout,
//! so that this file shares no addressing with the code it judges. It has no
//! gradients: differences of this loss are the reference for those.

use spec::{Layer, Network, Scheme, Shape};
use std::collections::HashMap;

/// Learned values by name, in the outside layout.
pub type Named = HashMap<String, Vec<f64>>;

/// What the loss of a batch depends on besides the learned values.
pub struct Batch<'a> {
    /// Inputs of each example, (channel, row, column).
    pub inputs: &'a [Vec<f64>],
    /// Labels.
    pub labels: &'a [u16],
    /// For every dropout layer in order, the masks of each example, (channel, row, column).
    pub masks: &'a [Vec<Vec<f64>>],
    /// Label smoothing α.
    pub smoothing: f64,
}

struct Pass<'a> {
    scheme: Scheme,
    values: &'a Named,
    masks: std::slice::Iter<'a, Vec<Vec<f64>>>,
}

/// Mean cross-entropy of a batch, in training mode.
pub fn loss(network: &Network, scheme: Scheme, values: &Named, batch: &Batch<'_>) -> f64 {
    let mut pass = Pass {
        scheme,
        values,
        masks: batch.masks.iter(),
    };
    let logits = pass.chain(&network.layers, network.input, batch.inputs.to_vec());
    let classes = network.classes as f64;
    let one = |(logits, label): (&Vec<f64>, &u16)| {
        let largest = logits.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let log_sum = logits.iter().map(|z| (z - largest).exp()).sum::<f64>().ln() + largest;
        let target = |class: usize| {
            let hit = if class == usize::from(*label) {
                1.0 - batch.smoothing
            } else {
                0.0
            };
            hit + batch.smoothing / classes
        };
        logits
            .iter()
            .enumerate()
            .map(|(class, z)| target(class) * (log_sum - z))
            .sum::<f64>()
    };
    let total: f64 = logits.iter().zip(batch.labels).map(one).sum();
    total / batch.labels.len() as f64
}

impl Pass<'_> {
    fn chain(&mut self, layers: &[Layer], mut shape: Shape, x: Vec<Vec<f64>>) -> Vec<Vec<f64>> {
        layers.iter().fold(x, |x, layer| {
            let y = self.layer(layer, shape, x);
            shape = layer.output(shape).expect("a network's layers fit");
            y
        })
    }

    fn layer(&mut self, layer: &Layer, shape: Shape, x: Vec<Vec<f64>>) -> Vec<Vec<f64>> {
        let each = |f: &dyn Fn(&Vec<f64>) -> Vec<f64>| x.iter().map(f).collect();
        match layer {
            Layer::Dense { name, units, .. } => {
                let whole = Filter {
                    channels: *units,
                    rows: shape.height,
                    columns: shape.width,
                };
                each(&|x| self.convolve(name, x, shape, whole, 1, 0))
            }
            Layer::Conv {
                name,
                channels,
                kernel,
                stride,
                padding,
                ..
            } => {
                let filter = Filter {
                    channels: *channels,
                    rows: *kernel,
                    columns: *kernel,
                };
                each(&|x| self.convolve(name, x, shape, filter, *stride, *padding))
            }
            Layer::BatchNorm { name } => self.normalize(name, shape, &x),
            Layer::Relu => each(&|x| x.iter().map(|x| x.max(0.0)).collect()),
            Layer::MaxPool { size } => each(&|x| {
                pool(x, shape, *size, *size, |w| {
                    w.fold(f64::NEG_INFINITY, f64::max)
                })
            }),
            Layer::AveragePool { size } => each(&|x| mean_pool(x, shape, *size, *size)),
            Layer::GlobalAveragePool => each(&|x| mean_pool(x, shape, shape.height, shape.width)),
            Layer::Dropout { .. } => {
                let masks = self
                    .masks
                    .next()
                    .expect("one set of masks per dropout layer");
                let masked = |(x, mask): (&Vec<f64>, &Vec<f64>)| {
                    x.iter().zip(mask).map(|(x, mask)| x * mask).collect()
                };
                x.iter().zip(masks).map(masked).collect()
            }
            Layer::Residual { body, shortcut } => {
                let main = self.chain(body, shape, x.clone());
                let around = self.chain(shortcut, shape, x);
                let sum =
                    |(a, b): (Vec<f64>, Vec<f64>)| a.iter().zip(&b).map(|(a, b)| a + b).collect();
                main.into_iter().zip(around).map(sum).collect()
            }
        }
    }

    /// z = s·(W∗x + b).
    fn convolve(
        &self,
        name: &str,
        x: &[f64],
        input: Shape,
        filter: Filter,
        stride: usize,
        padding: usize,
    ) -> Vec<f64> {
        let weight = &self.values[&format!("{name}.weight")];
        let bias = self.values.get(&format!("{name}.bias"));
        let fan_in = input.channels * filter.rows * filter.columns;
        let scale = self.scheme.multiplier(fan_in);
        let height = (input.height + 2 * padding - filter.rows) / stride + 1;
        let width = (input.width + 2 * padding - filter.columns) / stride + 1;
        let pixel = |channel: usize, row: usize, column: usize| {
            let (row, column) = (row.checked_sub(padding), column.checked_sub(padding));
            match (row, column) {
                (Some(row), Some(column)) if row < input.height && column < input.width => {
                    x[(channel * input.height + row) * input.width + column]
                }
                _ => 0.0,
            }
        };
        let mut z = Vec::with_capacity(filter.channels * height * width);
        for out in 0..filter.channels {
            for (row, column) in grid(height, width) {
                let mut sum = bias.map_or(0.0, |bias| bias[out]);
                for channel in 0..input.channels {
                    for (ky, kx) in grid(filter.rows, filter.columns) {
                        let w = ((out * input.channels + channel) * filter.rows + ky)
                            * filter.columns
                            + kx;
                        sum += weight[w] * pixel(channel, row * stride + ky, column * stride + kx);
                    }
                }
                z.push(scale * sum);
            }
        }
        z
    }

    fn normalize(&self, name: &str, shape: Shape, x: &[Vec<f64>]) -> Vec<Vec<f64>> {
        let scale = &self.values[&format!("{name}.scale")];
        let shift = &self.values[&format!("{name}.shift")];
        let pixels = shape.height * shape.width;
        let count = (x.len() * pixels) as f64;
        let mut y = x.to_vec();
        for channel in 0..shape.channels {
            let range = channel * pixels..(channel + 1) * pixels;
            let all = || x.iter().flat_map(|x| &x[range.clone()]);
            let mean = all().sum::<f64>() / count;
            let variance = all().map(|x| (x - mean).powi(2)).sum::<f64>() / count;
            for y in y.iter_mut().flat_map(|y| &mut y[range.clone()]) {
                *y = scale[channel] * (*y - mean) / (variance + 1e-5).sqrt() + shift[channel];
            }
        }
        y
    }
}

#[derive(Clone, Copy)]
struct Filter {
    channels: usize,
    rows: usize,
    columns: usize,
}

fn grid(rows: usize, columns: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..rows).flat_map(move |row| (0..columns).map(move |column| (row, column)))
}

fn mean_pool(x: &[f64], shape: Shape, rows: usize, columns: usize) -> Vec<f64> {
    pool(x, shape, rows, columns, |window| {
        window.sum::<f64>() / (rows * columns) as f64
    })
}

fn pool(
    x: &[f64],
    shape: Shape,
    rows: usize,
    columns: usize,
    reduce: impl Fn(&mut dyn Iterator<Item = f64>) -> f64,
) -> Vec<f64> {
    let mut y = Vec::new();
    for channel in 0..shape.channels {
        for (row, column) in grid(shape.height / rows, shape.width / columns) {
            let mut window = grid(rows, columns).map(|(dy, dx)| {
                let (row, column) = (row * rows + dy, column * columns + dx);
                x[(channel * shape.height + row) * shape.width + column]
            });
            y.push(reduce(&mut window));
        }
    }
    y
}
