//! Streams of the generator, and invalid streams.

use proptest::prelude::*;
use stackline_ingest::Error;
use stackline_ingest::recording::{read_recording, read_streams};
use stackline_model::{CallMetric, CallStats, CallStepEnds, CallingContextTree, FrameKind};
use stackline_recording::{ChunkWriter, FrameKey, HEADER, Metric, Process, Record, Stats, StepEnds, Thread};
use stackline_testkit::recording::{Config, streams};

fn tree(files: &[(String, Vec<u8>)]) -> CallingContextTree {
    read_streams(files.iter().map(|(name, file)| (name.as_str(), file.as_slice())))
}

fn total(tree: &CallingContextTree, metric: CallMetric) -> CallStats {
    let exclusive = tree.exclusive(metric, |_| true);
    tree.inclusive(metric, &exclusive)[0]
}

#[test]
fn processes_are_merged_into_one_tree() {
    let one = tree(&streams(&Config { ranks: 1, ..Config::default() }));
    let two = tree(&streams(&Config { ranks: 2, ..Config::default() }));
    assert_eq!(two.check(), Ok(()));
    assert_eq!(one.nodes.len(), two.nodes.len(), "ranks run the same code");
    assert_eq!(two.processes.len(), 2 * one.processes.len());
    assert_eq!(total(&two, CallMetric::OperatorTime).count, 2 * total(&one, CallMetric::OperatorTime).count);
    assert!(two.report.is_clean(), "{:?}", two.report.problems);
    let kinds: Vec<FrameKind> = two.frames.iter().map(|frame| frame.kind()).collect();
    for kind in [FrameKind::Python, FrameKind::Operator, FrameKind::Backward, FrameKind::Native] {
        assert!(kinds.contains(&kind), "{kind:?}");
    }
}

#[test]
fn the_order_of_names_does_not_matter() {
    let files = streams(&Config { ranks: 3, ..Config::default() });
    let folder = tempfile::tempdir().unwrap();
    let write = |run: &str, names: &dyn Fn(usize) -> String| {
        let run = folder.path().join(run);
        std::fs::create_dir_all(run.join("streams")).unwrap();
        for (index, (_, file)) in files.iter().enumerate() {
            std::fs::write(run.join("streams").join(names(index)), file).unwrap();
        }
        read_recording(&run).unwrap()
    };
    let first = write("a", &|index| format!("{index}-0.slr"));
    let second = write("b", &|index| format!("{}-0.slr", 900 - index));
    assert_eq!(first.nodes, second.nodes);
    assert_eq!(first.metrics, second.metrics);
    assert_eq!(first.processes, second.processes);
}

#[test]
fn killed_processes_are_reported() {
    let killed = tree(&streams(&Config { killed: true, ..Config::default() }));
    assert_eq!(killed.report.count_of("process_killed"), 1);
    assert!(killed.processes.iter().any(|process| process.lasted_ns.is_none()));
}

#[test]
fn processes_that_called_os_exit_are_reported() {
    let mut chunk = ChunkWriter::new();
    for record in [Record::Process(Box::default()), Record::Exit { code: -3 }, Record::End { at_ns: 5 }] {
        chunk.push(&record).unwrap();
    }
    let left = tree(&[("7-0.slr".into(), [HEADER.as_slice(), chunk.finish()].concat())]);
    let problem = left.report.problems.iter().find(|problem| problem.code == "os_exit").unwrap();
    assert_eq!(problem.example, "7-0.slr: the process called os._exit(-3)");
    assert!(left.report.is_clean() && left.processes[0].lasted_ns == Some(5));
}

