//! Native frames: functions of C and C++ between operators and Python frames.
//!
//! Unwinding is `framehop`'s, by the unwind tables of the libraries; it neither allocates nor locks. Symbols are not
//! resolved in the process: a frame is an address in a library.

mod memo;
mod modules;
mod spares;
mod stack;

use crate::python::Memory;
use crate::quiet::Gate;
use modules::Snapshot;
use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering};
use std::time::{Duration, Instant};

pub use modules::Module;
pub use stack::{MAX_NATIVE, NativeStack, Registers, WalkEnd};

/// Snapshot of the loaded modules; null while native frames are off.
static CURRENT: AtomicPtr<Snapshot> = AtomicPtr::new(std::ptr::null_mut());
/// Gate of its readers, including signal handlers: old snapshots are freed once all readers have left.
static READERS: Gate = Gate::new();
/// Number of the current snapshot, readable without the snapshot.
static GENERATION: AtomicU32 = AtomicU32::new(0);
/// True while a thread renews the snapshot and frees old ones.
static RENEWING: AtomicBool = AtomicBool::new(false);
static FORMER: AtomicPtr<FormerSnapshot> = AtomicPtr::new(std::ptr::null_mut());
/// True while the dynamic linker's list is read. A child that is forked meanwhile would find the list locked forever.
static READING: AtomicBool = AtomicBool::new(false);
static FORKING: AtomicU32 = AtomicU32::new(0);

/// Longest wait of a fork for a reader of the list. Reading takes about 50 µs, or more if the reader waits for a
/// processor.
const MAX_FORK_WAIT: Duration = Duration::from_millis(200);

/// Stack space that a synchronous walk may use. Threads with less space left get no native frames.
pub const LEAST_STACK: usize = 64 << 10;

/// Linked list of replaced snapshots that readers may still use, newest first.
struct FormerSnapshot {
    snapshot: Box<Snapshot>,
    next: Option<Box<FormerSnapshot>>,
}

/// True if native stacks are unwound: a snapshot of the loaded libraries exists.
fn is_on() -> bool {
    !CURRENT.load(Ordering::Acquire).is_null()
}

/// Pass the current snapshot of the loaded libraries to `read`; `None` while native frames are off. Signal-safe.
#[inline]
fn with_current<R>(read: impl FnOnce(&Snapshot) -> R) -> Option<R> {
    let _inside = READERS.enter();
    // SAFETY: null, or a leaked box that is freed after it was replaced and all readers have left.
    unsafe { CURRENT.load(Ordering::SeqCst).as_ref() }.map(read)
}

/// Start to read native frames: take a snapshot of the loaded libraries and build spare unwinder caches. Returns a
/// description, or the reason of a failure.
pub(crate) fn start() -> Result<String, String> {
    if !is_on() {
        if !Memory::of_this_thread().works() {
            return Err("the kernel does not allow this process to read its own memory through a system call".into());
        }
        find_modules();
    }
    spares::refill();
    let modules = with_current(|snapshot| snapshot.modules.len());
    let modules = modules.ok_or("the shared libraries of this process cannot be listed")?;
    Ok(format!("{modules} libraries"))
}

/// Detect libraries that were loaded or unloaded since the last call, if native frames are on, and build unwinder
/// caches for threads with small stacks ([`NativeStack::prepare`]). Cheap without changes; not signal-safe.
pub fn renew() {
    if is_on() {
        find_modules();
        spares::refill();
    }
}

/// Address ranges of the loaded libraries whose file names pass a test; `None` if no library was loaded or unloaded
/// since the last call, or if another thread reads the list. `changes` are the counts of loads and unloads at the
/// last call, which are updated. Not signal-safe.
pub fn ranges_of(changes: &mut (u64, u64), test: impl Fn(&str) -> bool) -> Option<Vec<std::ops::Range<usize>>> {
    // One reader at a time, because a fork waits for it.
    if RENEWING.swap(true, Ordering::SeqCst) {
        return None;
    }
    let now = read_list(modules::changes).filter(|now| now != changes);
    let list = now.and_then(|_| read_list(modules::list));
    RENEWING.store(false, Ordering::SeqCst);
    *changes = now.filter(|_| list.is_some())?;
    Some(modules::ranges(&list?, test))
}

