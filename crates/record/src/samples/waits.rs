//! Sampling of waiting threads from outside, by the system calls in which they wait.
//!
//! Timers of CPU time do not sample waiting threads, and samples of wall time ([`super::wall`]) interrupt all waits:
//! system calls that are not restarted fail with `EINTR`. Therefore the watcher thread checks a hundred times per
//! second, from outside, if a thread that runs operators waits, and in which system call
//! (`/proc/self/task/*/syscall`). Only a thread whose system call is restarted without side effects, or that sleeps
//! until a fixed time, is sampled by a signal.

use super::record::ThreadRecord;
use super::timer::Clock;
use super::waiting::{Activity, Waiting, activity_of};
use super::watched::Watched;
use super::{Sampler, handler, lock};
use std::sync::atomic::Ordering;

impl Sampler {
    /// Check each thread that runs operators, and request a sample from those that wait and may be interrupted.
    pub(super) fn sample_waiting_threads(&self) {
        let signal = self.signal.load(Ordering::Acquire);
        if signal == 0 {
            return;
        }
        let is_open = (self.records_now)();
        let mut watched = lock(&self.watched);
        let Watched { threads, stopped: false, .. } = &mut *watched else { return };
        for thread in threads {
            let Some(record) = self.record(thread.record) else { continue };
            if record.open.load(Ordering::Relaxed).is_null() {
                continue;
            }
            let (Some(now), Some(used)) = (Clock::Wait.now(thread.tid), Clock::Cpu.now(thread.tid)) else { continue };
            if !is_open {
                thread.waiting = Waiting::default();
                continue;
            }
            let Some(check) = thread.waiting.check(now, used, || activity_of(thread.tid, signal)) else { continue };
            if let Some(new_interval_ns) = check.new_interval_ns {
                record.restart_interval(Clock::Wait, new_interval_ns);
            }
            match check.activity {
                Activity::Waiting => self.request_sample(signal, thread.record, record, now),
                Activity::Uninterruptible => _ = self.uninterruptible.fetch_add(1, Ordering::Relaxed),
                Activity::Running => {}
            }
        }
    }

    /// Request a sample of a wait from a record's thread at the time `now` (ns), unless a response is outstanding.
    fn request_sample(&self, signal: i32, index: usize, record: &ThreadRecord, now: u64) {
        let is_free = record.requested_ns.compare_exchange(0, now, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        if is_free && !self.send(signal, index, record, Clock::Wait) {
            record.requested_ns.store(0, Ordering::Relaxed);
        }
    }

    /// Send the sampler's signal for a sample by `clock` to a record's thread; `false` if it has ended, or if the
    /// system accepts no more signals.
    pub(super) fn send(&self, signal: i32, index: usize, record: &ThreadRecord, clock: Clock) -> bool {
        let (tid, serial) = (record.tid.load(Ordering::Relaxed), record.serial.load(Ordering::Relaxed));
        send(signal, tid, handler::value(index, serial, clock))
    }
}

/// Signal with a value, as a process sends it: `siginfo_t` on systems of 64 bits.
#[repr(C)]
struct Message {
    signal: i32,
    error: i32,
    code: i32,
    gap: i32,
    pid: i32,
    user: u32,
    value: usize,
    rest: [u64; 12],
}

/// Send a signal with a value to a thread; `false` if it has ended, or if the system accepts no more signals.
fn send(signal: i32, tid: u32, value: usize) -> bool {
    let pid = std::process::id().cast_signed();
    // SAFETY: it takes nothing and cannot fail.
    let user = unsafe { libc::getuid() };
    let message = Message { signal, error: 0, code: libc::SI_QUEUE, gap: 0, pid, user, value, rest: [0; 12] };
    // SAFETY: the message is as long as the system reads, and outlives the call; the signal has a handler for all threads.
    unsafe { libc::syscall(libc::SYS_rt_tgsigqueueinfo, pid, tid, signal, &raw const message) == 0 }
}

#[cfg(test)]
mod tests {
    use super::Message;

    #[test]
    fn message_size_equals_that_of_the_system() {
        assert_eq!(size_of::<Message>(), size_of::<libc::siginfo_t>());
    }
}
