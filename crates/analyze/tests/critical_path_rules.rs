//! Each rule of method "hta" on a trace of a few events, and the pins of the specification (C5 to C8).

use crate::critical_path_support;

use critical_path_support::{Mini, corpus, read_trace};
use serde_json::json;
use stackline_analyze::critical_path::hta::{self, HtaOptions, Instances};
use stackline_analyze::critical_path::{CriticalPath, EdgeKind, NO_EVENT, WarningCode};
use stackline_analyze::hta_view::{HtaView, NO_ROW};

fn whole(mini: &Mini) -> CriticalPath {
    hta::analyze(&mini.trace(), &HtaOptions::default()).unwrap()
}

/// An edge as "event, start or end → event, start or end, kind, weight, charged to".
type Plain = (u32, char, u32, char, EdgeKind, f64, Option<u32>);

fn edges(cp: &CriticalPath) -> Vec<Plain> {
    let point = |n: u32| {
        let event = cp.graph.nodes.event[n as usize];
        (cp.events.index[event as usize], if cp.graph.nodes.is_start[n as usize] { 's' } else { 'e' })
    };
    let plain = |e: &stackline_analyze::critical_path::Edge| {
        let ((a, x), (b, y)) = (point(e.from), point(e.to));
        let charged = (e.attributed != NO_EVENT).then(|| cp.events.index[e.attributed as usize]);
        (a, x, b, y, e.kind, e.weight_us, charged)
    };
    cp.graph.edges.iter().map(plain).collect()
}

fn edges_of(cp: &CriticalPath, kind: EdgeKind) -> Vec<(u32, char, u32, char, f64)> {
    edges(cp).into_iter().filter(|e| e.4 == kind).map(|e| (e.0, e.1, e.2, e.3, e.5)).collect()
}

fn warned(cp: &CriticalPath, code: WarningCode) -> u64 {
    cp.warnings.iter().find(|w| w.code == code).map_or(0, |w| w.count)
}

use EdgeKind::{
    Dependency as D, KernelKernelDelay as G, KernelLaunchDelay as L, OperatorKernel as O, SyncDependency as S,
};

#[test]
fn nested_operators_are_charged_to_the_innermost() {
    let mut t = Mini::default();
    let a = t.op("A", 1, 0, 100);
    let b = t.op("B", 1, 10, 20);
    let note = t.push("user_annotation", "note", (10, 1), (40, 50), json!({}));
    let c = t.op("C", 1, 50, 30);
    let d = t.op("D", 1, 120, 10);
    let expected: Vec<Plain> = vec![
        (a, 's', b, 's', O, 10.0, Some(a)),
        (b, 's', b, 'e', O, 20.0, Some(b)),
        (b, 'e', c, 's', O, 20.0, Some(a)),
        (c, 's', c, 'e', O, 30.0, Some(c)),
        (c, 'e', a, 'e', O, 20.0, Some(a)),
        (a, 'e', d, 's', D, 0.0, None),
        (d, 's', d, 'e', O, 10.0, Some(d)),
    ];
    let cp = whole(&t);
    assert_eq!(edges(&cp), expected);
    assert_eq!(cp.path.weight_us, 110.0, "the gap between top-level operators is free");
    assert!(!cp.events.index.contains(&note), "an annotation is no node, and nothing was charged to it");
    assert_eq!(warned(&cp, WarningCode::NoGpuWork), 1);
}

#[test]
fn time_between_children_of_an_annotation_is_charged_to_it() {
    let mut t = Mini::default();
    t.op("A", 1, 0, 100);
    let note = t.push("python_function", "f.py(1): f", (10, 1), (5, 90), json!({}));
    let b = t.op("B", 1, 10, 20);
    let c = t.op("C", 1, 50, 30);
    assert!(edges(&whole(&t)).contains(&(b, 'e', c, 's', O, 20.0, Some(note))));
}

#[test]
fn ends_pop_whatever_is_on_top() {
    // B begins inside A and ends after it: A's end takes B off the stack, so that C becomes a child of A.
    let mut t = Mini::default();
    let a = t.op("A", 1, 0, 50);
    let b = t.op("B", 1, 40, 30);
    let c = t.op("C", 1, 60, 5);
    let cp = whole(&t);
    let expected: Vec<Plain> = vec![
        (a, 's', b, 's', O, 40.0, Some(a)),
        (b, 's', b, 'e', O, 30.0, Some(b)),
        (b, 'e', c, 's', O, -10.0, Some(a)),
        (c, 's', c, 'e', O, 5.0, Some(c)),
        (c, 'e', a, 'e', O, -15.0, Some(a)),
    ];
    assert_eq!(edges(&cp), expected);
    assert_eq!((cp.path.weight_us, warned(&cp, WarningCode::NegativeWeight)), (75.0, 2));
}

