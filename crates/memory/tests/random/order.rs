//! Order of calls, compared with definition 5.1 and all-pairs reachability.

use crate::random::program::{Program, Step, programs};
use proptest::prelude::*;
use stackline_memory::graph::OrderTracker;
use stackline_model::{MemoryCallKind, call_flags};

/// True if a call reads an object, and true if it writes it; allocations and frees are writes.
fn on(program: &Program, position: usize, object: usize) -> (bool, bool) {
    let about = matches!(&program.steps[position].0, Step::Allocate(o) | Step::Free(o) if *o == object);
    let touches = program.touches(position).iter().filter(|touch| touch.object == object);
    let (mut reads, mut writes) = (false, about);
    for touch in touches {
        reads |= touch.mode.reads();
        writes |= touch.mode.writes();
    }
    (reads, writes)
}

/// For each call, the calls that must end before it begins: the closure of all edges.
pub(crate) fn reachable(program: &Program) -> Vec<Vec<bool>> {
    let calls = program.steps.len();
    let mut before = vec![vec![false; calls]; calls];
    for to in 0..calls {
        for from in (0..to).filter(|from| edge(program, *from, to)) {
            before[to][from] = true;
            let earlier = before[from].clone();
            before[to].iter_mut().zip(earlier).for_each(|(mine, theirs)| *mine |= theirs);
        }
    }
    before
}

/// True if there is an edge, by the definition.
fn edge(program: &Program, from: usize, to: usize) -> bool {
    let stream = |at: usize| program.steps[at].1;
    let between = || from + 1..to;
    if stream(from) == stream(to) && between().all(|k| stream(k) != stream(to)) {
        return true;
    }
    for object in 0..program.sizes.len() {
        let ((reads_from, writes_from), (reads_to, writes_to)) = (on(program, from, object), on(program, to, object));
        let no_write = between().all(|k| !on(program, k, object).1);
        let no_touch = no_write && between().all(|k| !on(program, k, object).0);
        if writes_from && reads_to && no_write
            || writes_from && writes_to && no_touch
            || reads_from && writes_to && no_write
        {
            return true;
        }
    }
    let host = |at: usize| match &program.steps[at].0 {
        Step::Sync(_) => true,
        Step::Touch { flags, .. } => flags & call_flags::SYNCHRONOUS != 0,
        _ => false,
    };
    let waited = match &program.steps[to].0 {
        Step::Wait(event) => *event == from,
        Step::Sync(None) => true,
        Step::Sync(Some(waited)) => *waited == stream(from),
        _ => false,
    };
    waited || host(from)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn order_equals_reachability(program in programs(28, 4)) {
        let trace = program.trace();
        let calls = program.steps.len();
        let before = reachable(&program);
        let mut wave = vec![0u32; calls];
        for to in 0..calls {
            let longest = (0..to).filter(|from| edge(&program, *from, to)).map(|from| wave[from] + 1).max();
            wave[to] = longest.unwrap_or(0);
        }
        let mut tracker = OrderTracker::new(&trace);
        let mut places = Vec::new();
        for call in trace.calls.ids() {
            let place = tracker.step(&trace, call);
            prop_assert_eq!(place.wave, wave[call.index()]);
            for (from, earlier) in places.iter().enumerate() {
                let earlier: &stackline_memory::graph::StreamPosition = earlier;
                let is_before = tracker.clock()[earlier.stream as usize] >= earlier.number;
                prop_assert_eq!(is_before, before[call.index()][from], "{} before {}", from, call.index());
            }
            places.push(place);
        }
    }
}

#[test]
fn events_order_streams() {
    let mut program = Program { sizes: vec![], ..Program::default() };
    let kernel = || Step::Touch { kind: MemoryCallKind::Kernel, touches: vec![], flags: 0 };
    program.steps = vec![(kernel(), 0), (Step::Record, 0), (kernel(), 1), (Step::Wait(1), 1), (kernel(), 1)];
    let trace = program.trace();
    let mut tracker = OrderTracker::new(&trace);
    let waves: Vec<u32> = trace.calls.ids().map(|call| tracker.step(&trace, call).wave).collect();
    assert_eq!(waves, [0, 1, 0, 2, 3]);
}

/// Without room for clocks, the order of different streams is unknown; calls of one stream are still ordered.
#[test]
fn only_stream_order_is_known_beyond_the_clock_limit() {
    let kernel = || Step::Touch { kind: MemoryCallKind::Kernel, touches: vec![], flags: 0 };
    let steps = vec![(kernel(), 0), (Step::Record, 0), (kernel(), 1), (Step::Wait(1), 1), (kernel(), 0)];
    let trace = Program { steps, ..Program::default() }.trace();
    assert!(!OrderTracker::new(&trace).knows_streams_only());
    let mut tracker = OrderTracker::within(&trace, 10);
    assert!(tracker.knows_streams_only());
    let places: Vec<(u32, u32, u32)> = trace
        .calls
        .ids()
        .map(|call| tracker.step(&trace, call))
        .map(|place| (place.stream, place.number, place.wave))
        .collect();
    assert_eq!(places, [(0, 1, 0), (0, 2, 1), (1, 1, 0), (1, 2, 1), (0, 3, 2)]);
    assert!(tracker.clock().is_empty());
}
