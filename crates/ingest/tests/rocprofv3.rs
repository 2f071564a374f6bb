//! Recordings of rocprofv3: real ones with the values of the corpus, and one generated run in each format.

mod instruction_samples;
mod odd_tables;

use crate::common::{arguments, corpus};
use crate::invariants;
use rusqlite::Connection;
use stackline_ingest::{ReadOptions, read_bytes, read_paths};
use stackline_model::{EventId, EventKind, Trace};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

fn read(paths: &[PathBuf]) -> Vec<Trace> {
    let set = read_paths(paths, &ReadOptions::default()).unwrap();
    set.traces.iter().for_each(|trace| invariants::check(trace).unwrap());
    set.traces
}

/// Files of the corpus as one input.
fn recording(names: &[&str]) -> Option<Trace> {
    let folder = corpus()?.join("rocprof");
    let paths: Vec<PathBuf> = names.iter().map(|name| folder.join(name)).collect();
    let mut traces = read(&paths);
    assert_eq!(traces.len(), 1);
    traces.pop()
}

/// Number and total duration (ns) of events of a kind.
fn sum(trace: &Trace, kind: EventKind) -> (usize, i64) {
    let events = trace.events.ids().filter(|&e| trace.kind(e) == kind);
    events.fold((0, 0), |(count, ns), e| (count + 1, ns + trace.events.dur[e.index()]))
}

fn names(trace: &Trace) -> usize {
    let kernels = trace.events.ids().filter(|&e| trace.kind(e) == EventKind::Kernel);
    kernels.map(|e| trace.name(e)).collect::<BTreeSet<_>>().len()
}

#[test]
fn a_document_of_a_training_run() {
    let Some(trace) = recording(&["amd-mi350x-rocprofv3.json.gz"]) else { return };
    // Sum of Python's json module over `kernel_dispatch`.
    assert_eq!(sum(&trace, EventKind::Kernel), (43_915, 4_441_741_378));
    let devices = &trace.gpu.device;
    assert!(devices.iter().all(|&device| device == 0), "all ran on the first of eight GPUs");
    assert!(
        trace
            .meta
            .entries
            .iter()
            .any(|(key, value)| key == "deviceProperties" && value.contains("AMD Instinct MI350X"))
    );
    let copies = trace.events.ids().find(|&e| trace.name(e) == "__amd_rocclr_copyBuffer").unwrap();
    assert_eq!(
        arguments(&trace, copies),
        " device=Int(0) queue=Int(16) correlation=Int(1) grid=[1,1,1] block=[512,1,1] shared memory=Int(0) registers per thread=Int(8)"
    );
}

#[test]
fn a_table_of_kernels() {
    let Some(trace) = recording(&["prefill_kernel_trace.csv"]) else { return };
    assert_eq!(sum(&trace, EventKind::Kernel), (1128, 66_066_571));
    assert_eq!(names(&trace), 27);
    assert_eq!(trace.gpu.stream.iter().collect::<BTreeSet<_>>().len(), 2, "two queues");
}

#[test]
fn tables_of_one_run() {
    let Some(trace) = recording(&["decode_kernel_trace.csv", "decode_hip_api_trace.csv"]) else { return };
    assert_eq!(sum(&trace, EventKind::Kernel), (144, 1_857_381));
    assert_eq!(sum(&trace, EventKind::Runtime), (920, 4_449_331));
    assert_eq!(trace.gpu.launch.iter().filter(|call| call.is_some()).count(), 27);
    let call = trace.gpu.launch.iter().find(|call| call.is_some()).unwrap();
    assert_eq!(trace.name(*call), "hipLaunchKernel");
    assert_eq!(trace.report.count_of("part_not_given"), 0);
}

#[test]
fn hardware_counters_of_kernels() {
    let Some(trace) = recording(&["decode_fetch_counter_collection.csv"]) else { return };
    let column = trace.attr("FETCH_SIZE");
    let values: Vec<f64> = trace.events.ids().filter_map(|e| column.f64(e)).collect();
    assert_eq!((values.len(), values.iter().sum::<f64>()), (34, 42_346.687_5));
    assert_eq!(sum(&trace, EventKind::Kernel).0, 34);
}

#[test]
fn missing_files_are_reported() {
    let Some(trace) = recording(&["decode_kernel_trace.csv"]) else { return };
    let problem = trace.report.problems.iter().find(|problem| problem.code == "part_not_given").unwrap();
    assert_eq!(problem.count, 1, "the counters are of another run: {problem:?}");
}

