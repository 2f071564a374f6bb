//! The figures of the CTDA-CPA paper as small traces, and odd inputs. Times are in µs.

use crate::critical_path_support;

use critical_path_support::{Mini, read_trace_bytes};
use serde_json::{Value, json};
use stackline_analyze::critical_path::ctda::{self, CtdaEdgeKind, CtdaOptions, CtdaPath, Phase, PhaseRules};
use stackline_analyze::critical_path::hta::{self, HtaOptions};
use stackline_analyze::critical_path::{CriticalPathError, Edit, WarningCode};

fn analyze(t: &Mini) -> CtdaPath {
    ctda::analyze(&t.trace(), &CtdaOptions::default()).unwrap()
}

/// Names on the path in order, each with its effective time in µs; neighbours of one name are one.
fn path(cp: &CtdaPath) -> Vec<(String, i64)> {
    let mut names: Vec<(String, i64)> = Vec::new();
    for (_, piece) in cp.path_pieces() {
        let (name, us) = (cp.events.name(piece.event), (piece.end_ns - piece.start_ns) / 1000);
        match names.last_mut().filter(|last| last.0 == name) {
            Some(last) => last.1 += us,
            None => names.push((name.to_owned(), us)),
        }
    }
    names
}

fn named(list: &[(&str, i64)]) -> Vec<(String, i64)> {
    list.iter().map(|&(name, us)| (name.to_owned(), us)).collect()
}

/// Figure 1: the main thread runs A, B and E, the autograd thread C and D, the stream a to d.
fn figure_1() -> Mini {
    let mut t = Mini::default();
    t.op("A", 1, 0, 100);
    t.call("cudaLaunchKernel", 1, 90, 5, 1);
    t.kernel("a", 7, 100, 30, 1);
    t.op("B", 1, 100, 100);
    t.call("cudaLaunchKernel", 1, 190, 5, 2);
    t.kernel("b", 7, 200, 30, 2);
    for (name, start, correlation) in [("CBackward0", 200, 3), ("DBackward0", 300, 4)] {
        t.op(name, 2, start, 100);
        t.call("cudaLaunchKernel", 2, start + 90, 5, correlation);
        t.kernel("c", 7, start + 100, 30, correlation);
    }
    t.push("user_annotation", "Optimizer.step#SGD.step", (10, 1), (400, 100), json!({}));
    t.op("E", 1, 400, 100);
    t
}

#[test]
fn figure_1_the_path_goes_through_both_threads() {
    let t = figure_1();
    let cp = analyze(&t);
    let names: Vec<String> = path(&cp).into_iter().map(|p| p.0).filter(|n| n != "cudaLaunchKernel").collect();
    assert_eq!(dedup(names), ["A", "B", "CBackward0", "DBackward0", "E"]);
    assert_eq!(cp.cpcr(), 1.0);
    assert_eq!(cp.steps.iter().filter(|s| s.via == Some(CtdaEdgeKind::CrossThread)).count(), 2, "B to C, D to E");
    let hta = hta::analyze(&t.trace(), &HtaOptions::default()).unwrap();
    assert!((hta.path.weight_us * 1e3 / hta.window_ns() as f64) < 0.7, "HTA's path breaks between the threads");
}

/// Names without repetition of neighbours.
fn dedup(mut names: Vec<String>) -> Vec<String> {
    names.dedup();
    names
}

#[test]
fn figure_3_a_long_kernel_behind_host_work_is_no_hotspot() {
    let mut t = Mini::default();
    for (i, name) in ["Op A", "Op B", "Op C", "Op D", "Op E"].into_iter().enumerate() {
        t.op(name, 1, 100 * i as i64, 100);
    }
    t.call("cudaLaunchKernel", 1, 110, 5, 1);
    t.kernel("Kernel B", 7, 120, 300, 1);
    let cp = analyze(&t);
    assert!(cp.hotspots().iter().all(|h| h.name != "Kernel B"), "its time is hidden by the host");
    assert_eq!((cp.executed_ns(), cp.cpcr()), (500_000, 1.0));
}

