//! A GPU that kernels can be launched on.

use super::args::Address;
use super::cache::Cache;
use super::compiler::{Architecture, Compiler, HOPPER};
use super::error::CudaError;
use super::launch::{Kernel, Lane, Launch};
use super::resident::Limits;
use crate::data::hexadecimal;
use crate::threads::on_threads;
use cudarc::driver::{
    CudaContext, CudaFunction, CudaGraph, CudaSlice, CudaStream, DevicePtr, DriverError, result,
    sys,
};
use cudarc::nvrtc::Ptx;
use sha2::{Digest, Sha256};
use std::collections::{BTreeSet, HashMap};
use std::ffi::c_void;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Oldest compute capability with TF32 products and asynchronous copies.
pub const OLDEST: Architecture = (8, 0);
/// Shared memory that every kernel may have without asking.
const USUAL_SHARED: usize = 48 * 1024;
/// Blocks of a cluster that every GPU with clusters can run, and that the large ones can.
const PORTABLE_CLUSTER: usize = 8;
const LARGEST_CLUSTER: usize = 16;
/// Multiprocessors of a large GPU that is not cut into instances.
const WHOLE: usize = 72;

/// An open GPU.
pub struct Device {
    context: Arc<CudaContext>,
    name: String,
    architecture: Architecture,
    compiler: Compiler,
    cache: Cache,
    /// Compiled kernels that are not loaded yet.
    compiled: Mutex<HashMap<Kernel, Vec<u8>>>,
    functions: Mutex<HashMap<Kernel, CudaFunction>>,
    setup: Mutex<()>,
}

