//! Wall-clock time of all threads, whatever they do.
//!
//! A timer of wall-clock time would interrupt a thread again and again while it waits. Programs wait with a limit of time and, where
//! they are interrupted, begin anew with the whole of it: as often interrupted as a timer does it, they wait for ever (the threads of
//! NCCL do so when a process group is destroyed). So the watching thread looks at each thread that often, and asks it by a signal
//! where it is unless it still waits where it said: in the same system call at the same place of its stack, as the system tells
//! (`/proc/self/task/*/syscall`). Such a wait gets the time without being interrupted. It is asked about again after a second, then after
//! two, four and so on.

use super::record::ThreadRecord;
use super::timer::Clock;
use super::waits::ANSWER;
use super::watch::Watched;
use super::{Sampler, lock};
use crate::session::Session;
use dlmonitor::native::Registers;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

/// A thread that waits is asked again after so long (ns) at first.
const AGAIN: u64 = 1_000_000_000;
/// The system begins an interrupted call anew by going back to the instruction that made it, which has so many bytes at most.
const CALL_BYTES: usize = 4;

/// What the watching thread and the handler of one thread tell each other of samples of wall-clock time. While the thread is asked the
/// handler alone writes, else the watching thread.
#[derive(Debug, Default)]
pub(super) struct WallTime {
    /// Whether the thread was asked and did not answer yet.
    is_asked: AtomicBool,
    /// Whether its last answer was written down.
    is_written: AtomicBool,
    /// Where it was when it answered last.
    pc: AtomicUsize,
    sp: AtomicUsize,
    /// Time since then that it waited there, in ns.
    waited: AtomicU64,
}

/// What the watching thread knows of a thread that it asks.
#[derive(Debug)]
pub(super) struct Asked {
    /// When to ask it again though it waits on, in ns, and how long that was put off.
    again: u64,
    put_off: u64,
    /// Its CPU time when it was asked last, and when it was last seen to wait on.
    used: u64,
    waiting: u64,
    /// The call that it waits in since its last answer, as the system tells it.
    call: Option<String>,
}

impl Default for Asked {
    fn default() -> Self {
        Self { again: 0, put_off: AGAIN, used: 0, waiting: 0, call: None }
    }
}

/// What to do at a look at a thread.
#[derive(Debug, PartialEq, Eq)]
enum Next {
    /// Ask it where it is.
    Ask,
    /// The time is that of its last sample: it still is there.
    Count,
    /// Nothing: it did not answer yet, or its answer found no room.
    Leave,
}

impl WallTime {
    /// Begins anew, for another thread.
    pub(super) fn reset(&self) {
        self.is_asked.store(false, Ordering::Relaxed);
        self.is_written.store(false, Ordering::Relaxed);
        self.waited.store(0, Ordering::Relaxed);
    }

    /// The thread was asked, and either wrote a sample or, as nothing is recorded or there is no room, none: for the handler.
    pub(super) fn answer(&self, at: Registers, is_written: bool) {
        self.pc.store(at.pc, Ordering::Relaxed);
        self.sp.store(at.sp, Ordering::Relaxed);
        self.is_written.store(is_written, Ordering::Relaxed);
        self.is_asked.store(false, Ordering::Release);
    }

    /// Time that belongs to the thread's last sample, in ns. It is given out once.
    pub(super) fn take_waited(&self) -> u64 {
        self.waited.swap(0, Ordering::AcqRel)
    }

    /// Adds such time.
    pub(super) fn add_waited(&self, ns: u64) {
        self.waited.fetch_add(ns, Ordering::AcqRel);
    }

    /// Whether a call, as the system tells it, is where the thread was when it answered.
    fn is_at(&self, call: &str) -> bool {
        let mut last = call.rsplit(' ').map(|word| usize::from_str_radix(word.trim_start_matches("0x"), 16));
        let (Some(Ok(pc)), Some(Ok(sp))) = (last.next(), last.next()) else { return false };
        sp == self.sp.load(Ordering::Relaxed)
            && pc.checked_sub(self.pc.load(Ordering::Relaxed)).is_some_and(|back| back <= CALL_BYTES)
    }
}

impl Asked {
    /// What to do about a thread at a moment, when it had used so much CPU time.
    fn next(&mut self, wall: &WallTime, now: u64, used: u64, call: impl FnOnce() -> String) -> Next {
        if wall.is_asked.load(Ordering::Acquire) {
            // One that ran since has lost the question: its handler may have been busy.
            let is_lost = now >= self.again && used > self.used.saturating_add(ANSWER);
            return if is_lost { self.ask(now, used, false) } else { Next::Leave };
        }
        if !self.waits_on(wall, used, call) {
            return self.ask(now, used, false);
        }
        if now >= self.again {
            return self.ask(now, used, true);
        }
        if wall.is_written.load(Ordering::Relaxed) { Next::Count } else { Next::Leave }
    }

    /// Whether the thread waits where it answered last.
    fn waits_on(&mut self, wall: &WallTime, used: u64, call: impl FnOnce() -> String) -> bool {
        if self.call.is_some() && used == self.waiting {
            return true;
        }
        let call = call();
        let waits_on = match &self.call {
            Some(before) => *before == call,
            None => wall.is_at(&call),
        };
        self.waiting = used;
        self.call = waits_on.then_some(call);
        waits_on
    }

    fn ask(&mut self, now: u64, used: u64, waits_on: bool) -> Next {
        self.put_off = if waits_on { self.put_off.saturating_mul(2) } else { AGAIN };
        self.again = now.saturating_add(self.put_off);
        self.used = used;
        // The system may tell another one for the same once it was interrupted.
        self.call = None;
        Next::Ask
    }
}

