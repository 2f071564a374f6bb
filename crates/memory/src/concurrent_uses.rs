//! Unordered (possibly concurrent) accesses to an object.

use rustc_hash::FxHashMap;
use stackline_model::{MemoryCallId, MemoryObjectId};

/// A stream (as a position in clocks), and the number of a call in it, from 1.
pub(crate) type InStream = (u32, u32);

/// Most uses of one object that are kept as going on at once. Of more, none counts as over again.
const MOST_BESIDE: usize = 256;

/// A use that no clock has.
const NEVER_OVER: InStream = (u32::MAX, u32::MAX);

/// Whether a call has happened before, or is, the one that stands at `now` and has this clock. Without a clock that is known of
/// calls of the same stream only.
pub(crate) fn is_over(call: InStream, now: InStream, clock: &[u32]) -> bool {
    if call.0 == now.0 { call.1 <= now.1 } else { clock.get(call.0 as usize).is_some_and(|count| *count >= call.1) }
}

/// Which uses of objects may run beside others.
#[derive(Debug, Default)]
pub(crate) struct Beside {
    /// Of objects that several streams use at once: the uses besides the last one that nothing says to be over by then.
    uses: FxHashMap<MemoryObjectId, Vec<InStream>>,
    /// By object, its first use since the host waited for all uses before that; empty if there is but one stream.
    since: Vec<MemoryCallId>,
    /// By object, from the first to the last of uses that nothing orders; apart, ascending. As not all uses are kept, they begin
    /// where the host waited last, which may be too early.
    spans: FxHashMap<MemoryObjectId, Vec<(MemoryCallId, MemoryCallId)>>,
}

impl Beside {
    /// For so many objects.
    pub(crate) fn new(objects: usize) -> Self {
        Self { since: vec![MemoryCallId::NONE; objects], ..Self::default() }
    }

    /// Of the uses so far, of which `last` is the last one, keeps those that may not be over at a new one, which stands at
    /// `now.0`. The first of the clocks is that of the new use, the second one that of the host.
    pub(crate) fn keep(
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
                MOST_BESIDE => *uses = vec![NEVER_OVER],
                _ if *uses == [NEVER_OVER] => {}
                _ => uses.push(last.0),
            }
        }
        if self.uses.get(&object).is_some_and(|uses| !uses.is_empty()) {
            self.note(object, since, now.1);
        }
    }

    /// Notes that from a call to another one there are uses that nothing orders.
    fn note(&mut self, object: MemoryObjectId, first: MemoryCallId, last: MemoryCallId) {
        let spans = self.spans.entry(object).or_default();
        let mut span = (first, last);
        while let Some(before) = spans.pop_if(|before| before.1 >= span.0) {
            span = (span.0.min(before.0), span.1.max(before.1));
        }
        spans.push(span);
    }

    /// The uses of an object that may go on when the host has made the last one.
    pub(crate) fn at_the_end(&self, object: MemoryObjectId) -> impl Iterator<Item = InStream> + '_ {
        self.uses.get(&object).into_iter().flatten().copied()
    }

    /// Whether all uses of an object run one after the other.
    pub(crate) fn is_in_order(&self, object: MemoryObjectId) -> bool {
        !self.spans.contains_key(&object)
    }

    /// Whether a use is over when the next one begins, and nothing that the host calls earlier or later runs in between.
    pub(crate) fn is_apart(&self, object: MemoryObjectId, after: MemoryCallId, until: MemoryCallId) -> bool {
        let spans = self.spans.get(&object).map_or(&[][..], Vec::as_slice);
        let next = spans.partition_point(|span| span.1 < after);
        spans.get(next).is_none_or(|span| span.0 > until)
    }
}
