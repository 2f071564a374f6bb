//! Tables of the caching allocator: reserved memory and its fragmentation.

use super::{int, percent};
use stackline_model::format::{bytes as words, count};
use stackline_model::{
    MemoryBlock, MemoryBlockState, MemoryCallId, MemoryDeviceId, MemorySegment, MemoryTrace, Table, Unit,
};
use std::collections::{BTreeMap, BTreeSet};

/// Recorded reserved bytes of the caching allocator over time, per device.
pub struct Reserved {
    curves: BTreeMap<MemoryDeviceId, Vec<(u32, u64)>>,
}

impl Reserved {
    /// Collect the reserved bytes of all devices, as far as the source records them.
    pub fn from_trace(trace: &MemoryTrace) -> Self {
        let devices: BTreeSet<MemoryDeviceId> = trace.totals.iter().map(|total| total.device).collect();
        Self { curves: devices.into_iter().map(|device| (device, reserved_curve(trace, device))).collect() }
    }

    /// Reserved bytes on a device at a position; none if unknown, and before the first record.
    pub fn at(&self, device: MemoryDeviceId, position: MemoryCallId) -> Option<u64> {
        let points = self.curves.get(&device)?;
        let known = points.partition_point(|(from, _)| *from <= position.0);
        points[..known].last().map(|(_, bytes)| *bytes)
    }
}

/// Points of the recorded reserved bytes on a device: positions with the bytes from there on; empty if unknown. With
/// segments in the source: their total at the end, and back from there by segment events. Without segments: the totals
/// after each call.
pub fn reserved_curve(trace: &MemoryTrace, device: MemoryDeviceId) -> Vec<(u32, u64)> {
    let totals = || trace.totals.iter().filter(|total| total.device == device && total.reserved > 0);
    let events = || trace.segment_events.iter().filter(|event| event.device == device);
    let position = |after: MemoryCallId| after.some().map_or(0, |call| call.0);
    let Some(last) = totals().next_back() else { return Vec::new() };
    // A snapshot records every segment event: without events, the segments never changed.
    let has_segments = trace.segments.iter().any(|segment| segment.device == device);
    if events().next().is_none() && !has_segments {
        let mut points: Vec<(u32, u64)> = totals().map(|total| (position(total.after), total.reserved)).collect();
        points.dedup_by_key(|(_, bytes)| *bytes);
        return points;
    }
    // An event has the position of the call that follows it.
    let known_after = last.after.some().map_or(0, |call| call.0 + 1);
    let mut changes: Vec<(u32, i128)> = events()
        .filter(|event| event.before.0 <= known_after)
        .map(|event| (event.before.0, i128::from(event.bytes) * if event.kind.grows() { 1 } else { -1 }))
        .collect();
    changes.sort_by_key(|(position, _)| *position);
    let mut held = i128::from(last.reserved) - changes.iter().map(|(_, change)| change).sum::<i128>();
    let mut points = vec![(0, held)];
    for (position, change) in changes {
        held += change;
        match points.last_mut() {
            Some(last) if last.0 == position => last.1 = held,
            _ => points.push((position, held)),
        }
    }
    points.into_iter().filter_map(|(position, bytes)| Some((position, u64::try_from(bytes).ok()?))).collect()
}

/// Sums of bytes and blocks over segments of one kind.
#[derive(Default)]
struct Sums {
    segments: u64,
    reserved: u64,
    active: u64,
    awaiting: u64,
    rounding: u64,
    unused_segments: u64,
    split: u64,
    /// Free bytes in private pools, which only their owner, such as a CUDA graph, can use.
    private: u64,
    free_blocks: u64,
    largest_free: u64,
}

