//! Activity of each host thread over time: nesting of events, phases, and the innermost event.
//!
//! Nesting is computed here instead of read from the model, because it must not depend on the order of equal spans in
//! the file.

use super::window::Window;
use stackline_model::{EventId, EventKind, LinkKind, Trace, TrackId, TrackKind, flags};
use stackline_timeline::phase_rules::{LinkSide, Phase, PhaseRuleCache};
use std::cmp::Reverse;

/// Priority of a thread's activity when several threads of a process are active.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Priority {
    /// Python frame that waits for another thread.
    Wait,
    /// Python code, and annotations that match a rule.
    Python,
    /// Operators and runtime calls.
    Work,
}

/// Time range in which one event is the innermost event of its thread.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Segment {
    pub(super) start: i64,
    pub(super) end: i64,
    pub(super) event: EventId,
    pub(super) priority: Priority,
}

/// Host thread of a process, with its innermost events over time.
#[derive(Debug)]
pub(super) struct Thread {
    pub(super) track: TrackId,
    /// Disjoint segments in time order.
    pub(super) segments: Vec<Segment>,
    /// Runtime and driver calls, by start.
    pub(super) calls: Vec<EventId>,
}

/// Host threads of all processes in the window, with the phase and nesting of each event.
pub(super) struct Host {
    /// Threads per process, both in an order independent of the file.
    pub(super) processes: Vec<Vec<Thread>>,
    /// Phase per event.
    pub(super) phase: Vec<Phase>,
    /// Per event: the innermost enclosing event that counts on the path.
    pub(super) parent: Vec<EventId>,
    /// Number of events in the analysis.
    pub(super) rows: usize,
}

/// Compute the segments of all host threads (innermost event over time), and the phase and nesting of each event.
pub(super) fn build_host<'a>(trace: &'a Trace, book: &mut PhaseRuleCache<'a>, window: Window) -> Host {
    let n = trace.events.len();
    let links = link_sides(trace);
    let mut host =
        Host { processes: Vec::new(), phase: vec![Phase::Other; n], parent: vec![EventId::NONE; n], rows: 0 };
    let mut tracks: Vec<TrackId> =
        trace.tracks.ids().filter(|&t| trace.tracks.get(t).kind == TrackKind::Thread).collect();
    let text = |t: TrackId| (trace.key_text(trace.tracks.pid(t)), trace.key_text(trace.tracks.get(t).tid));
    tracks.sort_by_cached_key(|&t| text(t));
    let mut process = None;
    for track in tracks {
        let mut walker =
            Walker { trace, book, links: &links, window, host: &mut host, open: Vec::new(), cursor: i64::MIN };
        let Some(thread) = walker.thread(track) else { continue };
        let own = trace.tracks.get(track).process;
        match host.processes.last_mut().filter(|_| process == Some(own)) {
            Some(threads) => threads.push(thread),
            None => host.processes.push(vec![thread]),
        }
        process = Some(own);
    }
    // Some traces show the frames of helper processes. They are irrelevant while other processes do the program's work.
    let works = |threads: &[Thread]| {
        threads.iter().any(|t| !t.calls.is_empty() || t.segments.iter().any(|s| s.priority == Priority::Work))
    };
    if host.processes.iter().any(|p| works(p)) {
        host.processes.retain(|p| works(p));
    }
    host
}

/// For each event: its side (forward or backward) of a link between operator and backward operator, if any. An operator
/// inside a backward operator can be both; the backward side wins.
fn link_sides(trace: &Trace) -> Vec<Option<LinkSide>> {
    let mut sides = vec![None; trace.events.len()];
    for (from, _, _) in trace.links.of_kind(LinkKind::Backward) {
        sides[from.index()] = Some(LinkSide::Forward);
    }
    for (_, to, _) in trace.links.of_kind(LinkKind::Backward) {
        sides[to.index()] = Some(LinkSide::Backward);
    }
    sides
}

/// Open event on the stack of a thread, with its end.
struct OpenEvent {
    event: EventId,
    end: i64,
    priority: Priority,
}

/// Walk over the events of one thread with a stack of open events, to find the innermost event at each time.
struct Walker<'w, 'a> {
    trace: &'a Trace,
    book: &'w mut PhaseRuleCache<'a>,
    links: &'w [Option<LinkSide>],
    window: Window,
    host: &'w mut Host,
    open: Vec<OpenEvent>,
    cursor: i64,
}

