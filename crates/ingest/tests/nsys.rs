//! Exports of Nsight Systems: real ones with values computed by a plain script, and hand-made ones for versions and
//! programs.

use crate::common::{arguments, corpus};
use crate::invariants;
use rusqlite::Connection;
use stackline_ingest::{Error, ReadOptions, read_bytes, read_paths};
use stackline_model::{EventId, EventKind, LinkKind, Phase, Trace, TrackKind, flags};
use std::path::{Path, PathBuf};

pub(crate) fn read(path: &Path) -> Vec<Trace> {
    let set = read_paths(&[path.to_owned()], &ReadOptions::default()).unwrap();
    for trace in &set.traces {
        invariants::check(trace).unwrap();
    }
    set.traces
}

fn of_corpus(name: &str) -> Option<Vec<Trace>> {
    Some(read(&corpus()?.join("nsys").join(name)))
}

/// Number and total duration (ns) of events of a kind.
fn sum(traces: &[Trace], kind: EventKind, name: &str) -> (usize, i64) {
    let all = traces.iter().flat_map(|trace| trace.events.ids().map(move |event| (trace, event)));
    let of_kind = all.filter(|&(trace, event)| trace.kind(event) == kind && trace.name(event).starts_with(name));
    of_kind.fold((0, 0), |(count, ns), (trace, event)| (count + 1, ns + trace.events.dur[event.index()]))
}

fn bytes(traces: &[Trace], name: &str) -> i64 {
    let gpu_time = |trace: &Trace| -> i64 {
        let column = trace.attr("bytes");
        trace.events.ids().filter(|&e| trace.name(e).starts_with(name)).filter_map(|e| column.i64(e)).sum()
    };
    traces.iter().map(gpu_time).sum()
}

/// Time in which the GPU ran work, in ns.
fn union(trace: &Trace, kinds: &[EventKind]) -> i64 {
    let selected = trace.events.ids().filter(|&e| kinds.contains(&trace.kind(e)));
    let mut spans: Vec<_> = selected.map(|e| (trace.events.start[e.index()], trace.events.end(e))).collect();
    spans.sort_unstable();
    let (mut all, mut until) = (0, i64::MIN);
    for (start, end) in spans {
        all += (end - start.max(until)).max(0);
        until = until.max(end);
    }
    all
}

/// Time from the start of the first event of a kind to the end of the last, in ns.
fn extent(trace: &Trace, kind: EventKind) -> i64 {
    let events = || trace.events.ids().filter(|&e| trace.kind(e) == kind);
    let start = events().map(|e| trace.events.start[e.index()]).min().unwrap();
    events().map(|e| trace.events.end(e)).max().unwrap() - start
}

