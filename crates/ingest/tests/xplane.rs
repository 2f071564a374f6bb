//! XProf profiles (`.xplane.pb`): comparison with XProf's own Chrome traces, and generated ones for programs and
//! damage.

use crate::common::{arguments, corpus, text};
use crate::invariants;
use stackline_ingest::{Error, ReadOptions, read_bytes, read_paths};
use stackline_model::{AttrValue, EventId, EventKind, LinkKind, StrId, Trace, TrackKind, Vendor};
use stackline_testkit::xspace::{Event, Instruction, Line, Plane, Stat, program, space};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

fn read(bytes: &[u8]) -> Trace {
    let trace = read_bytes("t.xplane.pb", bytes, &ReadOptions::default()).unwrap();
    invariants::check(&trace).unwrap();
    trace
}

fn error(bytes: &[u8]) -> String {
    read_bytes("t.xplane.pb", bytes, &ReadOptions::default()).unwrap_err().to_string()
}

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/profiles-h100").join(name)
}

fn count(trace: &Trace, kind: EventKind) -> usize {
    trace.events.kind.iter().filter(|&&own| own == kind).count()
}

fn argument(trace: &Trace, event: EventId, key: &str) -> Option<String> {
    match trace.attr(key).get(event)? {
        AttrValue::Str(text) | AttrValue::Json(text) => Some(trace.strings.get(text).to_owned()),
        other => other.as_i64().map(|number| number.to_string()),
    }
}

/// Spans by process, thread, name, start and duration in ns.
fn spans(trace: &Trace) -> BTreeMap<(String, String, String, i64, i64), usize> {
    let mut spans = BTreeMap::new();
    for event in trace.events.ids().filter(|&e| trace.kind(e) != EventKind::Instant) {
        let track = trace.tracks.get(trace.events.track[event.index()]);
        let text = |id: StrId| trace.strings.get(id).to_owned();
        let process = text(trace.tracks.processes[track.process.index()].name);
        let (start, dur) = (trace.events.start[event.index()], trace.events.dur[event.index()]);
        *spans.entry((process, text(track.name), trace.name(event).to_owned(), start, dur)).or_default() += 1;
    }
    spans
}

/// XProf omits instants and, of equal spans of a thread, the inner ones. All of its events are here, at the same times.
#[test]
fn profile_agrees_with_trace_converted_by_xprof() {
    for name in ["jax-train", "jax-eager"] {
        let own = read(&text(&fixture(&format!("{name}.xplane.pb.gz"))));
        let theirs = read(&text(&fixture(&format!("{name}.trace.json.gz"))));
        let own_spans = spans(&own);
        let missing: Vec<_> =
            spans(&theirs).into_iter().filter(|(span, times)| own_spans.get(span).unwrap_or(&0) < times).collect();
        assert!(missing.is_empty(), "{name}: {:?}", &missing[..missing.len().min(5)]);
        assert_eq!(own.gpu.len(), theirs.gpu.len(), "{name}");
        for kind in [EventKind::Driver, EventKind::Runtime, EventKind::Overhead, EventKind::Kernel, EventKind::Memcpy] {
            assert_eq!(count(&own, kind), count(&theirs, kind), "{name} {kind:?}");
        }
        let steps = |trace: &Trace| trace.steps.iter().map(|s| (s.number, s.start, s.end)).collect::<Vec<_>>();
        assert_eq!(steps(&own), steps(&theirs), "{name}");
        let launches = |trace: &Trace| {
            let launch = |call: &EventId| {
                call.some().map(|call| (trace.name(call).to_owned(), trace.events.start[call.index()]))
            };
            trace.gpu.launch.iter().map(launch).collect::<Vec<_>>()
        };
        let (mut ours, mut xprofs) = (launches(&own), launches(&theirs));
        ours.sort();
        xprofs.sort();
        assert_eq!(ours, xprofs, "{name}");
        // The hardware that lets kernels overlap is known here.
        let code = |code: &str| {
            code.strip_suffix("_noise").or(code.strip_suffix("_dependent_launch")).unwrap_or(code).to_owned()
        };
        let problems =
            |trace: &Trace| trace.report.problems.iter().map(|p| (code(&p.code), p.count)).collect::<Vec<_>>();
        assert_eq!(problems(&own), problems(&theirs), "{name}");
    }
}

