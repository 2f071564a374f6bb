//! Decoding of the process and thread IDs in Nsight Systems files (`globalPid`, `globalTid`).

/// PID in a `globalPid` or `globalTid`: the bits above the 24 bits of the thread.
pub(super) fn pid_of(global: i64) -> i64 {
    (global >> 24) & 0xff_ffff
}

/// PID in a `globalPid`; `None` for 0, which no program has.
pub(super) fn process(global: Option<i64>) -> Option<i64> {
    global.map(pid_of).filter(|&pid| pid != 0)
}

/// Thread ID in a `globalTid` of Nsight Systems: the lowest 24 bits.
pub(super) fn tid_of(global: i64) -> i64 {
    global & 0xff_ffff
}