#[test]
fn two_gpus_wait_for_copies() {
    let Some(traces) = of_corpus("h100-2gpu-h2d-bound.sqlite") else { return };
    assert_eq!(traces.len(), 2);
    assert_eq!(traces.iter().map(|t| t.meta.rank).collect::<Vec<_>>(), [Some(0), Some(1)]);
    assert_eq!(traces[0].meta.name, "h100-2gpu-h2d-bound.sqlite/python3 111");
    assert_eq!((traces[0].meta.format.as_str(), traces[0].meta.base_ns), ("nsys", 1_779_630_014_975_716_426));
    assert_eq!(sum(&traces, EventKind::Kernel, ""), (3442, 44_829_522));
    let kernels = |trace| sum(std::slice::from_ref(trace), EventKind::Kernel, "").0;
    assert_eq!(traces.iter().map(kernels).collect::<Vec<_>>(), [1721, 1721]);
    assert_eq!(union(&traces[0], &[EventKind::Kernel]), 22_385_163);
    assert_eq!(union(&traces[0], &[EventKind::Kernel, EventKind::Memcpy, EventKind::Memset]), 962_890_247);
    assert_eq!(sum(&traces, EventKind::Memcpy, ""), (904, 1_880_842_214));
    assert_eq!(bytes(&traces, "Memcpy"), 110_318_980_178);
    for (trace, [from_host, on_device]) in traces.iter().zip([[920_872_841, 19_613_651], [920_757_957, 19_589_893]]) {
        let one = std::slice::from_ref(trace);
        let of_copies = |name: &str| (sum(one, EventKind::Memcpy, name), bytes(one, name));
        assert_eq!(of_copies("Memcpy HtoD"), ((225, from_host), 25_475_253_792));
        assert_eq!(sum(one, EventKind::Memcpy, "Memcpy HtoD (Pinned -> Device)").0, 223);
        assert_eq!(of_copies("Memcpy DtoD"), ((225, on_device), 29_684_236_288));
        let rate = 25_475_253_792.0 / from_host as f64;
        assert_eq!(format!("{rate:.1} GB/s"), "27.7 GB/s");
        assert!(trace.meta.entry("deviceProperties").is_none(), "the file has no table of GPUs");
    }
    let window = extent(&traces[0], EventKind::Kernel);
    assert_eq!((window, (100.0 * 920_872_841.0 / window as f64).round()), (960_485_009, 96.0));
    assert_eq!(sum(&traces, EventKind::Memset, "").0, 22);
    assert_eq!(sum(&traces, EventKind::Runtime, "").0, 5796);
    assert_eq!(sum(&traces, EventKind::Runtime, "cudaStreamSynchronize"), (8, 856_929_451));
    assert_eq!(sum(&traces, EventKind::Runtime, "cudaLaunchKernel").1, 509_738_501 + 422_539_482);
    let ranges = sum(&traces, EventKind::Operator, "").0 + sum(&traces, EventKind::Annotation, "").0;
    assert_eq!(ranges, 16_782);
    // The window is an excerpt: kernels at its start were launched before it. By correlation IDs alone, 11 of them
    // would get a call of the other process.
    let is_orphan = |trace: &Trace, gpu: usize| {
        trace.gpu.launch[gpu].is_none() && trace.kind(trace.gpu.event[gpu]) == EventKind::Kernel
    };
    let orphans = traces.iter().map(|t| (0..t.gpu.len()).filter(|&gpu| is_orphan(t, gpu)).count()).sum::<usize>();
    assert_eq!(orphans, 1799 + 11);
}

#[test]
fn smallest_export_and_complete_export() {
    let Some(traces) = of_corpus("rtx3080-minimal.sqlite") else { return };
    assert_eq!(traces.len(), 1);
    assert_eq!((sum(&traces, EventKind::Kernel, ""), bytes(&traces, "Memcpy")), ((2, 4129), 4));
    assert_eq!(extent(&traces[0], EventKind::Kernel), 18_254_667);
    assert_eq!(sum(&traces, EventKind::Memcpy, "").0, 1);
    let devices: serde_json::Value = serde_json::from_str(traces[0].meta.entry("deviceProperties").unwrap()).unwrap();
    assert_eq!(
        (&devices[0]["name"], &devices[0]["numSms"], &devices[0]["maxThreadsPerMultiprocessor"]),
        (&"NVIDIA GeForce RTX 3080".into(), &68.into(), &1536.into())
    );
    assert_eq!(traces[0].report.count_of("profiler_says"), 1);
    let healthy = of_corpus("generated-healthy.sqlite").unwrap();
    assert_eq!(sum(&healthy, EventKind::Kernel, ""), (400, 400_000_000));
    assert_eq!(union(&healthy[0], &[EventKind::Kernel]), 400_000_000);
    let window = extent(&healthy[0], EventKind::Kernel);
    assert_eq!((window, format!("{:.2}", 100.0 - 100.0 * 4e8 / window as f64)), (403_990_000, "0.99".to_owned()));
    assert_eq!((healthy[0].events.len(), sum(&healthy, EventKind::Memcpy, "").0), (800, 0));
    assert!(healthy[0].gpu.launch.iter().all(|launch| launch.is_some()));
}

/// A database file with this schema and these rows.
pub(crate) fn made(sql: &str) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("made.sqlite");
    Connection::open(&path).unwrap().execute_batch(sql).unwrap();
    (folder, path)
}

/// Process 5, thread 6.
pub(crate) const THREAD: i64 = (5 << 24) | 6;
pub(crate) const TEXTS: &str = "CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT);
    INSERT INTO StringIds VALUES (1, 'gemm'), (2, 'cudaLaunchKernel_v7000'), (3, 'step'), (4, 'cuLaunchKernel');";