#[test]
fn last_step_ends_are_kept() {
    let mut chunk = ChunkWriter::new();
    let ends = |count, last_ns| Record::StepEnds(StepEnds { count, first_ns: 3, last_ns });
    for record in [Record::Process(Box::default()), ends(1, 3), ends(9, 70), Record::End { at_ns: 80 }] {
        chunk.push(&record).unwrap();
    }
    let tree = tree(&[("7-0.slr".into(), [HEADER.as_slice(), chunk.finish()].concat())]);
    assert_eq!(tree.processes[0].step_ends, Some(CallStepEnds { count: 9, first_ns: 3, last_ns: 70 }));
    assert!(tree.report.is_clean(), "{:?}", tree.report);
}

#[test]
fn processes_replaced_by_exec_are_reported() {
    let mut chunk = ChunkWriter::new();
    for record in [Record::Process(Box::default()), Record::Replaced, Record::End { at_ns: 5 }] {
        chunk.push(&record).unwrap();
    }
    let left = tree(&[("7-0.slr".into(), [HEADER.as_slice(), chunk.finish()].concat())]);
    let problem = left.report.problems.iter().find(|problem| problem.code == "process_replaced").unwrap();
    assert_eq!(problem.example, "7-0.slr: another program replaced the process (exec)");
    assert!(left.report.is_clean() && left.processes[0].lasted_ns == Some(5));
}

#[test]
fn dropped_records_are_reported_once() {
    let lost = |what: &str| Record::Lost { what: what.into(), count: 164 };
    let mut chunk = ChunkWriter::new();
    let records =
        [Record::Process(Box::default()), lost("tree_full"), lost("threads_over_limit"), Record::End { at_ns: 5 }];
    for record in records {
        chunk.push(&record).unwrap();
    }
    let read = tree(&[("7-0.slr".into(), [HEADER.as_slice(), chunk.finish()].concat())]);
    let problem = |code: &str| read.report.problems.iter().find(|problem| problem.code == code).unwrap();
    let (full, other) = (problem("tree_full"), problem("not_recorded"));
    assert_eq!((full.count, full.example.as_str()), (164, "7-0.slr"));
    assert!(other.count == 164 && other.example.contains("threads_over_limit"), "{other:?}");
}

/// A stream with numbered frames: `a` calls the recorder, which calls `b` and its own library below the operator `x`.
fn with_frames_of_the_recorder() -> Vec<u8> {
    let texts = [
        "a",
        "/a.py",
        "_Watched.exec_module",
        "/run.stackline/inject/_stackline_bootstrap.py",
        "b",
        "x",
        "/lib/libstackline_record.so",
        "_chain",
        "/run.stackline/inject/sitecustomize.py",
    ];
    let mut chunk = ChunkWriter::new();
    let mut push = |record: Record| chunk.push(&record).unwrap();
    push(Record::Process(Box::default()));
    for (id, text) in texts.iter().enumerate() {
        push(Record::Text { id: id as u32, text: (*text).to_owned() });
    }
    push(Record::Library { id: 0, path: 6, build_id: Vec::new() });
    let python = |function, file| FrameKey::Python { function, file, line: 1, first_line: 1 };
    let keys = [
        python(0, 1),
        python(2, 3),
        python(4, 1),
        FrameKey::Operator { name: 5 },
        FrameKey::Native { library: 0, offset: 16 },
        python(7, 8),
    ];
    for (id, key) in keys.into_iter().enumerate() {
        push(Record::Frame { id: id as u32, key });
    }
    push(Record::Thread(Thread::default()));
    // sitecustomize at the root; a > recorder > b > x > native; and b below a on another path.
    for (id, parent, frame) in [(1, 0, 5), (2, 1, 0), (3, 2, 1), (4, 3, 2), (5, 4, 3), (6, 5, 4), (7, 2, 2)] {
        push(Record::Node { thread: 0, id, parent, frame });
    }
    for (node, value) in [(1, 1), (3, 2), (4, 4), (6, 8), (7, 16)] {
        let mut stats = Stats::default();
        stats.add(value);
        push(Record::Stats { thread: 0, node, metric: Metric::CpuTime, stats });
    }
    push(Record::End { at_ns: 5 });
    [HEADER.as_slice(), chunk.finish()].concat()
}

