//! Segments of the critical path that groups of uncovered time share, and the keys of groups.

use crate::large_group::LargeKind;
use stackline_model::{EventId, StrId};

/// Key of a group: kind and name of its events.
pub(super) type GroupKey = (LargeKind, StrId);

/// Critical-path segment of a group.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part {
    /// Position in the path.
    pub(super) at: u32,
    /// Length in ns.
    pub(super) ns: i64,
    /// Part of the length in a wait of unknown cause.
    pub(super) wait_ns: i64,
    /// Event in the segment, if any.
    pub(super) event: EventId,
}
