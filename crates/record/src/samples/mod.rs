//! CPU and wall-clock samples of all threads of this process.
//!
//! A thread of ours looks for threads of the program and gives each a timer of its CPU time ([`watch`]); for samples of wall-clock time
//! it asks them itself ([`wall`]), and where they wait ([`waits`]). The signal interrupts the thread, whose handler writes where it is
//! into a ring ([`handler`], [`record`]). The writer of the stream takes the samples out and puts them into trees of their own
//! ([`resolve`]): the trees of the operators belong to their threads.
//!
//! A process has one sampler, and uses it for one recording after the other: late signals may come to its handler at any time, so
//! nothing that the handler touches is ever freed, and everything is used again.

mod codes;
pub(crate) mod counters;
mod handler;
mod open;
mod record;
mod resolve;
mod ring;
mod scratch;
mod signal;
mod timer;
mod waits;
mod wall;
mod watch;

pub(crate) use open::Open;

use crate::process::{Kept, Process};
use codes::Codes;
use record::ThreadRecord;
use resolve::Resolver;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use watch::Watched;

/// Threads that are sampled at once.
const MAX_THREADS: usize = 1024;

/// Libraries of OpenMP that a process has at most: `PyTorch` brings its own, and so do others.
const OPENMP: usize = 4;

/// How long to wait for handlers that run.
const PATIENCE: Duration = Duration::from_millis(20);

/// The sampler of this process, null if there is none. It lives for ever: a signal may come at any time.
static CURRENT: AtomicPtr<Sampler> = AtomicPtr::new(std::ptr::null_mut());

/// How often to look, per second of each clock; 0 is never.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Rates {
    /// Of the CPU time of a thread.
    pub(crate) cpu: u32,
    /// Of wall-clock time. It interrupts waiting threads, too, when a wait begins and then ever more rarely: calls that the system does
    /// not restart fail with `EINTR`.
    pub(crate) real: u32,
    /// How often threads that run operators are looked at, whether they wait. Those that do in calls that the system restarts are asked
    /// where; no others are interrupted.
    pub(crate) waits: u32,
}

/// How one recording is sampled.
#[derive(Debug, Default)]
struct Settings {
    rates: Rates,
    /// Counters that are read with each sample.
    counters: Vec<u16>,
    /// What is to be said of them, and of those that are missing.
    remarks: String,
    /// Whether samples have Python frames, and native ones.
    python: bool,
    native: bool,
}

/// What the watching thread is to do.
#[derive(Debug, Default)]
struct Course {
    /// `None`: nothing, and the thread ends.
    rates: Option<Rates>,
    /// The recording that is sampled, or was last ([`Process::number`]).
    recording: usize,
    /// Whether there is a watching thread.
    is_watched: bool,
}

