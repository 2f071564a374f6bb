//! Tests of invariants of all simulated runs.

use super::*;
use crate::simulator::program::build::Builder;
use crate::simulator::{Profile, Simulated, simulate};

fn drawn(seed: u64) -> Simulated {
    simulate(seed, &Profile::any(seed))
}

fn activity(simulated: &Simulated, op: usize) -> &Activity {
    simulated.outcome.activities.iter().find(|a| a.op == op).unwrap()
}

/// Check that each GPU operation is caused by the prerequisite that ended last, as readers of a trace assume.
#[test]
fn last_ended_prerequisite_is_binding() {
    for seed in 0..1_000 {
        let simulated = drawn(seed);
        for activity in &simulated.outcome.activities {
            let call = &simulated.outcome.spans[activity.call as usize];
            let waits_itself = call.end >= activity.end;
            let before: Vec<_> = activity.after.iter().map(|&op| self::activity(&simulated, op)).collect();
            let busy = before.iter().any(|a| a.end > call.start);
            // A blocking call releases its copy at its start, unless an earlier operation was still running.
            let launched = if waits_itself && busy { call.start } else { call.end.min(activity.start) };
            let last = before.iter().max_by_key(|a| a.end.min(activity.start));
            let by_op = last.filter(|a| a.end.min(activity.start) > launched || (waits_itself && busy));
            match (activity.cause, by_op) {
                (Cause::Op { op, at }, Some(last)) => {
                    assert_eq!((op, at), (last.op, last.end.min(activity.start)), "seed {seed}");
                }
                (Cause::Thread { at, .. }, None) => assert_eq!(at, launched, "seed {seed}"),
                other => panic!("seed {seed}: {other:?}, {activity:?}, call {} to {}", call.start, call.end),
            }
        }
    }
}

#[test]
fn streams_run_in_order_and_engines_one_copy_at_a_time() {
    for seed in 0..500 {
        let simulated = drawn(seed);
        let (program, activities) = (&simulated.program, &simulated.outcome.activities);
        for (i, a) in activities.iter().enumerate() {
            assert!(a.start > simulated.outcome.spans[a.call as usize].start && a.end > a.start);
            for b in &activities[i + 1..] {
                let (x, y) = (&program.ops[a.op], &program.ops[b.op]);
                assert!(x.stream != y.stream || (b.start > a.start && b.end > a.end), "seed {seed}");
                assert!(x.stream != y.stream || b.start >= a.end || y.overlap > 0, "seed {seed}");
                assert!(x.work.engine().is_none() || x.work.engine() != y.work.engine() || b.start >= a.end);
            }
        }
    }
}

#[test]
fn spans_nest_and_segments_are_contiguous() {
    for seed in 0..300 {
        let simulated = drawn(seed);
        for span in &simulated.outcome.spans {
            assert!(span.end > span.start, "{span:?}");
            let Some(parent) = span.parent.map(|id| &simulated.outcome.spans[id as usize]) else { continue };
            assert!(parent.start < span.start && span.end <= parent.end, "{span:?} in {parent:?}");
        }
        for (_, segments) in &simulated.outcome.threads {
            assert!(segments.windows(2).all(|pair| pair[0].end == pair[1].start));
            assert!(segments.first().is_none_or(|segment| segment.start == 0));
        }
    }
}

/// Build a program of one thread with the steps that `write` adds, and run it.
fn by_hand(profile: &Profile, write: impl FnOnce(&mut Builder<'_>)) -> (Program, Outcome) {
    let mut b = Builder::new(1, profile);
    write(&mut b);
    b.thread(Role::Main);
    let mut program = b.program;
    let outcome = run(&mut program, true).unwrap();
    (program, outcome)
}

#[test]
fn waits_cover_only_work_before_the_record() {
    let profile = Profile::plain();
    let (_, outcome) = by_hand(&profile, |b| {
        b.launch(crate::simulator::program::Work::Kernel, "before", 3, 500_000);
        let record = b.record(3, None);
        b.launch(crate::simulator::program::Work::Kernel, "after", 3, 500_000);
        b.wait(0, record);
        b.launch(crate::simulator::program::Work::Kernel, "waiting", 0, 10_000);
        b.launch(crate::simulator::program::Work::Kernel, "free", 1, 10_000);
    });
    let [before, after, waiting, free] = &outcome.activities[..] else { panic!() };
    assert!(waiting.start > before.end && waiting.start < after.end);
    assert!(matches!(waiting.cause, Cause::Op { op: 0, at } if at == before.end));
    assert!(free.start < before.end);
}

#[test]
fn waits_add_up_over_events() {
    let profile = Profile::plain();
    let (_, outcome) = by_hand(&profile, |b| {
        b.launch(crate::simulator::program::Work::Kernel, "long", 3, 900_000);
        let long = b.record(3, None);
        b.launch(crate::simulator::program::Work::Kernel, "short", 1, 20_000);
        let short = b.record(1, None);
        // The stream waits for the long kernel first, then for the short one, and its own event includes both.
        b.wait(2, long);
        b.wait(2, short);
        let both = b.record(2, None);
        b.wait(0, both);
        b.launch(crate::simulator::program::Work::Kernel, "last", 0, 10_000);
    });
    let last = outcome.activities.last().unwrap();
    assert!(matches!(last.cause, Cause::Op { op: 0, .. }), "{last:?}");
}

#[test]
fn a_full_queue_blocks_the_launch() {
    let profile = Profile { queue_limit: 2, ..Profile::plain() };
    let (_, outcome) = by_hand(&profile, |b| {
        for _ in 0..4 {
            b.launch(crate::simulator::program::Work::Kernel, "kernel", 0, 300_000);
        }
    });
    let (first, third) = (&outcome.activities[0], &outcome.activities[2]);
    let call = &outcome.spans[third.call as usize];
    assert!(call.start < first.end && call.end > first.end);
    assert!(outcome.threads[0].1.iter().any(|s| s.end == call.end && matches!(s.state, State::Waited { .. })));
}

#[test]
fn queries_end_with_the_first_after_the_work() {
    let profile = Profile::plain();
    let (_, outcome) = by_hand(&profile, |b| {
        b.launch(crate::simulator::program::Work::Kernel, "kernel", 0, 400_000);
        let done = b.record(0, None);
        b.poll(crate::simulator::program::Target::Record(done));
    });
    let queries: Vec<_> = outcome.spans.iter().filter(|s| s.name == "cudaEventQuery").collect();
    let end = outcome.activities[0].end;
    assert!(queries.len() > 3);
    assert!(queries[..queries.len() - 1].iter().all(|q| q.start < end));
    assert!(queries[queries.len() - 1].start > end);
}
