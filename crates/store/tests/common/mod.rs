//! Traces for tests, and their comparison.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]
#![allow(dead_code, reason = "each test binary uses some of it")]

pub(crate) mod random;

use stackline_model::{
    AttrTable, AttrType, EventId, EventKind, Key, LinkKind, NewEvent, Phase, Severity, StackId, Step, StrId, Trace,
    TraceMeta, TrackKind, flags,
};

/// Compare two traces column by column.
#[track_caller]
pub(crate) fn assert_same(a: &Trace, b: &Trace) {
    assert_same_rows(a, b);
    assert_same_attributes(&a.attrs, &b.attrs);
    assert_eq!(a.meta, b.meta);
    assert_eq!(a.links, b.links);
    assert_eq!(a.events.level, b.events.level);
    assert_eq!(a.stacks, b.stacks);
}

#[track_caller]
pub(crate) fn assert_same_rows(a: &Trace, b: &Trace) {
    assert!(a.strings.iter().eq(b.strings.iter()), "strings differ");
    let (x, y) = (&a.events, &b.events);
    assert_eq!(x.start, y.start);
    assert_eq!(x.dur, y.dur);
    assert_eq!(x.track, y.track);
    assert_eq!(x.name, y.name);
    assert_eq!(x.category, y.category);
    assert_eq!(x.kind, y.kind);
    assert_eq!(x.phase, y.phase);
    assert_eq!(x.flags, y.flags);
    assert_eq!(x.source_index, y.source_index);
    assert_eq!(x.parent, y.parent);
    assert_eq!(a.tracks.processes, b.tracks.processes);
    assert_eq!(a.tracks.tracks, b.tracks.tracks);
    let (x, y) = (&a.gpu, &b.gpu);
    assert_eq!(x.event, y.event);
    assert_eq!(x.correlation, y.correlation);
    assert_eq!(x.device, y.device);
    assert_eq!(x.stream, y.stream);
    assert_eq!(x.launch, y.launch);
    assert_eq!(x.operator, y.operator);
    assert_eq!(x.python, y.python);
    assert_eq!(x.module, y.module);
    assert_eq!(x.annotation, y.annotation);
    assert_eq!(x.step, y.step);
    assert_eq!(a.steps, b.steps);
    assert_eq!(a.report, b.report);
    for track in a.tracks.ids() {
        assert_eq!(a.track_events(track), b.track_events(track));
    }
}

#[track_caller]
fn assert_same_attributes(a: &AttrTable, b: &AttrTable) {
    let ((x, xs, xv), (y, ys, yv)) = (a.columns(), b.columns());
    assert_eq!(x, y);
    assert_eq!(xs, ys);
    assert_eq!(xv, yv);
}

/// Small trace with every feature of the model. Never change it, because the fixtures of old versions contain it.
pub(crate) fn sample() -> Trace {
    let mut trace = Trace::default();
    trace.meta = TraceMeta {
        name: "sample.json.gz".to_owned(),
        format: "kineto".to_owned(),
        base_ns: 1_712_345_678_901_234_567,
        rank: Some(3),
        world_size: Some(8),
        entries: vec![
            ("deviceProperties".to_owned(), "[{\"id\":0}]".to_owned()),
            ("deviceProperties".to_owned(), "[]".to_owned()),
        ],
        fractional_ts: true,
        clocks: Vec::new(),
    };
    sample_tracks(&mut trace);
    sample_events(&mut trace);
    sample_links(&mut trace);
    trace.report.bytes = 4096;
    trace.report.records = 9;
    trace.report.events = trace.events.len() as u64;
    trace.report.count("bare_quote", Severity::Repaired, "A quote was \"bare\".", Some(17), "a\"b\n\u{1F680}");
    trace.index_tracks();
    trace
}

fn sample_tracks(trace: &mut Trace) {
    let spans = Key::Str(trace.strings.intern("Spans"));
    let seven = Key::Str(trace.strings.intern("7"));
    for (pid, tid, kind) in [
        (Key::Int(7), Key::Int(7), TrackKind::Thread),
        (Key::Int(0), Key::Int(7), TrackKind::Stream),
        (spans, seven, TrackKind::Async),
        (Key::None, Key::None, TrackKind::Counter),
    ] {
        trace.tracks.track(pid, tid, kind);
    }
    trace.tracks.processes[0].name = trace.strings.intern("python");
    trace.tracks.processes[1].labels = trace.strings.intern("GPU 0");
    trace.tracks.processes[1].sort_index = Some(-5);
    trace.tracks.tracks[1].device = 0;
    trace.tracks.tracks[1].stream = 7;
    trace.tracks.tracks[0].name = trace.strings.intern("");
    trace.tracks.tracks[0].sort_index = Some(i64::MAX);
}