#[test]
fn folders_may_contain_several_runs() {
    let Some(corpus) = corpus() else { return };
    let traces = read(&[corpus.join("rocprof")]);
    let counts: Vec<_> = traces.iter().map(|trace| (&*trace.meta.name, sum(trace, EventKind::Kernel).0)).collect();
    assert_eq!(
        counts,
        [
            ("amd-mi350x-rocprofv3.json.gz", 43_915),
            ("decode_fetch_counter_collection.csv", 34),
            ("decode", 144),
            ("prefill_kernel_trace.csv", 1128)
        ]
    );
}

/// Events of traces, one per line.
fn text(traces: &[Trace]) -> String {
    let line = |trace: &Trace, event: EventId| {
        let row = event.index();
        let track = trace.tracks.get(trace.events.track[row]);
        let at = (trace.events.start[row], trace.events.dur[row], track.kind.name());
        format!("{} {} {at:?}{}", trace.kind(event).name(), trace.name(event), arguments(trace, event))
    };
    let totals = |trace: &Trace| {
        let mut lines: Vec<String> = trace.events.ids().map(|event| line(trace, event)).collect();
        lines.sort();
        let mut launches: Vec<_> =
            trace.gpu.launch.iter().map(|&call| call.is_some().then(|| trace.name(call))).collect();
        launches.sort();
        format!("rank {:?}\n{}\n{launches:?} {:?}\n", trace.meta.rank, lines.join("\n"), trace.meta.entries)
    };
    traces.iter().map(totals).collect()
}

const DOCUMENT: &str = r#"{"rocprofiler-sdk-tool": [{
  "metadata": {"pid": 908},
  "agents": [
    {"id": {"handle": 70}, "type": 1, "name": "a CPU", "node_id": 0, "logical_node_type_id": 0},
    {"id": {"handle": 71}, "type": 2, "name": "gfx950", "product_name": "a GPU", "node_id": 1, "logical_node_type_id": 0, "cu_count": 4,
     "wave_front_size": 64, "max_waves_per_cu": 32, "workgroup_max_size": 1024},
    {"id": {"handle": 72}, "type": 2, "name": "gfx950", "product_name": "a GPU", "node_id": 2, "logical_node_type_id": 1, "cu_count": 4,
     "wave_front_size": 64, "max_waves_per_cu": 32, "workgroup_max_size": 1024}],
  "counters": [{"id": {"handle": 5}, "name": "FETCH_SIZE"}],
  "callback_records": {"counter_collection": [{"thread_id": 910, "dispatch_data": {"dispatch_info": {"dispatch_id": 1}},
    "records": [{"counter_id": {"handle": 5}, "value": 1.5}, {"counter_id": {"handle": 5}, "value": 2.0}]}]},
  "buffer_records": {
    "kernel_dispatch": [
      {"thread_id": 910, "correlation_id": {"internal": 7, "external": 0}, "start_timestamp": 200, "end_timestamp": 300, "stream_id": {"handle": 3},
       "dispatch_info": {"agent_id": {"handle": 72}, "queue_id": {"handle": 2}, "kernel_id": 11, "dispatch_id": 1, "private_segment_size": 16,
        "group_segment_size": 512, "workgroup_size": {"x": 64, "y": 1, "z": 1}, "grid_size": {"x": 130, "y": 2, "z": 1}}},
      {"thread_id": 910, "correlation_id": {"internal": 99, "external": 0}, "start_timestamp": 300, "end_timestamp": 310, "stream_id": {"handle": 3},
       "dispatch_info": {"agent_id": {"handle": 72}, "queue_id": {"handle": 2}, "kernel_id": 11, "dispatch_id": 2, "private_segment_size": 0,
        "group_segment_size": 0, "workgroup_size": {"x": 64, "y": 1, "z": 1}, "grid_size": {"x": 64, "y": 1, "z": 1}}}],
    "hip_api": [
      {"kind": 1, "operation": 1, "correlation_id": {"internal": 7, "external": 0}, "start_timestamp": 110, "end_timestamp": 120, "thread_id": 910},
      {"kind": 1, "operation": 2, "correlation_id": {"internal": 8, "external": 0}, "start_timestamp": 130, "end_timestamp": 140, "thread_id": 910}],
    "marker_api": [
      {"kind": 2, "operation": 1, "correlation_id": {"internal": 6, "external": 0}, "start_timestamp": 100, "end_timestamp": 150, "thread_id": 910},
      {"kind": 2, "operation": 0, "correlation_id": {"internal": 9, "external": 0}, "start_timestamp": 160, "end_timestamp": 160, "thread_id": 910}],
    "memory_copy": [
      {"kind": 3, "operation": 2, "correlation_id": {"internal": 8, "external": 0}, "start_timestamp": 320, "end_timestamp": 420,
       "src_agent_id": {"handle": 70}, "dst_agent_id": {"handle": 72}, "bytes": 4096, "stream_id": {"handle": 3}}],
    "memory_allocation": [{"kind": 4}]},
  "kernel_symbols": [{"kernel_id": 11, "kernel_name": "gemm.kd", "formatted_kernel_name": "gemm(int, float)", "arch_vgpr_count": 8, "accum_vgpr_count": 4}],
  "strings": {"buffer_records": [{"kind": "NONE", "operations": []}, {"kind": "HIP_RUNTIME_API", "operations": ["", "hipLaunchKernel", "hipMemcpyAsync"]},
    {"kind": "MARKER_CORE_RANGE_API", "operations": ["roctxMarkA", "roctxThreadRangeA"]},
    {"kind": "MEMORY_COPY", "operations": ["MEMORY_COPY_NONE", "", "MEMORY_COPY_HOST_TO_DEVICE"]}],
    "marker_api": [{"key": 6, "value": "aten::mm, seq = 3, sizes = [[2, 2]]"}, {"key": 9, "value": "checkpoint"}]}
}]}"#;

