//! Redundant allocation: an object could reuse the memory of another object of similar size, all of whose uses happen
//! before the memory is needed. The order is happens-before, not only host order. The match is inferred if an opaque
//! kernel ran in the lifetime of either object, because it may have used them.
//!
//! Each object gives its memory to at most one other, and takes it from at most one. Of all such matchings, the one
//! with the most bytes of taking objects is chosen: objects by descending size, each with an augmenting path. That is
//! optimal, because only one side has weights. Beyond [`MOST_EXACT`] objects, only objects of equal size are matched,
//! each with the free object whose last use is earliest.

use super::{Certainty, Pattern, PatternMatch};
use crate::ObjectUsage;
use stackline_model::MemoryObjectId;
use std::collections::{BTreeMap, BTreeSet};

/// Maximum number of objects for the optimal matching.
const MOST_EXACT: usize = 1_000;

/// Maximum number of free objects tried per object beyond [`MOST_EXACT`]; they may belong to other streams.
const MOST_TRIES: usize = 64;

/// Append a match to `found` for each object that could reuse the memory of another.
pub(super) fn detect(usage: &ObjectUsage<'_>, found: &mut Vec<PatternMatch>) {
    let used: Vec<MemoryObjectId> =
        usage.trace.objects.ids().filter(|o| usage.bytes(*o).is_some() && usage.uses[o.index()].uses > 0).collect();
    let pairs = if used.len() <= MOST_EXACT { best_matching(usage, &used) } else { same_size_matching(usage, &used) };
    for (object, other) in pairs {
        let (freed, used) = (usage.uses[other.index()].last_use, usage.uses[object.index()].first_use);
        let bytes = usage.trace.objects.bytes[object.index()].min(usage.trace.objects.bytes[other.index()]);
        let kernels = usage.kernels_between(freed, used);
        let joint = joint_lifetime(usage, object, other);
        let own = PatternMatch::new(Pattern::RedundantAllocation, object, bytes)
            .between(freed, used, kernels)
            .with_certainty(usage, joint.clone());
        let certainty = own.certainty.max(Certainty::determine(usage, other, joint));
        found.push(PatternMatch { other, certainty, ..own });
    }
}

/// Range of call positions from the first allocation to the last free of two objects.
fn joint_lifetime(usage: &ObjectUsage<'_>, one: MemoryObjectId, other: MemoryObjectId) -> std::ops::Range<usize> {
    let (a, b) = (usage.trace.life(one), usage.trace.life(other));
    a.start.min(b.start)..a.end.max(b.end)
}

/// True if `object` could reuse the memory of `other`: similar size, same device, and all uses of `other` end before.
fn fits(usage: &ObjectUsage<'_>, object: MemoryObjectId, other: MemoryObjectId) -> bool {
    let objects = &usage.trace.objects;
    let (a, b) = (objects.bytes[object.index()], objects.bytes[other.index()]);
    let close = a.abs_diff(b) as f64 <= usage.rules.size_tolerance * a.max(b) as f64;
    close && objects.device[object.index()] == objects.device[other.index()] && usage.is_done_before(other, object)
}

/// Optimal matching of reuse: maps each taking object to its giving object, with the most bytes of taking objects.
fn best_matching(usage: &ObjectUsage<'_>, used: &[MemoryObjectId]) -> BTreeMap<MemoryObjectId, MemoryObjectId> {
    let mut takers = used.to_vec();
    let bytes = |object: &MemoryObjectId| usage.trace.objects.bytes[object.index()];
    takers.sort_by_key(|object| (std::cmp::Reverse(bytes(object)), usage.uses[object.index()].first_use));
    let mut givers = used.to_vec();
    givers.sort_by_key(|object| usage.uses[object.index()].last_use);
    let mut taken_by: BTreeMap<MemoryObjectId, MemoryObjectId> = BTreeMap::new();
    for taker in takers {
        augment(usage, &givers, taker, &mut taken_by, &mut BTreeSet::new());
    }
    taken_by.into_iter().map(|(giver, taker)| (taker, giver)).collect()
}