impl Sampler {
    /// Looks at each thread that does not block its signals, and asks those that do not wait where they said.
    pub(super) fn look_at_wall_time(&self) {
        let signal = self.signal.load(Ordering::Acquire);
        if signal == 0 {
            return;
        }
        let is_open = Session::hold().is_some_and(|session| session.window.is_sampled());
        let mut watched = lock(&self.watched);
        let Watched { threads, stopped: false, .. } = &mut *watched else { return };
        for thread in threads.iter_mut().filter(|thread| !thread.is_closed()) {
            let Some(record) = self.record(thread.record) else { continue };
            let (Some(now), Some(used)) = (Clock::Real.now(thread.tid), Clock::Cpu.now(thread.tid)) else { continue };
            if !is_open {
                // What is not recorded counts nowhere.
                thread.asked = Asked::default();
                if !record.wall.is_asked.load(Ordering::Acquire) {
                    record.settle(Clock::Real, now);
                    record.wall.is_written.store(false, Ordering::Relaxed);
                    record.wall.sp.store(0, Ordering::Relaxed);
                }
                continue;
            }
            let call = || std::fs::read_to_string(format!("/proc/self/task/{}/syscall", thread.tid));
            match thread.asked.next(&record.wall, now, used, || call().unwrap_or_default().trim_end().to_owned()) {
                Next::Ask => self.ask_for_wall_time(signal, thread.record, record),
                Next::Count => record.wait_on(now),
                Next::Leave => {}
            }
        }
    }

    fn ask_for_wall_time(&self, signal: i32, index: usize, record: &ThreadRecord) {
        record.wall.is_asked.store(true, Ordering::Release);
        if !self.send(signal, index, record, Clock::Real) {
            record.wall.is_asked.store(false, Ordering::Release);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{AGAIN, ANSWER, Asked, Next, Ordering, Registers, WallTime};

    const POLL: &str = "7 0x0 0x0 0x12c 0x0 0x0 0x0 0x7ffc10 0x7f5a12";

    fn waiting() -> (WallTime, Asked) {
        let (wall, mut asked) = (WallTime::default(), Asked::default());
        assert_eq!(asked.next(&wall, 0, 0, || POLL.to_owned()), Next::Ask, "where it is is not known");
        wall.is_asked.store(true, Ordering::Relaxed);
        assert_eq!(asked.next(&wall, 10, 5, || POLL.to_owned()), Next::Leave);
        // A call that is begun anew: two bytes back.
        wall.answer(Registers { pc: 0x7f5a10, sp: 0x7ffc10, fp: 0, lr: 0 }, true);
        (wall, asked)
    }

    #[test]
    fn a_wait_is_asked_about_more_and_more_rarely() {
        let (wall, mut asked) = waiting();
        let mut questions = Vec::new();
        for look in 1..100_000_u64 {
            // Each time that it is interrupted, or its limit of time is over, it logs that, and waits anew.
            match asked.next(&wall, look * 10_000_000, look * 200_000, || POLL.to_owned()) {
                Next::Ask => questions.push(look / 100),
                Next::Count => wall.add_waited(1),
                Next::Leave => panic!("it answered"),
            }
        }
        assert_eq!(questions, [1, 3, 7, 15, 31, 63, 127, 255, 511]);
        assert_eq!((wall.take_waited(), wall.take_waited()), (99_990, 0));
    }

    #[test]
    fn another_wait_is_asked_about_at_once() {
        let (wall, mut asked) = waiting();
        assert_eq!(asked.next(&wall, 20, 10, || POLL.to_owned()), Next::Count);
        assert_eq!(asked.next(&wall, 30, 10, || panic!("it used no time since")), Next::Count);
        let other = |call: &str| POLL.replace("0x12c", call);
        assert_eq!(asked.next(&wall, 40, 11, || other("0x1")), Next::Ask, "the same place, with other arguments");
        for call in ["running", "", "-1 0x7ffc10 0x7f5a12x", "7 0x0 0x7ffc18 0x7f5a12", "7 0x0 0x7ffc10 0x7f5a18"] {
            let (wall, mut asked) = waiting();
            assert_eq!(asked.next(&wall, 20, 10, || call.to_owned()), Next::Ask, "{call}");
        }
    }

    #[test]
    fn what_finds_no_room_is_not_asked_for_all_the_time() {
        let (wall, mut asked) = waiting();
        wall.answer(Registers { pc: 0x7f5a12, sp: 0x7ffc10, fp: 0, lr: 0 }, false);
        let looks = (1..100).map(|look| asked.next(&wall, look * 10_000_000, look, || POLL.to_owned()));
        assert!(looks.into_iter().all(|next| next == Next::Leave));
        assert_eq!(asked.next(&wall, AGAIN, 100, || POLL.to_owned()), Next::Ask);
    }

    #[test]
    fn a_question_that_is_lost_is_asked_again() {
        let (wall, mut asked) = waiting();
        assert_eq!(asked.next(&wall, 20, 10, || "running".to_owned()), Next::Ask);
        wall.is_asked.store(true, Ordering::Relaxed);
        assert_eq!(asked.next(&wall, 30, 10 + 2 * ANSWER, String::new), Next::Leave);
        assert_eq!(asked.next(&wall, 2 * AGAIN, 10, String::new), Next::Leave, "it did not run: the signal waits");
        assert_eq!(asked.next(&wall, 2 * AGAIN, 11 + ANSWER, String::new), Next::Ask);
        wall.reset();
        assert_eq!(Asked::default().next(&wall, 30, 10, || POLL.to_owned()), Next::Ask);
    }
}
