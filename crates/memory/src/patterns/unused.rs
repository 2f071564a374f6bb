//! Unused allocations of two kinds: never accessed; and filled by sets or copies, but never used.
//!
//! Not reported are objects with an opaque kernel in their lifetime, and objects that live within one operator, which
//! the program cannot change. If the trace ends before the program, objects that are live at its end are not reported
//! either.

use super::{Pattern, PatternMatch};
use crate::ObjectUsage;
use stackline_model::{MemoryObjectId, call_flags};

/// Append a match to `found` for each object that is never accessed.
pub(super) fn detect_untouched(usage: &ObjectUsage<'_>, found: &mut Vec<PatternMatch>) {
    detect(usage, found, Pattern::UnusedAllocation);
}

/// Append a match to `found` for each object that is filled but never used.
pub(super) fn detect_never_read(usage: &ObjectUsage<'_>, found: &mut Vec<PatternMatch>) {
    detect(usage, found, Pattern::NeverRead);
}

/// Append a match to `found` for each object that is unused in the way of `pattern`.
fn detect(usage: &ObjectUsage<'_>, found: &mut Vec<PatternMatch>, pattern: Pattern) {
    for object in usage.trace.objects.ids() {
        let Some(bytes) = usage.bytes(object) else { continue };
        if kind(usage, object) == Some(pattern) {
            let life = usage.trace.life(object);
            let kernels = usage.kernels_in(life.clone());
            let row = object.index();
            let (from, to) = (usage.trace.objects.allocated_by[row], usage.trace.objects.freed_by[row]);
            found
                .push(PatternMatch::new(pattern, object, bytes).between(from, to, kernels).with_certainty(usage, life));
        }
    }
}

/// Pattern of an object without uses: never accessed, or only filled. `None` if it is used, or if an unseen use is
/// possible.
fn kind(usage: &ObjectUsage<'_>, object: MemoryObjectId) -> Option<Pattern> {
    let used = &usage.uses[object.index()];
    let whole_life = usage.trace.objects.allocated_by[object.index()].is_some()
        && (usage.trace.saw_end || usage.trace.objects.freed_by[object.index()].is_some());
    let is_within = whole_life && {
        let allocated = usage.trace.objects.allocated_by[object.index()];
        usage.trace.calls.flags[allocated.index()] & call_flags::WITHIN_OPERATOR != 0
    };
    if used.uses > 0 || !whole_life || is_within || usage.opaque_in(usage.trace.life(object)) {
        return None;
    }
    Some(if used.first_touch.is_none() { Pattern::UnusedAllocation } else { Pattern::NeverRead })
}