/// Data that the Chrome trace lacks: lines of the program for kernels, sizes as numbers, the GPU's properties.
#[test]
fn kernels_of_a_jitted_step_have_source_lines() {
    let trace = read(&text(&fixture("jax-train.xplane.pb.gz")));
    assert_eq!(trace.meta.format, "xplane");
    assert_eq!(trace.meta.base_ns, 1_795_808_648_593_077_089);
    assert_eq!(trace.meta.entry("jax_version"), Some("\"0.11.2\""));
    let devices = trace.meta.entry("deviceProperties").unwrap();
    assert!(devices.contains("NVIDIA H100 80GB HBM3") && devices.contains("\"numSms\":132"), "{devices}");
    let kernels: Vec<EventId> = trace.events.ids().filter(|&e| trace.kind(e) == EventKind::Kernel).collect();
    assert_eq!(kernels.len(), 245);
    let first = kernels[0];
    assert_eq!(trace.name(first), "gemm_fusion_dot_8");
    assert_eq!(argument(&trace, first, "grid").as_deref(), Some("[256,1,1]"));
    assert_eq!(argument(&trace, first, "op_name").as_deref(), Some("jit(step)/jvp()/dot_general"));
    assert_eq!(argument(&trace, first, "source").as_deref(), Some("/srv/train/benches/gpu/jax_programs.py:23"));
    let with_lines = kernels.iter().filter(|&&e| argument(&trace, e, "source").is_some()).count();
    // All but 40 of cuBLAS within the graph, whose names are not those of instructions.
    assert_eq!(with_lines, 205);
    assert_eq!(trace.stacks.event.len(), with_lines);
}

fn steps_and_calls() -> Line {
    Line::new(9, "python", 1_000)
        .with(Event::new("train", 0, 900_000).stat("step_num", Stat::Int(3)))
        .with(Event::new("$a.py:5 f", 10_500, 800_499))
        .with(
            Event::new("hipModuleLaunchKernel", 20_000, 5_000)
                .stat("correlation_id", Stat::Uint(4))
                .stat("_pt", Stat::Int(1))
                .stat("_p", Stat::Uint(77)),
        )
        .with(Event::new("MemoryAllocation", 30_000, 0).stat("bytes_allocated", Stat::Int(512)))
}

fn kernel() -> Event {
    Event::new("add_1", 40_000, 300_000)
        .stat("correlation_id", Stat::Uint(4))
        .stat("hlo_op", Stat::Name("add.1".to_owned()))
        .stat("program_id", Stat::Uint(7))
        .stat("kernel_details", Stat::Text("regs:38 shm:0 grid:160,1,1 block:64,1,1".to_owned()))
}

fn programs() -> Plane {
    let add = Instruction { name: "add.1", opcode: "add", operator: "jit(f)/add", line: ("a.py", 5) };
    Plane::new(0, "/host:metadata").kind("jit_f(7)", "", &[("Hlo Proto", Stat::Bytes(program("jit_f", &[add])))])
}

fn device(event: Event) -> Plane {
    Plane::new(3, "/device:GPU:3").with(Line::new(13, "Stream #13(Compute)", 1_000).with(event))
}