/// How many GPUs the driver sees; 0 without a driver. One that does not start is an error: there may be
/// GPUs.
pub fn count() -> Result<usize, CudaError> {
    // SAFETY: asks only whether the driver's library can be loaded.
    if !unsafe { sys::is_culib_present() } {
        return Ok(0);
    }
    match CudaContext::device_count() {
        Ok(count) => Ok(count.max(0) as usize),
        Err(DriverError(sys::CUresult::CUDA_ERROR_NO_DEVICE)) => Ok(0),
        Err(error) => Err(CudaError::NotStarted(error)),
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Where a buffer lies.
pub fn address<T>(slice: &CudaSlice<T>, stream: &CudaStream) -> Address {
    slice.device_ptr(stream).0
}

impl Device {
    /// Opens a GPU. `cache` is a folder for compiled kernels.
    pub fn open(ordinal: usize, cache: Option<PathBuf>) -> Result<Self, CudaError> {
        // SAFETY: asks only whether the driver's library can be loaded.
        if !unsafe { sys::is_culib_present() } {
            return Err(CudaError::NoDriver);
        }
        let count = count()?;
        if ordinal >= count {
            return Err(CudaError::NoDevice { ordinal, count });
        }
        let context = CudaContext::new(ordinal)?;
        // SAFETY: buffers shared between streams are written once and synchronized before others read them.
        unsafe { context.disable_event_tracking() };
        context.set_blocking_synchronize()?;
        let name = context.name()?;
        let architecture = context.compute_capability()?;
        if architecture < OLDEST {
            let (major, minor) = architecture;
            return Err(CudaError::TooOld { name, major, minor });
        }
        Ok(Self {
            context,
            name,
            architecture,
            compiler: Compiler::find()?,
            cache: Cache::new(cache),
            compiled: Mutex::default(),
            functions: Mutex::default(),
            setup: Mutex::default(),
        })
    }

    /// Held while a cohort is set up: while one thread captures a graph, no other may load
    /// kernels.
    pub(super) fn setting_up(&self) -> MutexGuard<'_, ()> {
        lock(&self.setup)
    }

    /// What the GPU is called.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What it offers to a block.
    pub fn limits(&self) -> Result<Limits, CudaError> {
        use sys::CUdevice_attribute_enum::{
            CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN as SHARED,
            CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT as PROCESSORS,
        };
        let attribute = |which| -> Result<usize, CudaError> {
            Ok(self.context.attribute(which)?.max(0) as usize)
        };
        let processors = attribute(PROCESSORS)?;
        let cluster = match self.architecture.0 {
            ..=8 => 1,
            9 | 10 if processors >= WHOLE => LARGEST_CLUSTER,
            _ => PORTABLE_CLUSTER,
        };
        Ok(Limits {
            shared: attribute(SHARED)?,
            cluster,
            processors,
            groups: self.architecture == HOPPER,
        })
    }

    /// Bytes of memory that are free now.
    pub fn free_bytes(&self) -> Result<usize, CudaError> {
        Ok(self.context.mem_get_info()?.0)
    }

    /// A stream of its own.
    pub(super) fn stream(&self) -> Result<Arc<CudaStream>, CudaError> {
        Ok(self.context.new_stream()?)
    }

    /// Compiles what these launches need, several at a time. Takes seconds, so it should come
    /// before [`Device::setting_up`].
    pub(super) fn compile<'l>(
        &self,
        launches: impl Iterator<Item = &'l Launch>,
    ) -> Result<(), CudaError> {
        let needed: BTreeSet<&Kernel> = {
            let (functions, compiled) = (lock(&self.functions), lock(&self.compiled));
            let known = |kernel: &&Kernel| {
                functions.contains_key(*kernel) || compiled.contains_key(*kernel)
            };
            let kernels = launches.map(|launch| &launch.kernel);
            kernels.filter(|kernel| !known(kernel)).collect()
        };
        let todo = Mutex::new(needed.into_iter());
        let next = || lock(&todo).next();
        let compile = |kernel: &Kernel| -> Result<(), CudaError> {
            let code = self.machine_code(kernel)?;
            lock(&self.compiled).insert(kernel.clone(), code);
            Ok(())
        };
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        on_threads(threads, |_| std::iter::from_fn(next).try_for_each(compile))
    }

    /// Loads what these launches need: none may be loaded while another thread captures a graph.
    pub(super) fn load_all(&self, launches: &[Launch]) -> Result<(), CudaError> {
        launches
            .iter()
            .try_for_each(|launch| self.load(&launch.kernel).map(|_| ()))
    }

    /// The function of a kernel, loaded and perhaps compiled before.
    fn load(&self, kernel: &Kernel) -> Result<CudaFunction, CudaError> {
        if let Some(function) = lock(&self.functions).get(kernel) {
            return Ok(function.clone());
        }
        let compiled = lock(&self.compiled).remove(kernel);
        let code = match compiled {
            Some(code) => code,
            None => self.machine_code(kernel)?,
        };
        let module = self.context.load_module(Ptx::from_binary(code))?;
        let function = module.load_function(kernel.function)?;
        lock(&self.functions).insert(kernel.clone(), function.clone());
        Ok(function)
    }

    /// From the cache, or compiled and put there.
    fn machine_code(&self, kernel: &Kernel) -> Result<Vec<u8>, CudaError> {
        let mut hash = Sha256::new();
        hash.update(kernel.source.text());
        let about = (&kernel.defines, self.architecture, self.compiler.version());
        hash.update(format!("{about:?}"));
        let name = hexadecimal(&hash.finalize()[..16]);
        if let Some(code) = self.cache.get(&name) {
            return Ok(code);
        }
        let code = self.compiler.compile(kernel, self.architecture)?;
        self.cache.put(&name, &code);
        Ok(code)
    }

    /// Launches kernels one after the other.
    pub(super) fn launch(&self, stream: &CudaStream, launches: &[Launch]) -> Result<(), CudaError> {
        self.context.bind_to_thread()?;
        launches
            .iter()
            .try_for_each(|launch| self.launch_one(stream, launch))
    }

    fn launch_one(&self, stream: &CudaStream, launch: &Launch) -> Result<(), CudaError> {
        let function = self.load(&launch.kernel)?;
        if launch.shared > USUAL_SHARED {
            use sys::CUfunction_attribute_enum::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES as MOST;
            function.set_attribute(MOST, launch.shared as i32)?;
        }
        if launch.cluster > PORTABLE_CLUSTER {
            use sys::CUfunction_attribute_enum::CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED as LARGER;
            function.set_attribute(LARGER, 1)?;
        }
        let [x, y, z] = launch.grid.map(|blocks| blocks as u32);
        // SAFETY: the kernel takes one struct by value, which is copied from `args`; the addresses in
        // it were given out for the sizes that the launch was made for.
        unsafe {
            result::launch_kernel(
                function.cu_function(),
                (x, y, z),
                (launch.threads as u32, 1, 1),
                launch.shared as u32,
                stream.cu_stream(),
                &mut [launch.args.as_ptr().cast_mut().cast::<c_void>()],
            )?;
        }
        Ok(())
    }

    /// Launches kernels, those of the side lane on a stream of their own; ends when both are done.
    fn launch_lanes(
        &self,
        main: &Arc<CudaStream>,
        side: &Arc<CudaStream>,
        launches: &[Launch],
    ) -> Result<(), CudaError> {
        let mut pending = false;
        for launch in launches {
            match launch.lane {
                Lane::Side => {
                    side.join(main)?;
                    self.launch_one(side, launch)?;
                    pending = true;
                    continue;
                }
                Lane::Both if pending => {
                    main.join(side)?;
                    pending = false;
                }
                Lane::Both | Lane::Main => {}
            }
            self.launch_one(main, launch)?;
        }
        if pending {
            main.join(side)?;
        }
        Ok(())
    }

    /// Captures launches, repeated, as one graph.
    pub(super) fn graph(
        &self,
        stream: &Arc<CudaStream>,
        launches: &[Launch],
        times: usize,
    ) -> Result<Option<CudaGraph>, CudaError> {
        use sys::CUstreamCaptureMode_enum::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL as MODE;
        self.load_all(launches)?;
        let side = self.stream()?;
        stream.begin_capture(MODE)?;
        let launched = (0..times).try_for_each(|_| self.launch_lanes(stream, &side, launches));
        // What fails in it makes the whole capture invalid, which says less than why.
        let graph = stream.end_capture(sys::CUgraphInstantiate_flags(0));
        launched?;
        Ok(graph?)
    }
}
