//! The device of the CUDA tests: a GPU, or an emulated one where there is none.
//!
//! The emulator is a library in the place of NVIDIA's driver and one in the place of NVRTC, both
//! written in C++ beside this file. Kernels are compiled for the host as they are, and a thread of the
//! device is a fiber. So all that is ours is tested but its speed: what kernels compute, where they
//! wait for each other, launches, graphs, memory. It needs a C++ compiler and x86-64 Linux.

mod libraries;

use engine::cuda::{self, Device};
use std::path::PathBuf;
use std::sync::LazyLock;

/// What tests train on.
pub enum Gpu {
    Real(Device),
    Emulated(Device),
}

impl Gpu {
    /// The first GPU, or an emulated one; or word that the test is skipped.
    pub fn open() -> Option<Self> {
        // Once it is installed the emulated driver is what is found.
        static REAL: LazyLock<bool> =
            LazyLock::new(|| cuda::count().expect("a driver that is there starts") > 0);
        static EMULATOR: LazyLock<Option<PathBuf>> = LazyLock::new(install);
        if *REAL {
            return match Device::open(0, None) {
                Ok(device) => Some(Self::Real(device)),
                Err(reason) => {
                    libraries::skip::skipped("gpu", &reason.to_string());
                    None
                }
            };
        }
        let kernels = EMULATOR.as_ref()?.join("kernels");
        let device = Device::open(0, Some(kernels));
        println!("emulated: there is no GPU");
        Some(Self::Emulated(device.expect("an emulated one opens")))
    }

    #[allow(dead_code, reason = "some tests need it for good")]
    pub fn into_device(self) -> Device {
        match self {
            Self::Real(device) | Self::Emulated(device) => device,
        }
    }

    #[allow(dead_code, reason = "other tests need it for good")]
    pub fn device(&self) -> &Device {
        match self {
            Self::Real(device) | Self::Emulated(device) => device,
        }
    }

    #[allow(dead_code, reason = "some tests do the same on both")]
    pub fn is_emulated(&self) -> bool {
        matches!(self, Self::Emulated(_))
    }
}

/// Loads the driver for good and names the compiler's folder. Kernels, which are loaded later, find in the
/// driver what they need.
fn install() -> Option<PathBuf> {
    use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_NOW};
    let folder = libraries::find()?;
    // SAFETY: the tests that ask for devices wait for each other here, and the others read no variables
    // but by the standard library.
    unsafe { std::env::set_var("NOISESCALE_NVRTC", &folder) };
    // SAFETY: the library is ours and does nothing when it is loaded.
    let library = unsafe { Library::open(Some(folder.join("libcuda.so")), RTLD_NOW | RTLD_GLOBAL) };
    std::mem::forget(library.expect("what was just built can be loaded"));
    Some(folder)
}
