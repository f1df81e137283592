//! Families: rules that make a network for every width (section 2 of the
//! paper's supplement), and families that a study file spells out layer by layer.

use crate::command::CommandFamily;
use crate::network::{Layer, MisfitLayer, Network, Shape};
use crate::quantity::Width;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;

/// A rule that makes a network for every width.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Family {
    /// Hidden dense layers of these multiples of the width: `[1, 1, 1]` is the
    /// paper's 3LP, `[4, 2, 1]` its bottom-heavy BH.
    Mlp {
        /// Units of each hidden layer, in widths.
        hidden: Vec<u32>,
    },
    /// LeNet-5 scaled by w/2: two 5×5 convolutions of 3w and 8w channels, each
    /// pooled, then dense layers of 60w and 42w units.
    Cnn {
        /// How the two convolutions are pooled.
        pool: Pool,
    },
    /// Wide ResNet of three groups of pre-activation blocks with 16w, 32w and 64w channels.
    Wrn {
        /// Blocks per group; the paper's N = 2 is depth 16.
        blocks: u32,
    },
    /// Layers as listed, with a dense read-out of one unit per class behind them.
    Layers {
        /// First to last, without the read-out.
        layers: Vec<LayerRule>,
    },
    /// Networks that a command of the user's own makes and trains.
    Command(CommandFamily),
}

/// How a 2×2 window becomes one value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pool {
    /// Its largest value.
    Max,
    /// Its mean.
    Average,
}

/// A size that may follow the width: `64` is fixed, `"60w"` is sixty widths.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Size {
    /// The same at every width.
    Fixed(usize),
    /// So many widths, rounded to the nearest whole number.
    Widths(f64),
}

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

/// Why a family has no network of some width for some data.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum FamilyError {
    /// A layer does not fit what reaches it.
    #[error("width {width}: {misfit}")]
    Misfit {
        /// The width.
        width: Width,
        /// Which layer, and why.
        misfit: MisfitLayer,
    },
    /// The family lists nothing.
    #[error("the family lists no layers; give at least one hidden layer")]
    Empty,
    /// A dropout rate that is not a probability below one.
    #[error("dropout rate must be at least 0 and below 1, not {0}")]
    DropoutRate(f64),
    /// The networks of a command are known to it alone.
    #[error("the study's own command makes its networks, and only it knows them")]
    OwnCommand,
}

/// The two switches that change a family's layers.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Variant {
    /// Batch norm after every affine map but the read-out; no biases there.
    pub batch_norm: bool,
    /// Dropout rate: between the convolutions of a WRN block, after the hidden
    /// dense activations of the other families. 0 is none.
    pub dropout: f64,
}

impl Family {
    /// The network of this family at `width` for examples of shape `input`.
    pub fn network(
        &self,
        width: Width,
        variant: Variant,
        input: Shape,
        classes: usize,
    ) -> Result<Network, FamilyError> {
        if !(0.0..1.0).contains(&variant.dropout) {
            return Err(FamilyError::DropoutRate(variant.dropout));
        }
        let mut build = Builder {
            w: width.get() as usize,
            variant,
            layers: Vec::new(),
        };
        match self {
            Self::Mlp { hidden } if hidden.is_empty() => return Err(FamilyError::Empty),
            Self::Layers { layers } if layers.is_empty() => return Err(FamilyError::Empty),
            Self::Command(_) => return Err(FamilyError::OwnCommand),
            Self::Mlp { hidden } => build.mlp(hidden),
            Self::Cnn { pool } => build.cnn(*pool, input),
            Self::Wrn { blocks } => build.wrn(*blocks as usize),
            Self::Layers { layers } => {
                check_dropout(layers)?;
                build.layers = resolve(layers, width, &mut Names::default());
            }
        }
        build.layers.push(Layer::Dense {
            name: "readout".into(),
            units: classes,
            bias: true,
        });
        Network::new(input, classes, build.layers)
            .map_err(|misfit| FamilyError::Misfit { width, misfit })
    }

    /// A short label such as `2LP`, `CNN` or `WRN`.
    pub fn label(&self) -> String {
        match self {
            Self::Mlp { hidden } if hidden == &[4, 2, 1] => "BH".into(),
            Self::Mlp { hidden } if hidden == &[1, 4, 4] => "TH".into(),
            Self::Mlp { hidden } => format!("{}LP", hidden.len()),
            Self::Cnn { .. } => "CNN".into(),
            Self::Wrn { .. } => "WRN".into(),
            Self::Layers { .. } => "custom".into(),
            Self::Command(own) => own.name.clone().unwrap_or_else(|| "command".into()),
        }
    }

    /// Whether the layers themselves, rather than the variant, hold a batch norm.
    pub fn lists_batch_norm(&self) -> bool {
        fn any(layers: &[LayerRule]) -> bool {
            layers.iter().any(|layer| match layer {
                LayerRule::BatchNorm {} => true,
                LayerRule::Residual { body, shortcut } => any(body) || any(shortcut),
                _ => false,
            })
        }
        matches!(self, Self::Layers { layers } if any(layers))
    }
}

/// Collects the layers of one network of a built-in family.
struct Builder {
    w: usize,
    variant: Variant,
    layers: Vec<Layer>,
}

impl Builder {
    fn mlp(&mut self, hidden: &[u32]) {
        for (at, multiple) in hidden.iter().enumerate() {
            self.hidden_dense(&format!("dense{}", at + 1), *multiple as usize * self.w);
        }
    }

