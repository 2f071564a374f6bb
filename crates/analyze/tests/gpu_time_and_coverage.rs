//! `gpu_time` and `coverage` over every trace of the corpus: sums that must hold, against plain recounts.

use crate::support::{read, read_mini};
use stackline_analyze::analyses;
use stackline_critical_path::exact::Exact;
use stackline_ingest::{ReadOptions, read_paths};
use stackline_model::{GpuOpId, Severity, Table, Trace, flags};
use stackline_testkit::corpus;
use stackline_testkit::tables::{integers, texts};
use stackline_timeline::Scope;
use stackline_timeline::intervals::{total, union};
use stackline_timeline::kernel_type::{KernelType, NameTypes, RULES};
use stackline_timeline::steps::StepSelection;
use std::collections::{BTreeMap, BTreeSet};

fn traces() -> Vec<Trace> {
    let Some(corpus) = corpus::folder() else { return Vec::new() };
    read_paths(&[corpus.join("kineto")], &ReadOptions::default()).unwrap().traces
}

fn run(name: &str, trace: &Trace) -> Vec<Table> {
    (analyses::find(name).unwrap().run)(trace, &Scope::default())
}

/// Spans of plausible operations per device.
fn spans(trace: &Trace) -> BTreeMap<i64, Vec<(i64, i64)>> {
    spans_of(trace, |_| true)
}

fn spans_of(trace: &Trace, mut test: impl FnMut(stackline_model::EventId) -> bool) -> BTreeMap<i64, Vec<(i64, i64)>> {
    let mut spans: BTreeMap<i64, Vec<(i64, i64)>> = BTreeMap::new();
    for gpu in trace.gpu.ids() {
        let event = trace.gpu.event[gpu.index()];
        if trace.events.is_plausible(event) && test(event) {
            let device = i64::from(trace.gpu.device[gpu.index()]);
            spans.entry(device).or_default().push((trace.events.start[event.index()], trace.events.end(event)));
        }
    }
    spans
}

/// Work without a recorded launch on tracks that lack launches only at their beginning, numbered below all launches of the track: it was
/// launched before the recording began.
fn launched_before_recording(trace: &Trace) -> BTreeSet<GpuOpId> {
    let row = |gpu: GpuOpId| {
        let event = trace.gpu.event[gpu.index()].index();
        (trace.events.track[event], trace.events.start[event], gpu)
    };
    let mut all: Vec<_> =
        trace.gpu.ids().map(row).filter(|row| trace.events.is_plausible(trace.gpu.event[row.2.index()])).collect();
    all.sort_unstable();
    let mut found = BTreeSet::new();
    for track in all.chunk_by(|a, b| a.0 == b.0) {
        let (linked, unlinked): (Vec<GpuOpId>, Vec<GpuOpId>) =
            track.iter().map(|row| row.2).partition(|gpu| trace.gpu.launch[gpu.index()].is_some());
        let is_head = track.iter().take(unlinked.len()).all(|row| unlinked.contains(&row.2));
        let first = linked.iter().map(|gpu| trace.gpu.correlation[gpu.index()]).min();
        let is_before = |gpu: &GpuOpId| first.is_some_and(|first| trace.gpu.correlation[gpu.index()] < first);
        found.extend(unlinked.into_iter().filter(|gpu| is_head && is_before(gpu)));
    }
    found
}

/// End of all plausible work that a step's process, or an unknown one, launched before a moment; that moment at the earliest.
fn work_end(trace: &Trace, old: &BTreeSet<GpuOpId>, step: &stackline_model::Step, moment: i64) -> i64 {
    let pid = |event: stackline_model::EventId| trace.tracks.pid(trace.events.track[event.index()]);
    let work = trace.gpu.ids().filter_map(|gpu| {
        let (event, launch) = (trace.gpu.event[gpu.index()], trace.gpu.launch[gpu.index()]);
        let is_known = launch.is_some();
        let launched = trace.events.start[if is_known { launch } else { event }.index()];
        let counts = trace.events.is_plausible(event) && (!is_known || pid(launch) == pid(step.event));
        (counts && (launched < moment || old.contains(&gpu))).then(|| trace.events.end(event))
    });
    work.fold(moment, i64::max)
}

