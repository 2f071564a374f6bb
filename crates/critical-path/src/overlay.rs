//! Overlay of a critical path on the trace file: marks and arrows.

use super::TrackKey;

/// One end of an arrow in the trace file: thread and time.
#[derive(Clone, Debug, PartialEq)]
pub struct FlowEnd {
    /// Process, as in the source.
    pub pid: TrackKey,
    /// Thread, as in the source.
    pub tid: TrackKey,
    /// Whole µs in the time of the file.
    pub ts_us: i64,
}

/// Arrow between two events of the trace file.
#[derive(Clone, Debug, PartialEq)]
pub struct FlowPair {
    /// Sequence number from 0.
    pub id: u64,
    /// Start of the arrow.
    pub from: FlowEnd,
    /// End of the arrow.
    pub to: FlowEnd,
    /// Weight of the edge in whole µs.
    pub weight_us: i64,
    /// True if the edge is on the path.
    pub critical: bool,
    /// HTA's text for the kind of edge.
    pub kind: &'static str,
}

/// Event of the trace file to mark as critical, with data to verify its identity.
#[derive(Clone, Debug, PartialEq)]
pub struct Mark {
    /// Position in the file's event list.
    pub index: u32,
    /// The event's name.
    pub name: String,
    /// Start of the event in ns, as in the path.
    pub start_ns: i64,
    /// Shift in ns that reading may have added: the file has the start with or without it.
    pub clock_shift_ns: i64,
}

/// Marks and arrows to add to a copy of the trace file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Overlay {
    /// Events on the path, by ascending position.
    pub critical: Vec<Mark>,
    /// Arrows to add.
    pub flows: Vec<FlowPair>,
    /// True to omit complete events that are not on the path.
    pub only_critical: bool,
}
