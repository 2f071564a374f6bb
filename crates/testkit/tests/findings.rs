//! Findings compared with ground truth: faults are injected into programs, found, and repaired.

use crate::injected_faults_support;

use injected_faults_support::{PAGE, Score, at, put_into, try_clean, try_kind, write_table};
use stackline_testkit::simulator::injected_faults::{self, Kind};
use std::sync::atomic::{AtomicUsize, Ordering};

fn number(name: &str, usual: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(usual)
}

/// Measure programs of each kind, and as many without fault. `FAULTS_ONLY` selects kinds by a part of their name, or
/// by their rule; `FAULTS_SHOW` prints programs with wrong results.
fn measure(seeds: std::ops::Range<u64>) -> (Score, Vec<(&'static Kind, Score)>) {
    let only = std::env::var("FAULTS_ONLY").ok();
    let mut clean = Score::default();
    for seed in seeds.clone().filter(|_| only.is_none()) {
        try_clean(seed, &mut clean);
    }
    let is_selected = |kind: &&Kind| only.as_deref().is_none_or(|only| kind.name.contains(only) || kind.code == only);
    let kinds: Vec<&'static Kind> = injected_faults::kinds().filter(is_selected).collect();
    let next = AtomicUsize::new(0);
    let score_next = || {
        let at = next.fetch_add(1, Ordering::Relaxed);
        let kind = *kinds.get(at)?;
        let mut score = Score::default();
        seeds.clone().for_each(|seed| try_kind(kind, seed, &mut score));
        Some((at, (kind, score)))
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let mut table: Vec<_> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(|| std::iter::from_fn(score_next).collect())).collect();
        workers.into_iter().flat_map(|worker| -> Vec<_> { worker.join().unwrap() }).collect()
    });
    table.sort_unstable_by_key(|&(at, _)| at);
    (clean, table.into_iter().map(|(_, scored)| scored).collect())
}

/// Required results of all programs together.
fn check(clean: &Score, table: Vec<(&'static Kind, Score)>) {
    let kinds = table.len();
    let mut all = Score::default();
    // Where a repair leaves a part of the work, bounds are those of what the rule assumes, as wide as was measured on real programs.
    let gone = table.iter().filter(|(kind, _)| !kind.is_assumed).flat_map(|(_, score)| &score.widths);
    let mut widths_of_gone: Vec<f64> = gone.copied().collect();
    table.into_iter().for_each(|(_, score)| all.add(score));
    assert!(kinds >= 20, "{kinds} kinds");
    assert!(all.found_percent() >= 99.0, "found {} %", all.found_percent());
    assert!(clean.alarmed_percent() < 1.0, "false alarms {:?}", clean.alarms);
    assert!(all.alarmed_percent() < 1.0, "false alarms {:?}", all.alarms);
    assert!(all.inside_percent() >= 95.0, "truth inside the bounds in {} %", all.inside_percent());
    assert!(all.error(50) <= 5.0, "median error {} %", all.error(50));
    // Bounds that hold anything are none.
    let width = at(&mut widths_of_gone, 50);
    assert!(width <= 20.0, "median width of bounds {width} % of the gain, where work is gone");
}

#[test]
fn injected_faults_are_found_with_correct_gains() {
    let (clean, table) = measure(0..number("FAULTS_SEEDS", 6));
    check(&clean, table);
}

/// The page has the markers for the table, so that the long test cannot fail at its end.
#[test]
fn page_has_markers_for_the_table() {
    let page = std::fs::read_to_string(PAGE).unwrap();
    assert!(put_into(&page, "a table").contains("\na table\n"));
}

/// With `STACKLINE_BLESS=1` the table is written into its page.
#[test]
#[ignore = "long: 22,000 programs; run with --ignored --nocapture for the table"]
fn injected_faults_of_all_programs() {
    let (clean, mut table) = measure(0..number("FAULTS_SEEDS", 500));
    write_table(&clean, &mut table);
    check(&clean, table);
}
