//! Device rows in Chrome traces of other profilers, recognized by names of processes and threads.

use crate::{common, invariants};
use stackline_ingest::{ReadOptions, read_bytes, read_paths};
use stackline_model::{EventId, EventKind, Level, Trace};
use stackline_testkit::corpus::files;
use stackline_testkit::mini;

fn read(lines: &[String]) -> Trace {
    let text = mini::trace(&format!("file -\n{}", lines.join("\n")));
    read_bytes("t.json", text.as_bytes(), &ReadOptions::default()).unwrap()
}

fn process(pid: i64, name: &str) -> String {
    format!("process {pid} name=\"{name}\"")
}

fn thread(pid: i64, tid: i64, name: &str) -> String {
    format!("thread {pid}/{tid} name=\"{name}\"")
}

fn span(pid: i64, tid: i64, name: &str, ts: i64) -> String {
    format!("{pid}/{tid} - {name} {ts}+5")
}

/// Names of events by kind.
fn of_kind(trace: &Trace, kind: EventKind) -> Vec<&str> {
    trace.events.ids().filter(|e| trace.kind(*e) == kind).map(|e| trace.name(e)).collect()
}

#[test]
fn jax_gpu_streams_are_work_and_derived_rows_are_not() {
    let trace = read(&[
        process(1, "/device:GPU:3"),
        thread(1, 1, "Stream #13(Compute,MemcpyD2D)"),
        thread(1, 2, "XLA Ops"),
        thread(1, 3, "XLA Modules"),
        process(701, "/host:CPU"),
        span(1, 1, "fusion.1", 10),
        span(1, 1, "MemcpyD2D", 20),
        span(1, 2, "fusion", 10),
        span(1, 3, "jit_step", 10),
        span(701, 9, "PjitFunction(step)", 0),
    ]);
    assert_eq!(of_kind(&trace, EventKind::Kernel), ["fusion.1"]);
    assert_eq!(of_kind(&trace, EventKind::Memcpy), ["MemcpyD2D"]);
    assert_eq!(of_kind(&trace, EventKind::GpuAnnotation), ["fusion", "jit_step"]);
    assert_eq!(of_kind(&trace, EventKind::Operator), ["PjitFunction(step)"]);
    assert_eq!(trace.gpu.device, [3, 3]);
}

#[test]
fn operations_of_a_tpu_are_work() {
    let rows = [process(1, "/device:TPU:0"), thread(1, 3, "XLA Ops"), thread(1, 1, "Steps")];
    let trace = read(&[&rows[..], &[span(1, 3, "fusion.1", 10), span(1, 1, "12", 10)]].concat());
    assert_eq!((trace.gpu.len(), of_kind(&trace, EventKind::GpuAnnotation)), (1, vec!["12"]));
}

#[test]
fn gpus_of_tensorflow_1_and_intel_are_devices_and_cpus_are_not() {
    let job = "/job:localhost/replica:0/task:0/device";
    let trace = read(&[
        process(1, &format!("{job}:GPU:1/stream:7 Compute")),
        process(2, &format!("{job}:GPU:1/stream:all Compute")),
        process(3, &format!("{job}:CPU:0 Compute")),
        process(4, "DEVICE<host>[0000:29:0.0]#0.0"),
        span(1, 0, "Conv2D", 10),
        span(2, 0, "Conv2D", 10),
        span(3, 0, "Const", 0),
        span(4, 0, "gemm_kernel", 12),
    ]);
    assert_eq!(of_kind(&trace, EventKind::Kernel), ["Conv2D", "gemm_kernel"]);
    assert_eq!(trace.gpu.device[0], 1);
    assert_eq!(of_kind(&trace, EventKind::Operator), ["Const"]);
}

