//! Record of each sampled thread: rings, counters and scratch memory with which its signal handler writes samples.

use super::Sampler;
use super::codes::{Codes, UNKNOWN};
use super::counters::Counters;
use super::open::{InterruptedOperator, OpenOperators};
use super::ring::Ring;
use super::scratch::ScratchStack;
use super::timer::Clock;
use super::wall_time::WallTime;
use dlmonitor::native::{self, MAX_NATIVE, NativeStack, Registers, WalkEnd};
use dlmonitor::{FrameSampler, Interpreter, MAX_SAMPLED, Memory, SampledFrame, Walk};
use stackline_recording::MAX_COUNTERS;
use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// Words of a thread's ring: samples of half a second and more at usual depths, and the names of the code objects
/// that are first seen while libraries are imported. Physical memory is used only for written pages.
const SAMPLES: usize = 1 << 14;
const NAMES: usize = 1 << 17;
/// Words of a sample before its frames.
const HEAD_WORDS: usize = 5;
/// Words per module, and largest number of modules per sample.
pub(super) const MODULE: usize = 3;
const MAX_MODULES: usize = 64;

/// Counts of incomplete samples of a thread.
#[derive(Debug, Default)]
pub(super) struct IncompleteSamples {
    /// The ring was full.
    pub(super) full: AtomicU64,
    /// The Python frames were inconsistent.
    pub(super) broken: AtomicU64,
    /// Unwinding of the native frames ended early.
    pub(super) lost: AtomicU64,
    /// No stack for reading frames, or no memory for unwinding native ones.
    pub(super) no_stack: AtomicU64,
}

/// Buffers and stack readers that only the handler of the thread uses.
#[derive(Debug)]
struct Scratch {
    python: Option<FrameSampler>,
    native: Option<NativeStack>,
    words: Box<[u64]>,
}

/// Sampler's data about one thread, with the ring of its samples. Records are never freed, but reused, also in later
/// recordings.
#[derive(Debug)]
pub(super) struct ThreadRecord {
    /// The thread, 0 while the record is free.
    pub(super) tid: AtomicU32,
    /// Serial number that distinguishes the thread from earlier owners of the record.
    pub(super) serial: AtomicU32,
    /// True while the handler runs.
    pub(super) busy: AtomicBool,
    pub(super) open: AtomicPtr<OpenOperators>,
    /// Name of the thread when it was found.
    pub(super) name: Mutex<String>,
    /// Time in ns at which the thread was asked where it waits, if it has not responded yet; otherwise 0.
    pub(super) requested_ns: AtomicU64,
    /// State of its samples of wall time.
    pub(super) wall: WallTime,
    last: [AtomicU64; 3],
    pub(super) samples: Ring,
    /// Position in the ring of the first sample of the current thread.
    first_sample: AtomicU64,
    pub(super) names: Ring,
    pub(super) losses: IncompleteSamples,
    pub(super) counters: Counters,
    /// Stack on which the handler runs.
    pub(super) stack: Option<ScratchStack>,
    scratch: UnsafeCell<Scratch>,
}

// SAFETY: `scratch` is accessed by the handler of the record's own thread, which is not nested, and by the watcher
// thread while the record is free (`tid` is 0) and not busy.
unsafe impl Sync for ThreadRecord {}

impl ThreadRecord {
    /// Create a free record with its rings and stack.
    pub(super) fn new() -> Self {
        let words = vec![0; MAX_SAMPLED + MODULE * MAX_MODULES + MAX_NATIVE].into();
        Self {
            tid: AtomicU32::new(0),
            serial: AtomicU32::new(0),
            busy: AtomicBool::new(false),
            open: AtomicPtr::default(),
            name: Mutex::default(),
            requested_ns: AtomicU64::new(0),
            wall: WallTime::default(),
            last: Default::default(),
            samples: Ring::new(SAMPLES),
            first_sample: AtomicU64::new(0),
            names: Ring::new(NAMES),
            losses: IncompleteSamples::default(),
            counters: Counters::default(),
            stack: ScratchStack::new(),
            scratch: UnsafeCell::new(Scratch { python: None, native: None, words }),
        }
    }

    /// Mark the record as free for another recording, close its counters, and reset its counts of incomplete samples.
    pub(super) fn free(&self) {
        self.tid.store(0, Ordering::SeqCst);
        self.stop_counters();
        for loss in [&self.losses.full, &self.losses.broken, &self.losses.lost, &self.losses.no_stack] {
            loss.store(0, Ordering::Relaxed);
        }
    }

    /// True if a handler still uses the record, which is then not available for another thread.
    pub(super) fn is_busy(&self) -> bool {
        self.busy.load(Ordering::SeqCst)
    }

