//! Unordered (possibly concurrent) accesses to a memory object.

use rustc_hash::FxHashMap;
use stackline_model::{MemoryCallId, MemoryObjectId};

/// Stream (as a position in clocks), and number of the call in the stream, from 1.
pub(crate) type InStream = (u32, u32);

/// Maximum number of concurrent uses that are kept per object. With more, no use counts as over.
const MOST_CONCURRENT: usize = 256;

/// Use that is in no clock.
const NEVER_OVER: InStream = (u32::MAX, u32::MAX);

/// True if `call` happened before the call `now`, which has this clock, or is the same call. Without a clock, only the
/// order within one stream is known.
pub(crate) fn is_over(call: InStream, now: InStream, clock: &[u32]) -> bool {
    if call.0 == now.0 { call.1 <= now.1 } else { clock.get(call.0 as usize).is_some_and(|count| *count >= call.1) }
}

/// Record of unordered (possibly concurrent) uses, per object.
#[derive(Debug, Default)]
pub(crate) struct ConcurrentUses {
    /// For objects with concurrent uses on several streams: earlier uses that are not known to be over at the last use.
    uses: FxHashMap<MemoryObjectId, Vec<InStream>>,
    /// First use of each object since the host waited for all earlier uses; empty with a single stream.
    since: Vec<MemoryCallId>,
    /// Disjoint, ascending ranges of unordered uses per object, from first to last use. As not all uses are kept,
    /// ranges begin at the host's last wait, which may be too early.
    spans: FxHashMap<MemoryObjectId, Vec<(MemoryCallId, MemoryCallId)>>,
}

impl ConcurrentUses {
    /// Create the state without any uses, for this number of objects.
    pub(crate) fn new(objects: usize) -> Self {
        Self { since: vec![MemoryCallId::NONE; objects], ..Self::default() }
    }

    /// Process a new use (`now`) of an object: drop earlier uses that are over, and record unordered ones. `last` is
    /// the latest earlier use. The first clock belongs to the new use, the second one to the host.
    pub(crate) fn keep_unfinished(
        &mut self,
        object: MemoryObjectId,
        last: (InStream, MemoryCallId),
        now: (InStream, MemoryCallId),
        (clock, host): (&[u32], &[u32]),
    ) {
        let Some(since) = self.since.get_mut(object.index()) else { return };
        let waited = |place: InStream| host.get(place.0 as usize).is_some_and(|count| *count >= place.1);
        let uses = self.uses.get_mut(&object);
        let all_over = waited(last.0) && uses.iter().all(|uses| uses.iter().all(|place| waited(*place)));
        let first = since.some().unwrap_or(last.1);
        *since = if all_over { now.1 } else { first };
        let since = *since;
        if let Some(uses) = uses {
            uses.retain(|place| !is_over(*place, now.0, clock));
        }
        if !is_over(last.0, now.0, clock) {
            let uses = self.uses.entry(object).or_default();
            match uses.len() {
                MOST_CONCURRENT => *uses = vec![NEVER_OVER],
                _ if *uses == [NEVER_OVER] => {}
                _ => uses.push(last.0),
            }
        }
        if self.uses.get(&object).is_some_and(|uses| !uses.is_empty()) {
            self.note_unordered(object, since, now.1);
        }
    }

    /// Record a range of unordered uses, from one call to another.
    fn note_unordered(&mut self, object: MemoryObjectId, first: MemoryCallId, last: MemoryCallId) {
        let spans = self.spans.entry(object).or_default();
        let mut span = (first, last);
        while let Some(before) = spans.pop_if(|before| before.1 >= span.0) {
            span = (span.0.min(before.0), span.1.max(before.1));
        }
        spans.push(span);
    }

    /// Earlier uses of an object that may still run when its last use begins, because nothing orders them.
    pub(crate) fn unfinished_uses(&self, object: MemoryObjectId) -> impl Iterator<Item = InStream> + '_ {
        self.uses.get(&object).into_iter().flatten().copied()
    }

    /// True if all uses of an object are ordered.
    pub(crate) fn is_in_order(&self, object: MemoryObjectId) -> bool {
        !self.spans.contains_key(&object)
    }

    /// True if no range of unordered uses of an object overlaps the calls from `after` to `until`.
    pub(crate) fn is_apart(&self, object: MemoryObjectId, after: MemoryCallId, until: MemoryCallId) -> bool {
        let spans = self.spans.get(&object).map_or(&[][..], Vec::as_slice);
        let next = spans.partition_point(|span| span.1 < after);
        spans.get(next).is_none_or(|span| span.0 > until)
    }
}
