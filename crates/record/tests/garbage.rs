//! Garbage collection of Python.

use crate::support;

use stackline_recording::FrameKey;
use support::{here, recorded, streams, torch};

#[test]
fn collections_are_spans_below_who_caused_them_once_operators_run() {
    let Some(python) = torch() else { return };
    let run = tempfile::tempdir().unwrap();
    let program = here("tests/programs/garbage.py");
    let output = recorded(&python, run.path()).arg(program).env("STACKLINE_MODE", "trace").output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "True\n", "{}", String::from_utf8_lossy(&output.stderr));
    let stream = streams(run.path()).remove(0);
    let mut by_hand = 0;
    for (path, count) in stream.calls() {
        if let [.., around, FrameKey::Span { name }] = path[..]
            && stream.text(*name) == "Python GC"
            && let FrameKey::Python { function, .. } = around
            && stream.text(*function) == "by_hand"
        {
            by_hand += count;
        }
    }
    assert_eq!(by_hand, 3);
}
