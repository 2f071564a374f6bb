//! Checks of recorded times: events with implausible times, and device clocks that differ from the host's clock.

use super::{Check, Outcome};
use stackline_model::EventKind;

/// All records have plausible times.
pub(super) const TIMES_LEFT_OUT: Check = Check {
    name: "times_left_out",
    rule: "records have plausible times",
    consequence: "totals and time windows exclude records with implausible times, so reported times are too small; \
                  `stackline doctor` lists the reasons",
    read_codes: &[
        "bad_time",
        "no_time",
        "implausible_host_time",
        "zero_time",
        "zero_duration",
        "step_without_duration",
        "out_of_stream_order",
        "implausible_time",
        "implausible_length",
        "garbled_time",
    ],
    run: |trace| {
        let is_wrong =
            |e: &stackline_model::EventId| !trace.events.is_plausible(*e) && trace.kind(*e) != EventKind::Recording;
        let why = |e: stackline_model::EventId| {
            let (start, dur) = (trace.events.start[e.index()], trace.events.dur[e.index()]);
            format!("start {start} ns, duration {dur} ns")
        };
        Outcome {
            checked: trace.events.len(),
            breaches: trace.events.ids().filter(is_wrong).map(|e| (e, why(e))).collect(),
        }
    },
};

/// Device clocks agree with the host's clock.
pub(super) const DEVICE_CLOCK: Check = Check {
    name: "device_clock",
    rule: "the clock of each device agrees with the host's clock, except for small differences that are usual in \
           profiler traces",
    consequence: "if a device's clock differed, its times were shifted to the host's clock before all analyses",
    read_codes: &[],
    run: |trace| {
        let first = |device: i32| {
            let gpu = trace.gpu.ids().map(|gpu| gpu.index()).find(|&gpu| trace.gpu.device[gpu] == device)?;
            Some(trace.gpu.event[gpu])
        };
        let shifted = trace.meta.clocks.iter().filter(|clock| clock.applied_ns != 0);
        let breaches = shifted.filter_map(|clock| {
            Some((
                first(clock.device)?,
                format!("the times of device {} were shifted by {} ns", clock.device, clock.applied_ns),
            ))
        });
        Outcome { checked: trace.meta.clocks.len(), breaches: breaches.collect() }
    },
};
