//! Calling context trees are restored from their tables.

use stackline_model::{CallStepEnds, CallingContextTree, Frame, StrId, Trace, TraceSet, Unit};
use stackline_store::{Error, WriteOptions, read_calls, read_manifest, write_calls, write_profile, write_run};
use stackline_testkit::recording::{Config, streams};
use std::collections::BTreeMap;
use std::path::Path;

/// Content of a tree, with texts instead of handles.
fn rendered(tree: &CallingContextTree) -> Vec<String> {
    let frame = |frame: &Frame| {
        let file = frame.file().map(|file| tree.strings.get(file).to_owned());
        let known_by = match *frame {
            Frame::Native { library, build_id, offset, inlined, .. } => {
                format!("{} {} {offset} {inlined}", tree.strings.get(library), tree.strings.get(build_id))
            }
            Frame::Operator { inputs, .. } | Frame::Backward { inputs, .. } => tree.strings.get(inputs).to_owned(),
            _ => String::new(),
        };
        format!("{:?} {} {file:?} {:?} {known_by}", frame.kind(), frame.name(&tree.strings), frame.line())
    };
    let mut lines: Vec<String> = tree.frames.iter().map(frame).collect();
    lines.extend(tree.nodes.parent.iter().zip(&tree.nodes.frame).map(|node| format!("{node:?}")));
    lines.extend(tree.metrics.iter().map(|(node, thread, metric, stats)| {
        format!("{node:?} {thread:?} {} {:?} {stats:?}", metric.name(&tree.strings), metric.unit())
    }));
    lines.extend(tree.threads.iter().map(|t| format!("{} {} {:?}", t.tid, tree.strings.get(t.name), t.process)));
    lines.extend(tree.processes.iter().map(|process| format!("{process:?}")));
    lines.push(format!("{:?}", tree.report));
    lines
}

fn sample() -> CallingContextTree {
    let files = streams(&Config { ranks: 2, killed: true, ..Config::default() });
    let mut tree =
        stackline_ingest::recording::read_streams(files.iter().map(|(name, file)| (name.as_str(), file.as_slice())));
    tree.processes[0].lost.push(("tree_full".to_owned(), 3));
    tree.processes[1].step_ends = Some(CallStepEnds { count: 40, first_ns: 5, last_ns: 900 });
    let texts = ["add<int>(int)", "add.cpp"].map(|text| tree.strings.intern(text));
    let mut frames = tree.frames.to_vec();
    let native = frames.iter_mut().find(|frame| matches!(frame, Frame::Native { .. })).unwrap();
    if let Frame::Native { function, file, line, inlined, .. } = native {
        ([*function, *file], *line, *inlined) = (texts, 12, 2);
    }
    tree.frames = frames.into();
    let counter = stackline_model::CallMetric::Counter(tree.strings.intern("inuse_space"), Unit::Bytes);
    *tree.metrics.metric.last_mut().unwrap() = counter;
    tree.metrics.stats.last_mut().unwrap().sum_of_squares = stackline_model::MAX_SUM_OF_SQUARES;
    tree
}

#[test]
fn trees_survive_a_round_trip() {
    let run = tempfile::tempdir().unwrap();
    let tree = sample();
    let streams = BTreeMap::from([("1-0.slr".to_owned(), 7)]);
    for _ in 0..2 {
        write_calls(&tree, run.path(), streams.clone(), &WriteOptions::default()).unwrap();
        assert_eq!(rendered(&read_calls(run.path()).unwrap().unwrap()), rendered(&tree));
    }
    let calls = read_manifest(run.path()).unwrap().calls.unwrap();
    assert_eq!(calls.streams, streams);
    assert_eq!(calls.units, BTreeMap::from([("inuse_space".to_owned(), Unit::Bytes)]));
    assert!(stackline_store::is_run(run.path()) && stackline_store::is_complete(run.path()));
}

#[test]
fn inputs_of_operators_survive_a_round_trip() {
    let run = tempfile::tempdir().unwrap();
    let files = streams(&Config { shapes: true, ..Config::default() });
    let tree =
        stackline_ingest::recording::read_streams(files.iter().map(|(name, file)| (name.as_str(), file.as_slice())));
    assert!(rendered(&tree).iter().any(|line| line.contains("aten::addmm") && line.contains("f32[512], f32[64,128]")));
    write_calls(&tree, run.path(), BTreeMap::new(), &WriteOptions::default()).unwrap();
    assert_eq!(rendered(&read_calls(run.path()).unwrap().unwrap()), rendered(&tree));
}

