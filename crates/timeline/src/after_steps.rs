//! Measurement of the time after the last step, such as evaluation or checkpointing.

use crate::source_location::{SourceLocationKey, SourceLocations};
use crate::steps::{upper_median, with_gpu_work};
use stackline_model::format::duration;
use stackline_model::{EventId, StrId, Trace};
use std::collections::BTreeMap;

/// Part of the name of profiler calls that end a recording.
const PROFILER_FRAME: &str = "torch/profiler/";
/// Minimum share of the time after the last step, in percent, for a source location to be named.
const MIN_LOCATION_PERCENT: i64 = 50;

/// Time after the last step in ns, and the call that takes most of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AfterSteps {
    /// Time from the end of the last step, with its GPU work, to the end of the last call of its thread.
    pub after_ns: i64,
    /// Source line with at least half of this time; without stacks, the call. `None` if no line has half.
    pub main_location: Option<String>,
}

impl AfterSteps {
    /// Measure the time after the last step. `None` without steps, if not longer than the median step, or if the
    /// recording pauses after the last step.
    #[must_use]
    pub fn from_trace(trace: &Trace) -> Option<Self> {
        let spans = with_gpu_work(trace);
        let lengths: Vec<i64> = spans.iter().map(|(from, to)| to.saturating_sub(*from)).collect();
        let last = trace.steps.iter().max_by_key(|step| step.end)?;
        if trace.pauses().iter().any(|pause| pause.start >= last.end) {
            return None;
        }
        let from = spans.iter().map(|(_, to)| *to).max()?;
        let calls = outermost_calls(trace, last.event, from);
        let after_ns = calls.iter().map(|&event| trace.events.end(event)).max()?.saturating_sub(from);
        if after_ns <= upper_median(&lengths)? {
            return None;
        }
        Some(Self { after_ns, main_location: dominant_location(trace, &calls, after_ns) })
    }
}

impl std::fmt::Display for AfterSteps {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let after = duration(self.after_ns);
        match &self.main_location {
            Some(place) => write!(f, "{after}, mostly in {place}"),
            None => f.write_str(&after),
        }
    }
}

/// Outermost calls on the thread of an event that begin at or after a given time in ns, without calls of the profiler.
/// Earlier calls are excluded, because they contain steps.
fn outermost_calls(trace: &Trace, event: EventId, from: i64) -> Vec<EventId> {
    let Some(&track) = trace.events.track.get(event.index()) else { return Vec::new() };
    let start = |event: EventId| trace.events.start[event.index()];
    let events = trace.track_events(track);
    let mut until = from;
    let mut found = Vec::new();
    for &event in &events[events.partition_point(|&event| start(event) < from)..] {
        if trace.events.is_timed(event) && start(event) >= until {
            // Calls inside a profiler call belong to the profiler, too.
            until = trace.events.end(event);
            found.extend((!trace.name(event).contains(PROFILER_FRAME)).then_some(event));
        }
    }
    found
}

/// Source location, or else name, of the calls that take at least half of `all_ns`, the total time in ns; `None` if
/// none does.
fn dominant_location(trace: &Trace, calls: &[EventId], all_ns: i64) -> Option<String> {
    let places = SourceLocations::new(trace);
    let mut times: BTreeMap<(SourceLocationKey, StrId), i64> = BTreeMap::new();
    for &call in calls {
        let place = places.line_key(call);
        let name = if places.is_own(place) { StrId::NONE } else { trace.events.name[call.index()] };
        let sum = times.entry((place, name)).or_default();
        *sum = sum.saturating_add(trace.events.dur[call.index()]);
    }
    let ((place, name), most) = times.into_iter().max_by_key(|(_, ns)| *ns)?;
    let is_most = most.saturating_mul(100) >= all_ns.saturating_mul(MIN_LOCATION_PERCENT);
    is_most.then(|| match name.some() {
        Some(name) => trace.strings.get(name).to_owned(),
        None => places.place(place).text(),
    })
}
