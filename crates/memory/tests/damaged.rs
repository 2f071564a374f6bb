//! Sources with impossible numbers: each is counted in the read report, and affects nothing else.

use serde_json::{Value, json};
use stackline_ingest::memory::read_bytes;
use stackline_memory::curve::curves;
use stackline_memory::tables;
use stackline_model::{MemoryBlockState, MemoryTrace};

fn read(document: &Value) -> MemoryTrace {
    let trace = read_bytes("damaged", document.to_string().as_bytes()).unwrap();
    trace.check().unwrap();
    trace
}

/// Count of a code, and its example.
fn counted<'a>(trace: &'a MemoryTrace, code: &str) -> (u64, &'a str) {
    let problem = trace.report.problems.iter().find(|problem| problem.code == code);
    problem.map_or((0, ""), |problem| (problem.count, problem.example.as_str()))
}

const MIB: u64 = 1 << 20;

fn block(address: u64, size: &Value, state: &str) -> Value {
    json!({"address": address, "size": size, "requested_size": 0, "state": state})
}

fn segment(address: u64, blocks: &[Value]) -> Value {
    json!({"device": 0, "address": address, "total_size": 20 * MIB, "stream": 0, "blocks": blocks})
}

fn sound() -> Value {
    segment(0, &[block(0, &json!(MIB), "active_allocated"), block(MIB, &json!(19 * MIB), "inactive")])
}

/// Snapshot of these segments, the first of which is valid.
fn with(more: &[Value]) -> Value {
    let segments: Vec<Value> = std::iter::once(sound()).chain(more.iter().cloned()).collect();
    json!({"device_traces": [], "segments": segments})
}

/// Read a snapshot in which one thing was left out; returns live and reserved bytes.
fn left_out(document: &Value, what: &str) -> (u64, u64) {
    let trace = read(document);
    let (count, example) = counted(&trace, "damaged_segment");
    assert_eq!(count, 1, "{what}: {:?}", trace.report.problems);
    assert!(example.contains(what), "{what}: {example}");
    assert_eq!(trace.devices.len(), 1);
    let total = trace.totals.last().unwrap();
    assert_eq!(curves(&trace)[0].peak().bytes, total.allocated, "{what}");
    (total.allocated, total.reserved)
}

#[test]
fn valid_snapshots_are_read_unchanged() {
    let states = ["active_awaiting_free", "active_pending_free"];
    let blocks: Vec<Value> = (0..2).map(|at| block((100 + at) * MIB, &json!(MIB), states[at as usize])).collect();
    let trace = read(&with(&[segment(100 * MIB, &blocks)]));
    assert_eq!(counted(&trace, "damaged_segment").0, 0);
    let waits = |block: &stackline_model::MemoryBlock| block.state == MemoryBlockState::AwaitingFree;
    assert_eq!(trace.blocks.iter().filter(|block| waits(block)).count(), 2);
}

#[test]
fn impossible_blocks_are_counted() {
    for size in [json!(-8), json!(1u64 << 62), json!("many")] {
        let bad = segment(100 * MIB, &[block(100 * MIB, &size, "active_allocated")]);
        assert_eq!(left_out(&with(&[bad]), "no valid size"), (MIB, 40 * MIB), "{size}");
    }
    let outside = segment(100 * MIB, &[block(100 * MIB, &json!(21 * MIB), "active_allocated")]);
    assert_eq!(left_out(&with(&[outside]), "outside its segment"), (MIB, 40 * MIB));
    let first = block(100 * MIB, &json!(4 * MIB), "active_allocated");
    let over = segment(100 * MIB, &[first, block(103 * MIB, &json!(4 * MIB), "active_allocated")]);
    assert_eq!(left_out(&with(&[over]), "overlaps another one"), (5 * MIB, 40 * MIB));
    let state = segment(100 * MIB, &[block(100 * MIB, &json!(MIB), "active_whatever")]);
    assert_eq!(left_out(&with(&[state]), "active_whatever"), (MIB, 40 * MIB));
    let mut with_requested_size = segment(100 * MIB, &[block(100 * MIB, &json!(MIB), "active_allocated")]);
    with_requested_size["blocks"][0]["requested_size"] = json!(-1);
    assert_eq!(left_out(&with(&[with_requested_size]), "requested_size"), (2 * MIB, 40 * MIB));
}