#[test]
fn figure_5_streams_phases_and_synchronisations_cut_nodes() {
    let mut t = Mini::default();
    t.push("user_annotation", "forward", (10, 1), (0, 300), json!({}));
    t.op("f1", 1, 0, 100);
    t.call("cudaLaunchKernel", 1, 10, 5, 1);
    t.kernel("k1", 7, 20, 200, 1);
    t.op("f2", 1, 100, 100);
    t.call("cudaLaunchKernel", 1, 110, 5, 2);
    t.kernel("k2", 7, 220, 80, 2);
    t.op("f3", 1, 200, 100);
    t.call("cudaLaunchKernel", 1, 210, 5, 3);
    t.kernel("k3", 8, 220, 90, 3);
    t.call("cudaDeviceSynchronize", 1, 300, 20, 9);
    t.op("tail", 1, 320, 30);
    let cp = analyze(&t);
    let cpu: Vec<Phase> = cp.graph.nodes.iter().filter(|n| !n.is_gpu).map(|n| n.phase).collect();
    assert_eq!(
        cpu,
        [Phase::Forward, Phase::Forward, Phase::Other],
        "cut where the stream changes, and before the sync"
    );
    let gpu: Vec<i64> = cp.graph.nodes.iter().filter(|n| n.is_gpu).map(|n| n.end_ns - n.start_ns).collect();
    assert_eq!(gpu, [280_000, 90_000], "one GPU node per launching node");
    let edges = cp.graph.edges_by_kind().map(|e| e.1);
    assert_eq!(edges, [2, 2, 2, 0], "sequence, call, synchronisation with both streams");
    // k3 ended last before the synchronisation returned; the path goes there, and from there to its launch.
    let expected = [("f1", 10), ("cudaLaunchKernel", 5), ("f1", 85), ("f2", 10), ("cudaLaunchKernel", 5), ("f2", 85)];
    let expected = [
        &expected[..],
        &[("f3", 10), ("cudaLaunchKernel", 5), ("k3", 90), ("cudaDeviceSynchronize", 10), ("tail", 30)],
    ];
    assert_eq!(path(&cp), named(&expected.concat()));
}

/// Figure 6: A, B and D on stream 1, C on stream 2; B runs longer than C, C ends later.
#[test]
fn figure_6_the_later_end_decides_and_not_the_longer_time() {
    let mut t = Mini::default();
    t.call("cudaLaunchKernel", 1, 0, 5, 1);
    t.call("cudaEventRecord", 1, 6, 2, 2);
    t.call("cudaLaunchKernel", 1, 10, 5, 3);
    t.call("cudaStreamWaitEvent", 1, 18, 2, 4);
    t.call("cudaLaunchKernel", 1, 22, 5, 5);
    t.call("cudaEventRecord", 1, 30, 2, 6);
    t.call("cudaStreamWaitEvent", 1, 34, 2, 7);
    t.call("cudaLaunchKernel", 1, 38, 5, 8);
    t.kernel("A", 1, 50, 50, 1);
    t.kernel("B", 1, 100, 100, 3);
    t.kernel("C", 2, 140, 80, 5);
    t.kernel("D", 1, 220, 50, 8);
    t.sync("Stream Wait Event", 2, 20, 1, 4, Some((2, 1)));
    t.sync("Stream Wait Event", 1, 36, 1, 7, Some((6, 2)));
    let cp = analyze(&t);
    assert_eq!(path(&cp), named(&[("cudaLaunchKernel", 5), ("A", 50), ("C", 80), ("D", 50)]));
    assert!(cp.warnings.is_empty(), "{:?}", cp.warnings);
}

#[test]
fn figure_7_only_the_time_until_the_first_launch_counts() {
    let mut t = Mini::default();
    t.op("Op A", 1, 0, 20);
    t.op("Op B", 1, 20, 20);
    t.call("cudaLaunchKernel", 1, 40, 10, 1);
    t.op("Op C", 1, 50, 30);
    t.op("Op D", 1, 80, 20);
    t.kernel("Kernel", 7, 50, 200, 1);
    let cp = analyze(&t);
    assert_eq!(path(&cp), named(&[("Op A", 20), ("Op B", 20), ("cudaLaunchKernel", 10), ("Kernel", 200)]));
    let first = &cp.hotspots()[0];
    assert_eq!((first.name.as_str(), first.category.as_str(), first.duration_ns), ("Kernel", "kernel", 200_000));
    assert_eq!((first.proportion, first.prop_in_total), (80.0, 80.0));
}

#[test]
fn without_the_interpreters_lock_threads_are_on_their_own() {
    let mut trace: Value = serde_json::from_slice(&figure_1().json()).unwrap();
    trace["python_gil_enabled"] = false.into();
    let trace = read_trace_bytes(&serde_json::to_vec(&trace).unwrap());
    let cp = ctda::analyze(&trace, &CtdaOptions::default()).unwrap();
    assert_eq!(cp.graph.edges_by_kind()[3].1, 0);
    assert!(cp.warnings.iter().any(|w| w.code == WarningCode::NoInterpreterLock));
}

