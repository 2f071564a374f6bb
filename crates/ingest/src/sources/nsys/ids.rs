//! Numbers of processes and threads.

/// A process by its number, from what exports call `globalPid` or `globalTid`: the number stands above 24 bits of a thread's.
pub(super) fn pid_of(global: i64) -> i64 {
    (global >> 24) & 0xff_ffff
}

/// The process of a `globalPid`, if it names one: no program is the process 0.
pub(super) fn process(global: Option<i64>) -> Option<i64> {
    global.map(pid_of).filter(|&pid| pid != 0)
}

/// The thread's number in a `globalTid`.
pub(super) fn tid_of(global: i64) -> i64 {
    global & 0xff_ffff
}
