//! Byte ranges that kernels access, for intra-object patterns.

use crate::ObjectUsage;
use stackline_model::{AccessExtent, MemoryCallId, MemoryCallKind, MemoryObjectId};

/// Byte range of an object that a kernel accessed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ByteAccess {
    pub(crate) object: MemoryObjectId,
    pub(crate) call: MemoryCallId,
    pub(crate) begin: u64,
    pub(crate) end: u64,
    pub(crate) times: u32,
}

/// Byte ranges that kernels access, by object and call. Includes objects whose kernels all have known ranges, at least
/// one of them not the whole object.
pub(crate) fn touches(usage: &ObjectUsage<'_>) -> Vec<ByteAccess> {
    let trace = usage.trace;
    if trace.accesses.range.is_empty() {
        return Vec::new();
    }
    let mut all_known = vec![true; trace.objects.len()];
    let mut any_part = vec![false; trace.objects.len()];
    let kernels = || trace.calls.ids().filter(|call| trace.calls.kind[call.index()] == MemoryCallKind::Kernel);
    for access in kernels().flat_map(|call| trace.accesses_of(call)) {
        match access.extent {
            AccessExtent::Unknown => all_known[access.object.index()] = false,
            AccessExtent::Ranges => any_part[access.object.index()] = true,
            AccessExtent::Whole => {}
        }
    }
    let mut touches = Vec::new();
    for call in kernels() {
        for access in trace.accesses_of(call) {
            let (object, row) = (access.object, access.object.index());
            if !all_known[row] || !any_part[row] || usage.opaque_in(trace.life(object)) {
                continue;
            }
            match access.extent {
                AccessExtent::Whole => {
                    touches.push(ByteAccess { object, call, begin: 0, end: trace.objects.bytes[row], times: 1 });
                }
                _ => touches.extend(trace.accesses.ranges_of(access.row).iter().map(|range| ByteAccess {
                    object,
                    call,
                    begin: range.begin,
                    end: range.end,
                    times: range.times,
                })),
            }
        }
    }
    touches.sort_unstable();
    touches
}

/// Group kernel accesses to byte ranges by memory object.
pub(crate) fn by_object(touches: &[ByteAccess]) -> impl Iterator<Item = (MemoryObjectId, &[ByteAccess])> {
    touches.chunk_by(|a, b| a.object == b.object).map(|chunk| (chunk[0].object, chunk))
}

/// Union of byte ranges: ascending, joined where they overlap or are adjacent.
pub(crate) fn union(touches: &[ByteAccess]) -> Vec<(u64, u64)> {
    let mut spans: Vec<(u64, u64)> = touches.iter().map(|touch| (touch.begin, touch.end)).collect();
    spans.sort_unstable();
    let mut merged: Vec<(u64, u64)> = Vec::new();
    for (begin, end) in spans {
        match merged.last_mut().filter(|last| begin <= last.1) {
            Some(last) => last.1 = last.1.max(end),
            None => merged.push((begin, end)),
        }
    }
    merged
}
