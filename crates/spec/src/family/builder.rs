//! The built-in families, layer by layer.

use super::{Pool, Variant};
use crate::network::{Layer, Shape};

/// Collects the layers of one network of a built-in family.
pub(super) struct Builder {
    pub(super) w: usize,
    pub(super) variant: Variant,
    pub(super) layers: Vec<Layer>,
}

impl Builder {
    pub(super) fn mlp(&mut self, hidden: &[u32]) {
        for (at, multiple) in hidden.iter().enumerate() {
            self.hidden_dense(&format!("dense{}", at + 1), *multiple as usize * self.w);
        }
    }

    pub(super) fn cnn(&mut self, pool: Pool, input: Shape) {
        // LeNet-5 reads 32×32; a 28×28 image is padded to that by its first convolution.
        let padding = if input.height < 32 { 2 } else { 0 };
        for (name, channels, padding) in [("conv1", 3 * self.w, padding), ("conv2", 8 * self.w, 0)]
        {
            let bias = !self.variant.batch_norm;
            self.layers.push(conv(name, channels, 5, 1, padding, bias));
            self.norm_and_relu(name);
            self.layers.push(match pool {
                Pool::Max => Layer::MaxPool { size: 2 },
                Pool::Average => Layer::AveragePool { size: 2 },
            });
        }
        self.hidden_dense("dense1", 60 * self.w);
        self.hidden_dense("dense2", 42 * self.w);
    }

    pub(super) fn wrn(&mut self, blocks: usize) {
        let bias = !self.variant.batch_norm;
        self.layers.push(conv("stem", 16, 3, 1, 1, bias));
        let mut channels = 16;
        for group in 1..=3 {
            let out = (8 << group) * self.w;
            for block in 1..=blocks {
                let stride = if group > 1 && block == 1 { 2 } else { 1 };
                self.block(&format!("group{group}.block{block}"), channels, out, stride);
                channels = out;
            }
        }
        self.norm_and_relu("final");
        self.layers.push(Layer::GlobalAveragePool);
    }

    /// A pre-activation block. Where the shape changes, norm and activation
    /// come before the fork, as in Zagoruyko & Komodakis' Wide ResNets, so that
    /// the projection sees them too.
    fn block(&mut self, name: &str, channels: usize, out: usize, stride: usize) {
        let bias = !self.variant.batch_norm;
        let outer = std::mem::take(&mut self.layers);
        self.norm_and_relu(&format!("{name}.conv0"));
        let opening = std::mem::take(&mut self.layers);

        self.layers
            .push(conv(&format!("{name}.conv1"), out, 3, stride, 1, bias));
        self.norm_and_relu(&format!("{name}.conv1"));
        self.dropout();
        self.layers
            .push(conv(&format!("{name}.conv2"), out, 3, 1, 1, bias));
        let convolutions = std::mem::replace(&mut self.layers, outer);

        if channels == out && stride == 1 {
            let body = opening.into_iter().chain(convolutions).collect();
            self.layers.push(Layer::Residual {
                body,
                shortcut: Vec::new(),
            });
        } else {
            let shortcut = vec![conv(&format!("{name}.project"), out, 1, stride, 0, bias)];
            self.layers.extend(opening);
            self.layers.push(Layer::Residual {
                body: convolutions,
                shortcut,
            });
        }
    }

    fn hidden_dense(&mut self, name: &str, units: usize) {
        self.layers.push(Layer::Dense {
            name: name.into(),
            units,
            bias: !self.variant.batch_norm,
        });
        self.norm_and_relu(name);
        self.dropout();
    }

    fn norm_and_relu(&mut self, after: &str) {
        if self.variant.batch_norm {
            self.layers.push(Layer::BatchNorm {
                name: format!("{after}.norm"),
            });
        }
        self.layers.push(Layer::Relu);
    }

    fn dropout(&mut self) {
        if self.variant.dropout > 0.0 {
            self.layers.push(Layer::Dropout {
                rate: self.variant.dropout,
            });
        }
    }
}

pub(super) fn conv(
    name: &str,
    channels: usize,
    kernel: usize,
    stride: usize,
    padding: usize,
    bias: bool,
) -> Layer {
    Layer::Conv {
        name: name.into(),
        channels,
        kernel,
        stride,
        padding,
        bias,
    }
}