/// Assign a giving object to `taker`, if necessary by reassigning other takers (augmenting path); `false` if there is
/// none.
fn augment(
    usage: &ObjectUsage<'_>,
    givers: &[MemoryObjectId],
    taker: MemoryObjectId,
    taken_by: &mut BTreeMap<MemoryObjectId, MemoryObjectId>,
    seen: &mut BTreeSet<MemoryObjectId>,
) -> bool {
    let fitting: Vec<MemoryObjectId> = givers.iter().copied().filter(|giver| fits(usage, taker, *giver)).collect();
    if let Some(free) = fitting.iter().find(|giver| !taken_by.contains_key(giver)) {
        taken_by.insert(*free, taker);
        return true;
    }
    for giver in fitting {
        if seen.insert(giver) {
            let now = taken_by.get(&giver).copied();
            if now.is_some_and(|other| augment(usage, givers, other, taken_by, seen)) {
                taken_by.insert(giver, taker);
                return true;
            }
        }
    }
    false
}

/// Greedy matching of reuse for many objects: maps each taking object to a giving object of equal size.
fn same_size_matching(usage: &ObjectUsage<'_>, used: &[MemoryObjectId]) -> BTreeMap<MemoryObjectId, MemoryObjectId> {
    let mut sizes: BTreeMap<u64, Vec<MemoryObjectId>> = BTreeMap::new();
    for object in used {
        sizes.entry(usage.trace.objects.bytes[object.index()]).or_default().push(*object);
    }
    let mut pairs = BTreeMap::new();
    for mut takers in sizes.into_values() {
        takers.sort_by_key(|object| usage.uses[object.index()].first_use);
        let mut free: BTreeSet<_> =
            takers.iter().map(|object| (usage.uses[object.index()].last_use, *object)).collect();
        for taker in takers {
            let giver = free.iter().take(MOST_TRIES).find(|(_, giver)| fits(usage, taker, *giver)).copied();
            if let Some(giver) = giver {
                free.remove(&giver);
                pairs.insert(taker, giver.1);
            }
        }
    }
    pairs
}

/// One-pass algorithm of DrGPUM's paper (section 5.1, figure 3), for comparison: pairs of taking and giving object. In
/// each group of objects whose sizes differ from the largest by at most the tolerance, first and last uses are sorted
/// and walked from the end. Within one call, a last use comes after a first use.
pub fn paper_one_pass(usage: &ObjectUsage<'_>) -> Vec<(MemoryObjectId, MemoryObjectId)> {
    let bytes = |object: &MemoryObjectId| usage.trace.objects.bytes[object.index()];
    let mut used: Vec<MemoryObjectId> =
        usage.trace.objects.ids().filter(|o| usage.bytes(*o).is_some() && usage.uses[o.index()].uses > 0).collect();
    used.sort_by_key(|object| (std::cmp::Reverse(bytes(object)), *object));
    let mut pairs = Vec::new();
    while let Some(largest) = used.first().map(bytes) {
        let close =
            |object: &&MemoryObjectId| (largest - bytes(object)) as f64 <= usage.rules.size_tolerance * largest as f64;
        let group: Vec<MemoryObjectId> = used.iter().take_while(close).copied().collect();
        used.drain(..group.len());
        walk(usage, &group, &mut pairs);
    }
    pairs
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Status {
    Initial,
    InUse,
    Done,
    Reused,
}

/// Append the pairs of one group of similar sizes (taking object, giving object), from a walk over first and last uses
/// from the end.
fn walk(usage: &ObjectUsage<'_>, group: &[MemoryObjectId], pairs: &mut Vec<(MemoryObjectId, MemoryObjectId)>) {
    let mut ends: Vec<(usize, bool, usize)> = Vec::new();
    for (at, object) in group.iter().enumerate() {
        let used = &usage.uses[object.index()];
        ends.push((used.first_use.index(), false, at));
        ends.push((used.last_use.index(), true, at));
    }
    ends.sort_unstable();
    let mut status = vec![Status::Initial; group.len()];
    for position in (0..ends.len()).rev() {
        let (_, is_last, at) = ends[position];
        if is_last {
            if status[at] == Status::Initial {
                status[at] = Status::InUse;
            }
            continue;
        }
        if status[at] == Status::InUse {
            status[at] = Status::Done;
        }
        let left = ends[..position].iter().rev();
        let closest = left.filter(|(_, is_last, _)| *is_last).map(|(_, _, other)| *other);
        if let Some(other) = closest.into_iter().find(|other| status[*other] == Status::Initial && *other != at) {
            status[other] = Status::Reused;
            pairs.push((group[at], group[other]));
        }
    }
}