/// Replace the snapshot if libraries were loaded or unloaded, and free replaced ones without readers.
fn find_modules() {
    if RENEWING.swap(true, Ordering::SeqCst) {
        return;
    }
    // SAFETY: null, or a leaked box that only this thread may replace and free at the moment.
    let before = unsafe { CURRENT.load(Ordering::Acquire).as_ref() };
    if before.is_none_or(|before| read_list(modules::changes).is_some_and(|changes| changes != before.changes))
        && let Some(list) = read_list(modules::list)
    {
        let new = before.unwrap_or(&Snapshot::empty()).updated(list, &Memory::of_this_thread());
        let generation = new.generation;
        let old = CURRENT.swap(Box::into_raw(Box::new(new)), Ordering::SeqCst);
        // Store the number last: cached values with this number belong to this snapshot or a later one.
        GENERATION.store(generation, Ordering::Release);
        if !old.is_null() {
            // SAFETY: it was leaked above, at an earlier time, and is in the list once.
            let (snapshot, next) = unsafe { (Box::from_raw(old), take_former()) };
            FORMER.store(Box::into_raw(Box::new(FormerSnapshot { snapshot, next })), Ordering::Release);
        }
    }
    free_former();
    RENEWING.store(false, Ordering::SeqCst);
}

/// Take the list of replaced snapshots out of [`FORMER`], newest first.
///
/// # Safety
/// The caller has set `RENEWING`.
unsafe fn take_former() -> Option<Box<FormerSnapshot>> {
    let old = FORMER.swap(std::ptr::null_mut(), Ordering::AcqRel);
    // SAFETY: null, or a box that was leaked into the list and is taken out once.
    (!old.is_null()).then(|| unsafe { Box::from_raw(old) })
}

/// Free old snapshots if there are no readers, and with them the tables of unloaded libraries. Otherwise retry at the
/// next renewal.
fn free_former() {
    if !FORMER.load(Ordering::Acquire).is_null() && READERS.is_left() {
        // SAFETY: only the thread that renews comes here.
        let mut old = unsafe { take_former() };
        while let Some(first) = old {
            let FormerSnapshot { snapshot, next } = *first;
            drop(snapshot);
            old = next;
        }
    }
}

/// Run `read`, which reads the dynamic linker's list of libraries; `None` without running it while a fork is in
/// progress. From `init` on, the handlers of `fork` call the functions below, also while native frames are off.
fn read_list<R>(read: impl FnOnce() -> R) -> Option<R> {
    READING.store(true, Ordering::SeqCst);
    let result = (FORKING.load(Ordering::SeqCst) == 0).then(read);
    READING.store(false, Ordering::SeqCst);
    result
}

/// Loaded library or program that contains an address; `None` if unknown or while native frames are off.
#[must_use]
pub fn module_at(address: usize) -> Option<Arc<Module>> {
    with_current(|snapshot| snapshot.find(address).cloned())?
}

/// Number of the current snapshot of loaded libraries, which grows with each new one; 0 while native frames are off.
#[must_use]
#[inline]
pub fn generation() -> u32 {
    GENERATION.load(Ordering::Acquire)
}

/// Part of a native stack that leads to an operator, with its bounds.
#[derive(Clone, Copy, Debug)]
pub struct Segment {
    /// Registers to begin at, somewhere below the operator.
    pub at: Registers,
    /// The operator's handle.
    pub from: usize,
    /// Possible outer bounds: another operator, the interpreter ([`crate::Interpreter::stack_mark`]). Addresses that
    /// are not beyond the operator are ignored.
    pub bounds: [usize; 2],
    /// End of the stack.
    pub end: usize,
}

