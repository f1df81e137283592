//! One network: a list of layers with every size settled. The engine compiles
//! it, `trace` describes it to the outside, and costs are counted from it.

use serde::{Deserialize, Serialize};

/// Height, width and channels of one example's activations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shape {
    /// Rows.
    pub height: usize,
    /// Columns.
    pub width: usize,
    /// Channels per pixel.
    pub channels: usize,
}

impl Shape {
    /// A vector of `units` values.
    pub fn flat(units: usize) -> Self {
        Self {
            height: 1,
            width: 1,
            channels: units,
        }
    }

    /// Number of values.
    pub fn size(self) -> usize {
        self.height * self.width * self.channels
    }
}

/// A layer with its sizes. Dense layers read the whole example, whatever its shape.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Layer {
    /// z = Wy + b over all inputs.
    Dense {
        /// Prefix of its parameters' names.
        name: String,
        /// Outputs.
        units: usize,
        /// Whether there is a b.
        bias: bool,
    },
    /// Square convolution (cross-correlation), zero padded.
    Conv {
        /// Prefix of its parameters' names.
        name: String,
        /// Output channels.
        channels: usize,
        /// Side of the filter.
        kernel: usize,
        /// Step between outputs.
        stride: usize,
        /// Zeros added on each side.
        padding: usize,
        /// Whether there is a b.
        bias: bool,
    },
    /// Batch normalization per channel with a learned scale and shift.
    BatchNorm {
        /// Prefix of its parameters' names.
        name: String,
    },
    /// max(0, z).
    Relu,
    /// Largest value of each size × size window, windows side by side.
    MaxPool {
        /// Side of the window and step between windows.
        size: usize,
    },
    /// Mean of each size × size window, windows side by side.
    AveragePool {
        /// Side of the window and step between windows.
        size: usize,
    },
    /// Mean over all pixels.
    GlobalAveragePool,
    /// Zeroes values with probability `rate` in training and scales the rest by 1/(1 − rate).
    Dropout {
        /// Probability of dropping.
        rate: f64,
    },
    /// body(y) + shortcut(y); an empty shortcut is the identity.
    Residual {
        /// The branch that learns.
        body: Vec<Layer>,
        /// The branch around it.
        shortcut: Vec<Layer>,
    },
}

/// Why a list of layers does not fit its input.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("layer {index} ({kind}) does not fit its input of {height}×{width}×{channels}: {reason}", height = .input.height, width = .input.width, channels = .input.channels)]
pub struct MisfitLayer {
    /// Position in its list, from 1.
    pub index: usize,
    /// What kind of layer.
    pub kind: &'static str,
    /// What reaches it.
    pub input: Shape,
    /// What is wrong, and what would fit.
    pub reason: String,
}

/// What a tensor of the network is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// Weights of a dense layer or convolution.
    Weight,
    /// Bias of a dense layer or convolution.
    Bias,
    /// Learned scale of a batch norm, 1 at the start.
    Scale,
    /// Learned shift of a batch norm, 0 at the start.
    Shift,
}

/// One learned tensor, in PyTorch's layout: dense (out, in), convolution (out, in, kh, kw).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parameter {
    /// `layer.weight`, `layer.bias`, `layer.scale` or `layer.shift`.
    pub name: String,
    /// Its sizes.
    pub shape: Vec<usize>,
    /// What it is.
    pub role: Role,
    /// Fan-in n of the layer it belongs to; 1 for batch norm.
    pub fan_in: usize,
}

impl Parameter {
    /// Number of values.
    pub fn size(&self) -> usize {
        self.shape.iter().product()
    }
}

/// A network of settled size.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Network {
    /// Shape of one example.
    pub input: Shape,
    /// Number of classes: the size of the last layer's output.
    pub classes: usize,
    /// First to last; the last is the dense read-out.
    pub layers: Vec<Layer>,
}

impl Layer {
    /// The kind's name as study files write it.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Dense { .. } => "dense",
            Self::Conv { .. } => "conv",
            Self::BatchNorm { .. } => "batch-norm",
            Self::Relu => "relu",
            Self::MaxPool { .. } => "max-pool",
            Self::AveragePool { .. } => "average-pool",
            Self::GlobalAveragePool => "global-average-pool",
            Self::Dropout { .. } => "dropout",
            Self::Residual { .. } => "residual",
        }
    }

    /// Multiply–add operations of one example's forward pass through this layer alone.
    fn products(&self, input: Shape) -> u64 {
        let outputs = self.output(input).map_or(0, Shape::size);
        match self {
            Self::Dense { .. } => input.size().saturating_mul(outputs) as u64,
            Self::Conv { kernel, .. } => {
                outputs.saturating_mul(kernel * kernel * input.channels) as u64
            }
            _ => 0,
        }
    }

    /// What this layer makes of an input shape, or why it cannot.
    pub fn output(&self, input: Shape) -> Result<Shape, String> {
        Ok(match self {
            Self::Dense { units: 0, .. } => return Err("it has no units".into()),
            Self::Dense { units, .. } => Shape::flat(*units),
            Self::Conv {
                channels,
                kernel,
                stride,
                padding,
                ..
            } => convolved(input, *channels, *kernel, *stride, *padding)?,
            Self::BatchNorm { .. } | Self::Relu | Self::Dropout { .. } => input,
            Self::MaxPool { size } | Self::AveragePool { size } => pooled(input, *size)?,
            Self::GlobalAveragePool => Shape::flat(input.channels),
            Self::Residual { body, shortcut } => {
                let (main, around) = (output_of(body, input), output_of(shortcut, input));
                let (main, around) = (
                    main.map_err(|e| e.to_string())?,
                    around.map_err(|e| e.to_string())?,
                );
                if main != around {
                    return Err(format!(
                        "its body gives {}×{}×{} and its shortcut {}×{}×{}; both must agree",
                        main.height,
                        main.width,
                        main.channels,
                        around.height,
                        around.width,
                        around.channels
                    ));
                }
                main
            }
        })
    }
}