/// Time ranges of steps with their work.
fn step_spans(trace: &Trace) -> Vec<(i64, i64)> {
    let old = launched_before_recording(trace);
    trace
        .steps
        .iter()
        .map(|step| (work_end(trace, &old, step, step.start), work_end(trace, &old, step, step.end)))
        .collect()
}

/// Time range from the start of the first to the end of the last step with its work, without a first one that warms up.
fn step_window(trace: &Trace) -> Option<(i64, i64)> {
    let spans = step_spans(trace);
    let mut others: Vec<i64> = spans.iter().skip(1).map(|(from, to)| to - from).collect();
    others.sort_unstable();
    // A first step of more than twice the usual length warms up.
    let usual = others.get(others.len() / 2).filter(|_| others.len() >= 2);
    let warms_up = usual.is_some_and(|usual| spans[0].1 - spans[0].0 > 2 * usual);
    let counted = &spans[usize::from(warms_up)..];
    Some((counted.iter().map(|span| span.0).min()?, counted.iter().map(|span| span.1).max()?))
}

#[test]
fn gpu_time_adds_up_to_the_window_of_each_device() {
    for trace in traces() {
        if let Some(window) = step_window(&trace) {
            let selection = StepSelection::select(&trace, &Scope::default());
            assert_eq!(selection.window(&trace), Some(window), "{}", trace.meta.name);
            let exact = Exact::new(&trace);
            let path = exact.window(&selection.choice).map(|window| (window.start, window.end));
            assert_eq!(path.ok(), Some(window), "the path's, {}", trace.meta.name);
        }
        let tables = run("gpu_time", &trace);
        let (device, category) = (integers(&tables[0], "device"), texts(&tables[0], "category"));
        let time = integers(&tables[0], "time_ns");
        let mut sums: BTreeMap<i64, (i64, i64)> = BTreeMap::new();
        for row in 0..time.len() {
            let sum = sums.entry(device[row]).or_default();
            if category[row].starts_with("idle") { sum.1 += time[row] } else { sum.0 += time[row] }
        }
        let mut types = NameTypes::new(&trace, RULES);
        let mut working = spans_of(&trace, |event| types.of_event(event) != KernelType::Other);
        let expected: BTreeMap<i64, (i64, i64)> = spans(&trace)
            .into_iter()
            .map(|(device, spans)| {
                let all = union(spans);
                let (first, last) = step_window(&trace).unwrap_or((all[0].0, all.last().unwrap().1));
                // Waits on the device's own queue are no work.
                let working = working.remove(&device).unwrap_or_default();
                let covered = union(working.iter().map(|s| (s.0.max(first), s.1.min(last))).filter(|s| s.0 < s.1));
                (device, (total(&covered), last - first - total(&covered)))
            })
            .collect();
        assert_eq!(sums, expected, "{}", trace.meta.name);
        // The kernels' table holds every operation of that time once.
        let (first, last) = step_window(&trace).unwrap_or((i64::MIN, i64::MAX));
        let runs = |s: &&(i64, i64)| s.0 < last && (s.1 > first || s.0 == first);
        let all: i64 = spans(&trace).values().flatten().filter(runs).map(|s| s.1 - s.0).sum();
        assert_eq!(integers(&tables[1], "total_ns").iter().sum::<i64>(), all, "{}", trace.meta.name);
    }
}

#[test]
fn coverage_counts_known_origins() {
    for trace in traces() {
        let table = &run("coverage", &trace)[0];
        let plausible = |g: &GpuOpId| trace.events.is_plausible(trace.gpu.event[g.index()]);
        let count = |owner: &[stackline_model::EventId]| {
            trace.gpu.ids().filter(plausible).filter(|g| owner[g.index()].is_some()).count() as i64
        };
        let gpu = &trace.gpu;
        let expected = [&gpu.launch, &gpu.operator, &gpu.python, &gpu.module, &gpu.annotation].map(|o| count(o));
        assert_eq!(integers(table, "operations")[..5], expected, "{}", trace.meta.name);
        let known = integers(table, "gpu_time_ns");
        assert!(known.iter().zip(integers(table, "gpu_time_total_ns")).all(|(k, t)| *k <= t), "{}", trace.meta.name);
    }
}

