//! Rules of DrGPUM's published artifact, for comparison with its published numbers.
//!
//! The artifact's rules differ from Stackline's (docs/reference/memory-patterns.md). Calls are in host order. Only
//! kernels use an object. Every copy, also one that reads, counts as filling it. An object is redundant if other
//! objects of exactly its size are not yet seen at its first kernel in a backward walk, even if the same kernel uses
//! them. Ranges, streams and opaque kernels are unknown.

use crate::{ObjectUsage, Pattern};
use stackline_model::{MemoryCallId, MemoryCallKind, MemoryObjectId, MemoryTrace};
use std::collections::{BTreeMap, BTreeSet};

/// Number of objects per pattern, by the artifact's rules.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts(BTreeMap<Pattern, u32>);

impl Counts {
    /// Number of objects that match a pattern of wasted memory by the artifact's rules; 0 if none.
    pub fn count_of(&self, pattern: Pattern) -> u32 {
        self.0.get(&pattern).copied().unwrap_or(0)
    }
}

impl std::fmt::Display for Counts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let words: Vec<String> = self.0.iter().map(|(pattern, count)| format!("{}{count}", pattern.short())).collect();
        f.write_str(&words.join(" "))
    }
}

/// Usage of one object by kernels: first and last kernel, fills, and detected patterns.
#[derive(Clone, Copy, Default)]
struct KernelUsage {
    first_kernel: Option<MemoryCallId>,
    last_kernel: Option<MemoryCallId>,
    filled: bool,
    idle: bool,
    dead_write: bool,
}

/// Count objects by the artifact's rules, with the thresholds of `usage`.
pub fn count(usage: &ObjectUsage<'_>) -> Counts {
    let trace = usage.trace;
    let seen = collect_usage(usage);
    let mut counts = Counts::default();
    for object in trace.objects.ids() {
        for pattern in patterns(usage, object, &seen[object.index()]) {
            *counts.0.entry(pattern).or_default() += 1;
        }
    }
    let reusable = redundant(trace, &seen);
    if reusable > 0 {
        counts.0.insert(Pattern::RedundantAllocation, reusable);
    }
    counts
}

/// Usage of each object by kernels, from all calls in host order; copies and sets count as fills.
fn collect_usage(usage: &ObjectUsage<'_>) -> Vec<KernelUsage> {
    let trace = usage.trace;
    let mut seen = vec![KernelUsage::default(); trace.objects.len()];
    for call in trace.calls.ids() {
        let is_kernel = trace.calls.kind[call.index()] == MemoryCallKind::Kernel;
        let mut last = MemoryObjectId::NONE;
        for access in trace.accesses_of(call) {
            // Several accesses of one call to one object are one operation.
            if std::mem::replace(&mut last, access.object) == access.object {
                continue;
            }
            let seen = &mut seen[access.object.index()];
            if !is_kernel {
                seen.dead_write |= seen.filled;
                seen.filled = true;
                continue;
            }
            seen.filled = false;
            let idle = seen.last_kernel.filter(|before| *before != call);
            seen.idle |= idle.is_some_and(|b| usage.kernels_between(b, call) >= usage.rules.idle_kernels);
            seen.first_kernel = seen.first_kernel.or(Some(call));
            seen.last_kernel = Some(call);
        }
    }
    seen
}

/// Patterns that one object matches by the artifact's rules, except redundant allocation.
fn patterns(usage: &ObjectUsage<'_>, object: MemoryObjectId, seen: &KernelUsage) -> Vec<Pattern> {
    let row = object.index();
    let (allocated, freed) = (usage.trace.objects.allocated_by[row].some(), usage.trace.objects.freed_by[row].some());
    let apart = |from: Option<MemoryCallId>, to: Option<MemoryCallId>, least: u32| match (from, to) {
        (Some(from), Some(to)) => usage.kernels_between(from, to) >= least,
        _ => false,
    };
    let rules = [
        (Pattern::UnusedAllocation, seen.first_kernel.is_none()),
        (Pattern::MemoryLeak, freed.is_none()),
        (Pattern::TemporaryIdleness, seen.idle),
        (Pattern::DeadWrite, seen.dead_write),
        (Pattern::EarlyAllocation, apart(allocated, seen.first_kernel, usage.rules.early_kernels)),
        (Pattern::LateDeallocation, apart(seen.last_kernel, freed, usage.rules.late_kernels)),
    ];
    rules.into_iter().filter(|(_, holds)| *holds).map(|(pattern, _)| pattern).collect()
}

/// Number of redundant objects by the artifact's rule. Per size, first and last kernels are walked in order from the
/// end. An object is redundant if others were not met yet at its first kernel.
fn redundant(trace: &MemoryTrace, seen: &[KernelUsage]) -> u32 {
    let mut sizes: BTreeMap<u64, Vec<(MemoryCallId, MemoryObjectId)>> = BTreeMap::new();
    for object in trace.objects.ids() {
        if let (Some(first), Some(last)) = (seen[object.index()].first_kernel, seen[object.index()].last_kernel) {
            sizes.entry(trace.objects.bytes[object.index()]).or_default().extend([(first, object), (last, object)]);
        }
    }
    let mut redundant = 0;
    for mut ends in sizes.into_values() {
        ends.sort_unstable();
        let mut not_met: BTreeSet<MemoryObjectId> = ends.iter().map(|(_, object)| *object).collect();
        let mut once = BTreeSet::new();
        for (_, object) in ends.into_iter().rev() {
            not_met.remove(&object);
            if !once.insert(object) {
                redundant += u32::from(!not_met.is_empty());
            }
        }
    }
    redundant
}
