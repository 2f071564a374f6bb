//! Traces that HTA cannot analyze give a result or a clear reason (C14), the output has the same bytes for each
//! arrangement of the input (C15), and random traces agree with a search of all paths.

use crate::support::{mini, read, read_file, read_json};
use proptest::prelude::*;
use serde_json::{Value, json};
use stackline_critical_path::exact::{Exact, WindowChoice};
use stackline_critical_path::hta;
use stackline_critical_path::hta::{CriticalPath, CriticalPathReport, HtaOptions, OverlayMode};
use stackline_critical_path::{CriticalPathError, Edit, Instances, TrackKey, WarningCode};
use stackline_present::exports::overlay::write_overlay;
use stackline_testkit::corpus::{self, unpacked};
use stackline_testkit::mini::MiniTrace;

fn analyze(trace: &Value) -> Result<CriticalPath, CriticalPathError> {
    analyze_bytes(&serde_json::to_vec(trace).unwrap())
}

fn analyze_bytes(bytes: &[u8]) -> Result<CriticalPath, CriticalPathError> {
    hta::analyze(&read(bytes), &HtaOptions::default())
}

/// The event synchronization trace, from which every variant is made: its path weighs 2,411 µs over 40 nodes.
fn base() -> Option<Value> {
    Some(read_json(&corpus::folder()?.join("kineto/nvidia-a100-event-sync.json.gz")))
}

fn events(trace: &mut Value) -> &mut Vec<Value> {
    trace["traceEvents"].as_array_mut().unwrap()
}

fn weight(result: &Result<CriticalPath, CriticalPathError>) -> (usize, f64) {
    result.as_ref().map_or((0, 0.0), |cp| (cp.path.nodes.len(), cp.path.weight_us))
}

#[test]
fn other_event_forms_give_the_same_path() {
    let Some(base) = base() else { return };
    assert_eq!(weight(&analyze(&base)), (40, 2411.0));
    assert_eq!(weight(&analyze(&base["traceEvents"])), (40, 2411.0), "array without wrapper");
    let mut strings = base.clone();
    for event in events(&mut strings) {
        event["ts"] = json!(event["ts"].to_string());
    }
    assert_eq!(weight(&analyze(&strings)), (40, 2411.0), "time stamps as text");
    let mut pairs = base.clone();
    let ops = |e: &Value| e["ph"] == "X" && e["cat"] == "cpu_op";
    let list = std::mem::take(events(&mut pairs));
    for event in list {
        if !ops(&event) {
            events(&mut pairs).push(event);
            continue;
        }
        let (mut begin, mut end) = (event.clone(), event);
        begin["ph"] = "B".into();
        end["ph"] = "E".into();
        end["ts"] = json!(end["ts"].as_i64().unwrap() + end["dur"].as_i64().unwrap());
        for half in [&mut begin, &mut end] {
            half.as_object_mut().unwrap().remove("dur");
        }
        events(&mut pairs).extend([begin, end]);
    }
    assert_eq!(weight(&analyze(&pairs)), (40, 2411.0), "HTA silently loses begin and end pairs");
}

#[test]
fn incomplete_input_gives_a_partial_result() {
    let Some(base) = base() else { return };
    let bytes = serde_json::to_vec(&base).unwrap();
    let cut = analyze_bytes(&bytes[..bytes.len() * 3 / 4]);
    assert!(cut.is_ok() || matches!(cut, Err(CriticalPathError::EmptyGraph { .. })), "{cut:?}");
    let mut empty = base.clone();
    events(&mut empty).clear();
    assert_eq!(analyze(&empty).unwrap_err(), CriticalPathError::NoTimedEvents);
    let mut bare = base.clone();
    for event in events(&mut bare) {
        event.as_object_mut().unwrap().remove("args");
    }
    let cp = analyze(&bare).unwrap();
    assert!(cp.warnings.iter().any(|w| w.code == WarningCode::NoGpuWork), "no arguments: the host's path");
    let mut out = Vec::new();
    let text = serde_json::to_vec(&bare).unwrap();
    let summary = write_overlay(&text[..], &mut out, &cp.overlay(OverlayMode::default())).unwrap();
    assert_eq!(summary.marked as usize, cp.path_events().len(), "HTA fails on events without arguments");
}