/// What samples the threads of one process.
#[derive(Debug)]
pub(crate) struct Sampler {
    /// A forked child has its parent's sampler until it makes its own.
    process: u32,
    /// Signal number of the timers; 0 until the watching thread has installed the handler, and where no number is free.
    signal: AtomicI32,
    records: Box<[AtomicPtr<ThreadRecord>]>,
    codes: Codes,
    /// Handlers leave at once.
    paused: AtomicBool,
    watched: Mutex<Watched>,
    course: Mutex<Course>,
    wake: Condvar,
    resolver: Mutex<Resolver>,
    /// Where the libraries of OpenMP lie: begin and end of each; 0 for none.
    openmp: [[AtomicUsize; 2]; OPENMP],
    /// Threads that got no timer of their CPU time, each once.
    refused: AtomicU64,
    /// Looks at which no signal number was free.
    unsignaled: AtomicU64,
    /// Threads that were found to block their signals.
    closed: AtomicU64,
    /// Looks that found a thread waiting in a call that is not interrupted.
    unasked: AtomicU64,
    /// How many counters handlers read with each sample.
    counting: AtomicUsize,
    /// Threads for which there was no record, as [`MAX_THREADS`] others had theirs.
    over_limit: AtomicU64,
    /// Counters of threads that got no file.
    without_file: AtomicU64,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Samples all threads of this process from now on, for one recording.
///
/// # Errors
/// A sentence that says why nothing is sampled.
pub(crate) fn start(process: &Process, rates: Rates, counters: &[u16]) -> Result<String, String> {
    Open::forget_all();
    let own = Sampler::own();
    if own.is_none() {
        // A forked child has files of its parent's, and none of its handlers.
        for (_, record) in Sampler::current().into_iter().flat_map(Sampler::all_records) {
            record.counters.stop();
        }
    }
    if rates == Rates::default() {
        return Err("off".into());
    }
    let can_see_waits = rates.waits == 0 || waits::can_be_seen();
    let rates = if can_see_waits { rates } else { Rates { waits: 0, ..rates } };
    let counters::Available { counters, mut remarks } = counters::available(counters);
    if !can_see_waits {
        remarks.push_str("; waits cannot be seen here (/proc/self/task/*/syscall)");
    }
    let Kept { python, native, .. } = process.kept();
    let settings = Arc::new(Settings { rates, counters, remarks, python, native });
    let sampler = own.unwrap_or_else(Sampler::make);
    sampler.begin_recording(process, &settings).map_err(|error| format!("cannot start a thread: {error}"))?;
    Ok(sampler.describe(&settings))
}

/// Puts what was sampled since the last time into trees of `process`. Returns what there is to say by now; nothing if it is not
/// sampled, or another recording is by now.
pub(crate) fn drain(process: &Process) -> Option<String> {
    let sampler = Sampler::own()?;
    let settings = lock(&sampler.resolver).drain(sampler, process)?;
    Some(sampler.describe(&settings))
}

/// Threads that were not sampled in this recording, as too many others were; `None` if it is not sampled, or another recording is by now.
pub(crate) fn over_limit(process: &Process) -> Option<u64> {
    let sampler = Sampler::own()?;
    let is_sampled = lock(&sampler.resolver).recording() == process.number();
    is_sampled.then(|| sampler.over_limit.load(Ordering::Relaxed))
}

/// Asks no thread for samples any more, until [`go_on`].
pub(crate) fn hold() {
    if let Some(sampler) = Sampler::own() {
        lock(&sampler.watched).hold();
    }
}

/// Lets the calling thread take the signals of ours that wait for it. None comes after it, once [`hold`] was called.
pub(crate) fn settle() {
    if let Some(sampler) = Sampler::own() {
        signal::take_pending(sampler.signal.load(Ordering::Acquire), handler::is_ours);
    }
}

/// Asks threads for samples again.
pub(crate) fn go_on() {
    if let Some(sampler) = Sampler::own().filter(|sampler| lock(&sampler.course).rates.is_some()) {
        lock(&sampler.watched).go_on(sampler);
    }
}

/// Deletes all timers of a recording. The handler stays: a signal may be under way.
pub(crate) fn stop(process: &Process) {
    let Some(sampler) = Sampler::own() else { return };
    {
        let mut course = lock(&sampler.course);
        if course.recording != process.number() {
            return;
        }
        course.rates = None;
        sampler.wake.notify_all();
    }
    sampler.paused.store(true, Ordering::SeqCst);
    lock(&sampler.watched).stop();
    sampler.wait_for_handlers();
    sampler.all_records().for_each(|(_, record)| record.stop_counters());
}

/// Frees the trees of a recording that ended.
pub(crate) fn forget(process: &Process) {
    if let Some(sampler) = Sampler::own() {
        let mut resolver = lock(&sampler.resolver);
        if resolver.recording() == process.number() {
            resolver.begin(0, Arc::default());
        }
    }
}

impl Sampler {
    /// The sampler of a process that has none.
    fn make() -> &'static Self {
        let sampler: &'static Self = Box::leak(Box::new(Self {
            process: std::process::id(),
            signal: AtomicI32::new(0),
            records: (0..MAX_THREADS).map(|_| AtomicPtr::default()).collect(),
            codes: Codes::new(),
            paused: AtomicBool::new(true),
            watched: Mutex::default(),
            course: Mutex::default(),
            wake: Condvar::new(),
            resolver: Mutex::default(),
            openmp: Default::default(),
            refused: AtomicU64::new(0),
            unsignaled: AtomicU64::new(0),
            closed: AtomicU64::new(0),
            unasked: AtomicU64::new(0),
            counting: AtomicUsize::new(0),
            over_limit: AtomicU64::new(0),
            without_file: AtomicU64::new(0),
        }));
        CURRENT.store(std::ptr::from_ref(sampler).cast_mut(), Ordering::Release);
        sampler
    }

    /// Begins a recording. What belonged to the one before goes, and its records are free.
    fn begin_recording(&'static self, process: &Process, settings: &Arc<Settings>) -> io::Result<()> {
        let mut resolver = lock(&self.resolver);
        resolver.begin(process.number(), Arc::clone(settings));
        {
            let mut watched = lock(&self.watched);
            watched.begin(Arc::clone(settings));
            // Whoever counts holds the lock: nothing of the recording before comes in.
            for count in self.counts() {
                count.store(0, Ordering::Relaxed);
            }
            for (index, record) in self.all_records() {
                record.free();
                watched.free.push(index);
            }
        }
        let mut course = lock(&self.course);
        (course.rates, course.recording) = (Some(settings.rates), process.number());
        if !course.is_watched {
            if let Err(error) = self.spawn_watcher() {
                course.rates = None;
                return Err(error);
            }
            course.is_watched = true;
        }
        self.wake.notify_all();
        self.counting.store(settings.counters.len(), Ordering::Relaxed);
        self.paused.store(false, Ordering::SeqCst);
        Ok(())
    }

    /// What was left out in this recording.
    fn counts(&self) -> [&AtomicU64; 6] {
        [&self.refused, &self.unsignaled, &self.closed, &self.unasked, &self.over_limit, &self.without_file]
    }

    /// The sampler that signals belong to.
    fn current() -> Option<&'static Self> {
        // SAFETY: null, or a leaked box.
        unsafe { CURRENT.load(Ordering::Acquire).as_ref() }
    }

    /// The sampler of this very process: the locks of a parent may be held for ever.
    fn own() -> Option<&'static Self> {
        Self::current().filter(|sampler| sampler.process == std::process::id())
    }

    /// Waits a little for handlers that run; `true` if none does any more. Those that begin stay away while `paused`.
    fn wait_for_handlers(&self) -> bool {
        let since = Instant::now();
        while self.all_records().any(|(_, record)| record.busy.load(Ordering::SeqCst)) {
            if since.elapsed() > PATIENCE {
                return false;
            }
            std::thread::yield_now();
        }
        true
    }

    fn record(&self, index: usize) -> Option<&'static ThreadRecord> {
        // SAFETY: null, or a leaked box.
        unsafe { self.records.get(index)?.load(Ordering::Acquire).as_ref() }
    }

    /// All records that were ever made, with their numbers.
    fn all_records(&self) -> impl Iterator<Item = (usize, &'static ThreadRecord)> {
        (0..self.records.len()).map_while(|index| self.record(index).map(|record| (index, record)))
    }

    /// Whether an address lies in a library of OpenMP.
    fn is_openmp(&self, address: usize) -> bool {
        let holds = |[begin, end]: &[AtomicUsize; 2]| {
            (begin.load(Ordering::Relaxed)..end.load(Ordering::Relaxed)).contains(&address)
        };
        self.openmp.iter().any(holds)
    }

    /// Says where the libraries of OpenMP lie. A handler may see the begin of one and the end of another meanwhile: then one sample
    /// is said to be what it is not.
    fn set_openmp(&self, ranges: &[std::ops::Range<usize>]) {
        for (index, [begin, end]) in self.openmp.iter().enumerate() {
            let range = ranges.get(index).cloned().unwrap_or_default();
            end.store(0, Ordering::Relaxed);
            begin.store(range.start, Ordering::Relaxed);
            end.store(range.end, Ordering::Relaxed);
        }
    }

    /// One line: how samples are taken and what was left out.
    fn describe(&self, settings: &Settings) -> String {
        let Rates { cpu, real, waits } = settings.rates;
        let rates = [("CPU time", cpu), ("wall-clock time", real), ("waits", waits)];
        let taken = rates.into_iter().filter(|&(_, hz)| hz > 0).map(|(name, hz)| format!("{name} at {hz} Hz"));
        let mut line = taken.collect::<Vec<_>>().join(", ");
        line.push_str(&settings.remarks);
        let sum = |of: fn(&ThreadRecord) -> u64| self.all_records().map(|(_, record)| of(record)).sum::<u64>();
        let losses = [
            (sum(|record| record.losses.full.load(Ordering::Relaxed)), "samples found no room in memory"),
            (
                sum(|record| record.losses.broken.load(Ordering::Relaxed)),
                "samples have no Python frames, as these were just changing",
            ),
            (
                sum(|record| record.losses.lost.load(Ordering::Relaxed)),
                "samples have no native frame but the innermost one, as the rest could not be unwound",
            ),
            (
                sum(|record| record.losses.no_stack.load(Ordering::Relaxed)),
                "samples have no native frames, for want of memory to unwind them",
            ),
            (self.refused.load(Ordering::Relaxed), "threads got no timer of CPU time"),
            (self.unsignaled.load(Ordering::Relaxed), "checks for threads found no free signal number"),
            (self.closed.load(Ordering::Relaxed), "threads block all signals and were not sampled meanwhile"),
            (self.unasked.load(Ordering::Relaxed), "checks for waits found calls that must not be interrupted"),
            (self.over_limit.load(Ordering::Relaxed), "threads were not sampled, as 1,024 others were"),
            (self.without_file.load(Ordering::Relaxed), "counters of threads got no file"),
        ];
        for (count, what) in losses {
            if count > 0 {
                line.push_str(&format!("; {count} {what}"));
            }
        }
        line
    }
}
