//! Table of failed allocation requests with their causes.

use super::{allocator::Reserved, int, percent};
use crate::allocator::{AllocatorSettings, segment_bytes};
use crate::curve::{Curve, alive_by, curves, device_of};
use crate::source_location::place_text;
use stackline_model::caching_allocator::SMALL_REQUEST;
use stackline_model::format::{bytes, count};
use stackline_model::{
    MemoryBlockState, MemoryCallId, MemoryDeviceId, MemoryObjectId, MemorySegment, MemoryTrace, OutOfMemory, Table,
    Unit,
};

/// Maximum number of failures that are explained below the table.
const MOST_EXPLAINED: usize = 3;

/// Memory when a request failed: allocated, reserved and free bytes, and the largest owner.
struct MemoryState {
    allocated: u64,
    reserved: Option<u64>,
    /// Largest free block of the request's pool and stream, if the segments are those of this moment.
    largest_free: Option<u64>,
    /// Largest free block of other streams in the request's pool, if the segments are those of this moment.
    largest_elsewhere: Option<u64>,
    /// Freed bytes that another stream may still use.
    awaiting: u64,
    /// Free bytes of other private pools, if the segments are those of this moment.
    other_private: Option<u64>,
    /// True if the device has private pools, such as those of CUDA graphs.
    has_private: bool,
    /// True if the allocator uses expandable segments.
    expandable: bool,
    /// Bytes of the device; 0 if unknown.
    total: u64,
    /// True for host memory.
    is_host: bool,
    /// Size of the segment that the allocator requested from the device.
    segment: u64,
    /// Largest owner of the live memory, with its share.
    holder: Option<String>,
}

/// Table of failed allocation requests with their causes; `None` if none failed.
pub fn out_of_memory_table(trace: &MemoryTrace) -> Option<Table> {
    if trace.out_of_memory.is_empty() {
        return None;
    }
    Some(failed_requests_table(trace))
}

/// Table of failed allocation requests with their causes; empty if none failed.
pub fn failed_requests_table(trace: &MemoryTrace) -> Table {
    let curves = curves(trace);
    let (failed, reserved) = (&trace.out_of_memory, Reserved::from_trace(trace));
    let situations: Vec<MemoryState> =
        failed.iter().map(|oom| situation(trace, (&curves[..], &reserved), oom)).collect();
    let device =
        |oom: &OutOfMemory| trace.devices.get(oom.device.index()).map(|device| device.name).unwrap_or_default();
    let pairs = || failed.iter().zip(&situations);
    let table = Table::new("memory_out_of_memory", "Failed allocations (out of memory)")
        .text("device", failed.iter().map(|oom| Some(trace.strings.get(device(oom)).to_owned())))
        .i64("before_call", Unit::None, failed.iter().map(|oom| int(oom.before.index() as u64)))
        .i64("requested", Unit::Bytes, failed.iter().map(|oom| int(oom.requested)))
        .i64("device_free", Unit::Bytes, failed.iter().map(|oom| oom.device_free.map(int)))
        .i64("allocated", Unit::Bytes, situations.iter().map(|s| int(s.allocated)))
        .i64("reserved", Unit::Bytes, situations.iter().map(|s| s.reserved.map(int)))
        .i64("largest_free", Unit::Bytes, situations.iter().map(|s| s.largest_free.map(int)))
        .text("explanation", pairs().map(|(oom, situation)| Some(explain(oom, situation))));
    let stacks: Vec<_> = failed.iter().map(|oom| oom.stack).collect();
    let table = super::add_place_columns(table, trace, &stacks);
    // The explanation is the main result, so it must not depend on the width of the terminal.
    let note = |(oom, situation): (&OutOfMemory, &MemoryState)| {
        let place = place_text(trace, oom.stack);
        let (requested, segment) = (bytes(oom.requested), bytes(situation.segment));
        // PyTorch's message names the segment.
        let failure = match (situation.segment > oom.requested, place.is_empty()) {
            (true, true) => format!("The allocation of {requested} (in a new segment of {segment}) failed"),
            (true, false) => format!("The allocation of {requested} (in a new segment of {segment}) failed at {place}"),
            (false, true) => format!("The allocation of {requested} failed"),
            (false, false) => format!("The allocation of {requested} failed at {place}"),
        };
        let explained = format!("{failure}: {}.", explain(oom, situation));
        match &situation.holder {
            Some(holder) => format!("{explained} {holder}"),
            None => explained,
        }
    };
    pairs().take(MOST_EXPLAINED).map(note).fold(table, Table::note)
}

