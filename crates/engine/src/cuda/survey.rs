//! What there is for CUDA on this machine, asked without opening a GPU: nothing is allocated on it.

use super::compiler::{Architecture, Compiler};
use super::device::{OLDEST, count};
use super::error::CudaError;
use cudarc::driver::{result, sys};

/// A GPU that the driver sees, usable or not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gpu {
    /// What it is called.
    pub name: String,
    /// Its compute capability.
    pub architecture: Architecture,
    /// Its memory.
    pub bytes: u64,
}

impl Gpu {
    /// Whether the kernels run on it.
    pub fn check(&self) -> Result<(), CudaError> {
        let (major, minor) = self.architecture;
        match self.architecture < OLDEST {
            true => Err(CudaError::TooOld {
                name: self.name.clone(),
                major,
                minor,
            }),
            false => Ok(()),
        }
    }
}

/// The newest CUDA that the driver supports, as (major, minor).
pub fn driver_version() -> Result<(i32, i32), CudaError> {
    // SAFETY: asks only whether the driver's library can be loaded.
    if !unsafe { sys::is_culib_present() } {
        return Err(CudaError::NoDriver);
    }
    let mut version = 0;
    // SAFETY: the library is loaded and the pointer is valid.
    unsafe { sys::cuDriverGetVersion(&raw mut version) }.result()?;
    Ok((version / 1000, version % 1000 / 10))
}

/// The version of NVRTC, as (major, minor).
pub fn compiler_version() -> Result<(i32, i32), CudaError> {
    Ok(Compiler::find()?.version())
}

/// Every GPU that the driver sees. A driver that cannot be started says why.
pub fn gpus() -> Result<Vec<Gpu>, CudaError> {
    // SAFETY: asks only whether the driver's library can be loaded.
    if !unsafe { sys::is_culib_present() } {
        return Err(CudaError::NoDriver);
    }
    (0..count()?).map(|ordinal| gpu(ordinal as i32)).collect()
}

fn gpu(ordinal: i32) -> Result<Gpu, CudaError> {
    use sys::CUdevice_attribute_enum::{
        CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR as MAJOR,
        CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR as MINOR,
    };
    let device = result::device::get(ordinal)?;
    // SAFETY: the driver has just given this device.
    let (bytes, architecture) = unsafe {
        let major = result::device::get_attribute(device, MAJOR)?;
        let minor = result::device::get_attribute(device, MINOR)?;
        (result::device::total_mem(device)?, (major, minor))
    };
    Ok(Gpu {
        name: result::device::get_name(device)?,
        architecture,
        bytes: bytes as u64,
    })
}

#[cfg(test)]
mod tests {
    use super::Gpu;

    #[test]
    fn a_gpu_before_ampere_says_what_is_missing() {
        let gpu = |architecture| Gpu {
            name: "Some GPU".into(),
            architecture,
            bytes: 1 << 30,
        };
        let refusal = gpu((7, 5)).check().unwrap_err().to_string();
        assert!(
            refusal.contains("Some GPU") && refusal.contains("7.5"),
            "{refusal}"
        );
        assert!(gpu((8, 0)).check().is_ok());
        assert!(gpu((9, 0)).check().is_ok());
    }
}