const TABLES: &[(&str, &str)] = &[
    (
        "908_agent_info.csv",
        "\"Node_Id\",\"Logical_Node_Id\",\"Agent_Type\",\"Cu_Count\",\"Wave_Front_Size\",\"Max_Waves_Per_Cu\",\"Workgroup_Max_Size\",\"Name\",\"Product_Name\"
0,0,\"CPU\",0,0,0,0,\"a CPU\",\"\"
4,1,\"GPU\",4,64,32,1024,\"gfx950\",\"a GPU\"
6,2,\"GPU\",4,64,32,1024,\"gfx950\",\"a GPU\"
",
    ),
    (
        "908_kernel_trace.csv",
        "\"Kind\",\"Agent_Id\",\"Queue_Id\",\"Stream_Id\",\"Thread_Id\",\"Dispatch_Id\",\"Kernel_Id\",\"Kernel_Name\",\"Correlation_Id\",\"Start_Timestamp\",\"End_Timestamp\",\"LDS_Block_Size\",\"Scratch_Size\",\"VGPR_Count\",\"Accum_VGPR_Count\",\"SGPR_Count\",\"Workgroup_Size_X\",\"Workgroup_Size_Y\",\"Workgroup_Size_Z\",\"Grid_Size_X\",\"Grid_Size_Y\",\"Grid_Size_Z\"
\"KERNEL_DISPATCH\",\"Agent 2\",2,3,910,1,11,\"gemm(int, float)\",7,200,300,512,16,8,4,32,64,1,1,130,2,1
\"KERNEL_DISPATCH\",\"Agent 2\",2,3,910,2,11,\"gemm(int, float)\",99,300,310,0,0,8,4,32,64,1,1,64,1,1
",
    ),
    (
        "908_hip_api_trace.csv",
        "\"Domain\",\"Function\",\"Process_Id\",\"Thread_Id\",\"Correlation_Id\",\"Start_Timestamp\",\"End_Timestamp\"
\"HIP_RUNTIME_API\",\"hipLaunchKernel\",908,910,7,110,120
\"HIP_RUNTIME_API\",\"hipMemcpyAsync\",908,910,8,130,140
",
    ),
    (
        "908_marker_api_trace.csv",
        "\"Domain\",\"Function\",\"Process_Id\",\"Thread_Id\",\"Correlation_Id\",\"Start_Timestamp\",\"End_Timestamp\"
\"MARKER_CORE_RANGE_API\",\"aten::mm, seq = 3, sizes = [[2, 2]]\",908,910,6,100,150
\"MARKER_CORE_RANGE_API\",\"checkpoint\",908,910,9,160,160
",
    ),
    (
        "908_memory_copy_trace.csv",
        "\"Kind\",\"Direction\",\"Stream_Id\",\"Source_Agent_Id\",\"Destination_Agent_Id\",\"Correlation_Id\",\"Start_Timestamp\",\"End_Timestamp\"
\"MEMORY_COPY\",\"MEMORY_COPY_HOST_TO_DEVICE\",3,\"Agent 0\",\"Agent 2\",8,320,420
",
    ),
    (
        "908_memory_allocation_trace.csv",
        "\"Kind\",\"Operation\",\"Agent_Id\",\"Allocation_Size\",\"Address\",\"Correlation_Id\",\"Start_Timestamp\",\"End_Timestamp\"
\"MEMORY_ALLOCATION\",\"MEMORY_ALLOCATION_ALLOCATE\",\"Agent 2\",4096,0x7f,5,90,95
",
    ),
    (
        "908_counter_collection.csv",
        "\"Correlation_Id\",\"Dispatch_Id\",\"Agent_Id\",\"Queue_Id\",\"Process_Id\",\"Thread_Id\",\"Grid_Size\",\"Kernel_Id\",\"Kernel_Name\",\"Workgroup_Size\",\"LDS_Block_Size\",\"Scratch_Size\",\"VGPR_Count\",\"Accum_VGPR_Count\",\"SGPR_Count\",\"Counter_Name\",\"Counter_Value\",\"Start_Timestamp\",\"End_Timestamp\"
7,1,\"Agent 2\",2,908,910,260,11,\"gemm(int, float)\",64,512,16,8,4,32,\"FETCH_SIZE\",3.5,200,300
",
    ),
];