#[test]
fn summary_of_a_profile() {
    let worker = Line::new(-8, "pool/-8", 1_000)
        .with(Event::new("work", 100_000, 5_000).stat("_ct", Stat::Int(1)).stat("_c", Stat::Uint(77)));
    let host = Plane::new(1, "/host:CPU").with(steps_and_calls()).with(worker);
    let trace = read(&space(&[programs(), device(kernel()), host], &["host"]));
    let line = |event: EventId| {
        let arguments = arguments(&trace, event);
        let (row, track) = (event.index(), trace.tracks.get(trace.events.track[event.index()]));
        let at = (trace.events.start[row], trace.events.dur[row], track.kind.name(), trace.key_text(track.tid));
        format!("{} {} {at:?}{arguments}\n", trace.kind(event).name(), trace.name(event))
    };
    let lines: String = trace.events.ids().map(line).collect();
    let flow = |(from, to, _)| format!("{} -> {}\n", trace.name(from), trace.name(to));
    let flows: String = trace.links.of_kind(LinkKind::Flow).map(flow).collect();
    let problems: Vec<_> = trace.report.problems.iter().map(|p| (&p.code, p.count)).collect();
    insta::assert_snapshot!(format!("format {}\n{lines}{flows}{problems:?}", trace.meta.format));
    assert_eq!(trace.gpu.device, [3]);
    assert!(trace.gpu.launch[0].is_some());
}

#[test]
fn adjacent_times_stay_adjacent() {
    let line =
        (0..50).fold(Line::new(1, "Stream #1(Compute)", 0), |line, i| line.with(Event::new("k", i * 1_700, 1_700)));
    let trace = read(&space(&[Plane::new(0, "/device:GPU:0").with(line)], &[]));
    let ends: Vec<i64> = trace.events.ids().map(|e| trace.events.end(e)).collect();
    assert_eq!(ends[..49], trace.events.start[1..]);
    assert_eq!(ends[49], 85);
}

#[test]
fn epoch_times_count_from_the_earliest_line() {
    let at = 1_700_000_000_000_000_000;
    let python = Line::new(1, "python", at + 5).with(Event::new("a", 2_000, 1_000));
    let pool = Line::new(2, "pool", at).with(Event::new("b", 0, 1_000));
    let trace = read(&space(&[Plane::new(0, "/host:CPU").with(python).with(pool)], &[]));
    assert_eq!((trace.meta.base_ns, &trace.events.start[..]), (at, &[7, 0][..]));
    // A single line without a time does not make times start at 0.
    let lines = [("a", at), ("b", 0), ("c", at + 9)]
        .map(|(name, began)| Line::new(began, name, began).with(Event::new(name, 0, 1_000)));
    let host = lines.into_iter().fold(Plane::new(0, "/host:CPU"), Plane::with);
    let trace = read(&space(&[host], &[]));
    assert_eq!((trace.meta.base_ns, trace.events.start[2]), (at, 9));
}

/// Rows of TPUs: operators, their groups, and equal numbers on a second kind of device.
#[test]
fn devices_other_than_gpus() {
    let operators = Line::new(1, "XLA Ops", 0).with(Event::new("%fusion.1 = f32[2] fusion(...)", 0, 9_000));
    let steps = Line::new(2, "Steps", 0).with(Event::new("0", 0, 9_000));
    let core = Plane::new(0, "/device:TPU:0").with(operators).with(steps).kind(
        "%fusion.1 = f32[2] fusion(...)",
        "fusion.1",
        &[("flops", Stat::Uint(64)), ("source", Stat::Text("a.py:3".into()))],
    );
    let sparse =
        Plane::new(1, "/device:TPU:0 SparseCore 0").with(Line::new(1, "XLA Ops", 0).with(Event::new("s", 0, 10_000)));
    let trace = read(&space(&[core, sparse], &[]));
    let kinds: Vec<_> = trace.events.ids().map(|e| (trace.name(e), trace.kind(e))).collect();
    use EventKind::{GpuAnnotation, Kernel};
    assert_eq!(kinds, [("fusion.1", Kernel), ("0", GpuAnnotation), ("s", Kernel)]);
    let fusion = EventId::new(0);
    assert_eq!(argument(&trace, fusion, "long_name").as_deref(), Some("%fusion.1 = f32[2] fusion(...)"));
    assert_eq!(argument(&trace, fusion, "flops").as_deref(), Some("64"));
    assert_eq!(argument(&trace, fusion, "source").as_deref(), Some("a.py:3"));
    assert_eq!(trace.tracks.processes.len(), 2, "two devices with the same number are two");
}

