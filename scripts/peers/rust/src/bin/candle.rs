//! candle's training steps on the CPU, asked for by peers.py.

use anyhow::Result;
use candle_core::{CpuStorage, D, DType, Device, InplaceOp2, InplaceOp3, Layout, Tensor, Var};
use candle_nn::{BatchNorm, Conv2d, Conv2dConfig, Linear, Module, ModuleT, loss};
use peers::protocol::{Case, LayerSpec, Trainer, serve};
use peers::start::{BATCHES, Weights, batch};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const MOMENTUM: f64 = 0.9;

enum Layer {
    Dense(Linear),
    Conv(Conv2d),
    Norm(BatchNorm),
    Relu,
    MaxPool,
    GlobalAveragePool,
    Flatten,
    Residual(Vec<Layer>, Vec<Layer>),
}

/// Makes layers and keeps their parameters.
#[derive(Default)]
struct Builder {
    weights: Weights,
    parameters: Vec<Var>,
}

impl Builder {
    fn parameter(&mut self, tensor: &Tensor) -> Result<Tensor> {
        let var = Var::from_tensor(tensor)?;
        self.parameters.push(var.clone());
        Ok(var.as_tensor().clone())
    }

    fn weight(&mut self, shape: &[usize]) -> Result<Tensor> {
        let values = self.weights.next(shape[0], shape[1..].iter().product());
        self.parameter(&Tensor::from_vec(values, shape, &Device::Cpu)?)
    }

    fn zeros(&mut self, count: usize) -> Result<Tensor> {
        self.parameter(&Tensor::zeros(count, DType::F32, &Device::Cpu)?)
    }

    fn bias(&mut self, bias: bool, count: usize) -> Result<Option<Tensor>> {
        bias.then(|| self.zeros(count)).transpose()
    }

    fn layers(&mut self, specs: &[LayerSpec]) -> Result<Vec<Layer>> {
        specs.iter().map(|spec| self.layer(spec)).collect()
    }

    fn layer(&mut self, spec: &LayerSpec) -> Result<Layer> {
        Ok(match *spec {
            LayerSpec::Dense {
                inputs,
                units,
                bias,
            } => {
                let weight = self.weight(&[units, inputs])?;
                Layer::Dense(Linear::new(weight, self.bias(bias, units)?))
            }
            LayerSpec::Conv {
                inputs,
                channels,
                kernel,
                stride,
                padding,
                bias,
            } => {
                let weight = self.weight(&[channels, inputs, kernel, kernel])?;
                let config = Conv2dConfig {
                    stride,
                    padding,
                    ..Default::default()
                };
                Layer::Conv(Conv2d::new(weight, self.bias(bias, channels)?, config))
            }
            LayerSpec::Norm { channels } => {
                let zeros = Tensor::zeros(channels, DType::F32, &Device::Cpu)?;
                let ones = zeros.ones_like()?;
                let scale = self.parameter(&ones)?;
                let shift = self.parameter(&zeros)?;
                Layer::Norm(BatchNorm::new(channels, zeros, ones, scale, shift, 1e-5)?)
            }
            LayerSpec::Relu => Layer::Relu,
            LayerSpec::MaxPool => Layer::MaxPool,
            LayerSpec::GlobalAveragePool => Layer::GlobalAveragePool,
            LayerSpec::Flatten => Layer::Flatten,
            LayerSpec::Residual {
                ref body,
                ref shortcut,
            } => Layer::Residual(self.layers(body)?, self.layers(shortcut)?),
        })
    }
}

fn forward(layers: &[Layer], input: &Tensor) -> candle_core::Result<Tensor> {
    let mut y = input.clone();
    for layer in layers {
        y = match layer {
            Layer::Dense(dense) => dense.forward(&y)?,
            Layer::Conv(conv) => conv.forward(&y)?,
            Layer::Norm(norm) => norm.forward_t(&y, true)?,
            Layer::Relu => y.relu()?,
            Layer::MaxPool => max_pool(&y)?,
            Layer::GlobalAveragePool => y.mean((D::Minus2, D::Minus1))?,
            Layer::Flatten => y.flatten_from(1)?,
            Layer::Residual(body, shortcut) => (forward(body, &y)? + forward(shortcut, &y)?)?,
        };
    }
    Ok(y)
}

/// The largest value of each 2×2 window. candle 0.11.1 passes back a quarter of
/// the gradient; 4y − 3y, with 3y held constant, passes back all of it.
fn max_pool(y: &Tensor) -> candle_core::Result<Tensor> {
    let y = y.max_pool2d(2)?;
    (&y * 4.0)? - (y * 3.0)?.detach()
}

