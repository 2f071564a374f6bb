//! Streams from the generator, and streams that are wrong on purpose.

use proptest::prelude::*;
use stackline_ingest::Error;
use stackline_ingest::recording::{read_recording, read_streams};
use stackline_model::{CallFrameKind, CallMetric, CallStats, CallTree};
use stackline_recording::{ChunkWriter, FrameKey, HEADER, Metric, Record, Stats, Thread};
use stackline_synth::recording::{Config, streams};

fn tree(files: &[(String, Vec<u8>)]) -> CallTree {
    read_streams(files.iter().map(|(name, file)| (name.as_str(), file.as_slice())))
}

fn total(tree: &CallTree, metric: CallMetric) -> CallStats {
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
    let kinds: Vec<CallFrameKind> = two.frames.iter().map(|frame| frame.kind()).collect();
    for kind in [CallFrameKind::Python, CallFrameKind::Operator, CallFrameKind::Backward, CallFrameKind::Native] {
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
fn a_killed_process_is_said_to_have_been_killed() {
    let killed = tree(&streams(&Config { killed: true, ..Config::default() }));
    assert_eq!(killed.report.count_of("process_killed"), 1);
    assert!(killed.processes.iter().any(|process| process.lasted_ns.is_none()));
}

#[test]
fn a_process_that_left_by_os_exit_is_said_to_have() {
    let mut chunk = ChunkWriter::new();
    for record in [Record::Process(Box::default()), Record::Exit { code: -3 }, Record::End { at_ns: 5 }] {
        chunk.push(&record).unwrap();
    }
    let left = tree(&[("7-0.slr".into(), [HEADER.as_slice(), chunk.finish()].concat())]);
    let problem = left.report.problems.iter().find(|problem| problem.code == "os_exit").unwrap();
    assert_eq!(problem.example, "7-0.slr: ended by os._exit(-3)");
    assert!(left.report.is_clean() && left.processes[0].lasted_ns == Some(5));
}

#[test]
fn no_streams_is_an_error_that_says_so() {
    let folder = tempfile::tempdir().unwrap();
    assert!(matches!(read_recording(folder.path()), Err(Error::NoStreams { .. })));
}

#[test]
fn ids_that_refer_to_nothing_are_counted() {
    let mut chunk = ChunkWriter::new();
    chunk.push(&Record::Process(Box::default())).unwrap();
    chunk.push(&Record::Node { thread: 3, id: 1, parent: 0, frame: 0 }).unwrap();
    chunk.push(&Record::Text { id: 9, text: "far".into() }).unwrap();
    let file = [HEADER.as_slice(), chunk.finish()].concat();
    let tree = read_streams([("x", file.as_slice())]);
    assert_eq!(tree.report.count_of("dangling_record"), 2);
    assert_eq!(tree.check(), Ok(()));
}

/// Any statement, with ids that are sometimes right.
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
    /// Statements in any order, about anything: what they make is a tree.
    #[test]
    fn nonsense_makes_no_nonsense(records in proptest::collection::vec(record(), 0..120)) {
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

    /// Cut anywhere, damaged anywhere: what is kept is a tree, and the loss is told.
    #[test]
    fn damage_loses_no_more_than_it_must(seed in 0_u64..50, at in 0.0_f64..1.0, flip: bool) {
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
