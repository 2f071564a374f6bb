//! Samples of instructions in all three formats, of rows that were made after the documented columns and keys.

use super::{DOCUMENT, PLAIN, TABLES, database, read};
use crate::common::arguments;
use stackline_ingest::{ReadOptions, read_bytes};
use stackline_model::{EventId, EventKind, SampleMetric, Trace, TrackKind};
use std::path::PathBuf;
use tempfile::TempDir;

/// Time, dispatch, correlation ID, instruction (-1 if it was not decoded), offset, 1 if it was issued, stall reason.
type Row = (i64, i64, i64, i64, i64, i64, usize);
const ROWS: &[Row] = &[
    (210, 1, 7, 0, 16, 0, 3),
    (220, 1, 7, 1, 20, 1, 8),
    (305, 2, 99, 2, 24, 0, 2),
    // Code without a dispatch.
    (230, 0, 0, -1, 4096, 0, 1),
];

/// Text and comment of the instructions.
const INSTRUCTIONS: [(&str, &str); 3] =
    [("s_waitcnt vmcnt(0)", "/src/gemm.hip:12"), ("v_fma_f32 v1, v2, v3, v4", "/src/gemm.hip:14"), ("s_endpgm", "")];

/// Number and name of the type of an instruction that was issued or not.
fn kind(issued: i64) -> (i64, String) {
    let (number, name) = if issued == 1 { (1, "VALU") } else { (15, "NO_INST") };
    (number, format!("ROCPROFILER_PC_SAMPLING_INSTRUCTION_TYPE_{name}"))
}

fn reason(number: usize) -> String {
    let name = match number {
        1 => "NO_INSTRUCTION_AVAILABLE",
        2 => "ALU_DEPENDENCY",
        3 => "WAITCNT",
        _ => "OTHER_WAIT",
    };
    format!("ROCPROFILER_PC_SAMPLING_INSTRUCTION_NOT_ISSUED_REASON_{name}")
}

/// The rows as a table of stochastic samples.
fn table() -> String {
    let row = |&(time, dispatch, correlation, instruction, offset, issued, stall): &Row| {
        let listed = usize::try_from(instruction).ok().map(|at| INSTRUCTIONS[at]);
        let unknown = format!("Unrecognized code object id, physical virtual address of PC:{offset}");
        let (text, comment) = listed.unwrap_or(("", unknown.as_str()));
        let (kind, reason) = (kind(issued).1, reason(stall));
        format!("{time},65535,{dispatch},\"{text}\",\"{comment}\",{correlation},{issued},\"{kind}\",\"{reason}\",4\n")
    };
    let header = "\"Sample_Timestamp\",\"Exec_Mask\",\"Dispatch_Id\",\"Instruction\",\"Instruction_Comment\",\"Correlation_Id\",\
                  \"Wave_Issued_Instruction\",\"Instruction_Type\",\"Stall_Reason\",\"Wave_Count\"\n";
    header.to_owned() + &ROWS.iter().map(row).collect::<String>()
}

/// The table as one of host traps, which has fewer columns.
fn host_traps() -> String {
    let six = |line: &str| {
        // The texts of the rows have commas, but no quotation marks.
        let end = line.find(",0,\"ROC").or(line.find(",1,\"ROC")).or(line.find(",\"Wave_Issued"));
        format!("{}\n", &line[..end.unwrap()])
    };
    table().lines().map(six).collect()
}

