//! Non-uniform access frequency: within one kernel, some bytes of an object are touched much more often than others.
//!
//! Measured as the coefficient of variation (standard deviation over mean) of the counts of those bytes that the kernel
//! touches at all. One match per object, at the kernel where it is largest.

use super::{Measure, Pattern, PatternMatch, intra};
use crate::Facts;
use intra::Touch;
use std::collections::BTreeMap;

pub(super) fn detect(facts: &Facts<'_>, found: &mut Vec<PatternMatch>) {
    for (object, touches) in intra::by_object(facts.touches()) {
        let Some(bytes) = facts.bytes(object) else { continue };
        let mut best: Option<(f64, &[Touch])> = None;
        let mut times = 0;
        for kernel in touches.chunk_by(|a, b| a.call == b.call) {
            let variation = variation(&histogram(kernel));
            times += u32::from(variation > facts.rules.variation);
            if best.is_none_or(|(largest, _)| variation > largest) {
                best = Some((variation, kernel));
            }
        }
        let Some((variation, kernel)) = best.filter(|(variation, _)| *variation > facts.rules.variation) else {
            continue;
        };
        let call = kernel[0].call;
        let found_here =
            PatternMatch::new(Pattern::NonUniformAccess, object, bytes).between(call, call, 0).judged(facts, 0..0);
        let histogram = histogram(kernel).into_iter().collect();
        let measure = Some(Measure::Frequency { variation, histogram });
        found.push(PatternMatch { times, measure, ..found_here });
    }
}

/// Bytes by how often they were touched. Where several accesses of the kernel overlap, their counts add up.
fn histogram(kernel: &[Touch]) -> BTreeMap<u32, u64> {
    let mut changes: Vec<(u64, i64)> = Vec::with_capacity(kernel.len() * 2);
    for touch in kernel {
        changes.push((touch.begin, i64::from(touch.times)));
        changes.push((touch.end, -i64::from(touch.times)));
    }
    changes.sort_unstable();
    let (mut counts, mut count, mut from) = (BTreeMap::new(), 0i64, 0);
    for (at, change) in changes {
        if count > 0 && at > from {
            *counts.entry(u32::try_from(count).unwrap_or(u32::MAX)).or_default() += at - from;
        }
        count += change;
        from = at;
    }
    counts
}

fn variation(histogram: &BTreeMap<u32, u64>) -> f64 {
    let bytes: f64 = histogram.values().map(|bytes| *bytes as f64).sum();
    let mean = histogram.iter().map(|(times, bytes)| f64::from(*times) * *bytes as f64).sum::<f64>() / bytes;
    let spread = |(times, bytes): (&u32, &u64)| (f64::from(*times) - mean).powi(2) * *bytes as f64;
    let variance = histogram.iter().map(spread).sum::<f64>() / bytes;
    if mean > 0.0 { variance.sqrt() / mean } else { 0.0 }
}
