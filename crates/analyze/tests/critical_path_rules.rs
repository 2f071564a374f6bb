//! Each rule of method "hta" on a trace of a few events, and the pins of the specification (C5 to C8).

use crate::support::{mini, read, read_file};
use stackline_critical_path::hta;
use stackline_critical_path::hta::{CriticalPath, Edge, HtaOptions, NO_EVENT};
use stackline_critical_path::{EdgeKind, Instances, WarningCode};
use stackline_testkit::corpus;
use stackline_testkit::mini::MiniTrace;
use stackline_timeline::hta_view::{HtaView, NO_ROW};

fn whole(mini: &MiniTrace) -> CriticalPath {
    hta::analyze(&read(mini.json()), &HtaOptions::default()).unwrap()
}

/// An edge as "event, start or end → event, start or end, kind, weight, charged to".
type Plain = (u32, char, u32, char, EdgeKind, f64, Option<u32>);

fn edges(cp: &CriticalPath) -> Vec<Plain> {
    let point = |n: u32| {
        let event = cp.graph.nodes.event[n as usize];
        (cp.events.index[event as usize], if cp.graph.nodes.is_start[n as usize] { 's' } else { 'e' })
    };
    let plain = |e: &Edge| {
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
fn nested_operator_time_counts_for_the_innermost() {
    let t = mini(
        "10/1  cpu_op           A     0+100
         10/1  cpu_op           B     10+20
         10/1  user_annotation  note  40+50
         10/1  cpu_op           C     50+30
         10/1  cpu_op           D     120+10",
    );
    let [a, b, note, c, d] = [1, 2, 3, 4, 5];
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
fn gaps_between_children_count_for_the_annotation() {
    let t = mini(
        "10/1  cpu_op           A           0+100
         10/1  python_function  f.py(1): f  5+90
         10/1  cpu_op           B           10+20
         10/1  cpu_op           C           50+30",
    );
    let [note, b, c] = [2, 3, 4];
    assert!(edges(&whole(&t)).contains(&(b, 'e', c, 's', O, 20.0, Some(note))));
}

#[test]
fn ends_pop_the_top_of_the_stack() {
    // B begins inside A and ends after it: A's end takes B off the stack, so that C becomes a child of A.
    let t = mini(
        "10/1  cpu_op  A  0+50
         10/1  cpu_op  B  40+30
         10/1  cpu_op  C  60+5",
    );
    let [a, b, c] = [1, 2, 3];
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
fn blocking_calls_have_zero_exit_weight() {
    let t = mini(
        "10/1  cuda_runtime  cudaDeviceSynchronize  0+500    correlation=-1
         10/1  cuda_runtime  cudaMalloc             600+500  correlation=-1",
    );
    let [sync, other] = [1, 2];
    let found = edges(&whole(&t));
    assert!(found.contains(&(sync, 's', sync, 'e', O, 0.0, Some(sync))));
    assert!(found.contains(&(other, 's', other, 'e', O, 500.0, Some(other))));
}

#[test]
fn lock_order_follows_call_ends() {
    let t = mini(
        "10/1  cuda_runtime  cudaHostAlloc     20+60   correlation=1
         10/2  cuda_runtime  cudaHostAlloc     10+40   correlation=2
         10/3  cuda_runtime  cudaLaunchKernel  15+75   correlation=3
         10/3  cuda_runtime  cudaLaunchKernel  100+10  correlation=4",
    );
    let [a, c, g, i] = [1, 2, 3, 4];
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
    let t = mini(
        "10/1    cuda_runtime  cudaLaunchKernel  0+10    correlation=1
         10/1    cuda_runtime  cudaLaunchKernel  30+10   correlation=2
         gpu0/7  kernel        k1                25+100  correlation=1
         gpu0/7  kernel        k2                130+50  correlation=2",
    );
    let [l1, l2, k1, k2] = [1, 2, 3, 4];
    let cp = whole(&t);
    assert_eq!(edges_of(&cp, L), [(l1, 's', k1, 's', 25.0)]);
    assert_eq!(edges_of(&cp, G), [(k1, 'e', k2, 's', 5.0)]);
    assert!(edges(&cp).contains(&(k1, 'e', k2, 's', G, 5.0, Some(k1))));
    assert_eq!(cp.path.weight_us, 180.0);
    let options = HtaOptions { zero_weight_launch_edges: true, ..HtaOptions::default() };
    let causal = hta::analyze(&read(t.json()), &options).unwrap();
    assert_eq!(edges_of(&causal, L), [(l1, 's', k1, 's', 25.0), (l2, 's', k2, 's', 0.0)]);
}

#[test]
fn a_gap_of_1500_us_cuts_the_chain() {
    let chain = |gap: i64| {
        let mut t = mini(
            "10/1    cuda_runtime  cudaLaunchKernel  0+10    correlation=1
             10/1    cuda_runtime  cudaLaunchKernel  30+10   correlation=2
             gpu0/7  kernel        k1                25+100  correlation=1",
        );
        t.add(&format!("gpu0/7  kernel        k2                {}+50  correlation=2", 125 + gap));
        let cp = whole(&t);
        (edges_of(&cp, G).len(), warned(&cp, WarningCode::ChainCut))
    };
    assert_eq!(chain(1_499), (1, 0));
    assert_eq!(chain(1_500), (0, 1));
}

#[test]
fn launch_and_kernel_at_the_same_time_count_the_launch_first() {
    let t = mini(
        "10/1    cuda_runtime  cudaLaunchKernel  0+10   correlation=1
         gpu0/7  kernel        k1                20+2   correlation=1
         10/1    cuda_runtime  cudaLaunchKernel  20+10  correlation=2
         gpu0/7  kernel        k2                40+50  correlation=2",
    );
    let [k1, l2, k2] = [2, 3, 4];
    let cp = whole(&t);
    assert_eq!(edges_of(&cp, G), [(k1, 'e', k2, 's', 18.0)], "the queue holds two at the second launch");
    assert!(!edges_of(&cp, L).iter().any(|e| e.0 == l2));
}

#[test]
fn stream_and_context_synchronization_point_at_the_call() {
    let t = mini(
        "10/1     cuda_runtime  cudaLaunchKernel       0+10    correlation=1
         10/1     cuda_runtime  cudaLaunchKernel       12+10   correlation=2
         gpu0/7   kernel        k1                     20+100  correlation=1
         gpu0/9   kernel        k2                     30+50   correlation=2
         10/1     cuda_runtime  cudaStreamSynchronize  40+90   correlation=3
         gpu0/7   cuda_sync     Stream Sync            41+82   correlation=3
         10/1     cuda_runtime  cudaDeviceSynchronize  140+9   correlation=4
         gpu0/-1  cuda_sync     Context Sync           141+2   correlation=4
         gpu0/7   cuda_sync     Odd Sync               141+2   correlation=4",
    );
    let [k1, k2, call, device] = [3, 4, 5, 7];
    let cp = whole(&t);
    let expected = [(k1, 'e', call, 'e', 0.0), (k1, 'e', device, 'e', 0.0), (k2, 'e', device, 'e', 0.0)];
    assert_eq!(edges_of(&cp, S), expected);
    assert_eq!(warned(&cp, WarningCode::UnknownSync), 1);
}

/// Stream 7 records an event after k1, stream 9 waits for it before k2.
fn waiting_streams() -> (MiniTrace, u32, u32) {
    let t = mini(
        "10/1    cuda_runtime  cudaLaunchKernel     0+10    correlation=1
         10/1    cuda_runtime  cudaEventRecord      12+3    correlation=2
         10/1    cuda_runtime  cudaStreamWaitEvent  20+3    correlation=3
         10/1    cuda_runtime  cudaLaunchKernel     30+10   correlation=4
         gpu0/7  kernel        k1                   35+100  correlation=1
         gpu0/9  kernel        k2                   140+50  correlation=4
         gpu0/9  cuda_sync     Stream Wait Event    36+0    correlation=3 wait_on_cuda_event_record_corr_id=2 wait_on_stream=7",
    );
    let [k1, k2] = [5, 6];
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
    let call = t.add("10/1 cuda_runtime cudaEventSynchronize 45+92 correlation=5");
    t.add("gpu0/-1 cuda_sync Event Sync 46+90 correlation=5 wait_on_cuda_event_record_corr_id=2 wait_on_stream=7");
    let cp = whole(&t);
    assert!(edges_of(&cp, S).iter().any(|e| (e.2, e.3) == (call, 'e')));
    t.add("gpu0/-1 cuda_sync Event Sync 46+90 correlation=5 wait_on_cuda_event_record_corr_id=2 wait_on_stream=9");
    assert_eq!(warned(&whole(&t), WarningCode::AmbiguousRecord), 1, "one record on two streams");
}

#[test]
fn two_kernels_of_one_launch_give_a_result() {
    let t = mini(
        "10/1    cuda_runtime  cudaLaunchKernel  0+10    correlation=1
         gpu0/7  kernel        k1                25+100  correlation=1
         gpu0/7  kernel        k2                130+50  correlation=1",
    );
    let [k1, k2] = [2, 3];
    let trace = read(t.json());
    let view = HtaView::load(&trace, false);
    // The first record is no row.
    let (k1, k2) = (k1 - 1, k2 - 1);
    assert_eq!((view.partner[0], view.sibling[k2 as usize], view.sibling[k1 as usize]), (k2, k1, NO_ROW));
    assert!(whole(&t).path.weight_us > 0.0);
}

#[test]
fn backward_thread_joins_the_forward_thread() {
    let mut t = mini(
        "10/1  cpu_op  forward                                          0+10
         10/2  cpu_op  autograd::engine::evaluate_function: MmBackward  20+10",
    );
    let [f, b] = [1, 2];
    assert_eq!(edges_of(&whole(&t), D), [(f, 'e', b, 's', 0.0)]);
    t.add("10/3 cpu_op forward again 40+5");
    assert!(edges_of(&whole(&t), D).is_empty(), "two forward threads: no merge");
}

#[test]
fn instances_and_windows() {
    let mut t = mini("");
    for (at, name) in [(0, "step a"), (100, "a step"), (200, "other")] {
        t.add_at(at, &format!("10/1 user_annotation {name} 0+60\n10/1 cpu_op op 10+20"));
    }
    let run = |instance| {
        let options = HtaOptions { annotation: "step".into(), instance, ..HtaOptions::default() };
        hta::analyze(&read(t.json()), &options)
            .map(|cp| (cp.window_ns() / 1000, cp.rows, warned(&cp, WarningCode::MissingInstances)))
    };
    assert_eq!(run(None), Ok((60, 2, 0)));
    assert_eq!(run(Some(Instances::One(1))), Ok((60, 2, 0)));
    assert_eq!(run(Some(Instances::Range(0, 1))), Ok((160, 4, 0)));
    assert_eq!(run(Some(Instances::Range(1, 5))), Ok((60, 2, 4)));
    let error = run(Some(Instances::One(2))).unwrap_err().to_string();
    assert_eq!(error, "instance 2 of 'step' does not exist; the 2 instances have numbers 0 to 1");
    assert!(run(Some(Instances::Range(1, 0))).unwrap_err().to_string().contains("smaller number first"));
}

#[test]
fn last_step_is_dropped_unless_requested() {
    let mut t = mini("");
    for step in 0..3 {
        let correlation = step + 1;
        let events = format!(
            "10/1    user_annotation  ProfilerStep#{step}  0+900
             10/1    cuda_runtime     cudaLaunchKernel     10+10    correlation={correlation}
             gpu0/7  kernel           k                    950+200  correlation={correlation}"
        );
        t.add_at(step * 1_000, &events);
    }
    let rows = |include_last_profiler_step| {
        let options = HtaOptions { include_last_profiler_step, ..HtaOptions::default() };
        hta::analyze(&read(t.json()), &options).unwrap().rows
    };
    assert_eq!((rows(false), rows(true)), (6, 9));
}

#[test]
fn data_loading_is_its_own_bound() {
    let t = mini(
        "10/1  user_annotation  data_load  0+100
         10/1  cpu_op           op         200+100",
    );
    let options = HtaOptions { data_load_events: vec!["data_load".into()], ..HtaOptions::default() };
    let cp = hta::analyze(&read(t.json()), &options).unwrap();
    let bounds: Vec<(String, f64)> = cp.breakdown().bound_by.into_iter().map(|s| (s.name, s.percent)).collect();
    assert_eq!(bounds, [(String::new(), 0.0), ("cpu_bound".into(), 50.0), ("data_loading".into(), 50.0)]);
    let bad = HtaOptions { data_load_events: vec!["(".into()], ..HtaOptions::default() };
    assert!(hta::analyze(&read(t.json()), &bad).unwrap_err().to_string().contains("regular expression"));
}

#[test]
fn values_of_the_specification() {
    let Some(corpus) = corpus::folder() else { return };
    let run = |name: &str, annotation: &str, instance| {
        let trace = read_file(&corpus.join("kineto").join(name));
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