/// The rows within a document.
fn document() -> String {
    let sample = |&(time, dispatch, correlation, instruction, offset, issued, stall): &Row| {
        let object = if instruction < 0 { 0 } else { 2 };
        let (kind, reason) = (kind(issued).1, reason(stall));
        format!(
            r#"{{"record": {{"flags": {{"has_mem_cnt": 0}}, "hw_id": {{"chiplet": 0}}, "timestamp": {time}, "dispatch_id": {dispatch},
                "exec_mask": 18446744073709551615, "corr_id": {{"internal": {correlation}, "external": 0}}, "wave_issued": {issued},
                "pc": {{"code_object_id": {object}, "code_object_offset": {offset}}}, "inst_type": "{kind}",
                "snapshot": {{"stall_reason": "{reason}", "dual_issue_valu": 0}}}}, "inst_index": {instruction}}}"#
        )
    };
    let samples: Vec<String> = ROWS.iter().map(sample).collect();
    let list = |text: fn(&(&'static str, &'static str)) -> &'static str| {
        INSTRUCTIONS.iter().map(|row| format!("{:?}", text(row))).collect::<Vec<_>>().join(", ")
    };
    let (texts, comments) = (list(|row| row.0), list(|row| row.1));
    DOCUMENT
        .replace(
            "\"memory_allocation\": [",
            &format!("\"pc_sample_stochastic\": [{}], \"memory_allocation\": [", samples.join(", ")),
        )
        .replace(
            "\"kernel_symbols\": [",
            "\"code_objects\": [{\"code_object_id\": 2, \"uri\": \"file:///opt/gemm.so#offset=4096&size=64\"}], \
             \"kernel_symbols\": [",
        )
        .replace(
            "\"strings\": {",
            &format!("\"strings\": {{\"pc_sample_instructions\": [{texts}], \"pc_sample_comments\": [{comments}], "),
        )
}

/// The rows as tables of a database, with or without decoded instructions.
fn sql(is_decoded: bool) -> String {
    let mut sql = format!(
        "{PLAIN} CREATE TABLE rocpd_info_code_object@ (id INTEGER PRIMARY KEY, uri TEXT);
        INSERT INTO rocpd_info_code_object@ VALUES (2, 'file:///opt/gemm.so#offset=4096&size=64');
        CREATE TABLE rocpd_disassembly_data@ (id INTEGER PRIMARY KEY, code_object_id INT, code_object_offset INT, instruction TEXT, comment TEXT);
        CREATE TABLE rocpd_gpu_pc_sample@ (id INTEGER PRIMARY KEY, timestamp INT, pid INT, event_id INT, dispatch_id INT, correlation_id INT,
            exec_mask INT, code_object_id INT, code_object_offset INT, wave_issued INT, inst_type INT, stall_reason INT, wave_count INT);"
    );
    for &(time, dispatch, correlation, instruction, offset, issued, stall) in ROWS {
        let (object, kind) = (if instruction < 0 { 0 } else { 2 }, kind(issued).0);
        sql += &format!(
            "INSERT INTO rocpd_gpu_pc_sample@ VALUES (NULL, {time}, 1, 9, {dispatch}, {correlation}, -1, {object}, {offset}, {issued}, {kind}, {stall}, 4);"
        );
        if let Some((text, comment)) =
            usize::try_from(instruction).ok().map(|at| INSTRUCTIONS[at]).filter(|_| is_decoded)
        {
            sql += &format!(
                "INSERT INTO rocpd_disassembly_data@ VALUES (NULL, {object}, {offset}, '{text}', '{comment}');"
            );
        }
    }
    sql
}

/// A folder with the tables of a run, each changed, and a table of samples.
fn run(samples: &str, change: impl Fn(&str) -> String) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_owned();
    TABLES.iter().for_each(|(name, text)| std::fs::write(path.join(name), change(text)).unwrap());
    std::fs::write(path.join("908_pc_sampling_stochastic.csv"), samples).unwrap();
    (folder, path)
}

fn samples(trace: &Trace) -> Vec<EventId> {
    trace.events.ids().filter(|&event| trace.kind(event) == EventKind::Sample).collect()
}

