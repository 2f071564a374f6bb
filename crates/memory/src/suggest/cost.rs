//! What changes cost in time.

use stackline_model::{MemoryCallId, MemoryTrace};

/// Bytes per second that copies between host and device are assumed to reach (PCIe 4.0 with 16 lanes, in practice).
const COPY_BANDWIDTH: u64 = 25_000_000_000;

/// How long one copy takes, ns.
pub(super) fn copy_ns(bytes: u64) -> u64 {
    u64::try_from(u128::from(bytes) * 1_000_000_000 / u128::from(COPY_BANDWIDTH)).unwrap_or(u64::MAX)
}

/// The times of a trace, if it has any: a source without times gives the positions of calls.
pub(super) struct Times<'a> {
    trace: &'a MemoryTrace,
    known: bool,
}

impl<'a> Times<'a> {
    pub(super) fn new(trace: &'a MemoryTrace) -> Self {
        Self { trace, known: trace.calls.duration_ns.iter().any(|duration| *duration > 0) }
    }

    /// How long a call took, if that was measured.
    pub(super) fn time_of(&self, call: MemoryCallId) -> Option<u64> {
        Some(self.trace.calls.duration_ns[call.index()]).filter(|duration| *duration > 0)
    }

    /// From the end of a call to the begin of another one.
    fn between(&self, after: MemoryCallId, before: MemoryCallId) -> Option<u64> {
        let calls = &self.trace.calls;
        let end = calls.start_ns[after.index()].saturating_add_unsigned(calls.duration_ns[after.index()]);
        self.known.then(|| u64::try_from(calls.start_ns[before.index()].saturating_sub(end)).unwrap_or(0))
    }

    /// What of two copies of `copy_ns` each does not fit between two calls, and so stands on the critical path. All of it, where
    /// times are not known.
    pub(super) fn exposed(&self, copy_ns: u64, after: MemoryCallId, before: MemoryCallId) -> u64 {
        copy_ns.saturating_mul(2).saturating_sub(self.between(after, before).unwrap_or(0))
    }
}
