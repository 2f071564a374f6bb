//! Samples of wall time of all threads, running or waiting.
//!
//! A timer of wall time would interrupt a waiting thread repeatedly. Programs wait with a timeout and, when
//! interrupted, restart the wait with the full timeout: with the rate of a timer, they would wait forever (the
//! threads of NCCL do so when a process group is destroyed). Therefore the watcher thread checks each thread at this
//! rate. It sends a signal unless the thread still waits as in its last sample: in the same system call at the same
//! position of its stack, by `/proc/self/task/*/syscall`. Such a wait gets the time without an interruption. It is
//! sampled again after 1, 2, 4 … seconds.

use super::record::ThreadRecord;
use super::timer::Clock;
use super::wall_time::{WallAction, WallRequest};
use super::watched::Watched;
use super::{Sampler, lock};
use std::sync::atomic::Ordering;

impl Sampler {
    /// Check each thread that does not block its signals: request a sample, or attribute the time to its last sample if
    /// it still waits there.
    pub(super) fn sample_wall_time(&self) {
        let signal = self.signal.load(Ordering::Acquire);
        if signal == 0 {
            return;
        }
        let is_open = (self.records_now)();
        let mut watched = lock(&self.watched);
        let Watched { threads, stopped: false, .. } = &mut *watched else { return };
        for thread in threads.iter_mut().filter(|thread| !thread.blocks_signals()) {
            let Some(record) = self.record(thread.record) else { continue };
            let (Some(now), Some(used)) = (Clock::Wall.now(thread.tid), Clock::Cpu.now(thread.tid)) else { continue };
            if !is_open {
                // Time that is not recorded is excluded.
                thread.request = WallRequest::default();
                if !record.wall.is_requested.load(Ordering::Acquire) {
                    record.restart_interval(Clock::Wall, now);
                    record.wall.is_written.store(false, Ordering::Relaxed);
                    record.wall.sp.store(0, Ordering::Relaxed);
                }
                continue;
            }
            let call = || std::fs::read_to_string(format!("/proc/self/task/{}/syscall", thread.tid));
            match thread
                .request
                .next_action(&record.wall, now, used, || call().unwrap_or_default().trim_end().to_owned())
            {
                WallAction::Request => self.request_wall_sample(signal, thread.record, record),
                WallAction::Count => record.extend_last_sample(now),
                WallAction::Skip => {}
            }
        }
    }

    /// Send a signal that requests a sample of wall time from a record's thread.
    fn request_wall_sample(&self, signal: i32, index: usize, record: &ThreadRecord) {
        record.wall.is_requested.store(true, Ordering::Release);
        if !self.send(signal, index, record, Clock::Wall) {
            record.wall.is_requested.store(false, Ordering::Release);
        }
    }
}
