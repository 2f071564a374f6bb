//! CPU and wall-clock samples of all threads of this process.
//!
//! A watcher thread finds the threads of the program and gives each a CPU timer ([`watch`]). For samples of wall time
//! ([`wall`]) and of waits ([`waits`]) it sends signals itself. The handler in the interrupted thread writes the call
//! path into a ring ([`handler`], [`record`]). The writer of the stream takes the samples and adds them to separate
//! trees ([`resolve`]), because the trees of operators belong to their threads.
//!
//! A process has one sampler, which successive recordings reuse. Late signals may reach its handler at any time, so
//! memory that the handler accesses is never freed, but reused.

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
mod waiting;
mod waits;
mod wall;
mod wall_time;
mod watch;
mod watched;

pub(crate) use open::OpenOperators;

use crate::process::{ExtraData, Process};
use codes::Codes;
use record::ThreadRecord;
use resolve::Resolver;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use watched::Watched;

/// Largest number of threads that are sampled at the same time.
const MAX_THREADS: usize = 1024;

/// Largest number of OpenMP libraries in a process: `PyTorch` has its own, and so do other packages.
const MAX_OPENMP_LIBRARIES: usize = 4;

/// Longest wait for running handlers.
const MAX_HANDLER_WAIT: Duration = Duration::from_millis(20);

/// The sampler of this process, null without one; never freed, because a signal may arrive at any time.
static CURRENT: AtomicPtr<Sampler> = AtomicPtr::new(std::ptr::null_mut());

/// Sampling rates in Hz; 0 disables a clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Rates {
    /// Rate of a thread's CPU time.
    pub(crate) cpu: u32,
    /// Rate of wall time. It also interrupts waiting threads, at the begin of a wait and then at growing intervals:
    /// system calls that are not restarted fail with `EINTR`.
    pub(crate) wall: u32,
    /// Rate of the checks if threads that run operators are waiting. Those that wait in a restartable system call are
    /// sampled by a signal; others are not interrupted.
    pub(crate) waits: u32,
}

/// Settings of one recording.
#[derive(Debug, Default)]
struct Settings {
    rates: Rates,
    /// Counters that are read with each sample.
    counters: Vec<u16>,
    /// Text about these counters and about missing ones.
    remarks: String,
    /// True if samples have Python frames, and true if they have native frames.
    python: bool,
    native: bool,
}

/// Task that the watcher thread is given: sampling rates, and the recording.
#[derive(Debug, Default)]
struct WatcherTask {
    /// `None`: the thread ends.
    rates: Option<Rates>,
    /// Number of the current or last recording ([`Process::number`]).
    recording: usize,
    /// True if the watcher thread exists.
    is_watched: bool,
}

/// Sampler of the threads of one process.
#[derive(Debug)]
pub(crate) struct Sampler {
    /// Id of its process. A forked child has its parent's sampler until it creates its own.
    process: u32,
    /// True if samples are recorded now. Signal-safe, and never panics.
    records_now: fn() -> bool,
    /// Signal number of the timers; 0 until the watcher thread has installed the handler, and if no number is free.
    signal: AtomicI32,
    records: Box<[AtomicPtr<ThreadRecord>]>,
    codes: Codes,
    /// While true, handlers return at once.
    paused: AtomicBool,
    watched: Mutex<Watched>,
    task: Mutex<WatcherTask>,
    wake: Condvar,
    resolver: Mutex<Resolver>,
    /// Address ranges of the OpenMP libraries, 0 for none.
    openmp: [[AtomicUsize; 2]; MAX_OPENMP_LIBRARIES],
    /// Number of threads without CPU timer.
    refused: AtomicU64,
    /// Number of checks at which no signal number was free.
    unsignaled: AtomicU64,
    /// Number of threads that block their signals.
    closed: AtomicU64,
    /// Number of checks that found a thread waiting in a system call that must not be interrupted.
    uninterruptible: AtomicU64,
    /// Number of counters that handlers read with each sample.
    counting: AtomicUsize,
    /// Number of threads without record, because [`MAX_THREADS`] others had one.
    over_limit: AtomicU64,
    /// Number of counters of threads without file.
    without_file: AtomicU64,
}

