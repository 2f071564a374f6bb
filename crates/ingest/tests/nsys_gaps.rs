//! Exports of Nsight Systems and recordings of rocmProfileData with a missing process, name or table, or with damaged
//! pages.

use crate::nsys::{TEXTS, THREAD, kernel, launch, made, read};
use rusqlite::Connection;
use stackline_ingest::{ReadOptions, read_paths};
use stackline_model::{EventKind, Trace};
use std::path::Path;

const CALLS: &str = "CUPTI_ACTIVITY_KIND_RUNTIME";
/// Process 9, thread 9.
const OTHER: i64 = (9 << 24) | 9;

fn names(traces: &[Trace]) -> Vec<&str> {
    traces.iter().map(|trace| trace.meta.name.as_str()).collect()
}

fn counts<const N: usize>(trace: &Trace, codes: [&str; N]) -> [u64; N] {
    codes.map(|code| trace.report.count_of(code))
}

fn example(trace: &Trace, code: &str) -> String {
    trace.report.problems.iter().find(|p| p.code == code).map(|p| p.example.clone()).unwrap_or_default()
}

fn error(path: &Path) -> String {
    read_paths(&[path.to_owned()], &ReadOptions::default()).unwrap_err().to_string()
}

/// A kernel of an unrecorded process: `globalPid` is null, or 0.
fn kernel_of_nobody(start: i64, correlation: i64) -> String {
    kernel(start, 0, 0, correlation)
        + &format!(
            "UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET globalPid = NULL WHERE correlationId = {correlation} AND start = {start};"
        )
}

/// Both processes have a call 77, one of them a call 78. The kernel of call 79 ran before that call began, so it
/// belongs to an unrecorded call.
#[test]
fn operations_without_a_process_are_not_assigned_by_guess() {
    let far = 900_000_000;
    let sql = [
        launch(CALLS, 10, THREAD, 77),
        launch(CALLS, 900, OTHER, 77),
        launch(CALLS, 920, OTHER, 78),
        launch(CALLS, far, OTHER, 79),
        kernel_of_nobody(1000, 77),
        kernel_of_nobody(1200, 78),
        kernel_of_nobody(1400, 79),
        kernel(1600, 0, 0, 99),
    ];
    let (_folder, path) = made(&(TEXTS.to_owned() + &sql.concat()));
    let traces = read(&path);
    let operations: Vec<usize> = traces.iter().map(|trace| trace.gpu.len()).collect();
    let expected = ["made.sqlite/process 9", "made.sqlite/process 5", "made.sqlite/operations without a process"];
    assert_eq!((names(&traces), operations), (expected.to_vec(), vec![1, 0, 3]));
    let known = &traces[0];
    assert_eq!(known.events.start[known.gpu.launch[0].index()], 920);
    assert_eq!(counts(known, ["process_by_correlation", "process_unknown", "device_clock_shifted"]), [1, 3, 0]);
    assert!(traces[2].gpu.launch.iter().all(|call| call.is_none()));
    assert!(traces.iter().all(|trace| trace.report.count_of("ambiguous_launch") == 0));
}

#[test]
fn operations_without_a_process_belong_to_the_only_one() {
    let (_folder, path) = made(&(TEXTS.to_owned() + &launch(CALLS, 10, THREAD, 77) + &kernel_of_nobody(1000, 77)));
    let traces = read(&path);
    assert_eq!((traces.len(), traces[0].gpu.launch[0].is_some()), (1, true));
    assert_eq!(counts(&traces[0], ["process_by_correlation", "process_unknown"]), [0, 0]);
}

/// Clocks are compared by calls and their operations, but not if the same IDs determined the process of the operations.
#[test]
fn assigned_operations_shift_no_clock() {
    let late = |at: i64| 1_000_000 * at + 5_000_000_000;
    let sql: String = (1..30)
        .map(|at| launch(CALLS, 1_000_000 * at, THREAD, at) + &kernel_of_nobody(late(at), at))
        .chain([launch(CALLS, 0, OTHER, 1000)])
        .collect();
    let (_folder, path) = made(&(TEXTS.to_owned() + &sql));
    let trace = read(&path).into_iter().find(|trace| !trace.gpu.is_empty()).unwrap();
    assert_eq!(counts(&trace, ["process_by_correlation", "device_clock_shifted", "device_clock_unknown"]), [29, 0, 0]);
    assert_eq!(trace.events.start[trace.gpu.event[0].index()], late(1));
}