#[test]
fn blocking_calls_weigh_nothing_on_exit() {
    let mut t = Mini::default();
    let sync = t.call("cudaDeviceSynchronize", 1, 0, 500, -1);
    let other = t.call("cudaMalloc", 1, 600, 500, -1);
    let found = edges(&whole(&t));
    assert!(found.contains(&(sync, 's', sync, 'e', O, 0.0, Some(sync))));
    assert!(found.contains(&(other, 's', other, 'e', O, 500.0, Some(other))));
}

#[test]
fn the_lock_goes_to_the_call_that_ends_first() {
    let mut t = Mini::default();
    let a = t.call("cudaHostAlloc", 1, 20, 60, 1);
    let c = t.call("cudaHostAlloc", 2, 10, 40, 2);
    let g = t.call("cudaLaunchKernel", 3, 15, 75, 3);
    let i = t.call("cudaLaunchKernel", 3, 100, 10, 4);
    let cp = whole(&t);
    let expected: Vec<Plain> = vec![
        (a, 's', c, 'e', D, 0.0, None),
        (g, 's', c, 'e', D, 0.0, None),
        (c, 's', c, 'e', O, 40.0, Some(c)),
        (c, 'e', a, 'e', D, 0.0, None),
        (a, 'e', g, 'e', D, 0.0, None),
        (i, 's', i, 'e', O, 10.0, Some(i)),
        (g, 'e', i, 's', D, 0.0, None),
    ];
    assert_eq!(edges(&cp), expected, "starts that another end took off never get their own timed edge");
}

#[test]
fn first_kernel_waits_for_its_launch_and_the_next_for_the_kernel() {
    let mut t = Mini::default();
    let l1 = t.call("cudaLaunchKernel", 1, 0, 10, 1);
    let l2 = t.call("cudaLaunchKernel", 1, 30, 10, 2);
    let k1 = t.kernel("k1", 7, 25, 100, 1);
    let k2 = t.kernel("k2", 7, 130, 50, 2);
    let cp = whole(&t);
    assert_eq!(edges_of(&cp, L), [(l1, 's', k1, 's', 25.0)]);
    assert_eq!(edges_of(&cp, G), [(k1, 'e', k2, 's', 5.0)]);
    assert!(edges(&cp).contains(&(k1, 'e', k2, 's', G, 5.0, Some(k1))));
    assert_eq!(cp.path.weight_us, 180.0);
    let options = HtaOptions { zero_weight_launch_edges: true, ..HtaOptions::default() };
    let causal = hta::analyze(&t.trace(), &options).unwrap();
    assert_eq!(edges_of(&causal, L), [(l1, 's', k1, 's', 25.0), (l2, 's', k2, 's', 0.0)]);
}

#[test]
fn a_gap_of_1500_us_cuts_the_chain() {
    let chain = |gap: i64| {
        let mut t = Mini::default();
        t.call("cudaLaunchKernel", 1, 0, 10, 1);
        t.call("cudaLaunchKernel", 1, 30, 10, 2);
        t.kernel("k1", 7, 25, 100, 1);
        t.kernel("k2", 7, 125 + gap, 50, 2);
        let cp = whole(&t);
        (edges_of(&cp, G).len(), warned(&cp, WarningCode::ChainCut))
    };
    assert_eq!(chain(1_499), (1, 0));
    assert_eq!(chain(1_500), (0, 1));
}

#[test]
fn launch_and_kernel_at_the_same_time_count_the_launch_first() {
    let mut t = Mini::default();
    t.call("cudaLaunchKernel", 1, 0, 10, 1);
    let k1 = t.kernel("k1", 7, 20, 2, 1);
    let l2 = t.call("cudaLaunchKernel", 1, 20, 10, 2);
    let k2 = t.kernel("k2", 7, 40, 50, 2);
    let cp = whole(&t);
    assert_eq!(edges_of(&cp, G), [(k1, 'e', k2, 's', 18.0)], "the queue holds two at the second launch");
    assert!(!edges_of(&cp, L).iter().any(|e| e.0 == l2));
}

