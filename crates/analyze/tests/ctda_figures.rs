//! The figures of Yang et al. (critical paths across threads, CTDA-CPA) as small traces, and odd inputs. Times are in µs.

use crate::support::{mini, read};
use serde_json::{Value, json};
use stackline_critical_path::ctda;
use stackline_critical_path::ctda::{CtdaEdgeKind, CtdaOptions, CtdaPath, Phase, PhaseRules};
use stackline_critical_path::hta;
use stackline_critical_path::hta::HtaOptions;
use stackline_critical_path::{CriticalPathError, Edit, WarningCode};
use stackline_testkit::mini::MiniTrace;

fn analyze(t: &MiniTrace) -> CtdaPath {
    ctda::analyze(&read(t.json()), &CtdaOptions::default()).unwrap()
}

/// Names on the path in order, each with its effective time in µs; neighbors of one name are one.
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
fn figure_1() -> MiniTrace {
    let mut t = mini(
        "10/1    cpu_op        A                 0+100
         10/1    cuda_runtime  cudaLaunchKernel  90+5     correlation=1
         gpu0/7  kernel        a                 100+30   correlation=1
         10/1    cpu_op        B                 100+100
         10/1    cuda_runtime  cudaLaunchKernel  190+5    correlation=2
         gpu0/7  kernel        b                 200+30   correlation=2",
    );
    for (name, start, correlation) in [("CBackward0", 200, 3), ("DBackward0", 300, 4)] {
        let events = format!(
            "10/2    cpu_op        {name}            0+100
             10/2    cuda_runtime  cudaLaunchKernel  90+5    correlation={correlation}
             gpu0/7  kernel        c                 100+30  correlation={correlation}"
        );
        t.add_at(start, &events);
    }
    t.add("10/1 user_annotation Optimizer.step#SGD.step 400+100\n10/1 cpu_op E 400+100");
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
    let hta = hta::analyze(&read(t.json()), &HtaOptions::default()).unwrap();
    assert!((hta.path.weight_us * 1e3 / hta.window_ns() as f64) < 0.7, "HTA's path breaks between the threads");
}

/// Names without repetition of neighbors.
fn dedup(mut names: Vec<String>) -> Vec<String> {
    names.dedup();
    names
}

#[test]
fn figure_3_hidden_long_kernel_is_no_hotspot() {
    let t = mini(
        "10/1    cpu_op        Op A              0..100
         10/1    cpu_op        Op B              100..200
         10/1    cpu_op        Op C              200..300
         10/1    cpu_op        Op D              300..400
         10/1    cpu_op        Op E              400..500
         10/1    cuda_runtime  cudaLaunchKernel  110..115  correlation=1
         gpu0/7  kernel        Kernel B          120..420  correlation=1",
    );
    let cp = analyze(&t);
    assert!(cp.hotspots().iter().all(|h| h.name != "Kernel B"), "its time is hidden by the host");
    assert_eq!((cp.executed_ns(), cp.cpcr()), (500_000, 1.0));
}

