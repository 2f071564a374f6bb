//! Temporary idleness: kernels run between two uses of an object. One match per object, at its longest gap. A gap
//! between unordered uses is inferred, because they may be concurrent on the device.

use super::{Pattern, PatternMatch};
use crate::ObjectUsage;

/// Append a match to `found` for each object with kernels between two of its uses.
pub(super) fn detect(usage: &ObjectUsage<'_>, found: &mut Vec<PatternMatch>) {
    // Per object: its first longest gap, and the number of gaps.
    let mut longest: Vec<(u32, u32)> = vec![(u32::MAX, 0); usage.trace.objects.len()];
    for (at, gap) in usage.gaps.iter().enumerate() {
        let (best, times) = &mut longest[gap.object.index()];
        if *best == u32::MAX || usage.gaps[*best as usize].kernels < gap.kernels {
            *best = at as u32;
        }
        *times += 1;
    }
    for object in usage.trace.objects.ids() {
        let (best, times) = longest[object.index()];
        let (Some(bytes), Some(gap)) = (usage.bytes(object), usage.gaps.get(best as usize)) else { continue };
        let found_here =
            PatternMatch::new(Pattern::TemporaryIdleness, object, bytes).between(gap.after, gap.until, gap.kernels);
        found.push(PatternMatch { times, certainty: usage.certainty_of_gap(gap), ..found_here });
    }
}
