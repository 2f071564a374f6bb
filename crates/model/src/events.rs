//! Event table: one row per kept record, in the order of the source.

use crate::{EventId, EventKind, Level, Phase, StrId, TrackId, flags};

/// Events as columns of equal length. Rows are in the order of the source (so that HTA's "event index" and exports are
/// exact); the time order per track is an index of [`crate::Trace`].
#[derive(Clone, Debug, Default)]
pub struct EventTable {
    /// Start in ns since [`crate::TraceMeta::base_ns`].
    pub start: Vec<i64>,
    /// Duration in ns, never negative; 0 for points in time.
    pub dur: Vec<i64>,
    /// Track.
    pub track: Vec<TrackId>,
    /// Name.
    pub name: Vec<StrId>,
    /// Category text as in the source; [`StrId::NONE`] if there was none.
    pub category: Vec<StrId>,
    /// Kind. [`Self::set_kind`] changes it together with the level.
    pub kind: Vec<EventKind>,
    /// Level of the stack: that of the kind, unless the source or the name is more specific.
    pub level: Vec<Level>,
    /// Form of the record.
    pub phase: Vec<Phase>,
    /// Bits of [`flags`].
    pub flags: Vec<u8>,
    /// Position in the source's event list (`traceEvents`), counting records that are not rows (metadata, flows).
    pub source_index: Vec<u32>,
    /// Innermost enclosing event on the same track, set when the trace is sealed.
    pub parent: Vec<EventId>,
}

/// Event to append: see [`EventTable`] for the fields.
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "the columns of EventTable carry the docs")]
pub struct NewEvent {
    pub start: i64,
    pub dur: i64,
    pub track: TrackId,
    pub name: StrId,
    pub category: StrId,
    pub kind: EventKind,
    pub phase: Phase,
    pub flags: u8,
    pub source_index: u32,
}

impl EventTable {
    /// Append an event, without parent and with the level of its kind.
    pub fn push(&mut self, event: NewEvent) -> EventId {
        let id = EventId::new(self.start.len());
        self.start.push(event.start);
        self.dur.push(event.dur);
        self.track.push(event.track);
        self.name.push(event.name);
        self.category.push(event.category);
        self.kind.push(event.kind);
        self.level.push(event.kind.level());
        self.phase.push(event.phase);
        self.flags.push(event.flags);
        self.source_index.push(event.source_index);
        self.parent.push(EventId::NONE);
        id
    }

    /// Set the kind of an event, and its level to that of the kind. A level that differs from that of the old kind was
    /// set on purpose and is kept.
    pub fn set_kind(&mut self, event: EventId, kind: EventKind) {
        let row = event.index();
        if self.level[row] == self.kind[row].level() {
            self.level[row] = kind.level();
        }
        self.kind[row] = kind;
    }

    /// Number of events in the event table.
    pub fn len(&self) -> usize {
        self.start.len()
    }

    /// True if the event table has no events.
    pub fn is_empty(&self) -> bool {
        self.start.is_empty()
    }

    /// Handles of all events in row order.
    pub fn ids(&self) -> impl ExactSizeIterator<Item = EventId> + DoubleEndedIterator + use<> {
        (0..self.len() as u32).map(EventId)
    }

    /// End of an event in ns since the base of the trace (saturating).
    pub fn end(&self, event: EventId) -> i64 {
        self.start[event.index()].saturating_add(self.dur[event.index()])
    }

    /// True if a flag bit of an event is set.
    pub fn has(&self, event: EventId, flag: u8) -> bool {
        self.flags[event.index()] & flag != 0
    }

    /// True if the event's times can be used in spans and totals.
    pub fn is_plausible(&self, event: EventId) -> bool {
        self.flags[event.index()] & (flags::IMPLAUSIBLE | flags::NO_TIME) == 0
    }

    /// True if the event is a span with plausible times.
    pub fn is_timed(&self, event: EventId) -> bool {
        self.flags[event.index()] & (flags::HAS_DURATION | flags::IMPLAUSIBLE | flags::NO_TIME) == flags::HAS_DURATION
    }

    /// Check that all columns of the event table are equally long.
    pub fn check(&self) -> Result<(), String> {
        let n = self.len();
        let lengths = [
            self.dur.len(),
            self.track.len(),
            self.name.len(),
            self.category.len(),
            self.kind.len(),
            self.level.len(),
            self.phase.len(),
            self.flags.len(),
            self.source_index.len(),
            self.parent.len(),
        ];
        if lengths.iter().all(|&l| l == n) {
            Ok(())
        } else {
            Err(format!("the columns of the table of events differ in length: {n} and {lengths:?}"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn level_follows_the_kind_unless_set_on_purpose() {
        let mut events = EventTable::default();
        let event = NewEvent {
            start: 0,
            dur: 1,
            track: TrackId(0),
            name: StrId(0),
            category: StrId::NONE,
            kind: EventKind::Other,
            phase: Phase::Complete,
            flags: 0,
            source_index: 0,
        };
        let (plain, layer) = (events.push(event), events.push(event));
        events.level[layer.index()] = Level::Layer;
        events.set_kind(plain, EventKind::Kernel);
        events.set_kind(layer, EventKind::PythonFunction);
        assert_eq!(events.kind, [EventKind::Kernel, EventKind::PythonFunction]);
        assert_eq!(events.level, [Level::Kernel, Level::Layer]);
    }
}