    /// Close the thread's counter files, unless its handler is running, which keeps them.
    pub(super) fn stop_counters(&self) {
        if !self.is_busy() {
            self.counters.stop();
        }
    }

    /// Position in the ring after the written samples of the current thread; `None` if the record is free. For the
    /// reader, which skips samples of an earlier recording.
    pub(super) fn end_of_samples(&self) -> Option<u64> {
        if self.tid.load(Ordering::Acquire) == 0 {
            return None;
        }
        self.samples.skip(self.first_sample.load(Ordering::Relaxed));
        Some(self.samples.end())
    }

    /// Prepare the record, which is free and not busy, for a thread, before its first timer is created. Its samples
    /// have Python frames if `interpreter` is given, and native frames if `has_native`, independent of earlier
    /// recordings.
    pub(super) fn assign(&self, tid: u32, name: String, interpreter: Option<&Interpreter>, has_native: bool) {
        *self.name.lock().unwrap_or_else(PoisonError::into_inner) = name;
        self.first_sample.store(self.samples.end(), Ordering::Relaxed);
        // SAFETY: the record is free.
        let scratch = unsafe { &mut *self.scratch.get() };
        let earlier = scratch.python.take();
        scratch.python = interpreter.and_then(|interpreter| earlier.or_else(|| FrameSampler::new(interpreter).ok()));
        if has_native && native::generation() > 0 {
            scratch.native.get_or_insert_with(NativeStack::new).prepare();
        } else {
            scratch.native = None;
        }
        if let Some(python) = &mut scratch.python {
            python.set_thread(tid);
        }
        for clock in Clock::ALL {
            self.last[clock as usize].store(clock.now(tid).unwrap_or(0), Ordering::Relaxed);
        }
        self.open.store(std::ptr::null_mut(), Ordering::Relaxed);
        self.requested_ns.store(0, Ordering::Relaxed);
        self.wall.reset();
        self.serial.fetch_add(1, Ordering::Relaxed);
        self.tid.store(tid, Ordering::Release);
    }

    /// Write a sample of the calling thread; true if it fit into the ring. It has no frames without a private stack,
    /// because the program's may be too small for reading them, and no native frames without memory for unwinding.
    ///
    /// # Safety
    /// Only the signal handler calls it, on the thread to which the record is assigned.
    pub(super) unsafe fn write_sample(&self, clock: Clock, sampler: &Sampler, at: Registers) -> bool {
        // Counts up to here belong to the code that ran, not to the wait.
        let counters = if clock == Clock::Wait { 0 } else { sampler.counting.load(Ordering::Relaxed) };
        let codes = &sampler.codes;
        let tid = self.tid.load(Ordering::Relaxed);
        let Some(now) = clock.now(tid) else { return false };
        let last = &self.last[clock as usize];
        let interval = now.saturating_sub(last.load(Ordering::Relaxed));
        // SAFETY: by contract, and the handler's signal is blocked while it runs.
        let scratch = unsafe { &mut *self.scratch.get() };
        // SAFETY: null or a leaked box.
        let operator = unsafe { self.open.load(Ordering::Acquire).as_ref() }.and_then(|open| open.innermost(tid));
        let mut found = SampleContents::default();
        let has_stack = self.stack.is_some();
        if has_stack && let (Some(interpreter), Some(python)) = (dlmonitor::interpreter(), &mut scratch.python) {
            let walk = python.walk(interpreter, operator.and_then(|operator| operator.python));
            found = self.write_python_frames(codes, interpreter, python, &mut scratch.words);
            found.walk = walk;
        }
        let is_incomplete = match &mut scratch.native {
            Some(native) if has_stack && native.is_ready() => {
                let mark = scratch.python.as_ref().map_or(0, FrameSampler::stack_mark);
                let bounds = [mark, operator.map_or(0, |operator| operator.handle)];
                let ended = native.walk_interrupted_segment(at, bounds, Memory::of_thread(tid));
                self.append_native_frames(ended, native.frames(), &mut found, &mut scratch.words);
                false
            }
            Some(_) => true,
            None => !has_stack && scratch.python.is_some(),
        };
        self.losses.no_stack.fetch_add(is_incomplete.into(), Ordering::Relaxed);
        let (mut counts, mut totals) = ([0; MAX_COUNTERS], [0; MAX_COUNTERS]);
        let counts = counts.get_mut(..counters).unwrap_or(&mut []);
        self.counters.read(counts, &mut totals);
        found.counters = counts.len() as u8;
        found.openmp = sampler.is_openmp(at.pc);
        let head = self.make_head(clock, operator, &mut found);
        let waited = if clock == Clock::Wall { self.wall.take_waited() } else { 0 };
        let times = Times { interval, waited, at: dlmonitor::clock::ticks() };
        let parts = [&head.pack(times), scratch.words.get(..found.words).unwrap_or(&[]), counts];
        let has_room = self.samples.push(&parts);
        if has_room {
            // The time of a dropped sample becomes a part of the next interval.
            last.store(now, Ordering::Relaxed);
            if clock != Clock::Wait {
                self.counters.restart_interval(&totals, counters);
            }
        } else {
            self.wall.add_waited(waited);
            self.losses.full.fetch_add(1, Ordering::Relaxed);
        }
        has_room
    }