/// Tables of all schemas; `@` represents the suffix of all table names of a process.
const COMMON: &str = "CREATE TABLE rocpd_string@ (id INTEGER PRIMARY KEY, guid TEXT, string TEXT);
    INSERT INTO rocpd_string@ VALUES (1, '', 'HIP_RUNTIME_API'), (2, '', 'MARKER_CORE_RANGE_API'), (3, '', 'MEMORY_COPY'), (4, '', 'KERNEL_DISPATCH'),
        (5, '', 'hipLaunchKernel'), (6, '', 'hipMemcpyAsync'), (7, '', 'roctxThreadRangeA'), (8, '', 'MEMORY_COPY_HOST_TO_DEVICE');
    CREATE TABLE rocpd_info_process@ (id INTEGER PRIMARY KEY, pid INT); INSERT INTO rocpd_info_process@ VALUES (1, 908);
    CREATE TABLE rocpd_info_thread@ (id INTEGER PRIMARY KEY, tid INT); INSERT INTO rocpd_info_thread@ VALUES (1, 910);
    CREATE TABLE rocpd_info_agent@ (id INTEGER PRIMARY KEY, type TEXT, type_index INT, name TEXT, product_name TEXT, extdata JSONB);
    INSERT INTO rocpd_info_agent@ VALUES (0, 'CPU', 0, 'a CPU', '', '{}'),
        (1, 'GPU', 0, 'gfx950', 'a GPU', '{\"cu_count\": 4, \"wave_front_size\": 64, \"max_waves_per_cu\": 32, \"workgroup_max_size\": 1024}'),
        (2, 'GPU', 1, 'gfx950', 'a GPU', '{\"cu_count\": 4, \"wave_front_size\": 64, \"max_waves_per_cu\": 32, \"workgroup_max_size\": 1024}');
    CREATE TABLE rocpd_info_kernel_symbol@ (id INTEGER PRIMARY KEY, kernel_name TEXT, display_name TEXT, arch_vgpr_count INT, accum_vgpr_count INT);
    INSERT INTO rocpd_info_kernel_symbol@ VALUES (11, 'gemm.kd', 'gemm(int, float)', 8, 4);
    CREATE TABLE rocpd_info_pmc@ (id INTEGER PRIMARY KEY, name TEXT); INSERT INTO rocpd_info_pmc@ VALUES (5, 'FETCH_SIZE');
    CREATE TABLE rocpd_pmc_event@ (id INTEGER PRIMARY KEY, event_id INT, pmc_id INT, value REAL); INSERT INTO rocpd_pmc_event@ VALUES (1, 5, 5, 1.5), (2, 5, 5, 2.0);
    CREATE TABLE rocpd_event@ (id INTEGER PRIMARY KEY, category_id INT, stack_id INT, correlation_id INT, extdata JSONB);
    INSERT INTO rocpd_event@ VALUES (1, 1, 7, 0, '{}'), (2, 1, 8, 0, '{}'), (3, 2, 6, 0, '{\"message\": \"aten::mm, seq = 3, sizes = [[2, 2]]\"}'),
        (4, 2, 9, 0, '{\"message\": \"checkpoint\"}'), (5, 4, 7, 0, '{}'), (6, 4, 99, 0, '{}'), (7, 3, 8, 0, '{}');
    CREATE TABLE rocpd_memory_allocate@ (id INTEGER PRIMARY KEY, size INT); INSERT INTO rocpd_memory_allocate@ VALUES (1, 4096);
    CREATE VIEW rocpd_string AS SELECT * FROM rocpd_string@;";

