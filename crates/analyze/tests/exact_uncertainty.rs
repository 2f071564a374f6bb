//! Certain and uncertain parts of the exact path, in tiny traces with records that are wrong or missing.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "test code outside test functions"
)]

use crate::support::{mini, read};
use stackline_critical_path::exact::{Category, Exact, ExactPath, PathSegment, WindowChoice, what_if};
use stackline_critical_path::gpu_order::Evidence;
use stackline_model::Trace;
use stackline_testkit::mini::MiniTrace;

fn path(trace: &Trace) -> (Vec<&'static str>, ExactPath) {
    let exact = Exact::new(trace);
    let warnings = exact.warnings().into_iter().map(|w| w.code).collect();
    (warnings, exact.path(&WindowChoice::Whole).unwrap())
}

fn segments_of<'a>(trace: &'a Trace, path: &'a ExactPath, name: &'a str) -> impl Iterator<Item = PathSegment> + 'a {
    path.segments.iter().filter(move |h| h.event.is_some() && trace.name(h.event) == name)
}

/// Two kernels of a stream; by its record, the first ends long after the second began.
fn late_flush() -> MiniTrace {
    mini(
        "10/10   cpu_op        aten::mm          0+60
         10/10   cuda_runtime  cudaLaunchKernel  10+10    correlation=1
         10/10   cuda_runtime  cudaLaunchKernel  30+10    correlation=2
         gpu0/7  kernel        long              40+900   correlation=1
         gpu0/7  kernel        short             140+100  correlation=2",
    )
}

#[test]
fn end_of_overlong_kernel_is_inferred() {
    let trace = read(late_flush().json());
    let (warnings, path) = path(&trace);
    assert!(warnings.contains(&"overlong_operations"), "{warnings:?}");
    let evidence: Vec<Evidence> =
        segments_of(&trace, &path, "long").filter(|h| h.rule == "record").map(|h| h.evidence).collect();
    assert_eq!(evidence, [Evidence::Inferred]);
}

#[test]
fn clipped_kernel_is_exact() {
    let options = stackline_ingest::ReadOptions { clip_overlaps: true, ..Default::default() };
    let trace = stackline_ingest::read_bytes("t.json", late_flush().json().as_bytes(), &options).unwrap();
    let (warnings, path) = path(&trace);
    assert!(!warnings.contains(&"overlong_operations"), "{warnings:?}");
    let records: Vec<_> = path.segments.iter().filter(|h| h.rule == "record").map(|h| h.evidence).collect();
    assert!(!records.is_empty() && records.iter().all(|&evidence| evidence == Evidence::Exact), "{records:?}");
}

/// Five launches and kernels of a process and its device, with `lost` without the second kernel's launch and the third
/// launch's kernel.
fn rank(t: &mut MiniTrace, process: i64, lost: bool) {
    let device = process - 100;
    for i in 0..5_i64 {
        let correlation = process * 10 + i;
        if !(lost && i == 1) {
            let call = format!("{process}/{process} cuda_runtime cudaLaunchKernel 0+5 correlation={correlation}");
            t.add_at(20 * i, &call);
        }
        if !(lost && i == 2) {
            t.add_at(20 * i, &format!("gpu{device}/7 kernel work 10+15 correlation={correlation}"));
        }
    }
}

#[test]
fn missing_records_of_one_process_do_not_affect_others() {
    let mut t = mini("");
    rank(&mut t, 100, false);
    rank(&mut t, 101, true);
    let trace = read(t.json());
    let exact = Exact::new(&trace);
    let of = |rule: &str| exact.graph().edges.iter().filter(|e| e.dependency.rule() == rule).count();
    assert_eq!((of("stream_order"), of("stream_order_amid_loss")), (4, 2));
}

