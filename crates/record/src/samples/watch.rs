//! The thread that finds the threads of the program and gives each its timer.
//!
//! It looks at `/proc/self/task` from time to time instead of being told: threads come from Python, from C++ and from
//! libraries that nobody knows of, and none of them has to run a line of ours for it.

use super::open::Open;
use super::record::ThreadRecord;
use super::timer::{Clock, Timer};
use super::waits::{self, Waiting};
use super::wall::Asked;
use super::{Sampler, handler, lock, signal};
use dlmonitor::native;
use std::collections::HashSet;
use std::io;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// How long a thread may run without being noticed.
const INTERVAL: Duration = Duration::from_millis(50);

/// Looks between two checks whether a thread blocks its signals.
const CHECK: u32 = 20;

/// Checks after which a thread counts as one that blocks its signals: many do for a moment, as when they start another one.
const LASTS: u32 = 4;

/// Our own threads have names that begin like this.
const OURS: &str = "stackline";

#[derive(Debug)]
pub(super) struct Thread {
    pub(super) tid: u32,
    pub(super) record: usize,
    /// Its CPU time when it was looked at last: a thread that used less is another one with the same number.
    used: u64,
    pub(super) waiting: Waiting,
    pub(super) asked: Asked,
    /// Checks since it blocks its signals, 0 while it does not. It has no timer then.
    closed: u32,
    timer: Option<Timer>,
}

/// Threads that are sampled.
#[derive(Debug, Default)]
pub(super) struct Watched {
    pub(super) threads: Vec<Thread>,
    ours: HashSet<u32>,
    /// Threads without a record, as all records have threads. A number of these is not another thread's: no system starts as many threads
    /// as it has numbers between two looks.
    refused: HashSet<u32>,
    /// Records whose threads ended, but whose samples were not taken out yet.
    pub(super) ended: Vec<usize>,
    /// Records for the next threads.
    pub(super) free: Vec<usize>,
    pub(super) stopped: bool,
    /// Signal number of the timers.
    signal: i32,
    looks: u32,
}

/// Whether a library of this name is OpenMP's.
fn is_openmp(file: &str) -> bool {
    ["libgomp", "libiomp", "libomp"].iter().any(|name| file.starts_with(name))
}

/// What is to be done so often in a second.
struct Due {
    every: Option<Duration>,
    next: Instant,
}

impl Due {
    /// `hz` times a second; 0 is never.
    fn new(hz: u32) -> Self {
        Self { every: (hz > 0).then(|| Duration::from_secs(1) / hz), next: Instant::now() }
    }

    /// Whether it is time again. What was missed is not made up for.
    fn is_due(&mut self) -> bool {
        let (Some(every), now) = (self.every, Instant::now()) else { return false };
        // The pause between two looks is never quite as long as asked for.
        let is_due = now + every / 10 >= self.next;
        if is_due {
            self.next = now.max(self.next) + every;
        }
        is_due
    }
}

impl Thread {
    /// Whether it blocks the sampler's signals.
    pub(super) fn is_closed(&self) -> bool {
        self.closed > 0
    }

    /// Makes its timer anew.
    pub(super) fn renew_timer(&mut self, sampler: &Sampler, signal: i32) {
        self.timer = None;
        self.timer = sampler.make_timer(signal, self);
    }
}

impl Watched {
    pub(super) fn stop(&mut self) {
        self.stopped = true;
        self.threads.clear();
    }

    /// Does nothing for a while: no thread is asked, and none has a timer.
    pub(super) fn hold(&mut self) {
        self.stopped = true;
        self.threads.iter_mut().for_each(|thread| thread.timer = None);
    }

    /// Goes on after [`Self::hold`].
    pub(super) fn go_on(&mut self, sampler: &Sampler) {
        self.stopped = false;
        self.threads.iter_mut().for_each(|thread| thread.renew_timer(sampler, self.signal));
    }
}