    /// Write the Python frames of the last walk to `words`, followed by the modules that they call.
    fn write_python_frames(
        &self,
        codes: &Codes,
        interpreter: &Interpreter,
        python: &mut FrameSampler,
        words: &mut [u64],
    ) -> SampleContents {
        let depth = python.frames().len();
        let mut found = SampleContents { frames: depth, words: depth, ..SampleContents::default() };
        for index in 0..depth {
            let Some(&frame) = python.frames().get(index) else { break };
            let number = self.code_number(codes, interpreter, python, frame);
            if let Some(word) = words.get_mut(index) {
                *word = u64::from(number) << 32 | u64::from(frame.offset);
            }
            if frame.module != 0
                && let Some(words) = words.get_mut(found.words..found.words + MODULE)
            {
                words.copy_from_slice(&[index as u64, frame.module as u64, frame.class as u64]);
                found.words += MODULE;
                found.modules += 1;
            }
        }
        found
    }

    /// Append the addresses of native frames to the words of a sample, and count them in `found`.
    fn append_native_frames(
        &self,
        ended: Option<WalkEnd>,
        frames: &[usize],
        found: &mut SampleContents,
        words: &mut [u64],
    ) {
        if ended == Some(WalkEnd::Lost) {
            self.losses.lost.fetch_add(1, Ordering::Relaxed);
        }
        for (word, &address) in words.get_mut(found.words..).unwrap_or(&mut []).iter_mut().zip(frames) {
            *word = address as u64;
            found.native += 1;
        }
        found.words += usize::from(found.native);
    }

    /// Attribute the wall time since the last interval to the thread's last sample; `now` in ns.
    pub(super) fn extend_last_sample(&self, now: u64) {
        let last = self.last[Clock::Wall as usize].swap(now, Ordering::Relaxed);
        self.wall.add_waited(now.saturating_sub(last));
    }

    /// Set the time in ns from which the next sample's interval of this clock counts.
    pub(super) fn restart_interval(&self, clock: Clock, now: u64) {
        self.last[clock as usize].store(now, Ordering::Relaxed);
    }

    /// Restart the intervals of a clock and of the counters without a sample, because nothing is recorded now.
    pub(super) fn skip_interval(&self, clock: Clock, counters: usize) {
        let (mut counts, mut totals) = ([0; MAX_COUNTERS], [0; MAX_COUNTERS]);
        self.counters.read(counts.get_mut(..counters).unwrap_or(&mut []), &mut totals);
        self.counters.restart_interval(&totals, counters);
        if let Some(now) = clock.now(self.tid.load(Ordering::Relaxed)) {
            self.restart_interval(clock, now);
        }
    }

    /// Build the first part of a sample from the results of the stack walks and the open operator.
    fn make_head(&self, clock: Clock, operator: Option<InterruptedOperator>, found: &mut SampleContents) -> Head {
        let mut operator = operator;
        match found.walk {
            Walk::Broken => {
                self.losses.broken.fetch_add(1, Ordering::Relaxed);
            }
            // The frame that opened a span has returned, so its common frames with this path are unknown.
            Walk::NotReached => operator = None,
            // The frame that called an operator is above it already. For a span it continues to run.
            Walk::Whole if operator.is_some_and(|operator| operator.python.is_some() && !operator.span) => {
                found.caller = true;
            }
            Walk::Nothing | Walk::Whole | Walk::Cut => {}
        }
        Head {
            clock,
            python: found.frames as u32,
            modules: found.modules,
            native: found.native,
            counters: found.counters,
            cut: found.walk == Walk::Cut,
            caller: found.caller,
            openmp: found.openmp,
            operator: operator.map(|operator| (operator.tree, operator.node)),
        }
    }

