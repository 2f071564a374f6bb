//! Rules of the allocator on sequences that were computed by hand, and invariants of any sequence.

use crate::snapshots::{BASE, block, event, frame, read, segment};
use proptest::prelude::*;
use serde_json::json;
use stackline_memory::MemoryAnalysis;
use stackline_memory::allocator::{Allocator, AllocatorSettings, OutOfDeviceMemory, reserved};
use stackline_memory::replay::Replay;
use stackline_memory::suggest::Action;
use stackline_memory::tables::{named_peaks, peaks_table};
use stackline_model::{MemoryAllocatorSettings, MemoryDeviceId, MemoryTrace};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

fn plain() -> Allocator {
    Allocator::new(AllocatorSettings::default())
}

fn expandable() -> Allocator {
    Allocator::new(AllocatorSettings { expandable: true, ..AllocatorSettings::default() })
}

fn limited(bytes: u64) -> AllocatorSettings {
    AllocatorSettings { capacity: Some(bytes), ..AllocatorSettings::default() }
}

/// Allocated bytes, reserved bytes, segments.
fn state(allocator: &Allocator) -> (u64, u64, usize) {
    (allocator.allocated(), allocator.reserved(), allocator.segments())
}

#[test]
fn small_requests_share_segments_of_two_mebibytes() {
    let mut allocator = plain();
    let first = allocator.allocate(1, 0).unwrap();
    assert_eq!(state(&allocator), (512, 2 * MIB, 1));
    let second = allocator.allocate(513, 0).unwrap();
    assert_eq!((second - first, state(&allocator)), (512, (1_536, 2 * MIB, 1)));
    // 1 MiB is still small; the remainder (2 MiB - 1.5 KiB) fits it once.
    allocator.allocate(MIB, 0).unwrap();
    assert_eq!(state(&allocator), (1_536 + MIB, 2 * MIB, 1));
    allocator.allocate(MIB, 0).unwrap();
    assert_eq!(state(&allocator), (1_536 + 2 * MIB, 4 * MIB, 2));
}

#[test]
fn large_requests_split_only_if_more_than_one_mebibyte_is_left() {
    let mut allocator = plain();
    allocator.allocate(MIB + 1, 0).unwrap();
    assert_eq!(state(&allocator), (MIB + 512, 20 * MIB, 1), "below 10 MiB: a segment of 20 MiB");
    allocator.allocate(10 * MIB, 0).unwrap();
    assert_eq!(state(&allocator), (11 * MIB + 512, 20 * MIB, 1), "takes the rest of the segment");
    allocator.allocate(10 * MIB, 0).unwrap();
    assert_eq!(state(&allocator), (21 * MIB + 512, 30 * MIB, 2), "from 10 MiB on: a segment of its own");
    allocator.allocate(11 * MIB + 512, 0).unwrap();
    assert_eq!(allocator.reserved(), 42 * MIB, "rounded up to 2 MiB");
    // A segment of 12 MiB with 0.9995 MiB left: not split, so all of it counts.
    assert_eq!(allocator.allocated(), 21 * MIB + 512 + 12 * MIB);
}

#[test]
fn the_smallest_free_block_is_taken_and_neighbours_join() {
    let mut allocator = plain();
    let blocks: Vec<u64> = [4, 6, 3, 7].iter().map(|size| allocator.allocate(size * MIB, 0).unwrap()).collect();
    assert_eq!(allocator.reserved(), 20 * MIB);
    allocator.free(blocks[0]);
    allocator.free(blocks[2]);
    assert_eq!(allocator.allocate(3 * MIB, 0).unwrap(), blocks[2], "3 MiB fits best, although 4 MiB stands before it");
    allocator.free(blocks[1]);
    // 4 and 6 MiB are one block now.
    assert_eq!(allocator.allocate(9 * MIB, 0).unwrap(), blocks[0]);
    assert_eq!((allocator.reserved(), allocator.allocated()), (20 * MIB, 20 * MIB), "1 MiB over is not split off");
    assert!(!allocator.free(blocks[1]), "nothing begins there any more");
}

