//! The exact tables compared with HTA's, over hand-made traces and by sums over the corpus; and HTA's tables of damaged traces.

use crate::hta_support::{number, text};
use crate::support::{read_file, read_mini};
use stackline_analyze::analyses;
use stackline_analyze::analyses::{
    hta_annotations, hta_comm_comp_overlap, hta_counters, hta_idle_time, hta_launch_stats, hta_memory_bandwidth,
    hta_queue_length,
};
use stackline_analyze::hta_rows::HtaRows;
use stackline_model::{Table, Trace};
use stackline_testkit::corpus;
use stackline_timeline::{Scope, classify};
use std::collections::BTreeMap;

/// Two streams of one device: computation 10..30 and 50..60 µs on stream 7, a collective 20..40 µs on stream 20, and a
/// copy 62.5..64.5 µs of 1,000 bytes on stream 7. The launch of the kernel at 50 µs starts after the one before ended,
/// that of the copy before; the collective's launch is not in the trace.
const HAND_MADE: &str = "
    1/1      user_annotation  block                          0+9
    1/1      cuda_runtime     cudaLaunchKernel               5+3      correlation=11
    1/1      cuda_runtime     cudaLaunchKernel               45+15.5  correlation=12
    1/1      cuda_runtime     cudaMemcpyAsync                51+1     correlation=13
    gpu0/7   kernel           gemm                           10+20    correlation=11
    gpu0/20  kernel           ncclDevKernel_AllReduce        20+20    correlation=99
    gpu0/7   kernel           gemm                           50+10    correlation=12
    gpu0/7   gpu_memcpy       Memcpy HtoD (Pinned -> Device) 62.5+2   correlation=13 bytes=1000 memory bandwidth (GB/s)=0.5";

#[test]
fn exact_tables_of_a_hand_made_trace() {
    let trace = read_mini(HAND_MADE);
    let scope = Scope::default();

    let overlap = hta_comm_comp_overlap::exact(&trace, &scope);
    let cell = |t: &Table, column: &str, row| number(t, column, row).unwrap();
    assert_eq!(overlap.rows(), 1);
    assert_eq!(cell(&overlap, "computation_ns", 0), 30_000.0);
    assert_eq!(cell(&overlap, "communication_ns", 0), 20_000.0);
    assert_eq!(cell(&overlap, "overlap_pct", 0), 50.0);

    let idle = hta_idle_time::exact(&trace, &scope, 30_000);
    let of = |stream: f64, cause: &str| {
        let row = (0..idle.rows()).find(|&i| cell(&idle, "stream", i) == stream && text(&idle, "cause", i) == cause);
        row.map(|i| (cell(&idle, "gaps", i), cell(&idle, "time_ns", i)))
    };
    assert_eq!(of(7.0, "host_wait"), Some((1.0, 20_000.0)));
    assert_eq!(of(7.0, "kernel_wait"), Some((1.0, 2_500.0)));
    assert_eq!(of(20.0, "host_wait"), Some((0.0, 0.0)));
    // The same gap is "other" if it is longer than the threshold.
    let strict = hta_idle_time::exact(&trace, &scope, 1_000);
    assert_eq!((text(&strict, "cause", 2).as_str(), cell(&strict, "time_ns", 2)), ("other", 2_500.0));

    let launches = hta_launch_stats::exact(&trace, &scope);
    assert_eq!(cell(&launches, "count", 0), 3.0);
    // Delays: 10 - 8, 50 - 60.5 (not below 0), 62.5 - 52.
    assert_eq!(cell(&launches, "sum", 2), 12.5);
    assert!(
        launches.notes[0].contains("covers 3 launches. Short kernels: 1 launch calls took at most 50 µs"),
        "{:?}",
        launches.notes
    );
    assert!(launches.notes[1].starts_with("1 GPU operations have no known launch"), "{:?}", launches.notes);

    let copies = hta_memory_bandwidth::exact(&trace, &scope);
    assert_eq!((copies.rows(), cell(&copies, "bytes", 0), cell(&copies, "bandwidth", 0)), (1, 1000.0, 0.5));

    let annotated = hta_annotations::exact(&trace, &scope);
    let times: BTreeMap<String, f64> =
        (0..annotated.rows()).map(|i| (text(&annotated, "annotation", i), cell(&annotated, "time_ns", i))).collect();
    assert_eq!(times, BTreeMap::from([("block".to_owned(), 20_000.0), (String::new(), 32_000.0)]));
}