pub(crate) fn launch(table: &str, start: i64, thread: i64, correlation: i64) -> String {
    format!(
        "CREATE TABLE IF NOT EXISTS {table} (start INT, end INT, globalTid INT, correlationId INT, nameId INT);
        INSERT INTO {table} VALUES ({start}, {}, {thread}, {correlation}, 2);",
        start + 5
    )
}

pub(crate) fn kernel(start: i64, device: i64, process: i64, correlation: i64) -> String {
    format!(
        "CREATE TABLE IF NOT EXISTS CUPTI_ACTIVITY_KIND_KERNEL
            (start INT, end INT, deviceId INT, streamId INT, correlationId INT, globalPid INT, shortName INT);
        INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES ({start}, {}, {device}, 7, {correlation}, {}, 1);",
        start + 100,
        process << 24
    )
}

#[test]
fn correlation_ids_are_of_a_process() {
    let other = (9 << 24) | 9;
    let sql = [
        launch("CUPTI_ACTIVITY_KIND_RUNTIME", 10, THREAD, 77),
        launch("CUPTI_ACTIVITY_KIND_RUNTIME", 900, other, 77),
        kernel(1000, 1, 5, 77),
        kernel(1200, 0, 9, 77),
    ];
    let (_folder, path) = made(&(TEXTS.to_owned() + &sql.concat()));
    let traces = read(&path);
    // In the order of their GPUs.
    let pids: Vec<&str> = traces.iter().map(|trace| trace.meta.name.as_str()).collect();
    assert_eq!(pids, ["made.sqlite/process 9", "made.sqlite/process 5"]);
    let launched = |trace: &Trace| (trace.gpu.launch[0], trace.events.start[trace.gpu.launch[0].index()]);
    assert_eq!((launched(&traces[0]).1, launched(&traces[1]).1), (900, 10));
    assert_eq!(traces[0].report.count_of("rank_by_device"), 2);
    assert!(traces.iter().all(|trace| trace.report.count_of("ambiguous_launch") == 0));
}

#[test]
fn ranks_are_in_the_order_of_the_machines_gpus_and_of_processes_that_use_one() {
    let (waiting, other) = ((3 << 24) | 3, (9 << 24) | 9);
    let sql = [
        launch("CUPTI_ACTIVITY_KIND_RUNTIME", 1, waiting, 1),
        launch("CUPTI_ACTIVITY_KIND_RUNTIME", 10, THREAD, 77),
        launch("CUPTI_ACTIVITY_KIND_RUNTIME", 900, other, 77),
        kernel(1000, 0, 5, 77),
        kernel(1200, 0, 9, 77),
        "CREATE TABLE TARGET_INFO_CUDA_DEVICE (gpuId INT, cudaId INT, pid INT);
        INSERT INTO TARGET_INFO_CUDA_DEVICE VALUES (1, 0, 5), (0, 0, 9);
        CREATE TABLE TARGET_INFO_GPU (id INT, name TEXT, cuDevice INT);
        INSERT INTO TARGET_INFO_GPU VALUES (0, 'first', 0), (1, 'second', 1);"
            .to_owned(),
    ];
    let (_folder, path) = made(&(TEXTS.to_owned() + &sql.concat()));
    let traces = read(&path);
    let name = |trace: &Trace| trace.meta.name.rsplit_once(' ').unwrap().1.to_owned();
    let gpu = |trace: &Trace| {
        let devices: serde_json::Value = serde_json::from_str(trace.meta.entry("deviceProperties")?).ok()?;
        Some((devices[0]["id"].as_i64()?, devices[0]["name"].as_str()?.to_owned(), devices.as_array()?.len()))
    };
    let found: Vec<_> = traces.iter().map(|trace| (name(trace), trace.meta.rank, gpu(trace))).collect();
    let own = |name: &str| Some((0, name.to_owned(), 1));
    assert_eq!(found[..2], [("9".to_owned(), Some(0), own("first")), ("5".to_owned(), Some(1), own("second"))]);
    assert_eq!((found[2].0.as_str(), found[2].1), ("3", None));
}

