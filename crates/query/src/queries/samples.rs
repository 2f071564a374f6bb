//! Runs of simulated programs, and their answers to all queries, for tests.

use crate::{Answer, Arguments, OpenRun, run_query};
use stackline_engine::OpenOptions;

/// Open two test runs: a simulated training run with a baseline, and a memory snapshot with one segment.
pub(super) fn opened() -> [OpenRun; 2] {
    let folder = tempfile::tempdir().expect("a folder");
    let open = |name: &str, text: &[u8]| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).expect("written");
        OpenRun::open(&[path], &OpenOptions::default()).expect("opens")
    };
    let demo =
        |steps| stackline_testkit::demo::generate(&stackline_testkit::demo::Config { steps, ..Default::default() });
    let trace = open("before.json", demo(3).as_ref());
    let memory = r#"{"device_traces":[[{"action":"alloc","addr":4096,"size":1024,"stream":0,"frames":[]}]],
        "segments":[{"device":0,"address":4096,"total_size":2097152,"stream":0,
        "blocks":[{"address":4096,"size":1024,"state":"active_allocated"},{"address":5120,"size":2096128,"state":"inactive"}]}]}"#;
    [open("after.json", demo(4).as_ref()).compared_with(trace), open("memory.json", memory.as_bytes())]
}

/// Queries that the page does not prefetch.
const OTHERS: [(&str, &[(&str, &str)]); 8] = [
    ("calls", &[("shape", "top-down")]),
    ("excerpt", &[("file", "train.py"), ("line", "1")]),
    ("frame", &[("root", "1")]),
    ("memory-apply", &[("level", "0"), ("first", "0"), ("last", "9")]),
    ("memory-call", &[("call", "0")]),
    ("memory-object", &[("object", "0")]),
    ("rule", &[("code", "SL001")]),
    ("search", &[("text", "a")]),
];

/// Answers to all queries of an opened run, with their names. Most queries have several answers, with different
/// arguments.
pub(super) fn answers(opened: &OpenRun) -> Vec<(&'static str, Answer)> {
    let others = OTHERS.into_iter().map(|(name, given)| (name, Arguments::new(given.iter().copied())));
    let questions = opened.first_questions().into_iter().chain(others);
    questions.filter_map(|(name, arguments)| Some((name, run_query(opened, name, &arguments).ok()?))).collect()
}