impl Segment {
    /// Nearest outer bound beyond the operator, at most the end of the stack.
    #[inline]
    fn bound(&self) -> usize {
        let [a, b] = self.bounds.map(|bound| if bound > self.from { bound } else { usize::MAX });
        a.min(b).min(self.end)
    }
}

impl NativeStack {
    /// Value that [`Self::cache_value`] stored with this `hint` for an equal stack segment; `None` if there is none.
    #[inline]
    pub fn cached_value(&mut self, segment: &Segment, hint: u64) -> Option<u32> {
        let generation = Some(generation()).filter(|&generation| generation > 0)?;
        self.load_cached(generation, hint, segment.at.sp, segment.from, segment.bound())
    }

    /// Walk the native frames of a stack segment into [`Self::frames`], and return how the walk ended. `None` if native
    /// frames are off, or if [`Self::prepare`] returned `false`.
    pub fn walk_segment(&mut self, segment: &Segment) -> Option<WalkEnd> {
        with_current(|snapshot| self.walk(snapshot, segment.at, segment.from, segment.bound(), segment.end))?
    }

    /// Store a value for the last walked stack segment, so that an equal one is not walked again. `hint` must be the
    /// same, too.
    pub fn cache_value(&mut self, segment: &Segment, hint: u64, value: u32) {
        let generation = generation();
        if generation > 0 {
            self.store_cached(generation, hint, segment.at.sp, segment.from, segment.bound(), value);
        }
    }

    /// Walk the native frames of the calling thread, which a signal interrupted, up to the nearest of `bounds` or the
    /// root. `None` if native frames are off, or if the walker is not ready. For the signal handler.
    pub fn walk_interrupted_segment(&mut self, at: Registers, bounds: [usize; 2], memory: Memory) -> Option<WalkEnd> {
        let nearest = bounds.into_iter().filter(|&bound| bound > at.sp).min().unwrap_or(usize::MAX);
        with_current(|snapshot| self.walk_interrupted(snapshot, at, nearest, memory))?
    }
}

/// Lowest and highest address of the calling thread's stack; `None` if unknown. Not signal-safe.
#[must_use]
pub fn stack_bounds() -> Option<(usize, usize)> {
    // SAFETY: each structure is initialized by the call that receives it, and destroyed afterwards.
    unsafe {
        let mut attributes = std::mem::zeroed();
        if libc::pthread_getattr_np(libc::pthread_self(), &raw mut attributes) != 0 {
            return None;
        }
        let (mut start, mut size) = (std::ptr::null_mut::<c_void>(), 0);
        let failed = libc::pthread_attr_getstack(&raw const attributes, &raw mut start, &raw mut size) != 0;
        libc::pthread_attr_destroy(&raw mut attributes);
        (!failed).then_some((start as usize, start as usize + size))
    }
}

/// Prepare for a fork: exclude new readers of the linker's list, and wait briefly for a current one.
pub(crate) fn before_fork() {
    FORKING.fetch_add(1, Ordering::SeqCst);
    let since = Instant::now();
    while READING.load(Ordering::SeqCst) && since.elapsed() < MAX_FORK_WAIT {
        // The reader may need this processor.
        std::thread::yield_now();
    }
}

/// Allow reads of the library list again in the parent after a fork.
pub(crate) fn after_fork() {
    FORKING.fetch_sub(1, Ordering::SeqCst);
}

/// Reset the locks of the library list in a forked child, in which no thread reads the list.
pub(crate) fn forked() {
    FORKING.store(0, Ordering::SeqCst);
    READING.store(false, Ordering::SeqCst);
    READERS.forked();
    if RENEWING.swap(false, Ordering::SeqCst) {
        // The list may be partly changed: its entries are leaked.
        FORMER.store(std::ptr::null_mut(), Ordering::Release);
    }
}

