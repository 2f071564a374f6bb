//! Waits of a thread, as the system shows them from outside: its activity, and the times at which a wait is sampled.

/// A thread that has used less CPU time (ns) since its last sample is still in the same wait; the response itself
/// takes less.
pub(super) const MAX_RESPONSE_CPU_NS: u64 = 100_000;
/// A wait is sampled again after this fraction of its length. The time after the last sample is not attributed.
const RESAMPLE_FRACTION: u64 = 10;

/// Number of blocked signals, of the 60 that can be blocked, of a thread that blocks all but those of its own faults.
const NEARLY_ALL: u32 = 48;

/// Times of the current wait and of the last sample request of one thread, for the sampling of waits.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    /// Time of the last check and CPU time then, in ns; `None` before the first check.
    last: Option<(u64, u64)>,
    /// Begin of the wait, and time of the last request, in ns.
    since: u64,
    requested_ns: u64,
    /// CPU time at the last request.
    used: u64,
}

/// Activity of a thread: running, or waiting with or without a permitted interruption.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Activity {
    /// Running or ready to run.
    Running,
    /// Waiting; it may be interrupted.
    Waiting,
    /// Waiting in a system call whose behavior at an interruption is unknown.
    Uninterruptible,
}

/// Result of a check whether a thread waits: its activity, and the begin of the next sample's interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct WaitCheck {
    pub(super) activity: Activity,
    /// Time in ns from which the next sample's interval counts, if it changes.
    pub(super) new_interval_ns: Option<u64>,
}

/// True if the system shows the system calls of threads.
pub(super) fn can_read_system_calls() -> bool {
    std::fs::read("/proc/thread-self/syscall").is_ok()
}

impl Waiting {
    /// Check whether a thread waits, at the time `now` with the CPU time `used`, in ns: its activity, and the begin of
    /// a new interval between samples, if one begins. `None` if it is still waiting and needs no new sample yet.
    pub(super) fn check(&mut self, now: u64, used: u64, activity: impl FnOnce() -> Activity) -> Option<WaitCheck> {
        let running = WaitCheck { activity: Activity::Running, new_interval_ns: Some(now) };
        // Earlier activity is unknown. CPU time never decreases, except for another thread with the same number.
        let Some((last_check_ns, _)) = self.last.replace((now, used)).filter(|last| last.1 <= used) else {
            (self.since, self.used) = (now, used);
            return Some(running);
        };
        let waits_on = used.saturating_sub(self.used) <= MAX_RESPONSE_CPU_NS;
        if waits_on
            && now.saturating_sub(self.requested_ns).saturating_mul(RESAMPLE_FRACTION) < now.saturating_sub(self.since)
        {
            return None;
        }
        let activity = activity();
        if !waits_on || activity == Activity::Running {
            self.since = now;
        }
        (self.requested_ns, self.used) = (now, used);
        match activity {
            Activity::Running => Some(running),
            Activity::Uninterruptible => Some(WaitCheck { activity, new_interval_ns: Some(now) }),
            // Time of an earlier wait does not belong to this one.
            Activity::Waiting => Some(WaitCheck { activity, new_interval_ns: (!waits_on).then_some(last_check_ns) }),
        }
    }
}

/// Read the activity of a thread from `/proc`; a thread that has ended counts as running.
pub(super) fn activity_of(tid: u32, signal: i32) -> Activity {
    let file = |name: &str| std::fs::read_to_string(format!("/proc/self/task/{tid}/{name}"));
    let found = file("syscall").map_or(Activity::Running, |text| activity(&text, is_pipe));
    // A blocked signal would stay pending, and count against the user's limit of pending signals.
    let is_blocked = || file("status").map_or(true, |text| blocks_signal(&text, signal));
    if found == Activity::Waiting && is_blocked() { Activity::Uninterruptible } else { found }
}

/// True if a descriptor is a pipe: reads from pipes are restarted.
fn is_pipe(descriptor: u64) -> bool {
    let link = std::fs::read_link(format!("/proc/self/fd/{descriptor}"));
    link.is_ok_and(|link| link.to_string_lossy().starts_with("pipe:"))
}

/// True if a thread blocks the sampler's signal by its `status`, or nearly all signals: then it expects no
/// interruption, even if it cannot block this one ([`super::signal`]).
fn blocks_signal(status: &str, signal: i32) -> bool {
    let mask = status.lines().find_map(|line| u64::from_str_radix(line.strip_prefix("SigBlk:")?.trim(), 16).ok());
    let blocks = |mask: u64| u32::try_from(signal - 1).is_ok_and(|bit| mask >> bit & 1 == 1);
    mask.is_none_or(|mask| blocks(mask) || mask.count_ones() >= NEARLY_ALL)
}

/// True if a thread blocks the sampler's signal or nearly all signals; `false` if it has ended.
pub(super) fn blocks_signals(tid: u32, signal: i32) -> bool {
    std::fs::read_to_string(format!("/proc/self/task/{tid}/status")).is_ok_and(|text| blocks_signal(&text, signal))
}

/// Parse the system's text about a thread: `running`, or the number of its system call with arguments.
fn activity(text: &str, is_pipe: impl Fn(u64) -> bool) -> Activity {
    let mut words = text.split_ascii_whitespace();
    let Some(call) = words.next().and_then(|word| word.parse::<libc::c_long>().ok()) else { return Activity::Running };
    let arguments: Vec<u64> =
        words.map_while(|word| u64::from_str_radix(word.trim_start_matches("0x"), 16).ok()).collect();
    let argument = |index: usize| arguments.get(index).copied().unwrap_or(u64::MAX);
    // A wait for a page is not a system call.
    let is_interruptible = match call {
        // Without timeout the system restarts the wait.
        libc::SYS_futex => argument(3) == 0,
        // Sleeping until a fixed time: callers such as Python resume it until then.
        libc::SYS_clock_nanosleep => {
            argument(0) == libc::CLOCK_MONOTONIC as u64 && argument(1) == libc::TIMER_ABSTIME as u64
        }
        libc::SYS_read => is_pipe(argument(0)),
        libc::SYS_wait4 | libc::SYS_waitid => true,
        _ => false,
    };
    if is_interruptible { Activity::Waiting } else { Activity::Uninterruptible }
}