/// torch_npu writes no categories for tasks of the device. Collectives have a process of their own, without a number.
#[test]
fn tasks_and_collectives_of_an_ascend_device_are_work() {
    let rows = [
        process(1001, "Python"),
        process(2001, "CANN"),
        process(4001, "Overlap Analysis"),
        process(5001, "Communication"),
        thread(3001, 2, "Stream 2"),
        thread(4001, 0, "Computing"),
        thread(5001, 3, "Group 0 Communication"),
        thread(5001, 4, "Plane 0"),
    ];
    let spans = [
        span(2001, 1, "AscendCL@aclnnMatmul", 5),
        span(3001, 2, "MatMulV2", 10),
        span(3001, 2, "EVENT_WAIT", 20),
        span(3001, 2, "MEMCPY_ASYNC", 30),
        span(4001, 0, "Computing", 10),
        span(5001, 3, "hcom_allReduce__123_0_1", 40),
        span(5001, 4, "Notify_Wait", 40),
    ];
    let npu = read(&[&rows[..], &[process(3001, "Ascend Hardware")], &spans].concat());
    assert_eq!(of_kind(&npu, EventKind::Kernel), ["MatMulV2", "hcom_allReduce__123_0_1"]);
    assert_eq!(of_kind(&npu, EventKind::Memcpy), ["MEMCPY_ASYNC"]);
    assert_eq!(of_kind(&npu, EventKind::GpuAnnotation), ["EVENT_WAIT", "Notify_Wait"]);
    assert_eq!((npu.gpu.device.clone(), npu.gpu.stream.clone()), (vec![0, 0, 0], vec![2, 2, 3]));
    // Without a device, a process of this name belongs to some other program.
    let other = read(&[&rows[..], &[process(3001, "Renderer")], &spans].concat());
    assert_eq!(other.gpu.len(), 0);
    let other = read(&[process(5001, "Communication"), "5001/3 kernel gemm 10+5".to_owned()]);
    assert_eq!(other.gpu.device, [5001], "the device is that of the process's number, not the first Ascend device");
}

/// A row of all streams contains kernels, too, and a row of copies contains copies: with a job before the device,
/// without one, and in the oldest format.
#[test]
fn tensorflow_1_operations_count_once_for_any_job() {
    for device in ["/job:localhost/replica:0/task:0/device:GPU:1", "/device:GPU:1", "/gpu:1"] {
        let row = |pid, name: &str| process(pid, &format!("{device}{name}"));
        let both = |pid, name: &str| [span(pid, 0, name, 10), span(pid, 0, name, 30)];
        let rows = |rows: &[String], spans: &[[String; 2]]| read(&[rows, &spans.concat()].concat());
        let names = [
            row(1, "/stream:all Compute"),
            row(2, "/stream:7 Compute"),
            row(3, "/memcpy Compute"),
            row(4, "/stream:8"),
        ];
        let gemm = [both(1, "MatMul"), both(2, "MatMul")];
        let copies = [both(3, "MEMCPYHtoD"), both(1, "MEMCPYHtoD"), both(4, "MEMCPYHtoD")];
        let trace = rows(&names, &[&gemm[..], &copies].concat());
        let work = |trace: &Trace| [EventKind::Kernel, EventKind::Memcpy].map(|kind| of_kind(trace, kind).len());
        assert_eq!((work(&trace), trace.gpu.len(), trace.gpu.device[0]), ([2, 2], 4, 1), "{device}");
        // An operation that no row of a stream contains counts in its own row.
        let trace = rows(&names[..3], &[&gemm[..], &copies[..1]].concat());
        assert_eq!(work(&trace), [2, 2], "{device}: copies in their own row alone");
        let trace = rows(&names[..3], &[&gemm[..1], &copies[..2]].concat());
        assert_eq!(work(&trace), [2, 2], "{device}: no streams");
        // As often as in the rows of streams.
        let twice = [both(1, "MatMul"), both(1, "MatMul"), both(2, "MatMul"), both(4, "MatMul")];
        assert_eq!(work(&rows(&names, &twice)), [4, 0], "{device}");
    }
}

/// A loop and a branch contain the operations that run in them; concurrent transfers are not a row of operations.
#[test]
fn tpu_loops_contain_their_operations() {
    let within = |tid, name: &str, ts: i64, dur: i64| format!("1/{tid} - {name} {ts}+{dur}");
    let trace = read(&[
        process(1, "/device:TPU:0"),
        thread(1, 3, "XLA Ops"),
        thread(1, 4, "Async XLA Ops"),
        within(3, "fusion.1", 10, 20),
        within(3, "while.1", 0, 100),
        within(3, "conditional.1", 40, 50),
        within(3, "all-reduce.1", 40, 50),
        within(3, "fusion.2", 45, 10),
        within(3, "fusion.3", 100, 10),
        within(3, "empty", 105, 0),
        within(4, "copy-start.1", 0, 200),
    ]);
    // Of two equal spans neither contains the other, and both contain the inner ones.
    assert_eq!(of_kind(&trace, EventKind::Kernel), ["fusion.1", "fusion.2", "fusion.3", "empty"]);
    assert_eq!(of_kind(&trace, EventKind::GpuAnnotation), ["while.1", "conditional.1", "all-reduce.1", "copy-start.1"]);
    assert_eq!(trace.report.count_of("operation_around_others"), 3);
}

