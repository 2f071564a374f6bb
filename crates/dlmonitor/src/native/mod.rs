//! Native frames: the functions of C and C++ between operators and Python frames.
//!
//! Unwinding is `framehop`'s, on the unwind tables that every library carries; it neither allocates nor locks. Symbols
//! are not looked up here: an address in a library is what a frame is.

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
pub use stack::{Ended, MAX_NATIVE, NativeStack, Registers};

/// The modules that are known; null as long as native frames are off.
static CURRENT: AtomicPtr<Snapshot> = AtomicPtr::new(std::ptr::null_mut());
/// Those who read it, signal handlers among them: old snapshots are freed once all have left.
static READERS: Gate = Gate::new();
/// The number of the current snapshot, which is known without reading it.
static GENERATION: AtomicU32 = AtomicU32::new(0);
/// One thread renews it at a time, and frees what is old.
static RENEWING: AtomicBool = AtomicBool::new(false);
static OLD: AtomicPtr<Old> = AtomicPtr::new(std::ptr::null_mut());
/// The list of the dynamic linker is being read: a child that is forked meanwhile would find it locked for ever.
static READING: AtomicBool = AtomicBool::new(false);
static FORKING: AtomicU32 = AtomicU32::new(0);

/// How long a fork waits for the list to be read, which takes some 50 µs, and more where its thread waits for a processor.
const PATIENCE: Duration = Duration::from_millis(200);

/// Stack of the calling thread that reading native frames may take in a synchronous walk: where less is left there are none.
pub const LEAST_STACK: usize = 64 << 10;

/// A snapshot that was current, and those before it.
struct Old {
    snapshot: Box<Snapshot>,
    next: Option<Box<Old>>,
}

/// Whether native frames are on.
fn is_on() -> bool {
    !CURRENT.load(Ordering::Acquire).is_null()
}

/// Reads the current snapshot, if there is one. For signal handlers, too.
#[inline]
fn with_current<R>(read: impl FnOnce(&Snapshot) -> R) -> Option<R> {
    let _inside = READERS.enter();
    // SAFETY: null, or a leaked box that is freed after it was replaced and all readers have left.
    unsafe { CURRENT.load(Ordering::SeqCst).as_ref() }.map(read)
}

/// Reads native frames from now on.
pub(crate) fn start() -> Result<String, String> {
    if !is_on() {
        if !Memory::of_this_thread().works() {
            return Err("the kernel does not let the process read itself safely".into());
        }
        find_modules();
    }
    spares::refill();
    let modules = with_current(|snapshot| snapshot.modules.len());
    let modules = modules.ok_or("the libraries of the process cannot be listed")?;
    Ok(format!("{modules} libraries"))
}

/// Looks for libraries that were loaded or unloaded since the last time, if native frames are on, and makes what threads with small stacks
/// cannot make ([`NativeStack::prepare`]). Cheap if nothing is to be done; not for signal handlers.
pub fn renew() {
    if is_on() {
        find_modules();
        spares::refill();
    }
}

/// Where libraries lie whose file names pass a test, unless no library was loaded or unloaded since `changes` said the same;
/// not for signal handlers.
pub fn ranges_of(changes: &mut (u64, u64), test: impl Fn(&str) -> bool) -> Option<Vec<std::ops::Range<usize>>> {
    // One reader at a time: who forks waits for it.
    if RENEWING.swap(true, Ordering::SeqCst) {
        return None;
    }
    let now = reading(modules::changes).filter(|now| now != changes);
    let list = now.and_then(|_| reading(modules::list));
    RENEWING.store(false, Ordering::SeqCst);
    *changes = now.filter(|_| list.is_some())?;
    Some(modules::ranges(&list?, test))
}

fn find_modules() {
    if RENEWING.swap(true, Ordering::SeqCst) {
        return;
    }
    // SAFETY: null, or a leaked box that only this thread may replace and free at the moment.
    let before = unsafe { CURRENT.load(Ordering::Acquire).as_ref() };
    if before.is_none_or(|before| reading(modules::changes).is_some_and(|changes| changes != before.changes))
        && let Some(list) = reading(modules::list)
    {
        let new = before.unwrap_or(&Snapshot::empty()).renewed(list, &Memory::of_this_thread());
        let generation = new.generation;
        let old = CURRENT.swap(Box::into_raw(Box::new(new)), Ordering::SeqCst);
        // Afterwards: what is remembered by this number is of this snapshot or a later one.
        GENERATION.store(generation, Ordering::Release);
        if !old.is_null() {
            // SAFETY: it was leaked above, at an earlier time, and is in the list once.
            let (snapshot, next) = unsafe { (Box::from_raw(old), take_old()) };
            OLD.store(Box::into_raw(Box::new(Old { snapshot, next })), Ordering::Release);
        }
    }
    free_old();
    RENEWING.store(false, Ordering::SeqCst);
}

