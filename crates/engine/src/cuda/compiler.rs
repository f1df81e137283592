//! NVRTC, CUDA's run-time compiler: finding it, and compiling kernels for one architecture.
//!
//! Machine code is made, not PTX, so that a compiler newer than the driver does no harm.

use super::error::CudaError;
use super::launch::Kernel;
use super::nvrtc::Nvrtc;
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
pub struct Compiler(Nvrtc);

impl Compiler {
    /// Loads NVRTC from the named folder, the system, the CUDA toolkit or a Python environment, its own
    /// one among them.
    pub fn find() -> Result<Self, CudaError> {
        if let Some(folder) = std::env::var_os(COMPILER_VARIABLE).map(PathBuf::from) {
            let found = load_from(&folder).map(Self);
            return found.ok_or(CudaError::NoCompilerThere { folder });
        }
        let names = cudarc::get_lib_name_candidates("nvrtc");
        let by_name = names.iter().find_map(Nvrtc::load);
        let found = by_name.or_else(|| usual_folders().iter().find_map(|folder| load_from(folder)));
        found.map(Self).ok_or(CudaError::NoCompiler)
    }

    /// Version, as (major, minor).
    pub fn version(&self) -> (i32, i32) {
        self.0.version()
    }

    /// Machine code of a kernel.
    pub fn compile(
        &self,
        kernel: &Kernel,
        architecture: Architecture,
    ) -> Result<Vec<u8>, CudaError> {
        let (major, minor) = architecture;
        let own = if architecture == HOPPER { "a" } else { "" };
        let mut options = vec![
            format!("--gpu-architecture=sm_{major}{minor}{own}"),
            "--std=c++17".to_owned(),
            "-default-device".to_owned(),
        ];
        let defines = kernel.defines.iter();
        options.extend(defines.map(|(name, value)| format!("-D{name}={value}")));
        let text = |text: String| CString::new(text).expect("neither has zero bytes");
        let options: Vec<CString> = options.into_iter().map(text).collect();
        let compiled = self.0.compile(&text(kernel.source.text()), &options);
        compiled.map_err(|log| CudaError::Compile {
            kernel: format!("{:?} {:?}", kernel.source, kernel.defines),
            log,
        })
    }
}

/// NVRTC from a folder, under whatever version its name ends with.
fn load_from(folder: &Path) -> Option<Nvrtc> {
    let entries = std::fs::read_dir(folder).ok()?;
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
        // SAFETY: they are tables, without initializers.
        let library = unsafe { libloading::Library::new(file) };
        library.map(std::mem::forget).unwrap_or_default();
    }
    let mut compilers = files.iter().filter(|file| named(file, "libnvrtc.so"));
    compilers.find_map(Nvrtc::load)
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
