//! Backward operators that claim the same forward operator.

use crate::{EventId, EventKind, Key, Trace};
use std::collections::BTreeMap;

impl Trace {
    /// Backward operators whose sequence number and forward thread another one before them in their process has, in the
    /// order of the events. Operators within such a one share its number and do not count. Graphs that are run twice
    /// (`retain_graph=True`) have such numbers; else links from forward to backward may be wrong.
    pub fn repeated_backward(&self) -> Vec<EventId> {
        let (sequence, thread) = (self.attr("Sequence number"), self.attr("Fwd thread id"));
        if !sequence.exists() || !thread.exists() {
            return Vec::new();
        }
        let claim = |event: EventId| {
            let number = sequence.i64(event).filter(|&n| n >= 0)?;
            let thread = thread.i64(event).filter(|&t| t > 0)?;
            (self.kind(event) == EventKind::Operator).then_some((number, thread))
        };
        let mut claims: BTreeMap<(Key, i64, i64), Vec<EventId>> = BTreeMap::new();
        for event in self.events.ids() {
            let Some((number, thread)) = claim(event) else { continue };
            if self.ancestors(event).any(|outer| claim(outer) == Some((number, thread))) {
                continue;
            }
            let pid = self.tracks.pid(self.events.track[event.index()]);
            claims.entry((pid, number, thread)).or_default().push(event);
        }
        let mut repeated: Vec<EventId> = claims.into_values().flat_map(|all| all.into_iter().skip(1)).collect();
        repeated.sort_unstable();
        repeated
    }
}