#[test]
fn streams_do_not_share() {
    let mut allocator = plain();
    let block = allocator.allocate(2 * MIB, 0).unwrap();
    allocator.free(block);
    allocator.allocate(2 * MIB, 1).unwrap();
    assert_eq!(state(&allocator), (2 * MIB, 40 * MIB, 2));
}

#[test]
fn free_segments_go_back_when_there_is_no_room() {
    let mut allocator = Allocator::new(limited(50 * MIB));
    let first = allocator.allocate(24 * MIB, 0).unwrap();
    let second = allocator.allocate(24 * MIB, 0).unwrap();
    allocator.free(first);
    // A free segment of 24 MiB is too small for 26, and is released.
    allocator.allocate(26 * MIB, 0).unwrap();
    assert_eq!(state(&allocator), (50 * MIB, 50 * MIB, 2));
    allocator.free(second);
    allocator.allocate(2 * MIB, 0).unwrap();
    let failed = allocator.allocate(23 * MIB, 0).unwrap_err();
    assert_eq!(
        failed,
        OutOfDeviceMemory { bytes: 23 * MIB, cached: 22 * MIB, largest: 22 * MIB },
        "fragmented: 22 of 24 MiB are free"
    );
}

#[test]
fn expandable_segments_grow_by_the_missing_bytes() {
    let mut allocator = expandable();
    let first = allocator.allocate(15 * MIB, 0).unwrap();
    assert_eq!(state(&allocator), (15 * MIB, 20 * MIB, 1));
    let second = allocator.allocate(15 * MIB, 0).unwrap();
    assert_eq!(
        (second - first, state(&allocator)),
        (15 * MIB, (30 * MIB, 40 * MIB, 1)),
        "5 MiB were there, 10 are missing"
    );
    allocator.free(first);
    allocator.free(second);
    // Both and the rest form one block: a larger request needs only one page more, where plain segments would need all
    // memory again.
    allocator.allocate(45 * MIB, 0).unwrap();
    assert_eq!(state(&allocator), (45 * MIB, 60 * MIB, 1));
    allocator.allocate(100 * KIB, 0).unwrap();
    assert_eq!(state(&allocator), (45 * MIB + 100 * KIB, 62 * MIB, 2), "the small pool has its own, by pages of 2 MiB");
    allocator.release_cached();
    assert_eq!(allocator.reserved(), 62 * MIB, "15 MiB at the end are no whole page");
}

#[test]
fn sizes_are_rounded_as_the_settings_say() {
    let rounding = MemoryAllocatorSettings { divisions: [2; 16], ..MemoryAllocatorSettings::default() };
    let mut allocator = Allocator::new(AllocatorSettings { rounding, ..AllocatorSettings::default() });
    // Between 8 and 16 MiB there is 12: three sizes are equal, and one block serves them all.
    let first = allocator.allocate(9 * MIB, 0).unwrap();
    assert_eq!(state(&allocator), (12 * MIB, 12 * MIB, 1));
    for size in [10, 12] {
        allocator.free(first);
        assert_eq!(allocator.allocate(size * MIB, 0).unwrap(), first);
        assert_eq!(state(&allocator), (12 * MIB, 12 * MIB, 1));
    }
}

