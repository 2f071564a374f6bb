//! Device clocks that jump ahead during a trace. Waits after the jump return before the recorded end of their work, but
//! launches before the jump rule out every shift that makes these waits possible.
//!
//! After a jump back, operations begin before their launch calls ([`super::device_shift`]).

use super::device_shift::{LINKED, MIN_OPERATIONS};
use super::launches::shared_ids;
use super::proven_shift::{LEAST_PROVEN_NS, lowest};
use crate::diagnostics;
use rustc_hash::FxHashSet;
use stackline_model::waiting_calls::WaitingCall;
use stackline_model::{EventId, GpuOpId, Trace};

/// Contradiction between the launches and the waits of a device whose clock jumped ahead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Jump {
    /// Smallest shift of the device's times that launches allow, in ns.
    least: i64,
    /// Largest shift that waits allow, in ns.
    most: i64,
}

impl Jump {
    /// Time by which launches and waits contradict each other, in ns.
    pub(super) fn length_ns(self) -> i64 {
        self.least.saturating_sub(self.most)
    }

    /// Count the jump in the read report.
    pub(super) fn report(self, trace: &mut Trace, device: i32) {
        let (allowed, required) = (self.least.saturating_neg() as f64 / 1e9, self.most.saturating_neg() as f64 / 1e9);
        let example = format!(
            "device {device}: the calls that wait for it require its times to be {required:.6} s earlier, but its \
             launches allow at most {allowed:.6} s"
        );
        diagnostics::CLOCK_CONTRADICTED.count(&mut trace.report, None, &example);
    }
}

/// Launch of an operation: time from its start to the start of the operation, in ns, and the call.
type Launch = (i64, EventId);

/// Find a jump of a device's clock by its launches and by the calls that wait for it.
pub(super) fn find(trace: &Trace, waits: &[WaitingCall], device: i32) -> Option<Jump> {
    // The process of these operations was derived from the IDs of their launches, so the delays are no evidence.
    if trace.report.count_of(diagnostics::PROCESS_BY_CORRELATION.code) > 0 {
        return None;
    }
    let (shared, events) = (shared_ids(trace), &trace.events);
    let launch = |gpu: GpuOpId| {
        let (event, call) = (trace.gpu.event[gpu.index()], trace.gpu.launch[gpu.index()]);
        let is_known = call.is_some() && events.is_timed(event) && events.is_plausible(call);
        let is_evidence = is_known && !shared.contains(&trace.gpu.correlation[gpu.index()]);
        is_evidence.then(|| (events.start[event.index()].saturating_sub(events.start[call.index()]), call))
    };
    let of_device = trace.gpu.ids().filter(|gpu| trace.gpu.device[gpu.index()] == device);
    let mut launched: Vec<Launch> = of_device.filter_map(launch).collect();
    launched.sort_unstable();
    let exact = waits.iter().filter(|wait| wait.device == device && !wait.is_for_event);
    let mut returns: Vec<i64> = exact.map(|wait| wait.return_delay_ns(trace)).collect();
    returns.sort_unstable();
    contradiction(&launched, &returns)
}

/// Contradiction between many launches and many waits, whose delays are sorted. Wrong lengths of operations make waits
/// return early, too, but then no operation begins late.
fn contradiction(launched: &[Launch], returns: &[i64]) -> Option<Jump> {
    let least = lowest(launched.iter().map(|launch| launch.0), LEAST_PROVEN_NS)?.saturating_neg();
    let most = lowest(returns.iter().copied(), LEAST_PROVEN_NS)?;
    if most >= -LEAST_PROVEN_NS || least <= most.saturating_add(LEAST_PROVEN_NS) {
        return None;
    }
    let early = returns.iter().filter(|&&delay| delay < -LEAST_PROVEN_NS).count();
    let calls = |is_such: &dyn Fn(i64) -> bool| {
        let such: Vec<EventId> = launched.iter().filter(|launch| is_such(launch.0)).map(|launch| launch.1).collect();
        (such.len(), such.into_iter().collect::<FxHashSet<EventId>>().len())
    };
    // Before their launch after the shift that the waits require.
    let (against, calls_against) = calls(&|delay: i64| delay.saturating_add(most) < -LEAST_PROVEN_NS);
    let (_, late_calls) = calls(&|delay: i64| delay >= most.saturating_neg() / 2);
    let is_jump = are_many(early, returns.len())
        && are_many(against, launched.len())
        && calls_against >= LINKED
        && late_calls >= LINKED;
    is_jump.then_some(Jump { least, most })
}

/// Check if a number of records is too large for wrong ones: a tenth of all, or a quarter of few.
pub(super) fn are_many(count: usize, of: usize) -> bool {
    count >= MIN_OPERATIONS && count * 10 >= of || count > 1 && count * 4 >= of
}

#[cfg(test)]
mod tests {
    use super::*;

    const US: i64 = 1_000;

    /// Jump by launches with these delays, one call each, and by returns of waits, in µs.
    fn jump(delays: &[i64], returns: &[i64]) -> Option<(i64, i64)> {
        let mut launched: Vec<Launch> =
            delays.iter().enumerate().map(|(call, delay)| (delay * US, EventId::new(call))).collect();
        launched.sort_unstable();
        let mut returns: Vec<i64> = returns.iter().map(|delay| delay * US).collect();
        returns.sort_unstable();
        contradiction(&launched, &returns).map(|jump| (jump.least / US, jump.most / US))
    }

    /// Values before and after a jump, in the given numbers.
    fn at(before: usize, after: usize, values: [i64; 2]) -> Vec<i64> {
        [vec![values[0]; before], vec![values[1]; after]].concat()
    }

    #[test]
    fn jumps_ahead_contradict_launches_anywhere_in_a_trace() {
        for by in [500, 5_000, 50_000] {
            for (before, after) in [(30, 30), (54, 6), (6, 54), (3, 3)] {
                let found = jump(&at(before, after, [20, 20 + by]), &at(before, after, [10, 10 - by]));
                assert_eq!(found, Some((-20, 10 - by)), "{by} µs after {before} of {}", before + after);
            }
        }
    }

    #[test]
    fn single_records_and_constant_differences_are_no_jumps() {
        assert_eq!(jump(&[20; 60], &[10; 60]), None, "sound times");
        assert_eq!(jump(&at(30, 30, [20, 45]), &at(30, 30, [10, -15])), None, "noise");
        assert_eq!(jump(&at(58, 2, [20, 5_020]), &at(58, 2, [10, -4_990])), None, "two wrong records");
        assert_eq!(jump(&[20; 60], &at(30, 30, [10, -4_990])), None, "wrong lengths: no operation begins late");
        assert_eq!(jump(&at(30, 30, [20, 5_020]), &[10; 60]), None, "a full queue");
        assert_eq!(jump(&[5_020; 60], &[-4_990; 60]), None, "one shift agrees with all");
        assert_eq!(jump(&[20, 20, 20, 5_020, 5_020, 5_020], &[10, -4_990]), None, "one wait");
        assert_eq!(jump(&[20, 20, 5_020, 5_020], &[10, 10, -4_990, -4_990]), None, "few launches");
    }
}
