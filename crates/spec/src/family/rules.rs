//! Layers that a study file spells out.

use super::builder::conv;
use super::{FamilyError, Size};
use crate::network::Layer;
use crate::quantity::Width;
use serde::{Deserialize, Serialize};

/// One layer of a family that is spelled out; sizes may follow the width.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum LayerRule {
    /// All inputs to `units` outputs.
    Dense {
        /// Outputs.
        units: Size,
    },
    /// Square convolution.
    Conv {
        /// Output channels.
        channels: Size,
        /// Side of the filter.
        kernel: usize,
        /// Step between outputs.
        #[serde(default = "one")]
        stride: usize,
        /// Zeros added on each side.
        #[serde(default)]
        padding: usize,
    },
    /// Batch normalization; the layer before it then has no bias.
    BatchNorm {},
    /// max(0, z).
    Relu {},
    /// Largest value of each window.
    MaxPool {
        /// Side of the window.
        size: usize,
    },
    /// Mean of each window.
    AveragePool {
        /// Side of the window.
        size: usize,
    },
    /// Mean over all pixels.
    GlobalAveragePool {},
    /// Dropout, in training only.
    Dropout {
        /// Probability of dropping.
        rate: f64,
    },
    /// body + shortcut; without a shortcut the identity.
    Residual {
        /// The branch that learns.
        body: Vec<LayerRule>,
        /// The branch around it.
        #[serde(default)]
        shortcut: Vec<LayerRule>,
    },
}

fn one() -> usize {
    1
}

/// The layers at a width.
pub(super) fn layers(rules: &[LayerRule], width: Width) -> Result<Vec<Layer>, FamilyError> {
    check_dropout(rules)?;
    Ok(resolve(rules, width, &mut Names::default()))
}

/// Whether there is a batch norm among them.
pub(super) fn list_batch_norm(rules: &[LayerRule]) -> bool {
    rules.iter().any(|rule| match rule {
        LayerRule::BatchNorm {} => true,
        LayerRule::Residual { body, shortcut } => {
            list_batch_norm(body) || list_batch_norm(shortcut)
        }
        _ => false,
    })
}

fn check_dropout(layers: &[LayerRule]) -> Result<(), FamilyError> {
    layers.iter().try_for_each(|layer| match layer {
        LayerRule::Dropout { rate } if !(0.0..1.0).contains(rate) => {
            Err(FamilyError::DropoutRate(*rate))
        }
        LayerRule::Residual { body, shortcut } => {
            check_dropout(body)?;
            check_dropout(shortcut)
        }
        _ => Ok(()),
    })
}

/// Numbers the layers of each kind through the whole network: `conv1`, `conv2`, …
#[derive(Default)]
struct Names {
    dense: usize,
    conv: usize,
    norm: usize,
}

fn numbered(kind: &str, count: &mut usize) -> String {
    *count += 1;
    format!("{kind}{count}")
}

fn resolve(rules: &[LayerRule], width: Width, names: &mut Names) -> Vec<Layer> {
    let one = |at: usize, names: &mut Names| {
        let bias = !matches!(rules.get(at + 1), Some(LayerRule::BatchNorm {}));
        match &rules[at] {
            LayerRule::Dense { units } => Layer::Dense {
                name: numbered("dense", &mut names.dense),
                units: units.at(width),
                bias,
            },
            LayerRule::Conv {
                channels,
                kernel,
                stride,
                padding,
            } => conv(
                &numbered("conv", &mut names.conv),
                channels.at(width),
                *kernel,
                *stride,
                *padding,
                bias,
            ),
            LayerRule::BatchNorm {} => Layer::BatchNorm {
                name: numbered("norm", &mut names.norm),
            },
            LayerRule::Relu {} => Layer::Relu,
            LayerRule::MaxPool { size } => Layer::MaxPool { size: *size },
            LayerRule::AveragePool { size } => Layer::AveragePool { size: *size },
            LayerRule::GlobalAveragePool {} => Layer::GlobalAveragePool,
            LayerRule::Dropout { rate } => Layer::Dropout { rate: *rate },
            LayerRule::Residual { body, shortcut } => Layer::Residual {
                body: resolve(body, width, names),
                shortcut: resolve(shortcut, width, names),
            },
        }
    };
    (0..rules.len()).map(|at| one(at, names)).collect()
}
