//! Tables of the caching allocator: reserved memory and its fragmentation.

use super::{int, percent};
use stackline_model::caching_allocator::{LARGE_SEGMENT, SMALL_SEGMENT};
use stackline_model::format::{bytes as words, count};
use stackline_model::{
    MemoryBlock, MemoryBlockState, MemoryCallId, MemoryDeviceId, MemorySegment, MemorySegmentEvent, MemoryTotals,
    MemoryTrace, OutOfMemory, Table, Unit,
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

    /// Reserved bytes when a request failed: those at its position, without segment events between the failure and the
    /// next call, such as those of a smaller request after it.
    pub(super) fn at_failure(&self, trace: &MemoryTrace, oom: &OutOfMemory) -> Option<u64> {
        let totals = || known_totals(trace, oom.device);
        if totals().next_back().is_some_and(|last| !is_traced_back(trace, last)) {
            // A total holds from its call on, and the call at this position follows the failure.
            let is_before = |total: &&MemoryTotals| total.after.some() < oom.before.some();
            return totals().rfind(is_before).map(|total| total.reserved);
        }
        let later = trace.segment_events.iter().skip(oom.segment_events);
        let until_next_call = later.filter(|event| event.device == oom.device && event.before <= oom.before);
        let change = until_next_call.map(change_in_bytes).sum::<i128>();
        u64::try_from(i128::from(self.at(oom.device, oom.before)?) - change).ok()
    }
}

/// Totals of a device with known reserved bytes: a total of 0 next to bytes in use means that the source does not know
/// them.
fn known_totals(trace: &MemoryTrace, device: MemoryDeviceId) -> impl DoubleEndedIterator<Item = &MemoryTotals> {
    let is_known = |total: &&MemoryTotals| total.reserved > 0 || total.allocated == 0;
    trace.totals.iter().filter(move |total| total.device == device).filter(is_known)
}

/// True if the reserved bytes of a device follow from its last total and from its segment events. A snapshot records
/// every segment event: without events, the segments never changed. Only snapshots have a known total of 0.
fn is_traced_back(trace: &MemoryTrace, last: &MemoryTotals) -> bool {
    last.reserved == 0
        || trace.segment_events.iter().any(|event| event.device == last.device)
        || trace.segments.iter().any(|segment| segment.device == last.device)
}

/// Change of the reserved bytes by a segment event.
fn change_in_bytes(event: &MemorySegmentEvent) -> i128 {
    i128::from(event.bytes) * if event.kind.grows() { 1 } else { -1 }
}

/// Points of the recorded reserved bytes on a device: positions with the bytes from there on; empty if unknown. With
/// segments in the source: their total at the end, and back from there by segment events. Without segments: the totals
/// after each call.
pub fn reserved_curve(trace: &MemoryTrace, device: MemoryDeviceId) -> Vec<(u32, u64)> {
    let totals = || known_totals(trace, device);
    let events = || trace.segment_events.iter().filter(|event| event.device == device);
    let Some(last) = totals().next_back() else { return Vec::new() };
    if !is_traced_back(trace, last) {
        let mut points: Vec<(u32, u64)> =
            totals().filter_map(|total| Some((total.after.some()?.0, total.reserved))).collect();
        // A further total after the same call is that of a failed request.
        points.dedup_by_key(|(position, _)| *position);
        points.dedup_by_key(|(_, bytes)| *bytes);
        return points;
    }
    // An event has the position of the call that follows it.
    let known_after = last.after.some().map_or(0, |call| call.0 + 1);
    let mut changes: Vec<(u32, i128)> = events()
        .filter(|event| event.before.0 <= known_after)
        .map(|event| (event.before.0, change_in_bytes(event)))
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
    /// Free bytes that `torch.cuda.empty_cache()` returns: of entirely free segments and pages.
    returned: u64,
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
                    let returned = match (segment.pool.is_some(), unused) {
                        (true, _) => 0,
                        (false, true) => block.bytes,
                        (false, false) => whole_pages(segment, block),
                    };
                    add(&mut self.returned, returned);
                    let rest = if segment.pool.is_some() { &mut self.private } else { &mut self.split };
                    add(rest, block.bytes - returned);
                    self.free_blocks += 1;
                    self.largest_free = self.largest_free.max(block.bytes);
                }
            }
        }
    }

    /// Total bytes of free blocks in the allocator's segments.
    fn free(&self) -> u64 {
        self.returned.saturating_add(self.split).saturating_add(self.private)
    }

    /// Fragmentation of free memory in percent: 1 - largest free block / all free bytes. `None` without free memory.
    fn fragmentation(&self) -> Option<f64> {
        let free = self.free();
        (free > 0).then(|| 100.0 - percent(self.largest_free, free))
    }
}

