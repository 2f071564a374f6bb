//! Requests that failed, explained.

use super::{allocator::Reserved, int};
use crate::curve::{Curve, curves};
use crate::place::place_text;
use stackline_model::{MemoryBlockState, MemoryTrace, OutOfMemory, Table, Unit};

/// So many failures are told in words below the table.
const TOLD: usize = 3;

/// What there was when a request failed.
struct Situation {
    allocated: u64,
    reserved: Option<u64>,
    /// The largest free block of the request's stream, where the segments are those of this moment.
    largest_free: Option<u64>,
}

/// One row per failed request; `None` if none failed.
pub fn out_of_memory_table(trace: &MemoryTrace) -> Option<Table> {
    if trace.out_of_memory.is_empty() {
        return None;
    }
    let curves = curves(trace);
    let (failed, reserved) = (&trace.out_of_memory, Reserved::of(trace));
    let situations: Vec<Situation> = failed.iter().map(|oom| situation(trace, (&curves[..], &reserved), oom)).collect();
    let device =
        |oom: &OutOfMemory| trace.devices.get(oom.device.index()).map(|device| device.name).unwrap_or_default();
    let pairs = || failed.iter().zip(&situations);
    let table = Table::new("memory_out_of_memory", "Requests that failed")
        .text("device", failed.iter().map(|oom| Some(trace.strings.get(device(oom)).to_owned())))
        .i64("before_call", Unit::None, failed.iter().map(|oom| int(oom.before.index() as u64)))
        .i64("requested", Unit::Bytes, failed.iter().map(|oom| int(oom.requested)))
        .i64("device_free", Unit::Bytes, failed.iter().map(|oom| oom.device_free.map(int)))
        .i64("allocated", Unit::Bytes, situations.iter().map(|s| int(s.allocated)))
        .i64("reserved", Unit::Bytes, situations.iter().map(|s| s.reserved.map(int)))
        .i64("largest_free", Unit::Bytes, situations.iter().map(|s| s.largest_free.map(int)))
        .text("explanation", pairs().map(|(oom, situation)| Some(explain(oom, situation))));
    let stacks: Vec<_> = failed.iter().map(|oom| oom.stack).collect();
    let table = super::places(table, trace, &stacks);
    // The explanation is what people came for: it must not depend on the width of their terminal.
    let told = |(oom, situation): (&OutOfMemory, &Situation)| {
        let place = place_text(trace, oom.stack);
        let at = if place.is_empty() { String::new() } else { format!(" at {place}") };
        format!("{} bytes asked for{at}: {}.", oom.requested, explain(oom, situation))
    };
    Some(pairs().take(TOLD).map(told).fold(table, Table::note))
}

fn situation(trace: &MemoryTrace, (curves, reserved): (&[Curve], &Reserved), oom: &OutOfMemory) -> Situation {
    let curve = curves.iter().find(|curve| curve.device == oom.device);
    // The failed request stands before a call: what was in use is what the call before it left.
    let allocated = match oom.before.0.checked_sub(1) {
        Some(before) => curve.map_or(0, |curve| curve.at(before)),
        None => 0,
    };
    let reserved = reserved.at(oom.device, oom.before);
    // The snapshot is of this moment if nothing came after.
    let now = oom.before.index() >= trace.calls.len() && !trace.segments.is_empty();
    let of_stream = trace.segments.iter().filter(|s| s.device == oom.device && s.stream == oom.stream);
    let free = of_stream
        .flat_map(|segment| &trace.blocks[segment.blocks.clone()])
        .filter(|block| block.state == MemoryBlockState::Inactive);
    let largest_free = now.then(|| free.map(|block| block.bytes).max().unwrap_or(0));
    Situation { allocated, reserved, largest_free }
}

/// Why it failed, and what would have helped.
fn explain(oom: &OutOfMemory, situation: &Situation) -> String {
    let (Some(device_free), Some(reserved)) = (oom.device_free, situation.reserved) else {
        return "it is not known what the device and the allocator still had".to_owned();
    };
    let cached = reserved.saturating_sub(situation.allocated);
    let missing = oom.requested.saturating_sub(device_free);
    if missing == 0 {
        return "the device had enough: a limit of the process (set_per_process_memory_fraction, a garbage collection \
                threshold) or a single address range that was not there kept it from being used"
            .to_owned();
    }
    if cached >= oom.requested {
        return "fragmentation: the allocator held enough, but not in one piece; \
                PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True lets it put pieces together"
            .to_owned();
    }
    if cached >= missing {
        return "fragmentation: what the allocator held unused and what the device had would have been enough together, but \
                blocks in use lie in its segments; PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True gives such pieces back"
            .to_owned();
    }
    let short = missing - cached;
    format!(
        "not enough memory: even with everything that the allocator held unused, {short} bytes were missing; the peak must \
         come down by that much (smaller batch, recomputation of activations, or the suggestions below), or the rest must \
         be freed by other processes"
    )
}
