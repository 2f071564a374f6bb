//! Checks that launch calls and GPU operations match: each has its counterpart, and no operation starts too early.

use super::{Check, Outcome};
use stackline_model::names::is_fill_launch;
use stackline_model::{EventId, Trace};

/// No GPU operation starts before its launch call.
pub(super) const KERNEL_BEFORE_LAUNCH: Check = Check {
    name: "kernel_before_launch",
    rule: "GPU operations start no earlier than the call that launches them",
    consequence: "the clocks of host and device differ, so launch delays are wrong by the difference, and causes of \
                  idle time may be wrong",
    read_codes: &["kernel_before_launch"],
    run: |trace| {
        let mut outcome = Outcome::default();
        for gpu in trace.gpu.ids().map(|gpu| gpu.index()) {
            let (event, call) = (trace.gpu.event[gpu], trace.gpu.launch[gpu]);
            if call.is_none() || !trace.events.is_plausible(event) || !trace.events.is_plausible(call) {
                continue;
            }
            outcome.checked += 1;
            let early = trace.events.start[call.index()].saturating_sub(trace.events.start[event.index()]);
            if early > 0 {
                outcome.breaches.push((
                    event,
                    format!("the operation starts {early} ns before its launch call {}", trace.name(call)),
                ));
            }
        }
        outcome
    },
};

/// Every launch call has a recorded GPU operation.
pub(super) const LAUNCH_WITHOUT_RECORD: Check = Check {
    name: "launch_without_record",
    rule: "every launch call has a recorded GPU operation, except calls captured into a CUDA graph, and fills \
           (memset), which profilers may omit",
    consequence: "GPU times of operators are too small, idle times are too large, and the critical path attributes \
                  time of missing kernels to the host",
    read_codes: &["kernels_not_recorded"],
    run: |trace| {
        let is_fill = |call: &EventId| is_fill_launch(trace.name(*call));
        let without = trace.unrecorded_launches().iter().copied().filter(|call| !is_fill(call));
        let with: std::collections::BTreeSet<_> = trace.gpu.launch.iter().filter_map(|call| call.some()).collect();
        let breaches = without.map(|call| (call, "no operation has the correlation ID of the call".to_owned()));
        let breaches: Vec<_> = breaches.collect();
        Outcome { checked: with.len() + breaches.len(), breaches }
    },
};

/// Every GPU operation has a recorded launch call.
pub(super) const RECORD_WITHOUT_LAUNCH: Check = Check {
    name: "record_without_launch",
    rule: "every GPU operation has a recorded launch call",
    consequence: "GPU operations without a launch call have no operator, step or launch delay, and the critical path \
                  between them and the host is unknown",
    read_codes: &[],
    run: |trace: &Trace| {
        let without = trace.gpu.ids().map(|gpu| gpu.index()).filter(|&gpu| trace.gpu.launch[gpu].is_none());
        let why = |gpu: usize| match trace.gpu.correlation[gpu] {
            id if id > 0 => format!("no call has the correlation ID {id}"),
            _ => "the operation has no correlation ID".to_owned(),
        };
        Outcome { checked: trace.gpu.len(), breaches: without.map(|gpu| (trace.gpu.event[gpu], why(gpu))).collect() }
    },
};