#[cfg(test)]
mod tests {
    use super::{Activity, WaitCheck, Waiting, activity, blocks_signal};

    #[test]
    fn only_restartable_calls_are_interrupted() {
        let line = |call: libc::c_long, arguments: &str| format!("{call} {arguments} 0x7ffc0 0x7f5a1\n");
        let futex = |limit: &str| line(libc::SYS_futex, &format!("0x55d0 0x189 0x0 {limit} 0x0 0xffffffff"));
        let sleep = |how: &str| line(libc::SYS_clock_nanosleep, &format!("{how} 0x7ffe0 0x0 0x0 0x0"));
        let read = |descriptor: &str| line(libc::SYS_read, &format!("{descriptor} 0x7f00 0x1000 0x0 0x0 0x0"));
        for (text, expected) in [
            ("running\n".to_owned(), Activity::Running),
            (String::new(), Activity::Running),
            ("-1 0x7ffc0 0x7f5a1\n".to_owned(), Activity::Uninterruptible),
            (futex("0x0"), Activity::Waiting),
            (futex("0x7ffe0"), Activity::Uninterruptible),
            (sleep("0x1 0x1"), Activity::Waiting),
            (sleep("0x1 0x0"), Activity::Uninterruptible),
            (sleep("0x0 0x1"), Activity::Uninterruptible),
            (read("0x3"), Activity::Waiting),
            (read("0x4"), Activity::Uninterruptible),
            (line(libc::SYS_write, "0x3 0x7f00 0x1000 0x0 0x0 0x0"), Activity::Uninterruptible),
            (line(libc::SYS_recvfrom, "0x3 0x7f00 0x1000 0x0 0x0 0x0"), Activity::Uninterruptible),
            (line(libc::SYS_epoll_pwait, "0x3 0x7f00 0x1 0x0 0x0 0x0"), Activity::Uninterruptible),
            (libc::SYS_futex.to_string(), Activity::Uninterruptible),
        ] {
            assert_eq!(activity(&text, |descriptor| descriptor == 3), expected, "{text}");
        }
    }

    #[test]
    fn blocked_signals_are_seen() {
        let status = "Name:\tpython\nSigBlk:\t0000000400000001\nSigIgn:\tffffffffffffffff\n";
        assert_eq!([1, 2, 34, 35, 64].map(|signal| blocks_signal(status, signal)), [true, false, false, true, false]);
        assert!(blocks_signal("Name:\tpython\n", 35), "what is not known is not touched");
        // The mask of `sigfillset`, without the numbers that glibc reserves, and the same without the signals of
        // faults.
        for mask in ["fffffffe7ffbfeff", "fffffffe7ffbfa07"] {
            assert!(blocks_signal(&format!("SigBlk:\t{mask}\n"), 33), "{mask}");
        }
    }

    const REQUESTED: Option<WaitCheck> = Some(WaitCheck { activity: Activity::Waiting, new_interval_ns: None });

    #[test]
    fn long_waits_are_probed_less_often() {
        for activity in [Activity::Waiting, Activity::Uninterruptible] {
            let mut waiting = Waiting::default();
            let checks = (0..10_000).map(|check| waiting.check(check * 10_000_000, 5, || activity));
            let request_count = checks.flatten().filter(|check| check.activity == activity).count();
            // At each of ten checks, then after each tenth of the wait: 11 + ln(100 s / 0.1 s) / ln(10/9).
            assert!((70..90).contains(&request_count), "{request_count}");
        }
    }

    #[test]
    fn threads_that_ran_between_looks_start_a_new_wait() {
        let mut waiting = Waiting::default();
        let mut check = |at: u64, used: u64, activity: Activity| waiting.check(at * 10_000_000, used, || activity);
        let running = |at: u64| Some(WaitCheck { activity: Activity::Running, new_interval_ns: Some(at * 10_000_000) });
        assert_eq!(check(0, 5, Activity::Waiting), running(0), "of the time before nothing is known");
        for at in 1..=10 {
            assert_eq!(check(at, 5, Activity::Waiting), REQUESTED);
        }
        assert_eq!(check(11, 5, Activity::Waiting), None, "a tenth of 110 ms is not over");
        assert_eq!(check(12, 5, Activity::Waiting), REQUESTED);
        let new_wait = WaitCheck { activity: Activity::Waiting, new_interval_ns: Some(120_000_000) };
        assert_eq!(
            check(13, 900_000, Activity::Waiting),
            Some(new_wait),
            "it ran: the wait of before is none of this one's"
        );
        assert_eq!(check(14, 950_000, Activity::Waiting), REQUESTED, "the answer took a little");
        assert_eq!(check(15, 950_000, Activity::Running), running(15));
        assert_eq!(check(16, 3, Activity::Waiting), running(16), "another thread");
    }

    /// A little CPU time between many waits adds up.
    #[test]
    fn many_short_waits_are_not_merged() {
        let mut waiting = Waiting::default();
        let checks = (0..1000_u64).map(|check| waiting.check(check * 10_000_000, check * 60_000, || Activity::Waiting));
        let request_count = checks.flatten().filter(|check| check.activity == Activity::Waiting).count();
        assert!(request_count > 400, "{request_count}");
    }
}
