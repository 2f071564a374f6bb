//! What an input opens as.

use stackline_engine::{Error, OpenOptions, Parts};
use std::path::{Path, PathBuf};

fn written(folder: &Path, name: &str, text: &str) -> PathBuf {
    let path = folder.join(name);
    std::fs::write(&path, text).unwrap();
    path
}

const TRACE: &str = r#"{"traceEvents":[{"ph":"X","cat":"cpu_op","name":"a","pid":1,"tid":1,"ts":0,"dur":5}]}"#;
const STACKS: &str = "main;step 3\nmain 4\n";
const MEMORY: &str = "a x 1024; f x; end";

#[test]
fn each_kind_of_file_opens_as_its_part() {
    let folder = tempfile::tempdir().unwrap();
    let open = |name: &str, text: &str| {
        let parts = Parts::open(&[written(folder.path(), name, text)], &OpenOptions::default()).unwrap();
        let reason = parts.without_traces.as_ref().map(ToString::to_string).unwrap_or_default();
        (parts.traces.traces.len(), parts.calls.is_some(), parts.memory.is_some(), reason)
    };
    assert_eq!(open("t.json", TRACE), (1, false, false, String::new()));
    let (traces, calls, memory, reason) = open("stacks.txt", STACKS);
    assert!((traces, calls, memory) == (0, true, false) && reason.contains("is a profile"), "{reason}");
    let (traces, calls, memory, reason) = open("p.memory", MEMORY);
    assert!((traces, calls, memory) == (0, false, true) && reason.contains("is of memory"), "{reason}");
}

/// Beside a trace, neither a profile nor memory is left out without a word.
#[test]
fn of_several_inputs_none_stands_for_all() {
    let folder = tempfile::tempdir().unwrap();
    let trace = written(folder.path(), "t.json", TRACE);
    for (name, text) in [("stacks.txt", STACKS), ("p.memory", MEMORY)] {
        let other = written(folder.path(), name, text);
        for inputs in [[trace.clone(), other.clone()], [other.clone(), other.clone()]] {
            let opened = Parts::open_with_calls(&inputs, &OpenOptions::default());
            assert!(opened.is_err(), "{inputs:?}");
        }
    }
}

#[test]
fn what_cannot_be_read_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let opened = Parts::open(&[written(folder.path(), "x.json", "{\"a\": 1}")], &OpenOptions::default());
    assert!(matches!(opened, Err(Error::Ingest(_))), "{opened:?}");
    assert!(matches!(Parts::open(&[], &OpenOptions::default()), Err(Error::NoInput)));
}
