//! Sampled threads as the watcher thread sees them, and their timers.

use super::timer::{Clock, Timer};
use super::waiting::Waiting;
use super::wall_time::WallRequest;
use super::{Sampler, Settings, handler};
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A sampled thread as the watcher thread sees it: its record, requests, signal mask and timer.
#[derive(Debug)]
pub(super) struct Thread {
    pub(super) tid: u32,
    pub(super) record: usize,
    /// CPU time at the last check: a thread that used less is another one with the same number.
    pub(super) used: u64,
    pub(super) waiting: Waiting,
    pub(super) request: WallRequest,
    /// Number of checks since it blocks its signals, 0 while it does not. It has no timer then.
    pub(super) closed: u32,
    pub(super) timer: Option<Timer>,
    /// True if it was counted as a thread without timer.
    pub(super) is_refused: bool,
}

/// The watcher thread's list of sampled threads and of records for new ones.
#[derive(Debug, Default)]
pub(super) struct Watched {
    pub(super) threads: Vec<Thread>,
    pub(super) recorder_threads: HashSet<u32>,
    /// Threads without record, because all records are in use. A number in this set cannot belong to a later thread:
    /// no system starts as many threads as it has numbers between two checks.
    pub(super) refused: HashSet<u32>,
    /// Records of ended threads whose samples were not taken yet.
    pub(super) ended: Vec<usize>,
    /// Records for new threads.
    pub(super) free: Vec<usize>,
    pub(super) stopped: bool,
    /// Settings of the current recording.
    pub(super) settings: Arc<Settings>,
    /// Signal number of the timers.
    pub(super) signal: i32,
    pub(super) checks: u32,
}

impl Thread {
    /// True if the thread blocked the sampler's signals at its last check.
    pub(super) fn blocks_signals(&self) -> bool {
        self.closed > 0
    }

    /// Replace a thread's CPU timer by a new one with this signal and rate.
    pub(super) fn renew_timer(&mut self, sampler: &Sampler, signal: i32, hz: u32) {
        self.timer = None;
        self.timer = sampler.make_timer(signal, hz, self);
    }
}

impl Watched {
    /// Begin another recording, in which no thread has a record yet.
    pub(super) fn begin(&mut self, settings: Arc<Settings>) {
        *self = Self { settings, signal: self.signal, ..Self::default() };
    }

    /// Stop sampling for this recording: delete the timers of all threads, and forget the threads.
    pub(super) fn stop(&mut self) {
        self.stopped = true;
        self.threads.clear();
    }

    /// Pause sampling of all threads: no requests and no timers.
    pub(super) fn pause_all(&mut self) {
        self.stopped = true;
        self.threads.iter_mut().for_each(|thread| thread.timer = None);
    }

    /// Resume sampling after [`Self::pause_all`], with new timers for all threads.
    pub(super) fn resume_all(&mut self, sampler: &Sampler) {
        self.stopped = false;
        let (signal, hz) = (self.signal, self.settings.rates.cpu);
        self.threads.iter_mut().for_each(|thread| thread.renew_timer(sampler, signal, hz));
    }
}

impl Sampler {
    /// Create the timer of a thread's CPU time; `None` without signal or rate, for a thread that blocks its signals, or
    /// if the system refuses the timer, which is counted.
    fn make_timer(&self, signal: i32, hz: u32, thread: &mut Thread) -> Option<Timer> {
        let is_sampled = hz > 0 && signal != 0 && !thread.blocks_signals();
        let record = self.record(thread.record).filter(|_| is_sampled)?;
        let value = handler::value(thread.record, record.serial.load(Ordering::Relaxed), Clock::Cpu);
        let timer = Timer::start(thread.tid, signal, value, hz);
        if timer.is_err() && !thread.is_refused {
            thread.is_refused = count_unless_ended(&self.refused, 1, thread.tid);
        }
        timer.ok()
    }
}

/// Add `refused` failures for a thread to `count`, unless the thread has ended. Returns true if it was counted.
pub(super) fn count_unless_ended(count: &AtomicU64, refused: u64, tid: u32) -> bool {
    let counts = refused > 0 && Clock::Cpu.now(tid).is_some();
    if counts {
        count.fetch_add(refused, Ordering::Relaxed);
    }
    counts
}