/// Rows with their own location and times.
const PLAIN: &str = "CREATE TABLE rocpd_region@ (id INTEGER PRIMARY KEY, pid INT, tid INT, start INT, end INT, name_id INT, event_id INT);
    INSERT INTO rocpd_region@ VALUES (7, 1, 1, 110, 120, 5, 1), (8, 1, 1, 130, 140, 6, 2), (6, 1, 1, 100, 150, 7, 3);
    CREATE TABLE rocpd_track@ (id INTEGER PRIMARY KEY, pid INT, tid INT); INSERT INTO rocpd_track@ VALUES (1, 1, 1);
    CREATE TABLE rocpd_sample@ (id INTEGER PRIMARY KEY, track_id INT, timestamp INT, event_id INT); INSERT INTO rocpd_sample@ VALUES (9, 1, 160, 4);
    CREATE TABLE rocpd_kernel_dispatch@ (id INTEGER PRIMARY KEY, pid INT, tid INT, agent_id INT, kernel_id INT, dispatch_id INT, queue_id INT, stream_id INT,
        start INT, end INT, private_segment_size INT, group_segment_size INT, workgroup_size_x INT, workgroup_size_y INT, workgroup_size_z INT,
        grid_size_x INT, grid_size_y INT, grid_size_z INT, event_id INT);
    INSERT INTO rocpd_kernel_dispatch@ VALUES (1, 1, 1, 2, 11, 1, 2, 3, 200, 300, 16, 512, 64, 1, 1, 130, 2, 1, 5), (2, 1, 1, 2, 11, 2, 2, 3, 300, 310, 0, 0, 64, 1, 1, 64, 1, 1, 6);
    CREATE TABLE rocpd_memory_copy@ (id INTEGER PRIMARY KEY, pid INT, tid INT, start INT, end INT, name_id INT, dst_agent_id INT, src_agent_id INT, size INT,
        stream_id INT, event_id INT);
    INSERT INTO rocpd_memory_copy@ VALUES (1, 1, 1, 320, 420, 8, 2, 0, 4096, 3, 7);";

/// Rows that refer to tracks and times by number.
const NUMBERED: &str = "CREATE TABLE rocpd_track@ (id INTEGER PRIMARY KEY, pid INT, tid INT, agent_id INT, queue_id INT, stream_id INT);
    INSERT INTO rocpd_track@ VALUES (1, 1, 1, NULL, NULL, NULL), (2, 1, 1, 2, 2, 3);
    CREATE TABLE rocpd_timestamp@ (id INTEGER PRIMARY KEY, value INT);
    INSERT INTO rocpd_timestamp@ VALUES (1, 110), (2, 120), (3, 130), (4, 140), (5, 100), (6, 150), (7, 160), (8, 200), (9, 300), (10, 310), (11, 320), (12, 420);
    CREATE TABLE rocpd_region@ (id INTEGER PRIMARY KEY, track_id INT, name_id INT, start_id INT, end_id INT, event_id INT);
    INSERT INTO rocpd_region@ VALUES (7, 1, 5, 1, 2, 1), (8, 1, 6, 3, 4, 2), (6, 1, 7, 5, 6, 3);
    CREATE TABLE rocpd_sample@ (id INTEGER PRIMARY KEY, track_id INT, name_id INT, timestamp_id INT, event_id INT); INSERT INTO rocpd_sample@ VALUES (9, 1, 7, 7, 4);
    CREATE TABLE rocpd_kernel_dispatch@ (id INTEGER PRIMARY KEY, track_id INT, kernel_id INT, dispatch_id INT, start_id INT, end_id INT,
        private_segment_size INT, group_segment_size INT, workgroup_size_x INT, workgroup_size_y INT, workgroup_size_z INT,
        grid_size_x INT, grid_size_y INT, grid_size_z INT, event_id INT);
    INSERT INTO rocpd_kernel_dispatch@ VALUES (1, 2, 11, 1, 8, 9, 16, 512, 64, 1, 1, 130, 2, 1, 5), (2, 2, 11, 2, 9, 10, 0, 0, 64, 1, 1, 64, 1, 1, 6);
    CREATE TABLE rocpd_memory_copy@ (id INTEGER PRIMARY KEY, track_id INT, start_id INT, end_id INT, name_id INT, dst_agent_id INT, src_agent_id INT, size INT, event_id INT);
    INSERT INTO rocpd_memory_copy@ VALUES (1, 2, 11, 12, 8, 2, 0, 4096, 7);";

