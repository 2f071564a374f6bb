//! What encloses each event: found once for all, so that deep stacks are climbed only once.

use super::names::{Names, bits};
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
    /// How many places enclose the event, itself included.
    places: Vec<u32>,
    /// The innermost of the outermost [`DEPTH`] places.
    shown: Vec<EventId>,
    /// Whether it is or lies in a span that loads data,
    loads_data: Vec<bool>,
    /// in one that does nothing but wait.
    only_waits: Vec<bool>,
}

impl Enclosing {
    pub(super) fn new(trace: &Trace, names: &Names) -> Self {
        let none = || vec![EventId::NONE; trace.events.len()];
        let no = || vec![false; trace.events.len()];
        let mut found = Self {
            operator: none(),
            frame: none(),
            place: none(),
            places: vec![0; trace.events.len()],
            shown: none(),
            loads_data: no(),
            only_waits: no(),
        };
        for track in trace.tracks.ids() {
            // Enclosing events come first.
            for &event in trace.track_events(track) {
                found.add(trace, names, event);
            }
        }
        found
    }

    fn add(&mut self, trace: &Trace, names: &Names, event: EventId) {
        let at = event.index();
        if let Some(parent) = trace.events.parent[at].some() {
            let parent = parent.index();
            (self.operator[at], self.frame[at]) = (self.operator[parent], self.frame[parent]);
            (self.place[at], self.places[at]) = (self.place[parent], self.places[parent]);
            self.shown[at] = self.shown[parent];
            self.loads_data[at] = self.loads_data[parent];
            self.only_waits[at] = self.only_waits[parent];
        }
        let known = names.of(trace, event);
        self.loads_data[at] |= known & bits::LOADS_DATA != 0;
        self.only_waits[at] |= known & bits::ONLY_WAITS != 0;
        let kind = trace.kind(event);
        match kind {
            EventKind::Operator => self.operator[at] = event,
            EventKind::PythonFunction => self.frame[at] = event,
            _ => {}
        }
        let is_module = kind == EventKind::PythonFunction && trace.name(event).starts_with("nn.Module: ");
        if is_module || is_annotation(trace, event) {
            self.place[at] = event;
            self.places[at] += 1;
            if self.places[at] as usize <= DEPTH {
                self.shown[at] = event;
            }
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

    /// Whether the event is, or lies in, a span that loads data.
    pub(super) fn loads_data(&self, event: EventId) -> bool {
        self.loads_data[event.index()]
    }

    /// Whether the event is, or lies in, a frame that does nothing but wait.
    pub(super) fn only_waits(&self, event: EventId) -> bool {
        self.only_waits[event.index()]
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

    /// Annotations and modules around an event, itself included: the outermost [`DEPTH`] of them, outermost first.
    pub(super) fn places(&self, trace: &Trace, event: EventId) -> Vec<EventId> {
        let shown = event.some().map_or(EventId::NONE, |event| self.shown[event.index()]);
        let mut places: Vec<EventId> = self.places_from(trace, shown).collect();
        places.reverse();
        places.shrink_to_fit();
        places
    }

    /// Annotations and modules around an event, itself included: innermost first.
    pub(super) fn places_outwards<'a>(
        &'a self,
        trace: &'a Trace,
        event: EventId,
    ) -> impl Iterator<Item = EventId> + 'a {
        self.places_from(trace, self.place[event.index()])
    }

    fn places_from<'a>(&'a self, trace: &'a Trace, place: EventId) -> impl Iterator<Item = EventId> + 'a {
        let outer = |e: &EventId| self.place[trace.events.parent[e.index()].some()?.index()].some();
        std::iter::successors(place.some(), outer)
    }
}

/// Whether events or something around them passes a test: each event is climbed over once.
pub(super) struct Around {
    /// Per event: not known yet, no, yes.
    known: Vec<Option<bool>>,
}

impl Around {
    pub(super) fn new(trace: &Trace) -> Self {
        Self { known: vec![None; trace.events.len()] }
    }

    /// Whether an event or one around it passes; the test must be the same at every call.
    pub(super) fn any(&mut self, trace: &Trace, event: EventId, test: impl Fn(EventId) -> bool) -> bool {
        let mut climbed = Vec::new();
        let mut at = event;
        let found = loop {
            if at.is_none() {
                break false;
            }
            if let Some(known) = self.known[at.index()] {
                break known;
            }
            climbed.push(at);
            if test(at) {
                break true;
            }
            at = trace.events.parent[at.index()];
        };
        for event in climbed {
            self.known[event.index()] = Some(found);
        }
        found
    }
}
