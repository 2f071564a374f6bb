//! Where threads wait.
//!
//! Timers of CPU time do not see a thread that waits, and timers of wall-clock time interrupt it wherever it does: calls that the
//! system does not restart would fail with `EINTR`. So the watching thread looks a hundred times a second, from outside, whether a
//! thread that runs operators waits, and in which system call (`/proc/self/task/*/syscall`). One whose call the system restarts, or
//! whose callers go on waiting by themselves, is asked by a signal where it is.

use super::timer::Clock;
use super::watch::Watched;
use super::{Sampler, handler, lock};
use std::sync::atomic::Ordering;

/// A thread that used no more CPU time (ns) since it was asked still waits for the same: the answer takes less.
const ANSWER: u64 = 100_000;
/// A wait is asked about again after so many parts of it: what comes after the last time is not seen.
const PARTS: u64 = 10;

/// What is known of one thread.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    /// Its CPU time when it was looked at last, in ns; `None` if it was not yet.
    used: Option<u64>,
    /// Since when it waits, and when it was asked last, in ns.
    since: u64,
    asked: u64,
}

/// What a thread does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Doing {
    /// It runs, or is ready to.
    Running,
    /// It waits, and may be interrupted.
    Waiting,
    /// It waits, and what it does if it is interrupted is not known.
    Elsewhere,
}

impl Sampler {
    /// Asks each thread that runs operators and waits where it is.
    pub(super) fn look_for_waits(&self) {
        let mut watched = lock(&self.watched);
        let Watched { threads, stopped: false, .. } = &mut *watched else { return };
        for thread in threads {
            let Some(record) = self.record(thread.record) else { continue };
            let runs_operators = !record.open.load(Ordering::Relaxed).is_null();
            let times = (Clock::Wait.now(thread.tid), Clock::Cpu.now(thread.tid));
            let ((Some(now), Some(used)), true) = (times, runs_operators) else { continue };
            match thread.waiting.look(now, used, || doing_of(thread.tid)) {
                Some(Doing::Waiting) => {
                    let serial = record.serial.load(Ordering::Relaxed);
                    ask(self.signal, thread.tid, handler::value(thread.record, serial, Clock::Wait));
                }
                Some(Doing::Running) => record.settle(Clock::Wait, now),
                Some(Doing::Elsewhere) => {
                    self.unasked.fetch_add(1, Ordering::Relaxed);
                    record.settle(Clock::Wait, now);
                }
                None => {}
            }
        }
    }
}

impl Waiting {
    /// Looks at a thread at a time, when it had used so much CPU time; `None` if it waits on, and is not to be asked again yet.
    fn look(&mut self, now: u64, used: u64, doing: impl FnOnce() -> Doing) -> Option<Doing> {
        let before = self.used.replace(used);
        if before.is_some_and(|before| used.saturating_sub(before) <= ANSWER) {
            if now.saturating_sub(self.asked).saturating_mul(PARTS) < now.saturating_sub(self.since) {
                return None;
            }
        } else {
            self.since = now;
        }
        // What the thread did before is not known.
        let doing = before.map_or(Doing::Running, |_| doing());
        match doing {
            Doing::Waiting => self.asked = now,
            Doing::Running | Doing::Elsewhere => self.since = now,
        }
        Some(doing)
    }
}

/// What a thread does; one that is gone runs as well as any.
fn doing_of(tid: u32) -> Doing {
    std::fs::read_to_string(format!("/proc/self/task/{tid}/syscall")).map_or(Doing::Running, |text| doing(&text))
}

/// What the system says of a thread: `running`, or the number of the call that it waits in and its arguments.
fn doing(text: &str) -> Doing {
    let mut words = text.split_ascii_whitespace();
    let Some(call) = words.next().and_then(|word| word.parse::<libc::c_long>().ok()) else { return Doing::Running };
    let arguments: Vec<u64> =
        words.map_while(|word| u64::from_str_radix(word.trim_start_matches("0x"), 16).ok()).collect();
    let argument = |index: usize| arguments.get(index).copied().unwrap_or(u64::MAX);
    // Waiting for a page is no call.
    let may_be_asked = match call {
        // Without a limit of time the system goes on waiting.
        libc::SYS_futex => argument(3) == 0,
        // Until a moment: whoever waits so goes on until then. Python does.
        libc::SYS_clock_nanosleep => argument(1) == libc::TIMER_ABSTIME as u64,
        libc::SYS_read
        | libc::SYS_write
        | libc::SYS_readv
        | libc::SYS_recvfrom
        | libc::SYS_recvmsg
        | libc::SYS_wait4
        | libc::SYS_waitid
        | libc::SYS_flock => true,
        _ => false,
    };
    if may_be_asked { Doing::Waiting } else { Doing::Elsewhere }
}