/// Fusions of a compiler are called after nothing that they do: their category says it.
#[test]
fn collectives_of_a_compiler_are_communication_by_their_category() {
    let trace = read_mini(
        r#"file -
        process 1 name=/device:TPU:0
        thread 1/3 name="XLA Ops"
        1/3  -  fusion.1  0+5   hlo_category="loop fusion"
        1/3  -  fusion.2  10+5  hlo_category="all-reduce fusion""#,
    );
    let mut types = NameTypes::new(&trace, RULES);
    let found: Vec<KernelType> = trace.gpu.event.iter().map(|&event| types.of_event(event)).collect();
    assert_eq!(found, [KernelType::Computation, KernelType::Communication]);
}

/// Each table of GPU times says where these are not those of all the work.
#[test]
fn gpu_tables_note_missing_records() {
    let noted = |trace: &Trace| -> Vec<String> {
        let all = ["operators", "steps", "gpu_time"].map(|name| run(name, trace));
        let of =
            |table: &Table| table.notes.iter().find(|note| note.starts_with("GPU times are incomplete: ")).cloned();
        let tables = all.iter().flatten().filter(|table| !["steps_spread", "coverage"].contains(&table.name.as_str()));
        let notes: Vec<Option<String>> = tables.map(of).collect();
        assert_eq!(notes.len(), 5);
        assert!(notes.iter().all(|note| *note == notes[0]), "{notes:?}");
        notes.into_iter().flatten().take(1).collect()
    };
    let text = |with_first: bool| {
        let first = if with_first { "gpu0/7 kernel gemm 12+5 correlation=1" } else { "" };
        format!(
            "1/1 user_annotation ProfilerStep#0 0+100\n1/1 cpu_op aten::mm 0+90\n\
             1/1 cuda_runtime cudaLaunchKernel 1+2 correlation=1\n1/1 cuda_runtime cudaLaunchKernel 11+2 correlation=2\n\
             gpu0/7 kernel gemm 20+30 correlation=2\n{first}"
        )
    };
    // Read anew each time: a trace keeps what it counted of its GPU records.
    let sound = || read_mini(&text(true));
    assert_eq!(noted(&sound()), [""; 0]);
    let notes = "GPU times are incomplete: 1 of 2 launches have no device record.";
    assert_eq!(noted(&read_mini(&text(false))), [notes]);

    let mut untimed = sound();
    let kernel = untimed.gpu.event[0];
    untimed.events.flags[kernel.index()] |= flags::IMPLAUSIBLE;
    assert_eq!(noted(&untimed), ["GPU times are incomplete: 1 of 2 GPU operations have no plausible time."]);
    assert_eq!(integers(&run("steps", &untimed)[0], "launched_kernels"), [2], "that they were launched is known");

    let mut cut = sound();
    cut.report.count("truncated", Severity::Lost, "", None, "");
    assert!(noted(&cut)[0].starts_with("GPU times are incomplete: the file is truncated"), "{:?}", noted(&cut));
}