#[test]
fn exact_tables_add_up_over_the_corpus() {
    for path in corpus::files("kineto") {
        let trace = read_file(&path);
        let scope = Scope::default();
        // Every operation is either launched or counted as without launch.
        let launches = hta_launch_stats::exact(&trace, &scope);
        let counted = number(&launches, "count", 0).unwrap() as usize;
        let orphans: usize = launches.notes[1].split(' ').next().unwrap().parse().unwrap();
        assert_eq!(counted + orphans, trace.gpu.len(), "{}", path.display());
        // Gaps and busy time of a stream fill its window.
        let idle = hta_idle_time::exact(&trace, &scope, 30_000);
        let mut streams: BTreeMap<(i64, i64), Vec<(i64, i64)>> = BTreeMap::new();
        for (row, &event) in trace.gpu.event.iter().enumerate().filter(|(_, e)| trace.events.is_plausible(**e)) {
            let span = (trace.events.start[event.index()], trace.events.end(event));
            streams.entry((i64::from(trace.gpu.device[row]), trace.gpu.stream[row])).or_default().push(span);
        }
        let mut gaps: BTreeMap<(i64, i64), i64> = BTreeMap::new();
        for i in 0..idle.rows() {
            let key = |c: &str| number(&idle, c, i).unwrap() as i64;
            *gaps.entry((key("device"), key("stream"))).or_default() += key("time_ns");
        }
        for (stream, spans) in streams {
            let busy = stackline_timeline::intervals::union(spans);
            let window = busy.last().unwrap().1 - busy[0].0;
            let filled = stackline_timeline::intervals::total(&busy) + gaps[&stream];
            assert_eq!(filled, window, "{}: device and stream {stream:?}", path.display());
        }
        // A selection of steps never has more than the whole.
        if let Some(step) = trace.steps.first() {
            let one = Scope::from_steps(Some((step.number, step.number)));
            let rows = HtaRows::load(&trace, &one);
            assert!(rows.rows.len() <= HtaRows::load(&trace, &scope).rows.len());
            for analysis in analyses::ALL.iter().filter(|a| a.name.starts_with("hta_")) {
                let _ = (analysis.run)(&trace, &one);
            }
        }
    }
}

fn kernel(name: &str, stream: usize, ts: &str, dur: &str, correlation: usize) -> String {
    format!("gpu0/{stream} kernel {name} {ts}+{dur} correlation={correlation}")
}

fn call(name: &str, cat: &str, ts: usize, args: &str) -> String {
    format!("1/1 {cat} {name} {ts}+2 {args}")
}

fn run(name: &str, trace: &Trace) -> Vec<Table> {
    (analyses::find(name).unwrap().run)(trace, &Scope::default())
}