#[test]
fn odd_records_give_a_result_with_a_warning() {
    let Some(base) = base() else { return };
    let mut unknown = base.clone();
    for event in events(&mut unknown).iter_mut().filter(|e| e["cat"] == "cuda_sync") {
        event["name"] = "Odd Sync".into();
    }
    let cp = analyze(&unknown).unwrap();
    assert!(cp.warnings.iter().any(|w| w.code == WarningCode::UnknownSync));
    let mut renamed = base.clone();
    for event in events(&mut renamed).iter_mut().filter(|e| e["name"] == "cudaLaunchKernel") {
        event["name"] = "cudaLaunchKernelNew".into();
    }
    assert_eq!(weight(&analyze(&renamed)), (28, 2480.0), "an unknown launch name: another path, as in HTA");
    let mut double = base.clone();
    let second = events(&mut double).iter().find(|e| e["cat"] == "kernel").unwrap().clone();
    events(&mut double).push(second);
    assert!(weight(&analyze(&double)).1 > 0.0, "two kernels on one correlation");
}

#[test]
fn deep_stacks_need_no_recursion() {
    let mut t = mini("");
    let depth = 200_000;
    for level in 0..depth {
        t.add(&format!("10/1 cpu_op f {level}..{}", 2 * depth - level));
    }
    let cp = hta::analyze(&read(t.json()), &HtaOptions::default()).unwrap();
    assert_eq!((cp.path.nodes.len(), cp.path.weight_us), (2 * depth as usize, 2.0 * depth as f64));
}

#[test]
fn shared_correlation_id_has_no_extra_cost() {
    let mut t = mini("");
    for i in 0..20_000 {
        t.add_at(i * 10, "10/1 cuda_runtime cudaLaunchKernel 0+5 correlation=0\ngpu0/7 kernel k 3+5 correlation=0");
    }
    let cp = hta::analyze(&read(t.json()), &HtaOptions::default()).unwrap();
    assert!(cp.warnings.iter().any(|w| w.code == WarningCode::UnevenQueue));
}

#[test]
fn unknown_annotations_get_suggestions() {
    let Some(corpus) = corpus::folder() else { return };
    let trace = read_file(&corpus.join("kineto/nvidia-a100-event-sync.json.gz"));
    let ask = |annotation: &str, instance| {
        let options = HtaOptions { annotation: annotation.into(), instance, ..HtaOptions::default() };
        hta::analyze(&trace, &options).unwrap_err().to_string()
    };
    let text = ask("ProfilrStep", None);
    assert!(
        text.starts_with("no event name contains 'ProfilrStep'; the most similar annotations are 'ProfilerStep#"),
        "{text}"
    );
    let text = ask("ProfilerStep", Some(Instances::One(7)));
    assert_eq!(text, "instance 7 of 'ProfilerStep' does not exist; the only instance has number 0");
    let t = mini("10/1  cpu_op  op  0+1");
    let options = HtaOptions { annotation: "x".into(), ..HtaOptions::default() };
    let text = hta::analyze(&read(t.json()), &options).unwrap_err().to_string();
    assert!(text.contains("the trace has no annotations"), "{text}");
}

#[test]
fn every_corpus_trace_gives_a_result_or_an_error() {
    if corpus::folder().is_none() {
        return;
    }
    let (mut paths, mut reasons) = (0, Vec::new());
    for file in corpus::files("kineto") {
        match hta::analyze(&read_file(&file), &HtaOptions::default()) {
            Ok(cp) => {
                paths += 1;
                assert!(cp.path.nodes.len() > 1 && cp.path.weight_us >= 0.0, "{}", file.display());
            }
            Err(e) => reasons.push(format!("{}: {e}", file.file_name().unwrap().display())),
        }
    }
    println!("{paths} paths; {reasons:?}");
    assert!(paths >= 41, "{reasons:?}");
}

/// Everything that anybody sees, as bytes.
fn bytes(cp: &CriticalPath) -> Vec<u8> {
    let mut out = serde_json::to_vec(&cp.report()).unwrap();
    cp.save(&mut out).unwrap();
    out
}

