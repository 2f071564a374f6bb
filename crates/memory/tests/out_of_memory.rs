//! Failed requests in snapshots: the state of the allocator at the failure, and the cause.

use crate::snapshots::{BASE, MIB, block, event, frame, read, segment};
use serde_json::{Value, json};
use stackline_memory::tables;
use stackline_model::{MemoryTrace, Table};
use stackline_testkit::tables::{integers, texts};

/// Failed request of this size.
fn oom(size: u64, device_free: u64, time: u64) -> Value {
    json!({"action": "oom", "device_free": device_free, "size": size, "stream": 0, "time_us": time,
           "frames": [frame("train.py", 7, "step")], "pool_id": [0, 0]})
}

/// Allocation in a segment of its own.
fn own_segment(address: u64, mib: u64, time: u64) -> [Value; 2] {
    ["segment_alloc", "alloc"].map(|action| event(action, address, mib * MIB, time, &[]))
}

/// Free of an object, and of its segment if `and_segment`.
fn free(address: u64, mib: u64, time: u64, and_segment: bool) -> Vec<Value> {
    let actions = ["free_requested", "free_completed", "segment_free"];
    let actions = &actions[..if and_segment { 3 } else { 2 }];
    actions.iter().map(|action| event(action, address, mib * MIB, time, &[])).collect()
}

fn whole(address: u64, mib: u64, pool: u64, state: &str) -> Value {
    segment(address, mib * MIB, [0, pool], &[block(address, mib * MIB, mib * MIB, state)])
}

fn failures(trace: &MemoryTrace) -> Table {
    tables::out_of_memory_table(trace).unwrap()
}

#[test]
fn a_smaller_request_after_the_failure_does_not_change_it() {
    let [kept, cached, smaller] = [0, 64, 128].map(|mib| BASE + mib * MIB);
    let mut events: Vec<Value> = own_segment(kept, 30, 1).into();
    events.extend(own_segment(cached, 50, 2));
    // The segment is returned before the request fails.
    events.extend(free(cached, 50, 3, true));
    events.push(oom(90 * MIB, 70 * MIB, 4));
    let segments = vec![whole(kept, 30, 0, "active_allocated")];
    let ends_here = read(&json!({"segments": segments, "device_traces": [events.clone()]}));
    events.extend(own_segment(smaller, 60, 4));
    let segments = [&segments[..], &[whole(smaller, 60, 0, "active_allocated")]].concat();
    let goes_on = read(&json!({"segments": segments, "device_traces": [events]}));
    for trace in [&ends_here, &goes_on] {
        let table = failures(trace);
        assert_eq!(integers(&table, "reserved"), [30 * MIB as i64]);
        let why = &texts(&table, "explanation")[0];
        assert!(why.starts_with("not enough memory") && why.contains("20.00 MiB were missing"), "{why}");
    }
    assert_eq!(integers(&failures(&ends_here), "largest_free"), [0]);
    assert_eq!(integers(&failures(&goes_on), "largest_free"), [-1], "the segments are those of a later moment");
}

#[test]
fn the_free_memory_of_a_graph_is_not_fragmentation() {
    let [used, unused, usual] = [0, 64, 128].map(|mib| BASE + mib * MIB);
    let mut events: Vec<Value> = own_segment(used, 10, 1).into();
    events.extend(own_segment(unused, 30, 2));
    events.extend(own_segment(usual, 40, 3));
    events.extend(free(unused, 30, 4, false));
    events.push(oom(35 * MIB, 20 * MIB, 5));
    let with_pool = |pool| {
        let segments = [
            whole(used, 10, pool, "active_allocated"),
            whole(unused, 30, pool, "inactive"),
            whole(usual, 40, 0, "active_allocated"),
        ];
        failures(&read(&json!({"segments": segments, "device_traces": [events]})))
    };
    let graph = with_pool(1);
    let why = &texts(&graph, "explanation")[0];
    assert!(why.starts_with("not enough memory") && why.contains("16.00 MiB were missing"), "{why}");
    assert!(why.contains("held 30.00 MiB of free memory"), "{why}");
    assert_eq!(integers(&graph, "largest_free"), [0], "of the request's pool");
    let usual = with_pool(0);
    assert!(texts(&usual, "explanation")[0].starts_with("fragmentation"));
    assert_eq!(integers(&usual, "largest_free"), [30 * MIB as i64]);
}

