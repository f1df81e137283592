//! What lies in the memory of a cohort: weights, velocities, statistics, and how each replica stands.

use super::Cohort;
use crate::buffer::Buffer;
use crate::checkpoint::Checkpoint;
use crate::cuda::args::{Address, Array, InitialArgs, Replica};
use crate::cuda::device::address;
use crate::cuda::emit::Common;
use crate::cuda::error::CudaError;
use crate::cuda::launch::{Kernel, Launch, Source};
use crate::net::Model;
use bytemuck::Pod;

impl Cohort<'_> {
    /// Where a buffer lies in the cohort's memory, in bytes.
    fn offset(&self, buffer: Address) -> usize {
        (buffer - address(&self.memory, &self.stream)) as usize
    }

    fn upload<T: Pod>(&mut self, buffer: Address, values: &[T]) -> Result<(), CudaError> {
        let (start, bytes) = (self.offset(buffer), bytemuck::cast_slice::<T, u8>(values));
        if !bytes.is_empty() {
            let mut to = self.memory.slice_mut(start..start + bytes.len());
            self.stream.memcpy_htod(bytes, &mut to)?;
        }
        Ok(())
    }

    pub(super) fn download<T: Pod>(
        &self,
        buffer: Address,
        count: usize,
    ) -> Result<Vec<T>, CudaError> {
        let mut values = vec![T::zeroed(); count];
        let start = self.offset(buffer);
        let bytes = bytemuck::cast_slice_mut::<T, u8>(&mut values);
        if !bytes.is_empty() {
            let from = self.memory.slice(start..start + bytes.len());
            self.stream.memcpy_dtoh(&from, bytes)?;
            self.stream.synchronize()?;
        }
        Ok(values)
    }

    /// Weights, statistics and counters as each run begins or goes on.
    pub(super) fn begin(
        &mut self,
        saved: impl Iterator<Item = Option<Checkpoint>>,
    ) -> Result<(), CudaError> {
        self.step = self.members[0].progress.step;
        self.upload_replicas()?;
        self.draw_weights()?;
        let norms = &self.plan.print.norm_channels;
        let one: Vec<f32> = norms
            .iter()
            .flat_map(|n| [vec![0.0; *n], vec![1.0; *n]].concat())
            .collect();
        self.upload(
            self.common.statistics.values,
            &one.repeat(self.members.len()),
        )?;
        for (at, saved) in saved.enumerate() {
            if let Some(saved) = saved {
                let (weights, velocity, statistics) = self.addresses(at);
                self.upload(weights, saved.model.weights.get())?;
                self.upload(velocity, saved.velocity.get())?;
                self.upload(statistics, &saved.model.statistics)?;
            }
        }
        Ok(())
    }

    /// Where weights, velocity and statistics of a member lie.
    fn addresses(&self, at: usize) -> (Address, Address, Address) {
        let Common {
            weights,
            velocity,
            statistics,
            ..
        } = self.common;
        let of = |start: Address, stride: i64| start + 4 * at as u64 * stride as u64;
        (
            of(weights.values, weights.replica),
            of(velocity, weights.replica),
            of(statistics.values, statistics.replica),
        )
    }

    /// Draws them part by part: what tells them apart takes twice their memory.
    fn draw_weights(&mut self) -> Result<(), CudaError> {
        let weights = &self.plan.print.weights;
        let (len, most) = (weights.len(), self.plan.drawn_at_a_time());
        let mut parameter = self.stream.alloc_zeros::<u32>(most)?;
        let mut index = self.stream.alloc_zeros::<u32>(most)?;
        let deviation = self.stream.clone_htod(&weights.deviation)?;
        for first in (0..len).step_by(most) {
            let part = first..len.min(first + most);
            let count = part.len();
            let (stream, mut own) = (&self.stream, parameter.slice_mut(..count));
            stream.memcpy_htod(&weights.parameter[part.clone()], &mut own)?;
            stream.memcpy_htod(&weights.index[part], &mut index.slice_mut(..count))?;
            let args = InitialArgs {
                weights: Array {
                    values: self.common.weights.values + 4 * first as u64,
                    ..self.common.weights
                },
                replicas: self.common.replicas,
                parameter: address(&parameter, stream),
                index: address(&index, stream),
                deviation: address(&deviation, stream),
                count: count as i64,
            };
            let grid = [count.div_ceil(256), 1, self.members.len()];
            let kernel = Kernel::plain(Source::Weights, "initial_weights");
            let launch = Launch::new(kernel, grid, 256, &args);
            self.device.launch(stream, &[launch])?;
        }
        self.stream.synchronize()?;
        Ok(())
    }

    pub(super) fn upload_replicas(&mut self) -> Result<(), CudaError> {
        let replicas: Vec<Replica> = self.members.iter().map(|m| m.replica(self.step)).collect();
        self.upload(self.common.replicas, &replicas)
    }

    /// The state of a member, to save.
    pub fn checkpoint(&self, at: usize) -> Result<Checkpoint, CudaError> {
        let (weights, velocity, statistics) = self.addresses(at);
        let len = self.plan.weights_stride();
        let member = &self.members[at];
        Ok(Checkpoint {
            run: member.run.id(),
            device: self.device_name.clone(),
            model: Model {
                weights: Buffer::from_slice(&self.download::<f32>(weights, len)?),
                statistics: self.download(statistics, self.plan.statistics_len())?,
            },
            velocity: Buffer::from_slice(&self.download::<f32>(velocity, len)?),
            progress: member.progress.clone(),
        })
    }
}
