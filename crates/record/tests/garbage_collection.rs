//! Garbage collection of Python.

use crate::support;

use stackline_recording::{FrameKey, Metric};
use support::{here, recorded, streams, torch};

#[test]
fn garbage_collections_are_spans_below_their_caller() {
    let Some(python) = torch() else { return };
    let run = tempfile::tempdir().unwrap();
    let program = here("tests/programs/garbage.py");
    let output = recorded(&python, run.path()).arg(program).env("STACKLINE_MODE", "trace").output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "True\n", "{}", String::from_utf8_lossy(&output.stderr));
    let stream = streams(run.path()).remove(0);
    let mut by_hand = 0;
    for (path, count) in stream.collections() {
        if let [.., around, FrameKey::Span { name }] = path[..]
            && stream.text(*name) == "Python GC"
            && let FrameKey::Python { function, .. } = around
            && stream.text(*function) == "by_hand"
        {
            by_hand += count;
        }
    }
    assert_eq!(by_hand, 3);
    // It is no operator, but its span is among the individual calls.
    let is_collection =
        |path: &[&FrameKey]| matches!(path, [.., FrameKey::Span { name }] if stream.text(*name) == "Python GC");
    assert!(!stream.calls().iter().any(|(path, _)| is_collection(path)));
    let spans = stream.events.iter().filter(|&&(thread, node, _)| is_collection(&stream.path(thread, node))).count();
    assert!(spans >= 3, "{spans} spans");
    // Operators that finalizers call are operators, and no time of the collection.
    let finalized = |path: &[&FrameKey]| {
        path.iter().any(
            |frame| matches!(frame, FrameKey::Python { function, .. } if stream.text(*function) == "with_finalizer"),
        )
    };
    let totals = |metric: Metric, is_match: &dyn Fn(&[&FrameKey]) -> bool| {
        let found = stream.stats.iter().filter(|(key, _)| key.2 == metric && is_match(&stream.path(key.0, key.1)));
        found.fold((0, 0), |(count, sum), (_, stats)| (count + stats.count, sum + stats.sum))
    };
    let is_product = |path: &[&FrameKey]| {
        finalized(path) && matches!(path, [.., FrameKey::Operator { name }] if stream.text(*name) == "aten::mm")
    };
    let (products, within) = totals(Metric::CallTime, &is_product);
    let (collections, alone) = totals(Metric::GcTime, &|path| finalized(path) && is_collection(path));
    let spans = stream.events.iter().filter(|&&(thread, node, _)| {
        let path = stream.path(thread, node);
        finalized(&path) && is_collection(&path)
    });
    assert_eq!((products, collections), (20, 1));
    assert_eq!(alone + within, spans.map(|&(.., ns)| ns).sum::<u64>());
}
