//! Memory snapshots of PyTorch: real files, and small ones of the same kinds.

use crate::common;

use common::corpus;
use serde_json::{Value, json};
use stackline_ingest::memory::{read_bytes, read_path};
use stackline_memory::composition::{Evidence, Use, composition, remedies};
use stackline_memory::curve::{alive_at, curves};
use stackline_memory::tables::{self, By};
use stackline_model::{MemoryBlockState, MemoryCallKind, MemoryTrace};
use stackline_testkit::tables::{integers, texts};

pub(crate) const MIB: u64 = 1 << 20;
pub(crate) const BASE: u64 = 0x7f00_0000_0000;

pub(crate) fn read(document: &Value) -> MemoryTrace {
    let trace = read_bytes("snapshot", document.to_string().as_bytes()).unwrap();
    trace.check().unwrap();
    trace
}

pub(crate) fn frame(file: &str, line: u32, name: &str) -> Value {
    json!({"filename": file, "line": line, "name": name})
}

pub(crate) fn event(action: &str, address: u64, size: u64, time: u64, frames: &[Value]) -> Value {
    json!({"action": action, "addr": address, "size": size, "stream": 0, "time_us": time, "frames": frames})
}

pub(crate) fn block(address: u64, size: u64, requested: u64, state: &str) -> Value {
    json!({"address": address, "size": size, "requested_size": requested, "state": state, "frames": []})
}

pub(crate) fn segment(address: u64, size: u64, pool: [u64; 2], blocks: &[Value]) -> Value {
    json!({"device": 0, "address": address, "total_size": size, "stream": 0, "segment_type": "large",
           "segment_pool_id": pool, "frames": [], "blocks": blocks})
}

/// The requested bytes of a split block's last owner stay with the free remainder; for a used block they cannot exceed
/// the block.
#[test]
fn free_blocks_keep_the_requested_size_of_their_last_owner() {
    let blocks_of = |state: &str| {
        let blocks =
            [block(BASE, 12 * MIB, 12 * MIB, "active_allocated"), block(BASE + 12 * MIB, 8 * MIB, 20 * MIB, state)];
        read(&json!({"segments": [segment(BASE, 20 * MIB, [0, 0], &blocks)], "device_traces": []}))
    };
    let stale = blocks_of("inactive");
    assert_eq!(stale.report.count_of("damaged_segment"), 0);
    assert_eq!(stale.blocks[1].requested, 0, "not known");
    assert_eq!(blocks_of("active_allocated").report.count_of("damaged_segment"), 1);
    let history = json!([{"real_size": 30 * MIB, "frames": []}]);
    let mut old = block(BASE, 8 * MIB, 0, "inactive");
    old["history"] = history;
    let old = read(&json!({"segments": [segment(BASE, 8 * MIB, [0, 0], &[old])], "device_traces": []}));
    assert_eq!((old.report.count_of("damaged_segment"), old.blocks[0].requested), (0, 0));
}

/// The last events are missing: a used block of another size than the object at its address is newer than the events.
#[test]
fn blocks_of_newer_objects_change_no_peak() {
    let ended = |blocks: &[Value]| {
        let trace = read(&json!({
            "segments": [segment(BASE, 60 * MIB, [0, 0], blocks)],
            "device_traces": [[event("alloc", BASE, 60 * MIB, 1, &[])]],
        }));
        let counts = ["block_without_object", "object_without_block"].map(|code| trace.report.count_of(code));
        (curves(&trace)[0].peak().bytes, trace.objects.requested.clone(), counts)
    };
    let used = |at: u64, size: u64| block(BASE + at * MIB, size * MIB, size * MIB, "active_allocated");
    let free = |at: u64, size: u64| block(BASE + at * MIB, size * MIB, 0, "inactive");
    let expected = |counts| (60 * MIB, vec![60 * MIB], counts);
    assert_eq!(ended(&[used(0, 60)]), expected([0, 0]));
    assert_eq!(ended(&[used(0, 15), free(15, 15), used(30, 15), free(45, 15)]), expected([2, 1]));
    assert_eq!(ended(&[free(0, 15), used(15, 45)]), expected([1, 1]));
    let mut unknown = used(0, 60);
    unknown.as_object_mut().unwrap().remove("requested_size");
    assert_eq!(ended(&[unknown]), expected([0, 0]), "it has room for the object");
}

