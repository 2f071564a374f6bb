//! Lanes of memory traces whose calls are not in the order of their times.

use stackline_ingest::memory::text;
use stackline_model::Trace;
use stackline_present::exports::memory::lanes;

fn spans(trace: &Trace) -> Vec<String> {
    let one = |event: stackline_model::EventId| {
        let row = event.index();
        let lane = trace.strings.get(trace.tracks.get(trace.events.track[row]).name);
        format!("{lane}: {} {} {}", trace.name(event), trace.events.start[row], trace.events.dur[row])
    };
    trace.events.ids().map(one).collect()
}

/// A recording has the record of an operator at its end: after its allocations, and after the operators that it called.
#[test]
fn operators_span_from_their_begin_and_nest() {
    let text =
        "a x 100 t=5\na y 50 t=9\nk inner x>y t=8 dur=3\nk outer x>y t=2 dur=10\nk late y t=10 dur=20\nf x t=40\n";
    let found = spans(&lanes(&text::read("m", text).unwrap(), &[], &|_| Vec::new()));
    for expected in [
        "calls on stream 0: inner 8 3",
        "calls on stream 0: outer 2 10",
        // It cannot end after the one in which it begins.
        "calls on stream 0: late 10 1",
        "x: x 5 35",
    ] {
        assert!(found.iter().any(|span| span == expected), "{expected}: {found:#?}");
    }
}
