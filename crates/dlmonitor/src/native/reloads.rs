//! Tests that repeated loading and unloading of libraries leaks nothing.

use super::{FORMER, GENERATION, NativeStack, Registers, module_at, renew, start};
use crate::python::Memory;
use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

/// Number of iterations and libraries, far more than a list of a few dozen entries.
const MANY: usize = 200;
/// Attempts before a test gives up. One is enough unless another test reads the list at the same moment.
const MAX_ATTEMPTS: usize = 1_000_000;

const SMALL: &str = "int small(int x) { return x + 1; }\n";

/// Compile a library into `folder`; `None` without a compiler.
pub(super) fn compile(folder: &Path, source: &str) -> Option<PathBuf> {
    let (file, library) = (folder.join("small.c"), folder.join("small.so"));
    std::fs::write(&file, source).unwrap();
    match Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(&library).arg(&file).status() {
        Ok(status) => assert!(status.success()),
        Err(_) => {
            assert!(std::env::var("CI").as_deref() != Ok("true"), "CI needs a C compiler");
            println!("skipped: no C compiler");
            return None;
        }
    }
    Some(library)
}

/// A loaded library and the address of one of its functions.
struct Loaded(*mut libc::c_void, usize);

/// Load a library, and find the address of its function `small`.
fn load(path: &Path) -> Loaded {
    let path = CString::new(path.as_os_str().as_bytes()).unwrap();
    // SAFETY: null-terminated names; the library has no constructors.
    unsafe {
        let library = libc::dlopen(path.as_ptr(), libc::RTLD_NOW);
        assert!(!library.is_null());
        Loaded(library, libc::dlsym(library, c"small".as_ptr()) as usize)
    }
}

/// Unload a library.
fn unload(loaded: &Loaded) {
    // SAFETY: `load` opened it, and no thread runs its code.
    assert_eq!(unsafe { libc::dlclose(loaded.0) }, 0);
}

/// Renew the list of loaded libraries until a condition is true, because another test may be reading the list.
fn read_list_until(condition: impl Fn() -> bool) {
    for _ in 0..MAX_ATTEMPTS {
        if condition() {
            return;
        }
        renew();
        std::thread::yield_now();
    }
    panic!("the condition is still false after {MAX_ATTEMPTS} reads of the list");
}

/// Number of this process's memory mappings of files in a folder.
fn mappings(folder: &Path) -> usize {
    let folder = folder.to_str().unwrap();
    std::fs::read_to_string("/proc/self/maps").unwrap().lines().filter(|line| line.contains(folder)).count()
}

/// Run `action` while another thread walks its stack as a signal handler does.
fn while_walking(action: impl FnOnce()) {
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut stack = NativeStack::new();
            while !stop.load(Ordering::Relaxed) {
                stack.walk_interrupted_segment(Registers::here(), [0, 0], Memory::of_this_thread());
                assert!(!stack.frames().is_empty());
                std::thread::yield_now();
            }
        });
        action();
        stop.store(true, Ordering::Relaxed);
    });
}

#[test]
fn repeated_reloads_of_one_library_leak_nothing() {
    start().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let Some(library) = compile(folder.path(), SMALL) else { return };
    while_walking(|| {
        for _ in 0..MANY {
            let loaded = load(&library);
            read_list_until(|| module_at(loaded.1).is_some());
            assert!(mappings(folder.path()) > 0);
            unload(&loaded);
            read_list_until(|| module_at(loaded.1).is_none());
        }
    });
    read_list_until(|| FORMER.load(Ordering::Acquire).is_null());
    assert_eq!(mappings(folder.path()), 0);
    assert!(GENERATION.load(Ordering::Relaxed) as usize >= 2 * MANY, "each change was seen");
}

#[test]
fn many_libraries_are_mapped_once_each() {
    start().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let Some(library) = compile(folder.path(), SMALL) else { return };
    let one = |number: usize| {
        let path = folder.path().join(format!("{number}.so"));
        std::fs::copy(&library, &path).unwrap();
        load(&path)
    };
    let first = one(0);
    let before = mappings(folder.path());
    read_list_until(|| module_at(first.1).is_some());
    let ours = mappings(folder.path()) - before;
    let mut all = vec![first];
    for number in 1..MANY {
        let loaded = one(number);
        read_list_until(|| module_at(loaded.1).is_some());
        all.push(loaded);
    }
    read_list_until(|| FORMER.load(Ordering::Acquire).is_null());
    assert_eq!(mappings(folder.path()), MANY * (before + ours), "each of them as often as the first");
    for loaded in &all {
        unload(loaded);
        read_list_until(|| module_at(loaded.1).is_none());
    }
    read_list_until(|| FORMER.load(Ordering::Acquire).is_null());
    assert_eq!(mappings(folder.path()), 0);
}
