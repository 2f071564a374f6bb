//! Unused allocations, in two kinds: never touched at all; and filled by sets or copies, but never used.
//!
//! Never said of an object in whose life an opaque kernel ran, nor of one that is alive when the trace ends before the
//! program: it may be used yet; nor of one that lives and dies within an operator: how that works is not the program's to
//! change.

use super::{Pattern, PatternMatch};
use crate::Facts;
use stackline_model::{MemoryObjectId, call_flags};

pub(super) fn detect_untouched(facts: &Facts<'_>, found: &mut Vec<PatternMatch>) {
    detect(facts, found, Pattern::UnusedAllocation);
}

pub(super) fn detect_never_read(facts: &Facts<'_>, found: &mut Vec<PatternMatch>) {
    detect(facts, found, Pattern::NeverRead);
}

fn detect(facts: &Facts<'_>, found: &mut Vec<PatternMatch>, pattern: Pattern) {
    for object in facts.trace.objects.ids() {
        let Some(bytes) = facts.bytes(object) else { continue };
        if kind(facts, object) == Some(pattern) {
            let life = facts.trace.life(object);
            let kernels = facts.kernels_in(life.clone());
            let row = object.index();
            let (from, to) = (facts.trace.objects.allocated_by[row], facts.trace.objects.freed_by[row]);
            found.push(PatternMatch::new(pattern, object, bytes).between(from, to, kernels).judged(facts, life));
        }
    }
}

fn kind(facts: &Facts<'_>, object: MemoryObjectId) -> Option<Pattern> {
    let used = &facts.uses[object.index()];
    let whole_life = facts.trace.objects.allocated_by[object.index()].is_some()
        && (facts.trace.saw_end || facts.trace.objects.freed_by[object.index()].is_some());
    let is_within = whole_life && {
        let allocated = facts.trace.objects.allocated_by[object.index()];
        facts.trace.calls.flags[allocated.index()] & call_flags::WITHIN_OPERATOR != 0
    };
    if used.uses > 0 || !whole_life || is_within || facts.opaque_in(facts.trace.life(object)) {
        return None;
    }
    Some(if used.first_touch.is_none() { Pattern::UnusedAllocation } else { Pattern::NeverRead })
}
