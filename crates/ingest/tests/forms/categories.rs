//! Categories of every generation and vendor, and unknown categories.

use crate::common;
use crate::forms::dump::{codes, read};
use stackline_ingest::{ReadOptions, read_bytes};
use stackline_model::{EventId, EventKind, TrackKind};

/// Kind, lane, and the categories that mean it: Kineto's ActivityType names, those of 2020 and 2021, other vendors'.
const VOCABULARY: &[(EventKind, TrackKind, &[&str])] = &[
    (EventKind::Operator, TrackKind::Thread, &["cpu_op", "Operator"]),
    (EventKind::Annotation, TrackKind::Thread, &["user_annotation"]),
    (EventKind::PythonFunction, TrackKind::Thread, &["python_function"]),
    (
        EventKind::Runtime,
        TrackKind::Thread,
        &["cuda_runtime", "Runtime", "xpu_runtime", "mtia_runtime", "privateuse1_runtime", "glow_runtime"],
    ),
    (EventKind::Driver, TrackKind::Thread, &["cuda_driver", "xpu_driver", "privateuse1_driver"]),
    (EventKind::Kernel, TrackKind::Stream, &["kernel", "Kernel", "mtia_ccp_events", "hpu_op", "privateuse1_kernel"]),
    (EventKind::Memcpy, TrackKind::Stream, &["gpu_memcpy", "Memcpy", "privateuse1_memcpy"]),
    (EventKind::Memset, TrackKind::Stream, &["gpu_memset", "Memset", "privateuse1_memset"]),
    (EventKind::GpuAnnotation, TrackKind::Stream, &["gpu_user_annotation"]),
    (EventKind::Sync, TrackKind::Stream, &["cuda_sync", "cuda_event"]),
    (EventKind::Overhead, TrackKind::Thread, &["overhead"]),
    (EventKind::Collective, TrackKind::Thread, &["collective_comm"]),
    (EventKind::ProfilerRange, TrackKind::Thread, &["cuda_profiler_range", "hardware_counters"]),
    (EventKind::Recording, TrackKind::Thread, &["Trace"]),
    (EventKind::Other, TrackKind::Thread, &["mtia_insight", "mtia_workloadd"]),
];

fn document(category: &str) -> String {
    format!(
        "[{{\"ph\": \"X\", \"cat\": \"{category}\", \"name\": \"n\", \"pid\": 0, \"tid\": 7, \"ts\": 1, \"dur\": 1}}]"
    )
}

#[test]
fn every_alias() {
    for &(kind, lane, names) in VOCABULARY {
        for name in names {
            let trace = read(&document(name));
            let found = (trace.events.kind[0], trace.tracks.tracks[0].kind, trace.category(EventId(0)));
            assert_eq!(found, (kind, lane, *name));
            assert_eq!(trace.report.count_of("unknown_category"), 0, "{name}");
        }
    }
}

#[test]
fn unknown_categories_are_kept_and_reported() {
    let trace = read(&document("quantum_op"));
    assert_eq!((trace.events.kind[0], codes(&trace).join(" ").as_str()), (EventKind::Other, "unknown_category"));
    assert_eq!(trace.report.problems[0].example, "quantum_op");
    assert!(trace.report.is_clean());
    // A similar category is unknown: the reader does not guess.
    assert_eq!(read(&document("KERNEL")).events.kind[0], EventKind::Other);
}

#[test]
fn instants_of_known_categories() {
    let json = r#"[
        {"ph": "i", "cat": "cpu_instant_event", "name": "[memory]", "pid": 1, "tid": 1, "ts": 1, "s": "t",
         "args": {"Addr": 140141284130816, "Bytes": -512, "Device Type": 1, "Device Id": 0, "Total Allocated": 0}},
        {"ph": "i", "cat": "cpu_instant_event", "name": "[OutOfMemory]", "pid": 1, "tid": 1, "ts": 2},
        {"ph": "C", "cat": "mtia_counters", "name": "power", "pid": 1, "tid": 1, "ts": 3, "args": {"W": 90.5}},
        {"ph": "i", "name": "Record Window End", "ts": 4, "pid": "", "tid": ""}
    ]"#;
    let trace = read(json);
    let kinds: Vec<&str> = trace.events.kind.iter().map(|k| k.name()).collect();
    assert_eq!(kinds, ["memory", "instant", "counter", "instant"]);
    let bytes = trace.attr("Bytes").i64(EventId(0));
    assert_eq!(bytes, Some(-512));
}

/// An inference on MTIA: number and total time (ns) of operations and of calls, by Python's json module.
#[test]
fn mtia_operations_and_calls() {
    let Some(corpus) = common::corpus() else { return };
    let text = common::text(&corpus.join("kineto/mtia-inference.json.gz"));
    let trace = read_bytes("mtia-inference.json", &text, &ReadOptions::default()).unwrap();
    let sum = |events: &[EventId]| -> (usize, i64) {
        (events.len(), events.iter().map(|event| trace.events.dur[event.index()]).sum())
    };
    assert_eq!(sum(&trace.gpu.event), (1_313, 812_125_170));
    let calls: Vec<EventId> = trace.events.ids().filter(|&e| trace.kind(e) == EventKind::Runtime).collect();
    assert_eq!(sum(&calls), (823, 3_117_218_703));
}