#[test]
fn unlisted_processes_are_read() {
    let sql = [
        launch(CALLS, 10, THREAD, 77),
        launch(CALLS, 900, OTHER, 77),
        kernel(1000, 1, 5, 77),
        kernel(1200, 0, 9, 77),
        "CREATE TABLE PROCESSES (pid INT, name TEXT); INSERT INTO PROCESSES VALUES (5, 'python');".to_owned(),
    ];
    let (_folder, path) = made(&(TEXTS.to_owned() + &sql.concat()));
    let traces = read(&path);
    assert_eq!(names(&traces), ["made.sqlite/process 9", "made.sqlite/python 5"]);
    assert_eq!(example(&traces[0], "process_not_listed"), "process 9");
}

/// An empty table without a version does not hide one with a version suffix.
#[test]
fn tables_are_chosen_by_content() {
    let full = launch(CALLS, 10, THREAD, 77) + &kernel(1000, 0, 5, 77);
    let renamed = "ALTER TABLE CUPTI_ACTIVITY_KIND_KERNEL RENAME TO CUPTI_ACTIVITY_KIND_KERNEL_V3;
        CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL AS SELECT * FROM CUPTI_ACTIVITY_KIND_KERNEL_V3 LIMIT 0;";
    let (_folder, path) = made(&(TEXTS.to_owned() + &full + renamed));
    let trace = &read(&path)[0];
    assert_eq!((trace.gpu.len(), counts(trace, ["several_versions_of_a_table", "table_not_read"])), (1, [0, 0]));
    let both = "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL SELECT * FROM CUPTI_ACTIVITY_KIND_KERNEL_V3;";
    let (_folder, path) = made(&(TEXTS.to_owned() + &full + renamed + both));
    let trace = &read(&path)[0];
    let expected = "CUPTI_ACTIVITY_KIND_KERNEL was read, not CUPTI_ACTIVITY_KIND_KERNEL_V3";
    assert_eq!((trace.gpu.len(), example(trace, "several_versions_of_a_table").as_str()), (1, expected));
}

#[test]
fn missing_texts_are_reported() {
    let rows = launch(CALLS, 10, THREAD, 77) + &kernel(1000, 0, 5, 77);
    let (_folder, path) = made(&(TEXTS.to_owned() + &rows + "DELETE FROM StringIds WHERE id = 1;"));
    let trace = &read(&path)[0];
    assert_eq!(trace.name(trace.gpu.event[0]), "kernel without a name");
    assert_eq!(example(trace, "missing_text"), "1 × kernel without a name (missing string 1)");
    let (_folder, path) = made(&(TEXTS.to_owned() + &rows + "UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET shortName = NULL;"));
    assert_eq!(counts(&read(&path)[0], ["missing_text", "row_without_name"]), [0, 1]);
    let (_folder, path) = made(&rows);
    let trace = &read(&path)[0];
    assert_eq!((trace.gpu.len(), counts(trace, ["missing_table", "missing_text"])), (1, [1, 2]));
}

/// Overwrite the first pages of tables.
fn damage(path: &Path, tables: &[&str]) {
    let file = Connection::open(path).unwrap();
    let number = |row: &rusqlite::Row<'_>| row.get::<_, i64>(0).map(|number| usize::try_from(number).unwrap());
    let size = file.query_row("PRAGMA page_size", [], number).unwrap();
    let root =
        |table: &&str| file.query_row("SELECT rootpage FROM sqlite_master WHERE name = ?", [table], number).unwrap();
    let roots: Vec<usize> = tables.iter().map(root).collect();
    drop(file);
    let mut bytes = std::fs::read(path).unwrap();
    for root in roots {
        bytes[(root - 1) * size..root * size].fill(0xff);
    }
    std::fs::write(path, bytes).unwrap();
}

