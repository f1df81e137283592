//! A few steps of a run with everything that went in and came out, for someone
//! who wants to check the engine from outside. `docs/TRACE.md` describes the file.

use crate::data::Dataset;
use crate::kernels::Isa;
use crate::net::{Model, Plane};
use crate::train::{Compiled, TrainError, Training, device_name};
use safetensors::tensor::TensorView;
use safetensors::{Dtype, SafeTensorError};
use spec::{Run, Shape};
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// Why a trace was not written.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The run cannot be trained.
    #[error(transparent)]
    Train(#[from] TrainError),
    /// The file cannot be written.
    #[error("{}: cannot write the trace: {reason}", .path.display())]
    Unwritable {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
}

/// A tensor of the file.
struct Tensor {
    name: String,
    shape: Vec<usize>,
    dtype: Dtype,
    bytes: Vec<u8>,
}

impl Tensor {
    fn floats(name: String, shape: Vec<usize>, values: &[f32]) -> Self {
        let bytes = values.iter().flat_map(|x| x.to_le_bytes()).collect();
        Self {
            name,
            shape,
            dtype: Dtype::F32,
            bytes,
        }
    }

    fn view(&self) -> Result<(&str, TensorView<'_>), SafeTensorError> {
        Ok((
            &self.name,
            TensorView::new(self.dtype, self.shape.clone(), &self.bytes)?,
        ))
    }
}

/// A trace of a run's first steps.
pub struct Trace {
    tensors: Vec<Tensor>,
    metadata: HashMap<String, String>,
}

impl Trace {
    /// Takes all of the run's steps and notes them.
    pub fn of(run: &Run, data: &Dataset, isa: Isa) -> Result<Self, TrainError> {
        let programs = Compiled::new(run)?;
        let mut training = Training::new(run, data, &programs, isa)?;
        let mut tensors = model_tensors("init", &programs, training.model());
        let batch = run.batch_size.get() as usize;
        let steps = run.steps as usize;
        let plane = programs.program().input();
        let masked = programs.program().dropout_shapes();
        let mut notes = Notes {
            masks: vec![Vec::new(); masked.len()],
            ..Notes::default()
        };
        for _ in 0..steps {
            notes.losses.push(training.step());
            let inputs = training.workspace().input_values();
            append_images(&mut notes.inputs, inputs, plane, batch);
            notes
                .labels
                .extend(training.labels().iter().map(|label| i64::from(*label)));
            for ((all, mask), shape) in notes
                .masks
                .iter_mut()
                .zip(training.workspace().masks())
                .zip(&masked)
            {
                append_images(
                    all,
                    mask,
                    Plane {
                        shape: *shape,
                        border: 0,
                    },
                    batch,
                );
            }
        }
        tensors.extend(model_tensors("final", &programs, training.model()));
        tensors.extend(notes.tensors(steps, batch, plane.shape, &masked));
        let metadata = [
            ("format", "noisescale trace 1".to_owned()),
            ("run", json(run)),
            ("run_id", run.id().to_string()),
            ("network", json(programs.network())),
            ("parameters", json(&programs.network().parameters())),
            ("device", device_name(isa)),
        ];
        let metadata = metadata.map(|(key, value)| (key.to_owned(), value)).into();
        Ok(Self { tensors, metadata })
    }

    /// Writes the trace as a safetensors file.
    pub fn write(&self, path: &Path) -> Result<(), TraceError> {
        let unwritable = |reason: String| TraceError::Unwritable {
            path: path.to_owned(),
            reason,
        };
        let views: Result<Vec<_>, _> = self.tensors.iter().map(Tensor::view).collect();
        let views = views.map_err(|error| unwritable(error.to_string()))?;
        let bytes = safetensors::serialize(views, Some(self.metadata.clone()))
            .map_err(|error| unwritable(error.to_string()))?;
        std::fs::write(path, bytes).map_err(|error| unwritable(error.to_string()))
    }
}

/// What the steps leave.
#[derive(Default)]
struct Notes {
    losses: Vec<f64>,
    inputs: Vec<f32>,
    labels: Vec<i64>,
    masks: Vec<Vec<f32>>,
}

impl Notes {
    fn tensors(&self, steps: usize, batch: usize, input: Shape, masked: &[Shape]) -> Vec<Tensor> {
        let images = |shape: Shape| vec![steps, batch, shape.channels, shape.height, shape.width];
        let mut tensors = vec![
            Tensor {
                name: "loss".into(),
                shape: vec![steps],
                dtype: Dtype::F64,
                bytes: self.losses.iter().flat_map(|x| x.to_le_bytes()).collect(),
            },
            Tensor {
                name: "labels".into(),
                shape: vec![steps, batch],
                dtype: Dtype::I64,
                bytes: self.labels.iter().flat_map(|x| x.to_le_bytes()).collect(),
            },
            Tensor::floats("inputs".into(), images(input), &self.inputs),
        ];
        for (index, (mask, shape)) in self.masks.iter().zip(masked).enumerate() {
            tensors.push(Tensor::floats(
                format!("dropout.{index}"),
                images(*shape),
                mask,
            ));
        }
        tensors
    }
}

fn json(value: &impl serde::Serialize) -> String {
    serde_json::to_string(value).expect("descriptions hold numbers, names and lists alone")
}

/// Every parameter and running statistic under a prefix.
fn model_tensors(prefix: &str, programs: &Compiled, model: &Model) -> Vec<Tensor> {
    let program = programs.program();
    let parameter = |place: &crate::net::Place| {
        let values = place.read(model.weights.get());
        let name = format!("{prefix}.{}", place.parameter.name);
        Tensor::floats(name, place.parameter.shape.clone(), &values)
    };
    let statistic = |statistic: &crate::net::Statistic| {
        let one = |what: &str, start: usize| {
            let values = &model.statistics[start..start + statistic.channels];
            let name = format!("{prefix}.{}.{what}", statistic.name);
            Tensor::floats(name, vec![statistic.channels], values)
        };
        [
            one("mean", statistic.start),
            one("variance", statistic.start + statistic.channels),
        ]
    };
    let parameters = program.weights().places().iter().map(parameter);
    parameters
        .chain(program.statistics().iter().flat_map(statistic))
        .collect()
}

/// Appends a batch of a plane as (batch, channel, row, column).
fn append_images(to: &mut Vec<f32>, from: &[f32], plane: Plane, batch: usize) {
    let Shape {
        height,
        width,
        channels,
    } = plane.shape;
    for image in 0..batch {
        for c in 0..channels {
            for y in 0..height {
                let row = plane.at(image, y);
                to.extend((0..width).map(|x| from[row + x * channels + c]));
            }
        }
    }
}