impl Sampler {
    pub(super) fn spawn_watcher(&'static self) -> io::Result<()> {
        dlmonitor::without_signals(|| {
            std::thread::Builder::new().name("stackline-cpu".into()).stack_size(256 << 10).spawn(move || self.watch())
        })
        .map(drop)
    }

    fn watch(&self) {
        // Libraries that were loaded and unloaded when they were looked at last.
        let mut libraries = (0, 0);
        let pause = match self.rates.waits.max(self.rates.real) {
            0 => INTERVAL,
            hz => INTERVAL.min(Duration::from_secs(1) / hz),
        };
        let mut looked: Option<Instant> = None;
        let (mut waits, mut wall_time) = (Due::new(self.rates.waits), Due::new(self.rates.real));
        let mut stopped = lock(&self.stopped);
        while !*stopped {
            drop(stopped);
            if looked.is_none_or(|looked| looked.elapsed() >= INTERVAL) {
                looked = Some(Instant::now());
                // No lock of ours is held while the linker's is taken: who ends the recording waits for ours.
                if let Some(ranges) = native::ranges_of(&mut libraries, is_openmp) {
                    self.set_openmp(&ranges);
                }
                self.look();
                native::renew();
            }
            if waits.is_due() {
                self.look_for_waits();
            }
            if wall_time.is_due() {
                self.look_at_wall_time();
            }
            stopped = lock(&self.stopped);
            if !*stopped {
                stopped = self.wake.wait_timeout(stopped, pause).unwrap_or_else(PoisonError::into_inner).0;
            }
        }
    }

    /// Finds threads that began or ended.
    fn look(&self) {
        let Ok(tasks) = std::fs::read_dir("/proc/self/task") else { return };
        let tids: HashSet<u32> = tasks.flatten().filter_map(|task| task.file_name().to_str()?.parse().ok()).collect();
        let mut watched = lock(&self.watched);
        let watched = &mut *watched;
        if watched.stopped {
            return;
        }
        watched.ours.retain(|tid| tids.contains(tid));
        watched.refused.retain(|tid| tids.contains(tid));
        let ended = &mut watched.ended;
        watched.threads.retain_mut(|thread| {
            let used = Clock::Cpu.now(thread.tid).filter(|_| tids.contains(&thread.tid));
            let lives = used.is_some_and(|used| used >= std::mem::replace(&mut thread.used, used));
            if !lives {
                ended.push(thread.record);
            }
            lives
        });
        self.keep_signal(watched);
        let mut new: Vec<u32> = tids.into_iter().filter(|tid| !watched.ours.contains(tid)).collect();
        let known: HashSet<u32> = watched.threads.iter().map(|thread| thread.tid).collect();
        new.retain(|tid| !known.contains(tid));
        new.sort_unstable();
        self.begin_all(watched, &new);
        self.check_masks(watched);
        self.find_operators(watched);
    }

    /// Begins with threads that have no record. Those for which there is none are looked at again once there is.
    fn begin_all(&self, watched: &mut Watched, new: &[u32]) {
        let mut room = watched.free.len() + self.records.len() - self.all_records().count();
        for &tid in new {
            let was_refused = watched.refused.contains(&tid);
            // Gone already, if it has no name.
            let Some(name) = (room > 0 || !was_refused).then(|| thread_name(tid)).flatten() else { continue };
            if name.starts_with(OURS) {
                watched.ours.insert(tid);
            } else if let Some(thread) = self.begin(watched, tid, name) {
                watched.refused.remove(&tid);
                watched.threads.push(thread);
                room = room.saturating_sub(1);
            } else {
                watched.refused.insert(tid);
                self.over_limit.fetch_add(u64::from(!was_refused), Ordering::Relaxed);
            }
        }
    }

