//! Early allocation: kernels run between the allocation of an object and its first use.
//!
//! Sets and copies from the host that prepare the object are not uses: they can move with the allocation. A device copy
//! is a use, because its source may change later. Within one operator of a framework nothing is early, because the
//! program cannot change the operator's allocations.

use super::{Pattern, PatternMatch};
use crate::ObjectUsage;
use stackline_model::call_flags;

/// Append a match to `found` for each object with kernels between its allocation and its first use.
pub(super) fn detect(usage: &ObjectUsage<'_>, found: &mut Vec<PatternMatch>) {
    for object in usage.trace.objects.ids() {
        let Some(bytes) = usage.bytes(object) else { continue };
        let allocated = usage.trace.objects.allocated_by[object.index()];
        let (first_use, needed) = (usage.uses[object.index()].first_use, usage.uses[object.index()].needed_from);
        // An object that is older than the trace may have been used earlier.
        if allocated.is_none() || first_use.is_none() || first_use <= allocated {
            continue;
        }
        if usage.trace.calls.flags[allocated.index()] & call_flags::WITHIN_OPERATOR != 0 {
            continue;
        }
        let kernels = usage.kernels_between(allocated, needed);
        if kernels >= usage.rules.early_kernels.max(1) {
            let found_here = PatternMatch::new(Pattern::EarlyAllocation, object, bytes)
                .between(allocated, needed, kernels)
                .with_certainty(usage, allocated.index() + 1..needed.index());
            found.push(found_here);
        }
    }
}