#[test]
fn older_host_planes_give_the_same_threads() {
    let calls = Plane::new(2, "/host:CUPTI").with(Line::new(9, "Host Threads/9", 0).with(Event::new(
        "cudaLaunchKernel",
        0,
        1_000,
    )));
    let frames =
        Plane::new(3, "/host:python-tracer").with(Line::new(8, "python", 0).with(Event::new("$a.py:1 f", 0, 1_000)));
    let trace = read(&space(&[calls, frames], &[]));
    assert_eq!(trace.tracks.processes.len(), 1);
    assert_eq!(trace.events.kind, [EventKind::Runtime, EventKind::PythonFunction]);
}

#[test]
fn operators_that_run_on_the_host_are_operators() {
    let thunk = Event::new("dot.1", 0, 5_000)
        .stat("hlo_op", Stat::Text("dot.1".into()))
        .stat("hlo_module", Stat::Text("jit_f".into()));
    let dot = Instruction { name: "dot.1", opcode: "dot", operator: "jit(f)/dot", line: ("a.py", 9) };
    // A program without a number in its name is found by its name.
    let programs =
        Plane::new(0, "/host:metadata").kind("jit_f", "", &[("Hlo Proto", Stat::Bytes(program("jit_f", &[dot])))]);
    let trace =
        read(&space(&[programs, Plane::new(1, "/host:CPU").with(Line::new(1, "tf_XLAEigen/1", 0).with(thunk))], &[]));
    assert_eq!(trace.events.kind, [EventKind::Operator]);
    assert_eq!(argument(&trace, EventId::new(0), "source").as_deref(), Some("a.py:9"));
}

/// A different number denotes another program of the same name.
#[test]
fn source_lines_come_from_the_program_with_the_number() {
    let lines_of = |program: Option<u64>| {
        let event = Event::new("add_1", 0, 1_000)
            .stat("hlo_op", Stat::Text("add.1".into()))
            .stat("hlo_module", Stat::Text("jit_f".into()));
        let event = program.into_iter().fold(event, |event, number| event.stat("program_id", Stat::Uint(number)));
        let trace = read(&space(&[programs(), device(event)], &[]));
        argument(&trace, EventId::new(0), "source")
    };
    assert_eq!(lines_of(Some(7)).as_deref(), Some("a.py:5"));
    assert_eq!(lines_of(None).as_deref(), Some("a.py:5"), "the only one of its name");
    assert_eq!(lines_of(Some(9)), None);
    let add = Instruction { name: "add.1", opcode: "add", operator: "jit(f)/add", line: ("tpu.py", 8) };
    let name = format!("jit_f({})", u64::MAX);
    let of_tpu =
        Plane::new(0, "/host:metadata").kind(&name, "", &[("Hlo Proto", Stat::Bytes(program("jit_f", &[add])))]);
    let event = Event::new("add.1", 0, 1_000)
        .stat("hlo_op", Stat::Text("add.1".into()))
        .stat("program_id", Stat::Uint(u64::MAX));
    let trace = read(&space(&[of_tpu, device(event)], &[]));
    assert_eq!(argument(&trace, EventId::new(0), "source").as_deref(), Some("tpu.py:8"));
}