#[test]
fn impossible_segments_are_counted() {
    let changed = |key: &str, value: Value| {
        let mut segment = segment(100 * MIB, &[block(100 * MIB, &json!(MIB), "active_allocated")]);
        segment[key] = value;
        segment
    };
    assert_eq!(left_out(&with(&[changed("total_size", json!(-1))]), "has no valid size"), (MIB, 20 * MIB));
    assert_eq!(left_out(&with(&[changed("device", json!(-1))]), "has an invalid device number"), (MIB, 20 * MIB));
    assert_eq!(left_out(&with(&[changed("address", json!(-1))]), "the end address of the segment"), (MIB, 20 * MIB));
    assert_eq!(left_out(&with(&[sound()]), "a duplicate"), (MIB, 20 * MIB));
    assert_eq!(left_out(&with(&[segment(19 * MIB, &[])]), "overlaps another one"), (MIB, 20 * MIB));
    assert_eq!(
        left_out(&with(&[changed("blocks", json!({"a": 1}))]), "the value of the snapshot's key blocks is not a list"),
        (MIB, 40 * MIB)
    );
    // The same place on another device is another place.
    let mut other = sound();
    other["device"] = json!(1);
    assert_eq!(counted(&read(&with(&[other])), "damaged_segment").0, 0);
}

/// A damaged segment must not explain a failed request.
#[test]
fn a_failed_request_is_not_fragmentation_because_of_a_damaged_segment() {
    let mut bad = segment(100 * MIB, &[]);
    bad["total_size"] = json!(-1);
    let mut document = with(&[bad]);
    document["device_traces"] = json!([[{"action": "oom", "device_free": 0, "size": 1u64 << 40, "stream": 0,
        "time_us": 1, "frames": []}]]);
    let shown = format!("{:?}", tables::out_of_memory_table(&read(&document)).unwrap());
    assert!(!shown.contains("fragmentation\")") && shown.contains("not enough memory"), "{shown}");
}

/// Objects older than the records also existed when a request failed before the first record.
#[test]
fn failed_first_requests_list_preexisting_objects() {
    let mut document = with(&[segment(100 * MIB, &[block(100 * MIB, &json!(18 * MIB), "active_allocated")])]);
    let oom = json!({"action": "oom", "device_free": MIB, "size": 50 * MIB, "stream": 0, "time_us": 1, "frames": []});
    let later = json!({"action": "alloc", "addr": 1u64 << 40, "size": 512, "stream": 0, "time_us": 2, "frames": []});
    for events in [json!([oom]), json!([oom, later])] {
        document["device_traces"] = json!([events]);
        let trace = read(&document);
        let shown = format!("{:?}", tables::out_of_memory_table(&trace).unwrap());
        let older = curves(&trace)[0].at(0) / MIB * MIB;
        assert!(older == 19 * MIB && shown.contains(&older.to_string()), "{older} {shown}");
    }
}

/// Without times in the file, calls have their positions, also next to a free that is missing.
#[test]
fn events_without_times_give_no_times() {
    let event = |action: &str| json!({"action": action, "addr": 1u64 << 40, "size": 512, "stream": 0, "frames": []});
    let events = [event("alloc"), event("alloc"), event("free_requested")];
    let trace = read(&json!({"segments": [], "device_traces": [events]}));
    assert_eq!((trace.calls.len(), trace.has_times()), (4, false));
}

#[test]
fn parts_of_another_form_and_events_with_such_sizes_are_counted() {
    let trace = read(&json!({"device_traces": {"0": []}, "segments": [sound()]}));
    assert_eq!(
        counted(&trace, "damaged_memory_event"),
        (1, "the value of the snapshot's key device_traces is not a list")
    );
    let trace = read(&json!({"device_traces": [{"0": []}], "segments": {"0": sound()}}));
    assert_eq!(counted(&trace, "damaged_memory_event"), (1, "the allocator events of a device are not a list"));
    assert_eq!(counted(&trace, "damaged_segment"), (1, "the value of the snapshot's key segments is not a list"));
    let event = |action: &str, addr: u64, size: Value| json!({"action": action, "addr": addr, "size": size, "stream": 0, "time_us": 1, "frames": []});
    let events = [
        event("alloc", 4096, json!(-8)),
        event("alloc", 8192, json!(1u64 << 62)),
        event("free_requested", 4096, json!(-8)),
        event("alloc", 16384, json!(512)),
    ];
    let trace = read(&json!({"device_traces": [events], "segments": []}));
    let (count, example) = counted(&trace, "damaged_memory_event");
    assert_eq!((count, example), (3, "allocator event \"alloc\" without an address, or with an impossible size"));
    assert_eq!(curves(&trace)[0].peak().bytes, 512);
}

