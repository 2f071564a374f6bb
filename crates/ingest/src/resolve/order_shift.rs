//! Shift of devices without known launches, by the order of their operations.

use super::device_shift::{LEAST_NS, Shift};
use stackline_model::{EventId, Trace, names};

/// Number of operations without a launch record that must agree.
const UNLINKED: usize = 8;

/// Shift of a device without known launches, if its main group of operations (gaps up to `group` ns) is outside the
/// host's time range. The first operation is placed at the return of the first launch call, or without launch calls at
/// the start of the host's events.
pub(super) fn shift_by_order(trace: &Trace, mut all: Vec<(i64, i64)>, host: (i64, i64), group: i64) -> Option<Shift> {
    all.sort_unstable();
    let count = all.len();
    let together = all.chunk_by(|a, b| b.0.saturating_sub(a.1) <= group).max_by_key(|g| g.len())?;
    let (first, last) = (together.first()?.0, together.iter().map(|ran| ran.1).max()?);
    let is_outside = first > host.1.saturating_add(10 * LEAST_NS) || last < host.0.saturating_sub(10 * LEAST_NS);
    if together.len() < UNLINKED || together.len() * 2 <= count || !is_outside {
        return None;
    }
    let calls = launch_calls(trace);
    // With as many calls as operations, the n-th call launched the n-th operation.
    let by = match calls.len() == together.len() {
        true => calls.iter().zip(together).map(|(call, ran)| call.1.saturating_sub(ran.0)).max()?,
        false => calls.first().map_or(host.0, |call| call.1).saturating_sub(first),
    };
    let (from, to) = (first.saturating_sub(group), last.saturating_add(group));
    Some(Shift { by, from, to, is_by_order: true })
}

/// Calls that launch work, sorted by start: start and end.
fn launch_calls(trace: &Trace) -> Vec<(i64, i64)> {
    let launches = |event: &EventId| {
        trace.kind(*event).is_api_call() && trace.events.is_timed(*event) && names::is_launch(trace.name(*event))
    };
    let mut calls: Vec<(i64, i64)> = trace
        .events
        .ids()
        .filter(launches)
        .map(|call| (trace.events.start[call.index()], trace.events.end(call)))
        .collect();
    calls.sort_unstable();
    calls
}