/// The start and stop of a profile do not belong to the program; a frame that does more than call them does.
#[test]
fn profiler_frames_are_excluded() {
    let us = 1_000_000;
    let line = Line::new(1, "python", 0)
        .with(Event::new("$contextlib.py:132 __enter__", 0, 1_000 * us))
        .with(Event::new("$profiler.py:151 start_trace", 0, 995 * us))
        .with(Event::new("$train.py:9 main", 1_000 * us, 2_000 * us))
        .with(Event::new("train", 1_100 * us, 400 * us).stat("step_num", Stat::Int(0)))
        .with(Event::new("$profiler.py:271 stop_trace", 1_600 * us, 1_400 * us))
        .with(Event::new("$array.py:3 f", 1_700 * us, 10 * us));
    let trace = read(&space(&[Plane::new(0, "/host:CPU").with(line)], &[]));
    use EventKind::{Annotation, PythonFunction, Recording};
    assert_eq!(trace.events.kind, [Recording, Recording, PythonFunction, Annotation, Recording, Recording]);
    assert_eq!(trace.span(), Some((1_000_000, 3_000_000)));
}

/// Generated from the schema: no file of a TPU was available.
#[test]
fn a_profile_of_a_tpu() {
    let us = 1_000_000;
    let operation = |name: &str, at: i64, length: i64, category: &str| {
        Event::new(name, at * us, length * us).stat("hlo_category", Stat::Text(category.into()))
    };
    let plane = Plane::new(1, "/device:TPU:0")
        .stat("device_type_string", Stat::Text("TPU v5 lite".into()))
        .stat("peak_teraflops_per_second", Stat::Float(197.0))
        .stat("peak_hbm_bw_gigabytes_per_second", Stat::Float(819.0))
        .with(Line::new(1, "Steps", 0).with(Event::new("4", 0, 900 * us)).with(Event::new("5", 1_000 * us, 900 * us)))
        .with(Line::new(2, "XLA Modules", 0).with(Event::new("jit_step(1)", 0, 900 * us)))
        .with(
            Line::new(3, "XLA Ops", 0)
                .with(operation("while.1", 0, 600, "while"))
                .with(operation("fusion.1", 10, 200, "loop fusion"))
                .with(operation("all-reduce.1", 600, 200, "all-reduce")),
        )
        .with(Line::new(4, "Async XLA Ops", 0).with(operation("copy-start.1", 0, 850, "copy-start")));
    let trace = read(&space(&[plane], &[]));
    assert_eq!((count(&trace, EventKind::Kernel), trace.gpu.len()), (2, 2));
    assert_eq!(
        trace.steps.iter().map(|s| (s.number, s.end - s.start)).collect::<Vec<_>>(),
        [(4, 900_000), (5, 900_000)]
    );
    let codes = ["operation_around_others", "steps_of_device", "stream_overlap"];
    assert_eq!(codes.map(|code| trace.report.count_of(code)), [1, 2, 0]);
    let [device] = &trace.meta.devices()[..] else { panic!("one device") };
    assert_eq!((device.name.as_deref(), device.vendor), (Some("TPU v5 lite"), Some(Vendor::Google)));
    assert_eq!((device.memory_bandwidth, device.peak_flops.bf16), (Some(8.19e11), Some(1.97e14)));
}

#[test]
fn reused_numbers_continue_after_the_last_event() {
    let event = |name: &str, at: i64, [kind, number]: [&str; 2]| {
        Event::new(name, at, 100).stat(kind, Stat::Int(5)).stat(number, Stat::Uint(7))
    };
    let (made, taken) = (["_pt", "_p"], ["_ct", "_c"]);
    let line = Line::new(1, "a", 0)
        .with(event("early", 0, taken))
        .with(event("first", 10_000, made))
        .with(event("of first", 20_000, taken))
        .with(event("second", 30_000, made))
        .with(event("of second", 40_000, taken));
    let trace = read(&space(&[Plane::new(0, "/host:CPU").with(line)], &[]));
    let flows: Vec<_> =
        trace.links.of_kind(LinkKind::Flow).map(|(from, to, _)| (trace.name(from), trace.name(to))).collect();
    assert_eq!(flows, [("first", "of first"), ("second", "of second")]);
}

