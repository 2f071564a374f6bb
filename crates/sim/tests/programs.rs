//! Properties of simulated programs, and that their traces read as real ones do.
#![allow(clippy::unwrap_used)]

use proptest::prelude::*;
use stackline_ingest::{ReadOptions, read_bytes};
use stackline_sim::{Profile, Simulated, simulate};

fn drawn(seed: u64) -> Simulated {
    simulate(seed, &Profile::any(seed))
}

/// The path is as long as its window, without holes.
fn covers(truth: &stackline_sim::Truth) {
    assert_eq!(truth.bound_by_ns.values().sum::<i64>(), truth.window_ns);
    let mut at = truth.start_ns;
    for hop in &truth.hops {
        assert_eq!(hop.start_ns, at, "{hop:?}");
        assert!(hop.end_ns > hop.start_ns, "{hop:?}");
        at = hop.end_ns;
    }
    assert_eq!(at, truth.end_ns);
}

#[test]
fn the_same_seed_gives_the_same_program() {
    assert_eq!(drawn(7).json(), drawn(7).json());
    assert_ne!(drawn(7).json(), drawn(8).json());
}

#[test]
fn the_trace_reads_back_whole() {
    for seed in 0..300 {
        let simulated = drawn(seed);
        let trace = read_bytes("simulated", simulated.json().as_bytes(), &ReadOptions::default()).unwrap();
        let problems: Vec<_> = trace.report.problems.iter().map(|p| p.code.to_string()).collect();
        assert!(problems.iter().all(|code| code == "stream_overlap_dependent_launch"), "seed {seed}: {problems:?}");
        assert_eq!(trace.gpu.len(), simulated.gpu_operations());
        assert!(trace.gpu.launch.iter().all(|launch| launch.is_some()));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_truth_covers_the_window(seed in any::<u64>()) {
        let simulated = drawn(seed);
        covers(simulated.truth());
        for step in simulated.steps() {
            covers(&step.truth);
        }
    }
}

#[test]
fn what_programs_are_like() {
    let (mut events, mut refused) = (Vec::new(), 0);
    let mut bound = std::collections::BTreeMap::new();
    for seed in 0..2_000 {
        let simulated = drawn(seed);
        events.push(simulated.gpu_operations() + simulated.spans());
        refused += simulated.refused();
        for (&category, &ns) in &simulated.truth().bound_by_ns {
            *bound.entry(category).or_insert(0) += ns;
        }
    }
    events.sort_unstable();
    println!("events {} {} {}, refused {refused}, {bound:?}", events[100], events[1_000], events[1_900]);
    assert_eq!(bound.len(), 12);
}