/// Time, instruction, call path and arguments of each sample, and the stall reasons of each kernel.
fn described(trace: &Trace) -> Vec<String> {
    let sample = |event: EventId| {
        let mut path: Vec<&str> =
            trace.stacks.names(trace.stacks.of_event(event)).map(|name| trace.strings.get(name)).collect();
        path.reverse();
        let (time, path) = (trace.events.start[event.index()], path.join(";"));
        format!("{time} {} [{path}]{}", trace.name(event), arguments(trace, event))
    };
    let stalls = trace.attr("stall_reasons");
    let kernels = trace.events.ids().filter(|&event| trace.kind(event) == EventKind::Kernel);
    let stalls = kernels.filter_map(|event| Some(stalls.get(event)?.as_str(&trace.strings)?.to_owned()));
    samples(trace).into_iter().map(sample).chain(stalls).collect()
}

const EXPECTED: [&str; 6] = [
    "210 s_waitcnt vmcnt(0) [gemm(int, float);/src/gemm.hip:12] count=Int(1) line=Int(12) stall_reason=waitcnt",
    "220 v_fma_f32 v1, v2, v3, v4 [gemm(int, float);/src/gemm.hip:14] count=Int(1) line=Int(14) stall_reason=issued instruction_type=valu",
    "305 s_endpgm [gemm(int, float)] count=Int(1) stall_reason=alu_dependency",
    "230 instruction at 0x1000 [unrecorded kernel] count=Int(1) stall_reason=no_instruction_available",
    r#"{"issued":1,"waitcnt":1}"#,
    r#"{"alu_dependency":1}"#,
];

#[test]
fn all_forms_have_the_same_samples() {
    let (_folder, tables) = run(&table(), str::to_owned);
    let other = tempfile::tempdir().unwrap();
    let path = other.path().join("908_results.json");
    std::fs::write(&path, document()).unwrap();
    for input in [tables, path, database(other.path(), &sql(true), "_00ab")] {
        let form = input.display().to_string();
        let traces = read(&[input]);
        let trace = &traces[0];
        assert_eq!((traces.len(), described(trace)), (1, EXPECTED.map(str::to_owned).to_vec()), "{form}");
        let counts = ["dangling_record", "table_not_read", "no_duration"].map(|code| trace.report.count_of(code));
        assert_eq!(counts, [1, 1, 0], "{form}: {:?}", trace.report);
        // Each joined sample is on the stream of its kernel, and within it.
        let kernels: Vec<Option<&str>> = samples(trace)
            .iter()
            .map(|&event| trace.ancestors(event).next().map(|kernel| trace.name(kernel)))
            .collect();
        let gemm = Some("gemm(int, float)");
        assert_eq!(kernels, [gemm, gemm, gemm, None], "{form}");
        let series: Vec<_> =
            trace.samples().of_metric(SampleMetric::Count).map(|(track, of)| (track, of.count())).collect();
        assert_eq!(series.iter().map(|&(_, count)| count).collect::<Vec<_>>(), [3, 1], "{form}");
        assert!(series.iter().all(|&(track, _)| trace.tracks.get(track).kind == TrackKind::Stream), "{form}");
    }
}

#[test]
fn code_objects_name_instructions_without_a_text() {
    let folder = tempfile::tempdir().unwrap();
    let traces = read(&[database(folder.path(), &sql(false), "_00ab")]);
    let names: Vec<&str> = samples(&traces[0]).iter().map(|&event| traces[0].name(event)).collect();
    assert_eq!(names, ["gemm.so+0x10", "gemm.so+0x14", "gemm.so+0x18", "instruction at 0x1000"]);
    // The list of a document lacks the second instruction.
    let listed = document().replace("\"inst_index\": 1}", "\"inst_index\": 9}");
    let trace = read_bytes("908_results.json", listed.as_bytes(), &ReadOptions::default()).unwrap();
    let names: Vec<&str> = samples(&trace).iter().map(|&event| trace.name(event)).collect();
    assert_eq!(names, ["s_waitcnt vmcnt(0)", "gemm.so+0x14", "s_endpgm", "instruction at 0x1000"]);
    assert_eq!(trace.report.count_of("dangling_record"), 2);
}