#[test]
fn recorder_frames_are_hidden_from_trees() {
    let tree = tree(&[("7-0.slr".into(), with_frames_of_the_recorder())]);
    assert!(tree.report.is_clean() && tree.check() == Ok(()), "{:?}", tree.report.problems);
    let mut names: Vec<String> = tree.frames.iter().map(|frame| frame.name(&tree.strings)).collect();
    names.sort();
    assert_eq!(names, ["a", "b", "x"]);
    let own = tree.exclusive(CallMetric::CpuTime, |_| true);
    let at = |path: &[&str]| {
        let found = tree.nodes.ids().find(|&node| {
            let names: Vec<String> = tree
                .path(node)
                .into_iter()
                .filter_map(|node| tree.frame(node))
                .map(|frame| frame.name(&tree.strings))
                .collect();
            names == path
        });
        found.map(|node| (own[node.index()].count, own[node.index()].sum))
    };
    assert_eq!(at(&["a"]), Some((1, 2)), "what ran in the recorder is its caller's");
    assert_eq!(at(&["a", "b"]), Some((2, 20)), "both ways to b are one");
    assert_eq!(at(&["a", "b", "x"]), Some((1, 8)), "the library is at the leaf");
    assert_eq!((own[0].count, own[0].sum), (1, 1));
    assert_eq!(tree.nodes.len(), 4);
}

/// A stream of process 7 with a thread for each number and name, which runs Python code or only an operator.
fn with_threads(threads: &[(u32, &str, bool)]) -> Vec<u8> {
    let mut chunk = ChunkWriter::new();
    let mut push = |record: Record| chunk.push(&record).unwrap();
    let command = ["/usr/bin/python3.11", "train.py"].map(str::to_owned).to_vec();
    push(Record::Process(Box::new(Process { pid: 7, command, ..Process::default() })));
    for (id, text) in ["work", "/train.py", "aten::mm"].iter().enumerate() {
        push(Record::Text { id: id as u32, text: (*text).to_owned() });
    }
    push(Record::Frame { id: 0, key: FrameKey::Python { function: 0, file: 1, line: 1, first_line: 1 } });
    push(Record::Frame { id: 1, key: FrameKey::Operator { name: 2 } });
    for (id, &(tid, name, runs_python)) in threads.iter().enumerate() {
        let id = id as u32;
        push(Record::Thread(Thread { id, tid, torch_id: 0, name: name.to_owned() }));
        push(Record::Node { thread: id, id: 1, parent: 0, frame: u32::from(!runs_python) });
    }
    [HEADER.as_slice(), chunk.finish()].concat()
}

/// In Linux a thread inherits the name of its creator: threads of native code have the name of the program.
#[test]
fn threads_named_after_their_program_are_numbered() {
    let threads = [
        (7, "MainThread", true),
        (8, "python3.11", false),
        (9, "python", false),
        // Operators and samples of one thread.
        (10, "python3.11", false),
        (10, "python3.11", true),
        (11, "loader", true),
        (12, "loader", false),
    ];
    let tree = tree(&[("7-0.slr".into(), with_threads(&threads))]);
    let names: Vec<&str> = tree.threads.iter().map(|thread| tree.strings.get(thread.name)).collect();
    let unnamed = "unnamed thread 10";
    let of_loader = "native thread 12 of loader";
    assert_eq!(names, ["MainThread", "native thread 8", "native thread 9", unnamed, unnamed, "loader", of_loader]);
}

#[test]
fn missing_streams_are_an_error() {
    let folder = tempfile::tempdir().unwrap();
    assert!(matches!(read_recording(folder.path()), Err(Error::NoStreams { .. })));
}