/// Marks of a host thread take precedence over a device's row of steps; of several devices, the first one with steps is
/// used.
#[test]
fn device_steps_apply_if_no_thread_marks_steps() {
    let long = |pid, tid, name: &str, ts: i64| format!("{pid}/{tid} - {name} {ts}+90");
    let device = |pid: i64| {
        let steps = [thread(pid, 1, "Steps"), long(pid, 1, "12", 0), long(pid, 1, "13", 100 + pid)];
        [&[process(pid, &format!("/device:TPU:{}", pid - 1))][..], &steps, &[span(pid, 3, "fusion.1", 10)]].concat()
    };
    let devices = [device(2), device(1)].concat();
    let steps = |trace: &Trace| trace.steps.iter().map(|s| (s.number, s.start, s.end)).collect::<Vec<_>>();
    let alone = read(&devices);
    assert_eq!(steps(&alone), [(12, 0, 90_000), (13, 101_000, 191_000)]);
    assert_eq!(alone.report.count_of("steps_of_device"), 2);
    let mark = "701/1 - train 5+50 step_num=\"7\"".to_owned();
    let marked = read(&[&devices[..], &[process(701, "/host:CPU"), mark]].concat());
    assert_eq!((steps(&marked), marked.report.count_of("steps_of_device")), (vec![(7, 5_000, 55_000)], 0));
}

#[test]
fn categories_take_precedence_over_names() {
    let kineto = "1/1 cpu_op aten::mm 0+5".to_owned();
    let trace = read(&[process(1, "GPU0"), kineto]);
    assert_eq!((trace.gpu.len(), of_kind(&trace, EventKind::Operator)), (0, vec!["aten::mm"]));
}

#[test]
fn rpd_arrows_link_operations_to_launches() {
    let Some(corpus) = common::corpus() else { return };
    let text = std::fs::read(corpus.join("rpd/matmul.chrome.json")).unwrap();
    let trace = read_bytes("matmul.chrome.json", &text, &ReadOptions::default()).unwrap();
    assert_eq!((trace.gpu.len(), trace.gpu.device[0]), (85, 2));
    let total: i64 = trace.gpu.event.iter().map(|e| trace.events.dur[e.index()]).sum();
    assert_eq!(total, 183_859_000);
    let spans = trace.events.ids().filter(|&e| trace.kind(e) != EventKind::Counter);
    let (count, ns) = spans.fold((0, 0), |(count, ns), e| (count + 1, ns + trace.events.dur[e.index()]));
    assert_eq!((count, ns, trace.report.count_of("unknown_record")), (210, 641_552_000, 1));
    let linked = trace.gpu.launch.iter().filter(|launch| launch.is_some()).count();
    assert_eq!(linked, 85);
    assert!(of_kind(&trace, EventKind::Runtime).contains(&"hipLaunchKernel"));
}

/// TensorFlow 1 writes the category `Op` for each operation; the names of rows give the kinds.
#[test]
fn unknown_categories_count_only_if_names_give_no_kind() {
    let op = |pid: i64, name: &str, ts: i64| format!("{pid}/0 Op {name} {ts}+5");
    let compute = process(1, "/job:localhost/replica:0/task:0/device:CPU:0 Compute");
    let trace = read(&[compute, process(2, "Allocators"), op(1, "Const", 0), op(2, "alloc", 10), op(1, "Add", 20)]);
    assert_eq!(of_kind(&trace, EventKind::Operator), ["Const", "Add"]);
    let problem = trace.report.problems.iter().find(|problem| problem.code == "unknown_category").unwrap();
    assert_eq!((problem.count, problem.example.as_str(), problem.offsets.len()), (1, "Op", 1));
    for path in files("tensorflow") {
        let set = read_paths(&[path], &ReadOptions::default()).unwrap();
        assert_eq!(set.traces[0].report.count_of("unknown_category"), 0, "{}", set.traces[0].meta.name);
    }
}