/// Filters, strides and borders of images end far below this.
const MOST_PIXELS: usize = 4096;

fn convolved(
    input: Shape,
    channels: usize,
    kernel: usize,
    stride: usize,
    padding: usize,
) -> Result<Shape, String> {
    if channels == 0 || kernel == 0 || stride == 0 {
        return Err("channels, kernel and stride must be at least 1".into());
    }
    if kernel.max(stride).max(padding) > MOST_PIXELS {
        return Err(format!(
            "kernel, stride and padding can be {MOST_PIXELS} at most"
        ));
    }
    let side = |n: usize| {
        (n + 2 * padding)
            .checked_sub(kernel)
            .map(|rest| rest / stride + 1)
    };
    match (side(input.height), side(input.width)) {
        (Some(height), Some(width)) => Ok(Shape {
            height,
            width,
            channels,
        }),
        _ => Err(format!(
            "a {kernel}×{kernel} filter with padding {padding} is larger than that"
        )),
    }
}

fn pooled(input: Shape, size: usize) -> Result<Shape, String> {
    if size == 0 || size > input.height || size > input.width {
        return Err(format!(
            "a {size}×{size} window is not between 1×1 and that"
        ));
    }
    Ok(Shape {
        height: input.height / size,
        width: input.width / size,
        ..input
    })
}

/// The shape after a list of layers.
pub fn output_of(layers: &[Layer], input: Shape) -> Result<Shape, MisfitLayer> {
    layers
        .iter()
        .enumerate()
        .try_fold(input, |input, (at, layer)| {
            layer.output(input).map_err(|reason| MisfitLayer {
                index: at + 1,
                kind: layer.kind(),
                input,
                reason,
            })
        })
}

impl Network {
    /// Checks that every layer fits.
    pub fn new(input: Shape, classes: usize, layers: Vec<Layer>) -> Result<Self, MisfitLayer> {
        output_of(&layers, input)?;
        Ok(Self {
            input,
            classes,
            layers,
        })
    }

    /// Every learned tensor, in the order of the layers (a residual's body
    /// before its shortcut); weight before bias, scale before shift.
    pub fn parameters(&self) -> Vec<Parameter> {
        let mut found = Vec::new();
        self.visit(&mut |layer, input| found.extend(parameters_of(layer, input)));
        found
    }

    /// Number of learned values.
    pub fn parameter_count(&self) -> usize {
        self.parameters().iter().map(Parameter::size).sum()
    }

    /// Multiply–add operations of one example's forward pass, in dense layers and convolutions.
    pub fn forward_products(&self) -> u64 {
        let mut products = 0_u64;
        self.visit(&mut |layer, input| products = layer.products(input).saturating_add(products));
        products
    }

    /// Multiply–add operations of one example's share of a training step: the forward
    /// pass, the weight gradients, and the data gradients of all layers but the first,
    /// whose input nobody learns.
    pub fn step_products(&self) -> u64 {
        let first = (self.layers.first()).map_or(0, |layer| layer.products(self.input));
        self.forward_products().saturating_mul(3) - first
    }

    /// Whether any layer normalizes over the batch.
    pub fn has_batch_norm(&self) -> bool {
        let mut found = false;
        self.visit(&mut |layer, _| found |= matches!(layer, Layer::BatchNorm { .. }));
        found
    }

    /// Calls `see` with every layer and the shape that reaches it, depth first.
    pub fn visit(&self, see: &mut impl FnMut(&Layer, Shape)) {
        visit(&self.layers, self.input, see);
    }
}

fn visit(layers: &[Layer], mut input: Shape, see: &mut impl FnMut(&Layer, Shape)) {
    for layer in layers {
        see(layer, input);
        if let Layer::Residual { body, shortcut } = layer {
            visit(body, input, see);
            visit(shortcut, input, see);
        }
        input = layer
            .output(input)
            .expect("layers were checked when the network was made");
    }
}

fn parameters_of(layer: &Layer, input: Shape) -> Vec<Parameter> {
    let affine = |name: &String, shape: Vec<usize>, bias: bool| {
        let fan_in = shape[1..].iter().product();
        let outputs = shape[0];
        let weight = Parameter {
            name: format!("{name}.weight"),
            shape,
            role: Role::Weight,
            fan_in,
        };
        let bias = bias.then(|| Parameter {
            name: format!("{name}.bias"),
            shape: vec![outputs],
            role: Role::Bias,
            fan_in,
        });
        std::iter::once(weight).chain(bias).collect()
    };
    match layer {
        Layer::Dense { name, units, bias } => affine(name, vec![*units, input.size()], *bias),
        Layer::Conv {
            name,
            channels,
            kernel,
            bias,
            ..
        } => affine(
            name,
            vec![*channels, input.channels, *kernel, *kernel],
            *bias,
        ),
        Layer::BatchNorm { name } => [("scale", Role::Scale), ("shift", Role::Shift)]
            .map(|(what, role)| Parameter {
                name: format!("{name}.{what}"),
                shape: vec![input.channels],
                role,
                fan_in: 1,
            })
            .into(),
        _ => Vec::new(),
    }
}