impl Sums {
    /// Add the bytes and blocks of a segment by their state.
    fn add(&mut self, segment: &MemorySegment, blocks: &[MemoryBlock]) {
        let unused = blocks.iter().all(|block| block.state == MemoryBlockState::Inactive);
        self.segments += 1;
        add(&mut self.reserved, segment.bytes);
        for block in blocks {
            match block.state {
                MemoryBlockState::Active => {
                    add(&mut self.active, block.bytes);
                    if block.requested > 0 {
                        add(&mut self.rounding, block.bytes.saturating_sub(block.requested));
                    }
                }
                MemoryBlockState::AwaitingFree => add(&mut self.awaiting, block.bytes),
                MemoryBlockState::Inactive => {
                    let sum = match (segment.pool.is_some(), unused) {
                        (true, _) => &mut self.private,
                        (false, true) => &mut self.unused_segments,
                        (false, false) => &mut self.split,
                    };
                    add(sum, block.bytes);
                    self.free_blocks += 1;
                    self.largest_free = self.largest_free.max(block.bytes);
                }
            }
        }
    }

    /// Total bytes of free blocks in the allocator's segments.
    fn free(&self) -> u64 {
        self.unused_segments.saturating_add(self.split).saturating_add(self.private)
    }

    /// Fragmentation of free memory in percent: 1 - largest free block / all free bytes. `None` without free memory.
    fn fragmentation(&self) -> Option<f64> {
        let free = self.free();
        (free > 0).then(|| 100.0 - percent(self.largest_free, free))
    }
}

/// Add bytes to a sum, saturating, because sizes of a damaged file may be arbitrarily large.
fn add(sum: &mut u64, bytes: u64) {
    *sum = sum.saturating_add(bytes);
}

/// Note on the columns of [`segments_table`].
pub const SEGMENTS_NOTE: &str = "Column free_segments: bytes of entirely free segments, which torch.cuda.empty_cache() \
                                 returns to the device. Column free_split: free bytes between used blocks, which only \
                                 requests of the same pool and stream can use. Column free_private: free bytes of a \
                                 private pool (such as the pool of a CUDA graph), which stay reserved as long as the \
                                 pool exists. Column fragmentation: 100 % minus the share of the largest free block in \
                                 all free bytes.";

/// Segments and blocks at the time of the snapshot, by device and pool; `None` if the source has none.
pub fn allocator_table(trace: &MemoryTrace) -> Option<Table> {
    (!trace.segments.is_empty()).then(|| segments_table(trace))
}

/// Table of allocator segments and blocks at the time of the snapshot; empty if the source has none.
pub fn segments_table(trace: &MemoryTrace) -> Table {
    let mut groups = BTreeMap::<_, Sums>::new();
    for segment in &trace.segments {
        let size = if segment.small { "small blocks" } else { "large blocks" };
        let pool = trace.strings.get(segment.pool);
        let key = (segment.device, if pool.is_empty() { size.to_owned() } else { format!("{pool}, {size}") });
        groups.entry(key).or_default().add(segment, &trace.blocks[segment.blocks.clone()]);
    }
    let device = |id: MemoryDeviceId| trace.devices.get(id.index()).map(|device| device.name).unwrap_or_default();
    let column = |f: &dyn Fn(&Sums) -> u64| groups.values().map(|sums| int(f(sums))).collect::<Vec<_>>();
    let table = Table::new("memory_allocator", "Caching allocator at the time of the snapshot")
        .text("device", groups.keys().map(|key| Some(trace.strings.get(device(key.0)).to_owned())))
        .text("pool", groups.keys().map(|key| Some(key.1.clone())))
        .i64("segments", Unit::None, column(&|sums| sums.segments))
        .i64("reserved", Unit::Bytes, column(&|sums| sums.reserved))
        .i64("active", Unit::Bytes, column(&|sums| sums.active))
        .i64("rounding", Unit::Bytes, column(&|sums| sums.rounding))
        .i64("awaiting_free", Unit::Bytes, column(&|sums| sums.awaiting))
        .i64("free_segments", Unit::Bytes, column(&|sums| sums.unused_segments))
        .i64("free_split", Unit::Bytes, column(&|sums| sums.split))
        .i64("free_private", Unit::Bytes, column(&|sums| sums.private))
        .i64("largest_free", Unit::Bytes, column(&|sums| sums.largest_free))
        .f64("fragmentation", Unit::Percent, groups.values().map(Sums::fragmentation));
    free_notes(trace).into_iter().fold(table.note(SEGMENTS_NOTE), Table::note)
}