#[test]
fn output_is_independent_of_thread_count() {
    let Some(corpus) = corpus::folder() else { return };
    let file = unpacked(&corpus.join("kineto/nvidia-a100-ddp-nccl.json.gz"));
    let run = |threads| {
        let options = stackline_ingest::ReadOptions { threads, ..Default::default() };
        let trace = stackline_ingest::read_bytes("t", &file, &options).unwrap();
        bytes(&hta::analyze(&trace, &HtaOptions::default()).unwrap())
    };
    let one = run(1);
    assert!(run(2) == one && run(8) == one);
}

/// Parts that do not name positions in the file.
fn seen(cp: &CriticalPath) -> impl PartialEq + std::fmt::Debug + use<> {
    let r = cp.report();
    let path: Vec<_> = r.path.into_iter().map(|p| (p.at.into_owned(), p.time_ns, p.track.into_owned())).collect();
    (r.edges, r.bound_by_us, path)
}

#[test]
fn result_is_independent_of_event_order() {
    let Some(corpus) = corpus::folder() else { return };
    for name in ["event-sync", "event-sync-multi-stream", "alexnet-cuda-sync", "simple-add-cuda-sync"] {
        let base = read_json(&corpus.join(format!("kineto/nvidia-a100-{name}.json.gz")));
        let expected = seen(&analyze(&base).unwrap());
        let mut reversed = base.clone();
        events(&mut reversed).reverse();
        assert_eq!(seen(&analyze(&reversed).unwrap()), expected, "{name} reversed");
        let mut shuffled = base.clone();
        events(&mut shuffled).sort_by_cached_key(|e| {
            let text = e.to_string();
            text.bytes().fold(7u64, |h, b| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3))
        });
        assert_eq!(seen(&analyze(&shuffled).unwrap()), expected, "{name} shuffled");
    }
}

#[test]
fn positions_count_records_of_any_kind() {
    let text = br#"{"traceEvents": [null, 7, {"ph":"M","name":"x"}, {"ph":"X","cat":"cpu_op","name":"a","pid":1,"tid":1,"ts":0,"dur":5}]}"#;
    let cp = analyze_bytes(text).unwrap();
    let marks = cp.overlay(OverlayMode::default()).critical;
    assert_eq!(marks.iter().map(|m| m.index).collect::<Vec<_>>(), [3]);
}

/// Check C10: HTA's own expected file, event by event.
#[test]
fn the_overlay_equals_the_file_that_hta_tests_against() {
    let Some(corpus) = corpus::folder() else { return };
    let source = corpus.join("kineto/nvidia-a100-simple-add-cuda-sync.json.gz");
    let expected = read_json(&corpus.join("kineto/nvidia-a100-simple-add-overlaid-expected.json.gz"));
    let options = HtaOptions { data_load_events: vec!["data_load".into()], ..HtaOptions::default() };
    let cp = hta::analyze(&read_file(&source), &options).unwrap();
    let mut out = Vec::new();
    let summary = write_overlay(&unpacked(&source)[..], &mut out, &cp.overlay(OverlayMode::default())).unwrap();
    assert_eq!((summary.marked, summary.flow_events), (624, 384));
    let ours: Value = serde_json::from_slice(&out).unwrap();
    let (ours, theirs) = (ours["traceEvents"].as_array().unwrap(), expected["traceEvents"].as_array().unwrap());
    let originals = summary.events as usize;
    assert_eq!(ours.len(), theirs.len());
    assert!(ours[..originals] == theirs[..originals], "marks differ");
    // HTA walks a set: the same arrows in another order, so without their running numbers.
    let arrows = |list: &[Value]| {
        let mut texts: Vec<String> = list
            .iter()
            .map(|e| {
                [&e["ph"], &e["pid"], &e["tid"], &e["ts"], &e["args"]["weight"], &e["args"]["critical"]]
                    .map(Value::to_string)
                    .join(" ")
            })
            .collect();
        texts.sort();
        texts
    };
    assert_eq!(arrows(&ours[originals..]), arrows(&theirs[originals..]));
}