#[test]
fn events_without_times_are_not_out_of_order() {
    let counts = |change: &dyn Fn(usize, &mut Value)| {
        let mut events: Vec<Value> =
            (0..6).map(|at| event("alloc", BASE + at * MIB, MIB, 1_700_000_000 + at, &[])).collect();
        for (at, event) in events.iter_mut().enumerate() {
            change(at, event);
        }
        let trace = read(&json!({"segments": [], "device_traces": [events]}));
        ["memory_clock_back", "memory_without_time"].map(|code| trace.report.count_of(code))
    };
    assert_eq!(counts(&|_, _| ()), [0, 0]);
    assert_eq!(counts(&|at, event| event["time_us"] = if at % 2 == 1 { Value::Null } else { at.into() }), [0, 3]);
    assert_eq!(counts(&|at, event| event["time_us"] = at.to_string().into()), [0, 6]);
    assert_eq!(counts(&|at, event| event["time_us"] = (100 - at).into()), [5, 0]);
    // Old versions write no times; the order of one device is known.
    let untimed = |at: u64| {
        let mut event = event("alloc", BASE + at * MIB, MIB, 0, &[]);
        event.as_object_mut().unwrap().remove("time_us");
        event
    };
    let of_devices = |devices: &Value| read(&json!({"segments": [], "device_traces": devices})).report;
    assert_eq!(of_devices(&json!([[untimed(0), untimed(1)]])).count_of("memory_without_time"), 0);
    assert_eq!(of_devices(&json!([[untimed(0)], [untimed(1)]])).count_of("memory_without_time"), 2);
}

/// Events do not name pools before PyTorch 2.8; segments do.
#[test]
fn objects_belong_to_the_private_pool_of_their_segment() {
    let frames = [frame("graph.py", 7, "capture")];
    let private = BASE + 64 * MIB;
    let trace = read(&json!({
        "segments": [
            segment(BASE, 20 * MIB, [0, 0], &[block(BASE, 20 * MIB, 20 * MIB, "active_allocated")]),
            segment(private, 40 * MIB, [0, 1], &[block(private, 30 * MIB, 30 * MIB, "active_allocated"),
                                                 block(private + 30 * MIB, 10 * MIB, 10 * MIB, "inactive")]),
            segment(BASE + 128 * MIB, 6 * MIB, [0, 1], &[block(BASE + 128 * MIB, 6 * MIB, 6 * MIB, "inactive")]),
        ],
        "device_traces": [[
            // Another object was here before the segment belonged to the pool.
            event("alloc", private, MIB, 1, &frames),
            event("free_requested", private, MIB, 2, &frames),
            event("free_completed", private, MIB, 2, &frames),
            event("segment_alloc", private, 40 * MIB, 3, &frames),
            event("alloc", private, 30 * MIB, 4, &frames),
            event("alloc", private + 30 * MIB, 10 * MIB, 5, &frames),
            event("free_requested", private + 30 * MIB, 10 * MIB, 6, &frames),
        ]],
    }));
    let peaks = tables::named_peaks(&trace, 1);
    let by = tables::at_peak_table(&trace, &peaks, By::Pool);
    assert_eq!(texts(&by, "pool"), ["private pool (0, 1)", "usual"]);
    assert_eq!(integers(&by, "bytes"), [40 * MIB as i64, 20 * MIB as i64]);
    assert!(trace.objects.pool[0].is_none(), "made before the segment came");
    let allocator = tables::segments_table(&trace);
    let private = texts(&allocator, "pool").iter().position(|pool| pool.starts_with("private")).unwrap();
    let column = |name: &str| integers(&allocator, name)[private];
    assert_eq!([column("free_segments"), column("free_split"), column("free_private")], [0, 0, 16 * MIB as i64]);
}

