//! Detection of cycles in programs with several optimizers: a step ends with the last optimizer of a cycle.

use rustc_hash::{FxHashMap, FxHashSet};
use std::hash::Hash;

/// Hash of each optimizer call that distinguishes optimizers of one class, which share a name.
pub(crate) enum OptimizerHashes {
    /// Hash of the source location of each call.
    Places(Vec<u64>),
    /// Hash of the operators and shapes in each call. An optimizer may do more at times, so these only count if all
    /// calls of a cycle differ.
    Contents(Vec<u64>),
}

/// Limit on the optimizer calls of a cycle, if names do not distinguish them.
const MOST_IN_CYCLE: usize = 16;
/// Limit if only batches distinguish them: one optimizer that takes several parts of a batch is not a cycle.
const MOST_OF_BATCH: usize = 3;
/// Number of repetitions of kinds, or of calls per batch, that are required as evidence.
const LEAST_CYCLES: usize = 3;

/// Indexes of optimizer calls that end a cycle, from the names of all calls in order. `kinds` is called only if all
/// calls have one name. `ends` are the ends of the calls, `batches` the times of requests for the next batch.
pub(crate) fn ends<N: Copy + Eq + Hash>(
    names: &[N],
    kinds: impl FnOnce() -> OptimizerHashes,
    ends: &[i64],
    batches: &[i64],
) -> Vec<usize> {
    let is_one_name = names.len() > 1 && names.iter().all(|name| Some(name) == names.first());
    let by_kinds = || match kinds() {
        OptimizerHashes::Places(places) => cycle_length(&places, |_| true),
        OptimizerHashes::Contents(contents) => cycle_length(&contents, are_distinct),
    };
    let cycle = is_one_name.then(|| steps_per_batch(ends, batches).or_else(by_kinds)).flatten();
    cycle.map_or_else(|| ends_of_names(names), |cycle| (cycle - 1..names.len()).step_by(cycle).collect())
}

/// Number of optimizer steps per batch, if it is more than one and the same for all but the last batch. Epochs end with
/// a request that gets no batch.
fn steps_per_batch(ends: &[i64], batches: &[i64]) -> Option<usize> {
    let within =
        |pair: &[i64]| ends.partition_point(|&end| end <= pair[1]) - ends.partition_point(|&end| end <= pair[0]);
    let counts: Vec<usize> = batches.windows(2).map(within).filter(|&count| count > 0).collect();
    let all_before = batches.first().is_some_and(|&first| ends.first().is_some_and(|&end| first < end));
    let cycle = *counts.first()?;
    let is_one = (2..=MOST_OF_BATCH).contains(&cycle) && counts.iter().all(|&count| count == cycle);
    (is_one && all_before && counts.len() >= LEAST_CYCLES).then_some(cycle)
}

/// Length of a cycle: number of optimizer calls after which their hashes (`kinds`) repeat; `None` without a cycle. The
/// first cycle may contain other kinds (a first step creates its state or compiles), but not the kind of another
/// position.
fn cycle_length<K: PartialEq>(kinds: &[K], is_cycle: impl Fn(&[K]) -> bool) -> Option<usize> {
    (2..=MOST_IN_CYCLE.min(kinds.len() / LEAST_CYCLES)).find(|&cycle| {
        let repeats = &kinds[cycle..];
        let one = &repeats[..cycle];
        let again = repeats.iter().zip(&repeats[cycle..]).all(|(kind, next)| kind == next);
        let is_first = kinds.iter().zip(one).all(|(kind, next)| kind == next || !one.contains(kind));
        again && is_first && one.iter().any(|kind| Some(kind) != one.first()) && is_cycle(one)
    })
}

/// Check if all hashes differ from each other.
fn are_distinct(kinds: &[u64]) -> bool {
    kinds.iter().collect::<FxHashSet<_>>().len() == kinds.len()
}

/// Limit on the delay of a batch request after a step, in percent of the time to the next end. Later requests are
/// prefetches.
const AHEAD_PERCENT: i64 = 25;

