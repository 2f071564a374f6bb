//! Non-time metrics of call trees: launches, copied bytes, idle GPU time, memory.

use crate::support::{read, read_mini};
use proptest::prelude::*;
use stackline_analyze::analyses::find;
use stackline_calls::{TimeRange, calls_by_thread, trace_calls};
use stackline_model::{CallMetric, CallingContextTree, Values};
use stackline_testkit::demo;
use stackline_timeline::Scope;
use std::collections::BTreeMap;

fn tree(lines: &str) -> CallingContextTree {
    calls_by_thread(&read_mini(lines), TimeRange::Whole).tree
}

/// Own values of a metric by name of frame; those of the root by none.
fn own(tree: &CallingContextTree, metric: CallMetric) -> BTreeMap<String, u64> {
    let mut found = BTreeMap::new();
    for (node, stats) in tree.nodes.ids().zip(tree.exclusive(metric, |_| true)) {
        if stats.sum > 0 {
            let name = tree.frame(node).map(|frame| frame.name(&tree.strings).to_owned()).unwrap_or_default();
            *found.entry(name).or_default() += stats.sum;
        }
    }
    found
}

/// One launch: the span of its call, and the length and delay of its kernel, on one of two streams.
type Launch = (i64, i64, i64, i64, bool);

/// The trace; calls by name, start and end; and kernels by start, end and the end of the call that launched them. In us.
type Program = (String, Vec<(String, i64, i64)>, Vec<(i64, i64, i64)>);

/// Launches on one thread, one after the other, each inside of an operator; with gaps outside of any call.
fn program(launches: &[Launch]) -> Program {
    let (mut lines, mut host, mut gpu) = (String::new(), Vec::new(), Vec::new());
    let (mut at, mut streams) = (0, [0, 0]);
    for (row, &(before, call, delay, length, second)) in launches.iter().enumerate() {
        let operator = (at, at + before + call + 3);
        let call = (at + before, at + before + call);
        let name = (format!("op{row}"), format!("launch{row}"));
        let free = &mut streams[usize::from(second)];
        let kernel = ((call.1 + delay).max(*free), (call.1 + delay).max(*free) + length);
        *free = kernel.1;
        let correlation = row + 1;
        lines += &format!(
            "1/1         cpu_op        {}           {}..{}
             1/1         cuda_runtime  {}           {}..{}  correlation={correlation}
             gpu0/{}     kernel        kernel{row}  {}..{}  correlation={correlation}\n",
            name.0,
            operator.0,
            operator.1,
            name.1,
            call.0,
            call.1,
            7 + i64::from(second),
            kernel.0,
            kernel.1
        );
        host.extend([(name.0, operator.0, operator.1), (name.1, call.0, call.1)]);
        gpu.push((kernel.0, kernel.1, call.1));
        at = operator.1 + 2;
    }
    (lines, host, gpu)
}

/// Idle time by call path, from one moment to the next (1 us each).
fn idle_by_moment(host: &[(String, i64, i64)], gpu: &[(i64, i64, i64)]) -> BTreeMap<String, u64> {
    let mut found = BTreeMap::new();
    let (from, to) = (gpu.iter().map(|k| k.0).min().unwrap(), gpu.iter().map(|k| k.1).max().unwrap());
    for moment in (from..to).filter(|moment| !gpu.iter().any(|&(start, end, _)| (start..end).contains(moment))) {
        let next = (0..gpu.len()).filter(|&k| gpu[k].0 > moment).min_by_key(|&k| gpu[k].0).unwrap();
        let name = if moment < gpu[next].2 {
            let running = host.iter().filter(|(_, start, end)| (*start..*end).contains(&moment));
            running.max_by_key(|(_, start, _)| *start).map(|(name, ..)| name.clone()).unwrap_or_default()
        } else {
            format!("kernel{next}")
        };
        *found.entry(name).or_default() += 1000;
    }
    found
}

proptest! {
    #[test]
    fn idle_time_is_that_of_each_moment(
        launches in proptest::collection::vec((0_i64..9, 1_i64..5, 0_i64..6, 1_i64..30, any::<bool>()), 1..12),
    ) {
        let (lines, host, gpu) = program(&launches);
        let tree = tree(&lines);
        // Two kernels that begin at once end the same gap: either may be told.
        let mut starts: Vec<i64> = gpu.iter().map(|kernel| kernel.0).collect();
        starts.sort_unstable();
        starts.dedup();
        prop_assume!(starts.len() == gpu.len());
        prop_assert_eq!(own(&tree, CallMetric::GpuIdle), idle_by_moment(&host, &gpu));
        let launched: BTreeMap<String, u64> = (0..launches.len()).map(|row| (format!("launch{row}"), 1)).collect();
        prop_assert_eq!(own(&tree, CallMetric::Launches), launched);
    }
}