/// Determine the state of the memory when a request failed.
fn situation(trace: &MemoryTrace, (curves, reserved): (&[Curve], &Reserved), oom: &OutOfMemory) -> MemoryState {
    let curve = curves.iter().find(|curve| curve.device == oom.device);
    // The failed request precedes a call, so the live memory is that after the previous call.
    let allocated = match oom.before.0.checked_sub(1) {
        Some(before) => curve.map_or(0, |curve| curve.at(before)),
        None => older_bytes(trace, oom.device),
    };
    let device = trace.devices.get(oom.device.index());
    let name = device.map(|device| trace.strings.get(device.name)).unwrap_or_default();
    let expandable = AllocatorSettings::from_trace(trace, oom.device).expandable;
    let segments = || trace.segments.iter().filter(|segment| segment.device == oom.device);
    // The snapshot shows this moment if neither a call nor a segment event follows.
    let is_last = oom.before.index() >= trace.calls.len()
        && trace.segment_events.iter().skip(oom.segment_events).all(|event| event.device != oom.device);
    let now = is_last && !trace.segments.is_empty();
    let has_own_pool = |segment: &&MemorySegment| segment.pool == oom.pool;
    let of_request = segments().filter(has_own_pool).filter(|segment| segment.stream == oom.stream);
    let largest_free = now.then(|| free_blocks(trace, of_request).max().unwrap_or(0));
    let small = oom.requested <= SMALL_REQUEST;
    let elsewhere = segments().filter(has_own_pool).filter(|segment| segment.stream != oom.stream);
    let elsewhere = elsewhere.filter(|segment| segment.small == small);
    let largest_elsewhere = now.then(|| free_blocks(trace, elsewhere).max().unwrap_or(0));
    let other_pools = segments().filter(|segment| segment.pool.is_some() && !has_own_pool(segment));
    let other_private = now.then(|| free_blocks(trace, other_pools).fold(0, u64::saturating_add));
    let has_segments = name.starts_with("cuda") && !expandable;
    MemoryState {
        allocated,
        reserved: reserved.at_failure(trace, oom),
        largest_free,
        largest_elsewhere,
        awaiting: trace.awaiting_bytes(oom.device, oom.before),
        other_private,
        has_private: segments().any(|segment| segment.pool.is_some()),
        expandable,
        total: device.map_or(0, |device| device.total_bytes),
        is_host: name == "cpu",
        segment: if has_segments { segment_bytes(oom.requested) } else { 0 },
        holder: holder(trace, oom, allocated),
    }
}

/// Sizes of the free blocks in segments.
fn free_blocks<'a>(
    trace: &'a MemoryTrace,
    segments: impl Iterator<Item = &'a MemorySegment>,
) -> impl Iterator<Item = u64> {
    let blocks = segments.flat_map(move |segment| &trace.blocks[segment.blocks.clone()]);
    blocks.filter(|block| block.state == MemoryBlockState::Inactive).map(|block| block.bytes)
}

/// Least share of the live memory, in percent, for naming a line.
const MIN_SHARE_PERCENT: f64 = 30.0;