fn database(folder: &Path, sql: &str, identifier: &str) -> PathBuf {
    let path = folder.join(format!("run{identifier}_results.db"));
    let sql = (COMMON.to_owned() + sql).replace('@', identifier);
    let sql = if identifier.is_empty() {
        sql[..sql.find("CREATE VIEW").unwrap()].to_owned() + &sql[sql.find("rocpd_string;").unwrap() + 13..]
    } else {
        sql
    };
    Connection::open(&path).unwrap().execute_batch(&sql).unwrap();
    path
}

/// Traces of all formats of one run.
fn forms(folder: &Path) -> Vec<(&'static str, Vec<Trace>)> {
    let write = |name: &str, text: &str| {
        let path = folder.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        path
    };
    let document = write("908_results.json", DOCUMENT);
    TABLES.iter().for_each(|(name, text)| drop(write(&format!("tables/host/{name}"), text)));
    let (plain, numbered) = (database(folder, PLAIN, "_00ab"), database(folder, NUMBERED, ""));
    let inputs = [("document", document), ("tables", folder.join("tables")), ("plain", plain), ("numbered", numbered)];
    inputs.map(|(form, path)| (form, read(&[path]))).into()
}

#[test]
fn all_forms_of_a_run_give_equal_traces() {
    let folder = tempfile::tempdir().unwrap();
    let forms = forms(folder.path());
    let (_, document) = &forms[0];
    insta::assert_snapshot!(text(document));
    for (form, traces) in &forms[1..] {
        // CSV tables lack the size of copies.
        let expected = match *form {
            "tables" => text(document).replace(" bytes=Int(4096) memory bandwidth (GB/s)=Float(40.96)", ""),
            _ => text(document),
        };
        assert_eq!(text(traces), expected, "{form}");
    }
    for (form, traces) in &forms {
        let report = &traces[0].report;
        assert_eq!(
            ["table_not_read", "no_launch", "skipped_file"].map(|code| report.count_of(code)),
            [1, 1, 0],
            "{form}: {report:?}"
        );
    }
}

#[test]
fn truncated_documents_keep_their_first_records() {
    // The symbols follow the records here, as after a tool that sorts keys.
    let cut = DOCUMENT.find("\"kernel_symbols\"").unwrap();
    let trace = read_bytes("908_results.json", &DOCUMENT.as_bytes()[..cut], &ReadOptions::default()).unwrap();
    assert_eq!(sum(&trace, EventKind::Kernel), (2, 110));
    assert_eq!(trace.report.count_of("truncated"), 1);
    let within = DOCUMENT.find("\"memory_copy\"").unwrap();
    let damaged = DOCUMENT[..within].to_owned() + "nonsense" + &DOCUMENT[within..];
    let trace = read_bytes("908_results.json", damaged.as_bytes(), &ReadOptions::default()).unwrap();
    assert_eq!((sum(&trace, EventKind::Kernel).0, trace.report.count_of("too_damaged")), (2, 1));
}

#[test]
fn truncated_rows_are_excluded() {
    let (name, kernels) = TABLES[1];
    let cut = kernels.rfind(",300,310").unwrap();
    let trace = read_bytes(name, &kernels.as_bytes()[..cut], &ReadOptions::default()).unwrap();
    assert_eq!(sum(&trace, EventKind::Kernel), (1, 100));
    assert_eq!(trace.report.count_of("truncated"), 1, "{:?}", trace.report);
    let longer = kernels.replacen(",16,8,", ",16,8,8,", 1);
    let trace = read_bytes(name, longer.as_bytes(), &ReadOptions::default()).unwrap();
    assert_eq!((sum(&trace, EventKind::Kernel).0, trace.report.count_of("damaged_event")), (1, 1));
}