#[test]
fn own_rules_name_phases() {
    let mut t = Mini::default();
    t.op("read_batch", 1, 0, 100);
    t.op("compute", 1, 100, 100);
    let phases = |rules: &str| {
        let phase_rules = Some(PhaseRules::extended_by(rules).unwrap());
        let cp = ctda::analyze(&t.trace(), &CtdaOptions { phase_rules, ..CtdaOptions::default() }).unwrap();
        cp.phases().map(|p| p.1 / 1000)
    };
    assert_eq!(phases("{}"), [0, 0, 0, 0, 0, 0, 200], "never guessed");
    let rules = r#"{"rules":[{"phase":"data_load","name":"read_*"},{"phase":"forward","kinds":["operator"],"name":"compute"}]}"#;
    assert_eq!(phases(rules), [100, 100, 0, 0, 0, 0, 0]);
}

/// Lightning has the optimizer's step call forward and backward: they are no part of the optimizer.
#[test]
fn spans_of_lightning_name_phases() {
    let mut t = Mini::default();
    let mut span = |name: &str, start: i64, dur: i64| {
        t.push("user_annotation", name, (10, 1), (start, dur), json!({}));
        t.op("work", 1, start + 5, 90);
    };
    span("[pl][profile][_TrainingEpochLoop].train_dataloader_next", 0, 100);
    span("Optimizer.step#Adam.step", 100, 600);
    span("[pl][profile][Strategy]SingleDeviceStrategy.training_step", 210, 200);
    span("[pl][profile][Strategy]SingleDeviceStrategy.backward", 420, 200);
    let phases = analyze(&t).phases();
    let of = |wanted: Phase| phases.iter().find(|(phase, _)| *phase == wanted).map_or(0, |(_, ns)| ns / 1000);
    let [data, forward, backward, update] = [Phase::DataLoad, Phase::Forward, Phase::Backward, Phase::Update].map(of);
    assert!(data >= 90 && forward >= 90 && backward >= 90 && update >= 90, "{phases:?}");
}

#[test]
fn what_if_without_edits_changes_nothing_and_edits_move_the_path() {
    let mut t = Mini::default();
    t.op("prepare", 1, 0, 100);
    t.call("cudaLaunchKernel", 1, 100, 10, 1);
    t.kernel("gemm", 7, 120, 300, 1);
    t.op("host", 1, 110, 200);
    t.call("cudaDeviceSynchronize", 1, 310, 120, 2);
    t.op("end", 1, 430, 20);
    let cp = analyze(&t);
    assert_eq!(cp.apply(&[]), cp);
    let window = |edit: &str| cp.apply(&[Edit::parse(edit).unwrap()]).window_ns() / 1000;
    assert_eq!(window("gpu:gemm=x0.5"), 450 - 110, "until the host is what it waits for");
    assert_eq!(window("cpu:prepare=0"), 450 - 100);
    assert_eq!(window("launch=0"), 450 - 10);
    assert_eq!(window("cpu:host=0"), 450, "hidden behind the kernel");
    assert_eq!(window("gpu=x2"), 450 + 300);
}

#[test]
fn odd_inputs_give_a_result_or_a_reason() {
    let mut one = Mini::default();
    one.op("alone", 1, 5, 10);
    let cp = analyze(&one);
    assert_eq!((path(&cp), cp.cpcr()), (named(&[("alone", 10)]), 1.0));
    assert!(cp.warnings.iter().any(|w| w.code == WarningCode::NoGpuWork));
    let window = |annotation: &str| {
        let options = CtdaOptions { annotation: annotation.to_owned(), ..CtdaOptions::default() };
        ctda::analyze(&one.trace(), &options)
    };
    assert!(matches!(window("alne"), Err(CriticalPathError::AnnotationNotFound { .. })));
    let mut zero = Mini::default();
    zero.op("nothing", 1, 5, 0);
    assert!(matches!(ctda::analyze(&zero.trace(), &CtdaOptions::default()), Err(CriticalPathError::EmptyGraph { .. })));
    let mut odd = Mini::default();
    odd.op("a", 1, 0, 50);
    odd.op("crosses", 1, 25, 50);
    odd.call("cudaLaunchKernel", 1, 60, 5, 1);
    odd.push("kernel", "no stream", (0, 0), (70, 30), json!({ "correlation": 1 }));
    odd.kernel("before its launch", 7, 10, 10, 2);
    odd.call("cudaLaunchKernel", 1, 70, 3, 2);
    odd.kernel("overlaps", 7, 15, 100, 3);
    odd.call("cudaStreamSynchronize", 1, 75, 50, 4);
    let cp = analyze(&odd);
    assert!(!cp.steps.is_empty() && cp.cpcr() <= 1.0, "{:?}", cp.steps);
}

