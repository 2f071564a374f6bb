//! Watcher thread: finds the threads of the program and gives each its timer.
//!
//! The thread reads `/proc/self/task` periodically. Threads come from Python, from C++ and from unknown libraries, and none
//! of them has to run code of the recorder.

use super::open::OpenOperators;
use super::record::ThreadRecord;
use super::timer::Clock;
use super::waiting::{self, Waiting};
use super::wall_time::WallRequest;
use super::watched::{Thread, Watched, count_unless_ended};
use super::{Sampler, handler, lock, signal};
use dlmonitor::native;
use std::collections::HashSet;
use std::io;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Interval of the checks for new threads.
const INTERVAL: Duration = Duration::from_millis(50);

/// Number of checks between two checks if a thread blocks its signals.
const CHECK_EVERY: u32 = 20;

/// Number of such checks after which a thread counts as blocking its signals: many threads do so briefly, for example
/// to start a thread.
const MAX_BLOCKED_CHECKS: u32 = 4;

/// Stack of the watcher thread. It builds the unwinder caches of handlers itself, for which 256 KiB must be left: it
/// holds locks that other threads wait for, so it must not wait for another thread. Physical memory is used only for
/// accessed pages.
const STACK_BYTES: usize = 1 << 20;

/// Prefix of the names of the recorder's threads.
const THREAD_PREFIX: &str = "stackline";

/// True for the file name of an OpenMP library.
fn is_openmp(file: &str) -> bool {
    ["libgomp", "libiomp", "libomp"].iter().any(|name| file.starts_with(name))
}

/// Schedule of a periodic task.
struct Schedule {
    every: Option<Duration>,
    next: Instant,
}

impl Schedule {
    /// Create the schedule of a task with a rate of `hz`, due at once; 0 is never.
    fn new(hz: u32) -> Self {
        Self { every: (hz > 0).then(|| Duration::from_secs(1) / hz), next: Instant::now() }
    }

    /// True if the task is due; then its next time is set. Missed times are skipped.
    fn is_due(&mut self) -> bool {
        let (Some(every), now) = (self.every, Instant::now()) else { return false };
        // The pause between two checks is never exactly as long as requested.
        let is_due = now + every / 10 >= self.next;
        if is_due {
            self.next = now.max(self.next) + every;
        }
        is_due
    }
}

/// Tasks of the watcher thread in one recording, with their schedules.
struct WatcherTasks {
    recording: usize,
    pause: Duration,
    last_update: Option<Instant>,
    waits: Schedule,
    wall_time: Schedule,
}

impl Sampler {
    /// Start the watcher thread, which no signal of the program can reach.
    pub(super) fn spawn_watcher(&'static self) -> io::Result<()> {
        dlmonitor::without_signals(|| {
            std::thread::Builder::new()
                .name("stackline-cpu".into())
                .stack_size(STACK_BYTES)
                .spawn(move || self.run_watcher())
        })
        .map(drop)
    }

    /// Loop of the watcher thread: update threads and libraries, and sample waits and wall time, each at its rate.
    fn run_watcher(&self) {
        // Numbers of loads and unloads at the last check of the libraries.
        let mut libraries = (0, 0);
        let mut beat = None;
        while let Some(mut next) = self.next_tasks(beat) {
            if next.last_update.is_none_or(|looked| looked.elapsed() >= INTERVAL) {
                next.last_update = Some(Instant::now());
                // Release our lock while the linker's is taken: a thread that ends the recording waits for ours.
                if let Some(ranges) = native::ranges_of(&mut libraries, is_openmp) {
                    self.set_openmp(&ranges);
                }
                self.update_threads();
                native::renew();
            }
            if next.waits.is_due() {
                self.sample_waiting_threads();
            }
            if next.wall_time.is_due() {
                self.sample_wall_time();
            }
            beat = Some(next);
        }
    }