/// The snapshots that were current, newest first. For the thread that renews.
///
/// # Safety
/// `RENEWING` is the caller's.
unsafe fn take_old() -> Option<Box<Old>> {
    let old = OLD.swap(std::ptr::null_mut(), Ordering::AcqRel);
    // SAFETY: null, or a box that was leaked into the list and is taken out once.
    (!old.is_null()).then(|| unsafe { Box::from_raw(old) })
}

/// Frees old snapshots if nobody reads any, and with them the tables of libraries that are gone. Otherwise the next time.
fn free_old() {
    if !OLD.load(Ordering::Acquire).is_null() && READERS.is_left() {
        // SAFETY: only the thread that renews comes here.
        let mut old = unsafe { take_old() };
        while let Some(first) = old {
            let Old { snapshot, next } = *first;
            drop(snapshot);
            old = next;
        }
    }
}

/// Reads the dynamic linker's list, unless the process is being forked; `fork` calls the functions below for that, from
/// `init` on, whether native frames are read or not.
fn reading<R>(read: impl FnOnce() -> R) -> Option<R> {
    READING.store(true, Ordering::SeqCst);
    let result = (FORKING.load(Ordering::SeqCst) == 0).then(read);
    READING.store(false, Ordering::SeqCst);
    result
}

/// The module that an address lies in.
#[must_use]
pub fn module_at(address: usize) -> Option<Arc<Module>> {
    with_current(|snapshot| snapshot.find(address).cloned())?
}

/// A number that changes whenever modules do.
#[must_use]
#[inline]
pub fn generation() -> u32 {
    GENERATION.load(Ordering::Acquire)
}

/// Where a segment of native frames lies that leads to an operator.
#[derive(Clone, Copy, Debug)]
pub struct Segment {
    /// Where to begin: somewhere below the operator.
    pub at: Registers,
    /// The operator's handle.
    pub from: usize,
    /// What may be around it: another operator, the interpreter ([`crate::Interpreter::stack_mark`]). Addresses that
    /// are not beyond the operator are none.
    pub bounds: [usize; 2],
    /// Where the stack ends.
    pub end: usize,
}

impl Segment {
    #[inline]
    fn bound(&self) -> usize {
        let [a, b] = self.bounds.map(|bound| if bound > self.from { bound } else { usize::MAX });
        a.min(b).min(self.end)
    }
}

impl NativeStack {
    /// The value of [`Self::keep`] for the segment that lies here now, if it is the one that was kept.
    #[inline]
    pub fn kept(&mut self, segment: &Segment, hint: u64) -> Option<u32> {
        let generation = Some(generation()).filter(|&generation| generation > 0)?;
        self.recall(generation, hint, segment.at.sp, segment.from, segment.bound())
    }

    /// Walks a segment. `None` if native frames are off, or [`Self::prepare`] said that it cannot.
    pub fn above(&mut self, segment: &Segment) -> Option<Ended> {
        with_current(|snapshot| self.walk(snapshot, segment.at, segment.from, segment.bound(), segment.end))?
    }

    /// Keeps a value for the segment that was walked last, so that it need not be walked again where `hint` is the
    /// same.
    pub fn keep(&mut self, segment: &Segment, hint: u64, value: u32) {
        let generation = generation();
        if generation > 0 {
            self.remember(generation, hint, segment.at.sp, segment.from, segment.bound(), value);
        }
    }

    /// Frames of a thread that a signal interrupted, up to the nearest of `bounds`, or to the root. For its handler.
    /// `None` if native frames are off, or it is not ready.
    pub fn interrupted(&mut self, at: Registers, bounds: [usize; 2], memory: Memory) -> Option<Ended> {
        let nearest = bounds.into_iter().filter(|&bound| bound > at.sp).min().unwrap_or(usize::MAX);
        with_current(|snapshot| self.walk_interrupted(snapshot, at, nearest, memory))?
    }
}

