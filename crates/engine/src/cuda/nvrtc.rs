//! The functions of NVRTC, taken from the very library that was chosen.
//!
//! cudarc's own would look for a library once more, by its name, and might find another.

use libloading::{AsFilename, Library};
use std::ffi::{CStr, CString, OsStr, c_char, c_int, c_void};
use std::ptr;

/// `nvrtcProgram`.
type Handle = *mut c_void;
/// `nvrtcResult`, 0 for success. No `enum`: a later library may know more values.
type Code = c_int;

/// NVRTC, loaded for good.
#[derive(Debug, Clone, Copy)]
pub struct Nvrtc {
    version: unsafe extern "C" fn(*mut c_int, *mut c_int) -> Code,
    error_string: unsafe extern "C" fn(Code) -> *const c_char,
    create: Create,
    compile: unsafe extern "C" fn(Handle, c_int, *const *const c_char) -> Code,
    log_size: unsafe extern "C" fn(Handle, *mut usize) -> Code,
    log: unsafe extern "C" fn(Handle, *mut c_char) -> Code,
    code_size: unsafe extern "C" fn(Handle, *mut usize) -> Code,
    code: unsafe extern "C" fn(Handle, *mut c_char) -> Code,
    destroy: unsafe extern "C" fn(*mut Handle) -> Code,
}

/// Program, text, name, and so many headers with their names.
type Create = unsafe extern "C" fn(
    *mut Handle,
    *const c_char,
    *const c_char,
    c_int,
    *const *const c_char,
    *const *const c_char,
) -> Code;

impl Nvrtc {
    /// From the library of this path, or one that the system finds by this name.
    pub fn load(library: impl AsRef<OsStr> + AsFilename) -> Option<Self> {
        // SAFETY: loading NVRTC runs its initializers only.
        let library = unsafe { Library::new(library) }.ok()?;
        // SAFETY: the types are those of NVRTC's header, and the library stays loaded.
        let found = unsafe { Self::of(&library) }.ok();
        std::mem::forget(library);
        found
    }

    /// # Safety
    /// The library is an NVRTC, and stays loaded.
    unsafe fn of(library: &Library) -> Result<Self, libloading::Error> {
        // SAFETY: as the caller has promised.
        unsafe {
            Ok(Self {
                version: *library.get(b"nvrtcVersion")?,
                error_string: *library.get(b"nvrtcGetErrorString")?,
                create: *library.get(b"nvrtcCreateProgram")?,
                compile: *library.get(b"nvrtcCompileProgram")?,
                log_size: *library.get(b"nvrtcGetProgramLogSize")?,
                log: *library.get(b"nvrtcGetProgramLog")?,
                code_size: *library.get(b"nvrtcGetCUBINSize")?,
                code: *library.get(b"nvrtcGetCUBIN")?,
                destroy: *library.get(b"nvrtcDestroyProgram")?,
            })
        }
    }

    /// Version, as (major, minor).
    pub fn version(&self) -> (i32, i32) {
        let (mut major, mut minor) = (0, 0);
        // SAFETY: both pointers are valid.
        unsafe { (self.version)(&raw mut major, &raw mut minor) };
        (major, minor)
    }

    /// Machine code, or what the compiler says.
    pub fn compile(&self, text: &CStr, options: &[CString]) -> Result<Vec<u8>, String> {
        let mut program = Program {
            nvrtc: self,
            handle: ptr::null_mut(),
        };
        let (name, none) = (ptr::null(), ptr::null());
        // SAFETY: the pointers are valid, and there are no headers.
        let created =
            unsafe { (self.create)(&raw mut program.handle, text.as_ptr(), name, 0, none, none) };
        self.check(created)?;
        let options: Vec<*const c_char> = options.iter().map(|option| option.as_ptr()).collect();
        let count = options.len() as c_int;
        // SAFETY: the program was just made, and there are so many options.
        let compiled = unsafe { (self.compile)(program.handle, count, options.as_ptr()) };
        self.check(compiled).map_err(|error| {
            let log = program.read(self.log_size, self.log).unwrap_or_default();
            match String::from_utf8_lossy(&log).trim_matches(['\0', '\n']) {
                "" => error,
                log => log.to_owned(),
            }
        })?;
        program.read(self.code_size, self.code)
    }

    fn check(&self, code: Code) -> Result<(), String> {
        if code == 0 {
            return Ok(());
        }
        // SAFETY: the library gives a text of its own, for unknown codes too.
        let text = unsafe { CStr::from_ptr((self.error_string)(code)) };
        Err(text.to_string_lossy().into_owned())
    }
}

/// A program, destroyed in the end.
struct Program<'a> {
    nvrtc: &'a Nvrtc,
    handle: Handle,
}

impl Program<'_> {
    /// Something that the library tells the size of, and then gives.
    fn read(
        &self,
        size: unsafe extern "C" fn(Handle, *mut usize) -> Code,
        content: unsafe extern "C" fn(Handle, *mut c_char) -> Code,
    ) -> Result<Vec<u8>, String> {
        let mut len = 0;
        // SAFETY: the program is alive and the pointer valid.
        let known = unsafe { size(self.handle, &raw mut len) };
        self.nvrtc.check(known)?;
        let mut bytes = vec![0u8; len];
        // SAFETY: as before, with room for as many bytes as it says.
        let read = unsafe { content(self.handle, bytes.as_mut_ptr().cast()) };
        self.nvrtc.check(read).map(|()| bytes)
    }
}

impl Drop for Program<'_> {
    fn drop(&mut self) {
        if !self.handle.is_null() {
            // SAFETY: made by this library, and not used again. One that stays is only memory lost.
            unsafe { (self.nvrtc.destroy)(&raw mut self.handle) };
        }
    }
}
