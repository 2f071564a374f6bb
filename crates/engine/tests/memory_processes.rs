//! Recordings of several processes: choice of the memory trace.

use stackline_engine::{OpenOptions, Run, memory_findings};
use stackline_ingest::diagnostics::processes_of;
use stackline_memory::{MemoryAnalysis, curve::curves};
use stackline_model::MemoryTrace;
use stackline_recording::{ChunkWriter, FrameKey, HEADER, Process, Record, Thread, TouchKind};
use std::path::Path;

/// Stream of a process that allocates and frees `bytes` bytes `times` times.
fn stream(pid: u32, bytes: u64, times: i64) -> Vec<u8> {
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
    records.push(Record::End { at_ns: 1000 });
    let mut chunk = ChunkWriter::new();
    records.iter().for_each(|record| chunk.push(record).unwrap());
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