/// One model: older parameters, gradients by C++, two moments; or both moments by one line of torch.optim.
fn training(moments_at: [u32; 2], state_bytes: u64) -> MemoryTrace {
    let sizes: Vec<u64> = (0..12).map(|at| (1 + at % 5) * 64 * 1024).collect();
    let engine = frame("??", 0, "torch::autograd::Engine::evaluate_function(int)");
    let backward = [
        frame("??", 0, "c10::cuda::CUDACachingAllocator::Native::NativeCachingAllocator::allocate(unsigned long)"),
        frame("??", 0, "at::_ops::mm::call(at::Tensor const&, at::Tensor const&)"),
        frame("??", 0, "torch::autograd::generated::MmBackward0::apply(int)"),
        engine,
    ];
    let (mut events, mut blocks, mut at) = (Vec::new(), Vec::new(), BASE);
    let mut place = |bytes: u64| {
        blocks.push(block(at, bytes, bytes, "active_allocated"));
        at += bytes;
        at - bytes
    };
    for bytes in &sizes {
        place(*bytes);
    }
    let forward = [frame("model.py", 3, "forward"), frame("train.py", 8, "main")];
    events.push(event("alloc", place(100_352), 100_352, 1, &forward));
    for bytes in &sizes {
        events.push(event("alloc", place(*bytes), *bytes, 2, &backward));
    }
    for bytes in &sizes {
        for line in moments_at {
            let frames =
                [frame("/env/site-packages/torch/optim/adam.py", line, "_init_group"), frame("train.py", 9, "main")];
            let bytes = bytes * state_bytes / 4;
            events.push(event("alloc", place(bytes), bytes, 3, &frames));
        }
    }
    let bytes = at - BASE;
    read(&json!({"segments": [segment(BASE, bytes, [0, 0], &blocks)], "device_traces": [events]}))
}

#[test]
fn equal_sets_of_sizes_are_parameters_gradients_and_moments() {
    let set = (0..12).map(|at| (1 + at % 5) * 64 * 1024).sum::<u64>();
    for (lines, state_bytes) in [([150, 154], 4), ([150, 150], 4), ([150, 154], 8)] {
        let trace = training(lines, state_bytes);
        let curve = &curves(&trace)[0];
        let parts = composition(&trace, curve.device, curve.peak().position);
        let bytes_and_evidence =
            |purpose| parts.iter().find(|part| part.purpose == purpose).map(|part| (part.bytes, part.evidence));
        for purpose in [Use::Parameters, Use::Gradients] {
            assert_eq!(bytes_and_evidence(purpose), Some((set, Evidence::EqualSizes)), "{lines:?} {parts:?}");
        }
        for purpose in [Use::FirstMoments, Use::SecondMoments] {
            assert_eq!(
                bytes_and_evidence(purpose),
                Some((set * state_bytes / 4, Evidence::EqualSizes)),
                "{lines:?} {parts:?}"
            );
        }
        assert_eq!(bytes_and_evidence(Use::Activations), Some((100_352, Evidence::CallPath)));
        let notes = remedies(&parts);
        assert!(notes[0].contains("FSDP") && notes[1].contains("won't help"), "{notes:?}");
    }
}

#[test]
fn single_sets_are_not_classified() {
    let frames = [frame("model.py", 3, "forward")];
    let events: Vec<Value> = (0..20).map(|at| event("alloc", BASE + at * MIB, MIB, at, &frames)).collect();
    let trace = read(&json!({"segments": [], "device_traces": [events]}));
    let curve = &curves(&trace)[0];
    let parts = composition(&trace, curve.device, curve.peak().position);
    assert_eq!(parts.len(), 1);
    // There is no backward pass, so it is unknown if these are activations.
    assert_eq!((parts[0].purpose, parts[0].evidence), (Use::Forward, Evidence::CallPath));
    assert!(remedies(&parts)[0].contains("no backward pass"), "{:?}", remedies(&parts));
}

#[test]
fn missing_and_late_history_is_reported() {
    let blocks = [block(BASE, 12 * MIB, 12 * MIB, "active_allocated"), block(BASE + 12 * MIB, 8 * MIB, 1, "inactive")];
    let segments = [segment(BASE, 20 * MIB, [0, 0], &blocks)];
    let without = read(&json!({"segments": segments, "device_traces": [[]]}));
    assert_eq!(without.report.count_of("no_memory_history"), 1);
    let peaks = |trace: &MemoryTrace| tables::peaks_table(trace, &tables::named_peaks(trace, 3));
    assert!(peaks(&without).title.contains("the peak is unknown"), "{}", peaks(&without).title);
    let free = tables::segments_table(&without).notes.join(" ");
    assert!(free.contains("8192 KiB of 20.00 MiB of reserved memory (40.0 %) are free, in 1 block"), "{free}");
    let frames = [frame("train.py", 3, "main")];
    let late =
        read(&json!({"segments": segments, "device_traces": [[event("alloc", BASE + 64 * MIB, MIB, 1, &frames)]]}));
    assert_eq!(late.report.count_of("no_memory_history"), 0);
    assert!(
        peaks(&late).title.starts_with("Peaks of live bytes within the recorded history"),
        "{}",
        peaks(&late).title
    );
    assert!(peaks(&late).notes[0].contains("1 object (12.00 MiB) existed before"), "{:?}", peaks(&late).notes);
}

