//! Passes over the complete trace, independent of its format: time order, nesting, launches, launch contexts, steps,
//! arrows.

mod backward;
mod clock_jumps;
mod clocks;
mod constant_delay;
mod device_shift;
mod duplicates;
pub(crate) mod garbled;
pub(crate) mod host;
pub(crate) mod in_flight;
mod instruction_samples;
mod launches;
mod long_operations;
mod nameless;
mod nesting;
pub(crate) mod optimizer_cycles;
pub(crate) mod optimizer_steps;
mod order_shift;
mod ownership;
mod plausible;
mod proven_shift;
pub(crate) mod rank;
mod shifted_events;
mod steps;
mod stream_order;
mod streams;
mod unclosed;
pub(crate) mod unset;
mod wait_delays;

use crate::ReadOptions;
use crate::byte_offsets::ByteOffsets;
use crate::sources::chrome::{self, FlowPoint};
use stackline_model::Trace;

/// A pass over the trace, with the byte offsets of its events.
type Pass = fn(&mut Trace, &ByteOffsets);

/// Passes before the clocks of devices are compared with the host's.
const PASSES_BEFORE_CLOCKS: [Pass; 9] = [
    nameless::fill,
    rank::fill_metadata,
    |trace, _| streams::set_numbers(trace),
    |trace, _| trace.index_tracks(),
    duplicates::leave_out,
    unclosed::clamp,
    nesting::nest,
    in_flight::note,
    launches::link,
];

/// Passes that require the shifted times of devices.
const PASSES_AFTER_CLOCKS: [Pass; 3] = [plausible::mark, plausible::mark_covering, stream_order::mark];

/// Run all passes over a complete trace: mark wrong times, shift device clocks, fill nesting, launches, steps and
/// links.
pub(crate) fn resolve(trace: &mut Trace, flows: Vec<FlowPoint>, places: &ByteOffsets, options: &ReadOptions) {
    for pass in PASSES_BEFORE_CLOCKS {
        // The caller then drops the trace.
        if options.is_cancelled() {
            return;
        }
        pass(trace, places);
    }
    // Correlation IDs contain the launch arrows, without their gaps.
    let has_correlation = trace.gpu.correlation.iter().any(|&c| c > 0);
    chrome::link_flows(trace, flows, if has_correlation { chrome::LAUNCH_FLOWS } else { &[] });
    launches::link_by_arrows(trace);
    launches::count_unpartnered(trace, places);
    let outcome = device_shift::apply(trace);
    for pass in PASSES_AFTER_CLOCKS {
        if options.is_cancelled() {
            return;
        }
        pass(trace, places);
    }
    steps::fill_steps(trace, options.step_annotation.as_ref());
    trace.mark_layers();
    ownership::fill_contexts(trace);
    clocks::set_bounds(trace, places, &outcome);
    backward::link(trace, places);
    streams::check_overlaps(trace, places, options.clip_overlaps);
    instruction_samples::nest(trace);
    trace.report.events = trace.events.len() as u64;
    trace.report.sort();
}