/// Ends of steps, extended to the next batch request: the work after the optimizer, such as schedulers, `zero_grad` and
/// logs.
pub(crate) fn extend_to_batches(ends: &[i64], batches: &[i64]) -> Vec<i64> {
    let later = |(at, &end): (usize, &i64)| {
        let next = ends.get(at + 1).copied();
        // After the last step, the length of the one before sets the limit, because an evaluation requests batches,
        // too.
        let length = match (next, at.checked_sub(1).and_then(|before| ends.get(before))) {
            (Some(next), _) => next.saturating_sub(end),
            (None, Some(before)) => end.saturating_sub(*before),
            (None, None) => 0,
        };
        let batch = batches.get(batches.partition_point(|&batch| batch < end)).copied();
        let is_soon = |&batch: &i64| {
            next.is_none_or(|next| batch < next) && batch.saturating_sub(end) <= length / 100 * AHEAD_PERCENT
        };
        batch.filter(is_soon).unwrap_or(end)
    };
    ends.iter().enumerate().map(later).collect()
}

/// Index of the last optimizer call of each cycle, by names, without an incomplete last cycle. An optimizer that
/// permanently replaces the earlier ones begins new cycles.
fn ends_of_names<N: Copy + Eq + Hash>(names: &[N]) -> Vec<usize> {
    let last: FxHashMap<N, usize> = names.iter().enumerate().map(|(at, &name)| (name, at)).collect();
    let (mut ends, mut from) = (Vec::new(), 0);
    while from < names.len() {
        // Last occurrence of the first optimizer of the cycle.
        let after = last.get(&names[from]).map_or(names.len(), |&at| at + 1);
        let known: FxHashSet<N> = names[from..after - 1].iter().copied().collect();
        let next = names[after..].iter().position(|name| !known.contains(name)).filter(|_| after - from > 1);
        let to = next.map_or(names.len(), |at| after + at);
        ends.extend(ends_of_one_class_run(&names[from..to], next.is_none()).into_iter().map(|at| from + at));
        from = to;
    }
    ends
}

/// Index of the last optimizer call of each cycle, if all cycles are equal except for an incomplete last one.
fn ends_of_one_class_run<N: PartialEq>(names: &[N], may_be_cut: bool) -> Vec<usize> {
    let is_first = |at: usize| names.get(at) == names.first();
    let is_last = |at: &usize| *at + 1 == names.len() || is_first(*at + 1);
    let mut ends: Vec<usize> = (0..names.len()).filter(is_last).collect();
    // The first optimizer may step several times in each cycle, for example a critic.
    let in_cycle = |at: usize| (at..names.len()).take_while(|&at| is_first(at)).count();
    let begins = |&at: &usize| is_first(at) && (at == 0 || !is_first(at - 1));
    let counts: Vec<usize> = (0..names.len()).filter(begins).map(in_cycle).collect();
    let are_equal_counts = match &counts[..] {
        [first, last] => first == last,
        // The trace may begin and end within a cycle.
        [first, usual, others @ .., last] => {
            others.iter().all(|count| count == usual) && first <= usual && last <= usual
        }
        _ => false,
    };
    if are_equal_counts {
        ends.retain(|&at| !is_first(at) || at + 1 == names.len());
    }
    if let [others @ .., last] = &ends[..]
        && may_be_cut
        && !others.is_empty()
        && others.iter().all(|&at| names[at] != names[*last])
    {
        ends.pop();
    }
    ends
}

#[cfg(test)]
mod tests {
    use super::{OptimizerHashes, ends, ends_of_names, extend_to_batches};

    #[test]
    fn cycles_of_alternating_optimizers() {
        let ends = |names: &[usize]| ends_of_names(names);
        assert_eq!(ends(&[7, 7, 7]), [0, 1, 2]);
        assert_eq!(ends(&[7, 8, 7, 8]), [1, 3]);
        assert_eq!(ends(&[7, 8, 8, 7, 8, 8, 7]), [2, 5], "the last cycle is cut off");
        assert_eq!(ends(&[7, 7, 8, 7, 7, 8, 7, 7, 8]), [2, 5, 8], "a critic that steps twice");
        assert_eq!(ends(&[7, 7, 8, 7, 7, 8, 7]), [2, 5], "and a last cycle that is cut off");
        assert_eq!(ends(&[7, 8, 7, 7, 8, 7, 7, 8]), [1, 4, 7], "of which the first is not whole");
        assert_eq!(ends(&[7, 7, 7, 8, 7, 8, 7, 8]), [0, 1, 3, 5, 7], "one that trains alone first");
        assert_eq!(ends(&[7, 8, 8]), [2], "one cycle");
        assert_eq!(ends(&[7, 7, 7, 8, 8, 8]), [0, 1, 2, 3, 4, 5], "another optimizer from then on");
        assert_eq!(ends(&[7, 8, 7, 8, 9, 9, 8, 9]), [1, 3, 4, 6, 7]);
        assert_eq!(ends(&[]), [0; 0]);
    }

