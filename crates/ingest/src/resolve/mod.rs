//! What needs the whole trace: time order, nesting, launches, ownership, steps, arrows. Independent of the format.

mod backward;
mod clocks;
mod device_shift;
pub(crate) mod garbled;
pub(crate) mod host;
pub(crate) mod in_flight;
mod launches;
mod nesting;
pub(crate) mod optimizer_cycles;
pub(crate) mod optimizer_steps;
mod ownership;
mod plausible;
pub(crate) mod rank;
mod steps;
mod stream_order;
mod streams;
mod unclosed;
pub(crate) mod unset;
mod waits;

use crate::ReadOptions;
use crate::byte_offsets::ByteOffsets;
use crate::sources::chrome::{self, FlowPoint};
use stackline_model::Trace;

/// A step of the work, with the places of the events in the text.
type Pass = fn(&mut Trace, &ByteOffsets);

/// What comes before the clocks of devices are compared with the host's.
const BEFORE: [Pass; 7] = [
    rank::find,
    |trace, _| streams::number(trace),
    |trace, _| trace.index_tracks(),
    unclosed::clamp,
    nesting::nest,
    in_flight::note,
    launches::link,
];

/// What needs the times of devices as they are used from then on.
const AFTER: [Pass; 3] = [plausible::mark, plausible::mark_covering, stream_order::mark];

/// Fills everything that is derived, and seals the trace.
pub(crate) fn resolve(trace: &mut Trace, flows: Vec<FlowPoint>, places: &ByteOffsets, options: &ReadOptions) {
    for pass in BEFORE {
        // The caller drops the trace then.
        if options.is_cancelled() {
            return;
        }
        pass(trace, places);
    }
    // The correlation ids say what launch arrows say, without their gaps.
    let has_correlation = trace.gpu.correlation.iter().any(|&c| c > 0);
    chrome::link_flows(trace, flows, if has_correlation { chrome::LAUNCH_FLOWS } else { &[] });
    launches::link_by_arrows(trace);
    launches::count_unpartnered(trace, places);
    let shifts = device_shift::apply(trace);
    for pass in AFTER {
        if options.is_cancelled() {
            return;
        }
        pass(trace, places);
    }
    steps::find(trace, options.step_annotation.as_ref());
    trace.mark_layers();
    ownership::fill(trace);
    clocks::bound(trace, places, &shifts);
    backward::link(trace, places);
    streams::check_overlaps(trace, places, options.clip_overlaps);
    trace.report.events = trace.events.len() as u64;
    trace.report.sort();
}
