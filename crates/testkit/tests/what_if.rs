//! What-if predictions compared with ground truth: the edited program runs again.

use crate::what_if_support;

use stackline_testkit::simulator::{Profile, simulate};
use std::collections::BTreeMap;
use what_if_support::{Accuracy, at, is_selected_kind, try_program};

/// Largest number of pairs.
const MOST_PAIRS: usize = 10_000;

fn measure(seeds: std::ops::Range<u64>, is_included: &dyn Fn(&str) -> bool) -> Accuracy {
    let mut table: BTreeMap<String, Accuracy> = BTreeMap::new();
    let pairs = |table: &BTreeMap<String, Accuracy>| table.values().map(|a| a.errors.len()).sum::<usize>();
    for seed in seeds {
        if pairs(&table) >= MOST_PAIRS {
            break;
        }
        let simulated = simulate(seed, &Profile::any(seed));
        try_program(seed, (&simulated, &simulated.json()), is_included, &mut table);
    }
    println!(
        "| edit | pairs | median error % | 95th percentile % | worst % | truth in bounds % | width of bounds %: median / 75th / 90th | refused |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    let mut all = Accuracy::default();
    for (name, mut accuracy) in table {
        println!("{}", accuracy.row(&name));
        all.errors.append(&mut accuracy.errors);
        all.widths.append(&mut accuracy.widths);
        all.inside += accuracy.inside;
        all.refused += accuracy.refused;
    }
    println!("{}", all.row("all"));
    all
}

fn check(mut all: Accuracy) {
    assert!(all.error(50) <= 1.0, "median error {} %", all.error(50));
    assert!(all.error(95) <= 5.0, "95th percentile {} %", all.error(95));
    assert!(all.inside * 100 >= all.errors.len() * 99, "{} of {} in bounds", all.inside, all.errors.len());
    // Bounds that hold anything are none.
    assert!(at(&mut all.widths, 50) <= 2.0, "median width of bounds {} %", at(&mut all.widths, 50));
}

#[test]
fn predictions_of_some_programs() {
    check(measure(0..40, &|_| true));
}

/// Few programs load data in workers.
#[test]
fn gain_of_more_workers_is_within_bounds() {
    let found = measure(0..600, &|kind| kind == "MoreWorkers");
    assert!(found.errors.len() >= 100, "{}", found.errors.len());
    assert!(found.inside * 100 >= found.errors.len() * 99, "{} of {} in bounds", found.inside, found.errors.len());
}

/// 10,000 pairs of a program and an edit; the table is in the docs.
#[test]
#[ignore = "long: run with --ignored --nocapture for the table"]
fn predictions_of_ten_thousand_pairs() {
    let number = |name: &str, usual: u64| std::env::var(name).ok().and_then(|s| s.parse().ok()).unwrap_or(usual);
    let from = number("WHAT_IF_FROM", 0);
    check(measure(from..from + number("WHAT_IF_SEEDS", 600), &is_selected_kind));
}