#[test]
fn bad_times_and_names_are_counted() {
    let line = Line::new(1, "python", 0).with(Event::new("negative", 5_000, -3)).with(Event::new("fine", 1_000, 1_000));
    let late = Line::new(2, "late", i64::MAX).with(Event::new("late", i64::MAX, i64::MAX));
    let trace = read(&space(&[Plane::new(0, "/host:CPU").with(line).with(late)], &[]));
    let count = |code| trace.report.count_of(code);
    assert_eq!([count("bad_time"), count("negative_duration")], [1, 1]);
    // An event with an undefined name: a plane that is truncated before its names.
    let whole = space(&[Plane::new(0, "/host:CPU").with(steps_and_calls())], &[]);
    let at = whole.windows(5).position(|w| w == b"train").unwrap();
    let trace = read(&whole[..at - 6]);
    assert_eq!((trace.events.len(), trace.report.count_of("no_name"), trace.report.count_of("truncated")), (4, 4, 1));
    assert_eq!(trace.name(EventId::new(0)), "event 1 without a name");
}

#[test]
fn truncated_and_damaged_profiles_are_read_in_part() {
    let whole = text(&fixture("jax-train.xplane.pb.gz"));
    let all = read(&whole).events.len();
    let mut most = 0;
    for part in 1..40 {
        let cut = &whole[..whole.len() * part / 40];
        match read_bytes("t", cut, &ReadOptions::default()) {
            Ok(trace) => {
                invariants::check(&trace).unwrap();
                assert_eq!(trace.report.count_of("truncated"), 1, "{part}");
                assert!(trace.events.len() >= most && trace.events.len() <= all);
                most = trace.events.len();
            }
            Err(error) => assert!(matches!(error, Error::Malformed { .. }) && most == 0, "{part}: {error}"),
        }
    }
    assert!(most * 10 > all * 9, "{most} of {all}");
    // Garbage within one event affects only that event.
    let mut damaged = space(&[Plane::new(1, "/host:CPU").with(steps_and_calls())], &[]);
    // The fourth event: the key of its time.
    let at = damaged.windows(4).position(|w| w == [0x08, 4, 0x10, 0xb0]).unwrap();
    damaged[at + 2] = 0x07;
    let trace = read(&damaged);
    assert_eq!(trace.report.count_of("damaged_event"), 1);
    assert_eq!(trace.events.len(), 3);
}

#[test]
fn packed_profile_and_profile_next_to_its_chrome_form() {
    let folder = tempfile::tempdir().unwrap();
    let packed = std::fs::read(fixture("jax-train.xplane.pb.gz")).unwrap();
    std::fs::write(folder.path().join("vm.xplane.pb"), text(&fixture("jax-train.xplane.pb.gz"))).unwrap();
    std::fs::copy(fixture("jax-train.trace.json.gz"), folder.path().join("vm.trace.json.gz")).unwrap();
    let set = read_paths(&[folder.path().to_owned()], &ReadOptions::default()).unwrap();
    // A profile's folder has both formats of one run.
    assert_eq!(set.traces.iter().map(|t| t.meta.name.as_str()).collect::<Vec<_>>(), ["vm.xplane.pb"]);
    assert_eq!(set.traces[0].report.count_of("same_profile"), 1);
    assert_eq!(read(&packed).events.len(), set.traces[0].events.len());
    // So does an archive of the folder, and so do the files by name in any order; files of another folder are another
    // run.
    let archive = folder.path().join("profile.tar");
    let mut tar = tar::Builder::new(std::fs::File::create(&archive).unwrap());
    for name in ["vm.trace.json.gz", "vm.xplane.pb"] {
        tar.append_path_with_name(folder.path().join(name), format!("profile/{name}")).unwrap();
    }
    tar.finish().unwrap();
    let names = |paths: &[PathBuf]| {
        let set = read_paths(paths, &ReadOptions::default()).unwrap();
        set.traces.iter().map(|trace| trace.meta.name.clone()).collect::<Vec<_>>()
    };
    assert_eq!(names(&[archive]), ["profile.tar/profile/vm.xplane.pb"]);
    let files = ["vm.trace.json.gz", "vm.xplane.pb"].map(|name| folder.path().join(name));
    assert_eq!(names(&files), ["vm.xplane.pb"]);
    let other_folder = folder.path().join("other");
    std::fs::create_dir(&other_folder).unwrap();
    std::fs::copy(&files[0], other_folder.join("vm.trace.json.gz")).unwrap();
    assert_eq!(names(&[other_folder.join("vm.trace.json.gz"), files[1].clone()]), ["vm.trace.json.gz", "vm.xplane.pb"]);
}

