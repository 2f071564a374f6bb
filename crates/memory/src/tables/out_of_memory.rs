//! Table of failed allocation requests with their causes.

use super::{allocator::Reserved, int, percent};
use crate::allocator::{AllocatorSettings, segment_bytes};
use crate::curve::{Curve, alive_by, curves, device_of};
use crate::source_location::place_text;
use stackline_model::format::{bytes, count};
use stackline_model::{
    MemoryBlockState, MemoryCallId, MemoryDeviceId, MemoryObjectId, MemoryTrace, OutOfMemory, Table, Unit,
};

/// Maximum number of failures that are explained below the table.
const MOST_EXPLAINED: usize = 3;

/// Memory when a request failed: allocated, reserved and free bytes, and the largest owner.
struct MemoryState {
    allocated: u64,
    reserved: Option<u64>,
    /// Largest free block of the request's stream, if the segments are those of this moment.
    largest_free: Option<u64>,
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
    let reserved = reserved.at(oom.device, oom.before);
    // The snapshot shows this moment if no call follows.
    let now = oom.before.index() >= trace.calls.len() && !trace.segments.is_empty();
    let of_stream = trace.segments.iter().filter(|s| s.device == oom.device && s.stream == oom.stream);
    let free = of_stream
        .flat_map(|segment| &trace.blocks[segment.blocks.clone()])
        .filter(|block| block.state == MemoryBlockState::Inactive);
    let largest_free = now.then(|| free.map(|block| block.bytes).max().unwrap_or(0));
    let total = trace.devices.get(oom.device.index()).map_or(0, |device| device.total_bytes);
    let name = trace.devices.get(oom.device.index()).map(|device| trace.strings.get(device.name)).unwrap_or_default();
    let has_segments = name.starts_with("cuda") && !AllocatorSettings::from_trace(trace, oom.device).expandable;
    let segment = if has_segments { segment_bytes(oom.requested) } else { 0 };
    let holder = holder(trace, oom, allocated);
    MemoryState { allocated, reserved, largest_free, total, is_host: name == "cpu", segment, holder }
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
        return "cause unknown, because the input does not contain how many bytes the device and the allocator had \
                free. Record a CUDA memory snapshot (torch.cuda.memory._dump_snapshot) after the failure"
            .to_owned();
    };
    if let Some(why) = contradiction(situation, reserved, device_free) {
        return format!("cause unknown, because the numbers of the input contradict each other ({why})");
    }
    let cached = reserved.saturating_sub(situation.allocated);
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
    if cached >= oom.requested {
        return "fragmentation: enough memory was reserved and unused, but not in one piece. Set \
                PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True, which lets the allocator join free pieces"
            .to_owned();
    }
    if cached >= missing {
        return "fragmentation: the allocator's unused memory plus the free memory of the device would have sufficed. \
                The allocator could not return its unused memory to the device, because the same segments contain used \
                blocks. Set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True, which returns unused parts of segments"
            .to_owned();
    }
    let short = bytes(missing - cached);
    format!(
        "not enough memory: even with all unused reserved memory, {short} were missing. Lower the peak by that much \
         (smaller batch, activation checkpointing, or the suggestions below), or free memory of other processes"
    )
}

#[cfg(test)]
mod tests {
    use super::{MemoryState, explain};
    use stackline_model::{MemoryCallId, MemoryDeviceId, MemoryStackId, MemoryStreamId, OutOfMemory};

    fn request(device_free: Option<u64>) -> OutOfMemory {
        OutOfMemory {
            before: MemoryCallId(0),
            time_ns: 0,
            device: MemoryDeviceId(0),
            stream: MemoryStreamId(0),
            requested: 100,
            device_free,
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
}