/// Bytes of the entirely free pages in a free block, which only expandable segments have: the allocator unmaps each page
/// separately.
fn whole_pages(segment: &MemorySegment, block: &MemoryBlock) -> u64 {
    if !segment.expandable {
        return 0;
    }
    // A segment begins with a page.
    let page = if segment.small { SMALL_SEGMENT } else { LARGE_SEGMENT };
    let begin = block.address.saturating_sub(segment.address);
    let end = begin.saturating_add(block.bytes);
    let (first, last) = (begin.div_ceil(page), end / page);
    last.saturating_sub(first).saturating_mul(page)
}

/// Add bytes to a sum, saturating, because sizes of a damaged file may be arbitrarily large.
fn add(sum: &mut u64, bytes: u64) {
    *sum = sum.saturating_add(bytes);
}

/// Note on the columns of [`segments_table`].
pub const SEGMENTS_NOTE: &str = "Column free_segments: bytes of entirely free segments, and of entirely free pages of \
                                 expandable segments, which torch.cuda.empty_cache() returns to the device. Column \
                                 free_split: free bytes between used blocks, which only requests of the same pool and \
                                 stream can use. Column free_private: free bytes of a private pool (such as the pool \
                                 of a CUDA graph), which stay reserved as long as the pool exists. Column \
                                 fragmentation: 100 % minus the share of the largest free block in all free bytes.";

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
        .i64("free_segments", Unit::Bytes, column(&|sums| sums.returned))
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
            words(sums.returned),
        )
    };
    much.map(note).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use stackline_model::{MemoryObjectId, MemorySegmentEventKind, MemoryStackId, MemoryStreamId, StrId};

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

    fn segment_event(
        kind: MemorySegmentEventKind,
        before: u32,
        bytes: u64,
        device: MemoryDeviceId,
    ) -> MemorySegmentEvent {
        MemorySegmentEvent {
            kind,
            before: MemoryCallId(before),
            time_ns: 0,
            device,
            stream: MemoryStreamId::NONE,
            address: 0,
            bytes,
            stack: MemoryStackId::NONE,
        }
    }

    #[test]
    fn reserved_bytes_are_traced_back_from_the_end() {
        let mut trace = MemoryTrace::default();
        let device = trace.device("cuda:0");
        let event = |kind, before, bytes| segment_event(kind, before, bytes, device);
        let (got, gave) = (MemorySegmentEventKind::Allocate, MemorySegmentEventKind::Free);
        trace.segment_events = vec![event(got, 0, 20), event(got, 2, 20), event(gave, 3, 10)];
        trace.totals = vec![total(device, 3, 35)];
        assert_eq!(reserved_curve(&trace, device), [(0, 25), (2, 45), (3, 35)]);
        assert_eq!(Reserved::from_trace(&trace).at(device, MemoryCallId(2)), Some(45));
    }

    #[test]
    fn segment_events_after_a_failure_do_not_count_for_it() {
        let mut trace = MemoryTrace::default();
        let (device, other) = (trace.device("cuda:0"), trace.device("cuda:1"));
        let (got, gave) = (MemorySegmentEventKind::Allocate, MemorySegmentEventKind::Free);
        // The cache is returned, the request fails, and a smaller request succeeds: all before call 3.
        trace.segment_events = vec![
            segment_event(got, 0, 30, device),
            segment_event(got, 2, 50, device),
            segment_event(gave, 3, 50, device),
            segment_event(got, 3, 60, device),
            segment_event(got, 3, 7, other),
            segment_event(got, 4, 10, device),
        ];
        trace.totals = vec![total(device, 4, 100)];
        let oom = OutOfMemory {
            before: MemoryCallId(3),
            segment_events: 3,
            time_ns: 0,
            device,
            stream: MemoryStreamId::NONE,
            requested: 90,
            device_free: Some(70),
            pool: StrId::NONE,
            stack: MemoryStackId::NONE,
        };
        let reserved = Reserved::from_trace(&trace);
        assert_eq!(reserved.at(device, oom.before), Some(90));
        assert_eq!(reserved.at_failure(&trace, &oom), Some(30));
    }

    #[test]
    fn a_failure_has_the_total_after_the_previous_call() {
        let mut trace = MemoryTrace::default();
        let device = trace.device("cuda:0");
        // The allocator returned 30 bytes before the request failed.
        trace.totals = vec![total(device, 1, 130), total(device, 1, 100), total(device, 2, 300)];
        assert_eq!(reserved_curve(&trace, device), [(1, 130), (2, 300)]);
        let at_failure = |before| {
            let oom = OutOfMemory {
                before: MemoryCallId(before),
                segment_events: 0,
                time_ns: 0,
                device,
                stream: MemoryStreamId::NONE,
                requested: 90,
                device_free: None,
                pool: StrId::NONE,
                stack: MemoryStackId::NONE,
            };
            Reserved::from_trace(&trace).at_failure(&trace, &oom)
        };
        assert_eq!([1, 2, 3].map(at_failure), [None, Some(100), Some(300)]);
    }

    #[test]
    fn a_total_of_zero_is_known_if_nothing_is_in_use() {
        let mut trace = MemoryTrace::default();
        let device = trace.device("cuda:0");
        trace.segment_events = vec![
            segment_event(MemorySegmentEventKind::Allocate, 0, 20, device),
            segment_event(MemorySegmentEventKind::Free, 1, 20, device),
        ];
        trace.totals = vec![total(device, 1, 0)];
        assert_eq!(reserved_curve(&trace, device), [(0, 20), (1, 0)]);
        trace.totals[0].allocated = 5;
        assert!(reserved_curve(&trace, device).is_empty(), "the source does not know it");
    }

    #[test]
    fn empty_cache_returns_the_free_pages_of_expandable_segments() {
        const MIB: u64 = 1 << 20;
        let returned = |small, expandable, begin: u64, bytes: u64| {
            let (address, segment_bytes) = (1 << 40, 80 * MIB);
            let segment = MemorySegment {
                device: MemoryDeviceId(0),
                stream: MemoryStreamId::NONE,
                address,
                bytes: segment_bytes,
                small,
                expandable,
                pool: StrId::NONE,
                stack: MemoryStackId::NONE,
                blocks: 0..2,
            };
            let block = |address, bytes, state| MemoryBlock {
                address,
                bytes,
                requested: 0,
                state,
                object: MemoryObjectId::NONE,
                stack: MemoryStackId::NONE,
            };
            let used = block(address, begin, MemoryBlockState::Active);
            let free = block(address + begin, bytes, MemoryBlockState::Inactive);
            let mut sums = Sums::default();
            sums.add(&segment, &[used, free]);
            assert_eq!((sums.free(), sums.returned + sums.split), (bytes, bytes));
            sums.returned
        };
        assert_eq!(returned(false, true, 20 * MIB, 40 * MIB), 40 * MIB);
        assert_eq!(returned(false, true, 10 * MIB, 40 * MIB), 20 * MIB, "pages begin at multiples of their size");
        assert_eq!(returned(false, true, 10 * MIB, 15 * MIB), 0);
        assert_eq!(returned(true, true, MIB, 4 * MIB), 2 * MIB);
        assert_eq!(returned(false, false, 20 * MIB, 40 * MIB), 0, "other segments return as a whole");
    }
}