#[test]
fn damaged_tables_are_reported_as_damage() {
    let kernels = "CUPTI_ACTIVITY_KIND_KERNEL";
    let (_folder, path) = made(&(TEXTS.to_owned() + &launch(CALLS, 10, THREAD, 77) + &kernel(1000, 0, 5, 77)));
    damage(&path, &[kernels]);
    let trace = &read(&path)[0];
    assert!(example(trace, "damaged_table").starts_with("CUPTI_ACTIVITY_KIND_KERNEL: "));
    damage(&path, &[CALLS]);
    let message = error(&path);
    assert!(
        message.contains("the file is damaged") && message.contains(kernels) && message.contains(CALLS),
        "{message}"
    );
    assert!(!message.contains("record with nsys"), "{message}");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.rpd");
    let sql = "CREATE TABLE rocpd_string (id INT, string TEXT); INSERT INTO rocpd_string VALUES (1, 'k');
        CREATE TABLE rocpd_op (id INT, gpuId INT, start INT, end INT); INSERT INTO rocpd_op VALUES (1, 0, 5, 9);";
    Connection::open(&path).unwrap().execute_batch(sql).unwrap();
    damage(&path, &["rocpd_op"]);
    let message = error(&path);
    assert!(message.contains("table rocpd_op cannot be read") && !message.contains("no GPU work ran"), "{message}");
}

/// Each process of a truncated file may have missing records.
#[test]
fn damage_is_reported_in_each_process() {
    let rows: String =
        (0..2000).map(|at| launch(CALLS, at * 10, if at % 2 == 0 { THREAD } else { OTHER }, at)).collect();
    let (_folder, path) = made(&(TEXTS.to_owned() + "BEGIN;" + &rows + "COMMIT;"));
    let bytes = std::fs::read(&path).unwrap();
    std::fs::write(&path, &bytes[..bytes.len() / 2]).unwrap();
    let traces = read(&path);
    assert_eq!(traces.len(), 2);
    for trace in &traces {
        assert_eq!(counts(trace, ["truncated", "damaged_table"]), [1, 1], "{}", trace.meta.name);
    }
}

/// The missing end of the last page is not read as calls of a process 0.
#[test]
fn rows_that_the_file_ends_within_are_counted() {
    let rows: String = (0..500).map(|at| launch(CALLS, at * 10, THREAD, at)).collect();
    let (_folder, path) = made(&(TEXTS.to_owned() + "BEGIN;" + &rows + "COMMIT;"));
    let bytes = std::fs::read(&path).unwrap();
    std::fs::write(&path, &bytes[..bytes.len() - 100]).unwrap();
    let traces = read(&path);
    assert_eq!(names(&traces), ["made.sqlite"]);
    let trace = &traces[0];
    assert_eq!(counts(trace, ["truncated", "damaged_table", "process_left_out"]), [1, 1, 0]);
    let pages = bytes.len() / 4096;
    let missing = format!("1 of the file's {pages} pages of 4096 bytes is missing or incomplete");
    assert_eq!(example(trace, "truncated"), missing);
    let lost = 500 - trace.events.len();
    assert!((3..=10).contains(&lost), "{lost}");
    let expected = format!("{CALLS}: rows skipped because the file ends within them: {lost}");
    assert_eq!(example(trace, "damaged_table"), expected);
}

/// An entry that launched an operation is a call, and the operation of a copy call is a copy, independent of their
/// names.
#[test]
fn rocm_recordings_without_texts_keep_launches_and_copies() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.rpd");
    let sql = "CREATE TABLE rocpd_string (id INT, string TEXT); INSERT INTO rocpd_string VALUES (1, '');
        CREATE TABLE rocpd_api (id INTEGER PRIMARY KEY, pid INT, tid INT, start INT, end INT, apiName_id INT, args_id INT);
        INSERT INTO rocpd_api VALUES (1, 5, 6, 10, 20, 77, 1);
        CREATE TABLE rocpd_op (id INTEGER PRIMARY KEY, gpuId INT, queueId INT, start INT, end INT, description_id INT, opType_id INT);
        INSERT INTO rocpd_op VALUES (1, 0, 1, 30, 40, 78, 79);
        CREATE TABLE rocpd_api_ops (id INTEGER PRIMARY KEY, api_id INT, op_id INT); INSERT INTO rocpd_api_ops VALUES (1, 1, 1);
        CREATE TABLE rocpd_copyapi (api_ptr_id INTEGER PRIMARY KEY, stream TEXT, size INT);
        INSERT INTO rocpd_copyapi VALUES (1, '0x0', 64);";
    Connection::open(&path).unwrap().execute_batch(sql).unwrap();
    let trace = &read(&path)[0];
    assert_eq!(trace.kind(trace.gpu.event[0]), EventKind::Memcpy);
    assert!(trace.gpu.launch[0].is_some());
    assert_eq!(
        example(trace, "missing_text"),
        "1 × call without a name (missing string 77), 1 × copy without a name (missing string 78)"
    );
}
