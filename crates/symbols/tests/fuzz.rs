//! Replay of the fuzz target `symbols`: its seeds, whole and mutated, without coverage guidance.

#[path = "../../../fuzz/checks/symbols.rs"]
mod symbols;

use crate::made;
use stackline_testkit::mutate::mutate;

/// Number of mutated inputs.
const MUTATED: u64 = 5000;

#[test]
fn seeds_and_mutations_have_results() {
    let seeds = made::seeds();
    seeds.iter().for_each(|seed| symbols::check(seed));
    for number in 0..MUTATED {
        symbols::check(&mutate(&seeds, number));
    }
}