    /// Id of a frame's code object. The names of a new one are passed on first; [`UNKNOWN`] if there is no space.
    fn code_number(
        &self,
        codes: &Codes,
        interpreter: &Interpreter,
        python: &mut FrameSampler,
        frame: SampledFrame,
    ) -> u32 {
        let code = frame.code as u64;
        if let Some(number) = codes.find(code, frame.fingerprint) {
            return number;
        }
        let Some(words) = python.copy_code(interpreter, &frame) else { return UNKNOWN };
        if !self.names.has_room(words.len() + 2) {
            return UNKNOWN;
        }
        let Some(number) = codes.reserve(code, frame.fingerprint) else { return UNKNOWN };
        self.names.push(&[&[u64::from(number)], words]);
        codes.publish(number);
        number
    }
}

/// Contents of a sample that the handler is writing: result of the Python walk, and numbers of frames, modules and
/// counters.
#[derive(Clone, Copy, Debug)]
struct SampleContents {
    walk: Walk,
    frames: usize,
    modules: u8,
    native: u16,
    counters: u8,
    /// Total number of words.
    words: usize,
    caller: bool,
    openmp: bool,
}

impl Default for SampleContents {
    fn default() -> Self {
        Self {
            walk: Walk::Nothing,
            frames: 0,
            modules: 0,
            native: 0,
            counters: 0,
            words: 0,
            caller: false,
            openmp: false,
        }
    }
}

/// First part of a sample, before its frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) clock: Clock,
    /// Number of Python frames that follow, newest first.
    pub(super) python: u32,
    /// Number of modules that follow: index of the calling frame, address, address of the class.
    pub(super) modules: u8,
    /// Number of native addresses that follow, innermost first.
    pub(super) native: u16,
    /// Number of counter values at the end, at most 31.
    pub(super) counters: u8,
    /// True if older frames are missing.
    pub(super) cut: bool,
    /// True if the oldest frame is the one that called the operator, which is above it already.
    pub(super) caller: bool,
    /// True if the thread was in an OpenMP library.
    pub(super) openmp: bool,
    /// Tree and node of the innermost operator.
    pub(super) operator: Option<(u32, u32)>,
}

/// Times of a sample: the interval that it represents, the wait before it, and its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Times {
    /// Time that the sample represents, in ns of its clock.
    pub(super) interval: u64,
    /// Time in ns that the thread waited before, at the call path of the last sample of this clock.
    pub(super) waited: u64,
    /// Time of the sample, in ticks.
    pub(super) at: u64,
}

impl Head {
    /// Encode the first part of a sample and its times as words, which [`Self::unpack`] decodes.
    fn pack(self, times: Times) -> [u64; HEAD_WORDS] {
        let operator = self.operator.map_or(u64::MAX, |(tree, node)| u64::from(tree) << 32 | u64::from(node));
        let flags = u64::from(self.cut) << 1 | u64::from(self.caller) << 2 | u64::from(self.counters & 31) << 3;
        [
            flags
                | u64::from(self.modules) << 8
                | u64::from(self.native) << 16
                | u64::from(self.python) << 32
                | (self.clock as u64) << 61
                | u64::from(self.openmp) << 63,
            times.interval,
            times.waited,
            operator,
            times.at,
        ]
    }

    /// Decode the words of a sample to its first part, its times, and the remaining words (frames, modules, counters).
    pub(super) fn unpack(words: &[u64]) -> Option<(Self, Times, &[u64])> {
        let [facts, interval, waited, operator, at, frames @ ..] = words else { return None };
        let head = Self {
            clock: Clock::from_number(facts >> 61 & 3),
            python: (facts >> 32) as u32 & (u32::MAX >> 3),
            modules: (facts >> 8) as u8,
            native: (facts >> 16) as u16,
            counters: (facts >> 3) as u8 & 31,
            cut: facts & 2 != 0,
            caller: facts & 4 != 0,
            openmp: facts >> 63 != 0,
            operator: (*operator != u64::MAX).then_some(((operator >> 32) as u32, *operator as u32)),
        };
        Some((head, Times { interval: *interval, waited: *waited, at: *at }, frames))
    }
}

#[cfg(test)]
mod tests {
    use super::{Clock, Head, Times};

    #[test]
    fn sample_heads_survive_packing() {
        for operator in [None, Some((3, 70_000))] {
            let head = Head {
                clock: if operator.is_some() { Clock::Wait } else { Clock::Wall },
                python: 2,
                modules: 200,
                native: 60_000,
                counters: 8,
                cut: true,
                caller: false,
                openmp: operator.is_some(),
                operator,
            };
            let times = Times { interval: 12, waited: 56, at: 34 };
            let words = [head.pack(times).as_slice(), &[1, 2]].concat();
            assert_eq!(Head::unpack(&words), Some((head, times, [1, 2].as_slice())));
        }
        assert_eq!(Head::unpack(&[1, 2]), None);
    }
}
