//! NVRTC, CUDA's run-time compiler: finding it, and compiling kernels for one architecture.
//!
//! Machine code is made, not PTX, so that a compiler newer than the driver does no harm.

use super::error::CudaError;
use super::launch::Kernel;
use cudarc::nvrtc::{result, sys};
use std::ffi::CString;
use std::path::{Path, PathBuf};

/// Folder of NVRTC, if it lies where nobody looks.
pub const COMPILER_VARIABLE: &str = "NOISESCALE_NVRTC";

/// A compute capability, such as (9, 0).
pub type Architecture = (i32, i32);

/// The one architecture on which four warps multiply together: later ones do not have its
/// instructions.
pub const HOPPER: Architecture = (9, 0);

/// The compiler, after it was found.
#[derive(Debug, Clone, Copy)]
pub struct Compiler(());

impl Compiler {
    /// Loads NVRTC from the named folder, the system, the CUDA toolkit or a Python environment, its own
    /// one among them.
    pub fn find() -> Result<Self, CudaError> {
        if let Some(folder) = std::env::var_os(COMPILER_VARIABLE).map(PathBuf::from) {
            return match load_from(&folder) {
                true => Ok(Self(())),
                false => Err(CudaError::NoCompilerThere { folder }),
            };
        }
        // SAFETY: NVRTC's initialization has no preconditions.
        let loaded = unsafe { sys::is_culib_present() }
            || usual_folders().iter().any(|folder| load_from(folder));
        if loaded {
            Ok(Self(()))
        } else {
            Err(CudaError::NoCompiler)
        }
    }

    /// Version, as (major, minor).
    pub fn version(&self) -> (i32, i32) {
        let (mut major, mut minor) = (0, 0);
        // SAFETY: the library is loaded and both pointers are valid.
        unsafe { sys::nvrtcVersion(&raw mut major, &raw mut minor) };
        (major, minor)
    }

    /// Machine code of a kernel.
    pub fn compile(
        &self,
        kernel: &Kernel,
        architecture: Architecture,
    ) -> Result<Vec<u8>, CudaError> {
        let text = CString::new(kernel.source.text()).expect("sources have no zero bytes");
        let (major, minor) = architecture;
        let own = if architecture == HOPPER { "a" } else { "" };
        let mut options = vec![
            format!("--gpu-architecture=sm_{major}{minor}{own}"),
            "--std=c++17".to_owned(),
            "-default-device".to_owned(),
        ];
        options.extend(
            kernel
                .defines
                .iter()
                .map(|(name, value)| format!("-D{name}={value}")),
        );
        let failed = |log: String| CudaError::Compile {
            kernel: format!("{:?} {:?}", kernel.source, kernel.defines),
            log,
        };
        let program = result::create_program(&text, None).map_err(|e| failed(format!("{e:?}")))?;
        // SAFETY: the program was just made, and is destroyed below and not used after that.
        let code = unsafe {
            match result::compile_program(program, &options) {
                Ok(()) => machine_code(program).map_err(|e| failed(format!("{e:?}"))),
                Err(error) => Err(failed(match result::get_program_log(program) {
                    Ok(log) => {
                        let bytes: Vec<u8> = log.iter().map(|c| *c as u8).collect();
                        String::from_utf8_lossy(&bytes).replace('\0', "")
                    }
                    Err(_) => format!("{error:?}"),
                })),
            }
        };
        // SAFETY: as above. A program that cannot be destroyed is only memory lost.
        let _ = unsafe { result::destroy_program(program) };
        code
    }
}

/// # Safety
/// The program has been compiled for a real architecture.
unsafe fn machine_code(program: sys::nvrtcProgram) -> Result<Vec<u8>, result::NvrtcError> {
    let mut size = 0;
    // SAFETY: the program is valid, and the buffer has the size that NVRTC asks for.
    unsafe {
        sys::nvrtcGetCUBINSize(program, &raw mut size).result()?;
        let mut code = vec![0u8; size];
        sys::nvrtcGetCUBIN(program, code.as_mut_ptr().cast()).result()?;
        Ok(code)
    }
}

/// Loads the library for good, so that later lookups by name find it.
fn load_from(folder: &Path) -> bool {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return false;
    };
    let mut files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    files.sort();
    let named = |file: &PathBuf, start: &str| {
        let name = file
            .file_name()
            .map(|name| name.to_string_lossy().into_owned());
        name.is_some_and(|name| name.starts_with(start) && !name.contains(".alt."))
    };
    // The compiler itself looks for its built-ins by name.
    for file in files.iter().filter(|file| named(file, "libnvrtc-builtins")) {
        load(file);
    }
    let compilers = files.iter().filter(|file| named(file, "libnvrtc.so"));
    // SAFETY: asks only whether a library of that name can be loaded.
    compilers.into_iter().any(|file| load(file)) && unsafe { sys::is_culib_present() }
}

fn load(file: &Path) -> bool {
    // SAFETY: loading NVRTC runs its initializers only.
    match unsafe { libloading::Library::new(file) } {
        Ok(library) => {
            std::mem::forget(library);
            true
        }
        Err(_) => false,
    }
}

fn usual_folders() -> Vec<PathBuf> {
    let mut folders = Vec::new();
    for variable in ["CUDA_HOME", "CUDA_PATH"] {
        folders.extend(std::env::var_os(variable).map(|root| Path::new(&root).join("lib64")));
    }
    folders.push("/usr/local/cuda/lib64".into());
    let environments = ["VIRTUAL_ENV", "CONDA_PREFIX"].map(std::env::var_os);
    let roots = environments.into_iter().flatten().map(PathBuf::from);
    // Installed by pip, the program lies in an environment that need not be active.
    let own = std::env::current_exe().ok();
    let own = own.and_then(|program| Some(program.parent()?.parent()?.to_owned()));
    let roots = roots.chain(own);
    for root in roots.chain(["/usr/local".into(), "/usr".into()]) {
        for python in listed(&root.join("lib")) {
            for packages in ["site-packages", "dist-packages"] {
                for package in listed(&python.join(packages).join("nvidia")) {
                    folders.push(package.join("lib"));
                }
            }
        }
    }
    folders
}

fn listed(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).collect()
}
