//! Run time that suggested memory changes add, such as copies for offloading.

use stackline_model::{MemoryCallId, MemoryTrace};

/// Assumed bandwidth of copies between host and device, bytes per second (PCIe 4.0 with 16 lanes, in practice).
const COPY_BANDWIDTH: u64 = 25_000_000_000;

/// Estimated duration of one copy between device and host, in ns.
pub(super) fn copy_ns(bytes: u64) -> u64 {
    u64::try_from(u128::from(bytes) * 1_000_000_000 / u128::from(COPY_BANDWIDTH)).unwrap_or(u64::MAX)
}

/// Lookup of call durations and gaps in ns. A source without times has positions of calls instead.
pub(super) struct Times<'a> {
    trace: &'a MemoryTrace,
    known: bool,
}

impl<'a> Times<'a> {
    /// Test if the calls of a trace have durations.
    pub(super) fn new(trace: &'a MemoryTrace) -> Self {
        Self { trace, known: trace.calls.duration_ns.iter().any(|duration| *duration > 0) }
    }

    /// Measured duration of a call in ns; `None` if unknown.
    pub(super) fn duration_of(&self, call: MemoryCallId) -> Option<u64> {
        Some(self.trace.calls.duration_ns[call.index()]).filter(|duration| *duration > 0)
    }

    /// Time in ns from the end of a call to the begin of another one; `None` for a source without times.
    fn between(&self, after: MemoryCallId, before: MemoryCallId) -> Option<u64> {
        let calls = &self.trace.calls;
        let end = calls.start_ns[after.index()].saturating_add_unsigned(calls.duration_ns[after.index()]);
        self.known.then(|| u64::try_from(calls.start_ns[before.index()].saturating_sub(end)).unwrap_or(0))
    }

    /// Added run time in ns of two copies (`copy_ns` each) that run between two calls: the part that exceeds the time
    /// between them. All of it without times.
    pub(super) fn exposed_copy_ns(&self, copy_ns: u64, after: MemoryCallId, before: MemoryCallId) -> u64 {
        copy_ns.saturating_mul(2).saturating_sub(self.between(after, before).unwrap_or(0))
    }
}
