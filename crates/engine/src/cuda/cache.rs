//! Compiled kernels, kept in a folder.
//!
//! The driver is given machine code without its length and believes what it reads, so a damaged file
//! can end the program. Each therefore ends with the SHA-256 of what comes before, and one that does not
//! is as good as none. A folder that cannot be used is no harm.

use sha2::{Digest, Sha256};
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Bytes of a SHA-256.
const SUM: usize = 32;

/// A folder of kernels, or none.
pub struct Cache(Option<PathBuf>);

impl Cache {
    pub fn new(folder: Option<PathBuf>) -> Self {
        Self(folder)
    }

    /// The machine code of this name, if it is there and whole.
    pub fn get(&self, name: &str) -> Option<Vec<u8>> {
        let mut code = fs::read(self.file(name)?).ok()?;
        let sum = code.split_off(code.len().checked_sub(SUM)?);
        (Sha256::digest(&code)[..] == sum[..]).then_some(code)
    }

    /// Keeps machine code, in place of what is there.
    pub fn put(&self, name: &str, code: &[u8]) {
        let Some(file) = self.file(name) else { return };
        let (process, thread) = (std::process::id(), std::thread::current().id());
        let own = file.with_extension(format!("{process}-{thread:?}"));
        let written = write(&own, code).and_then(|()| fs::rename(&own, &file));
        if written.is_err() {
            let _ = fs::remove_file(own);
        }
    }

    fn file(&self, name: &str) -> Option<PathBuf> {
        Some(self.0.as_ref()?.join(name).with_extension("cubin"))
    }
}

/// On disk before it gets its name, which a machine that fails might else have given to nothing.
fn write(path: &Path, code: &[u8]) -> io::Result<()> {
    path.parent().map_or(Ok(()), fs::create_dir_all)?;
    let mut file = File::create(path)?;
    file.write_all(code)?;
    file.write_all(&Sha256::digest(code))?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_whole_is_not_there() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::new(Some(folder.path().join("kernels")));
        assert_eq!(cache.get("a"), None);
        cache.put("a", b"machine code");
        let file = cache.file("a").unwrap();
        let whole = fs::read(&file).unwrap();
        assert_eq!(cache.get("a").as_deref(), Some(&b"machine code"[..]));
        for len in 0..whole.len() {
            fs::write(&file, &whole[..len]).unwrap();
            assert_eq!(cache.get("a"), None, "cut at {len}");
        }
        for at in 0..whole.len() {
            let mut other = whole.clone();
            other[at] ^= 1;
            fs::write(&file, other).unwrap();
            assert_eq!(cache.get("a"), None, "changed at {at}");
        }
        cache.put("a", b"other");
        assert_eq!(cache.get("a").as_deref(), Some(&b"other"[..]));
        assert_eq!(fs::read_dir(file.parent().unwrap()).unwrap().count(), 1);
    }

    #[test]
    fn a_folder_that_cannot_be_used_is_no_harm() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a file");
        fs::write(&file, "").unwrap();
        for cache in [Cache::new(None), Cache::new(Some(file))] {
            cache.put("a", b"code");
            assert_eq!(cache.get("a"), None);
        }
    }
}
