//! Dead writes of several byte ranges, compared with a bytewise evaluation of their definition.

use proptest::prelude::*;
use stackline_memory::{ObjectUsage, Pattern, Rules, patterns};

const BYTES: usize = 24;

/// Call that accesses these ranges of the object: `s` sets, `d` copies to the host, `k` is a kernel.
#[derive(Clone, Debug)]
struct Call {
    kind: &'static str,
    writes: bool,
    pieces: Vec<(usize, usize)>,
}

impl Call {
    fn text(&self, number: usize) -> String {
        let pieces: Vec<String> = self.pieces.iter().map(|(begin, end)| format!("{begin}:{end}")).collect();
        let pieces = format!("A[{}]", pieces.join("+"));
        match (self.kind, self.writes) {
            ("k", true) => format!("k w{number} >{pieces};"),
            ("k", false) => format!("k r{number} {pieces}>;"),
            (kind, _) => format!("{kind} {pieces};"),
        }
    }

    fn touches(&self, byte: usize) -> bool {
        self.pieces.iter().any(|&(begin, end)| (begin..end).contains(&byte))
    }
}

fn calls() -> impl Strategy<Value = Vec<Call>> {
    let pieces = proptest::collection::btree_set(0..=BYTES, 2..7).prop_map(|cuts| {
        let cuts: Vec<usize> = cuts.into_iter().collect();
        // Every other range is adjacent to the previous one.
        let step = if cuts[0].is_multiple_of(2) { 1 } else { 2 };
        cuts.windows(2).step_by(step).map(|pair| (pair[0], pair[1])).collect::<Vec<_>>()
    });
    let kinds =
        prop_oneof![Just(("s", true)), Just(("s", true)), Just(("d", false)), Just(("k", true)), Just(("k", false))];
    let call = (kinds, pieces).prop_map(|((kind, writes), pieces)| Call { kind, writes, pieces });
    proptest::collection::vec(call, 1..9)
}

/// Number of sets all of whose bytes one call overwrites before any read.
fn dead(calls: &[Call]) -> u32 {
    let is_dead = |at: usize| {
        let set: Vec<usize> = (0..BYTES).filter(|&byte| calls[at].touches(byte)).collect();
        for later in &calls[at + 1..] {
            if !later.writes && set.iter().any(|&byte| later.touches(byte)) {
                return false;
            }
            if later.writes && set.iter().all(|&byte| later.touches(byte)) {
                return true;
            }
        }
        false
    };
    (0..calls.len()).filter(|&at| calls[at].kind == "s" && is_dead(at)).count() as u32
}

proptest! {
    #[test]
    fn writes_of_several_pieces_are_dead_when_all_are_written_again(calls in calls()) {
        let body: String = calls.iter().enumerate().map(|(number, call)| call.text(number)).collect();
        let text = format!("a A {BYTES}; {body} f A; end");
        let trace = stackline_ingest::memory::text::read("dead", &text).unwrap();
        let usage = ObjectUsage::new(&trace, Rules::default());
        let found = patterns::find(&usage).into_iter().find(|found| found.pattern == Pattern::DeadWrite);
        prop_assert_eq!(found.map_or(0, |found| found.times), dead(&calls), "{}", text);
    }
}
