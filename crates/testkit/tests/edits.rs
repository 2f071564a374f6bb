//! Tests of edits of simulated programs.

use stackline_testkit::simulator::{Edit, Profile, Simulated, simulate};

fn drawn(seed: u64) -> Simulated {
    simulate(seed, &Profile::any(seed))
}

#[test]
fn rerun_without_edits_is_identical() {
    for seed in 0..500 {
        let simulated = drawn(seed);
        let again = simulated.rerun(&[]).unwrap();
        assert_eq!(again.truth(), simulated.truth(), "seed {seed}");
        assert_eq!(again.json(), simulated.json(), "seed {seed}");
    }
}

#[test]
fn every_possible_edit_has_a_ground_truth() {
    let mut kinds = std::collections::BTreeMap::<String, (u32, u32)>::new();
    for seed in 0..300 {
        let simulated = drawn(seed);
        for edit in simulated.possible_edits() {
            let truth = simulated.edit(&edit).unwrap();
            assert_eq!(truth.bound_by_ns.values().sum::<i64>(), truth.window_ns);
            let kind = format!("{edit:?}").split([' ', '(']).next().unwrap().to_owned();
            let seen = kinds.entry(kind).or_default();
            seen.0 += 1;
            seen.1 += u32::from(truth.window_ns < simulated.truth().window_ns);
        }
    }
    println!("edits (faster): {kinds:?}");
    assert_eq!(kinds.len(), 8, "{kinds:?}");
    assert!(kinds.values().all(|&(all, faster)| faster > 0 && all > 30), "{kinds:?}");
}

#[test]
fn longer_kernels_never_help() {
    for seed in 0..300 {
        // Without dependent launches and queries, whose effects are not monotone.
        let profile = Profile { dependent_launch: false, polls: false, ..Profile::any(seed) };
        let simulated = simulate(seed, &profile);
        let slower = Edit::ScaleKernels { name: String::new(), factor: 1.25 };
        if let Some(truth) = simulated.edit(&slower) {
            assert!(truth.window_ns >= simulated.truth().window_ns, "seed {seed}");
        }
    }
}
