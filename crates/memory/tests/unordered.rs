//! Gaps and slices between unordered calls are inferred.

use stackline_memory::suggest::{Action, suggestions};
use stackline_memory::{Certainty, ObjectUsage, Pattern, PatternMatch, Rules, patterns};

/// Match of a pattern at X, and certainties of the suggestions from such matches.
fn matches_of(text: &str, pattern: Pattern) -> (PatternMatch, Vec<Certainty>) {
    let trace = stackline_ingest::memory::text::read("unordered", text).unwrap();
    let usage = ObjectUsage::new(&trace, Rules::default());
    let found = patterns::find(&usage);
    let advised = suggestions(&usage, &found);
    let resting = advised.iter().filter(|one| trace.object_name(one.object) == "X" && one.pattern == pattern);
    let resting = resting.map(|one| {
        assert!(one.action != Action::Remove);
        one.certainty
    });
    let resting: Vec<Certainty> = resting.collect();
    let at_x = |found: &&PatternMatch| found.pattern == pattern && trace.object_name(found.object) == "X";
    (found.iter().find(at_x).unwrap().clone(), resting)
}

/// X is read on stream 1, and again on stream 3 after `order`.
fn idle(order: &str) -> (PatternMatch, Vec<Certainty>) {
    let text = format!(
        "a X 1000; a Y 1000; h X; h Y; y\nk r1 X> @1\n{order}k r2 Y>Y @2\nk r2 Y>Y @2\nk r3 X> @3\ny\nf X; f Y\nend\n"
    );
    matches_of(&text, Pattern::TemporaryIdleness)
}

#[test]
fn idle_times_between_unordered_calls() {
    for (order, sure) in
        [("", Certainty::Inferred), ("y\n", Certainty::Exact), ("e done @1\nw done @3\n", Certainty::Exact)]
    {
        let (found, resting) = idle(order);
        assert_eq!((found.certainty, resting), (sure, vec![sure]), "{order:?}");
    }
}

/// A third stream may also use it meanwhile, independent of the host order.
#[test]
fn idle_times_concurrent_with_another_stream() {
    let (found, resting) = idle("k late X> @4\ny\n");
    assert_eq!((found.certainty, resting), (Certainty::Inferred, vec![Certainty::Inferred]));
    let text = "a X 1000; a Y 1000; h X; h Y; y\nk r1 X> @1\nk r2 Y>Y @1\nk r3 X> @1\nk r3 X> @1\nk late X> @2\ny\nf X; f Y\nend\n";
    assert_eq!(matches_of(text, Pattern::TemporaryIdleness).0.certainty, Certainty::Inferred);
}

#[test]
fn slices_of_unordered_calls() {
    let on = |streams: [u32; 3], kernels: [&str; 3]| {
        let launch = |at: usize| format!("k {} X[{}:{}]> @{}\n", kernels[at], at * 100, at * 100 + 100, streams[at]);
        let launches: String = (0..3).map(launch).collect();
        matches_of(&format!("a X 300\n{launches}f X\nend\n"), Pattern::StructuredAccess)
    };
    let (found, resting) = on([1, 2, 3], ["k"; 3]);
    assert_eq!((found.certainty, resting), (Certainty::Inferred, vec![Certainty::Inferred]));
    // For kernels of any name.
    for kernels in [["k"; 3], ["one", "two", "three"]] {
        let (found, resting) = on([1, 1, 1], kernels);
        assert_eq!((found.bytes, found.certainty, resting), (200, Certainty::Exact, vec![Certainty::Exact]));
    }
}