    #[test]
    fn steps_last_until_the_next_batch() {
        let ends = [100, 200, 300];
        assert_eq!(extend_to_batches(&ends, &[0, 110, 215, 310]), [110, 215, 310]);
        assert_eq!(extend_to_batches(&ends, &[0, 160, 260]), ends, "fetched ahead, in the middle of a step");
        assert_eq!(extend_to_batches(&ends, &[]), ends);
        assert_eq!(extend_to_batches(&ends, &[205]), [100, 205, 300]);
        assert_eq!(extend_to_batches(&ends, &[310, 3300]), [100, 200, 310]);
        assert_eq!(extend_to_batches(&ends, &[3300]), ends, "an evaluation after the last step");
        assert_eq!(extend_to_batches(&[100], &[110]), [100], "of one step nothing tells what is soon");
    }

    fn ends_of_one_class(kinds: OptimizerHashes, count: usize, batches: &[i64]) -> Vec<usize> {
        let at: Vec<i64> = (1..=count as i64).map(|n| n * 100).collect();
        ends(&vec!["Adam"; count], || kinds, &at, batches)
    }

    #[test]
    fn optimizers_of_one_class_are_distinguished_by_call_sites() {
        let places = |places: &[u64]| ends_of_one_class(OptimizerHashes::Places(places.to_vec()), places.len(), &[]);
        assert_eq!(places(&[1, 2, 1, 2, 1, 2]), [1, 3, 5]);
        assert_eq!(places(&[8, 9, 1, 2, 1, 2, 1]), [1, 3, 5], "the first compiles; the last cycle is cut off");
        assert_eq!(places(&[1, 1, 2, 1, 1, 2, 1, 1, 2]), [2, 5, 8], "a critic that steps twice");
        assert_eq!(places(&[8, 1, 1, 1, 1, 1]), [0, 1, 2, 3, 4, 5]);
        assert_eq!(places(&[1, 2, 1, 2]), [0, 1, 2, 3], "too few to tell");
        assert_eq!(
            places(&[1, 1, 2, 1, 2, 1, 2]).len(),
            7,
            "the first one trains alone: where cycles begin is not known"
        );
    }

    #[test]
    fn optimizers_of_one_class_are_distinguished_by_their_operators() {
        let contents =
            |contents: &[u64]| ends_of_one_class(OptimizerHashes::Contents(contents.to_vec()), contents.len(), &[]);
        assert_eq!(contents(&[90, 40, 60, 20, 60, 20, 60, 20]), [1, 3, 5, 7]);
        assert_eq!(contents(&[9, 5, 5, 5, 5, 5, 5]), [0, 1, 2, 3, 4, 5, 6]);
        let now_and_then = [5, 5, 8, 5, 5, 8, 5, 5, 8];
        assert_eq!(contents(&now_and_then).len(), 9, "one optimizer that does more each third time");
    }

    #[test]
    fn optimizers_of_one_class_are_distinguished_by_shared_batches() {
        let equal_contents =
            |count, batches: &[i64]| ends_of_one_class(OptimizerHashes::Contents(vec![5; count]), count, batches);
        assert_eq!(equal_contents(8, &[50, 250, 450, 650]), [1, 3, 5, 7]);
        assert_eq!(equal_contents(6, &[50, 250, 450, 650, 660]), [1, 3, 5], "an epoch ends");
        assert_eq!(equal_contents(16, &[50, 450, 850, 1250]).len(), 16, "four parts of each batch");
        assert_eq!(equal_contents(3, &[50, 150, 250]), [0, 1, 2]);
        assert_eq!(equal_contents(3, &[10, 50, 110, 150, 210, 250]), [0, 1, 2], "gradients of two batches");
        assert_eq!(equal_contents(6, &[50, 250, 350, 450]), [0, 1, 2, 3, 4, 5], "not the same for all");
    }
}