/// Settings in a snapshot apply to its objects and to the model.
#[test]
fn settings_are_read_from_the_snapshot() {
    let event = |action: &str, size: u64, time: u64| json!({"action": action, "addr": 4096, "size": size, "stream": 0, "time_us": time});
    let read = |settings: serde_json::Value| {
        let file = tempfile::Builder::new().suffix(".json").tempfile().unwrap();
        let events = [event("alloc", 9 * MIB, 1), event("free_requested", 9 * MIB, 2), event("alloc", 600, 3)];
        let snapshot = json!({"segments": [], "device_traces": [events], "allocator_settings": settings});
        std::fs::write(file.path(), snapshot.to_string()).unwrap();
        stackline_ingest::memory::read_path(file.path()).unwrap()
    };
    let divisions = json!({"1": 0, "2": 0, "4": 0, "8": 2, "16": 4});
    let trace = read(json!({"expandable_segments": true, "max_split_size": -1, "roundup_power2_divisions": divisions}));
    assert_eq!(trace.allocator_settings.divisions[..6], [0, 0, 0, 2, 4, 0]);
    assert_eq!(trace.objects.bytes, [12 * MIB, 1024]);
    let settings = AllocatorSettings::from_trace(&trace, MemoryDeviceId(0));
    assert!(settings.expandable && settings.rounding.divisions[3] == 2);
    for nothing in [json!(null), json!([1, 2]), json!({"roundup_power2_divisions": {"8": -2, "1": "two"}})] {
        let plain = read(nothing);
        assert_eq!((plain.objects.bytes[0], plain.allocator_settings), (9 * MIB, MemoryAllocatorSettings::default()));
    }
}

#[test]
fn allocator_replays_a_trace_before_and_after_a_change() {
    let text = "a x 12582912; a y 12582912; k one x; k two y; f x; f y; end";
    let trace: MemoryTrace = stackline_ingest::memory::text::read("test", text).unwrap();
    let usage = stackline_memory::ObjectUsage::new(&trace, Default::default());
    let all = stackline_memory::suggest::suggestions(&usage, &stackline_memory::patterns::find(&usage));
    let mut replay = Replay::new(&trace, MemoryDeviceId(0), &all);
    assert_eq!(reserved(&trace, AllocatorSettings::default(), replay.blocks()).peak, 24 * MIB);
    let among: Vec<usize> = (0..all.len()).collect();
    replay.lower(&among, 1);
    let after = reserved(&trace, AllocatorSettings::default(), replay.blocks());
    assert_eq!((replay.peak().bytes, after.peak, after.failed), (12 * MIB, 12 * MIB, None));
    let tight = limited(20 * MIB);
    let (position, failed) =
        reserved(&trace, tight, Replay::new(&trace, MemoryDeviceId(0), &all).blocks()).failed.unwrap();
    assert_eq!((position, failed.bytes), (1, 12 * MIB));
}

#[test]
fn private_pools_serve_no_other_requests() {
    let mut allocator = expandable();
    let graph = stackline_model::StrId(7);
    let block = allocator.allocate_in(graph, 40 * MIB, 0).unwrap();
    allocator.free(block);
    allocator.allocate(40 * MIB, 0).unwrap();
    assert_eq!(state(&allocator), (40 * MIB, 80 * MIB, 2));
    allocator.release_cached();
    assert_eq!(allocator.reserved(), 80 * MIB, "a graph that may run again keeps its pool");
    allocator.allocate_in(graph, 40 * MIB, 0).unwrap();
    assert_eq!(allocator.reserved(), 80 * MIB);
}