/// `siginfo_t` of a signal that a process sends with a value, on systems of 64 bits.
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

/// Sends the handler's signal to a thread. One that is gone, or that has too many signals waiting, is not asked.
fn ask(signal: i32, tid: u32, value: usize) {
    let pid = std::process::id().cast_signed();
    // SAFETY: it takes nothing and cannot fail.
    let user = unsafe { libc::getuid() };
    let message = Message { signal, error: 0, code: libc::SI_QUEUE, gap: 0, pid, user, value, rest: [0; 12] };
    // SAFETY: the message is as long as the system reads, and outlives the call; the signal has a handler for all threads.
    unsafe { libc::syscall(libc::SYS_rt_tgsigqueueinfo, pid, tid, signal, &raw const message) };
}

#[cfg(test)]
mod tests {
    use super::{Doing, Message, Waiting, doing};

    #[test]
    fn a_message_is_as_long_as_the_system_says() {
        assert_eq!(size_of::<Message>(), size_of::<libc::siginfo_t>());
    }

    #[test]
    fn only_calls_that_go_on_are_interrupted() {
        let line = |call: libc::c_long, arguments: &str| format!("{call} {arguments} 0x7ffc0 0x7f5a1\n");
        let futex = |limit: &str| line(libc::SYS_futex, &format!("0x55d0 0x189 0x0 {limit} 0x0 0xffffffff"));
        let sleep = |flags: &str| line(libc::SYS_clock_nanosleep, &format!("0x1 {flags} 0x7ffe0 0x0 0x0 0x0"));
        for (text, expected) in [
            ("running\n".to_owned(), Doing::Running),
            (String::new(), Doing::Running),
            ("-1 0x7ffc0 0x7f5a1\n".to_owned(), Doing::Elsewhere),
            (futex("0x0"), Doing::Waiting),
            (futex("0x7ffe0"), Doing::Elsewhere),
            (sleep("0x1"), Doing::Waiting),
            (sleep("0x0"), Doing::Elsewhere),
            (line(libc::SYS_read, "0x3 0x7f00 0x1000 0x0 0x0 0x0"), Doing::Waiting),
            (line(libc::SYS_epoll_pwait, "0x3 0x7f00 0x1 0x0 0x0 0x0"), Doing::Elsewhere),
            (libc::SYS_futex.to_string(), Doing::Elsewhere),
        ] {
            assert_eq!(doing(&text), expected, "{text}");
        }
    }

    #[test]
    fn long_waits_are_asked_about_more_rarely() {
        let mut waiting = Waiting::default();
        let looks = (0..10_000).map(|look| waiting.look(look * 10_000_000, 5, || Doing::Waiting));
        let asked = looks.filter(|found| *found == Some(Doing::Waiting)).count();
        // At each of ten looks, then a tenth of the wait later: 11 + ln(100 s / 0.1 s) / ln(10/9).
        assert!((70..90).contains(&asked), "{asked}");
    }

    #[test]
    fn what_ran_in_between_waits_anew() {
        let mut waiting = Waiting::default();
        assert_eq!(waiting.look(0, 5, || Doing::Waiting), Some(Doing::Running), "of the time before nothing is known");
        let mut look = |at: u64, used: u64, doing: Doing| waiting.look(at * 10_000_000, used, || doing);
        for at in 1..=10 {
            assert_eq!(look(at, 5, Doing::Waiting), Some(Doing::Waiting));
        }
        assert_eq!(look(11, 5, Doing::Waiting), None, "a tenth of 110 ms is not over");
        assert_eq!(look(12, 5, Doing::Waiting), Some(Doing::Waiting));
        assert_eq!(look(13, 900_000, Doing::Waiting), Some(Doing::Waiting), "it ran");
        assert_eq!(look(14, 900_000, Doing::Running), Some(Doing::Running));
    }
}
