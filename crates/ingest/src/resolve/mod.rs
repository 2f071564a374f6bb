//! What needs the whole trace: time order, nesting, launches, ownership, steps, arrows. Independent of the format.

mod backward;
mod launches;
mod nesting;
mod ownership;
mod plausible;
mod rank;
mod steps;
mod streams;

use crate::ReadOptions;
use crate::sources::chrome::{self, FlowPoint};
use stackline_model::Trace;

/// Fills everything that is derived, and seals the trace.
pub(crate) fn resolve(trace: &mut Trace, flows: Vec<FlowPoint>, options: &ReadOptions) {
    let passes: [fn(&mut Trace); 8] = [
        rank::find,
        streams::number,
        plausible::mark,
        Trace::index_tracks,
        nesting::nest,
        steps::find,
        launches::link,
        ownership::fill,
    ];
    for pass in passes {
        // The caller drops the trace then.
        if options.is_cancelled() {
            return;
        }
        pass(trace);
    }
    // The correlation ids say what launch arrows say, without their gaps.
    let has_correlation = trace.gpu.correlation.iter().any(|&c| c > 0);
    chrome::link_flows(trace, flows, if has_correlation { chrome::LAUNCH_FLOWS } else { &[] });
    backward::link(trace);
    streams::check_overlaps(trace, options.clip_overlaps);
    trace.report.events = trace.events.len() as u64;
    trace.report.sort();
}