#[test]
fn idle_time_counts_for_another_thread_outside_calls() {
    let tree = tree(
        "1/1     cuda_runtime  first         0..2    correlation=1
         1/1     cpu_op        loader        5..40
         1/2     cpu_op        AddBackward0  50..60
         1/2     cuda_runtime  second        52..55  correlation=2
         gpu0/7  kernel        k             3..10   correlation=1
         gpu0/7  kernel        k             57..70  correlation=2",
    );
    // 10 to 40 in the loader, to 50 in no call, to 52 in the operator, to 55 in the call, and 57 is when the GPU began.
    let expected = [("", 10_000), ("AddBackward0", 2_000), ("k", 2_000), ("loader", 30_000), ("second", 3_000)];
    let expected = expected.iter().map(|&(name, ns)| (name.to_owned(), ns)).collect();
    assert_eq!(own(&tree, CallMetric::GpuIdle), expected);
}

/// A copy to the host was requested before the gap, and its call returns after it; so does that of a graph.
#[test]
fn late_returning_calls_cause_no_idle_time() {
    let trace = read_mini(
        "1/1     cuda_runtime  cudaLaunchKernel  0..5        correlation=1
         1/1     cuda_runtime  cudaMemcpyAsync   10..1012    correlation=2
         1/1     cuda_runtime  cudaGraphLaunch   1014..1050  correlation=3
         gpu0/7  kernel        gemm              8..1000     correlation=1
         gpu0/7  gpu_memcpy    Memcpy DtoH       1003..1010  correlation=2
         gpu0/7  kernel        a                 1020..1022  correlation=3
         gpu0/7  kernel        b                 1026..1030  correlation=3",
    );
    let expected =
        [("Memcpy DtoH", 3_000), ("", 2_000), ("cudaMemcpyAsync", 2_000), ("cudaGraphLaunch", 6_000), ("b", 4_000)];
    let expected = expected.iter().map(|&(name, ns)| (name.to_owned(), ns)).collect();
    assert_eq!(own(&calls_by_thread(&trace, TimeRange::Whole).tree, CallMetric::GpuIdle), expected);
    let time = &(find("gpu_time").unwrap().run)(&trace, &Scope::default())[0];
    let Values::I64(ns) = &time.column("time_ns").unwrap().values else { panic!("whole numbers") };
    let idle: Vec<i64> = ns.iter().flatten().skip(3).copied().collect();
    assert_eq!(idle, [10_000, 7_000, 0], "host, kernels, other");
}

#[test]
fn a_graph_is_one_launch_and_copies_have_bytes() {
    let tree = tree(
        "1/1     cpu_op        replay           0..9
         1/1     cuda_runtime  cudaGraphLaunch  1..8    correlation=5
         gpu0/7  kernel        a                10..12  correlation=5
         gpu0/7  gpu_memcpy    Memcpy DtoD      12..14  correlation=5 bytes=4096
         gpu0/7  gpu_memset    Memset           14..16  correlation=5 bytes=64",
    );
    let expected = |names: &[(&str, u64)]| names.iter().map(|&(name, value)| (name.to_owned(), value)).collect();
    assert_eq!(own(&tree, CallMetric::Launches), expected(&[("cudaGraphLaunch", 1)]));
    assert_eq!(own(&tree, CallMetric::Copied), expected(&[("Memcpy DtoD", 4096), ("Memset", 64)]));
    assert!(own(&tree, CallMetric::GpuIdle).is_empty());
}

#[test]
fn memory_counts_at_the_enclosing_call() {
    let tree = tree(
        "1/1  cpu_op             outer     0..20
         1/1  cpu_op             inner     5..9
         1/1  cpu_instant_event  [memory]  @6   Bytes=100 Device Type=0 Device Id=-1 Addr=64 Total Allocated=0
         1/1  cpu_instant_event  [memory]  @8   Bytes=20 Device Type=0 Device Id=-1 Addr=64 Total Allocated=0
         1/1  cpu_instant_event  [memory]  @12  Bytes=-100 Device Type=0 Device Id=-1 Addr=64 Total Allocated=0
         1/1  cpu_instant_event  [memory]  @30  Bytes=7 Device Type=0 Device Id=-1 Addr=64 Total Allocated=0",
    );
    let expected = |names: &[(&str, u64)]| names.iter().map(|&(name, value)| (name.to_owned(), value)).collect();
    assert_eq!(own(&tree, CallMetric::Allocated), expected(&[("", 7), ("inner", 120)]));
    assert_eq!(own(&tree, CallMetric::Freed), expected(&[("outer", 100)]));
}