/// File of an operator that takes one valid tensor and this one.
fn operator(tensor: &Value) -> Value {
    json!({"schema": "1.0", "nodes": [{"id": 2, "name": "aten::relu", "parent": 1, "op_schema": "",
        "inputs": [[11, 7, 0, 256, 4, "cuda:0"], tensor], "input_types": ["Tensor(float)", "Tensor(float)"],
        "input_shapes": [[256], [256]], "outputs": [], "output_types": [], "output_shapes": []}]})
}

#[test]
fn impossible_tensors_are_counted() {
    let sound = read(&operator(&json!([12, 8, 0, 256, 4, "cuda:0"])));
    assert_eq!((counted(&sound, "damaged_tensor").0, sound.accesses.len()), (0, 2));
    // Storage 0 means none, which is no damage.
    let none = read(&operator(&json!([12, 0, 0, 0, 4, "cuda:0"])));
    assert_eq!((counted(&none, "damaged_tensor").0, none.accesses.len()), (0, 1));
    for damaged in [
        json!([12, 8, 0, 1u64 << 62, 4, "cuda:0"]),
        json!([12, 8, 0, 1u64 << 50, 4, "cuda:0"]),
        json!([12, "eight", 0, 256, 4, "cuda:0"]),
        json!([12, -8, 0, 256, 4, "cuda:0"]),
        json!([12, 8, 0, -256, 4, "cuda:0"]),
        json!([12, 8, -1, 256, 4, "cuda:0"]),
        json!([12, 8, 0, 256, -4, "cuda:0"]),
    ] {
        let trace = read(&operator(&damaged));
        assert_eq!(counted(&trace, "damaged_tensor"), (1, "of aten::relu"), "{damaged}");
        assert_eq!((trace.accesses.len(), curves(&trace)[0].peak().bytes), (1, 1024), "{damaged}");
    }
}

/// Rows of a raw timeline, one of them with an impossible size for its action.
#[test]
fn impossible_timeline_sizes_are_counted() {
    let sound = "[-1,1,4096,0],[10,2,0,3],[20,4,0,3],[30,4,-4096,0]";
    let trace = read_bytes("timeline", format!("[{sound}]").as_bytes()).unwrap();
    assert_eq!((trace.calls.len(), counted(&trace, "damaged_memory_event").0), (3, 0), "nothing is freed with nothing");
    for (row, what) in [
        ("[40,2,-8,3]", "an allocation has a size of -8 bytes"),
        ("[40,4,0,3]", "a free has a size of 0 bytes"),
        ("[40,4,8,3]", "a free has a size of 8 bytes"),
        ("[40,1,-8,3]", "an object from before the recording has a size of -8 bytes"),
        ("[40,2,4611686018427387904,3]", "an allocation has a size of 4611686018427387904 bytes"),
    ] {
        let trace = read_bytes("timeline", format!("[{sound},{row}]").as_bytes()).unwrap();
        assert_eq!(counted(&trace, "damaged_memory_event"), (1, what), "{row}");
        assert_eq!((trace.calls.len(), counted(&trace, "unknown_memory_event").0), (3, 0), "{row}");
    }
    let trace = read_bytes("timeline", format!("[{sound},[40,9,8,3]]").as_bytes()).unwrap();
    assert_eq!(counted(&trace, "unknown_memory_event"), (1, "action 9"));
}

/// For any compression, the report has the number of uncompressed bytes.
#[test]
fn bytes_of_the_report_equal_the_file_size() {
    let text = "a x 64; k one x>x; f x; end\n";
    let bytes_of = |bytes: &[u8]| read_bytes("source", bytes).unwrap().report.bytes;
    assert_eq!(bytes_of(text.as_bytes()), text.len() as u64);
    assert_eq!(bytes_of(&stackline_testkit::io::gzip(text.as_bytes())), text.len() as u64);
    let json = r#"{"segments": [], "device_traces": []}"#;
    assert_eq!(bytes_of(json.as_bytes()), json.len() as u64);
    // {"segments": [], "device_traces": []}, by protocol 2.
    let pickle = b"\x80\x02}(X\x08\x00\x00\x00segments]X\x0d\x00\x00\x00device_traces]u.";
    assert_eq!(bytes_of(pickle), pickle.len() as u64);
}
