//! Checks of recorded times: events with implausible times, and device clocks that differ from the host's clock.

use super::{Check, Outcome};
use stackline_model::{DeviceClock, EventKind};

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

/// Device clocks agree with the host's clock, and launches with waits.
pub(super) const DEVICE_CLOCK: Check = Check {
    name: "device_clock",
    rule: "the clock of each device agrees with the host's clock, except for small differences that are usual in \
           profiler traces, and one shift of its times agrees with all launches and waits",
    consequence: "steps, idle times and critical paths near a jump or drift of a device's clock are wrong; constant \
                  differences of clocks were corrected before all analyses",
    read_codes: &["device_clock_contradicted"],
    run: |trace| {
        let first = |device: i32| {
            let gpu = trace.gpu.ids().map(|gpu| gpu.index()).find(|&gpu| trace.gpu.device[gpu] == device)?;
            Some(trace.gpu.event[gpu])
        };
        let mut breaches = Vec::new();
        for clock in &trace.meta.clocks {
            for why in [shift(clock), contradiction(clock)].into_iter().flatten() {
                breaches.extend(first(clock.device).map(|event| (event, why)));
            }
        }
        Outcome { checked: trace.meta.clocks.len(), breaches }
    },
};

/// Text about the shift that reading applied to a device's times; `None` for recorded times.
fn shift(clock: &DeviceClock) -> Option<String> {
    let (device, by) = (clock.device, clock.applied_ns);
    (by != 0).then(|| format!("the times of device {device} were shifted by {by} ns"))
}

/// Text about a contradiction between launches and waits; `None` if a shift agrees with all of them.
fn contradiction(clock: &DeviceClock) -> Option<String> {
    let (least, most) = (clock.least_ns?, clock.most_ns?);
    clock.is_contradictory().then(|| {
        format!(
            "the launches of device {} require a shift of its times by at least {least} ns, but the calls that wait \
             for it allow at most {most} ns",
            clock.device
        )
    })
}