/// The lowest and the highest address of the calling thread's stack. Not for signal handlers.
#[must_use]
pub fn stack_bounds() -> Option<(usize, usize)> {
    // SAFETY: every structure is initialised by the call that is given it, and destroyed afterwards.
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

/// The process is about to be forked: waits for who reads the linker's list, and keeps others away.
pub(crate) fn before_fork() {
    FORKING.fetch_add(1, Ordering::SeqCst);
    let since = Instant::now();
    while READING.load(Ordering::SeqCst) && since.elapsed() < PATIENCE {
        // Who reads may need this very processor.
        std::thread::yield_now();
    }
}

/// It was forked; in the parent.
pub(crate) fn after_fork() {
    FORKING.fetch_sub(1, Ordering::SeqCst);
}

/// It was forked; in the child, where nobody reads any more.
pub(crate) fn forked() {
    FORKING.store(0, Ordering::SeqCst);
    READING.store(false, Ordering::SeqCst);
    READERS.forked();
    if RENEWING.swap(false, Ordering::SeqCst) {
        // The list may be half changed: what is in it stays.
        OLD.store(std::ptr::null_mut(), Ordering::Release);
    }
}

#[cfg(test)]
mod reloads;
#[cfg(test)]
mod small_stacks;

#[cfg(test)]
mod tests {
    use super::{
        Ended, FORKING, NativeStack, READING, RENEWING, Registers, Segment, module_at, reading, stack_bounds, start,
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

    /// Return addresses by libgcc, innermost first.
    fn truth() -> Vec<usize> {
        let mut truth = Vec::new();
        // SAFETY: the callback uses `data` as what it is.
        unsafe { _Unwind_Backtrace(each, (&raw mut truth).cast()) };
        // It ends with a null.
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
    fn frames_are_those_of_libgcc() {
        start().unwrap();
        let mut stack = NativeStack::new();
        for depth in [1, 20, 60] {
            deep(depth, &mut || {
                let (_, end) = stack_bounds().unwrap();
                let ended = stack.above(&Segment { at: Registers::here(), from: 0, bounds: [0, 0], end });
                assert_eq!(ended, Some(Ended::AtRoot));
                // Ours are of the last byte of a call.
                let ours: Vec<usize> = stack.frames().iter().skip(1).map(|address| address + 1).collect();
                let truth = truth();
                let common =
                    ours.iter().rev().zip(truth.iter().rev()).take_while(|(ours, truth)| ours == truth).count();
                assert!(common + 4 > truth.len() && common + 1 >= ours.len(), "{common} of {ours:x?} {truth:x?}");
                assert!(common > depth as usize);

                let ended = stack.interrupted(Registers::here(), [0, 0], Memory::of_this_thread());
                assert_eq!(ended, Some(Ended::AtRoot));
                let safe: Vec<usize> = stack.frames().iter().skip(1).map(|address| address + 1).collect();
                assert_eq!(safe, ours);
                assert!(stack.frames().iter().all(|&address| module_at(address).is_some()));
            });
        }
    }

    #[test]
    fn a_bound_ends_a_walk() {
        start().unwrap();
        let mut stack = NativeStack::new();
        let mark = std::hint::black_box(0_u64);
        deep(9, &mut || {
            let (start, end) = stack_bounds().unwrap();
            let bound = &raw const mark as usize;
            assert!((start..end).contains(&bound));
            let ended = stack.above(&Segment { at: Registers::here(), from: 0, bounds: [bound, 0], end });
            assert_eq!(ended, Some(Ended::AtBound));
            assert!((10..16).contains(&stack.frames().len()), "{}", stack.frames().len());
            let frames = stack.frames().to_vec();
            let ended = stack.interrupted(Registers::here(), [bound, 0], Memory::of_this_thread());
            assert_eq!((ended, &frames[1..]), (Some(Ended::AtBound), &stack.frames()[1..]));
            // Only what lies beyond another place.
            let inner = Registers::here().sp + 64;
            assert_eq!(
                stack.above(&Segment { at: Registers::here(), from: inner, bounds: [bound, end], end }),
                Some(Ended::AtBound)
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
        // A loop that is not unrolled: each turn would be a place of its own.
        for depth in std::hint::black_box(vec![3, 3, 4, 4, 3]) {
            deep(depth, &mut || found.push(look(&mut stack, &raw const mark as usize)));
        }
        let known = cfg!(target_arch = "x86_64");
        assert_eq!(found.iter().map(Option::is_some).collect::<Vec<_>>(), [false, known, false, known, known]);
        assert!(!known || found[1] < found[3] && found[1] == found[4]);
    }

    /// Keeps the length of the segment that leads here, from one place in the code. Returns what was kept before.
    #[inline(never)]
    fn look(stack: &mut NativeStack, bound: usize) -> Option<u32> {
        let (_, end) = stack_bounds().unwrap();
        let at = Registers::here();
        let segment = Segment { at, from: at.sp, bounds: [bound, 0], end };
        let kept = stack.kept(&segment, 1);
        stack.above(&segment);
        stack.keep(&segment, 1, stack.frames().len() as u32);
        kept
    }

    #[test]
    fn what_is_no_function_is_not_believed() {
        start().unwrap();
        let mut stack = NativeStack::new();
        let here = Registers::here();
        let nowhere = Registers { pc: 0x1000, ..here };
        assert_eq!(stack.interrupted(nowhere, [0, 0], Memory::of_this_thread()), Some(Ended::Lost));
        assert_eq!(stack.frames(), [0x1000]);
        let no_stack = Registers { sp: 0x1000, fp: 0x2000, ..here };
        assert_eq!(stack.interrupted(no_stack, [0, 0], Memory::of_this_thread()), Some(Ended::Lost));
        assert_eq!(stack.frames().len(), 1);
    }

    #[test]
    fn a_fork_waits_for_the_list_to_be_read() {
        static ENDED: AtomicBool = AtomicBool::new(false);
        // All that a program does that reads no native frames.
        crate::fork::watch();
        let (sender, began) = std::sync::mpsc::channel();
        let reader = std::thread::spawn(move || {
            // Other tests read, too.
            while RENEWING.swap(true, Ordering::SeqCst) {
                std::thread::yield_now();
            }
            reading(|| {
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