/// Without launches, host time may be a wait for the GPU. A few missing records change nothing far from them.
#[test]
fn host_time_is_inferred_where_launches_or_kernels_are_missing() {
    let mut unlaunched = mini("10/10 cpu_op aten::mm 0+1000");
    let mut lost = mini("10/10 cpu_op aten::mm 0+1000");
    let mut sound = mini("10/10 cpu_op aten::mm 0+1000");
    for i in 0..10_i64 {
        let call = format!("10/10 cuda_runtime cudaLaunchKernel 10+5 correlation={}", i + 1);
        let kernel = format!("gpu0/7 kernel work 20+30 correlation={}", i + 1);
        unlaunched.add_at(90 * i, "gpu0/7 kernel work 20+30");
        lost.add_at(90 * i, &call);
        sound.add_at(90 * i, &call);
        sound.add_at(90 * i, &kernel);
        if i % 9 == 0 || i == 4 {
            lost.add_at(90 * i, &kernel);
        }
    }
    let causes = [(unlaunched, "launches_not_recorded", 10), (lost, "kernels_not_recorded", 7)];
    for (t, code, count) in causes {
        let trace = read(t.json());
        let exact = Exact::new(&trace);
        let path = exact.path(&WindowChoice::Whole).unwrap();
        let report = exact.report(&path);
        let unreliable: Vec<_> = report.unreliable().map(|warning| (warning.code, warning.count)).collect();
        assert_eq!(unreliable, [(code, count)]);
        let on_host = || segments_of(&trace, &path, "aten::mm");
        assert!(on_host().next().is_some() && on_host().all(|h| h.evidence == Evidence::Inferred), "{code}");
    }
    let trace = read(sound.json());
    let exact = Exact::new(&trace);
    let path = exact.path(&WindowChoice::Whole).unwrap();
    assert_eq!(exact.report(&path).unreliable().count(), 0);
    assert!(segments_of(&trace, &path, "aten::mm").any(|h| h.evidence == Evidence::Exact));
}

/// Operators that launch one kernel each, 100 µs apart, and wait for it; `calls` of the launch calls have a record.
fn operators_with_calls(operators: i64, calls: i64) -> MiniTrace {
    let mut t = mini("");
    for i in 0..operators {
        let id = i + 1;
        t.add_at(100 * i, &format!("10/10 cpu_op aten::mm 0+90 External id={id}"));
        if i < calls {
            let call = format!("10/10 cuda_runtime cudaLaunchKernel 5+5 External id={id} correlation={id}");
            t.add_at(100 * i, &call);
        }
        t.add_at(100 * i, &format!("gpu0/7 kernel work 10+70 External id={id} correlation={id}"));
    }
    t
}

/// An external ID links an operation to its operator, but the waits of that operator remain unknown.
#[test]
fn operators_are_no_substitute_for_launch_calls() {
    let edit = what_if::Edit::parse("scale kernel:work 0.5").unwrap();
    for (operators, calls, count) in [(4, 0, Some(4)), (4, 3, Some(1)), (8, 7, None), (4, 4, None)] {
        let trace = read(operators_with_calls(operators, calls).json());
        assert!(trace.gpu.ids().all(|gpu| trace.gpu.operator[gpu.index()].is_some()));
        let exact = Exact::new(&trace);
        let path = exact.path(&WindowChoice::Whole).unwrap();
        let found: Vec<_> = exact.report(&path).unreliable().map(|warning| (warning.code, warning.count)).collect();
        let expected: Vec<_> = count.map(|count| ("launches_not_recorded", count)).into_iter().collect();
        assert_eq!(found, expected, "{calls} of {operators}");
        let notes = what_if::predict(&trace, &WindowChoice::Whole, std::slice::from_ref(&edit)).unwrap().notes;
        let is_said = notes
            .iter()
            .any(|note| note.starts_with("the causes of the critical path are uncertain: many GPU operations"));
        assert_eq!(is_said, count.is_some(), "{notes:?}");
    }
}