#[test]
fn the_report_has_a_fixed_form() {
    let t = mini(
        "10/1    user_annotation  step                               0+400
         10/1    cpu_op           aten::mm                           5+50
         10/1    cuda_runtime     cudaLaunchKernel                   10+10   correlation=1
         gpu0/7  kernel           sgemm                              30+100  correlation=1
         10/1    cuda_runtime     cudaLaunchKernel                   60+10   correlation=2
         gpu0/7  kernel           ncclDevKernel_AllReduce(ncclArgs)  140+60  correlation=2",
    );
    let options = HtaOptions { annotation: "step".into(), ..HtaOptions::default() };
    let cp = hta::analyze(&read(t.json()), &options).unwrap();
    let report = cp.report();
    insta::assert_json_snapshot!("critical_path_report", report);
    let text = serde_json::to_string(&report).unwrap();
    assert_eq!(serde_json::from_str::<CriticalPathReport>(&text).unwrap(), report);
}

#[test]
fn damaged_saves_are_refused() {
    let t = mini(
        "10/1  cpu_op  a  0+10
         10/1  cpu_op  b  20+10",
    );
    let mut file = Vec::new();
    hta::analyze(&read(t.json()), &HtaOptions::default()).unwrap().save(&mut file).unwrap();
    let good: Value = serde_json::from_slice(&file).unwrap();
    assert!(CriticalPath::restore(&file[..]).is_ok());
    let damage: [(&str, Value); 9] = [
        ("/format", json!("other")),
        ("/version", json!(2)),
        ("/nodes/event/0", json!(99)),
        ("/nodes/is_start", json!([true])),
        ("/edges/to/0", json!(99)),
        ("/edges/attributed/0", json!(7)),
        ("/edges/weight_us", json!([])),
        ("/path/edges/0", json!(1)),
        ("/events/name/0", json!(4)),
    ];
    for (place, value) in damage {
        let mut bad = good.clone();
        *bad.pointer_mut(place).unwrap() = value;
        let error = CriticalPath::restore(&serde_json::to_vec(&bad).unwrap()[..]).unwrap_err();
        assert!(error.to_string().starts_with("invalid saved critical path"), "{place}: {error}");
    }
    assert!(CriticalPath::restore(&file[..file.len() / 2]).is_err());
}

/// Weight of the heaviest path, by relaxing all edges until nothing changes.
fn heaviest(cp: &CriticalPath) -> f64 {
    let mut best = vec![0f64; cp.graph.nodes.len()];
    for _ in 0..=cp.graph.nodes.len() {
        for e in &cp.graph.edges {
            best[e.to as usize] = best[e.to as usize].max(best[e.from as usize] + e.search_weight_us());
        }
    }
    best.into_iter().fold(0.0, f64::max)
}

const NAMES: [&str; 12] = [
    "cudaLaunchKernel",
    "cudaMemcpyAsync",
    "cudaHostAlloc",
    "cudaDeviceSynchronize",
    "cudaEventRecord",
    "cudaStreamWaitEvent",
    "cudaEventSynchronize",
    "aten::mm forward",
    "autograd::engine",
    "ProfilerStep#1",
    "ProfilerStep#2",
    "kernel",
];
const SYNCS: [&str; 5] = ["Event Sync", "Context Sync", "Stream Sync", "Stream Wait Event", "Other Sync"];
const CATEGORIES: [&str; 6] = ["cpu_op", "cuda_runtime", "kernel", "cuda_sync", "user_annotation", "python_function"];