/// Least share of free bytes in reserved memory, in percent, for a note.
const MUCH_FREE: f64 = 10.0;

/// One note per device with much free reserved memory.
fn free_notes(trace: &MemoryTrace) -> Vec<String> {
    let mut devices = BTreeMap::<MemoryDeviceId, Sums>::new();
    for segment in &trace.segments {
        devices.entry(segment.device).or_default().add(segment, &trace.blocks[segment.blocks.clone()]);
    }
    let is_much = |sums: &Sums| percent(sums.free(), sums.reserved) >= MUCH_FREE;
    let much = devices.iter().filter(|(_, sums)| is_much(sums));
    let note = |(device, sums): (&MemoryDeviceId, &Sums)| {
        let name = trace.devices.get(device.index()).map(|device| device.name).unwrap_or_default();
        format!(
            "{}: {} of {} of reserved memory ({:.1} %) are free, in {} {}. The largest free block has {}. \
             torch.cuda.empty_cache() returns {} of the free memory to the device.",
            trace.strings.get(name),
            words(sums.free()),
            words(sums.reserved),
            percent(sums.free(), sums.reserved),
            count(sums.free_blocks),
            if sums.free_blocks == 1 { "block" } else { "blocks" },
            words(sums.largest_free),
            words(sums.unused_segments),
        )
    };
    much.map(note).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use stackline_model::{
        MemorySegmentEvent, MemorySegmentEventKind, MemoryStackId, MemoryStreamId, MemoryTotals, StrId,
    };

    fn total(device: MemoryDeviceId, after: u32, reserved: u64) -> MemoryTotals {
        MemoryTotals { after: MemoryCallId(after), time_ns: 0, device, allocated: 0, reserved }
    }

    #[test]
    fn recorded_totals_hold_until_the_next_total() {
        let mut trace = MemoryTrace::default();
        let device = trace.device("cuda:0");
        trace.totals = vec![total(device, 1, 100), total(device, 2, 100), total(device, 5, 300)];
        assert_eq!(reserved_curve(&trace, device), [(1, 100), (5, 300)]);
        let reserved = Reserved::from_trace(&trace);
        let at = |position| reserved.at(device, MemoryCallId(position));
        assert_eq!([at(0), at(1), at(4), at(5), at(9)], [None, Some(100), Some(100), Some(300), Some(300)]);
        assert_eq!(reserved.at(MemoryDeviceId(7), MemoryCallId(0)), None);
    }

    #[test]
    fn segments_without_events_exist_throughout() {
        let mut trace = MemoryTrace::default();
        let device = trace.device("cuda:0");
        trace.totals = vec![total(device, 9, 35)];
        assert_eq!(reserved_curve(&trace, device), [(9, 35)], "of before nothing is known");
        trace.segments = vec![MemorySegment {
            device,
            stream: MemoryStreamId::NONE,
            address: 0,
            bytes: 35,
            small: false,
            expandable: false,
            pool: StrId::NONE,
            stack: MemoryStackId::NONE,
            blocks: 0..0,
        }];
        assert_eq!(reserved_curve(&trace, device), [(0, 35)]);
    }

    #[test]
    fn reserved_bytes_are_traced_back_from_the_end() {
        let mut trace = MemoryTrace::default();
        let device = trace.device("cuda:0");
        let event = |kind, before, bytes| MemorySegmentEvent {
            kind,
            before: MemoryCallId(before),
            time_ns: 0,
            device,
            stream: MemoryStreamId::NONE,
            address: 0,
            bytes,
            stack: MemoryStackId::NONE,
        };
        let (got, gave) = (MemorySegmentEventKind::Allocate, MemorySegmentEventKind::Free);
        trace.segment_events = vec![event(got, 0, 20), event(got, 2, 20), event(gave, 3, 10)];
        trace.totals = vec![total(device, 3, 35)];
        assert_eq!(reserved_curve(&trace, device), [(0, 25), (2, 45), (3, 35)]);
        assert_eq!(Reserved::from_trace(&trace).at(device, MemoryCallId(2)), Some(45));
    }
}