#[test]
fn frames_of_device_code_survive_a_round_trip() {
    let run = tempfile::tempdir().unwrap();
    let mut tree = CallingContextTree::default();
    let [name, file] = ["gemm", "gemm.cu"].map(|text| tree.strings.intern(text));
    let none = StrId::NONE;
    let frames = vec![
        Frame::DeviceFunction { function: name, file, line: 4 },
        Frame::DeviceFunction { function: name, file: none, line: 0 },
        Frame::Instruction { binary: name, pc: u64::MAX, file, line: 3 },
        Frame::Instruction { binary: name, pc: 16, file: none, line: 0 },
        Frame::HloOp { name, program: file },
        Frame::HloOp { name, program: none },
    ];
    tree.frames = frames.into();
    write_calls(&tree, run.path(), BTreeMap::new(), &WriteOptions::default()).unwrap();
    let read = read_calls(run.path()).unwrap().unwrap();
    assert_eq!(read.frames, tree.frames);
}

#[test]
fn importing_calls_keeps_the_traces_of_a_run() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("a.stackline");
    write_run(&TraceSet { traces: vec![Trace::default()] }, &[], &run, &WriteOptions::default()).unwrap();
    assert!(read_calls(&run).unwrap().is_none());
    write_calls(&sample(), &run, BTreeMap::new(), &WriteOptions::default()).unwrap();
    assert_eq!(read_manifest(&run).unwrap().traces.len(), 1);
    assert!(read_calls(&run).unwrap().is_some());
}

/// A profile is a run of its own, without streams, and other content is never replaced.
#[test]
fn profiles_are_runs() {
    let folder = tempfile::tempdir().unwrap();
    let (run, options) = (folder.path().join("a.stackline"), WriteOptions::default());
    write_profile(&sample(), &run, &options).unwrap();
    assert_eq!(rendered(&read_calls(&run).unwrap().unwrap()), rendered(&sample()));
    let manifest = read_manifest(&run).unwrap();
    assert!(manifest.calls.unwrap().streams.is_empty() && manifest.traces.is_empty());
    assert!(stackline_store::is_run(&run) && stackline_store::is_complete(&run));
    assert!(matches!(write_profile(&sample(), &run, &options), Err(Error::Exists { .. })));
    let overwrite = WriteOptions { overwrite: true, ..WriteOptions::default() };
    write_profile(&sample(), &run, &overwrite).unwrap();
    let cancel = Some(std::sync::Arc::new(std::sync::atomic::AtomicBool::new(true)));
    let cancelled = WriteOptions { cancel, ..WriteOptions::default() };
    let other = folder.path().join("b.stackline");
    assert!(matches!(write_profile(&sample(), &other, &cancelled), Err(Error::Cancelled)));
    // Nothing but the first run remains.
    let names = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name());
    assert_eq!(names.collect::<Vec<_>>(), ["a.stackline"]);
}

#[test]
fn changed_bytes_are_detected() {
    let run = tempfile::tempdir().unwrap();
    write_calls(&sample(), run.path(), BTreeMap::new(), &WriteOptions::default()).unwrap();
    let file = run.path().join("calls/call_nodes.parquet");
    let mut bytes = std::fs::read(&file).unwrap();
    bytes[20] ^= 1;
    std::fs::write(&file, bytes).unwrap();
    assert!(matches!(read_calls(run.path()), Err(Error::Damaged { .. })));
    std::fs::remove_file(&file).unwrap();
    assert!(matches!(read_calls(run.path()), Err(Error::Damaged { .. })));
}

/// `fixtures/store/v3-calls` is from the last program that wrote version 3.
#[test]
fn tables_of_version_3_have_no_names() {
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/store/v3-calls");
    let text = std::fs::read_to_string(fixture.join("manifest.json")).unwrap();
    assert!(text.contains("\"version\": 3"), "{text}");
    assert!(read_manifest(&fixture).unwrap().calls.unwrap().unnamed);
    let tree = read_calls(&fixture).unwrap().unwrap();
    let native = |frame: &&Frame| matches!(frame, Frame::Native { .. });
    let names: Vec<String> = tree.frames.iter().filter(native).map(|frame| frame.name(&tree.strings)).collect();
    assert_eq!(names, ["libtorch_cpu.so+0x1f3a20", "libmkl_core.so+0x8810", "libpython3.11.so+0x19f0"]);
    assert_eq!(tree.frames.len(), sample().frames.len());
}