#[test]
fn kernel_types_agree_between_tables() {
    let names = [
        ("gemm", "computation"),
        ("__amd_rocclr_copyBuffer", "memory"),
        ("__amd_rocclr_fillBufferAligned", "memory"),
        ("void vllm::cross_device_reduce_1stage<float>()", "communication"),
        ("void deep_ep::intranode::dispatch<8>(int*)", "communication"),
    ];
    let events: Vec<String> =
        names.iter().enumerate().map(|(i, (name, _))| kernel(name, 7, &format!("{}", 10 * i), "10", i + 1)).collect();
    let trace = read_mini(&events.join("\n"));
    let tables = run("gpu_time", &trace);
    for (name, kind) in names {
        let row = (0..5).find(|&r| text(&tables[1], "name", r) == name).unwrap();
        assert_eq!(text(&tables[1], "kind", row), kind, "{name}");
    }
    let times: Vec<f64> = (0..3).map(|r| number(&tables[0], "time_ns", r).unwrap()).collect();
    assert_eq!(times, [10_000.0, 20_000.0, 20_000.0]);
    assert!(tables.iter().all(|t| t.notes.iter().any(|n| n.contains("of the GPU time, 0.0 % has a known launch"))));
    // Fills are computation here, as in TraceLens.
    let timeline = &run("gpu_timeline", &trace)[0];
    let times: Vec<f64> = (0..3).map(|r| number(timeline, "time_ms", r).unwrap()).collect();
    assert_eq!(times, [0.02, 0.02, 0.01]);
    let collectives = &run("coll_analysis", &trace)[0];
    let families: Vec<String> = (0..collectives.rows()).map(|r| text(collectives, "family", r)).collect();
    assert_eq!(families, ["all_reduce", "all_to_all"]);
    assert!(!classify::is_tracelens_communication(names[3].0));
}

#[test]
fn time_sums_are_exact_without_overflow() {
    // 3 kernels of 1.001 µs at a clock whose ns have no exact f64.
    let at = |i: usize| format!("{}.001", 1_695_835_535_123_456u64 + 10 * i as u64);
    let trace = read_mini(&(0..3).map(|i| kernel("gemm", 7, &at(i), "1.001", i + 1)).collect::<Vec<_>>().join("\n"));
    assert_eq!(number(&run("hta_kernel_breakdown", &trace)[0], "time_ns", 0), Some(3003.0));
    // 11 kernels of 10^18 ns are more than an i64 holds.
    let mut long = read_mini(&(0..11).map(|i| kernel("gemm", i, "0", "5", i + 1)).collect::<Vec<_>>().join("\n"));
    for dur in &mut long.events.dur {
        *dur = 1_000_000_000_000_000_000;
    }
    for event in 0..long.events.len() {
        long.events.flags[event] &= !stackline_model::flags::IMPLAUSIBLE;
    }
    let most = i64::MAX as f64;
    assert_eq!(number(&run("hta_kernel_breakdown", &long)[1], "time_ns", 0), Some(most));
    assert_eq!(number(&hta_annotations::exact(&long, &Scope::default()), "time_ns", 0), Some(most));
    for analysis in analyses::ALL {
        let _ = (analysis.run)(&long, &Scope::default());
    }
}

#[test]
fn shared_correlation_id_has_bounded_output() {
    let mut events: Vec<String> =
        (0..1000).map(|i| call("cudaLaunchKernel", "cuda_runtime", 10 * i, "correlation=5")).collect();
    events.extend((0..1000).map(|i| kernel("gemm", 7, &format!("{}", 10 * i + 5), "3", 5)));
    let trace = read_mini(&events.join("\n"));
    let rows = HtaRows::load(&trace, &Scope::default());
    let expected = 64 * 1000 + 936;
    assert_eq!(hta_launch_stats::pairs(&rows, true).len(), expected);
    assert_eq!(hta_queue_length::series(&rows)[&7].len(), expected + 1000);
    for table in [&run("hta_launch_stats", &trace)[1], &run("hta_queue_length", &trace)[0]] {
        assert!(table.notes.iter().any(|n| n.contains("936 of these calls")), "{:?}", table.notes);
    }
}

#[test]
fn counter_columns_are_bounded() {
    let mut events = vec![];
    for i in 0..300 {
        events.push(call("cudaLaunchKernel", "cuda_runtime", 10 * i, &format!("correlation={}", i + 1)));
        events.push(call("gemm", "cuda_profiler_range", 10 * i + 5, &format!("counter_{i:03}=1")));
    }
    let table = &run("hta_counters", &read_mini(&events.join("\n")))[0];
    assert_eq!((table.rows(), table.columns.len()), (300, 5 + hta_counters::MAX_COUNTERS));
    assert!(table.notes[0].starts_with("The trace has 300 different counters"));
}