/// Three of eight kernels were launched before the recording began, as their correlation IDs show.
#[test]
fn launches_before_the_recording_are_not_missing() {
    let mut t = mini("10/10 cpu_op aten::mm 0+1000");
    for i in 0..8_i64 {
        let correlation = i + 1;
        t.add_at(100 * i, &format!("gpu0/7 kernel work 20+80 correlation={correlation}"));
        if i >= 3 {
            t.add_at(10 * i, &format!("10/10 cuda_runtime cudaLaunchKernel 0+5 correlation={correlation}"));
        }
    }
    let trace = read(t.json());
    let (warnings, _) = path(&trace);
    assert!(!warnings.contains(&"launches_not_recorded"), "{warnings:?}");
}

/// Two graphs of 29 kernels and two single kernels have records, four launches have none: half of the launches, but
/// only 4 of 64 kernels.
#[test]
fn a_graph_counts_as_its_kernels() {
    let mut t = mini("10/10 cpu_op aten::mm 0+1000");
    for i in 0..8_i64 {
        let (correlation, at) = (i + 1, 100 * i);
        let call = if i % 4 == 0 { "cudaGraphLaunch" } else { "cudaLaunchKernel" };
        t.add_at(at, &format!("10/10 cuda_runtime {call} 10+5 correlation={correlation}"));
        let kernels = match i % 4 {
            0 => 29,
            1 => 1,
            _ => 0,
        };
        for k in 0..kernels {
            t.add_at(at, &format!("gpu0/7 kernel work {}+2 correlation={correlation}", 20 + 2 * k));
        }
    }
    t.add("10/10 cuda_runtime cudaDeviceSynchronize 900+20 correlation=30");
    let trace = read(t.json());
    let records = trace.gpu_records();
    assert_eq!((records.launches, records.kernels, records.lack_launches), ((8, 4), (64, 4), true));
    let exact = Exact::new(&trace);
    let path = exact.path(&WindowChoice::Whole).unwrap();
    assert_eq!(exact.report(&path).unreliable().count(), 0);
}

/// Ten waits return 5 µs after their kernels, so the clock is at most 5 µs behind; ten later kernels begin 87 µs before
/// their launches. The contradiction of 82 µs is 4 % of 2 ms, but less than a thousandth of 100 ms.
#[test]
fn small_contradictions_of_clocks_matter_in_short_windows_only() {
    let unreliable = |length: i64| {
        let mut t = mini(&format!("10/10 cpu_op aten::mm 0+{length}"));
        for i in 0..21_i64 {
            let (correlation, at) = (i + 1, 100 * i);
            let start = if i < 10 { 10 } else { 10 - 95 };
            if i != 10 {
                t.add_at(at, &format!("10/10 cuda_runtime cudaLaunchKernel 2+5 correlation={correlation}"));
                t.add(&format!("gpu0/7 kernel work {}+40 correlation={correlation}", at + start));
            }
            if i < 10 {
                let call = format!("10/11 cuda_runtime cudaDeviceSynchronize 8+47 correlation={}", 100 + i);
                t.add_at(at, &call);
            }
        }
        let trace = read(t.json());
        assert_eq!(trace.report.count_of("device_clock_contradicted"), 1);
        assert_eq!(trace.meta.clocks[0].contradicted_ns, 82_000);
        let exact = Exact::new(&trace);
        let path = exact.path(&WindowChoice::Whole).unwrap();
        exact.report(&path).unreliable().map(|warning| warning.code).collect::<Vec<_>>()
    };
    assert_eq!(unreliable(2_000), ["clock_contradicted"]);
    assert_eq!(unreliable(100_000), [""; 0]);
}

#[test]
fn clock_disagreement_is_per_process() {
    let mut t = mini("");
    rank(&mut t, 100, false);
    // A kernel that starts 5 µs before its call.
    t.add(
        "200/200  cuda_runtime  cudaLaunchKernel  50+5   correlation=9000
         gpu1/7   kernel        early             45+20  correlation=9000",
    );
    let trace = read(t.json());
    let (warnings, path) = path(&trace);
    assert!(warnings.contains(&"clocks_disagree"), "{warnings:?}");
    let launches: Vec<PathSegment> = path.segments.iter().filter(|h| h.category == Category::LaunchLatency).collect();
    assert!(!launches.is_empty() && launches.iter().all(|h| h.evidence == Evidence::Exact), "{launches:?}");
}

