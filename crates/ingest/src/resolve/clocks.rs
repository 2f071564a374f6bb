//! Bounds on the clock offset of each accelerator by causality: an operation does not start before its launch call, and
//! a call that waits for it does not return before it ends. The bounds apply to recorded times; the counts of single
//! operations apply to the times after the shift of devices.

use super::clock_jumps;
use super::device_shift::Outcome;
use crate::byte_offsets::{ByteOffsets, ProblemTally};
use crate::diagnostics;
use stackline_model::waiting_calls::waiting_calls;
use stackline_model::{DeviceClock, Trace};
use std::collections::BTreeMap;

/// Bounds on the clock offset of each device, by device number.
pub(super) type Clocks = BTreeMap<i32, DeviceClock>;

/// Compute the bounds on the clock offsets of a trace's devices. Requires launches and parents.
pub(super) fn set_bounds(trace: &mut Trace, places: &ByteOffsets, outcome: &Outcome) {
    let Outcome { shifts, contradicted } = outcome;
    let shifted = |device: i32| shifts.get(&device).copied().unwrap_or(0);
    let new = |device: i32| DeviceClock {
        applied_ns: shifted(device),
        contradicted_ns: contradicted.get(&device).copied().unwrap_or(0),
        ..DeviceClock::new(device)
    };
    let mut clocks: Clocks = shifts.keys().map(|&device| (device, new(device))).collect();
    let (mut early, mut early_by) = (ProblemTally::default(), BTreeMap::<i32, u64>::new());
    for gpu in trace.gpu.ids() {
        let (call, event) = (trace.gpu.launch[gpu.index()], trace.gpu.event[gpu.index()]);
        if call.is_none() || !trace.events.is_plausible(event) || !trace.events.is_plausible(call) {
            continue;
        }
        let device = trace.gpu.device[gpu.index()];
        let after = trace.events.start[event.index()].saturating_sub(trace.events.start[call.index()]);
        clocks.entry(device).or_insert_with(|| new(device)).add_launch(after.saturating_sub(shifted(device)));
        if after < 0 {
            early.add(event, String::new);
            *early_by.entry(device).or_default() += 1;
        }
    }
    let (mut late, mut late_by) = (ProblemTally::default(), BTreeMap::<i32, u64>::new());
    let waits = waiting_calls(trace);
    for wait in &waits {
        let device = wait.device;
        // The record of an event may be wrong, so it gives no bound.
        if !wait.is_for_event {
            let after = wait.return_delay_ns(trace).saturating_add(shifted(device));
            clocks.entry(device).or_insert_with(|| new(device)).add_wait(after);
        }
        if wait.returns_early(trace) {
            late.add(wait.call, String::new);
            *late_by.entry(device).or_default() += 1;
        }
    }
    for clock in clocks.values_mut().filter(|clock| clock.is_contradictory() && clock.contradicted_ns == 0) {
        if let Some(jump) = clock_jumps::find(trace, &waits, clock.device) {
            clock.contradicted_ns = jump.length_ns();
            jump.report(trace, clock.device);
        }
    }
    let report = &mut trace.report;
    early.report_with_example(diagnostics::EARLY_KERNEL, places, report, &example(&clocks, &early_by));
    late.report_with_example(diagnostics::LATE_KERNEL, places, report, &example(&clocks, &late_by));
    trace.meta.clocks = clocks.into_values().collect();
}

/// Example for a diagnostic: clock bounds, after the shift, of the device with most violations of a kind.
fn example(clocks: &Clocks, violations: &BTreeMap<i32, u64>) -> String {
    let worst = violations.iter().max_by_key(|&(&device, &count)| (count, std::cmp::Reverse(device)));
    let clock = worst.and_then(|(device, _)| clocks.get(device));
    clock.map(|clock| format!("device {}: {}", clock.device, bounds(&clock.after_shift()))).unwrap_or_default()
}

/// Text about the bounds on a clock's offset, or about their contradiction.
fn bounds(clock: &DeviceClock) -> String {
    match (clock.least_ns, clock.most_ns) {
        (Some(least), Some(most)) if least > most => {
            // A launch limits how early the clock may be, a wait how late.
            match (least >= 0, most >= 0) {
                (_, true) => format!(
                    "a launch shows that the device clock is at least {least} ns behind, but a wait shows that it is \
                     at most {most} ns behind: the clock drifts or jumps, or records are wrong"
                ),
                (true, false) => format!(
                    "a launch shows that the device clock is at least {least} ns behind, but a wait shows that it is \
                     at least {} ns ahead: the clock drifts or jumps, or records are wrong",
                    -most
                ),
                (false, false) => format!(
                    "a launch shows that the device clock is at most {} ns ahead, but a wait shows that it is at least \
                     {} ns ahead: the clock drifts or jumps, or records are wrong",
                    -least, -most
                ),
            }
        }
        (Some(least), Some(most)) if least > 0 => {
            format!("the device clock is {least} to {most} ns behind the host clock")
        }
        (Some(least), None) if least > 0 => format!("the device clock is at least {least} ns behind the host clock"),
        (Some(least), Some(most)) if most < 0 => {
            format!("the device clock is {} to {} ns ahead of the host clock", -most, -least)
        }
        (None, Some(most)) if most < 0 => format!("the device clock is at least {} ns ahead of the host clock", -most),
        _ => "the device clock may agree with the host clock".to_owned(),
    }
}