/// Lock a mutex whose holders never panic.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Start to sample all threads of this process for one recording, and return a description of the sampling.
/// `records_now`: true if samples are recorded now. Signal handlers call it, so it must be signal-safe and must not
/// panic. All recordings of a process must pass the same function.
///
/// # Errors
/// A sentence with the reason why nothing is sampled.
pub(crate) fn start(
    process: &Process,
    rates: Rates,
    counters: &[u16],
    records_now: fn() -> bool,
) -> Result<String, String> {
    OpenOperators::forget_all();
    let own = Sampler::current_of_this_process();
    if own.is_none() {
        // A forked child inherits its parent's files, but no running handlers.
        for (_, record) in Sampler::current().into_iter().flat_map(Sampler::all_records) {
            record.counters.stop();
        }
    }
    if rates == Rates::default() {
        return Err("off".into());
    }
    let can_see_waits = rates.waits == 0 || waiting::can_read_system_calls();
    let rates = if can_see_waits { rates } else { Rates { waits: 0, ..rates } };
    let counters::Available { counters, mut remarks } = counters::available(counters);
    if !can_see_waits {
        remarks.push_str("; waits are not sampled, because /proc/self/task/*/syscall is not readable");
    }
    let ExtraData { python, native, .. } = process.extra_data();
    let settings = Arc::new(Settings { rates, counters, remarks, python, native });
    let sampler = own.unwrap_or_else(|| Sampler::create(records_now));
    sampler.begin_recording(process, &settings).map_err(|error| format!("cannot start a thread: {error}"))?;
    Ok(sampler.describe(&settings))
}

/// Add the new samples to trees of `process`. Returns a description of the sampling; `None` if it is not sampled, or
/// if another recording has begun.
pub(crate) fn drain(process: &Process) -> Option<String> {
    let sampler = Sampler::current_of_this_process()?;
    let settings = lock(&sampler.resolver).drain(sampler, process)?;
    Some(sampler.describe(&settings))
}

/// Number of threads that were not sampled in this recording, because of the limit; `None` if it is not sampled, or
/// if another recording has begun.
pub(crate) fn over_limit(process: &Process) -> Option<u64> {
    let sampler = Sampler::current_of_this_process()?;
    let is_sampled = lock(&sampler.resolver).recording() == process.number();
    is_sampled.then(|| sampler.over_limit.load(Ordering::Relaxed))
}

/// Stop requests for samples of all threads before an `exec`, until [`resume_all`].
pub(crate) fn pause_all() {
    if let Some(sampler) = Sampler::current_of_this_process() {
        lock(&sampler.watched).pause_all();
    }
}

/// Consume the pending sampler signals of the calling thread. After [`pause_all`], no more follow.
pub(crate) fn consume_pending_signals() {
    if let Some(sampler) = Sampler::current_of_this_process() {
        signal::take_pending(sampler.signal.load(Ordering::Acquire), handler::is_from_sampler);
    }
}

/// Resume requests for samples of all threads after [`pause_all`].
pub(crate) fn resume_all() {
    if let Some(sampler) = Sampler::current_of_this_process().filter(|sampler| lock(&sampler.task).rates.is_some()) {
        lock(&sampler.watched).resume_all(sampler);
    }
}

/// Stop sampling for a recording: delete its timers, end the watcher thread, and close the counters; no effect if
/// another recording is sampled. The handler remains, because a signal may be pending.
pub(crate) fn stop(process: &Process) {
    let Some(sampler) = Sampler::current_of_this_process() else { return };
    {
        let mut task = lock(&sampler.task);
        if task.recording != process.number() {
            return;
        }
        task.rates = None;
        sampler.wake.notify_all();
    }
    sampler.paused.store(true, Ordering::SeqCst);
    lock(&sampler.watched).stop();
    sampler.wait_for_handlers();
    sampler.all_records().for_each(|(_, record)| record.stop_counters());
}

