//! Dead write: a set or copy whose bytes are all overwritten before any read. One match per object, at its first dead
//! write; `bytes` are the wasted bytes of all its dead writes.

use super::{Pattern, PatternMatch};
use crate::ObjectUsage;

/// Append a match to `found` for each object with a set or copy whose bytes are all overwritten before any read.
pub(super) fn detect(usage: &ObjectUsage<'_>, found: &mut Vec<PatternMatch>) {
    let first = found.len();
    let mut matches: Vec<u32> = vec![u32::MAX; usage.trace.objects.len()];
    for dead in usage.dead_writes.iter().filter(|dead| usage.bytes(dead.object).is_some()) {
        let at = &mut matches[dead.object.index()];
        if let Some(known) = found.get_mut(*at as usize) {
            known.times += 1;
            known.bytes += dead.bytes;
            continue;
        }
        *at = found.len() as u32;
        let kernels = usage.kernels_between(dead.first, dead.second);
        let found_here = PatternMatch::new(Pattern::DeadWrite, dead.object, dead.bytes)
            .between(dead.first, dead.second, kernels)
            .with_certainty(usage, dead.first.index() + 1..dead.second.index());
        found.push(found_here);
    }
    found[first..].sort_by_key(|found| found.object);
}
