//! Late deallocation: kernels run between the last use of an object and its free.
//!
//! A copy to the host is a use: what it still needs is not late. The last use is that of the host's order; if another
//! stream may still use the object then, the match is an inference.

use super::{Pattern, PatternMatch};
use crate::Facts;

pub(super) fn detect(facts: &Facts<'_>, found: &mut Vec<PatternMatch>) {
    for object in facts.trace.objects.ids() {
        let Some(bytes) = facts.bytes(object) else { continue };
        let (last_use, freed) = (facts.uses[object.index()].last_use, facts.trace.objects.freed_by[object.index()]);
        if freed.is_none() || last_use.is_none() || freed <= last_use || super::is_kept(facts, object) {
            continue;
        }
        let kernels = facts.kernels_between(last_use, freed);
        if kernels >= facts.rules.late_kernels.max(1) {
            let found_here = PatternMatch::new(Pattern::LateDeallocation, object, bytes)
                .between(last_use, freed, kernels)
                .judged_as_over(facts, last_use.index() + 1..freed.index());
            found.push(found_here);
        }
    }
}