#[cfg(test)]
mod reloads;
#[cfg(test)]
mod small_stacks;

#[cfg(test)]
mod tests {
    use super::{
        FORKING, NativeStack, READING, RENEWING, Registers, Segment, WalkEnd, module_at, read_list, stack_bounds, start,
    };
    use crate::python::Memory;
    use std::ffi::{c_int, c_void};
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::{Duration, Instant};

    unsafe extern "C" {
        fn _Unwind_Backtrace(each: unsafe extern "C" fn(*mut c_void, *mut c_void) -> c_int, data: *mut c_void)
        -> c_int;
        fn _Unwind_GetIP(context: *mut c_void) -> usize;
    }

    unsafe extern "C" fn each(context: *mut c_void, data: *mut c_void) -> c_int {
        // SAFETY: `data` is the vector below, `context` is valid during the call.
        unsafe { (*data.cast::<Vec<usize>>()).push(_Unwind_GetIP(context)) };
        0
    }

    /// Return addresses by libgcc, innermost first, for comparison.
    fn libgcc_frames() -> Vec<usize> {
        let mut truth = Vec::new();
        // SAFETY: the callback uses `data` with its real type.
        unsafe { _Unwind_Backtrace(each, (&raw mut truth).cast()) };
        // The list ends with a null.
        truth.retain(|&address| address != 0);
        truth
    }

    #[inline(never)]
    fn deep(depth: u32, check: &mut dyn FnMut()) -> u32 {
        if depth == 0 {
            check();
            return 0;
        }
        std::hint::black_box(deep(depth - 1, check)) + 1
    }

    #[test]
    fn frames_equal_those_of_libgcc() {
        start().unwrap();
        let mut stack = NativeStack::new();
        for depth in [1, 20, 60] {
            deep(depth, &mut || {
                let (_, end) = stack_bounds().unwrap();
                let ended = stack.walk_segment(&Segment { at: Registers::here(), from: 0, bounds: [0, 0], end });
                assert_eq!(ended, Some(WalkEnd::AtRoot));
                // Our addresses are those of the last byte of a call.
                let ours: Vec<usize> = stack.frames().iter().skip(1).map(|address| address + 1).collect();
                let truth = libgcc_frames();
                let common =
                    ours.iter().rev().zip(truth.iter().rev()).take_while(|(ours, truth)| ours == truth).count();
                assert!(common + 4 > truth.len() && common + 1 >= ours.len(), "{common} of {ours:x?} {truth:x?}");
                assert!(common > depth as usize);

                let ended = stack.walk_interrupted_segment(Registers::here(), [0, 0], Memory::of_this_thread());
                assert_eq!(ended, Some(WalkEnd::AtRoot));
                let safe: Vec<usize> = stack.frames().iter().skip(1).map(|address| address + 1).collect();
                assert_eq!(safe, ours);
                assert!(stack.frames().iter().all(|&address| module_at(address).is_some()));
            });
        }
    }

    #[test]
    fn unwinding_stops_at_the_bound() {
        start().unwrap();
        let mut stack = NativeStack::new();
        let mark = std::hint::black_box(0_u64);
        deep(9, &mut || {
            let (start, end) = stack_bounds().unwrap();
            let bound = &raw const mark as usize;
            assert!((start..end).contains(&bound));
            let ended = stack.walk_segment(&Segment { at: Registers::here(), from: 0, bounds: [bound, 0], end });
            assert_eq!(ended, Some(WalkEnd::AtBound));
            assert!((10..16).contains(&stack.frames().len()), "{}", stack.frames().len());
            let frames = stack.frames().to_vec();
            let ended = stack.walk_interrupted_segment(Registers::here(), [bound, 0], Memory::of_this_thread());
            assert_eq!((ended, &frames[1..]), (Some(WalkEnd::AtBound), &stack.frames()[1..]));
            // Only the frames beyond another address.
            let inner = Registers::here().sp + 64;
            assert_eq!(
                stack.walk_segment(&Segment { at: Registers::here(), from: inner, bounds: [bound, end], end }),
                Some(WalkEnd::AtBound)
            );
            assert!(!stack.frames().is_empty() && frames[1..].ends_with(&stack.frames()[1..]));
        });
    }

