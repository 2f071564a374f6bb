//! What needs the whole trace: time order, nesting, launches, ownership, steps, arrows. Independent of the format.

mod backward;
mod clocks;
pub(crate) mod garbled;
pub(crate) mod host;
mod launches;
mod nesting;
mod ownership;
mod plausible;
mod rank;
mod steps;
mod streams;
mod unclosed;
mod waits;

use crate::ReadOptions;
use crate::places::Places;
use crate::sources::chrome::{self, FlowPoint};
use stackline_model::Trace;

/// A step of the work, with the places of the events in the text.
type Pass = fn(&mut Trace, &Places);

/// Fills everything that is derived, and seals the trace.
pub(crate) fn resolve(trace: &mut Trace, flows: Vec<FlowPoint>, places: &Places, options: &ReadOptions) {
    let before: [Pass; 7] = [
        rank::find,
        |trace, _| streams::number(trace),
        plausible::mark,
        |trace, _| trace.index_tracks(),
        plausible::mark_covering,
        unclosed::clamp,
        nesting::nest,
    ];
    let after: [Pass; 3] = [launches::link, clocks::bound, |trace, _| ownership::fill(trace)];
    let run = |trace: &mut Trace, passes: &[Pass]| {
        // The caller drops the trace of a cancelled reading.
        passes.iter().take_while(|_| !options.is_cancelled()).for_each(|pass| pass(trace, places));
    };
    run(trace, &before);
    steps::find(trace, options.step_annotation.as_ref());
    run(trace, &after);
    if options.is_cancelled() {
        return;
    }
    // The correlation ids say what launch arrows say, without their gaps.
    let has_correlation = trace.gpu.correlation.iter().any(|&c| c > 0);
    chrome::link_flows(trace, flows, if has_correlation { chrome::LAUNCH_FLOWS } else { &[] });
    backward::link(trace);
    streams::check_overlaps(trace, places, options.clip_overlaps);
    trace.report.events = trace.events.len() as u64;
    trace.report.sort();
}