#[test]
fn dangling_ids_are_counted() {
    let mut chunk = ChunkWriter::new();
    chunk.push(&Record::Process(Box::default())).unwrap();
    chunk.push(&Record::Node { thread: 3, id: 1, parent: 0, frame: 0 }).unwrap();
    chunk.push(&Record::Text { id: 9, text: "far".into() }).unwrap();
    let file = [HEADER.as_slice(), chunk.finish()].concat();
    let tree = read_streams([("x", file.as_slice())]);
    assert_eq!(tree.report.count_of("dangling_record"), 2);
    assert_eq!(tree.check(), Ok(()));
}

/// Any record, with IDs that are sometimes valid.
fn record() -> impl Strategy<Value = Record> {
    let id = || 0_u32..4;
    let key = prop_oneof![
        (id(), id(), id(), id()).prop_map(|(function, file, line, first_line)| FrameKey::Python {
            function,
            file,
            line,
            first_line
        }),
        id().prop_map(|name| FrameKey::Operator { name }),
        (id(), id()).prop_map(|(name, inputs)| FrameKey::ShapedOperator { name, inputs }),
        (id(), id()).prop_map(|(name, inputs)| FrameKey::ShapedBackward { name, inputs }),
        (id(), any::<u64>()).prop_map(|(library, offset)| FrameKey::Native { library, offset }),
        any::<u64>().prop_map(|address| FrameKey::Unmapped { address }),
        Just(FrameKey::Overflow),
    ];
    let stats = any::<(u64, u64, u64, u64, u128)>().prop_map(|(count, sum, min, max, sum_of_squares)| Stats {
        count,
        sum,
        min,
        max,
        sum_of_squares,
    });
    let metric = prop_oneof![Just(Metric::OperatorTime), Just(Metric::CallTime), (0_u16..3).prop_map(Metric::Counter)];
    prop_oneof![
        Just(Record::Process(Box::default())),
        id().prop_map(|id| Record::Thread(Thread { id, ..Thread::default() })),
        (id(), "[a-c]").prop_map(|(id, text)| Record::Text { id, text }),
        (id(), key).prop_map(|(id, key)| Record::Frame { id, key }),
        (id(), id()).prop_map(|(id, path)| Record::Library { id, path, build_id: vec![1] }),
        (id(), any::<u64>()).prop_map(|(library, hash)| Record::LibraryContent { library, hash }),
        "[0-9.]{0,8}".prop_map(|version| Record::Torch { version }),
        (id(), id(), id(), id()).prop_map(|(thread, id, parent, frame)| Record::Node { thread, id, parent, frame }),
        (id(), id(), metric, stats).prop_map(|(thread, node, metric, stats)| Record::Stats {
            thread,
            node,
            metric,
            stats
        }),
        any::<u64>().prop_map(|at_ns| Record::End { at_ns }),
    ]
}

proptest! {
    /// Records in any order and with any content give a tree.
    #[test]
    fn invalid_records_give_valid_trees(records in proptest::collection::vec(record(), 0..120)) {
        let mut chunk = ChunkWriter::new();
        chunk.push(&Record::Process(Box::default())).unwrap();
        for record in &records {
            chunk.push(record).unwrap();
        }
        let file = [HEADER.as_slice(), chunk.finish()].concat();
        let tree = read_streams([("x", file.as_slice())]);
        prop_assert_eq!(tree.check(), Ok(()));
        prop_assert_eq!(tree.report.records, records.len() as u64 + 1);
    }

    /// Truncated or damaged at any position: the rest is a tree, and the loss is reported.
    #[test]
    fn damage_loses_only_damaged_chunks(seed in 0_u64..50, at in 0.0_f64..1.0, flip: bool) {
        let mut files = streams(&Config { seed, steps: 2, ..Config::default() });
        let whole = tree(&files);
        let file = &mut files[0].1;
        let at = (at * file.len() as f64) as usize;
        if flip { file[at] ^= 0x20 } else { file.truncate(at) }
        let read = tree(&files);
        prop_assert_eq!(read.check(), Ok(()));
        prop_assert!(!read.report.is_clean());
        prop_assert!(total(&read, CallMetric::OperatorTime).count <= total(&whole, CallMetric::OperatorTime).count);
    }
}
