//! Whether PyTorch's allocator would hold less with segments that grow.

use super::make::{NewSuggestion, suggestion};
use super::{Action, Suggestion};
use crate::allocator::{AllocatorSettings, caches, reserved};
use crate::curve::{device_of, span_of};
use crate::tables::reserved_curve;
use crate::{Certainty, Facts, Pattern};
use stackline_model::{MemoryDeviceId, MemoryObjectId, MemoryTrace};

/// The model goes through so many objects, and no more: with more it would take longer than all other analysis.
const MOST_OBJECTS: usize = 200_000;

/// Less than this share of what is held is within the model's error: it knows neither the order of the device's addresses nor what lay where
/// before the records.
const LEAST_SAVED: f64 = 0.05;

/// A model that misses what was held by more says nothing of what would be.
const LARGEST_ERROR: f64 = 0.1;

/// One suggestion for each device of which the model says that the allocator would hold at least 5 % less at its highest.
pub(super) fn expandable(facts: &Facts<'_>) -> Vec<Suggestion> {
    let trace = facts.trace;
    if trace.objects.len() > MOST_OBJECTS {
        return Vec::new();
    }
    (0..trace.devices.len()).map(MemoryDeviceId::new).filter_map(|device| of_device(facts, device)).collect()
}

fn of_device(facts: &Facts<'_>, device: MemoryDeviceId) -> Option<Suggestion> {
    let trace = facts.trace;
    let settings = AllocatorSettings::of(trace, device);
    // Without a history the model has nothing to go through.
    if settings.expandable || trace.calls.is_empty() || !caches(trace, device) {
        return None;
    }
    let here = || trace.objects.ids().filter(|object| device_of(trace, *object) == device);
    let largest = here().max_by_key(|object| (trace.objects.bytes[object.index()], std::cmp::Reverse(*object)))?;
    let now = held(trace, settings, here());
    let then = held(trace, AllocatorSettings { expandable: true, ..settings }, here());
    // What was held is known better than by the model: of a training step with checkpoints it was 1020 MiB, by the model 1116.
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
    suggestion(facts, new).filter(|_| worth).map(|suggestion| Suggestion { bytes: saved, ..suggestion })
}

fn held(trace: &MemoryTrace, settings: AllocatorSettings, objects: impl Iterator<Item = MemoryObjectId>) -> u64 {
    reserved(trace, settings, objects.map(|object| (object, vec![span_of(trace, object)]))).peak
}
