//! Suggestion of expandable segments, by the model of PyTorch's allocator.

use super::from_patterns::{NewSuggestion, suggestion};
use super::{Action, Suggestion};
use crate::allocator::{AllocatorSettings, is_from_caching_allocator, reserved};
use crate::curve::{device_of, span_of};
use crate::tables::reserved_curve;
use crate::{Certainty, ObjectUsage, Pattern};
use stackline_model::{MemoryDeviceId, MemoryObjectId, MemoryTrace};
use std::collections::BTreeMap;

/// Maximum number of objects in the model; with more, it would take longer than all other analyses.
const MOST_OBJECTS: usize = 200_000;

/// Least saved share of reserved memory. Less is within the model's error, which knows neither the order of the
/// device's addresses nor the layout before the records.
const LEAST_SAVED: f64 = 0.05;

/// Largest error of the model, as a share of the known reserved memory; beyond it the model is not used.
const LARGEST_ERROR: f64 = 0.1;

/// Suggestions of expandable segments: one per device whose predicted reserved memory falls by at least 5 % at its
/// maximum.
pub(super) fn expandable(usage: &ObjectUsage<'_>) -> Vec<Suggestion> {
    let trace = usage.trace;
    if trace.objects.len() > MOST_OBJECTS {
        return Vec::new();
    }
    (0..trace.devices.len()).map(MemoryDeviceId::new).filter_map(|device| of_device(usage, device)).collect()
}

/// Suggestion of expandable segments for one device; `None` if the model cannot be used or predicts no sufficient
/// saving.
fn of_device(usage: &ObjectUsage<'_>, device: MemoryDeviceId) -> Option<Suggestion> {
    let trace = usage.trace;
    let settings = AllocatorSettings::from_trace(trace, device);
    // Without a history the model has no input.
    if settings.expandable
        || trace.calls.is_empty()
        || !is_from_caching_allocator(trace, device)
        || !pools_are_known(trace, device)
    {
        return None;
    }
    let here = || trace.objects.ids().filter(|object| device_of(trace, *object) == device);
    let largest = here().max_by_key(|object| (trace.objects.bytes[object.index()], std::cmp::Reverse(*object)))?;
    let now = reserved_bytes(trace, settings, here());
    let then = reserved_bytes(trace, AllocatorSettings { expandable: true, ..settings }, here());
    // Recorded reserved memory is better than the model's: for a training step with checkpoints it was 1020 MiB, by the
    // model 1116.
    let known = reserved_curve(trace, device).iter().map(|(_, bytes)| *bytes).max().unwrap_or(now);
    let saved = now.min(known).saturating_sub(then);
    let new = NewSuggestion {
        object: largest,
        action: Action::ExpandableSegments,
        pattern: Pattern::Overallocation,
        certainty: Certainty::Inferred,
        cost_ns: 0,
    };
    let is_right = known.abs_diff(now) as f64 <= LARGEST_ERROR * known as f64;
    let worth = saved > 0 && saved as f64 >= LEAST_SAVED * now as f64 && is_right;
    suggestion(usage, new).filter(|_| worth).map(|suggestion| Suggestion { bytes: saved, ..suggestion })
}

/// True if the pool of every object of a device is known: there is no private pool, or objects without a pool are in
/// default segments that existed at their allocation. Released segments have no known pool, and blocks of one pool
/// serve no other.
fn pools_are_known(trace: &MemoryTrace, device: MemoryDeviceId) -> bool {
    let segments = || trace.segments.iter().filter(|segment| segment.device == device);
    let here = || trace.objects.ids().filter(|object| device_of(trace, *object) == device);
    let is_private = |object: MemoryObjectId| trace.objects.pool[object.index()].is_some();
    if !segments().any(|segment| segment.pool.is_some()) && !here().any(is_private) {
        return true;
    }
    // By address: end, and first call at which the segment existed.
    let mut usual: BTreeMap<u64, (u64, u32)> = segments()
        .filter(|segment| segment.pool.is_none())
        .map(|segment| (segment.address, (segment.address.saturating_add(segment.bytes), 0)))
        .collect();
    for event in trace.segment_events.iter().filter(|event| event.device == device && event.kind.grows()) {
        if let Some((_, (end, since))) = usual.range_mut(..=event.address).next_back()
            && event.address < *end
        {
            *since = (*since).max(event.before.0);
        }
    }
    let is_usual = |object: MemoryObjectId| {
        let made = trace.objects.allocated_by[object.index()].some().map_or(0, |call| call.0);
        let (address, segment) = (trace.objects.address[object.index()], |at| usual.range(..=at).next_back());
        segment(address).is_some_and(|(_, (end, since))| address < *end && *since <= made)
    };
    here().all(|object| is_private(object) || is_usual(object))
}

/// Maximum of the reserved bytes that the allocator model predicts for these objects.
fn reserved_bytes(
    trace: &MemoryTrace,
    settings: AllocatorSettings,
    objects: impl Iterator<Item = MemoryObjectId>,
) -> u64 {
    reserved(trace, settings, objects.map(|object| (object, vec![span_of(trace, object)]))).peak
}