    fn cnn(&mut self, pool: Pool, input: Shape) {
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

    fn wrn(&mut self, blocks: usize) {
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

fn conv(
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

impl Size {
    /// The size at a width.
    pub fn at(self, width: Width) -> usize {
        match self {
            Self::Fixed(size) => size,
            Self::Widths(multiple) => (multiple * f64::from(width.get())).round() as usize,
        }
    }

    fn parse(text: &str) -> Option<Self> {
        let multiple = text.trim().strip_suffix('w')?.trim();
        let multiple = if multiple.is_empty() {
            1.0
        } else {
            multiple.parse().ok()?
        };
        (f64::is_finite(multiple) && multiple > 0.0).then_some(Self::Widths(multiple))
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed(size) => write!(f, "{size}"),
            Self::Widths(multiple) => write!(f, "{multiple}w"),
        }
    }
}

impl Serialize for Size {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Fixed(size) => serializer.serialize_u64(*size as u64),
            Self::Widths(_) => serializer.collect_str(self),
        }
    }
}

impl<'de> Deserialize<'de> for Size {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl serde::de::Visitor<'_> for Visitor {
            type Value = Size;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a whole number of at least 1, or a multiple of the width like \"60w\"")
            }
            fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<Size, E> {
                match usize::try_from(value) {
                    Ok(size) if size > 0 => Ok(Size::Fixed(size)),
                    _ => Err(E::invalid_value(
                        serde::de::Unexpected::Unsigned(value),
                        &self,
                    )),
                }
            }
            fn visit_i64<E: serde::de::Error>(self, value: i64) -> Result<Size, E> {
                match u64::try_from(value) {
                    Ok(value) => self.visit_u64(value),
                    Err(_) => Err(E::invalid_value(
                        serde::de::Unexpected::Signed(value),
                        &self,
                    )),
                }
            }
            fn visit_str<E: serde::de::Error>(self, value: &str) -> Result<Size, E> {
                Size::parse(value)
                    .ok_or_else(|| E::invalid_value(serde::de::Unexpected::Str(value), &self))
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MNIST: Shape = Shape {
        height: 28,
        width: 28,
        channels: 1,
    };
    const CIFAR: Shape = Shape {
        height: 32,
        width: 32,
        channels: 3,
    };

    fn count(family: &Family, width: u32, batch_norm: bool, input: Shape) -> usize {
        let variant = Variant {
            batch_norm,
            dropout: 0.0,
        };
        let width = Width::new(width).unwrap();
        family
            .network(width, variant, input, 10)
            .unwrap()
            .parameter_count()
    }

    #[test]
    fn mlp_parameters() {
        // 784·128 + 128 + 128·10 + 10.
        assert_eq!(
            count(&Family::Mlp { hidden: vec![1] }, 128, false, MNIST),
            101_770
        );
        // [4w, 2w, w] at w = 2: 784·8+8 + 8·4+4 + 4·2+2 + 2·10+10.
        assert_eq!(
            count(
                &Family::Mlp {
                    hidden: vec![4, 2, 1]
                },
                2,
                false,
                MNIST
            ),
            6_356
        );
    }

    #[test]
    fn cnn_2_is_lenet() {
        let cnn = Family::Cnn { pool: Pool::Max };
        assert_eq!(count(&cnn, 2, false, MNIST), 61_706);
        // 32×32×3 input: the first convolution has 3·25·6 weights instead of 25·6.
        assert_eq!(count(&cnn, 2, false, CIFAR), 62_006);
        // With batch norm the biases go and a scale and a shift come per channel.
        assert_eq!(count(&cnn, 2, true, MNIST), 61_706 + 6 + 16 + 120 + 84);
    }

    #[test]
    fn wrn_parameters_with_batch_norm() {
        let wrn = Family::Wrn { blocks: 2 };
        for (width, expected) in [
            (2, 691_674),
            (3, 1_549_530),
            (4, 2_748_890),
            (6, 6_172_122),
            (8, 10_961_370),
        ] {
            assert_eq!(count(&wrn, width, true, CIFAR), expected, "WRN_{width}");
        }
    }

    #[test]
    fn listed_layers_reproduce_lenet() {
        let text = r#"{"kind":"layers","layers":[
            {"kind":"conv","channels":"3w","kernel":5,"padding":2},{"kind":"relu"},{"kind":"max-pool","size":2},
            {"kind":"conv","channels":"8w","kernel":5},{"kind":"relu"},{"kind":"max-pool","size":2},
            {"kind":"dense","units":"60w"},{"kind":"relu"},{"kind":"dense","units":"42w"},{"kind":"relu"}]}"#;
        let family: Family = serde_json::from_str(text).unwrap();
        assert_eq!(count(&family, 2, false, MNIST), 61_706);
    }

    #[test]
    fn a_layer_that_does_not_fit_is_named() {
        let family = Family::Cnn { pool: Pool::Max };
        let digits = Shape {
            height: 8,
            width: 8,
            channels: 1,
        };
        let width = Width::new(2).unwrap();
        let error = family
            .network(width, Variant::default(), digits, 10)
            .unwrap_err();
        assert_eq!(
            error.to_string(),
            "width 2: layer 4 (conv) does not fit its input of 4×4×6: \
             a 5×5 filter with padding 0 is larger than that"
        );
    }

    #[test]
    fn sizes_read_and_print() {
        let width = Width::new(6).unwrap();
        for (text, size) in [("64", 64), ("\"w\"", 6), ("\"2.5w\"", 15), ("\"60w\"", 360)] {
            assert_eq!(serde_json::from_str::<Size>(text).unwrap().at(width), size);
        }
        for bad in ["0", "-1", "\"w60\"", "\"-2w\"", "1.5", "\"0w\""] {
            assert!(serde_json::from_str::<Size>(bad).is_err(), "{bad}");
        }
    }
}