#[test]
fn deep_stacks_need_no_recursion() {
    let mut t = Mini::default();
    for depth in 0..2000 {
        t.push("python_function", &format!("f{depth}"), (10, 1), (depth, 10_000 - 2 * depth), json!({}));
    }
    t.op("deep", 1, 2100, 3000);
    let cp = analyze(&t);
    let spots: Vec<(String, i64)> = cp.hotspots().into_iter().map(|h| (h.name, h.duration_ns / 1000)).collect();
    // Each frame has 2 µs of its own; they count for the outermost one.
    assert_eq!(spots, named(&[("f0", 3998), ("f1999", 3002), ("deep", 3000)]));
}

/// Spans of equal time in any order of the file give the same path.
#[test]
fn the_order_of_equal_events_in_the_file_does_not_matter() {
    let base: Value = serde_json::from_slice(&figure_1().json()).unwrap();
    let events = base["traceEvents"].as_array().unwrap();
    let shown = |events: Vec<Value>| {
        let bytes = serde_json::to_vec(&json!({ "traceEvents": events })).unwrap();
        let cp = ctda::analyze(&read_trace_bytes(&bytes), &CtdaOptions::default()).unwrap();
        (path(&cp), cp.report().hotspots, cp.report().path)
    };
    let expected = shown(events.clone());
    assert_eq!(shown(events.iter().rev().cloned().collect()), expected);
    for turn in 1..events.len() {
        let mut turned = events.clone();
        turned.rotate_left(turn);
        assert_eq!(shown(turned), expected, "rotated by {turn}");
    }
}

/// Ranks that share a file number their calls alike.
#[test]
fn synchronisation_records_count_for_the_process_of_their_call() {
    let mut t = Mini::default();
    for (pid, device, stream, at, name) in [(10, 0, 7, 0, "first"), (20, 1, 9, 1000, "second")] {
        let mut host = |cat: &str, name: &str, start: i64, dur: i64, args: Value| {
            t.push(cat, name, (pid, 1), (at + start, dur), args);
        };
        host("user_annotation", name, 0, 200, json!({}));
        host("cuda_runtime", "cudaLaunchKernel", 0, 5, json!({ "correlation": 1 }));
        host("cuda_runtime", "cudaEventRecord", 10, 2, json!({ "correlation": 2 }));
        host("cuda_runtime", "cudaEventSynchronize", 20, 100, json!({ "correlation": 3 }));
        host("cpu_op", "after", 130, 60, json!({}));
        let mut gpu = json!({ "stream": stream, "device": device, "correlation": 1 });
        t.push("kernel", name, (device, stream), (at + 10, 100), gpu.clone());
        gpu["correlation"] = 3.into();
        gpu["wait_on_stream"] = stream.into();
        gpu["wait_on_cuda_event_record_corr_id"] = 2.into();
        t.push("cuda_sync", "Event Sync", (device, stream), (at + 22, 90), gpu);
    }
    for name in ["first", "second"] {
        let options = CtdaOptions { annotation: name.to_owned(), ..CtdaOptions::default() };
        let cp = ctda::analyze(&t.trace(), &options).unwrap();
        assert!(path(&cp).contains(&(name.to_owned(), 100)), "{name}: {:?}", path(&cp));
        assert_eq!(cp.warnings, [], "{name}");
    }
}

/// Of many streams only those whose work ended last are looked at where no record says what a wait is about.
#[test]
fn waits_without_records_find_their_stream_among_many() {
    let mut t = Mini::default();
    for stream in 0..200 {
        t.call("cudaLaunchKernel", 1, 2 * stream, 1, stream + 1);
        t.kernel(&format!("k{stream}"), stream, 1000, stream + 1, stream + 1);
    }
    t.call("cudaEventSynchronize", 1, 500, 655, 900);
    t.op("after", 1, 1160, 500);
    let cp = analyze(&t);
    assert!(path(&cp).contains(&("k154".to_owned(), 155)), "{:?}", path(&cp));
    // A later synchronisation of the device does not ask again for what an earlier one waited for.
    let mut t = Mini::default();
    for stream in 0..3 {
        t.call("cudaLaunchKernel", 1, 2 * stream, 1, stream + 1);
        t.kernel(&format!("k{stream}"), stream, 10, 50 + stream, stream + 1);
    }
    for sync in 0..3 {
        t.call("cudaDeviceSynchronize", 1, 30 + 100 * sync, 60, 900 + sync);
        t.op("between", 1, 91 + 100 * sync, 30);
    }
    let cp = analyze(&t);
    let syncs = cp.graph.edges.iter().filter(|e| e.kind == CtdaEdgeKind::Sync).count();
    assert_eq!((syncs, path(&cp).contains(&("k2".to_owned(), 52))), (6, true), "{:?}", path(&cp));
}
