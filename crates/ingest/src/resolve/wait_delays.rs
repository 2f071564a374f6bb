//! Delays between the end of GPU work and the return of the calls that wait for it.

use rustc_hash::FxHashMap;
use stackline_model::Trace;
use stackline_model::waiting_calls::{unnamed_waits, waiting_calls};

/// Delays of waits' returns after the end of their work, in ns, by device.
#[derive(Default)]
pub(super) struct WaitDelays {
    /// Of waits for a device, for a stream or for a copy.
    exact: FxHashMap<i32, Vec<i64>>,
    /// Of waits for events, and of waits that may wait for less than the device's work.
    unsure: FxHashMap<i32, Vec<i64>>,
}

impl WaitDelays {
    /// Compute the delays of all waiting calls of a trace.
    pub(super) fn find(trace: &Trace) -> Self {
        let mut found = Self::default();
        let named = waiting_calls(trace);
        for wait in &named {
            let delays = if wait.is_for_event { &mut found.unsure } else { &mut found.exact };
            delays.entry(wait.device).or_default().push(wait.return_delay_ns(trace));
        }
        for wait in unnamed_waits(trace, &named) {
            found.unsure.entry(wait.device).or_default().push(wait.return_delay_ns(trace));
        }
        found
    }

    /// Delays of waits for a device, a stream or a copy, in ns.
    pub(super) fn exact(&self, device: i32) -> &[i64] {
        self.exact.get(&device).map_or(&[], Vec::as_slice)
    }

    /// Delays of waits for events, and of waits that may wait for less than the device's work, in ns.
    pub(super) fn unsure(&self, device: i32) -> &[i64] {
        self.unsure.get(&device).map_or(&[], Vec::as_slice)
    }
}