#[test]
fn unmerged_log_is_reported() {
    let (_folder, path) = made(&(TEXTS.to_owned() + &launch("CUPTI_ACTIVITY_KIND_RUNTIME", 10, THREAD, 77)));
    std::fs::write(path.with_file_name("made.sqlite-wal"), "not merged").unwrap();
    assert_eq!(read(&path)[0].report.count_of("unmerged_log"), 1);
}

#[test]
fn summary_of_an_export() {
    let sql = launch("CUPTI_ACTIVITY_KIND_RUNTIME", 10, THREAD, 77) + &kernel(1000, 0, 5, 77);
    let (_folder, path) = made(&(TEXTS.to_owned() + &sql));
    let trace = &read(&path)[0];
    let line = |event: EventId| {
        let arguments = arguments(trace, event);
        let (row, track) = (event.index(), trace.tracks.get(trace.events.track[event.index()]));
        let at = (trace.events.start[row], trace.events.dur[row], track.kind.name());
        format!("{} {} {at:?}{arguments}\n", trace.kind(event).name(), trace.name(event))
    };
    let lines: String = trace.events.ids().map(line).collect();
    insta::assert_snapshot!(format!("format {}\n{lines}", trace.meta.format));
}

#[test]
fn tables_of_other_versions_and_missing_tables() {
    let sql = launch("CUPTI_ACTIVITY_KIND_RUNTIME_V2", 1, THREAD, 1)
        + &launch("CUPTI_ACTIVITY_KIND_RUNTIME_V3", 10, THREAD, 77);
    let (_folder, path) = made(&(TEXTS.to_owned() + &sql + &kernel(1000, 0, 5, 77)));
    let traces = read(&path);
    assert_eq!(sum(&traces, EventKind::Runtime, "cudaLaunchKernel"), (1, 5), "the newest version counts");
    let versions = traces[0].report.problems.iter().find(|p| p.code == "several_versions_of_a_table").unwrap();
    assert_eq!(versions.example, "CUPTI_ACTIVITY_KIND_RUNTIME_V3 was read, not CUPTI_ACTIVITY_KIND_RUNTIME_V2");
    assert_eq!(traces[0].report.count_of("table_not_read"), 0);
    assert!(traces[0].gpu.launch[0].is_some());
    assert!(traces[0].meta.entry("deviceProperties").is_none());
    let nothing = "CREATE TABLE NVTX_EVENTS (start INT, end INT)";
    let (_folder, path) = made(&(TEXTS.to_owned() + nothing));
    let error = read_paths(&[path], &ReadOptions::default()).unwrap_err().to_string();
    assert!(error.contains("record with nsys profile --trace=cuda,nvtx,osrt"), "{error}");
    let (_folder, path) = made("CREATE TABLE people (name TEXT)");
    let error = read_paths(&[path], &ReadOptions::default()).unwrap_err();
    assert!(matches!(error, Error::Unsupported { .. }));
    assert!(error.to_string().contains("the tables people"), "{error}");
}

#[test]
fn nvtx_ranges_marks_and_operators() {
    let thread = THREAD;
    let sql = format!(
        "CREATE TABLE NVTX_EVENTS (start INT, end INT, eventType INT, text TEXT, textId INT, globalTid INT);
        INSERT INTO NVTX_EVENTS VALUES
            (0, 100, 59, NULL, 3, {thread}), (10, 90, 59, 'aten::mm, seq = 4, op_id = 2', NULL, {thread}),
            (20, NULL, 34, 'here', NULL, {thread}), (30, 300, 60, 'across', NULL, {thread}),
            (40, NULL, 59, 'open', NULL, {thread}), (0, 0, 75, 'domain', NULL, {thread}),
            (70, 60, 59, 'backwards', NULL, {thread}), (NULL, 60, 59, 'timeless', NULL, {thread}),
            (200, 220, 59, 'MmBackward0, seq = 4', NULL, {});",
        thread + 1
    );
    let (_folder, path) = made(&(TEXTS.to_owned() + &sql));
    let traces = read(&path);
    let trace = &traces[0];
    let find_event = |name: &str| trace.events.ids().find(|&e| trace.name(e) == name).unwrap_or(EventId::NONE);
    let kind = |name: &str| trace.kind(find_event(name));
    assert_eq!(
        [kind("step"), kind("aten::mm"), kind("here"), kind("across")],
        [EventKind::Annotation, EventKind::Operator, EventKind::Instant, EventKind::Async]
    );
    assert_eq!(trace.events.phase[find_event("here").index()], Phase::Instant);
    assert_eq!(trace.attr("Sequence number").i64(find_event("aten::mm")), Some(4));
    assert_eq!(trace.events.parent[find_event("aten::mm").index()], find_event("step"));
    assert_eq!(trace.events.end(find_event("open")), 90, "not beyond what it was opened in");
    assert_eq!(trace.events.dur[find_event("backwards").index()], 0);
    assert!(trace.events.has(find_event("timeless"), flags::NO_TIME));
    let counts = ["unfinished", "negative_duration", "no_time"].map(|code| trace.report.count_of(code));
    assert_eq!(counts, [1, 1, 1]);
    assert!(find_event("domain").is_none());
    let linked: Vec<_> = trace.links.of_kind(LinkKind::Backward).map(|(from, to, _)| (from, to)).collect();
    assert_eq!(linked, [(find_event("aten::mm"), find_event("MmBackward0"))]);
}

