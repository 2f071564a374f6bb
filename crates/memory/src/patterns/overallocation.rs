//! Overallocation: kernels access only a part of an object. Sets and copies do not count, because they fill bytes that
//! are never used.
//!
//! Shrinking is easy if the unused bytes are in few pieces: fragmentation (equation 1 of DrGPUM's paper) is 1 - largest
//! piece / all unused bytes.

use super::{Measure, Pattern, PatternMatch, intra};
use crate::ObjectUsage;

/// Append a match to `found` for each object with few bytes accessed by kernels.
pub(super) fn detect(usage: &ObjectUsage<'_>, found: &mut Vec<PatternMatch>) {
    for (object, touches) in intra::by_object(usage.touches()) {
        let Some(bytes) = usage.bytes(object) else { continue };
        let spans = intra::union(touches);
        let touched: u64 = spans.iter().map(|(begin, end)| end - begin).sum();
        if touched as f64 >= usage.rules.accessed_share * bytes as f64 {
            continue;
        }
        let untouched = bytes - touched;
        let largest_hole = largest_hole(&spans, bytes);
        let fragmentation = 1.0 - largest_hole as f64 / untouched as f64;
        let found_here = PatternMatch::new(Pattern::Overallocation, object, untouched).with_certainty(usage, 0..0);
        let measure = Some(Measure::Touched { bytes: touched, largest_hole, fragmentation });
        found.push(PatternMatch { measure, ..found_here });
    }
}

/// Largest contiguous range of an object of `bytes` bytes outside of ascending spans, in bytes.
fn largest_hole(spans: &[(u64, u64)], bytes: u64) -> u64 {
    let begins = spans.iter().map(|(begin, _)| *begin).chain([bytes]);
    let ends = [0].into_iter().chain(spans.iter().map(|(_, end)| *end));
    ends.zip(begins).map(|(end, begin)| begin.saturating_sub(end)).max().unwrap_or(0)
}
