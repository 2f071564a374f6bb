//! Wall-time state of one thread: its last response, and the choice whether a wait is sampled again.

use super::waiting::MAX_RESPONSE_CPU_NS;
use dlmonitor::native::Registers;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

/// First interval after which a waiting thread is sampled again, in ns.
const FIRST_INTERVAL_NS: u64 = 1_000_000_000;
/// Largest size of a system call instruction in bytes. The system restarts an interrupted call by returning to this
/// instruction.
const CALL_BYTES: usize = 4;

/// Last wall-time response of one thread, and the time it has waited since; shared by the watcher thread and the
/// handler. During a request only the handler writes, otherwise only the watcher thread.
#[derive(Debug, Default)]
pub(super) struct WallTime {
    /// True if the response to a request is outstanding.
    pub(super) is_requested: AtomicBool,
    /// True if its last response was written.
    pub(super) is_written: AtomicBool,
    /// Program counter and stack pointer at its last response.
    pc: AtomicUsize,
    pub(super) sp: AtomicUsize,
    /// Time that it has waited there since, in ns.
    waited: AtomicU64,
}

/// Times of the wall-time requests to one thread, used by the watcher thread.
#[derive(Debug)]
pub(super) struct WallRequest {
    /// Time of the next request during a wait, in ns, and the current interval.
    next_request: u64,
    interval: u64,
    /// CPU time at the last request, and at the last check that found it waiting.
    used: u64,
    waiting: u64,
    /// System call in which it waits since its last response, in the system's text.
    call: Option<String>,
}

impl Default for WallRequest {
    fn default() -> Self {
        Self { next_request: 0, interval: FIRST_INTERVAL_NS, used: 0, waiting: 0, call: None }
    }
}

/// Action of the watcher thread at a check of a thread: request a sample, count the time, or nothing.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum WallAction {
    /// Request a sample.
    Request,
    /// Attribute the time to its last sample, because it is still waiting there.
    Count,
    /// No action: its response is outstanding, or did not fit into the ring.
    Skip,
}

impl WallTime {
    /// Reset the request, the last response and the waited time, because the record gets another thread.
    pub(super) fn reset(&self) {
        self.is_requested.store(false, Ordering::Relaxed);
        self.is_written.store(false, Ordering::Relaxed);
        self.waited.store(0, Ordering::Relaxed);
    }

    /// Note a thread's response to a request: a sample, or none (if nothing is recorded or the ring is full). For the
    /// handler of the thread.
    pub(super) fn note_response(&self, at: Registers, is_written: bool) {
        self.pc.store(at.pc, Ordering::Relaxed);
        self.sp.store(at.sp, Ordering::Relaxed);
        self.is_written.store(is_written, Ordering::Relaxed);
        self.is_requested.store(false, Ordering::Release);
    }

    /// Take the wall time in ns that the thread has waited since its last sample, and reset it to 0.
    pub(super) fn take_waited(&self) -> u64 {
        self.waited.swap(0, Ordering::AcqRel)
    }

    /// Add wall time in ns that the thread has waited since its last sample.
    pub(super) fn add_waited(&self, ns: u64) {
        self.waited.fetch_add(ns, Ordering::AcqRel);
    }

    /// True if a system call, in the system's text, is at the position of the thread's last response.
    fn is_at_last_response(&self, call: &str) -> bool {
        let mut last = call.rsplit(' ').map(|word| usize::from_str_radix(word.trim_start_matches("0x"), 16));
        let (Some(Ok(pc)), Some(Ok(sp))) = (last.next(), last.next()) else { return false };
        sp == self.sp.load(Ordering::Relaxed)
            && pc.checked_sub(self.pc.load(Ordering::Relaxed)).is_some_and(|back| back <= CALL_BYTES)
    }
}

impl WallRequest {
    /// Choose the action for a thread at the time `now` with the CPU time `used`, in ns; `call` reads its system call.
    pub(super) fn next_action(
        &mut self,
        wall: &WallTime,
        now: u64,
        used: u64,
        call: impl FnOnce() -> String,
    ) -> WallAction {
        if wall.is_requested.load(Ordering::Acquire) {
            // A thread that has run since has lost the request: its handler may have been busy.
            let is_lost = now >= self.next_request && used > self.used.saturating_add(MAX_RESPONSE_CPU_NS);
            return if is_lost { self.request_sample(now, used, false) } else { WallAction::Skip };
        }
        if !self.waits_on(wall, used, call) {
            return self.request_sample(now, used, false);
        }
        if now >= self.next_request {
            return self.request_sample(now, used, true);
        }
        if wall.is_written.load(Ordering::Relaxed) { WallAction::Count } else { WallAction::Skip }
    }

    /// True if the thread still waits at the position of its last response.
    fn waits_on(&mut self, wall: &WallTime, used: u64, call: impl FnOnce() -> String) -> bool {
        if self.call.is_some() && used == self.waiting {
            return true;
        }
        let call = call();
        let waits_on = match &self.call {
            Some(before) => *before == call,
            None => wall.is_at_last_response(&call),
        };
        self.waiting = used;
        self.call = waits_on.then_some(call);
        waits_on
    }

