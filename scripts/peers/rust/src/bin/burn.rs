//! Burn's training steps on its Flex CPU backend, asked for by peers.py.

use anyhow::Result;
use burn::module::{Module, ModuleVisitor, Param};
use burn::nn::conv::{Conv2d, Conv2dConfig};
use burn::nn::loss::{CrossEntropyLoss, CrossEntropyLossConfig};
use burn::nn::pool::{MaxPool2d, MaxPool2dConfig};
use burn::nn::{
    BatchNorm, BatchNormConfig, Initializer, Linear, LinearConfig, PaddingConfig2d, Relu,
};
use burn::optim::momentum::MomentumConfig;
use burn::optim::{GradientsParams, ModuleOptimizer, SgdConfig};
use burn::tensor::{Device, Int, Tensor, TensorData};
use peers::protocol::{Case, LayerSpec, Trainer, serve};
use peers::start::{BATCHES, Weights, batch};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The mean over all pixels.
#[derive(Module, Debug)]
struct GlobalAveragePool;

/// (B, C, H, W) to (B, CHW).
#[derive(Module, Debug)]
struct Flatten;

#[derive(Module, Debug)]
struct Residual {
    body: Vec<Layer>,
    shortcut: Vec<Layer>,
}

#[derive(Module, Debug)]
#[allow(clippy::large_enum_variant)]
enum Layer {
    Dense(Linear),
    Conv(Conv2d),
    Norm(BatchNorm),
    Relu(Relu),
    MaxPool(MaxPool2d),
    GlobalAveragePool(GlobalAveragePool),
    Flatten(Flatten),
    Residual(Residual),
}

/// What flows between layers.
enum Value {
    /// (B, C, H, W).
    Image(Tensor<4>),
    /// (B, C).
    Flat(Tensor<2>),
}

impl Value {
    fn image(self) -> Tensor<4> {
        match self {
            Self::Image(y) => y,
            Self::Flat(_) => panic!("the layer reads images"),
        }
    }

    fn flat(self) -> Tensor<2> {
        match self {
            Self::Flat(y) => y,
            Self::Image(_) => panic!("the layer reads vectors"),
        }
    }
}

#[derive(Module, Debug)]
struct Network {
    layers: Vec<Layer>,
}

impl Network {
    fn forward(&self, input: Tensor<4>) -> Tensor<2> {
        forward(&self.layers, Value::Image(input)).flat()
    }
}

fn forward(layers: &[Layer], input: Value) -> Value {
    layers.iter().fold(input, |y, layer| match (layer, y) {
        (Layer::Dense(dense), y) => Value::Flat(dense.forward(y.flat())),
        (Layer::Conv(conv), y) => Value::Image(conv.forward(y.image())),
        (Layer::Norm(norm), Value::Image(y)) => Value::Image(norm.forward(y)),
        (Layer::Norm(norm), Value::Flat(y)) => Value::Flat(norm.forward(y)),
        (Layer::Relu(relu), Value::Image(y)) => Value::Image(relu.forward(y)),
        (Layer::Relu(relu), Value::Flat(y)) => Value::Flat(relu.forward(y)),
        (Layer::MaxPool(pool), y) => Value::Image(pool.forward(y.image())),
        (Layer::GlobalAveragePool(_), y) => Value::Flat(y.image().mean_dims(&[2, 3]).flatten(1, 3)),
        (Layer::Flatten(_), y) => Value::Flat(y.image().flatten(1, 3)),
        (Layer::Residual(residual), y) => {
            let y = y.image();
            let body = forward(&residual.body, Value::Image(y.clone())).image();
            Value::Image(body + forward(&residual.shortcut, Value::Image(y)).image())
        }
    })
}

struct Builder {
    device: Device,
    weights: Weights,
}

impl Builder {
    fn layers(&mut self, specs: &[LayerSpec]) -> Vec<Layer> {
        specs.iter().map(|spec| self.layer(spec)).collect()
    }

    fn weight<const N: usize>(&mut self, shape: [usize; N]) -> Tensor<N> {
        let values = self.weights.next(shape[0], shape[1..].iter().product());
        Tensor::from_data(TensorData::new(values, shape), &self.device)
    }

