//! Non-uniform access frequency: within one kernel, some bytes of an object are accessed much more often than others.
//!
//! Measured as the coefficient of variation (standard deviation over mean) of the access counts of all bytes that the
//! kernel accesses. One match per object, at the kernel with the largest value.

use super::{Measure, Pattern, PatternMatch, intra};
use crate::ObjectUsage;
use intra::ByteAccess;
use std::collections::BTreeMap;

/// Append a match to `found` for each object with a very uneven access frequency within one kernel.
pub(super) fn detect(usage: &ObjectUsage<'_>, found: &mut Vec<PatternMatch>) {
    for (object, touches) in intra::by_object(usage.touches()) {
        let Some(bytes) = usage.bytes(object) else { continue };
        let mut best: Option<(f64, &[ByteAccess])> = None;
        let mut times = 0;
        for kernel in touches.chunk_by(|a, b| a.call == b.call) {
            let variation = variation(&histogram(kernel));
            times += u32::from(variation > usage.rules.variation);
            if best.is_none_or(|(largest, _)| variation > largest) {
                best = Some((variation, kernel));
            }
        }
        let Some((variation, kernel)) = best.filter(|(variation, _)| *variation > usage.rules.variation) else {
            continue;
        };
        let call = kernel[0].call;
        let found_here = PatternMatch::new(Pattern::NonUniformAccess, object, bytes)
            .between(call, call, 0)
            .with_certainty(usage, 0..0);
        let histogram = histogram(kernel).into_iter().collect();
        let measure = Some(Measure::Frequency { variation, histogram });
        found.push(PatternMatch { times, measure, ..found_here });
    }
}

/// Number of bytes that were accessed from `least` to `most` times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bucket {
    /// Least access count.
    pub least: u32,
    /// Largest access count.
    pub most: u32,
    /// Number of bytes.
    pub bytes: u64,
}

impl Bucket {
    /// Format the range of a bucket's access counts: `3 times`, `3 to 7 times`.
    pub fn times_text(&self) -> String {
        match (self.least, self.most) {
            (1, 1) => "once".to_owned(),
            (least, most) if least == most => format!("{least} times"),
            (least, most) => format!("{least} to {most} times"),
        }
    }
}

/// Maximum number of buckets in a displayed histogram.
pub const MOST_BUCKETS: usize = 12;

/// Histogram with few buckets: one per count if there are at most `most` counts, else by powers of two.
pub fn buckets(histogram: &[(u32, u64)], most: usize) -> Vec<Bucket> {
    let mut buckets: Vec<Bucket> = Vec::new();
    let by_powers = histogram.len() > most;
    for &(times, bytes) in histogram {
        match buckets.last_mut().filter(|last| by_powers && last.least.checked_ilog2() == times.checked_ilog2()) {
            Some(last) => (last.most, last.bytes) = (times, last.bytes.saturating_add(bytes)),
            None => buckets.push(Bucket { least: times, most: times, bytes }),
        }
    }
    buckets
}

/// Histogram as text: `4096 B once, 64 B 16 times`.
pub fn histogram_text(histogram: &[(u32, u64)]) -> String {
    let text = |one: &Bucket| format!("{} B {}", one.bytes, one.times_text());
    buckets(histogram, MOST_BUCKETS).iter().map(text).collect::<Vec<_>>().join(", ")
}

/// Number of bytes per access count. Counts of overlapping accesses of the kernel add up.
fn histogram(kernel: &[ByteAccess]) -> BTreeMap<u32, u64> {
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

/// Coefficient of variation of access counts over all accessed bytes; 0 if the mean is 0.
fn variation(histogram: &BTreeMap<u32, u64>) -> f64 {
    let bytes: f64 = histogram.values().map(|bytes| *bytes as f64).sum();
    let mean = histogram.iter().map(|(times, bytes)| f64::from(*times) * *bytes as f64).sum::<f64>() / bytes;
    let spread = |(times, bytes): (&u32, &u64)| (f64::from(*times) - mean).powi(2) * *bytes as f64;
    let variance = histogram.iter().map(spread).sum::<f64>() / bytes;
    if mean > 0.0 { variance.sqrt() / mean } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::{Bucket, buckets, histogram_text};

    #[test]
    fn histogram_buckets_are_powers_of_two_and_cover_all_bytes() {
        assert_eq!(histogram_text(&[(1, 4096), (16, 64)]), "4096 B once, 64 B 16 times");
        let many: Vec<(u32, u64)> = (1..=20).map(|times| (times, u64::from(times))).collect();
        let few = buckets(&many, 12);
        let bucket = |least, most, bytes| Bucket { least, most, bytes };
        assert_eq!(few, [bucket(1, 1, 1), bucket(2, 3, 5), bucket(4, 7, 22), bucket(8, 15, 92), bucket(16, 20, 90)]);
        assert_eq!(few[1].times_text(), "2 to 3 times");
        assert_eq!(buckets(&many, 20).len(), 20);
        assert_eq!(buckets(&[], 3), []);
    }
}
