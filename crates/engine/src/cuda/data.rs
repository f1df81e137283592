//! A data set on a device.

use super::args::ExamplesArgs;
use super::device::{Device, address};
use super::emit::Part;
use super::error::CudaError;
use crate::data::{Dataset, Examples, Values};
use cudarc::driver::CudaSlice;

/// A data set on a device, as bytes where it was bytes.
pub struct DeviceData {
    pub(super) train: Part,
    pub(super) validation: Part,
    pub(super) test: Part,
    pub(super) shape: spec::Shape,
    _bytes: Vec<CudaSlice<u8>>,
    _floats: Vec<CudaSlice<f32>>,
    _labels: Vec<CudaSlice<i32>>,
}

impl DeviceData {
    /// Copies a data set to a device.
    pub fn new(data: &Dataset, device: &Device) -> Result<Self, CudaError> {
        let stream = device.stream()?;
        let (mut bytes, mut floats, mut labels) = (Vec::new(), Vec::new(), Vec::new());
        let rule = [&data.normalization.offset, &data.normalization.factor];
        for values in rule {
            floats.push(stream.clone_htod(values)?);
        }
        let [offset, factor] = [&floats[0], &floats[1]].map(|slice| address(slice, &stream));
        let mut part = |examples: &Examples| -> Result<Part, CudaError> {
            let own: Vec<i32> = examples
                .labels
                .iter()
                .map(|label| i32::from(*label))
                .collect();
            // Nothing can be copied that is not there.
            labels.push(stream.clone_htod(if own.is_empty() { &[0][..] } else { &own })?);
            let mut args = ExamplesArgs {
                labels: labels.last().map_or(0, |slice| address(slice, &stream)),
                offset,
                factor,
                height: data.shape.height as i32,
                width: data.shape.width as i32,
                channels: data.shape.channels as i32,
                ..ExamplesArgs::default()
            };
            match &examples.values {
                Values::Bytes(values) if !values.is_empty() => {
                    let slice = stream.clone_htod(values)?;
                    args.bytes = address(&slice, &stream);
                    bytes.push(slice);
                }
                Values::Floats(values) if !values.is_empty() => {
                    let slice = stream.clone_htod(values)?;
                    args.floats = address(&slice, &stream);
                    floats.push(slice);
                }
                Values::Bytes(_) | Values::Floats(_) => {}
            }
            Ok(Part {
                args,
                examples: examples.len(),
            })
        };
        let (train, validation, test) = (
            part(&data.train)?,
            part(&data.validation)?,
            part(&data.test)?,
        );
        stream.synchronize()?;
        Ok(Self {
            train,
            validation,
            test,
            shape: data.shape,
            _bytes: bytes,
            _floats: floats,
            _labels: labels,
        })
    }
}
