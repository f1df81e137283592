//! Families: rules that make a network for every width (section 2 of the
//! paper's supplement), and families that a study file spells out layer by layer.

mod builder;
mod rules;
mod size;

pub use rules::LayerRule;
pub use size::Size;

use crate::command::CommandFamily;
use crate::network::{Layer, MisfitLayer, Network, Shape};
use crate::quantity::Width;
use builder::Builder;
use serde::{Deserialize, Serialize};

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
            Self::Layers { layers } => build.layers = rules::layers(layers, width)?,
        }
        build.layers.push(Layer::Dense {
            name: "readout".into(),
            units: classes,
            bias: true,
        });
        Network::new(input, classes, build.layers)
            .map_err(|misfit| FamilyError::Misfit { width, misfit })
    }

    /// A short label such as `2LP`, `2LP×512` (layers of 512 widths), `CNN` or `WRN`.
    pub fn label(&self) -> String {
        match self {
            Self::Mlp { hidden } if hidden == &[4, 2, 1] => "BH".into(),
            Self::Mlp { hidden } if hidden == &[1, 4, 4] => "TH".into(),
            Self::Mlp { hidden } => match hidden.first() {
                Some(multiple) if hidden.iter().any(|other| other != multiple) => {
                    format!("{}LP {hidden:?}", hidden.len())
                }
                Some(1) | None => format!("{}LP", hidden.len()),
                Some(multiple) => format!("{}LP×{multiple}", hidden.len()),
            },
            Self::Cnn { .. } => "CNN".into(),
            Self::Wrn { .. } => "WRN".into(),
            Self::Layers { .. } => "custom".into(),
            Self::Command(own) => own.name.clone().unwrap_or_else(|| "command".into()),
        }
    }

    /// What study files call its kind, and JSON too.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Mlp { .. } => "mlp",
            Self::Cnn { .. } => "cnn",
            Self::Wrn { .. } => "wrn",
            Self::Layers { .. } => "layers",
            Self::Command(_) => "command",
        }
    }

    /// Whether the layers themselves, rather than the variant, hold a batch norm.
    pub fn lists_batch_norm(&self) -> bool {
        matches!(self, Self::Layers { layers } if rules::list_batch_norm(layers))
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
    fn kinds_are_those_that_files_name() {
        for text in [
            r#"{"kind":"mlp","hidden":[1]}"#,
            r#"{"kind":"cnn","pool":"max"}"#,
            r#"{"kind":"wrn","blocks":2}"#,
            r#"{"kind":"layers","layers":[]}"#,
        ] {
            let family: Family = serde_json::from_str(text).unwrap();
            let written = serde_json::to_value(&family).unwrap();
            assert_eq!(written["kind"], family.kind(), "{text}");
        }
    }

    #[test]
    fn labels_tell_families_apart() {
        for (hidden, label) in [
            (vec![1, 1], "2LP"),
            (vec![512, 512], "2LP×512"),
            (vec![4, 2, 1], "BH"),
            (vec![2, 1], "2LP [2, 1]"),
        ] {
            assert_eq!(Family::Mlp { hidden }.label(), label);
        }
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
