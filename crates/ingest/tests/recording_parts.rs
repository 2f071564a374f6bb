//! Recordings as inputs: traces, call tree and memory of a folder with streams.

use crate::recording_memory::{Happened, Stream, listing};
use stackline_ingest::recording::{read_memory, read_traces};
use stackline_ingest::{ReadOptions, read_traces_and_memory};
use stackline_model::{MemoryTrace, ReadReport, Trace};
use stackline_recording::TouchKind::Allocated;

/// The readers of the registry give each requested part of a folder with streams.
#[test]
fn recordings_are_read_like_other_inputs() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("job.stackline");
    std::fs::create_dir_all(run.join("streams")).unwrap();
    let stream = Stream::new().touch(10, 3, Allocated, 0x1000, 64).call(3, 5, 20).of_process(11, None);
    std::fs::write(run.join("streams/11-0.slr"), stream.file()).unwrap();
    let options = ReadOptions::default();
    let (set, memory) = read_traces_and_memory(std::slice::from_ref(&run), &options).unwrap();
    let names: Vec<&str> = set.traces.iter().map(|trace| trace.meta.name.as_str()).collect();
    let labels: Vec<&str> = memory.iter().map(|trace| trace.label.as_str()).collect();
    assert_eq!((names, labels), (vec!["job.stackline"], vec!["job.stackline"]));
    let traces = stackline_ingest::read_paths(std::slice::from_ref(&run), &options).unwrap().traces;
    assert_eq!(traces.len(), 1);
    assert_eq!(stackline_ingest::memory::read_path(&run).unwrap().label, "job.stackline");
    assert_eq!(stackline_ingest::read_profile(&run, &options).unwrap().processes.len(), 1);
    assert_eq!(stackline_ingest::files(&run, &[]).unwrap(), [(run.clone(), "job.stackline".to_owned())]);
}

/// Notes of the launcher on ended processes count in traces only.
#[test]
fn traces_and_memory_of_one_decoding_equal_those_of_two() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("job.stackline");
    let streams = run.join("streams");
    std::fs::create_dir_all(&streams).unwrap();
    for pid in [11, 12, 13] {
        let stream = Stream::new().touch(10, 3, Allocated, 0x1000, 64).call(3, 5, 20).of_process(pid, None);
        let file = if pid == 11 { stream.file() } else { stream.file_without_end() };
        std::fs::write(streams.join(format!("{pid}-0.slr")), file).unwrap();
    }
    std::fs::write(streams.join("ended_by_parent"), "12\n").unwrap();
    let options = ReadOptions::default();
    let traces = read_traces(&run, &options).unwrap().traces;
    let counts = ["process_killed", "ended_by_parent"].map(|code| traces[0].report.count_of(code));
    assert_eq!((traces.len(), counts), (1, [1, 1]));
    let both = stackline_ingest::recording::read_traces_and_memory(&run, &options).unwrap();
    let shown = |traces: &[Trace]| -> Vec<(String, usize, ReadReport)> {
        traces.iter().map(|trace| (trace.meta.name.clone(), trace.events.len(), trace.report.clone())).collect()
    };
    assert_eq!(shown(&both.traces.traces), shown(&traces));
    let listed = |memory: &[MemoryTrace]| -> Vec<(String, Vec<Happened>, ReadReport)> {
        memory.iter().map(|trace| (trace.label.clone(), listing(trace), trace.report.clone())).collect()
    };
    let memory = read_memory(&run, &options).unwrap();
    assert_eq!(memory.len(), 3);
    assert_eq!(both.memory.as_deref().map(listed), Some(listed(&memory)));
}