/// In 2021 a thread's number was text, but not where memory is concerned.
#[test]
fn memory_counts_on_threads_with_text_numbers() {
    let tree = tree(
        r#"1/"41"      Operator  one       0..20
           1/"42"      Operator  two       5..9
           1/a_pool    Operator  pool      0..30
           1/41        -         [memory]  @6     Bytes=100 Device Type=0 Device Id=-1
           1/42        -         [memory]  @6     Bytes=20 Device Type=0 Device Id=-1
           1/43        -         [memory]  @6     Bytes=3 Device Type=0 Device Id=-1"#,
    );
    let expected = [("", 3), ("one", 100), ("two", 20)].map(|(name, bytes)| (name.to_owned(), bytes));
    assert_eq!(own(&tree, CallMetric::Allocated), BTreeMap::from(expected));
}

/// One name alternates between all kinds of frames: no frame is mistaken for the previous one.
#[test]
fn frames_with_equal_names_are_distinguished() {
    let kinds = ["cpu_op", "user_annotation", "python_function"];
    let lines: Vec<String> = (0..9).map(|at| format!("1/1 {} same {at}0+5", kinds[at % 3])).collect();
    let tree = tree(&lines.join("\n"));
    let calls = tree.exclusive(CallMetric::HostTime, |_| true);
    let frames: Vec<_> =
        tree.nodes.ids().filter_map(|node| Some((tree.frame(node)?, calls[node.index()].count))).collect();
    assert_eq!(frames.len(), 3, "{frames:?}");
    assert!(frames.iter().all(|&(_, count)| count == 3), "{frames:?}");
}

#[test]
fn tree_contains_all_counted_metrics() {
    let text = demo::generate(&demo::Config { steps: 3, layers: 2, ..demo::Config::default() });
    let trace = read(text);
    let tree = calls_by_thread(&trace, TimeRange::Whole).tree;
    let total = |metric| own(&tree, metric).values().sum::<u64>();
    let bandwidth = stackline_analyze::analyses::hta_memory_bandwidth::exact(&trace, &Scope::default());
    let Values::I64(column) = &bandwidth.column("bytes").unwrap().values else { panic!("whole numbers") };
    let bytes: i64 = column.iter().flatten().sum();
    assert!(bytes > 0);
    assert_eq!(total(CallMetric::Copied), bytes as u64);
    let mut launches: Vec<_> = trace.gpu.launch.iter().filter(|launch| launch.some().is_some()).collect();
    launches.sort_unstable();
    launches.dedup();
    assert_eq!(total(CallMetric::Launches), launches.len() as u64);
    let spans = trace.gpu.event.iter().map(|&event| (trace.events.start[event.index()], trace.events.end(event)));
    let busy = stackline_timeline::intervals::union(spans);
    let gaps: i64 = busy.windows(2).map(|pair| pair[1].0 - pair[0].1).sum();
    assert_eq!(total(CallMetric::GpuIdle), gaps as u64);
}

/// Steps of which no launches are known: the first one warms up.
#[test]
fn unlaunched_gpu_work_counts_by_execution_time() {
    let mut lines = String::new();
    for (number, at, length) in [(0, 0, 3000), (1, 3000, 1000), (2, 4000, 1000), (3, 5000, 1000)] {
        lines += &format!(
            "1/1     user_annotation  ProfilerStep#{number}  {}..{}
             1/1     cpu_op           aten::mm               {}..{}
             gpu0/7  kernel           gemm                   {}..{}\n",
            at,
            at + length,
            at + 10,
            at + 60,
            at + 100,
            at + 800
        );
    }
    let trace = read_mini(&lines);
    let gpu = |part| own(&calls_by_thread(&trace, part).tree, CallMetric::GpuTime);
    assert_eq!(gpu(TimeRange::Chosen), [("gemm".to_owned(), 2_100_000)].into());
    assert_eq!(gpu(TimeRange::Steps(2, 2)), [("gemm".to_owned(), 700_000)].into());
    assert_eq!(gpu(TimeRange::Whole), [("gemm".to_owned(), 2_800_000)].into());
    let idle = own(&calls_by_thread(&trace, TimeRange::Steps(2, 2)).tree, CallMetric::GpuIdle);
    assert_eq!(idle, [("gemm".to_owned(), 300_000)].into());
    let of_rules = trace_calls(&trace, &Scope::from_steps(Some((2, 2)))).tree;
    assert_eq!(own(&of_rules, CallMetric::GpuTime), [("gemm".to_owned(), 700_000)].into());
}