prop_compose! {
    fn random_event()(
        category in 0..CATEGORIES.len(), name in 0..NAMES.len(), sync in 0..SYNCS.len(), place in (0i64..2, 0i64..3),
        time in (0i64..60, -2i64..30), half in any::<bool>(), stream in -1i64..3, correlation in -1i64..8,
        record in (-1i64..8, -1i64..3), far_index in prop_oneof![30 => Just(0usize), 1 => 1usize..5],
    ) -> Value {
        let category = CATEGORIES[category];
        let on_gpu = category == "kernel" || category == "cuda_sync";
        let name = if category == "cuda_sync" { SYNCS[sync] } else { NAMES[name] };
        let mut args = json!({ "correlation": correlation });
        if on_gpu {
            args["stream"] = stream.into();
        }
        if category == "cuda_sync" {
            args["wait_on_cuda_event_record_corr_id"] = record.0.into();
            args["wait_on_stream"] = record.1.into();
        }
        let tid = if on_gpu { stream } else { place.1 };
        let far = [0, 1 << 50, -(1 << 50), i64::MAX / 1_000, i64::MIN / 1_000];
        let time = (time.0 + far[far_index], time.1);
        let ts = if half { json!(time.0 as f64 + 0.5) } else { json!(time.0) };
        json!({ "ph": "X", "cat": category, "name": name, "pid": place.0, "tid": tid, "ts": ts, "dur": time.1, "args": args })
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn random_traces_never_panic_and_give_the_heaviest_path(
        list in proptest::collection::vec(random_event(), 0..40), zero in any::<bool>(), last in any::<bool>(),
        annotation in prop_oneof![Just(""), Just("Step"), Just("kernel")],
    ) {
        let text = serde_json::to_vec(&json!({ "traceEvents": list })).unwrap();
        let options = HtaOptions {
            annotation: annotation.to_owned(),
            zero_weight_launch_edges: zero,
            include_last_profiler_step: last,
            ..HtaOptions::default()
        };
        let Ok(cp) = hta::analyze(&read(&text), &options) else { return Ok(()) };
        prop_assert_eq!(cp.path.weight_us, heaviest(&cp));
        let along: f64 = cp.path_edges().map(|e| e.search_weight_us()).sum();
        prop_assert_eq!(along, cp.path.weight_us);
        for (pair, edge) in cp.path.nodes.windows(2).zip(cp.path_edges()) {
            prop_assert_eq!((pair[0], pair[1]), (edge.from, edge.to));
        }
        let edited = cp.apply(&[Edit::parse("gpu=x0.25").unwrap(), Edit::parse("gap=-50%").unwrap()]);
        prop_assert_eq!(edited.path.weight_us, heaviest(&edited));
        let sum: f64 = edited.breakdown().bound_by.iter().map(|s| s.weight_us).sum();
        prop_assert!((sum - edited.path.weight_us).abs() < 1e-9);
        let mut file = Vec::new();
        cp.save(&mut file).unwrap();
        prop_assert_eq!(CriticalPath::restore(&file[..]).unwrap(), cp.clone());
        for (only_critical, all_edges) in [(false, false), (true, false), (false, true)] {
            let mut out = Vec::new();
            let overlay = cp.overlay(OverlayMode { only_critical, all_edges });
            let summary = write_overlay(&text[..], &mut out, &overlay).unwrap();
            prop_assert_eq!(summary.marked as usize, overlay.critical.len());
            prop_assert!(serde_json::from_slice::<Value>(&out).is_ok());
        }
    }
}

/// Marks are found, and arrows drawn, where the file has a device whose clock was off: in the file's own time.
#[test]
fn overlay_uses_the_times_of_the_file() {
    const OFF_US: i64 = -9_000;
    let mut list = MiniTrace::new("1/1 user_annotation ProfilerStep#1 9990+900");
    for n in 1..=6i64 {
        let events = format!(
            "1/1     cpu_op        aten::mm          0+30
             1/1     cuda_runtime  cudaLaunchKernel  5+10                correlation={n}
             gpu0/7  kernel        gemm              {}+99  correlation={n}",
            20 + OFF_US
        );
        list.add_at(9_900 + n * 100, &events);
    }
    list.add("1/1 cuda_runtime cudaDeviceSynchronize 10540+100 correlation=9");
    let text = list.json();
    let trace = read(&text);
    assert_eq!(trace.meta.clocks.iter().filter(|clock| clock.applied_ns > 1_000_000).count(), 1, "{:?}", trace.meta);
    let cp = hta::analyze(&trace, &HtaOptions::default()).unwrap();
    let mut saved = Vec::new();
    cp.save(&mut saved).unwrap();
    let exact = Exact::new(&trace);
    let overlays = [
        cp.overlay(OverlayMode::default()),
        CriticalPath::restore(&saved[..]).unwrap().overlay(OverlayMode::default()),
        exact.overlay(&exact.path(&WindowChoice::default()).unwrap(), false),
    ];
    for overlay in overlays {
        let on_device: Vec<i64> =
            overlay.flows.iter().filter(|flow| flow.to.tid == TrackKey::Number(7)).map(|flow| flow.to.ts_us).collect();
        assert!(!on_device.is_empty());
        assert!(on_device.iter().all(|ts_us| (1_000..2_000).contains(ts_us)), "{on_device:?}");
        let summary = write_overlay(text.as_bytes(), &mut Vec::new(), &overlay).unwrap();
        assert_eq!(summary.marked as usize, overlay.critical.len());
    }
}