#[test]
fn only_the_loop_of_queries_is_uncertain() {
    let mut t = mini("10/10  python_function  train.py(1): step  0+1000");
    for i in 0..10 {
        t.add(&format!("10/10 cuda_runtime cudaEventQuery {}+5 correlation={}", 400 + 20 * i, 100 + i));
    }
    let trace = read(t.json());
    let (_, path) = path(&trace);
    let inferred = path.inferred_ns();
    assert!((185_000..=200_000).contains(&inferred), "{inferred} ns: {:?}", path.segments);
}

#[test]
fn gaps_of_native_threads_are_not_python() {
    let mut t = mini(
        "10/10  cpu_op  aten::mm   0+100
         10/10  cpu_op  aten::mm   200+100
         10/11  cpu_op  aten::add  300+100
         10/11  cpu_op  aten::add  500+100",
    );
    let causes = |t: &MiniTrace| {
        let trace = read(t.json());
        let (_, path) = path(&trace);
        path.by_category().into_iter().filter(|(_, ns)| *ns > 0).collect::<Vec<_>>()
    };
    let found = causes(&t);
    assert!(found.contains(&(Category::HostPython, 100_000)), "{found:?}");
    assert!(found.contains(&(Category::Unknown, 100_000)), "{found:?}");
    // Where the process has frames, a thread without any runs none.
    t.add("10/10 python_function train.py(1): step 0+301");
    let found = causes(&t);
    assert!(found.iter().all(|(c, _)| *c != Category::Unknown), "{found:?}");
}

/// Exports of Nsight Systems may lack the table of recorded events. Then the target of a stream's wait is inferred, as
/// without any synchronization record; the record still states which stream waits.
#[test]
fn waits_for_unknown_events_are_inferred() {
    // Stream 9 waits for the work of stream 7, then launches follow on stream 8 (if any) and on stream 9.
    let dependencies = |record: &str, launches_between: bool| {
        let mut t = mini(
            "10/1    cuda_runtime  cudaLaunchKernel     0+10    correlation=1
             10/1    cuda_runtime  cudaEventRecord      12+3    correlation=2
             10/1    cuda_runtime  cudaStreamWaitEvent  20+3    correlation=3
             10/1    cuda_runtime  cudaLaunchKernel     60+10   correlation=4
             gpu0/7  kernel        first                35+100  correlation=1
             gpu0/9  kernel        second               140+50  correlation=4",
        );
        if launches_between {
            t.add("10/1 cuda_runtime cudaLaunchKernel 50+3 correlation=5\ngpu0/8 kernel between 136+3 correlation=5");
        }
        if !record.is_empty() {
            t.add(record);
        }
        let trace = read(t.json());
        let exact = Exact::new(&trace);
        let graph = exact.graph();
        let rules = graph.edges.iter().map(|edge| edge.dependency.rule());
        let rules: Vec<&str> = rules.filter(|rule| ["event", "unrecorded_wait"].contains(rule)).collect();
        let path = exact.path(&WindowChoice::Whole).unwrap();
        let is_followed = segments_of(&trace, &path, "first").next().is_some();
        (rules, is_followed)
    };
    let nameless = "gpu0/9 cuda_sync Stream Wait Event 36+0 correlation=3";
    let complete = format!("{nameless} wait_on_cuda_event_record_corr_id=2 wait_on_stream=7");
    assert_eq!(dependencies(&complete, false), (vec!["event"], true));
    assert_eq!(dependencies("", false), (vec!["unrecorded_wait"], true));
    assert_eq!(dependencies(nameless, false), (vec!["unrecorded_wait"], true));
    assert_eq!(dependencies("", true), (vec!["unrecorded_wait"], false), "the next launch counts as the waiting one");
    assert_eq!(dependencies(nameless, true), (vec!["unrecorded_wait"], true));
}