    /// Wait until the watcher thread's next check, and return its schedules, which are new for another recording;
    /// `None` if the thread is to end.
    fn next_tasks(&self, last: Option<WatcherTasks>) -> Option<WatcherTasks> {
        let mut task = lock(&self.task);
        if let Some(last) = &last
            && task.rates.is_some()
            && task.recording == last.recording
        {
            task = self.wake.wait_timeout(task, last.pause).unwrap_or_else(PoisonError::into_inner).0;
        }
        let Some(rates) = task.rates else {
            task.is_watched = false;
            return None;
        };
        Some(last.filter(|last| last.recording == task.recording).unwrap_or_else(|| WatcherTasks {
            recording: task.recording,
            pause: match rates.waits.max(rates.wall) {
                0 => INTERVAL,
                hz => INTERVAL.min(Duration::from_secs(1) / hz),
            },
            last_update: None,
            waits: Schedule::new(rates.waits),
            wall_time: Schedule::new(rates.wall),
        }))
    }

    /// Update the list of sampled threads by the threads of the program that began or ended.
    fn update_threads(&self) {
        let Ok(tasks) = std::fs::read_dir("/proc/self/task") else { return };
        let tids: HashSet<u32> = tasks.flatten().filter_map(|task| task.file_name().to_str()?.parse().ok()).collect();
        let mut watched = lock(&self.watched);
        let watched = &mut *watched;
        if watched.stopped {
            return;
        }
        watched.recorder_threads.retain(|tid| tids.contains(tid));
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
        let mut new: Vec<u32> = tids.into_iter().filter(|tid| !watched.recorder_threads.contains(tid)).collect();
        let known: HashSet<u32> = watched.threads.iter().map(|thread| thread.tid).collect();
        new.retain(|tid| !known.contains(tid));
        new.sort_unstable();
        self.begin_all(watched, &new);
        self.check_masks(watched);
        self.find_operators(watched);
    }