/// Program whose graph allocates four blocks and frees three of them before a large request. The segments of the graph
/// belong to the private pool `pool` (0: to none), and all exist at the end if `is_whole`.
fn with_graph(pool: u64, is_whole: bool) -> MemoryTrace {
    let at = |number: u64| BASE + number * 128 * MIB;
    let graph: Vec<u64> = (1..5).map(at).collect();
    let (mut events, mut time) = (Vec::new(), 0);
    let mut add = |action: &str, address: u64, mib: u64| {
        time += 1;
        events.push(event(action, address, mib * MIB, time, &[frame("graph.py", 33, "capture")]));
    };
    for (address, mib) in [(at(0), 50)].into_iter().chain(graph.iter().map(|address| (*address, 40))) {
        add("segment_alloc", address, mib);
        add("alloc", address, mib);
    }
    for address in &graph[..3] {
        add("free_requested", *address, 40);
        add("free_completed", *address, 40);
    }
    add("segment_alloc", at(5), 70);
    add("alloc", at(5), 70);
    if !is_whole {
        add("segment_free", graph[0], 40);
    }
    let one = |address: u64, mib: u64, pool: u64, state: &str| {
        let blocks = [block(address, mib * MIB, mib * MIB, state)];
        segment(address, mib * MIB, [0, pool], &blocks)
    };
    let mut segments = vec![one(at(0), 50, 0, "active_allocated"), one(at(5), 70, 0, "active_allocated")];
    let of_graph = graph.iter().enumerate().filter(|(number, _)| is_whole || *number > 0);
    segments.extend(
        of_graph.map(|(number, address)| {
            one(*address, 40, pool, if number == 3 { "active_allocated" } else { "inactive" })
        }),
    );
    read(&json!({"segments": segments, "device_traces": [events]}))
}

#[test]
fn expandable_segments_are_not_shared_between_pools() {
    let saved = |trace: &MemoryTrace| {
        let ranked = MemoryAnalysis::new(trace, 1).ranked.into_iter();
        let mut growing = ranked.filter(|one| one.suggestion.action == Action::ExpandableSegments);
        growing.next().map(|one| one.suggestion.bytes)
    };
    assert_eq!(saved(&with_graph(0, true)), Some(60 * MIB), "without private pools");
    assert_eq!(saved(&with_graph(1, true)), None, "blocks of the graph's pool serve no other requests");
    assert_eq!(saved(&with_graph(1, false)), None, "of a segment that is gone the pool is not known");
}

/// Calls of two devices have common numbers: growth on one device is not reported at a call of the other.
#[test]
fn growth_is_reported_at_calls_of_its_device() {
    let other = BASE + 4096 * MIB;
    let (mut of_first, mut of_second) = (Vec::new(), Vec::new());
    let [build, shard, large] =
        [("build.py", 3), ("shard.py", 19), ("large.py", 5)].map(|(file, line)| [frame(file, line, "run")]);
    for number in 0..3 {
        let (time, address) = (10 * number, number * 128 * MIB);
        of_first.push(event("segment_alloc", BASE + address, 100 * MIB, time, &build));
        of_second.push(event("alloc", other + number * 30 * MIB, 30 * MIB, time + 1, &shard));
        of_first.push(event("alloc", BASE + address, 100 * MIB, time + 2, &build));
    }
    // The second device has 60 MiB free in two pieces when it gets 50 more.
    let freed = [0, 2].map(|number| other + number * 30 * MIB);
    for address in freed {
        of_second.push(event("free_requested", address, 30 * MIB, 40, &[]));
        of_second.push(event("free_completed", address, 30 * MIB, 40, &[]));
    }
    of_second.push(event("segment_alloc", other + 512 * MIB, 50 * MIB, 41, &large));
    of_first.push(event("free_requested", BASE, 100 * MIB, 42, &[]));
    of_first.push(event("free_completed", BASE, 100 * MIB, 42, &[]));
    of_second.push(event("alloc", other + 512 * MIB, 50 * MIB, 43, &large));
    let whole = |address: u64, mib: u64, device: u64, state: &str| {
        let mut whole = segment(address, mib * MIB, [0, 0], &[block(address, mib * MIB, mib * MIB, state)]);
        whole["device"] = json!(device);
        whole
    };
    let mut parts = segment(
        other,
        90 * MIB,
        [0, 0],
        &[
            block(other, 30 * MIB, 30 * MIB, "inactive"),
            block(other + 30 * MIB, 30 * MIB, 30 * MIB, "active_allocated"),
            block(other + 60 * MIB, 30 * MIB, 30 * MIB, "inactive"),
        ],
    );
    parts["device"] = json!(1);
    let state = |number| if number == 0 { "inactive" } else { "active_allocated" };
    let mut segments: Vec<_> = (0..3).map(|number| whole(BASE + number * 128 * MIB, 100, 0, state(number))).collect();
    segments.extend([parts, whole(other + 512 * MIB, 50, 1, "active_allocated")]);
    let trace = read(&json!({"segments": segments, "device_traces": [of_first, of_second]}));
    let notes = peaks_table(&trace, &named_peaks(&trace, 1)).notes;
    let growths: Vec<&String> = notes.iter().filter(|note| note.contains("the allocator requested")).collect();
    let [only] = growths[..] else { panic!("{notes:?}") };
    assert!(
        only.starts_with("cuda:1: ") && only.contains("(large.py:5 run) the allocator requested 50.00 MiB"),
        "{only}"
    );
    assert!(only.contains("although 60.00 MiB of the allocator's reserved memory were free"), "{only}");
}