#[test]
fn frames_of_lines_have_the_path_of_their_code_object() {
    let trace = read_bytes("908_results.json", document().as_bytes(), &ReadOptions::default()).unwrap();
    let categories: Vec<(&str, &str)> = (0..trace.stacks.len())
        .map(|at| (trace.strings.get(trace.stacks.name[at]), trace.strings.get(trace.stacks.category[at])))
        .collect();
    let expected = [
        ("gemm(int, float)", "kernel"),
        ("/src/gemm.hip:12", "/opt/gemm.so"),
        ("/src/gemm.hip:14", "/opt/gemm.so"),
        ("unrecorded kernel", "kernel"),
    ];
    assert_eq!(categories, expected);
}

#[test]
fn host_traps_have_no_stall_reasons() {
    let (_folder, tables) = run(&host_traps(), str::to_owned);
    let traces = read(&[tables]);
    let expected = EXPECTED[..4].iter().map(|line| line[..line.find(" stall_reason").unwrap()].to_owned());
    assert_eq!(described(&traces[0]), expected.collect::<Vec<_>>());
}

/// `rocprofv3` without `--kernel-trace` writes no kernels.
#[test]
fn samples_without_kernels_are_counted_and_kept() {
    let text = host_traps();
    let trace = read_bytes("908_pc_sampling_host_trap.csv", text.as_bytes(), &ReadOptions::default()).unwrap();
    assert_eq!((samples(&trace).len(), trace.report.count_of("dangling_record")), (4, 4));
    assert!(described(&trace).iter().all(|line| line.contains("[unrecorded kernel")), "{:?}", described(&trace));
}

#[test]
fn samples_without_a_dispatch_are_joined_by_correlation_and_time() {
    let text = table().replace(",65535,1,", ",65535,,");
    let (_folder, tables) = run(&text, str::to_owned);
    assert_eq!(described(&read(&[tables])[0])[..2], EXPECTED[..2]);
    // Before the kernel of the same correlation ID.
    let (_folder, tables) = run(&text.replace("\n210,", "\n199,"), str::to_owned);
    let traces = read(&[tables]);
    assert_eq!(traces[0].report.count_of("dangling_record"), 2);
}

#[test]
fn samples_follow_their_kernel_to_the_stream_of_its_queue() {
    let grouped = |text: &str| {
        text.replace("\"Agent 2\",2,3,910,2", "\"Agent 2\",7,0,910,2").replace("\"Agent 2\",2,3,", "\"Agent 2\",2,0,")
    };
    let (_folder, tables) = run(&table(), grouped);
    let traces = read(&[tables]);
    let trace = &traces[0];
    let tracks: Vec<String> =
        samples(trace)[..3].iter().map(|&e| trace.track_name(trace.events.track[e.index()])).collect();
    assert_eq!(tracks, ["queue 2", "queue 2", "queue 7"]);
    assert!(samples(trace)[..3].iter().all(|&event| trace.ancestors(event).next().is_some()));
}

#[test]
fn truncated_samples_are_kept_up_to_the_cut() {
    let text = table();
    let cut = text.find("\n305,").unwrap() + 8;
    let (_folder, tables) = run(&text[..cut], str::to_owned);
    let traces = read(&[tables]);
    assert_eq!((samples(&traces[0]).len(), traces[0].report.count_of("truncated")), (2, 1));
    // The list of instructions, the code objects and the names of kernels follow the samples.
    let text = document();
    let cut = text.find("\"timestamp\": 305").unwrap();
    let trace = read_bytes("908_results.json", &text.as_bytes()[..cut], &ReadOptions::default()).unwrap();
    let paths = described(&trace);
    assert_eq!((samples(&trace).len(), trace.report.count_of("truncated")), (2, 1));
    assert!(paths[0].starts_with("210 code object 2+0x10 [kernel without a name]"), "{paths:?}");
    assert_eq!(trace.report.count_of("dangling_record"), 2, "instructions that the list lacks");
}