fn real(name: &str) -> Option<MemoryTrace> {
    let trace = read_path(&corpus("memory")?.join(name)).unwrap();
    trace.check().unwrap();
    Some(trace)
}

/// Bytes of segments, of blocks in use and of free blocks; number and largest of the free ones.
fn reservation(trace: &MemoryTrace) -> [u64; 5] {
    let of_state = |state: MemoryBlockState| {
        trace.blocks.iter().filter(move |block| block.state == state).map(|block| block.bytes)
    };
    let free = || of_state(MemoryBlockState::Inactive);
    [
        trace.segments.iter().map(|segment| segment.bytes).sum(),
        of_state(MemoryBlockState::Active).sum(),
        free().sum(),
        free().count() as u64,
        free().max().unwrap_or(0),
    ]
}

/// Requested bytes of objects from the recording that are live at the peak, and the call at the peak.
fn recorded_peak(trace: &MemoryTrace) -> (u64, usize) {
    let curve = &curves(trace)[0];
    let position = curve.peak().position;
    let live = alive_at(trace, curve.device, position).into_iter().map(|object| object.index());
    let recorded = live.filter(|&row| trace.objects.allocated_by[row].is_some());
    (recorded.map(|row| trace.objects.requested[row]).sum(), position.index())
}

/// Totals of corpus/README.md, which are those of Python's pickle module.
#[test]
fn totals_of_real_snapshots() {
    let Some(train) = real("snapshot-train-step.pickle") else { return };
    assert_eq!(reservation(&train), [62_830_673_920, 54_798_180_864, 8_032_493_056, 502, 104_857_600]);
    let calls = |kind| train.calls.kind.iter().filter(|own| **own == kind).count();
    let (allocations, frees) = (calls(MemoryCallKind::Allocate), calls(MemoryCallKind::Free));
    // Each free has two entries, its request and its completion.
    assert_eq!(allocations + 2 * frees + train.segment_events.len(), 19_936);
    // The call of entry 19,929, before three more frees.
    assert_eq!(recorded_peak(&train), (41_168_445_444, train.calls.len() - 4));
    let without = real("snapshot-no-history.pickle").unwrap();
    assert_eq!(reservation(&without), [75_902_222_336, 55_083_942_400, 20_818_279_936, 710, 329_252_864]);
    assert!(without.calls.is_empty());
    for (name, peak) in [("bf16", 256_025_600), ("fp32", 33_031_168)] {
        let forward = real(&format!("snapshot-forward-{name}.pickle")).unwrap();
        assert_eq!(recorded_peak(&forward).0, peak, "{name}");
    }
}

/// Expected values of corpus/README.md.
#[test]
fn real_snapshots_are_read_correctly() {
    let Some(train) = real("snapshot-train-step.pickle") else { return };
    assert_eq!(train.report.count_of("damaged_segment"), 0);
    let curve = &curves(&train)[0];
    let parts = composition(&train, curve.device, curve.peak().position);
    let requested = |purpose| parts.iter().find(|part| part.purpose == purpose).map(|part| part.objects);
    for purpose in [Use::Parameters, Use::Gradients, Use::FirstMoments, Use::SecondMoments] {
        assert_eq!(requested(purpose), Some(291), "{parts:?}");
    }
    let moment = |purpose| parts.iter().find(|part| part.purpose == purpose).map(|part| part.place.clone()).unwrap();
    assert!(moment(Use::FirstMoments).ends_with("optimizers.py:82 step"));
    assert!(moment(Use::SecondMoments).ends_with("optimizers.py:84 step"));
    let peaks = tables::named_peaks(&train, 3);
    // 326 older objects: the peak in the optimizer identifies them, because gradients and moments have their sizes
    // there.
    let (table, in_forward) =
        (tables::composition_table(&train, &peaks), texts(&tables::composition_table(&train, &peaks[1..2]), "use"));
    let at_second: Vec<String> = texts(&table, "peak")
        .into_iter()
        .zip(texts(&table, "use"))
        .filter(|(peak, _)| peak == "P2")
        .map(|(_, purpose)| purpose)
        .collect();
    assert!(at_second.iter().any(|purpose| purpose == "parameters"), "{at_second:?}");
    assert!(in_forward.iter().all(|purpose| purpose != "parameters"), "alone it does not tell: {in_forward:?}");
    let places = texts(&tables::at_peak_table(&train, &peaks, By::Place), "place");
    assert!(places.iter().any(|place| place == "BmmBackward0 / aten::bmm"), "{places:?}");
    let all = tables::objects_table(&train);
    assert!(
        texts(&all, "place").iter().chain(&texts(&all, "function")).all(|place| !place.contains("CachingAllocator"))
    );
    assert!(texts(&all, "place").iter().any(|place| place == "MeanBackward0 / aten::div"));

    let Some(without) = real("snapshot-no-history.pickle") else { return };
    assert_eq!((without.report.count_of("damaged_segment"), without.report.count_of("no_memory_history")), (0, 1));
    let note = tables::segments_table(&without).notes.join(" ");
    assert!(note.contains("(27.4 %) are free, in 710 blocks. The largest free block has 314.0 MiB"), "{note}");
}

