//! Test that the ground truth is derivable from the trace: a second, plain implementation of the definitions finds
//! it.

use crate::walker;

use stackline_ingest::{ReadOptions, read_bytes};
use stackline_testkit::simulator::{Damage, Profile, simulate};
use walker::Walker;

#[test]
fn plain_walker_finds_the_ground_truth() {
    let mut wrong = Vec::new();
    for seed in 0..2_000 {
        let profile = Profile::any(seed);
        let simulated = simulate(seed, &profile);
        let trace = read_bytes("simulated", simulated.json().as_bytes(), &ReadOptions::default()).unwrap();
        let walker = Walker::new(&trace, simulated.queue_limit());
        let found = walker.whole();
        if found != simulated.truth().bound_by_ns {
            wrong.push((seed, "whole".to_owned(), found, simulated.truth().bound_by_ns.clone()));
        }
        for step in simulated.steps() {
            let found = walker.annotation(&step.name);
            if found != step.truth.bound_by_ns {
                wrong.push((seed, step.name, found, step.truth.bound_by_ns));
            }
        }
    }
    for (seed, window, found, truth) in wrong.iter().take(5) {
        println!("seed {seed} {window}: found {found:?}\n  truth {truth:?}\n  {:?}", Profile::any(*seed));
    }
    assert!(wrong.is_empty(), "{} windows differ", wrong.len());
}

#[test]
fn order_of_records_does_not_affect_the_path() {
    for seed in 0..100 {
        let simulated = simulate(seed, &Profile::any(seed));
        let json = simulated.damaged(&[Damage::Reordered], seed).json;
        assert_ne!(json, simulated.json());
        let trace = read_bytes("simulated", json.as_bytes(), &ReadOptions::default()).unwrap();
        assert_eq!(Walker::new(&trace, simulated.queue_limit()).whole(), simulated.truth().bound_by_ns, "seed {seed}");
    }
}