/// Work that earlier steps launched runs in the window, too: the table says who launched it.
#[test]
fn kernels_table_names_the_main_launcher() {
    let trace = read_mini(
        "1/1 user_annotation ProfilerStep#0 0+100
         1/1 cpu_op aten::mm 0+10
         1/1 cuda_runtime cudaLaunchKernel 1+2 correlation=1
         1/1 cpu_op aten::addmm 20+10
         1/1 cuda_runtime cudaLaunchKernel 21+2 correlation=2
         1/1 cpu_op aten::copy_ 40+10
         1/1 cuda_runtime cudaMemcpyAsync 41+2 correlation=3
         gpu0/7 kernel gemm 5+10 correlation=1
         gpu0/7 kernel gemm 25+30 correlation=2
         gpu0/7 gpu_memcpy \"Memcpy DtoD (Device -> Device)\" 60+5 correlation=3
         gpu0/7 kernel unknown 70+1",
    );
    let tables = run("gpu_time", &trace);
    let kernels = tables.iter().find(|table| table.name == "gpu_kernels").unwrap();
    assert_eq!(texts(kernels, "name"), ["gemm", "Memcpy DtoD (Device -> Device)", "unknown"]);
    assert_eq!(texts(kernels, "launched_by"), ["aten::addmm", "aten::copy_", ""]);
}

/// A graph launch has several kernels. If one of them has no plausible time, it may have run until the next one starts.
#[test]
fn gap_after_a_lost_kernel_of_a_graph_is_unknown() {
    let graph = |duration: i64| {
        read(format!(
            r#"{{"schemaVersion": 1, "traceEvents": [
            {{"ph": "X", "cat": "cuda_runtime", "name": "cudaGraphLaunch", "pid": 1, "tid": 1, "ts": 20, "dur": 10,
              "args": {{"correlation": 1}}}},
            {{"ph": "X", "cat": "kernel", "name": "k0", "pid": 0, "tid": 7, "ts": 40, "dur": 95,
              "args": {{"correlation": 1, "device": 0, "stream": 7}}}},
            {{"ph": "X", "cat": "kernel", "name": "k1", "pid": 0, "tid": 7, "ts": 140, "dur": {duration},
              "args": {{"correlation": 1, "device": 0, "stream": 7}}}},
            {{"ph": "X", "cat": "kernel", "name": "k2", "pid": 0, "tid": 7, "ts": 240, "dur": 95,
              "args": {{"correlation": 1, "device": 0, "stream": 7}}}}]}}"#
        ))
    };
    let times = |trace: &Trace| -> Vec<(String, i64)> {
        let table = &run("gpu_time", trace)[0];
        let rows = texts(table, "category").into_iter().zip(integers(table, "time_ns"));
        rows.filter(|(category, time)| category.starts_with("idle") && *time > 0).collect()
    };
    assert_eq!(times(&graph(-1)), [("idle_unknown".to_owned(), 105_000)]);
    assert_eq!(times(&graph(95)), [("idle_kernel_wait".to_owned(), 10_000)]);
}

/// Kernels without a correlation ID have an operator by their External id, but no launch call.
#[test]
fn launches_of_kernels_linked_by_operator_count_once() {
    let lines: Vec<String> = (0..5)
        .map(|i| {
            let (at, id) = (1000 * i, i + 1);
            format!(
                "1/1    cpu_op       aten::mm          {at}+100  External id={id}
                 1/1    cuda_runtime cudaLaunchKernel  {}+10     correlation={id} External id={id}
                 gpu0/7 kernel       gemm              {}+300    External id={id}",
                at + 50,
                at + 70
            )
        })
        .collect();
    let trace = read_mini(&lines.join("\n"));
    let operators = &run("operators", &trace)[0];
    assert_eq!(texts(operators, "name"), ["aten::mm"]);
    assert_eq!((integers(operators, "calls"), integers(operators, "launches_self")), (vec![5], vec![5]));
    assert_eq!(integers(operators, "launches_total"), [5]);
}

/// The read report says that totals exclude records without a usable time.
#[test]
fn operators_without_a_usable_time_are_not_counted() {
    let mut trace = read_mini("1/1 cpu_op aten::mm 0+100\n1/1 cpu_op aten::mm 200+100\n1/1 cpu_op aten::add 400+50");
    for event in [1, 2] {
        trace.events.flags[event] |= flags::NO_TIME;
    }
    for table in run("operators", &trace).iter().take(2) {
        assert_eq!((texts(table, "name"), integers(table, "calls")), (vec!["aten::mm".to_owned()], vec![1]));
    }
}
