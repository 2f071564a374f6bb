//! Tests of native unwinding on threads whose stacks are too small to build an unwinder cache.

use super::reloads::compile;
use super::{NativeStack, Registers, Segment, WalkEnd, spares, stack_bounds, start};
use crate::python::Memory;
use std::ffi::CString;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::{Builder, Scope, ScopedJoinHandle};
use std::time::{Duration, Instant};

/// Far longer than any operation that waits for no other thread.
const MAX_WAIT: Duration = Duration::from_secs(20);

/// Run `run` on a new thread whose stack is too small to build an unwinder cache.
fn spawn_with_small_stack<'a>(scope: &'a Scope<'a, '_>, run: impl FnOnce() + Send + 'a) -> ScopedJoinHandle<'a, ()> {
    Builder::new().stack_size(128 << 10).spawn_scoped(scope, run).unwrap()
}

/// Take and free all spare unwinder caches.
fn take_all() {
    std::iter::from_fn(spares::take).for_each(drop);
}

/// Walk the calling thread's whole native stack.
fn walk(stack: &mut NativeStack) -> Option<WalkEnd> {
    let (_, end) = stack_bounds().unwrap();
    stack.walk_segment(&Segment { at: Registers::here(), from: 0, bounds: [0, 0], end })
}

/// Wait until `step` has reached a value; `false` at the time limit.
fn wait_for(step: &AtomicU32, value: u32) -> bool {
    let since = Instant::now();
    while step.load(Ordering::SeqCst) < value && since.elapsed() < MAX_WAIT {
        std::thread::yield_now();
    }
    step.load(Ordering::SeqCst) >= value
}

#[test]
fn small_stacks_have_native_frames_once_a_cache_exists() {
    start().unwrap();
    let step = AtomicU32::new(0);
    std::thread::scope(|scope| {
        spawn_with_small_stack(scope, || {
            // Another test may have left a spare cache.
            let mut stack = std::iter::repeat_with(|| {
                take_all();
                NativeStack::new()
            })
            .find(|stack| !stack.is_ready())
            .unwrap();
            assert_eq!((walk(&mut stack), stack.frames().len()), (None, 0));
            assert_eq!(stack.walk_interrupted_segment(Registers::here(), [0, 0], Memory::of_this_thread()), None);
            step.store(1, Ordering::SeqCst);
            assert!(wait_for(&step, 2));
            assert!(stack.prepare() && stack.is_ready());
            assert_eq!(walk(&mut stack), Some(WalkEnd::AtRoot));
            assert!(stack.frames().len() > 3);
        });
        assert!(wait_for(&step, 1));
        // On a thread with enough stack.
        Builder::new().stack_size(1 << 20).spawn_scoped(scope, spares::refill).unwrap().join().unwrap();
        step.store(2, Ordering::SeqCst);
    });
}

#[test]
fn caches_move_from_one_thread_to_the_next() {
    start().unwrap();
    std::thread::scope(|scope| {
        for _ in 0..20 {
            spawn_with_small_stack(scope, || assert!(NativeStack::new().is_ready())).join().unwrap();
        }
    });
}

/// Test that a thread with a small stack does not wait for the dynamic linker. A library may wait for the GIL in its
/// constructor, while its thread holds the linker's lock. Threads need that lock to start and end, so a thread that
/// holds the GIL must not wait for one of our threads.
#[test]
fn small_stacks_do_not_wait_for_library_loads() {
    start().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe");
    let source = format!(
        "#include <fcntl.h>\n#include <unistd.h>\n\
         __attribute__((constructor)) static void begin(void)\n\
         {{ char byte; int file = open({pipe:?}, O_RDONLY); while (read(file, &byte, 1) < 0); close(file); }}\n"
    );
    let Some(library) = compile(folder.path(), &source) else { return };
    let library = CString::new(library.as_os_str().as_bytes()).unwrap();
    let name = CString::new(pipe.as_os_str().as_bytes()).unwrap();
    // SAFETY: a null-terminated name.
    assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
    let step = AtomicU32::new(0);
    std::thread::scope(|scope| {
        spawn_with_small_stack(scope, || {
            step.fetch_add(1, Ordering::SeqCst);
            if wait_for(&step, 2) {
                drop(NativeStack::new());
                step.store(3, Ordering::SeqCst);
            }
        });
        assert!(wait_for(&step, 1));
        // SAFETY: a null-terminated name; the constructor waits for a byte.
        scope.spawn(|| assert!(!unsafe { libc::dlopen(library.as_ptr(), libc::RTLD_NOW) }.is_null()));
        // Opening returns once the constructor reads.
        let mut gate = OpenOptions::new().write(true).open(&pipe).unwrap();
        step.store(2, Ordering::SeqCst);
        let went_on = wait_for(&step, 3);
        gate.write_all(b"x").unwrap();
        assert!(went_on, "a thread with a small stack waits for the library");
    });
}