    /// Begin to sample new threads. Threads for which there is no record are checked again when a record is free.
    fn begin_all(&self, watched: &mut Watched, new: &[u32]) {
        let mut room = watched.free.len() + self.records.len() - self.all_records().count();
        for &tid in new {
            let was_refused = watched.refused.contains(&tid);
            // Already ended if it has no name.
            let Some(name) = (room > 0 || !was_refused).then(|| thread_name(tid)).flatten() else { continue };
            if name.starts_with(THREAD_PREFIX) {
                watched.recorder_threads.insert(tid);
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

    /// Ensure that the handler is installed. If the program took its number, all timers are created again with
    /// another one.
    fn keep_signal(&self, watched: &mut Watched) {
        let signal = signal::ensure_installed(handler::handle).unwrap_or(0);
        self.unsignaled.fetch_add(u64::from(signal == 0), Ordering::Relaxed);
        if std::mem::replace(&mut watched.signal, signal) != signal {
            // Pending signals with the old number cannot be revoked.
            watched.threads.iter_mut().for_each(|thread| thread.timer = None);
            self.signal.store(signal, Ordering::Release);
            for thread in &mut watched.threads {
                thread.renew_timer(self, signal, watched.settings.rates.cpu);
            }
        }
    }

    /// Delete or renew the timers of threads that now block or no longer block the sampler's signal: a thread that
    /// blocks all signals expects no interruption.
    fn check_masks(&self, watched: &mut Watched) {
        watched.checks = watched.checks.wrapping_add(1);
        let checks_all = watched.checks.is_multiple_of(CHECK_EVERY);
        let Watched { threads, recorder_threads: ours, ended, signal, settings, .. } = watched;
        threads.retain_mut(|thread| {
            if thread.closed == 0 && !checks_all {
                return true;
            }
            let before = thread.closed;
            thread.closed = if waiting::blocks_signals(thread.tid, *signal) { before.saturating_add(1) } else { 0 };
            if (before == 0) != (thread.closed == 0) {
                thread.renew_timer(self, *signal, settings.rates.cpu);
            }
            if thread.closed != MAX_BLOCKED_CHECKS {
                return true;
            }
            // The recorder's threads block all signals, and have their names soon after their begin.
            let is_ours = thread_name(thread.tid).is_some_and(|name| name.starts_with(THREAD_PREFIX));
            if is_ours {
                ours.insert(thread.tid);
                ended.push(thread.record);
            }
            self.closed.fetch_add(u64::from(!is_ours), Ordering::Relaxed);
            !is_ours
        });
    }

    /// Begin to sample a new thread: assign a record, counters and a timer. `None` if all records are in use.
    fn begin(&self, watched: &mut Watched, tid: u32, name: String) -> Option<Thread> {
        let is_ready = |&index: &usize| self.record(index).is_some_and(|record| !record.is_busy());
        let free = watched.free.iter().rposition(is_ready).map(|at| watched.free.swap_remove(at));
        let index = free.or_else(|| self.make_record())?;
        let record = self.record(index)?;
        // A late handler of an earlier recording may have kept them.
        record.counters.stop();
        let interpreter = dlmonitor::interpreter().filter(|_| watched.settings.python);
        record.assign(tid, name, interpreter, watched.settings.native);
        let without_file = record.counters.start(&watched.settings.counters, tid);
        count_unless_ended(&self.without_file, without_file, tid);
        let closed = u32::from(waiting::blocks_signals(tid, watched.signal));
        let (waiting, request) = (Waiting::default(), WallRequest::default());
        let mut thread =
            Thread { tid, record: index, used: 0, waiting, request, closed, timer: None, is_refused: false };
        thread.renew_timer(self, watched.signal, watched.settings.rates.cpu);
        Some(thread)
    }

    /// Create another thread record, and return its number; `None` at the limit of [`super::MAX_THREADS`].
    fn make_record(&self) -> Option<usize> {
        let index = self.records.iter().position(|record| record.load(Ordering::Relaxed).is_null())?;
        let record = Box::leak(Box::new(ThreadRecord::new()));
        self.records.get(index)?.store(record, Ordering::Release);
        Some(index)
    }

    /// Connect each record with the open operators of its thread.
    fn find_operators(&self, watched: &Watched) {
        for thread in &watched.threads {
            let Some(record) = self.record(thread.record) else { continue };
            if record.open.load(Ordering::Relaxed).is_null()
                && let Some(open) = OpenOperators::of_thread(thread.tid)
            {
                record.open.store(std::ptr::from_ref(open).cast_mut(), Ordering::Release);
            }
        }
    }
}

/// Name of a thread of this process, `None` if it has ended.
pub(super) fn thread_name(tid: u32) -> Option<String> {
    let name = std::fs::read(format!("/proc/self/task/{tid}/comm")).ok()?;
    Some(String::from_utf8_lossy(name.trim_ascii_end()).into_owned())
}

#[cfg(test)]
mod tests {
    use super::super::{Rates, Sampler, Settings, counters};
    use super::{Clock, Watched};
    use std::sync::Arc;
    use std::sync::atomic::Ordering;

    #[test]
    fn ended_threads_are_not_counted_as_missed() {
        // SAFETY: takes nothing and cannot fail.
        let tid = || unsafe { libc::gettid() }.cast_unsigned();
        let gone = std::thread::spawn(tid).join().unwrap();
        // The end of a thread is reported a moment before its number is free.
        while Clock::Cpu.now(gone).is_some() {
            std::thread::yield_now();
        }
        let sampler = Sampler::create(|| false);
        let rates = Rates { cpu: 99, ..Rates::default() };
        let settings = Settings { rates, counters: counters::parse("page-faults"), ..Settings::default() };
        let mut watched = Watched { settings: Arc::new(settings), signal: libc::SIGRTMAX(), ..Watched::default() };
        let look_at_thread = |watched: &mut Watched, tid| {
            let thread = sampler.begin(watched, tid, "thread".into()).unwrap();
            let counts = [&sampler.refused, &sampler.without_file].map(|count| count.load(Ordering::Relaxed));
            (thread.timer.is_some(), counts)
        };
        assert_eq!(look_at_thread(&mut watched, gone), (false, [0, 0]));
        assert!(look_at_thread(&mut watched, tid()).0, "one that is there has a timer");
    }

    #[test]
    fn threads_without_a_timer_are_counted_once() {
        const NO_SIGNAL: i32 = 1000;
        // SAFETY: takes nothing and cannot fail.
        let tid = unsafe { libc::gettid() }.cast_unsigned();
        let sampler = Sampler::create(|| false);
        let rates = Rates { cpu: 99, ..Rates::default() };
        let settings = Arc::new(Settings { rates, ..Settings::default() });
        let mut watched = Watched { settings, signal: libc::SIGRTMAX(), ..Watched::default() };
        let mut thread = sampler.begin(&mut watched, tid, "thread".into()).unwrap();
        assert!(thread.timer.is_some());
        for _ in 0..3 {
            thread.renew_timer(sampler, NO_SIGNAL, rates.cpu);
            assert!(thread.timer.is_none());
        }
        assert_eq!(sampler.refused.load(Ordering::Relaxed), 1);
    }
}
