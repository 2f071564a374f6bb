//! Recordings of several processes: choice of the memory trace.

use stackline_engine::{OpenOptions, Run, memory_findings};
use stackline_ingest::diagnostics::processes_of;
use stackline_memory::{MemoryAnalysis, curve::curves};
use stackline_model::MemoryTrace;
use stackline_recording::{CallDetail, ChunkWriter, FrameKey, HEADER, Process, Record, Thread, TouchKind};
use std::path::Path;

/// Stream of a process that allocates and frees `bytes` bytes `times` times.
fn stream(pid: u32, bytes: u64, times: i64) -> Vec<u8> {
    file(&records(pid, bytes, times))
}

/// Records of such a process, without the end.
fn records(pid: u32, bytes: u64, times: i64) -> Vec<Record> {
    let thread = Thread { id: 0, tid: 7, torch_id: 0, name: "main".into() };
    let mut records = vec![
        Record::Process(Box::new(Process { pid, ..Process::default() })),
        Record::Thread(thread),
        Record::Text { id: 0, text: "aten::empty".into() },
        Record::Frame { id: 0, key: FrameKey::Operator { name: 0 } },
        Record::Node { thread: 0, id: 1, parent: 0, frame: 0 },
    ];
    for at in 0..2 * times {
        let kind = if at % 2 == 0 { TouchKind::Allocated } else { TouchKind::Freed };
        let address_delta = if at == 0 { 0x1000 } else { 0 };
        records.push(Record::Touch { thread: 0, node: 0, delta_ns: 10, kind, address_delta, bytes });
    }
    records
}

/// Stream of these records and an end.
fn file(records: &[Record]) -> Vec<u8> {
    let mut chunk = ChunkWriter::new();
    records.iter().chain([&Record::End { at_ns: 1000 }]).for_each(|record| chunk.push(record).unwrap());
    [&HEADER[..], chunk.finish()].concat()
}

fn peak(trace: &MemoryTrace) -> u64 {
    curves(trace)[0].peak().bytes
}

#[test]
fn process_with_the_highest_peak_is_first() {
    let folder = tempfile::tempdir().unwrap();
    let recording = |name: &str, processes: &[(u32, u64, i64)]| {
        let run = folder.path().join(name);
        std::fs::create_dir_all(run.join("streams")).unwrap();
        for (pid, bytes, times) in processes {
            std::fs::write(run.join(format!("streams/{pid}.slr")), stream(*pid, *bytes, *times)).unwrap();
        }
        run
    };
    let opened = |path: &Path| Run::open(&[path.to_owned()], &OpenOptions::default()).unwrap();
    // The second process makes most calls, like data-loading workers.
    let several = recording("several", &[(11, 512, 1), (12, 64, 20), (13, 8192, 2), (14, 1024, 3)]);
    let first = |path: &Path| opened(path).memory(None).unwrap();
    let shown = first(&several);
    assert_eq!((peak(&shown), processes_of(&shown.report)), (8192, 4));
    assert!(shown.label.ends_with(":13"), "{}", shown.label);
    let all = opened(&several).memories_of_processes().unwrap();
    assert_eq!(all.iter().map(peak).collect::<Vec<_>>(), [8192, 1024, 512, 64]);
    assert!(all.iter().all(|trace| processes_of(&trace.report) == 4));
    // Without a choice, no note.
    let alone = first(&recording("alone", &[(11, 512, 1)]));
    assert!(processes_of(&alone.report) == 0 && alone.report.problems.is_empty());
    // Other processes are no damage.
    let found = memory_findings(&MemoryAnalysis::new(&shown, 1), 0.5, &|_| true);
    let found_with_memory = stackline_engine::findings_with_known_memory(
        stackline_findings::Findings::from_memory(stackline_findings::MemoryFindings::default()),
        Some((&shown, found)),
        &stackline_findings::Options::default(),
    );
    assert_eq!(found_with_memory.notes.len(), 1, "{:?}", found_with_memory.notes);
    assert!(
        found_with_memory.notes[0].ends_with(":13, although 4 processes have memory data"),
        "{:?}",
        found_with_memory.notes
    );
}

/// Traces and memory that are needed together come from one decoding, and memory that is not needed is not decoded: the
/// streams are deleted in between.
#[test]
fn streams_are_decoded_once_for_traces_and_memory() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("job.stackline");
    std::fs::create_dir_all(run.join("streams")).unwrap();
    for (pid, bytes) in [(11, 512), (12, 8192)] {
        let mut records = records(pid, bytes, 2);
        let detail = CallDetail::None;
        records.push(Record::Call { thread: 0, node: 1, start_delta_ns: 50, duration_ns: 20, detail });
        std::fs::write(run.join(format!("streams/{pid}-0.slr")), file(&records)).unwrap();
    }
    let opened = || Run::open(std::slice::from_ref(&run), &OpenOptions::default()).unwrap();
    let shown = |memory: &[MemoryTrace]| -> Vec<(String, u64, usize)> {
        memory.iter().map(|trace| (trace.label.clone(), peak(trace), trace.report.problems.len())).collect()
    };
    let separate = shown(&opened().memories().unwrap());
    assert_eq!(separate.iter().map(|(_, peak, _)| *peak).collect::<Vec<_>>(), [8192, 512]);
    let first = opened().memory(None).unwrap();
    let [all, one, without] = [opened().with_memory(true), opened().with_memory(true), opened().with_memory(false)];
    for run in [&all, &one, &without] {
        assert_eq!(run.traces().unwrap().traces.len(), 1);
    }
    std::fs::remove_dir_all(run.join("streams")).unwrap();
    assert_eq!(shown(&all.memories().unwrap()), separate);
    let kept = one.find_memory(None).unwrap().unwrap();
    assert_eq!((kept.label, processes_of(&kept.report)), (first.label, processes_of(&first.report)));
    assert!(without.memories().unwrap().is_empty());
    // The memory is handed over, not kept.
    assert!(all.memories().unwrap().is_empty());
}
