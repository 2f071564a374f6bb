//! Early allocation: kernels run between the allocation of an object and its first use.
//!
//! Sets and copies that prepare the object do not count as uses: they can move with the allocation.

use super::{Pattern, PatternMatch};
use crate::Facts;

pub(super) fn detect(facts: &Facts<'_>, found: &mut Vec<PatternMatch>) {
    for object in facts.trace.objects.ids() {
        let Some(bytes) = facts.bytes(object) else { continue };
        let allocated = facts.trace.objects.allocated_by[object.index()];
        let first_use = facts.uses[object.index()].first_use;
        // An object that is older than the trace may have been used before.
        if allocated.is_none() || first_use.is_none() || first_use <= allocated {
            continue;
        }
        let kernels = facts.kernels_between(allocated, first_use);
        if kernels >= facts.rules.early_kernels.max(1) {
            let found_here = PatternMatch::new(Pattern::EarlyAllocation, object, bytes)
                .between(allocated, first_use, kernels)
                .judged(facts, allocated.index() + 1..first_use.index());
            found.push(found_here);
        }
    }
}