#[test]
fn non_profiles_report_the_reason() {
    let empty = space(&[Plane::new(0, "/host:CPU"), Plane::new(0, "Task Environment")], &["host"]);
    assert!(error(&empty).contains("contains no events (planes: /host:CPU, Task Environment)"), "{}", error(&empty));
    let whole = text(&fixture("jax-train.xplane.pb.gz"));
    assert!(
        error(&whole[..60_000]).contains("truncated or damaged before the first event"),
        "{}",
        error(&whole[..60_000])
    );
    assert!(error(b"").contains("the file is empty"), "{}", error(b""));
    let riegeli = [0x83, 0xaf, 0x70, 0xd1, 0x0d, 0x88, 0x4a, 0x3f, 0, 0, 0, 0];
    assert!(error(&riegeli).contains("Riegeli"), "{}", error(&riegeli));
    // A program that converted the file as text replaced bytes that are not UTF-8.
    let whole = text(&fixture("jax-train.xplane.pb.gz"));
    let mangled = String::from_utf8_lossy(&whole);
    assert!(
        error(mangled.as_bytes()).contains("a binary file that a conversion to text has damaged"),
        "{}",
        error(mangled.as_bytes())
    );
    // Another protobuf message, as in pprof.
    assert!(error(&[0x0a, 4, 8, 1, 0x10, 2]).contains("the format of the input is unknown"));
}

/// Values from XProf 2.24 and, for the first one, from TraceLens.
#[test]
fn profiles_of_the_corpus() {
    let Some(corpus) = corpus() else { return };
    let read_profile = |name: &str| read(&std::fs::read(corpus.join("xplane").join(name)).unwrap());
    let sum = |trace: &Trace, kind| -> i64 {
        trace.events.ids().filter(|&e| trace.kind(e) == kind).map(|e| trace.events.dur[e.index()]).sum()
    };
    let conv = read_profile("jax-0.6-amd-conv.xplane.pb");
    assert_eq!((count(&conv, EventKind::Kernel), sum(&conv, EventKind::Kernel)), (25, 3_586_493));
    assert_eq!((count(&conv, EventKind::Memcpy), sum(&conv, EventKind::Memcpy)), (53, 889_028));
    let streams = |trace: &Trace| trace.tracks.tracks.iter().filter(|t| t.kind == TrackKind::Stream).count();
    assert_eq!(streams(&conv), 5);
    let tensorflow = read_profile("tensorflow-v100x8.xplane.pb");
    assert_eq!(tensorflow.tracks.processes.len(), 4, "the host, and the three of eight GPUs that did something");
    let newer = read_profile("jax-0.8-amd-conv.xplane.pb");
    let gemm = read_profile("jax-0.8-amd-gemm.xplane.pb");
    assert_eq!(count(&gemm, EventKind::Kernel), 54);
    for trace in [&conv, &newer, &gemm] {
        let linked = trace.gpu.launch.iter().filter(|call| call.is_some()).count();
        assert_eq!(linked, trace.gpu.len(), "{}", trace.meta.name);
    }
}
