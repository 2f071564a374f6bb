//! Combinations of suggestions, compared with an exhaustive search.

use crate::random::program::{Program, programs};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use stackline_memory::replay::Replay;
use stackline_memory::suggest::{Suggestion, suggestions};
use stackline_memory::{ObjectUsage, Rules, patterns};
use stackline_model::{MemoryDeviceId, MemoryTrace};

fn advice(trace: &MemoryTrace) -> Vec<Suggestion> {
    let usage = ObjectUsage::new(trace, Rules::default());
    suggestions(&usage, &patterns::find(&usage))
}

/// Lowest peak of all valid combinations, tried one by one.
fn optimum(replay: &mut Replay<'_>, next: usize, count: usize) -> u64 {
    if next == count {
        return replay.peak().bytes;
    }
    let without = optimum(replay, next + 1, count);
    if !replay.apply(next) {
        return without;
    }
    let with = optimum(replay, next + 1, count);
    replay.undo(next);
    with.min(without)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    /// Also if only some of the suggestions may be applied.
    #[test]
    fn combination_is_never_worse_than_a_single_suggestion(program in programs(50, 2), leave_out in 1..5usize) {
        let trace = program.trace();
        let all = advice(&trace);
        let among: Vec<usize> = (0..all.len()).filter(|at| (at + 1) % leave_out != 0 || leave_out == 1).collect();
        let mut replay = Replay::new(&trace, MemoryDeviceId(0), &all);
        let alone = among.iter().map(|at| replay.lowers(*at)).max().unwrap_or(0);
        let combination = replay.lower(&among, 1);
        prop_assert!(combination.before.bytes - combination.after.bytes >= alone, "{:?}", &combination);
        prop_assert_eq!(replay.peak(), combination.after);
        // Applying the list in order gives the same result.
        let mut recomputed = Replay::new(&trace, MemoryDeviceId(0), &all);
        combination.chosen.iter().for_each(|at| { recomputed.apply(*at); });
        prop_assert_eq!(recomputed.peak(), combination.after);
    }
}

/// Programs with several suggestions, few enough for an exhaustive search.
fn small_programs(count: usize) -> Vec<Program> {
    let mut runner = TestRunner::deterministic();
    let strategy = programs(30, 1);
    let drawn = std::iter::repeat_with(move || strategy.new_tree(&mut runner).map(|tree| tree.current()));
    let is_small = |program: &Program| (3..=11).contains(&advice(&program.trace()).len());
    drawn.filter_map(Result::ok).filter(is_small).take(count).collect()
}

#[test]
fn combination_is_nearly_always_optimal() {
    let programs = small_programs(200);
    let mut best = 0;
    for program in &programs {
        let trace = program.trace();
        let all = advice(&trace);
        let lowest = optimum(&mut Replay::new(&trace, MemoryDeviceId(0), &all), 0, all.len());
        let among: Vec<usize> = (0..all.len()).collect();
        let found = Replay::new(&trace, MemoryDeviceId(0), &all).lower(&among, 1).after.bytes;
        assert!(found >= lowest, "{found} is below all combinations, {lowest}");
        best += usize::from(found == lowest);
    }
    println!("the best combination in {best} of {} programs", programs.len());
    assert!(best >= 190, "{best}");
}