#[test]
fn waits_name_their_event_and_graphs_are_complete() {
    let process = 5 << 24;
    let sql = format!(
        "CREATE TABLE CUPTI_ACTIVITY_KIND_CUDA_EVENT
            (timestamp INT, deviceId INT, streamId INT, correlationId INT, globalPid INT, eventId INT, eventSyncId INT);
        INSERT INTO CUPTI_ACTIVITY_KIND_CUDA_EVENT VALUES (5, 0, 20, 55, {process}, 1, 900);
        CREATE TABLE CUPTI_ACTIVITY_KIND_SYNCHRONIZATION
            (start INT, end INT, deviceId INT, streamId INT, correlationId INT, globalPid INT, syncType INT, eventId INT, eventSyncId INT);
        INSERT INTO CUPTI_ACTIVITY_KIND_SYNCHRONIZATION VALUES
            (10, 12, 0, 7, 60, {process}, 2, 1, 900), (20, 30, 0, 4294967295, 61, {process}, 4, 4294967295, 4294967295);
        CREATE TABLE CUPTI_ACTIVITY_KIND_GRAPH_TRACE
            (start INT, end INT, deviceId INT, streamId INT, correlationId INT, globalPid INT, graphId INT, graphExecId INT);
        INSERT INTO CUPTI_ACTIVITY_KIND_GRAPH_TRACE VALUES (40, 90, 0, 7, 77, {process}, 109, 3);
        CREATE TABLE GPU_METRICS (timestamp INT); INSERT INTO GPU_METRICS VALUES (1);"
    );
    let (_folder, path) = made(&(TEXTS.to_owned() + &sql + &launch("CUPTI_ACTIVITY_KIND_RUNTIME", 10, THREAD, 77)));
    let traces = read(&path);
    let trace = &traces[0];
    let find_event = |name: &str| trace.events.ids().find(|&e| trace.name(e) == name).unwrap();
    let number = |key: &str, event| trace.attr(key).i64(event);
    let wait = find_event("Stream Wait Event");
    assert_eq!(
        [number("wait_on_stream", wait), number("wait_on_cuda_event_record_corr_id", wait), number("stream", wait)],
        [Some(20), Some(55), Some(7)]
    );
    let context = find_event("Context Sync");
    assert_eq!((number("stream", context), number("wait_on_stream", context)), (Some(-1), None));
    let graph = find_event("CUDA graph 109");
    assert_eq!(trace.tracks.get(trace.events.track[graph.index()]).kind, TrackKind::Stream);
    assert!(trace.gpu.launch[trace.gpu.of_event(graph).unwrap().index()].is_some());
    let counts = ["graphs_as_a_whole", "table_not_read"].map(|code| trace.report.count_of(code));
    assert_eq!(counts, [1, 1]);
}