/// A kernel with a launch, one without samples, and samples of a kernel that was not recorded.
const SAMPLED: &str = r#"{"traceEvents": [
    {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 0, "dur": 8},
    {"ph": "X", "cat": "cuda_runtime", "name": "hipLaunchKernel", "pid": 1, "tid": 1, "ts": 2, "dur": 4, "args": {"correlation": 3}},
    {"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": 10, "dur": 10,
     "args": {"device": 0, "stream": 7, "correlation": 3, "stall_reasons": {"waitcnt": 2, "issued": 1}}},
    {"ph": "X", "cat": "kernel", "name": "relu", "pid": 0, "tid": 7, "ts": 30, "dur": 10, "args": {"device": 0, "stream": 7}},
    {"ph": "P", "cat": "gpu_instruction_sample", "name": "s_waitcnt", "pid": 0, "tid": 7, "ts": 12, "sf": "12", "args": {"count": 1}},
    {"ph": "P", "cat": "gpu_instruction_sample", "name": "s_waitcnt", "pid": 0, "tid": 7, "ts": 14, "sf": "12", "args": {"count": 1}},
    {"ph": "P", "cat": "gpu_instruction_sample", "name": "s_endpgm", "pid": 0, "tid": 7, "ts": 19, "sf": "g", "args": {"count": 1}},
    {"ph": "P", "cat": "gpu_instruction_sample", "name": "s_endpgm", "pid": 0, "tid": 9, "ts": 25, "sf": "u", "args": {"count": 1}}],
    "stackFrames": {"g": {"category": "kernel", "name": "gemm"}, "u": {"category": "kernel", "name": "lost"},
        "12": {"category": "device_function", "name": "/src/gemm.hip:12", "parent": "g"}}}"#;

/// Number of instruction samples by call path.
fn instruction_samples(tree: &CallingContextTree) -> BTreeMap<String, u64> {
    let is_it = |metric: &CallMetric| metric.name(&tree.strings) == "instruction_samples";
    let metric = tree.measured().into_iter().find(is_it).unwrap();
    let exclusive = tree.exclusive(metric, |_| true);
    let name = |node| tree.frame(node).map(|frame| frame.name(&tree.strings)).unwrap_or_default();
    let sampled = tree.nodes.ids().zip(exclusive).filter(|(_, stats)| stats.sum > 0);
    sampled
        .map(|(node, stats)| (tree.path(node).into_iter().map(name).collect::<Vec<_>>().join(" > "), stats.sum))
        .collect()
}

#[test]
fn samples_of_instructions_are_below_the_line_of_their_kernel() {
    let trace = read(SAMPLED);
    let expected: BTreeMap<String, u64> = [
        ("aten::mm > hipLaunchKernel > gemm > gemm.hip:12 > s_waitcnt", 2),
        ("aten::mm > hipLaunchKernel > gemm > s_endpgm", 1),
        ("lost > s_endpgm", 1),
    ]
    .map(|(path, count)| (path.to_owned(), count))
    .into();
    let by_thread = calls_by_thread(&trace, TimeRange::Whole).tree;
    assert_eq!(instruction_samples(&by_thread), expected);
    assert_eq!(instruction_samples(&trace_calls(&trace, &Scope::default()).tree), expected);
    // Times stay those of the kernels.
    assert_eq!(own(&by_thread, CallMetric::GpuTime), [("gemm".to_owned(), 10_000), ("relu".to_owned(), 10_000)].into());
    let lines: Vec<(String, u32)> = by_thread
        .frames
        .iter()
        .filter_map(|frame| Some((frame.file_text(&by_thread.strings).to_owned(), frame.line()?)))
        .collect();
    assert_eq!(lines, [("/src/gemm.hip".to_owned(), 12)]);
}

#[test]
fn samples_of_instructions_are_no_source_of_gpu_lines() {
    let trace = read(SAMPLED);
    let table = &(find("gpu_lines").unwrap().run)(&trace, &Scope::default())[0];
    assert!(format!("{table:?}").contains("has neither Python frames nor source lines"), "{table:?}");
}