#[test]
fn figure_5_streams_phases_and_synchronization_cut_nodes() {
    let t = mini(
        "10/1    user_annotation  forward                0+300
         10/1    cpu_op           f1                     0+100
         10/1    cuda_runtime     cudaLaunchKernel       10+5     correlation=1
         gpu0/7  kernel           k1                     20+200   correlation=1
         10/1    cpu_op           f2                     100+100
         10/1    cuda_runtime     cudaLaunchKernel       110+5    correlation=2
         gpu0/7  kernel           k2                     220+80   correlation=2
         10/1    cpu_op           f3                     200+100
         10/1    cuda_runtime     cudaLaunchKernel       210+5    correlation=3
         gpu0/8  kernel           k3                     220+90   correlation=3
         10/1    cuda_runtime     cudaDeviceSynchronize  300+20   correlation=9
         10/1    cpu_op           tail                   320+30",
    );
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
fn figure_6() -> MiniTrace {
    mini(
        "10/1    cuda_runtime  cudaLaunchKernel     0+5      correlation=1
         10/1    cuda_runtime  cudaEventRecord      6+2      correlation=2
         10/1    cuda_runtime  cudaLaunchKernel     10+5     correlation=3
         10/1    cuda_runtime  cudaStreamWaitEvent  18+2     correlation=4
         10/1    cuda_runtime  cudaLaunchKernel     22+5     correlation=5
         10/1    cuda_runtime  cudaEventRecord      30+2     correlation=6
         10/1    cuda_runtime  cudaStreamWaitEvent  34+2     correlation=7
         10/1    cuda_runtime  cudaLaunchKernel     38+5     correlation=8
         gpu0/1  kernel        A                    50+50    correlation=1
         gpu0/1  kernel        B                    100+100  correlation=3
         gpu0/2  kernel        C                    140+80   correlation=5
         gpu0/1  kernel        D                    220+50   correlation=8",
    )
}

#[test]
fn figure_6_the_later_end_decides() {
    let mut t = figure_6();
    t.add(
        "gpu0/2  cuda_sync     Stream Wait Event    20+1     correlation=4 wait_on_cuda_event_record_corr_id=2 wait_on_stream=1
         gpu0/1  cuda_sync     Stream Wait Event    36+1     correlation=7 wait_on_cuda_event_record_corr_id=6 wait_on_stream=2",
    );
    let cp = analyze(&t);
    assert_eq!(path(&cp), named(&[("cudaLaunchKernel", 5), ("A", 50), ("C", 80), ("D", 50)]));
    assert!(cp.warnings.is_empty(), "{:?}", cp.warnings);
}

/// Records of waits that do not name the awaited event change nothing.
#[test]
fn waits_for_unknown_events_are_inferred() {
    let mut t = figure_6();
    t.add(
        "10/1  cuda_runtime  cudaEventSynchronize  45+230  correlation=9
         10/1  cpu_op        tail                  275+30",
    );
    let without = analyze(&t);
    let names: Vec<String> = path(&without).into_iter().map(|(name, _)| name).collect();
    assert!(["C", "D", "tail"].iter().all(|name| names.iter().any(|own| own == name)), "{names:?}");
    t.add(
        "gpu0/2   cuda_sync  Stream Wait Event  20+1    correlation=4
         gpu0/1   cuda_sync  Stream Wait Event  36+1    correlation=7
         gpu0/-1  cuda_sync  Event Sync         46+228  correlation=9",
    );
    let with = analyze(&t);
    assert_eq!((path(&with), with.warnings), (path(&without), without.warnings));
}

#[test]
fn figure_7_only_the_time_until_the_first_launch_counts() {
    let t = mini(
        "10/1    cpu_op        Op A              0+20
         10/1    cpu_op        Op B              20+20
         10/1    cuda_runtime  cudaLaunchKernel  40+10   correlation=1
         10/1    cpu_op        Op C              50+30
         10/1    cpu_op        Op D              80+20
         gpu0/7  kernel        Kernel            50+200  correlation=1",
    );
    let cp = analyze(&t);
    assert_eq!(path(&cp), named(&[("Op A", 20), ("Op B", 20), ("cudaLaunchKernel", 10), ("Kernel", 200)]));
    let first = &cp.hotspots()[0];
    assert_eq!((first.name.as_str(), first.category.as_str(), first.duration_ns), ("Kernel", "kernel", 200_000));
    assert_eq!((first.proportion, first.prop_in_total), (80.0, 80.0));
}

#[test]
fn threads_without_gil_are_independent() {
    let mut t = figure_1();
    t.add("file python_gil_enabled=false");
    let cp = analyze(&t);
    assert_eq!(cp.graph.edges_by_kind()[3].1, 0);
    assert!(cp.warnings.iter().any(|w| w.code == WarningCode::NoInterpreterLock));
}

#[test]
fn user_rules_define_phases() {
    let t = mini(
        "10/1  cpu_op  read_batch  0+100
         10/1  cpu_op  compute     100+100",
    );
    let phases = |rules: &str| {
        let phase_rules = Some(PhaseRules::extended_by(rules).unwrap());
        let cp = ctda::analyze(&read(t.json()), &CtdaOptions { phase_rules, ..CtdaOptions::default() }).unwrap();
        cp.phases().map(|p| p.1 / 1000)
    };
    assert_eq!(phases("{}"), [0, 0, 0, 0, 0, 0, 200], "never guessed");
    let rules = r#"{"rules":[{"phase":"data_load","name":"read_*"},{"phase":"forward","kinds":["operator"],"name":"compute"}]}"#;
    assert_eq!(phases(rules), [100, 100, 0, 0, 0, 0, 0]);
}

/// Lightning has the optimizer's step call forward and backward: they are no part of the optimizer.
#[test]
fn lightning_spans_define_phases() {
    let t = mini(
        "10/1  user_annotation  [pl][profile][_TrainingEpochLoop].train_dataloader_next    0+100
         10/1  cpu_op           work                                                       5+90
         10/1  user_annotation  Optimizer.step#Adam.step                                   100+600
         10/1  cpu_op           work                                                       105+90
         10/1  user_annotation  [pl][profile][Strategy]SingleDeviceStrategy.training_step  210+200
         10/1  cpu_op           work                                                       215+90
         10/1  user_annotation  [pl][profile][Strategy]SingleDeviceStrategy.backward       420+200
         10/1  cpu_op           work                                                       425+90",
    );
    let phases = analyze(&t).phases();
    let of = |requested: Phase| phases.iter().find(|(phase, _)| *phase == requested).map_or(0, |(_, ns)| ns / 1000);
    let [data, forward, backward, update] = [Phase::DataLoad, Phase::Forward, Phase::Backward, Phase::Update].map(of);
    assert!(data >= 90 && forward >= 90 && backward >= 90 && update >= 90, "{phases:?}");
}

#[test]
fn what_if_without_edits_changes_nothing_and_edits_move_the_path() {
    let t = mini(
        "10/1    cpu_op        prepare                0+100
         10/1    cuda_runtime  cudaLaunchKernel       100+10   correlation=1
         gpu0/7  kernel        gemm                   120+300  correlation=1
         10/1    cpu_op        host                   110+200
         10/1    cuda_runtime  cudaDeviceSynchronize  310+120  correlation=2
         10/1    cpu_op        end                    430+20",
    );
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
fn odd_inputs_give_a_result_or_an_error() {
    let one = mini("10/1  cpu_op  alone  5+10");
    let cp = analyze(&one);
    assert_eq!((path(&cp), cp.cpcr()), (named(&[("alone", 10)]), 1.0));
    assert!(cp.warnings.iter().any(|w| w.code == WarningCode::NoGpuWork));
    let window = |annotation: &str| {
        let options = CtdaOptions { annotation: annotation.to_owned(), ..CtdaOptions::default() };
        ctda::analyze(&read(one.json()), &options)
    };
    assert!(matches!(window("alne"), Err(CriticalPathError::AnnotationNotFound { .. })));
    let zero = mini("10/1  cpu_op  nothing  5+0");
    assert!(matches!(
        ctda::analyze(&read(zero.json()), &CtdaOptions::default()),
        Err(CriticalPathError::EmptyGraph { .. })
    ));
    let odd = mini(
        "10/1    cpu_op        a                      0+50
         10/1    cpu_op        crosses                25+50
         10/1    cuda_runtime  cudaLaunchKernel       60+5    correlation=1
         0/0     kernel        no stream              70+30   correlation=1
         gpu0/7  kernel        before its launch      10+10   correlation=2
         10/1    cuda_runtime  cudaLaunchKernel       70+3    correlation=2
         gpu0/7  kernel        overlaps               15+100  correlation=3
         10/1    cuda_runtime  cudaStreamSynchronize  75+50   correlation=4",
    );
    let cp = analyze(&odd);
    assert!(!cp.steps.is_empty() && cp.cpcr() <= 1.0, "{:?}", cp.steps);
}

#[test]
fn deep_stacks_need_no_recursion() {
    let mut t = mini("");
    for depth in 0..2000 {
        t.add(&format!("10/1 python_function f{depth} {depth}..{}", 10_000 - depth));
    }
    t.add("10/1 cpu_op deep 2100+3000");
    let cp = analyze(&t);
    let spots: Vec<(String, i64)> = cp.hotspots().into_iter().map(|h| (h.name, h.duration_ns / 1000)).collect();
    // Each frame has 2 µs of its own; they count for the outermost one.
    assert_eq!(spots, named(&[("f0", 3998), ("f1999", 3002), ("deep", 3000)]));
}

/// Spans of equal time in any order of the file give the same path.
#[test]
fn result_is_independent_of_order_of_equal_events() {
    let base: Value = serde_json::from_str(&figure_1().json()).unwrap();
    let events = base["traceEvents"].as_array().unwrap();
    let shown = |events: Vec<Value>| {
        let bytes = serde_json::to_vec(&json!({ "traceEvents": events })).unwrap();
        let cp = ctda::analyze(&read(&bytes), &CtdaOptions::default()).unwrap();
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
fn synchronization_records_count_for_the_process_of_their_call() {
    let mut t = mini("");
    for (pid, device, stream, at, name) in [(10, 0, 7, 0, "first"), (20, 1, 9, 1000, "second")] {
        let waited = format!("wait_on_stream={stream} wait_on_cuda_event_record_corr_id=2");
        let events = format!(
            "{pid}/1                user_annotation  {name}                0+200
             {pid}/1                cuda_runtime     cudaLaunchKernel      0+5     correlation=1
             {pid}/1                cuda_runtime     cudaEventRecord       10+2    correlation=2
             {pid}/1                cuda_runtime     cudaEventSynchronize  20+100  correlation=3
             {pid}/1                cpu_op           after                 130+60
             gpu{device}/{stream}   kernel           {name}                10+100  correlation=1
             gpu{device}/{stream}   cuda_sync        Event Sync            22+90   correlation=3 {waited}"
        );
        t.add_at(at, &events);
    }
    for name in ["first", "second"] {
        let options = CtdaOptions { annotation: name.to_owned(), ..CtdaOptions::default() };
        let cp = ctda::analyze(&read(t.json()), &options).unwrap();
        assert!(path(&cp).contains(&(name.to_owned(), 100)), "{name}: {:?}", path(&cp));
        assert_eq!(cp.warnings, [], "{name}");
    }
}

/// A kernel on a stream of its own; times in µs.
fn launch(t: &mut MiniTrace, stream: i64, start: i64, duration: i64) {
    let (at, correlation) = (2 * stream, stream + 1);
    t.add(&format!(
        "10/1           cuda_runtime  cudaLaunchKernel  {at}+1              correlation={correlation}
         gpu0/{stream}  kernel        k{stream}         {start}+{duration}  correlation={correlation}"
    ));
}

/// For a wait without record, of many streams only those whose work ended last are considered.
#[test]
fn waits_without_records_find_their_stream() {
    let mut t = mini("");
    for stream in 0..200 {
        launch(&mut t, stream, 1000, stream + 1);
    }
    t.add("10/1 cuda_runtime cudaEventSynchronize 500+655 correlation=900\n10/1 cpu_op after 1160+500");
    let cp = analyze(&t);
    assert!(path(&cp).contains(&("k154".to_owned(), 155)), "{:?}", path(&cp));
    // A later synchronisation of the device does not ask again for what an earlier one waited for.
    let mut t = mini("");
    for stream in 0..3 {
        launch(&mut t, stream, 10, 50 + stream);
    }
    for sync in 0..3 {
        let wait = format!("10/1 cuda_runtime cudaDeviceSynchronize 30+60 correlation=90{sync}");
        t.add_at(100 * sync, &format!("{wait}\n10/1 cpu_op between 91+30"));
    }
    let cp = analyze(&t);
    let syncs = cp.graph.edges.iter().filter(|e| e.kind == CtdaEdgeKind::Sync).count();
    assert_eq!((syncs, path(&cp).contains(&("k2".to_owned(), 52))), (6, true), "{:?}", path(&cp));
}
