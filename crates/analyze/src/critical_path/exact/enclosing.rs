//! What encloses each event: found once for all, so that deep stacks are climbed only once.

use super::threads::is_annotation;
use stackline_model::{EventId, EventKind, Trace};

/// Places nest deeper than any reader needs to know.
pub(super) const DEPTH: usize = 12;

/// By event: itself or the innermost event around it of a kind.
pub(super) struct Enclosing {
    operator: Vec<EventId>,
    frame: Vec<EventId>,
    /// Annotations and modules.
    place: Vec<EventId>,
}

impl Enclosing {
    pub(super) fn new(trace: &Trace) -> Self {
        let none = || vec![EventId::NONE; trace.events.len()];
        let mut found = Self { operator: none(), frame: none(), place: none() };
        for track in trace.tracks.ids() {
            // Enclosing events come first.
            for &event in trace.track_events(track) {
                found.add(trace, event);
            }
        }
        found
    }

    fn add(&mut self, trace: &Trace, event: EventId) {
        let at = event.index();
        if let Some(parent) = trace.events.parent[at].some() {
            let parent = parent.index();
            (self.operator[at], self.frame[at]) = (self.operator[parent], self.frame[parent]);
            self.place[at] = self.place[parent];
        }
        let kind = trace.kind(event);
        match kind {
            EventKind::Operator => self.operator[at] = event,
            EventKind::PythonFunction => self.frame[at] = event,
            _ => {}
        }
        let is_module = kind == EventKind::PythonFunction && trace.name(event).starts_with("nn.Module: ");
        if is_module || is_annotation(trace, event) {
            self.place[at] = event;
        }
    }

    /// The event if it is an operator, else the innermost one around it.
    pub(super) fn operator(&self, event: EventId) -> EventId {
        self.operator[event.index()]
    }

    /// The event if it is a Python frame, else the innermost one around it.
    pub(super) fn frame(&self, event: EventId) -> EventId {
        self.frame[event.index()]
    }

    /// An event of either kind and those of its kind around it, innermost first.
    pub(super) fn chain<'a>(&'a self, trace: &'a Trace, event: EventId) -> impl Iterator<Item = EventId> + 'a {
        let of_kind = match event.some().map(|e| trace.kind(e)) {
            Some(EventKind::Operator) => &self.operator,
            _ => &self.frame,
        };
        std::iter::successors(event.some(), |e| of_kind[trace.events.parent[e.index()].some()?.index()].some())
    }

    /// The innermost annotation or module around an event, itself included.
    pub(super) fn place(&self, event: EventId) -> EventId {
        self.place[event.index()]
    }

    /// A place and those around it: the outermost [`DEPTH`] of them, outermost first.
    pub(super) fn places(&self, trace: &Trace, place: EventId) -> Vec<EventId> {
        let outer = |e: &EventId| self.place[trace.events.parent[e.index()].some()?.index()].some();
        let mut places: Vec<EventId> = std::iter::successors(place.some(), outer).collect();
        places.reverse();
        places.truncate(DEPTH);
        places.shrink_to_fit();
        places
    }
}
