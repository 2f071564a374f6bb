//! Index of event names in a trace: count, total time and first event of each name. A search then visits each name once
//! instead of each event.

use rustc_hash::FxHashMap;
use stackline_model::{EventKind, StrId, Trace};

/// Event name with the number, total time (ns) and first of its events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NameTotal {
    pub(crate) name: StrId,
    pub(crate) kind: EventKind,
    pub(crate) count: u64,
    pub(crate) ns: i64,
    pub(crate) first: u32,
}

/// Names of all events with a duration, one entry for each name and kind, sorted by descending total time.
#[derive(Debug, Default)]
pub(crate) struct Names(Vec<NameTotal>);

impl Names {
    /// Total the events of a trace by name and kind.
    pub(crate) fn from_trace(trace: &Trace) -> Self {
        let mut places: FxHashMap<(StrId, EventKind), usize> = FxHashMap::default();
        let mut all: Vec<NameTotal> = Vec::new();
        for event in trace.events.ids().filter(|&event| trace.events.is_timed(event)) {
            let (name, kind) = (trace.events.name[event.index()], trace.kind(event));
            let place = *places.entry((name, kind)).or_insert_with(|| {
                all.push(NameTotal { name, kind, count: 0, ns: 0, first: event.0 });
                all.len() - 1
            });
            all[place].count += 1;
            all[place].ns = all[place].ns.saturating_add(trace.events.dur[event.index()]);
        }
        all.sort_by(|a, b| b.ns.cmp(&a.ns).then_with(|| a.first.cmp(&b.first)));
        Self(all)
    }

    /// Find the event names that contain a text, regardless of case. `needle` is in lower case.
    pub(crate) fn containing(&self, trace: &Trace, needle: &str) -> Vec<NameTotal> {
        let mut known: FxHashMap<StrId, bool> = FxHashMap::default();
        let mut holds =
            |name: StrId| *known.entry(name).or_insert_with(|| trace.strings.get(name).to_lowercase().contains(needle));
        self.0.iter().filter(|found| holds(found.name)).copied().collect()
    }

    /// Event names with the longest total time, at most `count`, longest first.
    pub(crate) fn longest<'t>(&'t self, trace: &'t Trace, count: usize) -> impl Iterator<Item = &'t str> + 't {
        self.0.iter().take(count).map(|found| trace.strings.get(found.name))
    }
}
