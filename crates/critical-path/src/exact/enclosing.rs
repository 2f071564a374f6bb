//! Enclosing operator, frame and annotation of each event, precomputed in one pass because stacks can be deep.

use super::names::{Names, bits};
use super::wakeups::is_annotation;
use rustc_hash::FxHashMap;
use stackline_model::names::module_name;
use stackline_model::{EventId, EventKind, Trace};
use std::sync::OnceLock;

/// Maximum number of nested annotations and modules shown in reports.
pub(super) const DEPTH: usize = 12;

/// For each event: the innermost operator, frame and annotation around it, or the event itself.
pub(super) struct Enclosing {
    operator: Vec<EventId>,
    /// Computed on first use, because only reports of segments need it.
    frame: OnceLock<Vec<EventId>>,
    /// Innermost annotation or module.
    place: Vec<EventId>,
    /// For annotations and modules deeper than [`DEPTH`]: the innermost of the outermost [`DEPTH`] ones around them.
    shown: FxHashMap<EventId, EventId>,
    /// Bits: inside a span that loads data ([`LOADS_DATA`]), inside a span that only waits.
    inside: Vec<u8>,
}

const LOADS_DATA: u8 = 1;
const ONLY_WAITS: u8 = 2;

impl Enclosing {
    /// Find the enclosing operator, annotation or module of each event, in one pass per track.
    pub(super) fn new(trace: &Trace, names: &Names) -> Self {
        let mut found = Self {
            operator: vec![EventId::NONE; trace.events.len()],
            frame: OnceLock::new(),
            place: vec![EventId::NONE; trace.events.len()],
            shown: FxHashMap::default(),
            inside: vec![0; trace.events.len()],
        };
        // Nesting depth of annotations and modules, including themselves.
        let mut depth = FxHashMap::default();
        for track in trace.tracks.ids() {
            // Enclosing events come first.
            for &event in trace.track_events(track) {
                found.add(trace, names, event, &mut depth);
            }
        }
        found
    }

    /// Derive the enclosing spans of an event from those of its parent. `depth` is the number of nested annotations and
    /// modules.
    fn add(&mut self, trace: &Trace, names: &Names, event: EventId, depth: &mut FxHashMap<EventId, u32>) {
        let at = event.index();
        if let Some(parent) = trace.events.parent[at].some() {
            let parent = parent.index();
            self.operator[at] = self.operator[parent];
            (self.place[at], self.inside[at]) = (self.place[parent], self.inside[parent]);
        }
        let known = names.flags(trace, event);
        for (bit, here) in [(bits::LOADS_DATA, LOADS_DATA), (bits::ONLY_WAITS, ONLY_WAITS)] {
            self.inside[at] |= if known & bit != 0 { here } else { 0 };
        }
        let kind = trace.kind(event);
        if kind == EventKind::Operator {
            self.operator[at] = event;
        }
        let is_module = kind == EventKind::PythonFunction && module_name(trace.name(event)).is_some();
        if is_module || is_annotation(trace, event) {
            let outer = std::mem::replace(&mut self.place[at], event);
            let deep = 1 + depth.get(&outer).copied().unwrap_or(0);
            depth.insert(event, deep);
            if deep as usize > DEPTH {
                self.shown.insert(event, self.shown_for(outer));
            }
        }
    }

    /// Innermost operator at or around an event; none outside of operators.
    pub(super) fn operator(&self, event: EventId) -> EventId {
        self.operator[event.index()]
    }

    /// Innermost Python frame at or around an event; none outside of frames.
    pub(super) fn frame(&self, trace: &Trace, event: EventId) -> EventId {
        self.frame.get_or_init(|| frames(trace))[event.index()]
    }

    /// True if the event is, or lies in, a span that loads data.
    pub(super) fn loads_data(&self, event: EventId) -> bool {
        self.inside[event.index()] & LOADS_DATA != 0
    }

    /// True if the event is, or lies in, a frame that only waits.
    pub(super) fn only_waits(&self, event: EventId) -> bool {
        self.inside[event.index()] & ONLY_WAITS != 0
    }

    /// Operators at and around an event, innermost first.
    pub(super) fn operators<'a>(&'a self, trace: &'a Trace, event: EventId) -> impl Iterator<Item = EventId> + 'a {
        let innermost = event.some().and_then(|e| self.operator[e.index()].some());
        std::iter::successors(innermost, |e| self.operator[trace.events.parent[e.index()].some()?.index()].some())
    }

    /// Innermost annotation or module at or around an event; none outside of them.
    pub(super) fn place(&self, event: EventId) -> EventId {
        self.place[event.index()]
    }