/// v ← mv + g.
struct Velocity;

impl InplaceOp2 for Velocity {
    fn name(&self) -> &'static str {
        "velocity"
    }

    fn cpu_fwd(
        &self,
        v: &mut CpuStorage,
        v_layout: &Layout,
        g: &CpuStorage,
        g_layout: &Layout,
    ) -> candle_core::Result<()> {
        let g = contiguous(g.as_slice::<f32>()?, g_layout)?;
        let v = contiguous_mut(v, v_layout)?;
        for (v, g) in v.iter_mut().zip(g) {
            *v = MOMENTUM as f32 * *v + g;
        }
        Ok(())
    }
}

/// p ← p − ε(g + mv).
struct Descent {
    learning_rate: f32,
}

impl InplaceOp3 for Descent {
    fn name(&self) -> &'static str {
        "descent"
    }

    fn cpu_fwd(
        &self,
        p: &mut CpuStorage,
        p_layout: &Layout,
        g: &CpuStorage,
        g_layout: &Layout,
        v: &CpuStorage,
        v_layout: &Layout,
    ) -> candle_core::Result<()> {
        let g = contiguous(g.as_slice::<f32>()?, g_layout)?;
        let v = contiguous(v.as_slice::<f32>()?, v_layout)?;
        let p = contiguous_mut(p, p_layout)?;
        for ((p, g), v) in p.iter_mut().zip(g).zip(v) {
            *p -= self.learning_rate * (g + MOMENTUM as f32 * v);
        }
        Ok(())
    }
}

fn contiguous<'a>(values: &'a [f32], layout: &Layout) -> candle_core::Result<&'a [f32]> {
    match layout.contiguous_offsets() {
        Some((from, to)) => Ok(&values[from..to]),
        None => candle_core::bail!("a tensor of the update is not contiguous"),
    }
}

fn contiguous_mut<'a>(
    values: &'a mut CpuStorage,
    layout: &Layout,
) -> candle_core::Result<&'a mut [f32]> {
    match (values, layout.contiguous_offsets()) {
        (CpuStorage::F32(values), Some((from, to))) => Ok(&mut values[from..to]),
        _ => candle_core::bail!("a tensor of the update is not contiguous f32"),
    }
}

struct Candle {
    layers: Vec<Layer>,
    parameters: Vec<Var>,
    velocities: Vec<Tensor>,
    batches: Vec<(Tensor, Tensor)>,
    step: usize,
    loss: Tensor,
}

impl Trainer for Candle {
    fn prepare(case: &Case) -> Result<Self> {
        let mut builder = Builder::default();
        let layers = builder.layers(&case.layers)?;
        let [height, width, channels] = case.input;
        let batches = (0..BATCHES)
            .map(|at| {
                let made = batch(at, case.batch, case.input, case.classes);
                let shape = (case.batch, channels, height, width);
                let inputs = Tensor::from_vec(made.inputs, shape, &Device::Cpu)?;
                let labels = Tensor::from_vec(made.labels, case.batch, &Device::Cpu)?;
                Ok((inputs, labels))
            })
            .collect::<Result<_>>()?;
        let velocities = builder
            .parameters
            .iter()
            .map(|var| Ok(Tensor::zeros(var.shape(), DType::F32, &Device::Cpu)?))
            .collect::<Result<_>>()?;
        Ok(Self {
            layers,
            parameters: builder.parameters,
            velocities,
            batches,
            step: 0,
            loss: Tensor::zeros((), DType::F32, &Device::Cpu)?,
        })
    }

    fn parameters(&self) -> usize {
        self.parameters.iter().map(|var| var.elem_count()).sum()
    }

    fn step(&mut self, learning_rate: f64) -> Result<()> {
        let (inputs, labels) = &self.batches[self.step % BATCHES];
        let loss = loss::cross_entropy(&forward(&self.layers, inputs)?, labels)?;
        let gradients = loss.backward()?;
        let descent = Descent {
            learning_rate: learning_rate as f32,
        };
        // candle's own SGD has no momentum.
        for (var, velocity) in self.parameters.iter().zip(&self.velocities) {
            if let Some(gradient) = gradients.get(var) {
                let gradient = gradient.contiguous()?;
                velocity.inplace_op2(&gradient, &Velocity)?;
                var.inplace_op3(&gradient, velocity, &descent)?;
            }
        }
        self.loss = loss.detach();
        self.step += 1;
        Ok(())
    }

    fn loss(&self) -> Result<f64> {
        Ok(f64::from(self.loss.to_scalar::<f32>()?))
    }
}

fn main() -> Result<()> {
    serve::<Candle>(env!("CANDLE_VERSION"))
}
