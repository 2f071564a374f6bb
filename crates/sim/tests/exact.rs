//! The exact method against the truth: time per cause, to the ns.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

use stackline_analyze::critical_path::exact::{Exact, WindowChoice};
use stackline_analyze::critical_path::gpu_order::Evidence;
use stackline_sim::{Claim, Damage, Profile, simulate};
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
    // Measured 18 of 3,000. What is wrong in them is told in docs/critical-path-exact.md.
    assert!(wrong.len() as u64 * 100 <= programs());
}

/// What a damaged trace makes the path say for certain should be so: an edge leads from a true prerequisite.
#[test]
fn damaged_records_hardly_ever_make_a_wrong_edge_exact() {
    let kinds: [(&str, Vec<Damage>); 7] = [
        ("none", vec![]),
        ("lost_kernels", vec![Damage::LostKernels(15)]),
        ("lost_launches", vec![Damage::LostLaunches(15)]),
        ("no_python", vec![Damage::NoPython]),
        ("no_syncs", vec![Damage::NoSyncs]),
        ("reordered", vec![Damage::Reordered]),
        ("lost_kernels_no_python_no_syncs", vec![Damage::LostKernels(10), Damage::NoPython, Damage::NoSyncs]),
    ];
    let (mut failures, mut claimed) = (0, 0);
    for (name, damage) in &kinds {
        let (mut claims, mut wrong, mut inferred, mut total) = (0, 0, 0, 0);
        for seed in 0..programs().min(1_000) {
            let run = simulate(seed, &Profile::any(seed));
            let damaged = run.damaged(damage, seed);
            let trace = stackline_ingest::read_bytes("t.json", damaged.json.as_bytes(), &Default::default()).unwrap();
            let exact = Exact::new(&trace);
            let Ok(path) = exact.path(&WindowChoice::Whole) else { continue };
            total += path.length_ns();
            inferred += path.inferred_ns();
            let base = -run.started_ns();
            for hop in
                path.hops.iter().filter(|h| h.evidence == Evidence::Exact && !h.category.name().starts_with("host"))
            {
                let label = exact.track_label(hop.track);
                let on_stream = trace.tracks.get(hop.track).stream >= 0;
                let track = match label.split_once('/') {
                    Some((_, stream)) if on_stream => format!("stream {stream}"),
                    _ => label.clone(),
                };
                let claim = Claim {
                    start_ns: hop.start + base,
                    end_ns: hop.end + base,
                    category: hop.category.name(),
                    track: &track,
                };
                claims += 1;
                if let Some(reason) = run.refute_damaged(&damaged, &claim) {
                    wrong += 1;
                    if wrong <= 3 {
                        println!("{name} seed {seed}: {reason}: {claim:?} by {}", hop.rule);
                    }
                }
            }
        }
        println!(
            "{name}: {wrong} of {claims} exact claims wrong, {:.1} % inferred",
            100.0 * inferred as f64 / total as f64
        );
        claimed += claims;
        failures += wrong;
    }
    // The open cases are told in docs/critical-path-exact.md.
    assert!(failures * 200 <= claimed, "{failures} of {claimed}");
}
