//! Building the libraries of the emulated device.

#[path = "../../../../tests/skip/mod.rs"]
pub mod skip;

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

/// All that the libraries are made of, and kernels with them.
const SOURCES: [(&str, &str); 10] = [
    ("compiler.cpp", include_str!("compiler.cpp")),
    ("driver.cpp", include_str!("driver.cpp")),
    ("emulated.hpp", include_str!("emulated.hpp")),
    ("failures.cpp", include_str!("failures.cpp")),
    ("failures.hpp", include_str!("failures.hpp")),
    ("gpus.hpp", include_str!("gpus.hpp")),
    ("kernel.hpp", include_str!("kernel.hpp")),
    ("machine.hpp", include_str!("machine.hpp")),
    ("threads.cpp", include_str!("threads.cpp")),
    ("units.cpp", include_str!("units.cpp")),
];

/// Libraries by the names that the program looks for, and the files that each is made of.
const LIBRARIES: [(&str, &[&str]); 2] = [
    (
        "libcuda.so",
        &["driver.cpp", "failures.cpp", "threads.cpp", "units.cpp"],
    ),
    ("libnvrtc.so", &["compiler.cpp"]),
];

/// The folder of the libraries, built if not done before; or word that the test is skipped, where there is
/// no compiler for them.
///
/// # Panics
/// If they do not compile.
pub fn find() -> Option<PathBuf> {
    // Tests of one program ask at once.
    static FOUND: LazyLock<Result<PathBuf, &str>> =
        LazyLock::new(|| possible().map(|()| build().unwrap_or_else(|reason| panic!("{reason}"))));
    match &*FOUND {
        Ok(folder) => Some(folder.clone()),
        Err(reason) => {
            skip::skipped("emulator", &format!("no GPU can be emulated: {reason}"));
            None
        }
    }
}

fn possible() -> Result<(), &'static str> {
    if !cfg!(all(target_os = "linux", target_arch = "x86_64")) {
        return Err("it needs Linux on x86-64");
    }
    let asked = Command::new("c++").arg("--version").output();
    asked.map(|_| ()).map_err(|_| "there is no c++")
}

fn build() -> Result<PathBuf, String> {
    let mut hash = DefaultHasher::new();
    SOURCES.hash(&mut hash);
    let name = format!("emulator-{:016x}", hash.finish());
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    if folder.is_dir() {
        return Ok(folder);
    }
    let own = folder.with_extension(std::process::id().to_string());
    let failed = |error: std::io::Error| format!("{}: {error}", own.display());
    write_sources(&own).map_err(failed)?;
    for (library, files) in LIBRARIES {
        compile(&own, &folder, library, files)?;
    }
    match std::fs::rename(&own, &folder) {
        // Another test program was faster.
        Err(_) if folder.is_dir() => std::fs::remove_dir_all(&own),
        renamed => renamed,
    }
    .map_err(failed)?;
    Ok(folder)
}

fn write_sources(folder: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(folder)?;
    let mut sources = SOURCES.iter();
    sources.try_for_each(|(name, text)| std::fs::write(folder.join(name), text))
}

/// Compiles one library in a folder that will be called `final_folder`.
fn compile(
    folder: &Path,
    final_folder: &Path,
    library: &str,
    files: &[&str],
) -> Result<(), String> {
    let mut compiler = Command::new("c++");
    compiler.current_dir(folder);
    compiler.args(["-std=c++17", "-O2", "-march=native", "-shared", "-fPIC"]);
    compiler.arg(format!("-Wl,-soname,{library}"));
    compiler.arg(format!("-DHEADERS=\"{}\"", final_folder.display()));
    compiler
        .args(["-o", library])
        .args(files)
        .args(["-pthread", "-ldl"]);
    let output = compiler.output().map_err(|error| format!("c++: {error}"))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
    }
}
