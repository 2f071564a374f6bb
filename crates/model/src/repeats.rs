//! Backward operators that claim the same forward operator.

use crate::{EventId, EventKind, Key, Trace};

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
        let mut claims: Vec<(Key, i64, i64, EventId)> = Vec::new();
        for event in self.events.ids() {
            let Some((number, thread)) = claim(event) else { continue };
            if !self.ancestors(event).any(|outer| claim(outer) == Some((number, thread))) {
                claims.push((self.tracks.pid(self.events.track[event.index()]), number, thread, event));
            }
        }
        claims.sort_unstable();
        let same = |pair: &&[(Key, i64, i64, EventId)]| {
            let [a, b] = pair else { return false };
            (a.0, a.1, a.2) == (b.0, b.1, b.2)
        };
        let mut repeated: Vec<EventId> =
            claims.windows(2).filter(same).filter_map(|pair| pair.last()).map(|claim| claim.3).collect();
        repeated.sort_unstable();
        repeated
    }
}