    /// The outermost [`DEPTH`] annotations and modules at and around an event, innermost first.
    pub(super) fn shown_places<'a>(&'a self, trace: &'a Trace, event: EventId) -> impl Iterator<Item = EventId> + 'a {
        self.places_from(trace, self.shown_for(self.place[event.index()]))
    }

    /// Innermost of the outermost [`DEPTH`] annotations and modules at or around `place`.
    fn shown_for(&self, place: EventId) -> EventId {
        self.shown.get(&place).copied().unwrap_or(place)
    }

    /// All annotations and modules at and around an event, innermost first.
    pub(super) fn places_outwards<'a>(
        &'a self,
        trace: &'a Trace,
        event: EventId,
    ) -> impl Iterator<Item = EventId> + 'a {
        self.places_from(trace, self.place[event.index()])
    }

    /// The given annotation or module and those around it, innermost first.
    fn places_from<'a>(&'a self, trace: &'a Trace, place: EventId) -> impl Iterator<Item = EventId> + 'a {
        let outer = |e: &EventId| self.place[trace.events.parent[e.index()].some()?.index()].some();
        std::iter::successors(place.some(), outer)
    }
}

/// For each event: the innermost Python frame at or around it.
fn frames(trace: &Trace) -> Vec<EventId> {
    let mut frames = vec![EventId::NONE; trace.events.len()];
    for track in trace.tracks.ids() {
        for &event in trace.track_events(track) {
            let outer = trace.events.parent[event.index()].some().map(|parent| frames[parent.index()]);
            let is_frame = trace.kind(event) == EventKind::PythonFunction;
            frames[event.index()] = if is_frame { event } else { outer.unwrap_or(EventId::NONE) };
        }
    }
    frames
}

/// For each event: the innermost enclosing span of the outermost [`Spans::DEPTH`] annotations, operators and frames.
pub(super) struct Spans(Vec<EventId>);

impl Spans {
    /// Maximum depth. Scripts begin with a dozen frames of launchers.
    pub(super) const DEPTH: usize = 40;

    /// Find, for each event, the innermost of the outermost [`Self::DEPTH`] annotations, operators and frames around
    /// it.
    pub(super) fn new(trace: &Trace) -> Self {
        let mut shown = vec![EventId::NONE; trace.events.len()];
        let mut depth = vec![0u8; trace.events.len()];
        for track in trace.tracks.ids() {
            // Enclosing events come first.
            for &event in trace.track_events(track) {
                let at = event.index();
                if let Some(parent) = trace.events.parent[at].some() {
                    (shown[at], depth[at]) = (shown[parent.index()], depth[parent.index()]);
                }
                let kind = trace.kind(event);
                let counts =
                    matches!(kind, EventKind::Operator | EventKind::PythonFunction) || is_annotation(trace, event);
                if counts && usize::from(depth[at]) < Self::DEPTH {
                    (shown[at], depth[at]) = (event, depth[at] + 1);
                }
            }
        }
        Self(shown)
    }

    /// Innermost of the outermost [`Self::DEPTH`] spans at or around an event; none without such spans.
    pub(super) fn innermost(&self, event: EventId) -> EventId {
        self.0[event.index()]
    }

    /// Spans at and around `event`, innermost first; `event` must be a result of [`Self::innermost`].
    pub(super) fn around<'a>(&'a self, trace: &'a Trace, event: EventId) -> impl Iterator<Item = EventId> + 'a {
        let outer = |e: &EventId| self.0[trace.events.parent[e.index()].some()?.index()].some();
        std::iter::successors(event.some(), outer)
    }
}

/// Cache for a test of an event and all events around it, so that each event is tested once.
pub(super) struct AncestorCache {
    /// Result per event; `None` if unknown.
    known: Vec<Option<bool>>,
}

impl AncestorCache {
    /// Create an empty cache for the events of a trace.
    pub(super) fn new(trace: &Trace) -> Self {
        Self { known: vec![None; trace.events.len()] }
    }

    /// True if an event, or any event around it, passes a test. All calls must use the same test.
    pub(super) fn any(&mut self, trace: &Trace, event: EventId, test: impl Fn(EventId) -> bool) -> bool {
        let mut visited = Vec::new();
        let mut at = event;
        let found = loop {
            if at.is_none() {
                break false;
            }
            if let Some(known) = self.known[at.index()] {
                break known;
            }
            visited.push(at);
            if test(at) {
                break true;
            }
            at = trace.events.parent[at.index()];
        };
        for event in visited {
            self.known[event.index()] = Some(found);
        }
        found
    }
}
