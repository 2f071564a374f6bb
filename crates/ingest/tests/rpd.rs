//! Recordings of rocmProfileData: a real one with the values of the corpus, and hand-made ones.

use crate::common::{arguments, corpus};
use crate::invariants;
use rusqlite::Connection;
use stackline_ingest::{ReadOptions, read_paths};
use stackline_model::{AttrValue, EventId, EventKind, Trace};
use std::path::Path;

fn read(path: &Path) -> Vec<Trace> {
    let set = read_paths(&[path.to_owned()], &ReadOptions::default()).unwrap();
    set.traces.iter().for_each(|trace| invariants::check(trace).unwrap());
    set.traces
}

fn made(sql: &str) -> (tempfile::TempDir, Vec<Trace>) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.rpd");
    Connection::open(&path).unwrap().execute_batch(sql).unwrap();
    let traces = read(&path);
    (folder, traces)
}

fn sum(trace: &Trace, kinds: &[EventKind]) -> (usize, i64) {
    let events = trace.events.ids().filter(|&e| kinds.contains(&trace.kind(e)));
    events.fold((0, 0), |(count, ns), e| (count + 1, ns + trace.events.dur[e.index()]))
}

#[test]
fn a_matrix_product() {
    let Some(corpus) = corpus() else { return };
    let traces = read(&corpus.join("rpd/matmul.rpd"));
    let [trace] = &traces[..] else { panic!("{} traces", traces.len()) };
    use EventKind::{Kernel, Memcpy, Memset, Overhead, Runtime};
    assert_eq!(sum(trace, &[Kernel, Memcpy, Memset]), (85, 183_918_056));
    assert_eq!(sum(trace, &[Memcpy, Memset]), (56, 157_518_261));
    let gemm = trace.events.ids().find(|&e| trace.name(e).starts_with("Cijk_")).unwrap();
    assert_eq!(trace.events.dur[gemm.index()], 26_211_956);
    let sizes = ["grid", "block"].map(|key| match trace.attr(key).get(gemm) {
        Some(AttrValue::Json(text)) => trace.strings.get(text).to_owned(),
        other => format!("{other:?}"),
    });
    assert_eq!(sizes, ["[7,782,1]", "[256,1,1]"], "groups, not the work-items that the call was asked for");
    assert_eq!((sum(trace, &[Runtime]).0, sum(trace, &[Overhead]).0), (120, 5));
    assert!(trace.gpu.launch.iter().all(|call| call.is_some()), "each operation has its call");
    let column = trace.attr("bytes");
    let copied: i64 = trace.events.ids().filter(|&e| trace.kind(e) == Memcpy).filter_map(|e| column.i64(e)).sum();
    assert_eq!(copied, 2_032_000_296);
}

const TABLES: &str = "CREATE TABLE rocpd_string (id INTEGER PRIMARY KEY, string TEXT);
    INSERT INTO rocpd_string VALUES (1, ''), (2, 'hipLaunchKernel'), (3, 'gemm'), (4, 'KernelExecution'), (5, 'UserMarker'),
        (6, 'iteration 3'), (7, 'hipGraphLaunch'), (8, 'CopyHostToDevice'), (9, 'hipMemcpyAsync'),
        (10, 'aten::mm, seq = 3, sizes = [[2, 2]]');
    CREATE TABLE rocpd_api (id INTEGER PRIMARY KEY, pid INT, tid INT, start INT, end INT, apiName_id INT, args_id INT);
    CREATE TABLE rocpd_op (id INTEGER PRIMARY KEY, gpuId INT, queueId INT, start INT, end INT, description_id INT, opType_id INT);
    CREATE TABLE rocpd_api_ops (id INTEGER PRIMARY KEY, api_id INT, op_id INT);
    CREATE TABLE rocpd_kernelapi (api_ptr_id INTEGER PRIMARY KEY, stream TEXT, gridX INT, gridY INT, gridZ INT,
        workgroupX INT, workgroupY INT, workgroupZ INT, groupSegmentSize INT);
    CREATE TABLE rocpd_copyapi (api_ptr_id INTEGER PRIMARY KEY, stream TEXT, size INT);";

