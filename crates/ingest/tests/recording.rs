//! Streams from the generator, and streams that are wrong on purpose.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use proptest::prelude::*;
use stackline_ingest::Error;
use stackline_ingest::recording::{read_recording, read_streams};
use stackline_model::{CallFrameKind, CallMetric, CallStats, CallTree};
use stackline_recording::{ChunkWriter, HEADER, Record};
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

proptest! {
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