/// The allocator gets more memory, because another stream uses the freed memory until the end of the call.
#[test]
fn growth_names_memory_that_waits_for_a_stream() {
    let second = BASE + 64 * MIB;
    let note = |early: bool| {
        let completed = event("free_completed", BASE, 40 * MIB, 4, &[]);
        let mut events = vec![
            event("segment_alloc", BASE, 40 * MIB, 1, &[]),
            event("alloc", BASE, 40 * MIB, 2, &[]),
            event("free_requested", BASE, 40 * MIB, 3, &[]),
            event("segment_alloc", second, 40 * MIB, 5, &[]),
            event("alloc", second, 40 * MIB, 6, &[]),
        ];
        events.insert(if early { 3 } else { 5 }, completed);
        let whole = |address, state| segment(address, 40 * MIB, [0, 0], &[block(address, 40 * MIB, 40 * MIB, state)]);
        let segments = [whole(BASE, "inactive"), whole(second, "active_allocated")];
        let trace = read(&json!({"segments": segments, "device_traces": [events]}));
        peaks_table(&trace, &named_peaks(&trace, 1)).notes.remove(0)
    };
    let (early, late) = (note(true), note(false));
    assert!(early.contains("40.00 MiB of the allocator's reserved memory were free. The free blocks"), "{early}");
    let expected = "were not in use by the program. Of these, 40.00 MiB waited for another stream that uses the freed \
                    memory (record_stream).";
    assert!(late.ends_with(expected), "{late}");
}

proptest! {
    #[test]
    fn blocks_never_overlap_and_sums_hold(
        steps in proptest::collection::vec((any::<bool>(), 0..40 * MIB, 0..3u64, any::<u16>()), 0..80),
        expandable in any::<bool>(),
        capacity in proptest::option::of(20 * MIB..400 * MIB),
    ) {
        let mut allocator = Allocator::new(AllocatorSettings { expandable, capacity, ..AllocatorSettings::default() });
        let mut live: Vec<(u64, u64)> = Vec::new();
        for (allocates, bytes, stream, pick) in steps {
            let bytes = if pick & 1 == 0 { bytes } else { bytes % (2 * MIB) };
            if allocates || live.is_empty() {
                if let Ok(address) = allocator.allocate(bytes, stream) {
                    prop_assert!(live.iter().all(|(at, size)| address + bytes <= *at || at + size <= address));
                    live.push((address, bytes));
                }
            } else {
                let (address, _) = live.swap_remove(usize::from(pick) % live.len());
                prop_assert!(allocator.free(address));
            }
            prop_assert!(allocator.allocated() >= live.iter().map(|(_, size)| size).sum());
            prop_assert!(allocator.allocated() <= allocator.reserved());
            prop_assert!(capacity.is_none_or(|most| allocator.reserved() <= most));
        }
        for (address, _) in live {
            prop_assert!(allocator.free(address));
        }
        prop_assert_eq!(allocator.allocated(), 0);
        allocator.release_cached();
        prop_assert_eq!(state(&allocator), (0, 0, 0));
    }
}
