//! Wall-clock time of all threads, whatever they do.
//!
//! A timer of wall-clock time would interrupt a thread again and again while it waits. Programs wait with a limit of time and, where
//! they are interrupted, begin anew with the whole of it: as often interrupted as a timer does it, they wait for ever (the threads of
//! NCCL do so when a process group is destroyed). So the watching thread looks at each thread that often, and asks it by a signal
//! where it is only if it used CPU time since it was asked last. One that used none still is where it said: that wait gets the time.

use super::record::ThreadRecord;
use super::timer::Clock;
use super::waits::ANSWER;
use super::watch::Watched;
use super::{Sampler, lock};
use crate::session::Session;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// A thread that did not answer for so long (ns) is asked again: its handler may have had no room for the question.
const FORGOTTEN: u64 = 1_000_000_000;

/// What the watching thread and the handler of one thread tell each other. While the thread is asked the handler alone writes, else the
/// watching thread.
#[derive(Debug, Default)]
pub(super) struct Wall {
    /// When the thread was asked, in ns, if it did not answer yet; else 0.
    asked: AtomicU64,
    /// Whether its last answer was written down.
    is_known: AtomicBool,
    /// CPU time of the thread behind its last answer, in ns.
    used: AtomicU64,
    /// Time since its last answer that it waited where that says, in ns.
    waited: AtomicU64,
}

/// What to do at a look at a thread.
#[derive(Debug, PartialEq, Eq)]
enum Look {
    /// Ask it where it is.
    Ask,
    /// It is where it said.
    WaitsOn,
    /// It did not answer yet.
    Wait,
}

impl Wall {
    /// Begins anew, for another thread.
    pub(super) fn reset(&self) {
        self.asked.store(0, Ordering::Relaxed);
        self.is_known.store(false, Ordering::Relaxed);
        self.waited.store(0, Ordering::Relaxed);
    }

    /// What to do about a thread at a moment, when it had used so much CPU time.
    fn look(&self, now: u64, used: u64) -> Look {
        match self.asked.load(Ordering::Acquire) {
            0 => {}
            asked if now.saturating_sub(asked) < FORGOTTEN => return Look::Wait,
            _ => return Look::Ask,
        }
        let since = used.checked_sub(self.used.load(Ordering::Relaxed));
        let waits_on = since.is_some_and(|since| since <= ANSWER) && self.is_known.load(Ordering::Relaxed);
        if waits_on { Look::WaitsOn } else { Look::Ask }
    }

    /// The thread was asked, and either wrote a sample or, as nothing is recorded at the moment, none: for the handler.
    pub(super) fn answer(&self, used: u64, is_known: bool) {
        self.used.store(used, Ordering::Relaxed);
        self.is_known.store(is_known, Ordering::Relaxed);
        self.asked.store(0, Ordering::Release);
    }

    /// Time that belongs to the thread's last sample, in ns. It is given out once.
    pub(super) fn take_waited(&self) -> u64 {
        self.waited.swap(0, Ordering::AcqRel)
    }

    /// Gives such time back.
    pub(super) fn add_waited(&self, ns: u64) {
        self.waited.fetch_add(ns, Ordering::AcqRel);
    }
}

impl Sampler {
    /// Looks at each thread that does not block its signals, and asks those that ran.
    pub(super) fn look_at_walls(&self) {
        let signal = self.signal.load(Ordering::Acquire);
        if signal == 0 {
            return;
        }
        let is_open = Session::current().is_some_and(|session| session.window.is_open());
        let mut watched = lock(&self.watched);
        let Watched { threads, stopped: false, .. } = &mut *watched else { return };
        for thread in threads.iter().filter(|thread| !thread.is_closed()) {
            let Some(record) = self.record(thread.record) else { continue };
            let (Some(now), Some(used)) = (Clock::Real.now(thread.tid), Clock::Cpu.now(thread.tid)) else { continue };
            match record.wall.look(now, used) {
                Look::Wait => {}
                // What is not recorded counts nowhere.
                _ if !is_open => {
                    record.settle(Clock::Real, now);
                    record.wall.is_known.store(false, Ordering::Relaxed);
                }
                Look::WaitsOn => record.wait_on(now),
                Look::Ask => self.ask_for_wall(signal, thread.record, record, now),
            }
        }
    }

    fn ask_for_wall(&self, signal: i32, index: usize, record: &ThreadRecord, now: u64) {
        record.wall.asked.store(now, Ordering::Release);
        if !self.send(signal, index, record, Clock::Real) {
            record.wall.asked.store(0, Ordering::Release);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{ANSWER, FORGOTTEN, Look, Ordering, Wall};

    #[test]
    fn a_thread_that_waits_on_is_asked_once() {
        let wall = Wall::default();
        assert_eq!(wall.look(10, 0), Look::Ask, "where it is is not known");
        wall.asked.store(10, Ordering::Relaxed);
        assert_eq!(wall.look(20, 5), Look::Wait);
        assert_eq!(wall.look(10 + FORGOTTEN, 5), Look::Ask);
        // The answer itself takes long, as one with native frames may.
        wall.answer(1_000_000, true);
        assert_eq!(wall.look(30, 1_000_000 + ANSWER), Look::WaitsOn);
        wall.add_waited(7);
        assert_eq!(wall.look(40, 1_000_001 + ANSWER), Look::Ask, "it ran");
        assert_eq!((wall.take_waited(), wall.take_waited()), (7, 0));
        assert_eq!(wall.look(50, 10), Look::Ask, "another thread of this number");
        wall.answer(1_000_000, false);
        assert_eq!(wall.look(60, 1_000_000), Look::Ask, "nothing was written down");
        wall.answer(1_000_000, true);
        wall.reset();
        assert_eq!(wall.look(70, 1_000_000), Look::Ask);
    }
}