#[test]
fn two_snapshots_are_compared_by_line() {
    let (Some(before), Some(after)) = (real("snapshot-forward-fp32.pickle"), real("snapshot-forward-bf16.pickle"))
    else {
        return;
    };
    // Requested bytes, because unsplit blocks would be larger.
    assert_eq!(integers(&tables::peaks_comparison_table(&before, &after), "change"), [222_994_432]);
    let lines = tables::comparison_table(&before, &after);
    let copies: Vec<(String, i64)> = texts(&lines, "place").into_iter().zip(integers(&lines, "change")).collect();
    let copies: Vec<i64> =
        copies.iter().filter(|(place, _)| place.ends_with("(autocast copy)")).map(|(_, change)| *change).collect();
    // The corpus counts 252,878,848 bytes in 87 blocks with a frame of autocast. One of them (10,240,000 bytes) is the
    // result of a matrix product under autocast; only the other 86 were allocated in `cached_cast`.
    assert_eq!((copies.len(), copies.iter().sum::<i64>()), (4, 242_638_848));
    assert_eq!(integers(&lines, "change").iter().sum::<i64>(), 222_994_432);
    assert!(integers(&tables::comparison_table(&after, &after), "change").is_empty());
}

/// A loop reaches the same peak in each step; the second peak is the next lower one.
#[test]
fn equal_peaks_are_merged() {
    let frames = [frame("train.py", 3, "main")];
    let mut events = Vec::new();
    for (at, mib) in [60, 60, 40, 60, 20].into_iter().enumerate() {
        let (address, time) = (BASE + at as u64 * 64 * MIB, 100 * at as u64);
        events.push(event("alloc", address, mib * MIB, time, &frames));
        events.push(event("free_requested", address, mib * MIB, time + 1, &frames));
        for other in 0..8 {
            events.push(event("alloc", BASE + (512 + 8 * at as u64 + other) * MIB, 0, time + 2 + other, &frames));
        }
    }
    let trace = read(&json!({"segments": [], "device_traces": [events]}));
    let peaks: Vec<u64> = tables::named_peaks(&trace, 5).iter().map(|peak| peak.peak.bytes / MIB).collect();
    assert_eq!(peaks, [60, 40, 20]);
}

/// A few calls that free and allocate again form one peak; other work in between separates two.
#[test]
fn nearby_peaks_are_merged() {
    let peaks = |between: u64| {
        let frames = [frame("train.py", 3, "main")];
        let mut events =
            vec![event("alloc", BASE, 40 * MIB, 1, &frames), event("alloc", BASE + 64 * MIB, 60 * MIB, 2, &frames)];
        events.push(event("free_requested", BASE + 64 * MIB, 60 * MIB, 3, &frames));
        for at in 0..between {
            events.push(event("alloc", BASE + (256 + at) * MIB, MIB / 4, 4 + at, &frames));
        }
        events.push(event("alloc", BASE + 128 * MIB, 50 * MIB, 100, &frames));
        let trace = read(&json!({"segments": [], "device_traces": [events]}));
        tables::named_peaks(&trace, 5).iter().map(|peak| peak.peak.position.index()).collect::<Vec<_>>()
    };
    assert_eq!(peaks(0), [1]);
    assert_eq!(peaks(1), [1], "three calls apart");
    assert_eq!(peaks(2), [1, 5], "four calls apart");
}