/// Sentence on the line that allocated most of the live memory before a request failed. `None` if its share is too
/// small.
fn holder(trace: &MemoryTrace, oom: &OutOfMemory, allocated: u64) -> Option<String> {
    let before = MemoryCallId(oom.before.0.checked_sub(1)?);
    let places = alive_by(trace, oom.device, before, |object| place_text(trace, trace.objects.stack[object.index()]));
    let (place, held, objects) = places.into_iter().find(|(place, ..)| !place.is_empty())?;
    let share = percent(held, allocated);
    let count = if objects == 1 { "1 object".to_owned() } else { format!("{} objects", count(u64::from(objects))) };
    (share >= MIN_SHARE_PERCENT).then(|| {
        format!("The memory in use was {}, of which {place} allocated {share:.1} % ({count}).", bytes(allocated))
    })
}

/// Total bytes of the objects on a device that were allocated before the first call.
fn older_bytes(trace: &MemoryTrace, device: MemoryDeviceId) -> u64 {
    let objects = &trace.objects;
    let is_older = |object: &MemoryObjectId| objects.allocated_by[object.index()].is_none();
    let here = objects.ids().filter(|&object| device_of(trace, object) == device).filter(is_older);
    here.map(|object| objects.bytes[object.index()]).fold(0, u64::saturating_add)
}

/// Description of a contradiction between the numbers of the input; `None` if they are consistent.
fn contradiction(situation: &MemoryState, reserved: u64, device_free: u64) -> Option<String> {
    let MemoryState { allocated, largest_free, total, .. } = *situation;
    if allocated > reserved {
        return Some(format!(
            "{} of memory are in use, but the allocator reserved only {}",
            bytes(allocated),
            bytes(reserved)
        ));
    }
    if largest_free.is_some_and(|largest| largest > reserved - allocated) {
        return Some("one free block is larger than all free reserved memory".to_owned());
    }
    (total > 0 && reserved.saturating_add(device_free) > total).then(|| {
        format!(
            "the allocator reserved {} and {} are free, but the device has only {} of memory",
            bytes(reserved),
            bytes(device_free),
            bytes(total)
        )
    })
}

/// Cause of a failed allocation request, and the remedy.
fn explain(oom: &OutOfMemory, situation: &MemoryState) -> String {
    let (Some(device_free), Some(reserved)) = (oom.device_free, situation.reserved) else {
        if situation.is_host {
            return format!(
                "the operating system refused more memory, with {} of tensors in use. Host memory is exhausted, or the \
                 process or container has a limit (ulimit -v, cgroup). Raise the limit, or lower the peak",
                bytes(situation.allocated)
            );
        }
        let unknown = if situation.reserved.is_some() { "the device" } else { "the device and the allocator" };
        return format!(
            "cause unknown, because the input does not contain how many bytes {unknown} had free. Record a CUDA memory \
             snapshot (torch.cuda.memory._dump_snapshot) after the failure"
        );
    };
    if let Some(why) = contradiction(situation, reserved, device_free) {
        return format!("cause unknown, because the numbers of the input contradict each other ({why})");
    }
    let private = situation.other_private.unwrap_or(0);
    let cached = reserved.saturating_sub(situation.allocated).saturating_sub(private);
    let missing = oom.requested.max(situation.segment).saturating_sub(device_free);
    if missing == 0 {
        return format!(
            "the device had enough free memory ({}), but a limit of the process (set_per_process_memory_fraction) or a \
             lack of free virtual addresses prevented its use. Raise the limit, or lower the peak. Other allocator \
             settings gain at most the {} that are reserved but unused",
            bytes(device_free),
            bytes(cached)
        );
    }
    if situation.largest_free.is_some_and(|largest| largest >= oom.requested) {
        return "cause unknown, because a free block of the same stream was large enough. Either the request was for \
            another pool (small blocks, or a CUDA graph's private pool), or the numbers of the input are wrong"
            .to_owned();
    }
    if cached >= oom.requested.min(missing) {
        return unusable(oom, situation, cached, missing);
    }
    let short = bytes(missing - cached);
    let of_others = match private {
        0 => String::new(),
        private => format!(
            ". Private pools, such as those of CUDA graphs, held {} of free memory, which other requests cannot use",
            bytes(private)
        ),
    };
    format!(
        "not enough memory: even with all unused reserved memory, {short} were missing. Lower the peak by that much \
         (smaller batch, activation checkpointing, or the suggestions below), or free memory of other \
         processes{of_others}"
    )
}