#[test]
fn stream_and_context_synchronisation_point_at_the_call() {
    let mut t = Mini::default();
    t.call("cudaLaunchKernel", 1, 0, 10, 1);
    t.call("cudaLaunchKernel", 1, 12, 10, 2);
    let k1 = t.kernel("k1", 7, 20, 100, 1);
    let k2 = t.kernel("k2", 9, 30, 50, 2);
    let call = t.call("cudaStreamSynchronize", 1, 40, 90, 3);
    t.sync("Stream Sync", 7, 41, 82, 3, None);
    let device = t.call("cudaDeviceSynchronize", 1, 140, 9, 4);
    t.sync("Context Sync", -1, 141, 2, 4, None);
    t.sync("Odd Sync", 7, 141, 2, 4, None);
    let cp = whole(&t);
    let expected = [(k1, 'e', call, 'e', 0.0), (k1, 'e', device, 'e', 0.0), (k2, 'e', device, 'e', 0.0)];
    assert_eq!(edges_of(&cp, S), expected);
    assert_eq!(warned(&cp, WarningCode::UnknownSync), 1);
}

/// Stream 7 records an event after k1, stream 9 waits for it before k2.
fn waiting_streams() -> (Mini, u32, u32) {
    let mut t = Mini::default();
    t.call("cudaLaunchKernel", 1, 0, 10, 1);
    t.call("cudaEventRecord", 1, 12, 3, 2);
    t.call("cudaStreamWaitEvent", 1, 20, 3, 3);
    t.call("cudaLaunchKernel", 1, 30, 10, 4);
    let k1 = t.kernel("k1", 7, 35, 100, 1);
    let k2 = t.kernel("k2", 9, 140, 50, 4);
    t.sync("Stream Wait Event", 9, 36, 0, 3, Some((2, 7)));
    (t, k1, k2)
}

#[test]
fn a_stream_waits_for_the_kernel_before_the_record() {
    let (t, k1, k2) = waiting_streams();
    let cp = whole(&t);
    assert_eq!(edges_of(&cp, S), [(k1, 'e', k2, 's', 0.0)]);
    assert!(edges_of(&cp, G).is_empty() && edges_of(&cp, L).len() == 1, "the wait explains the late start");
}

#[test]
fn the_host_waits_for_the_kernel_before_the_record() {
    let mut t = waiting_streams().0;
    let call = t.call("cudaEventSynchronize", 1, 45, 92, 5);
    t.sync("Event Sync", -1, 46, 90, 5, Some((2, 7)));
    let cp = whole(&t);
    assert!(edges_of(&cp, S).iter().any(|e| (e.2, e.3) == (call, 'e')));
    t.sync("Event Sync", -1, 46, 90, 5, Some((2, 9)));
    assert_eq!(warned(&whole(&t), WarningCode::AmbiguousRecord), 1, "one record on two streams");
}

#[test]
fn two_kernels_of_one_launch_give_a_result() {
    let mut t = Mini::default();
    t.call("cudaLaunchKernel", 1, 0, 10, 1);
    let k1 = t.kernel("k1", 7, 25, 100, 1);
    let k2 = t.kernel("k2", 7, 130, 50, 1);
    let trace = t.trace();
    let view = HtaView::load(&trace, false);
    // The first record is no row.
    let (k1, k2) = (k1 - 1, k2 - 1);
    assert_eq!((view.partner[0], view.sibling[k2 as usize], view.sibling[k1 as usize]), (k2, k1, NO_ROW));
    assert!(whole(&t).path.weight_us > 0.0);
}

#[test]
fn backward_thread_joins_the_forward_thread() {
    let mut t = Mini::default();
    let f = t.op("forward", 1, 0, 10);
    let b = t.op("autograd::engine::evaluate_function: MmBackward", 2, 20, 10);
    assert_eq!(edges_of(&whole(&t), D), [(f, 'e', b, 's', 0.0)]);
    t.op("forward again", 3, 40, 5);
    assert!(edges_of(&whole(&t), D).is_empty(), "two forward threads: no merge");
}

#[test]
fn instances_and_windows() {
    let mut t = Mini::default();
    for (i, name) in ["step a", "a step", "other"].into_iter().enumerate() {
        t.push("user_annotation", name, (10, 1), (i as i64 * 100, 60), json!({}));
        t.op("op", 1, i as i64 * 100 + 10, 20);
    }
    let run = |instance| {
        let options = HtaOptions { annotation: "step".into(), instance, ..HtaOptions::default() };
        hta::analyze(&t.trace(), &options)
            .map(|cp| (cp.window_ns() / 1000, cp.rows, warned(&cp, WarningCode::MissingInstances)))
    };
    assert_eq!(run(None), Ok((60, 2, 0)));
    assert_eq!(run(Some(Instances::One(1))), Ok((60, 2, 0)));
    assert_eq!(run(Some(Instances::Range(0, 1))), Ok((160, 4, 0)));
    assert_eq!(run(Some(Instances::Range(1, 5))), Ok((60, 2, 4)));
    let error = run(Some(Instances::One(2))).unwrap_err().to_string();
    assert_eq!(error, "instance 2 of 'step' does not exist: there are 2 (0 to 1)");
    assert!(run(Some(Instances::Range(1, 0))).unwrap_err().to_string().contains("smaller number first"));
}

