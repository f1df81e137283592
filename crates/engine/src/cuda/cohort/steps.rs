//! How a cohort takes its steps.

use crate::cuda::device::Device;
use crate::cuda::error::CudaError;
use crate::cuda::launch::Launch;
use crate::cuda::plan::Stepping;
use crate::cuda::resident::Resident;
use cudarc::driver::{CudaGraph, CudaStream};
use std::sync::Arc;
use std::time::Instant;

/// Steps of the longer graph: few launches for the host, and still often a chance to stop. A cohort
/// takes no fewer between two reports.
pub(in crate::cuda) const STEPS_PER_GRAPH: u64 = 16;

/// Layer by layer, as graphs of one step and of several, or on the chip.
pub(super) enum Steps {
    Layered {
        one: CudaGraph,
        many: CudaGraph,
        launches: Vec<Launch>,
    },
    Resident(Box<Resident>),
}

impl Steps {
    /// Ready to be taken.
    pub(super) fn new(
        device: &Device,
        stream: &Arc<CudaStream>,
        stepping: Stepping,
    ) -> Result<Self, CudaError> {
        Ok(match stepping {
            Stepping::Resident(resident) => {
                device.load_all(&resident.launches(1))?;
                Self::Resident(resident)
            }
            Stepping::Layered(launches) => Self::Layered {
                one: graph(device, stream, &launches, 1)?,
                many: graph(device, stream, &launches, STEPS_PER_GRAPH as usize)?,
                launches,
            },
        })
    }

    /// Launches so many.
    pub(super) fn take(
        &self,
        device: &Device,
        stream: &Arc<CudaStream>,
        steps: u64,
    ) -> Result<(), CudaError> {
        match self {
            Self::Layered { one, many, .. } => {
                for _ in 0..steps / STEPS_PER_GRAPH {
                    many.launch()?;
                }
                for _ in 0..steps % STEPS_PER_GRAPH {
                    one.launch()?;
                }
            }
            Self::Resident(resident) => {
                let mut left = steps;
                while left > 0 {
                    let now = left.min(resident.most_steps());
                    device.launch(stream, &resident.launches(now))?;
                    left -= now;
                }
            }
        }
        Ok(())
    }

    /// Seconds that each kernel of a step takes on its own, mean of several launches in a row; a
    /// kernel that takes many steps, by the step.
    pub(super) fn profile(
        &self,
        device: &Device,
        stream: &Arc<CudaStream>,
    ) -> Result<Vec<(Launch, f64)>, CudaError> {
        const TIMES: usize = 20;
        let (launches, steps) = match self {
            Self::Layered { launches, .. } => (launches.clone(), 1),
            Self::Resident(resident) => {
                (resident.launches(STEPS_PER_GRAPH).to_vec(), STEPS_PER_GRAPH)
            }
        };
        let mut times = Vec::new();
        for launch in launches {
            let one = std::slice::from_ref(&launch);
            let graph = graph(device, stream, one, TIMES)?;
            graph.launch()?;
            stream.synchronize()?;
            let start = Instant::now();
            graph.launch()?;
            stream.synchronize()?;
            let taken = TIMES as f64 * steps as f64;
            times.push((launch, start.elapsed().as_secs_f64() / taken));
        }
        Ok(times)
    }
}

/// Launches, so many times over, as one graph.
pub(super) fn graph(
    device: &Device,
    stream: &Arc<CudaStream>,
    launches: &[Launch],
    times: usize,
) -> Result<CudaGraph, CudaError> {
    let graph = device.graph(stream, launches, times)?;
    graph.ok_or(CudaError::EmptyGraph)
}