#[test]
fn summary_of_a_recording() {
    let rows = "INSERT INTO rocpd_api VALUES (1, 10, 11, 100, 900, 5, 6), (2, 10, 11, 110, 120, 2, 1), (3, 10, 11, 130, 140, 7, 1),
            (4, 20, 21, 100, 110, 9, 1), (5, 10, 11, 105, 125, 5, 10);
        INSERT INTO rocpd_op VALUES (1, 0, 1, 200, 300, 3, 4), (2, 0, 1, 300, 310, 3, 4), (3, 0, 1, 310, 330, 3, 4), (4, 1, 0, 120, 220, 1, 8);
        INSERT INTO rocpd_api_ops VALUES (1, 2, 1), (2, 3, 2), (3, 3, 3), (4, 4, 4);
        INSERT INTO rocpd_kernelapi VALUES (2, '0x0', 8, 1, 1, 64, 1, 1, 512);
        INSERT INTO rocpd_copyapi VALUES (4, '0x5', 4096);";
    let (_folder, traces) = made(&(TABLES.to_owned() + rows));
    let text = |trace: &Trace| {
        let line = |event: EventId| {
            let arguments = arguments(trace, event);
            let track = trace.tracks.get(trace.events.track[event.index()]);
            let at = (trace.events.start[event.index()], trace.events.dur[event.index()], track.kind.name());
            format!("{} {} {at:?}{arguments}\n", trace.kind(event).name(), trace.name(event))
        };
        let launches: Vec<_> = trace.gpu.launch.iter().map(|&call| trace.name(call)).collect();
        let lines: String = trace.events.ids().map(line).collect();
        format!("{} ({}, rank {:?})\n{lines}{launches:?}\n", trace.meta.name, trace.meta.format, trace.meta.rank)
    };
    insta::assert_snapshot!(traces.iter().map(text).collect::<String>());
}

#[test]
fn copies_in_parts_have_no_bytes_per_part() {
    let rows = "INSERT INTO rocpd_api VALUES (4, 20, 21, 100, 110, 9, 1);
        INSERT INTO rocpd_op VALUES (4, 1, 0, 120, 220, 1, 8), (5, 1, 0, 220, 320, 1, 8);
        INSERT INTO rocpd_api_ops VALUES (4, 4, 4), (5, 4, 5); INSERT INTO rocpd_copyapi VALUES (4, '0x5', 4096);";
    let (_folder, traces) = made(&(TABLES.to_owned() + rows));
    let bytes: Vec<_> = traces[0].events.ids().filter_map(|e| traces[0].attr("bytes").i64(e)).collect();
    assert_eq!(bytes, [4096], "of the call alone");
}

#[test]
fn missing_columns_of_other_schemas() {
    let (_folder, traces) = made(
        "CREATE TABLE rocpd_string (id INTEGER PRIMARY KEY, string TEXT); INSERT INTO rocpd_string VALUES (1, 'k');
         CREATE TABLE rocpd_op (id INTEGER PRIMARY KEY, gpuId INT, start INT, end INT, description_id INT);
         INSERT INTO rocpd_op VALUES (1, 3, 10, 20, 1), (2, 3, NULL, 30, 1);
         CREATE TABLE rocpd_monitor (id INTEGER PRIMARY KEY, value TEXT); INSERT INTO rocpd_monitor VALUES (1, '5');",
    );
    let trace = &traces[0];
    assert_eq!((trace.events.len(), trace.gpu.device.clone()), (2, vec![3, 3]));
    let count = |code| trace.report.count_of(code);
    assert_eq!([count("no_launch"), count("no_time"), count("table_not_read")], [2, 1, 1]);
}
