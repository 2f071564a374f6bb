//! What-if predictions on damaged traces: the ground truth is within the bounds, and inconsistent clocks don't
//! mislead.

use crate::what_if_support;

use stackline_critical_path::exact::{WindowChoice, what_if};
use stackline_testkit::simulator::{Damage, Profile, simulate};
use std::collections::BTreeMap;
use what_if_support::{Accuracy, is_selected_kind, try_program};

fn measure(damage: &[Damage], seeds: std::ops::Range<u64>) -> Accuracy {
    let mut table: BTreeMap<String, Accuracy> = BTreeMap::new();
    for seed in seeds {
        let simulated = simulate(seed, &Profile::any(seed));
        let damaged = simulated.damaged(damage, seed);
        try_program(seed, (&simulated, &damaged.json), &is_selected_kind, &mut table);
    }
    let mut all = Accuracy::default();
    for (_, mut accuracy) in table {
        all.errors.append(&mut accuracy.errors);
        all.widths.append(&mut accuracy.widths);
        all.inside += accuracy.inside;
        all.refused += accuracy.refused;
    }
    all
}

fn seeds(usual: u64) -> std::ops::Range<u64> {
    0..std::env::var("WHAT_IF_SEEDS").ok().and_then(|s| s.parse().ok()).unwrap_or(usual)
}

/// Kinds of damage, and percentage of the ground truth that must be within the bounds.
fn kinds() -> Vec<(&'static str, Vec<Damage>, usize)> {
    let clock = |offset_ns, jitter_ns| Damage::Clock { offset_ns, jitter_ns };
    vec![
        ("none", vec![], 99),
        ("15 % of the kernels", vec![Damage::LostKernels(15)], 90),
        ("all kernels", vec![Damage::LostKernels(100)], 85),
        ("15 % of the launch calls", vec![Damage::LostLaunches(15)], 88),
        ("all Python frames", vec![Damage::NoPython], 92),
        ("all synchronisation records", vec![Damage::NoSyncs], 95),
        ("threads", vec![Damage::LostThreads], 87),
        ("none, times of the GPU off by up to 300 ns", vec![clock(0, 300)], 99),
        ("none, clock of the GPU 20 µs behind", vec![clock(-20_000, 0)], 99),
        ("none, clock of the GPU 20 µs behind, and up to 300 ns more", vec![clock(-20_000, 300)], 99),
        ("none, clock of the GPU 300 µs behind", vec![clock(-300_000, 0)], 99),
        // Where no call is known to wait, no record shows that the clock is ahead.
        ("none, clock of the GPU 20 µs ahead", vec![clock(20_000, 0)], 96),
        ("none, clock of the GPU 300 µs ahead", vec![clock(300_000, 0)], 88),
    ]
}

/// The table is in docs/explanation/what-if-accuracy.md (`WHAT_IF_SEEDS=300`, `--nocapture`).
#[test]
fn ground_truth_is_within_the_bounds() {
    println!(
        "| records missing | pairs | median error % | 95th percentile % | worst % | truth in bounds % | width of bounds %: median / 75th / 90th | refused |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    let mut missed = Vec::new();
    for (name, damage, percent) in kinds() {
        let mut found = measure(&damage, seeds(25));
        println!("{}", found.row(name));
        assert!(!found.errors.is_empty(), "{name}: every edit was refused");
        if found.inside * 100 < found.errors.len() * percent {
            missed.push(name);
        }
    }
    assert!(missed.is_empty(), "fewer in bounds than promised: {missed:?}");
}

/// Without a record of GPU work it is unknown if a call that may wait did so: the lower bound of its gain is 0.
#[test]
fn waits_for_unrecorded_work_have_lower_bound_zero() {
    let mut predictions = 0;
    for seed in 0..25 {
        let damaged = simulate(seed, &Profile::any(seed)).damaged(&[Damage::LostKernels(100)], seed);
        let trace = stackline_ingest::read_bytes("sim.json", damaged.json.as_bytes(), &Default::default()).unwrap();
        let edit = what_if::Edit::parse("remove sync:*").unwrap();
        let Ok(found) = what_if::predict(&trace, &WindowChoice::Whole, &[edit]) else { continue };
        if found.gain.likely_ns * 100 > found.before_ns() {
            predictions += 1;
            assert!(found.gain.low_ns <= found.before_ns() / 100, "seed {seed}: {:?}", found.gain);
        }
    }
    assert!(predictions > 0);
}