#[test]
fn kernels_of_a_run_with_counters_only() {
    let without = TABLES.iter().filter(|(name, _)| !name.contains("kernel_trace"));
    let folder = tempfile::tempdir().unwrap();
    without.for_each(|(name, text)| std::fs::write(folder.path().join(name), text).unwrap());
    let traces = read(&[folder.path().to_owned()]);
    let kernel = traces[0].events.ids().find(|&e| traces[0].kind(e) == EventKind::Kernel).unwrap();
    assert_eq!(traces[0].name(kernel), "gemm(int, float)");
    assert_eq!(traces[0].attr("FETCH_SIZE").f64(kernel), Some(3.5));
    let document = DOCUMENT.replace("\"kernel_dispatch\"", "\"other\"");
    let trace = read_bytes("908_results.json", document.as_bytes(), &ReadOptions::default()).unwrap();
    assert_eq!(sum(&trace, EventKind::Kernel).0, 1);
}

#[test]
fn files_without_a_recording_report_the_reason() {
    let error =
        |name: &str, text: &str| read_bytes(name, text.as_bytes(), &ReadOptions::default()).unwrap_err().to_string();
    let (_, agents) = TABLES[0];
    insta::assert_snapshot!(
        [
            error("908_results.json", "{\"rocprofiler-sdk-tool\": []}"),
            error("908_agent_info.csv", agents),
            error("908_kernel_stats.csv", "\"Name\",\"Calls\",\"TotalDurationNs\",\"AverageNs\"\n\"gemm\",2,110,55\n"),
        ]
        .join("\n")
    );
}

/// A run of the tables with these names, unchanged or changed.
fn tables(names: &[&str], change: impl Fn(&str) -> String) -> Vec<Trace> {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in TABLES.iter().filter(|(name, _)| names.iter().any(|part| name.contains(part))) {
        std::fs::write(folder.path().join(name), change(text)).unwrap();
    }
    read(&[folder.path().to_owned()])
}

#[test]
fn gpus_follow_from_agent_names() {
    let devices = |called: &str| {
        let traces = tables(&["agent_info", "kernel_trace"], |text| text.replace("Agent 2", called));
        traces[0].gpu.device.clone()
    };
    assert_eq!(devices("Agent 2"), [1, 1], "a logical number, as is usual");
    assert_eq!(devices("Agent 6"), [1, 1], "the number of a node");
    assert_eq!((devices("GPU 1"), devices("GPU 0")), (vec![1, 1], vec![0, 0]));
    assert_eq!(tables(&["kernel_trace"], str::to_owned)[0].gpu.device, [2, 2], "without agents their own number");
}

#[test]
fn files_of_a_run_count_once() {
    let folder = tempfile::tempdir().unwrap();
    let (name, text) = TABLES[1];
    std::fs::write(folder.path().join(name), text).unwrap();
    std::fs::write(folder.path().join(format!("{name}.gz")), stackline_testkit::io::gzip(text.as_bytes())).unwrap();
    std::fs::write(folder.path().join("908_results.json"), DOCUMENT).unwrap();
    database(folder.path(), PLAIN, "_00ab");
    let traces = read(&[folder.path().join(name), folder.path().join(format!("{name}.gz"))]);
    assert_eq!((traces.len(), sum(&traces[0], EventKind::Kernel).0), (1, 2));
    assert_eq!(traces[0].report.count_of("repeated_file"), 1);
    // The document has the data of all tables, more than these.
    let traces = read(&[folder.path().to_owned()]);
    let counts: Vec<_> =
        traces.iter().map(|trace| (&*trace.meta.name, trace.report.count_of("same_profile"))).collect();
    assert_eq!(counts, [("908_results.json", 1), ("run_00ab_results.db", 0)]);
}