#[test]
fn packed_and_piped_exports_give_equal_traces() {
    let sql = launch("CUPTI_ACTIVITY_KIND_RUNTIME", 10, THREAD, 77) + &kernel(1000, 0, 5, 77);
    let (folder, path) = made(&(TEXTS.to_owned() + &sql));
    let plain = std::fs::read(&path).unwrap();
    let columns = |trace: &Trace| format!("{:?}", (&trace.events, &trace.gpu, &trace.attrs, &trace.tracks));
    let expected = columns(&read(&path)[0]);
    let packed = stackline_testkit::io::gzip(&plain);
    for bytes in [&plain, &packed] {
        let trace = read_bytes("made.sqlite", bytes, &ReadOptions::default()).unwrap();
        assert_eq!(columns(&trace), expected);
    }
    // In a directory it is a trace among others.
    std::fs::write(folder.path().join("notes.txt"), "nothing").unwrap();
    let set = read_paths(&[folder.path().to_owned()], &ReadOptions::default()).unwrap();
    assert_eq!(set.traces.len(), 1);
}

#[test]
fn damage_affects_only_damaged_pages() {
    let rows = (0..20_000).map(|i| format!("({}, {}, {THREAD}, {i}, 2)", 10 * i, 10 * i + 5));
    let sql = format!(
        "CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INT, end INT, globalTid INT, correlationId INT, nameId INT);
        INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES {}",
        rows.collect::<Vec<_>>().join(", ")
    );
    let (_folder, path) = made(&(TEXTS.to_owned() + &sql));
    let mut bytes = std::fs::read(&path).unwrap();
    let from = bytes.len() / 2;
    bytes[from..from + 8192].fill(0xff);
    std::fs::write(&path, &bytes).unwrap();
    let traces = read(&path);
    assert_eq!(traces[0].report.count_of("damaged_table"), 1);
    assert!((1000..20_000).contains(&traces[0].events.len()), "{}", traces[0].events.len());
    std::fs::write(&path, &bytes[..from]).unwrap();
    let traces = read(&path);
    assert_eq!(["truncated", "damaged_table"].map(|code| traces[0].report.count_of(code)), [1, 1]);
    assert!((1000..20_000).contains(&traces[0].events.len()), "{}", traces[0].events.len());
    std::fs::write(&path, &bytes[..50]).unwrap();
    assert!(read_paths(&[path], &ReadOptions::default()).is_err());
}

/// The report has the error of the decompression, too, and not only that the database is truncated.
#[test]
fn damaged_compression_of_an_export_is_reported() {
    let rows = (0..20_000).map(|i| format!("({}, {}, {THREAD}, {i}, 2)", 10 * i, 10 * i + 5));
    let sql = format!(
        "CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INT, end INT, globalTid INT, correlationId INT, nameId INT);
        INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES {}",
        rows.collect::<Vec<_>>().join(", ")
    );
    let (_folder, path) = made(&(TEXTS.to_owned() + &sql));
    let packed = stackline_testkit::io::gzip(&std::fs::read(&path).unwrap());
    let trace = read_bytes("cut.sqlite.gz", &packed[..packed.len() / 2], &ReadOptions::default()).unwrap();
    assert!((1000..20_000).contains(&trace.events.len()), "{}", trace.events.len());
    let problem = trace.report.problems.iter().find(|problem| problem.code == "damaged_compression").unwrap();
    assert!(!problem.example.is_empty());
    let error = read_bytes("cut.sqlite.gz", &packed[..300], &ReadOptions::default()).unwrap_err().to_string();
    assert!(error.contains(&problem.example), "{error}");
}

#[test]
fn triggers_and_views_are_not_executed() {
    let sql = launch("CUPTI_ACTIVITY_KIND_RUNTIME", 10, THREAD, 77)
        + "CREATE VIEW NVTX_EVENTS AS
            WITH RECURSIVE forever(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM forever) SELECT n AS start FROM forever;
        CREATE TRIGGER t AFTER INSERT ON StringIds BEGIN DELETE FROM StringIds; END;";
    let (folder, path) = made(&(TEXTS.to_owned() + &sql));
    let before = std::fs::read(&path).unwrap();
    assert_eq!(sum(&read(&path), EventKind::Runtime, ""), (1, 5));
    assert_eq!(std::fs::read(&path).unwrap(), before);
    assert_eq!(folder.path().read_dir().unwrap().count(), 1, "nothing is written beside it");
}
