//! Whether a run can be trained: what is asked of its network and its data before anything is made.

use crate::buffer::LINE;
use spec::{BatchSize, FamilyError, Layer, Network, Run, Shape, Width};

/// Values that offsets of 32 bits reach, as the tables of the kernels hold them.
const REACH: u64 = 1 << 32;

/// Why a run cannot be trained.
#[derive(Debug, thiserror::Error)]
pub enum TrainError {
    /// The family has no such network.
    #[error(transparent)]
    Family(#[from] FamilyError),
    /// Its values are more than the kernels' offsets reach.
    #[error(
        "width {width} at batch size {batch}: {values:.1e} values lie in one stretch of memory, and the \
         processor's kernels reach {REACH}; give a smaller width or batch size"
    )]
    TooLarge {
        /// w.
        width: Width,
        /// B.
        batch: BatchSize,
        /// All weights, or all activations of one layer.
        values: f64,
    },
    /// The system does not give the memory that one run takes.
    #[error(
        "width {width} at batch size {batch}: a run takes {mebibytes} MiB, and the system has less left; give a \
         smaller width or batch size, or train fewer runs at once by `--threads`"
    )]
    TooLittleMemory {
        /// w.
        width: Width,
        /// B.
        batch: BatchSize,
        /// Weights with all that is kept of them, and activations.
        mebibytes: usize,
    },
    /// A batch needs more examples than there are.
    #[error("batch size {batch} exceeds the {examples} training examples; give a smaller one")]
    BatchTooLarge {
        /// B.
        batch: u32,
        /// N.
        examples: usize,
    },
    /// The data are not those that the run was planned for.
    #[error("the run was planned for examples of {planned} values, the data have {found}")]
    OtherData {
        /// Values of an example in the plan.
        planned: usize,
        /// Values of an example in the data.
        found: usize,
    },
}

/// Whether weights and activations of a network lie within reach of the kernels. Counted in floating
/// point, since widths may make the number of weights exceed 64 bits. `evaluated` is the size of an
/// evaluation batch.
pub fn check_reach(network: &Network, run: &Run, evaluated: usize) -> Result<(), TrainError> {
    let images = evaluated.max(run.batch_size.get() as usize) as f64;
    let size = |shape: Shape, border: usize| {
        let [height, width] = [shape.height, shape.width].map(|side| (side + 2 * border) as f64);
        height * width * shape.channels as f64
    };
    let (mut weights, mut largest) = (0.0, size(network.input, 0));
    network.visit(&mut |layer, input| {
        let (inputs, outputs) = match layer {
            Layer::Dense { units, .. } => (size(input, 0), *units),
            Layer::Conv {
                channels, kernel, ..
            } => ((kernel * kernel * input.channels) as f64, *channels),
            _ => (0.0, 0),
        };
        weights += inputs * outputs.next_multiple_of(LINE) as f64;
        let border = match layer {
            Layer::Conv { padding, .. } => *padding,
            _ => 0,
        };
        let output = layer.output(input).map_or(0.0, |output| size(output, 0));
        largest = largest.max(size(input, border)).max(output);
    });
    let values = weights.max(images * largest);
    match values < REACH as f64 {
        true => Ok(()),
        false => Err(TrainError::TooLarge {
            width: run.width,
            batch: run.batch_size,
            values,
        }),
    }
}

/// Whether the data are those that a run was planned for, and enough for its batches.
pub fn check_fit(
    batch: u32,
    examples: usize,
    planned: Shape,
    found: Shape,
) -> Result<(), TrainError> {
    if batch as usize > examples {
        return Err(TrainError::BatchTooLarge { batch, examples });
    }
    let (planned, found) = (planned.size(), found.size());
    if planned != found {
        return Err(TrainError::OtherData { planned, found });
    }
    Ok(())
}
