//! The exact method against the truth: time per cause, to the ns.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

use stackline_analyze::critical_path::exact::{Exact, WindowChoice};
use stackline_sim::{Profile, simulate};
use std::collections::BTreeMap;

/// How many programs, unless the environment says otherwise.
fn programs() -> u64 {
    std::env::var("STACKLINE_SIM_PROGRAMS").ok().and_then(|n| n.parse().ok()).unwrap_or(300)
}

#[test]
fn time_per_cause_is_the_truth() {
    let mut wrong = Vec::new();
    for seed in 0..programs() {
        let run = simulate(seed, &Profile::any(seed));
        let trace = stackline_ingest::read_bytes("t.json", run.json().as_bytes(), &Default::default()).unwrap();
        let exact = Exact::new(&trace);
        let path = exact.path(&WindowChoice::Whole).unwrap();
        let found: BTreeMap<&str, i64> =
            path.by_category().iter().filter(|(_, ns)| *ns > 0).map(|(c, ns)| (c.name(), *ns)).collect();
        let truth: BTreeMap<&str, i64> = run.truth().bound_by_ns.iter().map(|(c, ns)| (*c, *ns)).collect();
        if found != truth {
            wrong.push(seed);
            if wrong.len() <= 3 {
                println!("seed {seed} {:?}\n  found {found:?}\n  truth {truth:?}", Profile::any(seed));
            }
        }
    }
    println!("{} of {} wrong: {:?}", wrong.len(), programs(), &wrong[..wrong.len().min(40)]);
    assert!(wrong.is_empty());
}
