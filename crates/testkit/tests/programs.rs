//! Properties of simulated programs, and of their traces, which are readable as real ones.

use proptest::prelude::*;
use stackline_ingest::{ReadOptions, read_bytes};
use stackline_testkit::simulator::{Claim, Damage, Profile, Simulated, simulate};

fn drawn(seed: u64) -> Simulated {
    simulate(seed, &Profile::any(seed))
}

/// The path is as long as its window, without gaps.
fn covers(truth: &stackline_testkit::simulator::Truth) {
    assert_eq!(truth.bound_by_ns.values().sum::<i64>(), truth.window_ns);
    let mut at = truth.start_ns;
    for segment in &truth.segments {
        assert_eq!(segment.start_ns, at, "{segment:?}");
        assert!(segment.end_ns > segment.start_ns, "{segment:?}");
        at = segment.end_ns;
    }
    assert_eq!(at, truth.end_ns);
}

#[test]
fn equal_seeds_give_equal_programs() {
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
    fn ground_truth_covers_the_window(seed in any::<u64>()) {
        let simulated = drawn(seed);
        covers(simulated.truth());
        for step in simulated.steps() {
            covers(&step.truth);
        }
    }
}

#[test]
fn properties_of_drawn_programs() {
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

#[test]
fn ground_truth_is_not_refuted() {
    for seed in 0..300 {
        let simulated = drawn(seed);
        for segment in &simulated.truth().segments {
            let claim = Claim {
                start_ns: segment.start_ns,
                end_ns: segment.end_ns,
                category: segment.category,
                track: &segment.track,
            };
            // A dependent launch is cut at its start: there is no lag to claim.
            assert_eq!(simulated.refute(&claim), None, "seed {seed}");
            let wrong = Claim { start_ns: segment.start_ns + 1, ..claim };
            let lag = ["gpu_queue", "launch_latency", "sync_return", "thread_handover"].contains(&segment.category);
            assert!(
                !lag || segment.end_ns - segment.start_ns < 2 || simulated.refute(&wrong).is_some(),
                "seed {seed} {segment:?}"
            );
        }
    }
}

#[test]
fn damage_removes_the_declared_records() {
    let kinds = [
        Damage::LostKernels(20),
        Damage::LostLaunches(20),
        Damage::NoPython,
        Damage::NoSyncs,
        Damage::Clock { offset_ns: -3_000, jitter_ns: 400 },
        Damage::LostThreads,
        Damage::Reordered,
    ];
    for seed in 0..60 {
        let simulated = drawn(seed);
        for kind in kinds {
            let damaged = simulated.damaged(&[kind], seed);
            let trace = read_bytes("damaged", damaged.json.as_bytes(), &ReadOptions::default()).unwrap();
            assert_eq!(trace.gpu.len(), simulated.gpu_operations() - damaged.lost_operations);
            assert!(trace.report.is_clean(), "{:?}", trace.report.problems);
            let frames = trace.events.kind.iter().filter(|k| **k == stackline_model::EventKind::PythonFunction).count();
            assert_eq!(frames == 0, kind == Damage::NoPython || !simulated.json().contains("python_function"));
            let syncs = trace.events.kind.iter().filter(|k| **k == stackline_model::EventKind::Sync).count();
            assert!(kind != Damage::NoSyncs || syncs == 0);
        }
    }
}

#[test]
fn claims_on_shifted_clocks_are_judged_in_shifted_times() {
    const AHEAD: i64 = 2_345;
    for seed in 0..200 {
        let simulated = drawn(seed);
        let damaged = simulated.damaged(&[Damage::Clock { offset_ns: AHEAD, jitter_ns: 0 }], seed);
        for segment in &simulated.truth().segments {
            let (from, to) = match segment.category {
                "gpu_compute" | "gpu_communication" | "gpu_copy" | "gpu_queue" => (AHEAD, AHEAD),
                "launch_latency" => (0, AHEAD),
                "sync_return" => (AHEAD, 0),
                _ => (0, 0),
            };
            let (start_ns, end_ns) = (segment.start_ns + from, segment.end_ns + to);
            let claim = Claim { start_ns, end_ns, category: segment.category, track: &segment.track };
            assert_eq!(simulated.refute_damaged(&damaged, &claim), None, "seed {seed}");
            let unshifted = Claim { end_ns: segment.end_ns, ..claim };
            assert!(
                to == 0
                    || segment.category.starts_with("gpu_c")
                    || simulated.refute_damaged(&damaged, &unshifted).is_some()
            );
        }
    }
}
