//! The state of a run between two steps, as bytes.
//!
//! Random streams are functions of the step, so weights, velocity, running
//! statistics and what has happened so far are all there is to save. The file is
//! safetensors with the progress as JSON in its metadata, and there with the SHA-256 of
//! all the rest: a run would go on from altered values as from its own.

use crate::buffer::Buffer;
use crate::data::hexadecimal;
use crate::net::Model;
use crate::train::Progress;
use safetensors::tensor::TensorView;
use safetensors::{Dtype, SafeTensors};
use sha2::{Digest, Sha256};
use spec::RunId;
use std::collections::HashMap;

/// A saved run.
#[derive(Clone)]
pub struct Checkpoint {
    /// Whose state it is.
    pub run: RunId,
    /// What trained it: another instruction set rounds otherwise, and a run
    /// that changed over would match neither.
    pub device: String,
    /// Weights and running statistics.
    pub model: Model,
    /// Velocity of the descent, laid out as the weights.
    pub velocity: Buffer,
    /// What has happened so far.
    pub progress: Progress,
}

/// Why bytes are no checkpoint of a run. Nobody needs to act: the run starts again.
#[derive(Debug, thiserror::Error)]
pub enum CheckpointError {
    /// Not written by this program, or damaged.
    #[error("the checkpoint is damaged: {0}")]
    Damaged(String),
    /// Of another run, of another layout of the same network, or of a release that did not write what this
    /// one needs.
    #[error("the checkpoint belongs to another run or release")]
    Foreign,
}

const FORMAT: &str = "noisescale checkpoint 1";

impl Checkpoint {
    /// Whether a run on the device of this name may go on from here.
    pub fn continues(&self, run: RunId, device: &str) -> bool {
        self.run == run && self.device == device
    }

    /// Whether it holds so many weights and statistics: another release may have laid the network out
    /// otherwise.
    pub(crate) fn fits(&self, weights: usize, statistics: usize) -> bool {
        self.model.weights.len() == weights
            && self.velocity.len() == weights
            && self.model.statistics.len() == statistics
    }

    /// The checkpoint as a safetensors file.
    pub fn to_bytes(&self) -> Result<Vec<u8>, CheckpointError> {
        let damaged = |error: &dyn std::fmt::Display| CheckpointError::Damaged(error.to_string());
        let parts = [
            ("weights", self.model.weights.get()),
            ("velocity", self.velocity.get()),
            ("statistics", self.model.statistics.as_slice()),
        ];
        let mut views = Vec::new();
        for (name, values) in &parts {
            let bytes: &[u8] = bytemuck::cast_slice(values);
            let view = TensorView::new(Dtype::F32, vec![values.len()], bytes);
            views.push((*name, view.map_err(|error| damaged(&error))?));
        }
        let progress = serde_json::to_string(&self.progress).map_err(|error| damaged(&error))?;
        let run = self.run.to_string();
        let sum = checksum(
            [&run, &self.device, &progress],
            views.iter().map(|(_, view)| view.data()),
        );
        let metadata = [
            ("format", FORMAT.to_owned()),
            ("run", run),
            ("device", self.device.clone()),
            ("progress", progress),
            ("sha256", sum),
        ];
        let metadata = metadata.map(|(key, value)| (key.to_owned(), value)).into();
        safetensors::serialize(views, Some(metadata)).map_err(|error| damaged(&error))
    }

    /// Reads a checkpoint.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, CheckpointError> {
        let damaged = |error: &dyn std::fmt::Display| CheckpointError::Damaged(error.to_string());
        let (_, header) = SafeTensors::read_metadata(bytes).map_err(|error| damaged(&error))?;
        let metadata: &HashMap<String, String> =
            header.metadata().as_ref().ok_or(CheckpointError::Foreign)?;
        let text = |key: &str| metadata.get(key).ok_or(CheckpointError::Foreign);
        if text("format")? != FORMAT {
            return Err(CheckpointError::Foreign);
        }
        let file = SafeTensors::deserialize(bytes).map_err(|error| damaged(&error))?;
        let tensor = |name: &str| match file.tensor(name) {
            Ok(tensor) if tensor.dtype() == Dtype::F32 => Ok(tensor),
            Ok(_) => Err(damaged(&format!("`{name}` is not of 32-bit floats"))),
            Err(error) => Err(damaged(&error)),
        };
        let tensors = [
            tensor("weights")?,
            tensor("velocity")?,
            tensor("statistics")?,
        ];
        let [run, device, progress] = [text("run")?, text("device")?, text("progress")?];
        let sum = checksum(
            [run, device, progress],
            tensors.iter().map(TensorView::data),
        );
        if *text("sha256")? != sum {
            return Err(damaged(&"its checksum is of other values"));
        }
        let [weights, velocity, statistics] = tensors.map(|tensor| floats(tensor.data()));
        Ok(Self {
            run: RunId::try_from(run.clone()).map_err(|error| damaged(&error))?,
            device: device.clone(),
            model: Model {
                weights: Buffer::from_slice(&weights),
                statistics,
            },
            velocity: Buffer::from_slice(&velocity),
            progress: serde_json::from_str(progress).map_err(|error| damaged(&error))?,
        })
    }
}

fn floats(bytes: &[u8]) -> Vec<f32> {
    let quads = bytes.chunks_exact(4);
    quads
        .map(|quad| f32::from_le_bytes([quad[0], quad[1], quad[2], quad[3]]))
        .collect()
}

/// SHA-256 of the texts and tensors of a checkpoint, each after its length.
fn checksum<'a>(texts: [&'a String; 3], tensors: impl Iterator<Item = &'a [u8]>) -> String {
    let mut hash = Sha256::new();
    let texts = texts.into_iter().map(String::as_bytes);
    for part in texts.chain(tensors) {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    }
    hexadecimal(&hash.finalize())
}