/// Durations of spans: the nodes' names are in an argument, and the names of spans are types of operators.
#[test]
fn tensorflow_1_operators_have_their_types_as_names() {
    let Some(corpus) = common::corpus() else { return };
    let read_timeline = |name: &str| {
        let text = std::fs::read(corpus.join("tensorflow").join(name)).unwrap();
        read_bytes(name, &text, &ReadOptions::default()).unwrap()
    };
    let sum = |trace: &Trace, name: &str| {
        let operators = trace.events.ids().filter(|&e| trace.kind(e) == EventKind::Operator);
        let named = operators.filter(|&e| name.is_empty() || trace.name(e) == name);
        named.fold((0, 0), |(count, us), e| (count + 1, us + trace.events.dur[e.index()] / 1000))
    };
    assert_eq!(sum(&read_timeline("tf1-timeline-small.json"), ""), (15, 2_418));
    let train = read_timeline("tf1-timeline-train.json");
    assert_eq!(sum(&train, ""), (484, 11_804_608));
    assert_eq!(sum(&train, "Conv3DBackpropFilterV2"), (25, 5_912_679));
    assert_eq!(train.span().map(|(start, end)| end - start), Some(7_714_885_000));
}

/// Sources without categories set the kinds of events after they were read.
#[test]
fn levels_agree_with_kinds_set_after_reading() {
    let made = read(&[
        process(1, "/device:GPU:0"),
        thread(1, 1, "Stream #13(Compute)"),
        process(2, "XPU 1"),
        process(701, "/host:CPU"),
        span(1, 1, "fusion.1", 10),
        span(2, 1, "gemm", 10),
        span(701, 9, "PjitFunction(step)", 0),
        span(701, 9, "$train.py:12", 20),
    ]);
    let levels: Vec<Level> = made.events.ids().map(|e| made.level(e)).collect();
    assert_eq!(levels, [Level::Kernel, Level::Kernel, Level::Operator, Level::Python]);
    for path in ["xplane", "tensorflow", "rpd"].iter().flat_map(|folder| files(folder)) {
        let set = read_paths(&[path], &ReadOptions::default()).unwrap();
        for trace in &set.traces {
            invariants::check(trace).unwrap();
            let is_work = |e: EventId| trace.kind(e).is_gpu_work() && trace.level(e) == Level::Kernel;
            assert!(trace.gpu.is_empty() || trace.events.ids().any(is_work), "{}", trace.meta.name);
        }
    }
}

/// Files with device rows only, or without host marks.
#[test]
fn projected_marks_apply_if_no_thread_marks_steps() {
    let on = |stream: i64, name: &str, ts: i64, length: i64| {
        format!("gpu0/{stream} gpu_user_annotation {name} {ts}+{length}")
    };
    let of_name = |name: &dyn Fn(i64) -> String| {
        // Communication extends into the next step.
        let one = |step: i64| {
            [
                on(7, &name(step), 100 * step, 90),
                on(7, "forward", 100 * step, 40),
                on(20, &name(step), 100 * step + 50, 80),
                format!("gpu0/7 kernel gemm {}+90", 100 * step),
                format!("gpu0/20 kernel allreduce {}+80", 100 * step + 50),
            ]
        };
        (3..7).flat_map(one).chain([on(20, &name(7), 800, 5)]).collect::<Vec<_>>()
    };
    let steps = |trace: &Trace| trace.steps.iter().map(|s| (s.number, s.start, s.end)).collect::<Vec<_>>();
    let expected: Vec<(i64, i64, i64)> = (3..7).map(|n| (n, 100_000 * n, 100_000 * n + 90_000)).collect();
    let profiler = of_name(&|step| format!("ProfilerStep#{step}"));
    // One stream has five marks, and the other one four.
    let fewer: Vec<String> = profiler[..profiler.len() - 1].to_vec();
    let alone = read(&fewer);
    assert_eq!((steps(&alone), alone.report.count_of("steps_of_device")), (expected.clone(), 4));
    assert_eq!(steps(&read(&profiler)).len(), 5);
    let options = ReadOptions { step_annotation: Some(r"^my (\d+)$".parse().unwrap()), ..ReadOptions::default() };
    let own = of_name(&|step| format!("\"my {step}\""));
    let text = mini::trace(&format!("file -\n{}", own[..own.len() - 1].join("\n")));
    assert_eq!(steps(&read_bytes("t.json", text.as_bytes(), &options).unwrap()), expected);
    assert_eq!(steps(&read(&own)), [], "a name of its own is asked for");
    let host = "1/1 user_annotation ProfilerStep#1 0+950".to_owned();
    let both = read(&[&fewer[..], &[host]].concat());
    assert_eq!((steps(&both), both.report.count_of("steps_of_device")), (vec![(1, 0, 950_000)], 0));
}