    /// Makes sure that the handler is installed. If the program took its number, all timers are made anew with another one.
    fn keep_signal(&self, watched: &mut Watched) {
        let signal = signal::keep(handler::handle).unwrap_or(0);
        self.unsignaled.fetch_add(u64::from(signal == 0), Ordering::Relaxed);
        if std::mem::replace(&mut watched.signal, signal) != signal {
            // Signals of the old number that are pending already cannot be called back.
            watched.threads.iter_mut().for_each(|thread| thread.timer = None);
            self.signal.store(signal, Ordering::Release);
            for thread in &mut watched.threads {
                thread.renew_timer(self, signal);
            }
        }
    }

    /// A thread that blocks all signals expects no interruption: it has a timer only while it does not.
    fn check_masks(&self, watched: &mut Watched) {
        watched.looks = watched.looks.wrapping_add(1);
        let checks_all = watched.looks.is_multiple_of(CHECK);
        let Watched { threads, ours, ended, signal, .. } = watched;
        threads.retain_mut(|thread| {
            if thread.closed == 0 && !checks_all {
                return true;
            }
            let before = thread.closed;
            thread.closed = if waits::is_closed(thread.tid, *signal) { before.saturating_add(1) } else { 0 };
            if (before == 0) != (thread.closed == 0) {
                thread.renew_timer(self, *signal);
            }
            if thread.closed != LASTS {
                return true;
            }
            // Our own threads block all signals, and have their names soon after they began.
            let is_ours = thread_name(thread.tid).is_some_and(|name| name.starts_with(OURS));
            if is_ours {
                ours.insert(thread.tid);
                ended.push(thread.record);
            }
            self.closed.fetch_add(u64::from(!is_ours), Ordering::Relaxed);
            !is_ours
        });
    }

    /// Gives a thread its timer; none if there is no record for it.
    fn begin(&self, watched: &mut Watched, tid: u32, name: String) -> Option<Thread> {
        let index = watched.free.pop().or_else(|| self.make_record())?;
        let record = self.record(index)?;
        record.assign(tid, name);
        record.counters.start(&self.counters, tid);
        let closed = u32::from(waits::is_closed(tid, watched.signal));
        let (waiting, asked) = (Waiting::default(), Asked::default());
        let mut thread = Thread { tid, record: index, used: 0, waiting, asked, closed, timer: None };
        thread.timer = self.make_timer(watched.signal, &thread);
        Some(thread)
    }

    /// The timer of a thread's CPU time; none without a signal, or for a thread that blocks its signals.
    fn make_timer(&self, signal: i32, thread: &Thread) -> Option<Timer> {
        let is_wanted = self.rates.cpu > 0 && signal != 0 && !thread.is_closed();
        let record = self.record(thread.record).filter(|_| is_wanted)?;
        let value = handler::value(thread.record, record.serial.load(Ordering::Relaxed), Clock::Cpu);
        let timer = Timer::start(thread.tid, signal, value, self.rates.cpu);
        self.refused.fetch_add(u64::from(timer.is_err()), Ordering::Relaxed);
        timer.ok()
    }

    fn make_record(&self) -> Option<usize> {
        let index = self.records.iter().position(|record| record.load(Ordering::Relaxed).is_null())?;
        let record = Box::leak(Box::new(ThreadRecord::new(dlmonitor::interpreter())));
        self.records.get(index)?.store(record, Ordering::Release);
        Some(index)
    }

    /// Tells handlers where the recorder writes the operators of their threads.
    fn find_operators(&self, watched: &Watched) {
        for thread in &watched.threads {
            let Some(record) = self.record(thread.record) else { continue };
            if record.open.load(Ordering::Relaxed).is_null()
                && let Some(open) = Open::of_thread(thread.tid)
            {
                record.open.store(std::ptr::from_ref(open).cast_mut(), Ordering::Release);
            }
        }
    }
}

/// Name of a thread of this process, `None` if it is gone.
pub(super) fn thread_name(tid: u32) -> Option<String> {
    let name = std::fs::read(format!("/proc/self/task/{tid}/comm")).ok()?;
    Some(String::from_utf8_lossy(name.trim_ascii_end()).into_owned())
}
