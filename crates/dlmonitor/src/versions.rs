//! Versions of the interpreter and of `PyTorch` in this process.

use crate::symbols::global;
use std::ffi::{CStr, c_char, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Version of the Python interpreter of this process, such as `3.11.7`; `None` without interpreter.
#[must_use]
pub fn python_version() -> Option<String> {
    let function = global(c"Py_GetVersion")?;
    // SAFETY: the function of CPython's stable ABI, which takes nothing and may be called at any time.
    let text = unsafe {
        std::mem::transmute::<*mut c_void, unsafe extern "C" fn() -> *const c_char>(function.as_ptr())().as_ref()?
    };
    // SAFETY: it returns a null-terminated text that is never freed.
    let text = unsafe { CStr::from_ptr(text) }.to_str().ok()?;
    text.split_whitespace().next().map(str::to_owned)
}

/// Version of `PyTorch` in this process, such as `2.9.0+cpu`. `None` if its operators are not observed, or if its
/// package has no version. Reads a file.
#[must_use]
pub fn torch_version() -> Option<String> {
    let functions = crate::torch::functions()?;
    let library = library_of(functions.name as *const c_void)?;
    // .../torch/lib/libtorch_cpu.so
    let package = library.parent()?.parent()?;
    parse_version(&std::fs::read_to_string(package.join("version.py")).ok()?)
}

/// File of the loaded library that contains an address; `None` if there is none.
fn library_of(address: *const c_void) -> Option<PathBuf> {
    // SAFETY: all-zero is a value of this struct of pointers.
    let mut found: libc::Dl_info = unsafe { std::mem::zeroed() };
    // SAFETY: any address is valid; the struct is valid for writing.
    if unsafe { libc::dladdr(address, &raw mut found) } == 0 || found.dli_fname.is_null() {
        return None;
    }
    // SAFETY: a null-terminated name that lives as long as the library, which is never unloaded.
    let name = unsafe { CStr::from_ptr(found.dli_fname) };
    Some(Path::new(std::ffi::OsStr::from_bytes(name.to_bytes())).to_owned())
}

/// Version in the text of the generated file `torch/version.py`: `__version__ = '...'`; `None` without such a line.
fn parse_version(text: &str) -> Option<String> {
    let line = text.lines().find_map(|line| line.strip_prefix("__version__"))?;
    let (_, value) = line.split_once('=')?;
    let version = value.trim().trim_matches(['\'', '"']);
    (!version.is_empty() && version.len() < 100).then(|| version.to_owned())
}

#[cfg(test)]
mod tests {
    use super::parse_version;

    #[test]
    fn versions_are_read_as_the_package_states_them() {
        let generated =
            "from typing import Optional\n\n__all__ = ['__version__']\n__version__ = '2.15.0+cu132'\ndebug = False\n";
        assert_eq!(parse_version(generated).as_deref(), Some("2.15.0+cu132"));
        assert_eq!(parse_version("__version__: str = \"2.6.0\"").as_deref(), Some("2.6.0"));
        for text in ["", "__version__", "__version__ = ''", "version = '1'"] {
            assert_eq!(parse_version(text), None, "{text}");
        }
    }
}