/// Explanation of a failure although the unused reserved memory of `cached` bytes would have sufficed: it is used by
/// another stream, belongs to another stream, or is fragmented.
fn unusable(oom: &OutOfMemory, situation: &MemoryState, cached: u64, missing: u64) -> String {
    if cached.saturating_sub(situation.awaiting) < oom.requested.min(missing) {
        return format!(
            "freed memory was still in use: the program had freed {}, but another stream that uses it (record_stream) \
             was not done. Synchronize that stream before the allocation, or use less memory in several streams",
            bytes(situation.awaiting)
        );
    }
    if let Some(largest) = situation.largest_elsewhere.filter(|largest| *largest >= oom.requested) {
        return format!(
            "memory of another stream: a free block of {} was large enough, but belongs to another stream, and blocks \
             never change their stream. Allocate in the same stream, or lower the peak",
            bytes(largest)
        );
    }
    fragmentation(situation, cached >= oom.requested)
}

/// Explanation of a failure by fragmentation. `is_enough`: the unused reserved memory alone would have sufficed.
fn fragmentation(situation: &MemoryState, is_enough: bool) -> String {
    let sufficed = if is_enough {
        "fragmentation: enough memory was reserved and unused, but not in one piece."
    } else {
        "fragmentation: the allocator's unused memory plus the free memory of the device would have sufficed."
    };
    if situation.expandable {
        return format!(
            "{sufficed} Expandable segments are already on, so the unused memory shares pages of 2 or 20 MiB with used \
             blocks, or belongs to another pool or stream. Lower the peak, or allocate long-lived tensors first, so \
             that they share no pages with short-lived ones"
        );
    }
    if is_enough {
        return format!(
            "{sufficed} Set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True, which lets the allocator join free pieces"
        );
    }
    // The pools that had free memory are unknown if the segments are those of a later moment.
    let private = if situation.has_private && situation.other_private.is_none() {
        " or belong to private pools, such as those of CUDA graphs"
    } else {
        ""
    };
    format!(
        "{sufficed} The allocator could not return its unused memory to the device, because the same segments contain \
         used blocks{private}. Set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True, which returns unused parts of \
         segments"
    )
}

#[cfg(test)]
mod tests {
    use super::{MemoryState, explain};
    use stackline_model::{MemoryCallId, MemoryDeviceId, MemoryStackId, MemoryStreamId, OutOfMemory, StrId};

    fn request(device_free: Option<u64>) -> OutOfMemory {
        OutOfMemory {
            before: MemoryCallId(0),
            segment_events: 0,
            time_ns: 0,
            device: MemoryDeviceId(0),
            stream: MemoryStreamId(0),
            requested: 100,
            device_free,
            pool: StrId::NONE,
            stack: MemoryStackId::NONE,
        }
    }

    fn explained(device_free: u64, reserved: u64, situation: MemoryState) -> String {
        explain(&request(Some(device_free)), &MemoryState { reserved: Some(reserved), ..situation })
    }

    #[test]
    fn host_memory_has_no_known_capacity() {
        let oom = request(None);
        let situation = |is_host| MemoryState {
            allocated: 4000,
            reserved: None,
            largest_free: None,
            largest_elsewhere: None,
            awaiting: 0,
            other_private: None,
            has_private: false,
            expandable: false,
            total: 0,
            is_host,
            segment: 0,
            holder: None,
        };
        let explanation = explain(&oom, &situation(true));
        assert!(
            explanation.starts_with("the operating system refused more memory, with 4000 B of tensors in use"),
            "{explanation}"
        );
        assert!(explain(&oom, &situation(false)).starts_with("cause unknown"));
    }