    /// Note a request at the time `now` with the CPU time `used`, in ns; the interval to the next one doubles during a
    /// wait. Always returns [`WallAction::Request`].
    fn request_sample(&mut self, now: u64, used: u64, waits_on: bool) -> WallAction {
        self.interval = if waits_on { self.interval.saturating_mul(2) } else { FIRST_INTERVAL_NS };
        self.next_request = now.saturating_add(self.interval);
        self.used = used;
        // After an interruption the system's text for the same call may differ.
        self.call = None;
        WallAction::Request
    }
}

#[cfg(test)]
mod tests {
    use super::{FIRST_INTERVAL_NS, MAX_RESPONSE_CPU_NS, Ordering, Registers, WallAction, WallRequest, WallTime};

    const POLL: &str = "7 0x0 0x0 0x12c 0x0 0x0 0x0 0x7ffc10 0x7f5a12";

    fn waiting() -> (WallTime, WallRequest) {
        let (wall, mut request) = (WallTime::default(), WallRequest::default());
        assert_eq!(
            request.next_action(&wall, 0, 0, || POLL.to_owned()),
            WallAction::Request,
            "where it is is not known"
        );
        wall.is_requested.store(true, Ordering::Relaxed);
        assert_eq!(request.next_action(&wall, 10, 5, || POLL.to_owned()), WallAction::Skip);
        // A restarted call: two bytes back.
        wall.note_response(Registers { pc: 0x7f5a10, sp: 0x7ffc10, fp: 0, lr: 0 }, true);
        (wall, request)
    }

    #[test]
    fn waits_are_probed_at_growing_intervals() {
        let (wall, mut request) = waiting();
        let mut questions = Vec::new();
        for check in 1..100_000_u64 {
            // At each interruption, or at the end of its timeout, it logs that and waits again.
            match request.next_action(&wall, check * 10_000_000, check * 200_000, || POLL.to_owned()) {
                WallAction::Request => questions.push(check / 100),
                WallAction::Count => wall.add_waited(1),
                WallAction::Skip => panic!("it answered"),
            }
        }
        assert_eq!(questions, [1, 3, 7, 15, 31, 63, 127, 255, 511]);
        assert_eq!((wall.take_waited(), wall.take_waited()), (99_990, 0));
    }

    #[test]
    fn new_waits_are_probed_immediately() {
        let (wall, mut request) = waiting();
        assert_eq!(request.next_action(&wall, 20, 10, || POLL.to_owned()), WallAction::Count);
        assert_eq!(request.next_action(&wall, 30, 10, || panic!("it used no time since")), WallAction::Count);
        let other = |call: &str| POLL.replace("0x12c", call);
        assert_eq!(
            request.next_action(&wall, 40, 11, || other("0x1")),
            WallAction::Request,
            "the same place, with other arguments"
        );
        for call in ["running", "", "-1 0x7ffc10 0x7f5a12x", "7 0x0 0x7ffc18 0x7f5a12", "7 0x0 0x7ffc10 0x7f5a18"] {
            let (wall, mut request) = waiting();
            assert_eq!(request.next_action(&wall, 20, 10, || call.to_owned()), WallAction::Request, "{call}");
        }
    }

    #[test]
    fn probes_without_room_are_delayed() {
        let (wall, mut request) = waiting();
        wall.note_response(Registers { pc: 0x7f5a12, sp: 0x7ffc10, fp: 0, lr: 0 }, false);
        let checks = (1..100).map(|check| request.next_action(&wall, check * 10_000_000, check, || POLL.to_owned()));
        assert!(checks.into_iter().all(|next| next == WallAction::Skip));
        assert_eq!(request.next_action(&wall, FIRST_INTERVAL_NS, 100, || POLL.to_owned()), WallAction::Request);
    }

    #[test]
    fn lost_probes_are_repeated() {
        let (wall, mut request) = waiting();
        assert_eq!(request.next_action(&wall, 20, 10, || "running".to_owned()), WallAction::Request);
        wall.is_requested.store(true, Ordering::Relaxed);
        assert_eq!(request.next_action(&wall, 30, 10 + 2 * MAX_RESPONSE_CPU_NS, String::new), WallAction::Skip);
        assert_eq!(
            request.next_action(&wall, 2 * FIRST_INTERVAL_NS, 10, String::new),
            WallAction::Skip,
            "it did not run: the signal waits"
        );
        assert_eq!(
            request.next_action(&wall, 2 * FIRST_INTERVAL_NS, 11 + MAX_RESPONSE_CPU_NS, String::new),
            WallAction::Request
        );
        wall.reset();
        assert_eq!(WallRequest::default().next_action(&wall, 30, 10, || POLL.to_owned()), WallAction::Request);
    }
}