    #[test]
    fn a_segment_is_walked_once() {
        start().unwrap();
        let mut stack = NativeStack::new();
        let mark = std::hint::black_box(0_u64);
        let mut found = Vec::new();
        // A loop that is not unrolled: unrolled iterations would have different addresses.
        for depth in std::hint::black_box(vec![3, 3, 4, 4, 3]) {
            deep(depth, &mut || found.push(swap_cached_length(&mut stack, &raw const mark as usize)));
        }
        let known = cfg!(target_arch = "x86_64");
        assert_eq!(found.iter().map(Option::is_some).collect::<Vec<_>>(), [false, known, false, known, known]);
        assert!(!known || found[1] < found[3] && found[1] == found[4]);
    }

    /// Keep the length of the segment that leads here, at one address in the code. Returns the length that was kept
    /// before.
    #[inline(never)]
    fn swap_cached_length(stack: &mut NativeStack, bound: usize) -> Option<u32> {
        let (_, end) = stack_bounds().unwrap();
        let at = Registers::here();
        let segment = Segment { at, from: at.sp, bounds: [bound, 0], end };
        let kept = stack.cached_value(&segment, 1);
        stack.walk_segment(&segment);
        stack.cache_value(&segment, 1, stack.frames().len() as u32);
        kept
    }

    #[test]
    fn unwinding_stops_at_addresses_outside_functions() {
        start().unwrap();
        let mut stack = NativeStack::new();
        let here = Registers::here();
        let nowhere = Registers { pc: 0x1000, ..here };
        assert_eq!(stack.walk_interrupted_segment(nowhere, [0, 0], Memory::of_this_thread()), Some(WalkEnd::Lost));
        assert_eq!(stack.frames(), [0x1000]);
        let no_stack = Registers { sp: 0x1000, fp: 0x2000, ..here };
        assert_eq!(stack.walk_interrupted_segment(no_stack, [0, 0], Memory::of_this_thread()), Some(WalkEnd::Lost));
        assert_eq!(stack.frames().len(), 1);
    }

    #[test]
    fn forks_wait_for_readers_of_the_module_list() {
        static ENDED: AtomicBool = AtomicBool::new(false);
        // The setup of a program that reads no native frames.
        crate::fork::watch();
        let (sender, began) = std::sync::mpsc::channel();
        let reader = std::thread::spawn(move || {
            // Other tests read concurrently.
            while RENEWING.swap(true, Ordering::SeqCst) {
                std::thread::yield_now();
            }
            read_list(|| {
                sender.send(()).unwrap();
                let since = Instant::now();
                while FORKING.load(Ordering::SeqCst) == 0 && since.elapsed() < Duration::from_secs(20) {
                    std::thread::yield_now();
                }
                ENDED.store(FORKING.load(Ordering::SeqCst) > 0, Ordering::SeqCst);
            });
            RENEWING.store(false, Ordering::SeqCst);
        });
        began.recv().unwrap();
        // SAFETY: the child reads variables and ends.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let flags = [&READING, &RENEWING].map(|flag| flag.load(Ordering::SeqCst));
            let is_right = ENDED.load(Ordering::SeqCst) && FORKING.load(Ordering::SeqCst) == 0 && flags == [false; 2];
            // SAFETY: ends the child at once.
            unsafe { libc::_exit(i32::from(!is_right)) };
        }
        let mut status = -1;
        // SAFETY: writes to the variable.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        reader.join().unwrap();
        assert_eq!((status, FORKING.load(Ordering::SeqCst)), (0, 0));
    }
}