fn sample_events(trace: &mut Trace) {
    use EventKind as K;
    type Field = (&'static str, AttrType, u64);
    let text = |t: &mut Trace, s: &str| u64::from(t.strings.intern(s).0);
    let (dims, json) = (text(trace, "[[2, 3], []]"), text(trace, "{\"a\":1e400}"));
    let both: [Field; 2] = [("External id", AttrType::Int, 12), ("External id", AttrType::Int, 13)];
    type Row = (&'static str, &'static str, K, u32, i64, i64, Vec<Field>);
    let rows: Vec<Row> = vec![
        ("ProfilerStep#3", "user_annotation", K::Annotation, 0, 0, 1000, vec![]),
        ("aten::mm", "cpu_op", K::Operator, 0, 100, 500, vec![("Input Dims", AttrType::Json, dims)]),
        ("cudaLaunchKernel", "cuda_runtime", K::Runtime, 0, 200, 50, vec![("correlation", AttrType::Int, 9)]),
        (
            "gemm<float>",
            "kernel",
            K::Kernel,
            1,
            300,
            400,
            vec![
                ("correlation", AttrType::Int, 9),
                ("occupancy", AttrType::Float, 12.5f64.to_bits()),
                ("comm", AttrType::Uint, u64::MAX),
            ],
        ),
        (
            "gemm<float>",
            "kernel",
            K::Kernel,
            1,
            700,
            0,
            vec![
                ("correlation", AttrType::Int, (-1i64) as u64),
                ("occupancy", AttrType::Int, 0),
                ("weird", AttrType::Float, f64::NAN.to_bits()),
                ("zero", AttrType::Float, (-0.0f64).to_bits()),
            ],
        ),
        ("", "", K::Instant, 2, -40, 0, vec![("a", AttrType::Null, 0), ("b", AttrType::Bool, 1)]),
        ("backward", "cpu_op", K::Operator, 0, 700, 100, both.to_vec()),
        ("Memory", "counter", K::Counter, 3, 5, 0, vec![("json", AttrType::Json, json), ("A", AttrType::Str, json)]),
        ("naïve \u{1F680}\0", "x", K::Other, 2, i64::MAX - 10, 10, vec![("Input dims", AttrType::Str, 0)]),
    ];
    for (i, (name, category, kind, track, start, dur, fields)) in rows.into_iter().enumerate() {
        let category = if i == 7 { StrId::NONE } else { trace.strings.intern(category) };
        trace.events.push(NewEvent {
            start,
            dur,
            track: stackline_model::TrackId(track),
            name: trace.strings.intern(name),
            category,
            kind,
            phase: Phase::from_u8(i as u8 % 8).unwrap(),
            flags: if dur > 0 { flags::HAS_DURATION } else { flags::CLAMPED },
            source_index: 10 + 3 * i as u32,
        });
        let keys: Vec<_> = fields.iter().map(|f| (trace.strings.intern(f.0), f.1)).collect();
        let values: Vec<u64> = fields.iter().map(|f| f.2).collect();
        trace.attrs.push(&keys, &values);
    }
    trace.events.parent[1] = EventId(0);
    trace.events.parent[2] = EventId(1);
    trace.events.parent[6] = EventId(0);
}

fn sample_links(trace: &mut Trace) {
    let gpu = &mut trace.gpu;
    gpu.event = vec![EventId(3), EventId(4)];
    gpu.correlation = vec![9, -1];
    gpu.device = vec![0, -1];
    gpu.stream = vec![7, -1];
    gpu.launch = vec![EventId(2), EventId::NONE];
    gpu.operator = vec![EventId(1), EventId::NONE];
    gpu.python = vec![EventId::NONE; 2];
    gpu.module = vec![EventId::NONE; 2];
    gpu.annotation = vec![EventId::NONE, EventId(0)];
    gpu.step = vec![0, u32::MAX];
    trace.steps = vec![Step { number: 3, event: EventId(0), start: 0, end: 1000 }];
    let category = trace.strings.intern("ac2g");
    trace.links.set(LinkKind::Flow, [(EventId(2), EventId(3), category)]);
    trace.links.set(LinkKind::Backward, [(EventId(1), EventId(6), StrId::NONE)]);
    let [main, train] = ["main", "train"].map(|text| trace.strings.intern(text));
    let outer = trace.stacks.push(StackId::NONE, (main, StrId::NONE), &trace.strings);
    let inner = trace.stacks.push(outer, (train, main), &trace.strings);
    trace.stacks.event.push(EventId(5));
    trace.stacks.stack.push(inner);
}
