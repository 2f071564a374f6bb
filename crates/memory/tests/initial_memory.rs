//! Memory that is live before the first call: it counts at the first call, independent of that call.

use stackline_ingest::memory::{read_bytes, text};
use stackline_memory::curve::{alive_at, curves};
use stackline_memory::replay::Replay;
use stackline_memory::{MemoryAnalysis, tables};
use stackline_model::{MemoryCallId, MemoryDeviceId, MemoryTrace};

/// Position, bytes and number of objects of the highest peak.
fn peak(trace: &MemoryTrace) -> (u32, u64, usize) {
    trace.check().unwrap();
    let curve = &curves(trace)[0];
    let peak = curve.peak();
    assert_eq!(Replay::new(trace, curve.device, &[]).peak(), peak, "a replay that changes nothing");
    assert_eq!(Replay::new(trace, curve.device, &[]).curve(), *curve);
    (peak.position.0, peak.bytes, alive_at(trace, curve.device, peak.position).len())
}

const BEGINS_FULL: &str = "o big 1000000; o p 100; f big at=x.py:1:y; a x 512; k f p>x; k g x,p; f x; f p; end";

#[test]
fn memory_freed_by_the_first_call_is_a_peak() {
    let trace = text::read("before", BEGINS_FULL).unwrap();
    assert_eq!(peak(&trace), (0, 1_000_100, 2));
    // Nothing else changes: the next call has the remaining bytes and its own.
    assert_eq!(curves(&trace)[0].points, [(0, 1_000_100), (1, 612), (4, 100), (5, 0)]);
    let analysis = MemoryAnalysis::new(&trace, 2);
    let table = tables::peaks_table(&trace, &analysis.peaks);
    let place = table.columns.iter().find(|column| column.name == "place").unwrap();
    assert!(!format!("{place:?}").contains("x.py"), "the free did not make the peak: {place:?}");
    // Suggestions are measured against the same curve.
    let list = analysis.suggestions();
    let mut replay = Replay::new(&trace, MemoryDeviceId(0), &list);
    (0..list.len()).for_each(|at| assert_eq!(replay.lowers(at), 0, "the peak is before all of them"));
}

#[test]
fn several_frees_in_a_row() {
    let trace = text::read("before", "o a 400; o b 300; f a; f b; a c 350; f c; end").unwrap();
    assert_eq!(peak(&trace), (0, 700, 2));
    assert_eq!(curves(&trace)[0].points, [(0, 700), (1, 0), (2, 350), (3, 0)]);
    // An allocation first: nothing is counted twice.
    let trace = text::read("before", "o a 400; a c 50; f a; f c; end").unwrap();
    assert_eq!(curves(&trace)[0].points, [(0, 450), (1, 50), (2, 0)]);
}

/// Ring buffer of events that begins with frees.
#[test]
fn a_snapshot_that_begins_with_frees() {
    let event = |action: &str, addr: u64, size: u64, time: u64| {
        format!(r#"{{"action":"{action}","addr":{addr},"size":{size},"stream":0,"time_us":{time},"frames":[]}}"#)
    };
    let events = [
        event("free_requested", 4096, 1024, 1),
        event("free_completed", 4096, 1024, 2),
        event("free_requested", 8192, 2048, 3),
        event("alloc", 4096, 512, 4),
    ];
    let text = format!(r#"{{"device_traces":[[{}]],"segments":[]}}"#, events.join(","));
    assert_eq!(peak(&read_bytes("ring", text.as_bytes()).unwrap()), (0, 3072, 2));
}

/// Without history there are no calls, but the active blocks are known.
#[test]
fn a_snapshot_of_segments_alone() {
    let text = r#"{"device_traces":[],"segments":[{"device":0,"address":4096,"total_size":2097152,"stream":0,
        "segment_type":"small","blocks":[{"size":1024,"requested_size":1000,"state":"active_allocated"},
        {"size":512,"requested_size":300,"state":"active_allocated"},{"size":2095616,"state":"inactive"}]}]}"#;
    let trace = read_bytes("segments", text.as_bytes()).unwrap();
    assert!(trace.calls.is_empty());
    assert_eq!(peak(&trace), (0, 1536, 2));
    let analysis = MemoryAnalysis::new(&trace, 2);
    assert_eq!(analysis.peaks[0].name, "P1");
    let shown = tables::alive_table(&trace, &analysis.peaks[0]);
    assert_eq!(shown.rows(), 2);
    assert_eq!(tables::peaks_table(&trace, &analysis.peaks).rows(), 1);
    assert_eq!(tables::curve_table(&trace, 0).rows(), 1);
    assert_eq!(alive_at(&trace, MemoryDeviceId(0), MemoryCallId(0)).len(), 2);
}

/// A free is assigned to the youngest object of its size; the first frees are of older objects.
#[test]
fn a_timeline_that_begins_with_a_free() {
    let rows = "[[-1,1,4096,0],[-1,1,1024,1],[10,4,-4096,0],[20,2,512,3]]";
    assert_eq!(peak(&read_bytes("timeline", rows.as_bytes()).unwrap()), (0, 5120, 2));
}
