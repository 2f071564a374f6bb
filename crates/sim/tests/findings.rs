//! Findings against the truth: problems are planted into programs, found, and mended.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod planted_support;

use planted_support::{Score, at, try_clean, try_kind};
use stackline_sim::planted;

fn number(name: &str, usual: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(usual)
}

/// The table: of each kind so many programs, and as many without any problem.
fn measure(seeds: std::ops::Range<u64>) -> (Score, Vec<(&'static planted::Kind, Score)>) {
    let only = std::env::var("PLANTED_ONLY").ok();
    println!(
        "| problem | rule | programs | found % | false alarms % | gain, % of the step | median error % | 95th percentile % | truth in bounds % | width of bounds, % of the gain |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|");
    let mut clean = Score::default();
    for seed in seeds.clone().filter(|_| only.is_none()) {
        try_clean(seed, &mut clean);
    }
    println!("{}", clean.row("none", ""));
    let mut table = Vec::new();
    let wanted = |kind: &&planted::Kind| only.as_deref().is_none_or(|only| kind.name.contains(only) || kind.code == only);
    for kind in planted::kinds().filter(wanted) {
        let mut score = Score::default();
        for seed in seeds.clone() {
            try_kind(kind, seed, &mut score);
        }
        println!("{}", score.row(kind.name, kind.code));
        table.push((kind, score));
    }
    (clean, table)
}

#[test]
fn planted_problems_are_found_and_priced() {
    let (_clean, table) = measure(0..number("PLANTED_SEEDS", 6));
    let mut all = Score::default();
    for (_, score) in table {
        all.add(score);
    }
    println!("{}", all.row("all", ""));
    let _ = at;
}