#[test]
fn a_device_that_returned_all_segments_reserves_nothing() {
    let mut events: Vec<Value> = own_segment(BASE, 60, 1).into();
    events.extend(free(BASE, 60, 2, true));
    events.push(oom(110 * MIB, 100 * MIB, 3));
    let trace = read(&json!({"segments": [], "device_traces": [events]}));
    assert_eq!(trace.report.count_of("no_memory_segments"), 0, "they are known");
    let reserved = tables::reserved_curve(&trace, trace.totals[0].device);
    assert_eq!(reserved.iter().map(|(_, bytes)| *bytes).max(), Some(60 * MIB));
    assert_eq!(reserved.last().map(|(_, bytes)| *bytes), Some(0));
    let first = read(&json!({"segments": [], "device_traces": [[oom(110 * MIB, 100 * MIB, 1)]]}));
    let peaks = tables::peaks_table(&first, &tables::named_peaks(&first, 1));
    assert_eq!(peaks.title, "Peaks of live bytes", "the failed request is its history");
    for trace in [&trace, &first] {
        let table = failures(trace);
        assert_eq!(integers(&table, "reserved"), [0]);
        let why = &texts(&table, "explanation")[0];
        assert!(why.starts_with("not enough memory") && why.contains("10.00 MiB were missing"), "{why}");
    }
    // Without a list of segments, or with objects that are still live, the reserved bytes are unknown.
    let without_list = read(&json!({"device_traces": [[oom(110 * MIB, 100 * MIB, 1)]]}));
    let live: Vec<Value> = own_segment(BASE, 60, 1).into_iter().chain([oom(110 * MIB, 40 * MIB, 2)]).collect();
    let live = read(&json!({"segments": [], "device_traces": [live]}));
    assert_eq!(live.report.count_of("no_memory_segments"), 1);
    for trace in [&without_list, &live] {
        assert_eq!(integers(&failures(trace), "reserved"), [-1]);
        assert!(texts(&failures(trace), "explanation")[0].starts_with("cause unknown"));
    }
}

/// A free block of another stream is in one piece, and freed memory that a stream still uses isn't free.
#[test]
fn memory_of_other_streams_is_no_fragmentation() {
    let kept = BASE + 40 * MIB;
    let cause = |events: Vec<Value>, state: &str| {
        let blocks = [block(BASE, 40 * MIB, 40 * MIB, state), block(kept, 10 * MIB, 10 * MIB, "active_allocated")];
        let trace = read(&json!({"segments": [segment(BASE, 50 * MIB, [0, 0], &blocks)], "device_traces": [events]}));
        texts(&failures(&trace), "explanation").remove(0)
    };
    let made = [
        event("segment_alloc", BASE, 50 * MIB, 1, &[]),
        event("alloc", BASE, 40 * MIB, 2, &[]),
        event("alloc", kept, 10 * MIB, 3, &[]),
        event("free_requested", BASE, 40 * MIB, 4, &[]),
    ];
    let mut of_stream = oom(30 * MIB, 5 * MIB, 9);
    of_stream["stream"] = json!(7);
    let done = event("free_completed", BASE, 40 * MIB, 5, &[]);
    let other = cause([&made[..], &[done, of_stream]].concat(), "inactive");
    assert!(other.starts_with("memory of another stream: a free block of 40.00 MiB was large enough"), "{other}");
    let waiting = cause([&made[..], &[oom(30 * MIB, 5 * MIB, 9)]].concat(), "active_awaiting_free");
    assert!(waiting.starts_with("freed memory was still in use: the program had freed 40.00 MiB"), "{waiting}");
}