#[test]
fn the_last_step_is_dropped_unless_asked_for() {
    let mut t = Mini::default();
    for step in 0..3 {
        let at = step * 1_000;
        t.push("user_annotation", &format!("ProfilerStep#{step}"), (10, 1), (at, 900), json!({}));
        t.call("cudaLaunchKernel", 1, at + 10, 10, step + 1);
        t.kernel("k", 7, at + 950, 200, step + 1);
    }
    let rows = |include_last_profiler_step| {
        let options = HtaOptions { include_last_profiler_step, ..HtaOptions::default() };
        hta::analyze(&t.trace(), &options).unwrap().rows
    };
    assert_eq!((rows(false), rows(true)), (6, 9));
}

#[test]
fn data_loading_is_its_own_bound() {
    let mut t = Mini::default();
    t.push("user_annotation", "data_load", (10, 1), (0, 100), json!({}));
    t.op("op", 1, 200, 100);
    let options = HtaOptions { data_load_events: vec!["data_load".into()], ..HtaOptions::default() };
    let cp = hta::analyze(&t.trace(), &options).unwrap();
    let bounds: Vec<(String, f64)> = cp.breakdown().bound_by.into_iter().map(|s| (s.name, s.percent)).collect();
    assert_eq!(bounds, [(String::new(), 0.0), ("cpu_bound".into(), 50.0), ("data_loading".into(), 50.0)]);
    let bad = HtaOptions { data_load_events: vec!["(".into()], ..HtaOptions::default() };
    assert!(hta::analyze(&t.trace(), &bad).unwrap_err().to_string().contains("regular expression"));
}

#[test]
fn pins_of_the_specification() {
    let Some(corpus) = corpus() else { return };
    let run = |name: &str, annotation: &str, instance| {
        let trace = read_trace(&corpus.join("kineto").join(name));
        let options = HtaOptions {
            annotation: annotation.into(),
            instance,
            zero_weight_launch_edges: true,
            ..HtaOptions::default()
        };
        hta::analyze(&trace, &options).unwrap()
    };
    let forward = "[param|pytorch.model.alex_net|0|0|0|measure|forward]";
    // C5
    let cp = run("nvidia-a100-simple-add-cuda-sync.json.gz", forward, Some(Instances::One(1)));
    let node = |event: u32, start: bool| {
        let at = |n: &usize| {
            cp.events.index[cp.graph.nodes.event[*n] as usize] == event && cp.graph.nodes.is_start[*n] == start
        };
        (0..cp.graph.nodes.len()).find(at).unwrap()
    };
    let nodes = [286, 287, 1005].map(|e| (node(e, true), node(e, false)));
    assert_eq!(nodes, [(57, 62), (58, 61), (59, 60)]);
    let found = edges(&cp);
    let pinned: [Plain; 9] = [
        (286, 's', 287, 's', O, 15.0, Some(286)),
        (287, 's', 1005, 's', O, 14.0, Some(287)),
        (1005, 's', 1005, 'e', O, 17.0, Some(1005)),
        (1005, 'e', 287, 'e', O, 15.0, Some(287)),
        (287, 'e', 286, 'e', O, 32.0, Some(286)),
        (1053, 's', 1051, 's', L, 27.0, None),
        (1051, 'e', 1067, 's', G, 7.0, Some(1051)),
        (1275, 'e', 1281, 'e', S, 0.0, None),
        (1051, 's', 1051, 'e', O, 63.0, Some(1051)),
    ];
    for edge in pinned {
        assert!(found.contains(&edge), "{edge:?}");
    }
    assert!(edges_of(&cp, L).iter().any(|e| (e.2, e.3, e.4) == (1067, 's', 0.0)));
    // C6
    let cp = run("nvidia-a100-alexnet-cuda-sync.json.gz", forward, Some(Instances::One(1)));
    assert!(edges_of(&cp, S).contains(&(1109, 'e', 1161, 's', 0.0)));
    // C7
    let cp = run("nvidia-a100-event-sync.json.gz", "", None);
    assert!(edges_of(&cp, S).contains(&(33, 'e', 41, 'e', 0.0)));
    assert!(edges_of(&cp, S).contains(&(33, 'e', 51, 'e', 0.0)));
    // C8
    let cp = run("nvidia-a100-event-sync-multi-stream.json.gz", "", None);
    assert!(edges_of(&cp, S).contains(&(24, 'e', 84, 's', 0.0)));
}