impl Walker<'_, '_> {
    /// Compute the segments and calls of one thread, and the phase and nesting of its events. `None` if no event
    /// counts.
    fn thread(&mut self, track: TrackId) -> Option<Thread> {
        let events = self.ordered(track);
        let mut thread = Thread { track, segments: Vec::new(), calls: Vec::new() };
        let (mut autograd, mut mixed) = (false, false);
        for &event in &events {
            let i = event.index();
            let start = self.trace.events.start[i];
            self.close(start, &mut thread.segments);
            let outer = self.open.last().map(|o| o.event);
            let kind = self.trace.events.kind[i];
            let rule = self.book.rule_for(self.trace.events.name[i], kind, self.links[i]);
            let around = outer.map_or(Phase::Other, |o| self.host.phase[o.index()]);
            let phase = rule.map_or(around, |r| r.inside(around));
            self.host.phase[i] = phase;
            autograd |= rule.is_some_and(|r| r.autograd_thread);
            mixed |= outer.is_none() && !matches!(phase, Phase::Backward | Phase::Communication | Phase::Other);
            let Some(priority) = self.priority(event, rule.is_some()) else { continue };
            self.host.parent[i] = outer.unwrap_or(EventId::NONE);
            self.host.rows += 1;
            if kind.is_api_call() {
                thread.calls.push(event);
            }
            self.emit(start, &mut thread.segments);
            self.open.push(OpenEvent { event, end: self.trace.events.end(event), priority });
        }
        self.close(i64::MAX, &mut thread.segments);
        if autograd && !mixed {
            for event in events {
                let phase = &mut self.host.phase[event.index()];
                *phase = if *phase == Phase::Other { Phase::Backward } else { *phase };
            }
        }
        (!thread.segments.is_empty() || !thread.calls.is_empty()).then_some(thread)
    }

    /// Events of a thread that overlap the window, by start, outer ones first; ties by level and name.
    fn ordered(&self, track: TrackId) -> Vec<EventId> {
        let (trace, window) = (self.trace, self.window);
        let is_counted = |e: &EventId| {
            let i = e.index();
            let timed = trace.events.flags[i] & (flags::HAS_DURATION | flags::NO_TIME | flags::IMPLAUSIBLE);
            timed == flags::HAS_DURATION && trace.events.start[i] <= window.end && trace.events.end(*e) >= window.start
        };
        let mut events: Vec<EventId> = trace.track_events(track).iter().copied().filter(is_counted).collect();
        let span = |e: EventId| (trace.events.start[e.index()], Reverse(trace.events.dur[e.index()]));
        let mut from = 0;
        for at in 1..=events.len() {
            if at < events.len() && span(events[at]) == span(events[from]) {
                continue;
            }
            if at - from > 1 {
                events[from..at].sort_by(|&a, &b| {
                    (trace.kind(a).level(), trace.name(a)).cmp(&(trace.kind(b).level(), trace.name(b)))
                });
            }
            from = at;
        }
        events
    }

    /// Priority of an event among those of a process's threads; `None` if the event has no time of its own.
    fn priority(&mut self, event: EventId, has_rule: bool) -> Option<Priority> {
        Some(match self.trace.kind(event) {
            EventKind::Operator | EventKind::Runtime | EventKind::Driver | EventKind::Overhead | EventKind::Other => {
                Priority::Work
            }
            EventKind::PythonFunction if self.book.waits(self.trace.events.name[event.index()]) => Priority::Wait,
            EventKind::PythonFunction => Priority::Python,
            // An annotation names work and has no time of its own. One that matches a rule represents the code inside
            // it.
            EventKind::Annotation if has_rule => Priority::Python,
            _ => return None,
        })
    }

    /// Remove the events that ended by a time from the stack, and append their last segments.
    fn close(&mut self, at: i64, segments: &mut Vec<Segment>) {
        while let Some(end) = self.open.last().map(|o| o.end).filter(|&end| end <= at) {
            self.emit(end, segments);
            self.open.pop();
        }
    }

    /// Append a segment of the innermost open event, from the end of the last segment to the time `until`.
    fn emit(&mut self, until: i64, segments: &mut Vec<Segment>) {
        let start = self.cursor.max(self.window.start);
        let end = until.min(self.window.end);
        self.cursor = self.cursor.max(until);
        let Some(open) = self.open.last().filter(|_| end > start) else { return };
        // Time before the start of the innermost event belongs to it only if another event ended late. That time was
        // already assigned.
        let start = start.max(self.trace.events.start[open.event.index()]);
        let end = end.min(open.end);
        if end > start {
            segments.push(Segment { start, end, event: open.event, priority: open.priority });
        }
    }
}