/// Free the sampler's data about a recording that has ended.
pub(crate) fn forget(process: &Process) {
    if let Some(sampler) = Sampler::current_of_this_process() {
        let mut resolver = lock(&sampler.resolver);
        if resolver.recording() == process.number() {
            resolver.begin(0, Arc::default());
        }
    }
}

impl Sampler {
    /// Create the sampler of this process, and make it current. Nothing is sampled yet.
    fn create(records_now: fn() -> bool) -> &'static Self {
        let sampler: &'static Self = Box::leak(Box::new(Self {
            process: std::process::id(),
            records_now,
            signal: AtomicI32::new(0),
            records: (0..MAX_THREADS).map(|_| AtomicPtr::default()).collect(),
            codes: Codes::new(),
            paused: AtomicBool::new(true),
            watched: Mutex::default(),
            task: Mutex::default(),
            wake: Condvar::new(),
            resolver: Mutex::default(),
            openmp: Default::default(),
            refused: AtomicU64::new(0),
            unsignaled: AtomicU64::new(0),
            closed: AtomicU64::new(0),
            uninterruptible: AtomicU64::new(0),
            counting: AtomicUsize::new(0),
            over_limit: AtomicU64::new(0),
            without_file: AtomicU64::new(0),
        }));
        CURRENT.store(std::ptr::from_ref(sampler).cast_mut(), Ordering::Release);
        sampler
    }

    /// Begin to sample for a recording, and start the watcher thread if needed. Data of the previous recording are
    /// dropped, and its records are freed.
    fn begin_recording(&'static self, process: &Process, settings: &Arc<Settings>) -> io::Result<()> {
        let mut resolver = lock(&self.resolver);
        resolver.begin(process.number(), Arc::clone(settings));
        {
            let mut watched = lock(&self.watched);
            watched.begin(Arc::clone(settings));
            // All counting threads hold the lock, so no counts of the previous recording are added.
            for count in self.counts() {
                count.store(0, Ordering::Relaxed);
            }
            for (index, record) in self.all_records() {
                record.free();
                watched.free.push(index);
            }
        }
        let mut task = lock(&self.task);
        (task.rates, task.recording) = (Some(settings.rates), process.number());
        if !task.is_watched {
            if let Err(error) = self.spawn_watcher() {
                task.rates = None;
                return Err(error);
            }
            task.is_watched = true;
        }
        self.wake.notify_all();
        self.counting.store(settings.counters.len(), Ordering::Relaxed);
        self.paused.store(false, Ordering::SeqCst);
        Ok(())
    }

    /// Counters of omitted samples and threads of this recording, which are reset at its begin.
    fn counts(&self) -> [&AtomicU64; 6] {
        [&self.refused, &self.unsignaled, &self.closed, &self.uninterruptible, &self.over_limit, &self.without_file]
    }

    /// Sampler of CPU and wall time whose handler receives the signals, possibly a parent process's.
    fn current() -> Option<&'static Self> {
        // SAFETY: null, or a leaked box.
        unsafe { CURRENT.load(Ordering::Acquire).as_ref() }
    }

    /// The sampler of this process itself, `None` if it has none yet: locks of a parent process may be locked forever.
    fn current_of_this_process() -> Option<&'static Self> {
        Self::current().filter(|sampler| sampler.process == std::process::id())
    }

    /// Wait briefly until no signal handler is writing a sample; `false` at the time limit. While `paused` is set, new
    /// handlers return at once.
    fn wait_for_handlers(&self) -> bool {
        let since = Instant::now();
        while self.all_records().any(|(_, record)| record.busy.load(Ordering::SeqCst)) {
            if since.elapsed() > MAX_HANDLER_WAIT {
                return false;
            }
            std::thread::yield_now();
        }
        true
    }

    /// Thread record with this number; `None` if it was never created.
    fn record(&self, index: usize) -> Option<&'static ThreadRecord> {
        // SAFETY: null, or a leaked box.
        unsafe { self.records.get(index)?.load(Ordering::Acquire).as_ref() }
    }

    /// All thread records so far, free ones included, with their numbers.
    fn all_records(&self) -> impl Iterator<Item = (usize, &'static ThreadRecord)> {
        (0..self.records.len()).map_while(|index| self.record(index).map(|record| (index, record)))
    }

    /// True if an address is in an OpenMP library.
    fn is_openmp(&self, address: usize) -> bool {
        let holds = |[begin, end]: &[AtomicUsize; 2]| {
            (begin.load(Ordering::Relaxed)..end.load(Ordering::Relaxed)).contains(&address)
        };
        self.openmp.iter().any(holds)
    }

    /// Set the address ranges of the OpenMP libraries. A handler may read a mix of old and new ranges; then one
    /// sample is misclassified.
    fn set_openmp(&self, ranges: &[std::ops::Range<usize>]) {
        for (index, [begin, end]) in self.openmp.iter().enumerate() {
            let range = ranges.get(index).cloned().unwrap_or_default();
            end.store(0, Ordering::Relaxed);
            begin.store(range.start, Ordering::Relaxed);
            end.store(range.end, Ordering::Relaxed);
        }
    }

    /// One-line description of the rates, counters and numbers of omitted samples, for the state of the data source.
    fn describe(&self, settings: &Settings) -> String {
        let Rates { cpu, wall, waits } = settings.rates;
        let rates = [("CPU time", cpu), ("wall time", wall), ("waits", waits)];
        let taken = rates.into_iter().filter(|&(_, hz)| hz > 0).map(|(name, hz)| format!("{name} at {hz} Hz"));
        let mut line = taken.collect::<Vec<_>>().join(", ");
        line.push_str(&settings.remarks);
        let sum =
            |counter: fn(&ThreadRecord) -> u64| self.all_records().map(|(_, record)| counter(record)).sum::<u64>();
        let losses = [
            (
                sum(|record| record.losses.full.load(Ordering::Relaxed)),
                "samples were dropped, because the buffer was full",
            ),
            (
                sum(|record| record.losses.broken.load(Ordering::Relaxed)),
                "samples have no Python frames, because the call stack was changing at that moment",
            ),
            (
                sum(|record| record.losses.lost.load(Ordering::Relaxed)),
                "samples have only the innermost native frame, because unwinding failed",
            ),
            (
                sum(|record| record.losses.no_stack.load(Ordering::Relaxed)),
                "samples lack native frames or all frames, because there was no memory for reading the stack",
            ),
            (
                self.refused.load(Ordering::Relaxed),
                "threads have no CPU-time samples, because the system refused to create a timer",
            ),
            (
                self.unsignaled.load(Ordering::Relaxed),
                "checks of the sampler found no free signal number, so no thread was sampled until the next check",
            ),
            (self.closed.load(Ordering::Relaxed), "threads blocked all signals and were not sampled during that time"),
            (
                self.uninterruptible.load(Ordering::Relaxed),
                "waits were not sampled, because the sampling signal would have ended their system call early",
            ),
            (
                self.over_limit.load(Ordering::Relaxed),
                "threads were not sampled, because the limit of 1,024 sampled threads was reached",
            ),
            (
                self.without_file.load(Ordering::Relaxed),
                "threads have no values of performance counters, because the system refused to open them",
            ),
        ];
        for (count, what) in losses {
            if count > 0 {
                line.push_str(&format!("; {count} {what}"));
            }
        }
        line
    }
}