    fn layer(&mut self, spec: &LayerSpec) -> Layer {
        match *spec {
            LayerSpec::Dense {
                inputs,
                units,
                bias,
            } => {
                let mut dense = LinearConfig::new(inputs, units)
                    .with_bias(bias)
                    .with_initializer(Initializer::Zeros)
                    .init(&self.device);
                // Burn keeps (in, out); the values are copied into that order.
                let weight = self.weight([units, inputs]).transpose().into_data();
                dense.weight = Param::from_data(weight, &self.device);
                Layer::Dense(dense)
            }
            LayerSpec::Conv {
                inputs,
                channels,
                kernel,
                stride,
                padding,
                bias,
            } => {
                let padding = PaddingConfig2d::Explicit(padding, padding, padding, padding);
                let mut conv = Conv2dConfig::new([inputs, channels], [kernel, kernel])
                    .with_stride([stride, stride])
                    .with_padding(padding)
                    .with_bias(bias)
                    .with_initializer(Initializer::Zeros)
                    .init(&self.device);
                let weight = self.weight([channels, inputs, kernel, kernel]);
                conv.weight = Param::from_tensor(weight);
                Layer::Conv(conv)
            }
            LayerSpec::Norm { channels } => {
                Layer::Norm(BatchNormConfig::new(channels).init(&self.device))
            }
            LayerSpec::Relu => Layer::Relu(Relu::new()),
            LayerSpec::MaxPool => Layer::MaxPool(MaxPool2dConfig::new([2, 2]).init()),
            LayerSpec::GlobalAveragePool => Layer::GlobalAveragePool(GlobalAveragePool),
            LayerSpec::Flatten => Layer::Flatten(Flatten),
            LayerSpec::Residual {
                ref body,
                ref shortcut,
            } => Layer::Residual(Residual {
                body: self.layers(body),
                shortcut: self.layers(shortcut),
            }),
        }
    }
}

/// Counts learned values; a norm's running statistics are none.
struct Learned(usize);

impl ModuleVisitor for Learned {
    fn visit_float<const D: usize>(&mut self, parameter: &Param<Tensor<D>>) {
        if parameter.val().is_require_grad() {
            self.0 += parameter.val().shape().num_elements();
        }
    }
}

struct Burn {
    /// Taken out during the update.
    network: Option<Network>,
    optimizer: ModuleOptimizer,
    criterion: CrossEntropyLoss,
    batches: Vec<(Tensor<4>, Tensor<1, Int>)>,
    step: usize,
    loss: Option<Tensor<1>>,
}

impl Trainer for Burn {
    fn prepare(case: &Case) -> Result<Self> {
        let device = Device::flex().autodiff();
        let mut builder = Builder {
            device: device.clone(),
            weights: Weights::default(),
        };
        let layers = builder.layers(&case.layers);
        let [height, width, channels] = case.input;
        let batches = (0..BATCHES)
            .map(|at| {
                let made = batch(at, case.batch, case.input, case.classes);
                let inputs = TensorData::new(made.inputs, [case.batch, channels, height, width]);
                let labels: Vec<i32> = made.labels.iter().map(|label| *label as i32).collect();
                let labels = TensorData::new(labels, [case.batch]);
                (
                    Tensor::from_data(inputs, &device),
                    Tensor::from_data(labels, &device),
                )
            })
            .collect();
        let momentum = MomentumConfig::new()
            .with_momentum(0.9)
            .with_dampening(0.0)
            .with_nesterov(true);
        Ok(Self {
            network: Some(Network { layers }),
            optimizer: SgdConfig::new().with_momentum(Some(momentum)).init(),
            criterion: CrossEntropyLossConfig::new().init(&device),
            batches,
            step: 0,
            loss: None,
        })
    }

    fn parameters(&self) -> usize {
        let mut learned = Learned(0);
        if let Some(network) = &self.network {
            network.visit(&mut learned);
        }
        learned.0
    }

    fn step(&mut self, learning_rate: f64) -> Result<()> {
        let network = self.network.take().expect("put back after every step");
        let (inputs, labels) = self.batches[self.step % BATCHES].clone();
        let loss = self.criterion.forward(network.forward(inputs), labels);
        let gradients = GradientsParams::from_grads(loss.backward(), &network);
        self.network = Some(self.optimizer.step(learning_rate, network, gradients));
        self.loss = Some(loss.detach());
        self.step += 1;
        Ok(())
    }

    fn loss(&self) -> Result<f64> {
        let loss = self.loss.clone().expect("a step was taken");
        Ok(f64::from(loss.into_scalar::<f32>()))
    }
}

fn main() -> Result<()> {
    serve::<Burn>(env!("BURN_VERSION"))
}
