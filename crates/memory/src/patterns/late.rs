//! Late deallocation: kernels run between the last use of an object and its free.
//!
//! A copy to the host is a use, so its object is not late. The last use is that of the host order; if another stream
//! may still use the object then, the match is inferred.

use super::{Pattern, PatternMatch};
use crate::ObjectUsage;

/// Append a match to `found` for each object with kernels between its last use and its free.
pub(super) fn detect(usage: &ObjectUsage<'_>, found: &mut Vec<PatternMatch>) {
    for object in usage.trace.objects.ids() {
        let Some(bytes) = usage.bytes(object) else { continue };
        let (last_use, freed) = (usage.uses[object.index()].last_use, usage.trace.objects.freed_by[object.index()]);
        if freed.is_none() || last_use.is_none() || freed <= last_use || super::is_kept(usage, object) {
            continue;
        }
        let kernels = usage.kernels_between(last_use, freed);
        if kernels >= usage.rules.late_kernels.max(1) {
            let found_here = PatternMatch::new(Pattern::LateDeallocation, object, bytes)
                .between(last_use, freed, kernels)
                .with_certainty_after_last_use(usage, last_use.index() + 1..freed.index());
            found.push(found_here);
        }
    }
}