#[test]
fn unreadable_runs_do_not_affect_others() {
    let mut archive = tar::Builder::new(Vec::new());
    for (folder, (name, text)) in [("a", TABLES[1]), ("b", TABLES[0])] {
        let mut header = tar::Header::new_gnu();
        header.set_size(text.len() as u64);
        archive.append_data(&mut header, format!("{folder}/{name}"), text.as_bytes()).unwrap();
    }
    let trace = read_bytes("out.tar", &archive.into_inner().unwrap(), &ReadOptions::default()).unwrap();
    assert_eq!((sum(&trace, EventKind::Kernel).0, trace.report.count_of("skipped_file")), (2, 1));
}

#[test]
fn queues_replace_missing_streams() {
    let grouped = |text: &str| {
        text.replace("\"Agent 2\",2,3,910,2", "\"Agent 2\",7,0,910,2").replace("\"Agent 2\",2,3,", "\"Agent 2\",2,0,")
    };
    let traces = tables(&["kernel_trace"], grouped);
    assert_eq!(traces[0].gpu.stream, [2, 7]);
    let one_queue = tables(&["kernel_trace"], |text| text.replace("\"Agent 2\",2,3,", "\"Agent 2\",2,0,"));
    assert_eq!(one_queue[0].gpu.stream, [0, 0]);
}

#[test]
fn host_copies_are_not_gpu_work() {
    let traces = tables(&["memory_copy", "kernel_trace"], |text| text.replace("HOST_TO_DEVICE", "HOST_TO_HOST"));
    assert_eq!((sum(&traces[0], EventKind::Memcpy), sum(&traces[0], EventKind::Other)), ((0, 0), (1, 100)));
}

#[test]
fn processes_of_two_machines_may_have_the_same_number() {
    let one = &DOCUMENT[DOCUMENT.find("[{").unwrap() + 1..DOCUMENT.rfind("]}").unwrap()];
    let two = format!("{{\"rocprofiler-sdk-tool\": [{one}, {one}]}}");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("908_results.json");
    std::fs::write(&path, two).unwrap();
    let traces = read(&[path]);
    let counts: Vec<_> = traces.iter().map(|trace| (&*trace.meta.name, sum(trace, EventKind::Kernel).0)).collect();
    assert_eq!(counts, [("908_results.json/process 908", 2), ("908_results.json/process 908 (2)", 2)]);
    // Tables that were made from a database have an identifier in each row.
    let with_guid = |text: &str| {
        let mut lines = text.lines();
        let header = format!("\"Guid\",{}\n", lines.next().unwrap());
        header + &lines.enumerate().map(|(at, line)| format!("\"{at}\",{line}\n")).collect::<String>()
    };
    let traces = tables(&["kernel_trace", "hip_api"], with_guid);
    assert_eq!(traces.iter().map(|trace| sum(trace, EventKind::Kernel).0).collect::<Vec<_>>(), [1, 1]);
}

#[test]
fn counters_of_a_dispatch_in_any_order() {
    let sorted = |text: &str| {
        let row = text.lines().nth(1).unwrap();
        format!("{text}{}\n{}\n", row.replace("7,1,", "8,2,"), row.replace("FETCH_SIZE\",3.5", "WRITE_SIZE\",2"))
    };
    let traces = tables(&["counter_collection"], sorted);
    let values = |key: &str| traces[0].events.ids().filter_map(|e| traces[0].attr(key).f64(e)).collect::<Vec<_>>();
    assert_eq!(
        (sum(&traces[0], EventKind::Kernel).0, values("FETCH_SIZE"), values("WRITE_SIZE")),
        (2, vec![3.5, 3.5], vec![2.0])
    );
    let traces = tables(&["counter_collection", "kernel_trace"], |text| text.replace("\n7,1,", "\n7,5,"));
    assert_eq!(traces[0].report.count_of("dangling_record"), 1, "of a dispatch that is not recorded");
}

#[test]
fn packing_of_files_is_detected_from_content() {
    let folder = tempfile::tempdir().unwrap();
    let (name, text) = TABLES[1];
    let path = folder.path().join(name);
    std::fs::write(&path, stackline_testkit::io::gzip(text.as_bytes())).unwrap();
    assert_eq!(sum(&read(std::slice::from_ref(&path))[0], EventKind::Kernel), (2, 110));
    // Bytes in memory are not the file of the same name.
    let other = text.replace("7,200,300", "7,200,250");
    let trace = read_bytes(path.to_str().unwrap(), other.as_bytes(), &ReadOptions::default()).unwrap();
    assert_eq!(sum(&trace, EventKind::Kernel), (2, 60));
}
