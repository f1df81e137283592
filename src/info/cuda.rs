//! GPUs, driver and run-time compiler, or why there are none.

use super::{Found, Lines};
#[cfg(feature = "cuda")]
use engine::cuda;
use indicatif::BinaryBytes;

/// What there is for training on GPUs.
#[derive(serde::Serialize)]
pub struct Cuda {
    /// The driver's version and the newest CUDA that it supports.
    driver: Found,
    /// The version of NVRTC.
    nvrtc: Found,
    gpus: Vec<Gpu>,
    /// Why runs cannot be trained on a GPU, where that is so.
    problem: Option<String>,
}

#[derive(serde::Serialize)]
struct Gpu {
    name: String,
    compute_capability: String,
    bytes: u64,
    /// Why the kernels do not run on it, where that is so.
    problem: Option<String>,
}

impl Cuda {
    /// Asks driver and compiler.
    #[cfg(feature = "cuda")]
    pub fn find() -> Self {
        let dotted = |(major, minor)| format!("{major}.{minor}");
        let driver = Found::of(cuda::driver_version().map(|version| match release() {
            Some(release) => format!("{release}, for CUDA up to {}", dotted(version)),
            None => format!("for CUDA up to {}", dotted(version)),
        }));
        let nvrtc = Found::of(cuda::compiler_version().map(dotted));
        let (gpus, refusal) = match cuda::gpus() {
            Ok(gpus) => (gpus, None),
            Err(error) => (Vec::new(), Some(error.to_string())),
        };
        let gpus: Vec<Gpu> = gpus
            .into_iter()
            .map(|gpu| Gpu {
                compute_capability: dotted(gpu.architecture),
                bytes: gpu.bytes,
                problem: gpu.check().err().map(|error| error.to_string()),
                name: gpu.name,
            })
            .collect();
        let problem = refusal.or_else(|| why_not(&gpus, &nvrtc));
        Self {
            driver,
            nvrtc,
            gpus,
            problem,
        }
    }

    /// Says that this program cannot.
    #[cfg(not(feature = "cuda"))]
    pub fn find() -> Self {
        let problem = crate::device::without_cuda().to_string();
        let found = || Found::Problem {
            problem: problem.clone(),
        };
        Self {
            driver: found(),
            nvrtc: found(),
            gpus: Vec::new(),
            problem: Some(problem),
        }
    }

    /// Adds its lines.
    pub fn write(&self, lines: &mut Lines) {
        match &self.problem {
            None => lines.add("cuda", "can be used"),
            Some(problem) => lines.add("cuda", format!("cannot be used: {problem}")),
        }
        for (at, gpu) in self.gpus.iter().enumerate() {
            let (name, bytes) = (&gpu.name, BinaryBytes(gpu.bytes));
            let capability = &gpu.compute_capability;
            let text = format!("{name}, compute capability {capability}, {bytes}");
            lines.add(&format!("  cuda:{at}"), text);
            if let Some(problem) = &gpu.problem {
                lines.add("", problem);
            }
        }
        for (name, found) in [("  driver", &self.driver), ("  nvrtc", &self.nvrtc)] {
            // What was said above is not said again.
            if found
                .problem()
                .is_none_or(|problem| Some(problem) != self.problem.as_deref())
            {
                lines.add(name, found);
            }
        }
    }
}

/// Why none of the GPUs can train, if none can.
#[cfg(feature = "cuda")]
fn why_not(gpus: &[Gpu], nvrtc: &Found) -> Option<String> {
    let Some(first) = gpus.first() else {
        return Some("the driver sees no GPU; see `nvidia-smi -L`".into());
    };
    if gpus.iter().all(|gpu| gpu.problem.is_some()) {
        return first.problem.clone();
    }
    match nvrtc {
        Found::Problem { problem } => Some(problem.clone()),
        Found::Version { .. } => None,
    }
}

/// The version of the driver itself, as Linux shows it.
#[cfg(feature = "cuda")]
fn release() -> Option<String> {
    let text = std::fs::read_to_string("/proc/driver/nvidia/version").ok()?;
    release_in(&text)
}

/// The first word of the first line that is numbers with points: distributions differ in the rest.
#[cfg(feature = "cuda")]
fn release_in(text: &str) -> Option<String> {
    let is_version =
        |word: &&str| word.contains('.') && word.chars().all(|c| c.is_ascii_digit() || c == '.');
    let mut words = text.lines().next()?.split_whitespace();
    words.find(is_version).map(str::to_owned)
}

#[cfg(all(test, feature = "cuda"))]
mod tests {
    use super::super::Found;
    use super::{Gpu, release_in, why_not};

    fn gpu(problem: Option<&str>) -> Gpu {
        Gpu {
            name: "Some GPU".into(),
            compute_capability: "9.0".into(),
            bytes: 1,
            problem: problem.map(str::to_owned),
        }
    }

    #[test]
    fn one_gpu_and_a_compiler_are_enough() {
        let version = Found::Version {
            version: "13.0".into(),
        };
        let missing = Found::Problem {
            problem: "no NVRTC".into(),
        };
        assert_eq!(why_not(&[gpu(Some("too old")), gpu(None)], &version), None);
        let old = why_not(&[gpu(Some("too old"))], &version);
        assert_eq!(old.as_deref(), Some("too old"));
        let no_compiler = why_not(&[gpu(None)], &missing);
        assert_eq!(no_compiler.as_deref(), Some("no NVRTC"));
        assert!(why_not(&[], &version).unwrap().contains("sees no GPU"));
    }

    #[test]
    fn the_release_of_the_driver_is_found() {
        let old =
            "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue Mar  5\nGCC 12.3.0";
        let open = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.65.06  Release";
        assert_eq!(release_in(old).as_deref(), Some("550.54.15"));
        assert_eq!(release_in(open).as_deref(), Some("580.65.06"));
        assert_eq!(release_in("GCC"), None);
    }
}