    #[test]
    fn impossible_numbers_give_no_verdict() {
        let sound = || MemoryState {
            allocated: 200,
            reserved: None,
            largest_free: Some(60),
            largest_elsewhere: None,
            awaiting: 0,
            other_private: Some(0),
            has_private: false,
            expandable: false,
            total: 400,
            is_host: false,
            segment: 0,
            holder: None,
        };
        assert!(explained(50, 300, sound()).starts_with("fragmentation"), "{}", explained(50, 300, sound()));
        for (free, reserved, situation) in [
            (50, 150, sound()),
            (50, 220, sound()),
            (150, 300, sound()),
            (50, 300, MemoryState { allocated: u64::MAX, ..sound() }),
        ] {
            let explanation = explained(free, reserved, situation);
            assert!(
                explanation.starts_with("cause unknown, because the numbers of the input contradict each other ("),
                "{explanation}"
            );
        }
        let in_other_segment = explained(50, 350, MemoryState { largest_free: Some(120), ..sound() });
        assert!(in_other_segment.contains("Either the request was for another pool"), "{in_other_segment}");
    }

    #[test]
    fn memory_that_other_streams_use_or_own_is_no_fragmentation() {
        let state = |awaiting, elsewhere| MemoryState {
            allocated: 200,
            reserved: None,
            largest_free: Some(0),
            largest_elsewhere: Some(elsewhere),
            awaiting,
            other_private: Some(0),
            has_private: false,
            expandable: false,
            total: 400,
            is_host: false,
            segment: 0,
            holder: None,
        };
        let begin = |awaiting, elsewhere| {
            let explanation = explained(0, 320, state(awaiting, elsewhere));
            explanation.split(':').next().unwrap_or_default().to_owned()
        };
        // Unused are 120 bytes, requested 100.
        assert_eq!(begin(0, 99), "fragmentation");
        assert_eq!(begin(20, 99), "fragmentation");
        assert_eq!(begin(21, 99), "freed memory was still in use");
        assert_eq!(begin(20, 100), "memory of another stream");
        assert!(explained(0, 320, state(30, 0)).contains("the program had freed 30 B, but another stream"));
    }

    #[test]
    fn fragmentation_has_another_remedy_if_expandable_segments_are_on() {
        let state = |expandable| MemoryState {
            allocated: 200,
            reserved: None,
            largest_free: Some(30),
            largest_elsewhere: None,
            awaiting: 0,
            other_private: Some(0),
            has_private: false,
            expandable,
            total: 400,
            is_host: false,
            segment: 0,
            holder: None,
        };
        for reserved in [260, 300] {
            let [plain, expandable] = [false, true].map(|expandable| explained(50, reserved, state(expandable)));
            assert!(plain.contains("Set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"), "{plain}");
            assert!(expandable.starts_with("fragmentation: "), "{expandable}");
            assert!(expandable.contains("Expandable segments are already on"), "{expandable}");
            assert!(!expandable.contains("Set PYTORCH_CUDA_ALLOC_CONF"), "{expandable}");
        }
    }

    #[test]
    fn free_memory_of_private_pools_is_no_fragmentation() {
        let state = |other_private, has_private| MemoryState {
            allocated: 200,
            reserved: None,
            largest_free: Some(0),
            largest_elsewhere: None,
            awaiting: 0,
            other_private,
            has_private,
            expandable: false,
            total: 400,
            is_host: false,
            segment: 0,
            holder: None,
        };
        let known = explained(50, 280, state(Some(70), true));
        assert!(known.starts_with("not enough memory: ") && known.contains(" 40 B were missing"), "{known}");
        assert!(known.contains("Private pools, such as those of CUDA graphs, held 70 B of free memory"), "{known}");
        let later = explained(50, 280, state(None, true));
        assert!(later.contains("used blocks or belong to private pools, such as those of CUDA graphs. "), "{later}");
        let without = explained(50, 280, state(Some(0), false));
        assert!(without.contains("contain used blocks. Set"), "{without}");
    }
}
