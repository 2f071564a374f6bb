//! Padded batches, and the remaining work if the same sequences are batched differently.

use serde_json::Value;

/// Least number of elements of a batch. Smaller shapes coincide with those of other tensors.
const MIN_ELEMENTS: i64 = 64;

/// Batch of sequences, padded to the length of the longest one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Batch {
    /// Length of each sequence, in elements.
    lengths: Vec<i64>,
}

impl Batch {
    /// Read the recorded input shapes of `pad_sequence`, whose first dimension is the length; `None` for a single
    /// sequence, or few elements.
    pub(super) fn from_inputs(dims: &Value) -> Option<Self> {
        let length = |shape: &Value| shape.get(0)?.as_i64().filter(|length| (0..1 << 31).contains(length));
        let lengths: Vec<i64> = dims.get(0)?.as_array()?.iter().map(length).collect::<Option<_>>()?;
        let (count, longest) = (i64::try_from(lengths.len()).ok()?, *lengths.iter().max()?);
        let all = count.checked_mul(longest)?;
        (count > 1 && all >= MIN_ELEMENTS).then_some(Self { lengths })
    }

    /// Number of sequences in the batch.
    pub(super) fn count(&self) -> usize {
        self.lengths.len()
    }

    /// Length of every sequence of the batch after padding: that of the longest.
    pub(super) fn longest(&self) -> i64 {
        self.lengths.iter().max().copied().unwrap_or(0)
    }
}

/// Remaining shares of the work on batches (0 to 1), for work that is linear and work that is quadratic in the lengths.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct RemainingShares {
    pub(super) linear: f64,
    pub(super) square: f64,
}

impl RemainingShares {
    /// Remaining shares with half of the savings.
    pub(super) fn half_way(self) -> Self {
        Self { linear: (1.0 + self.linear) / 2.0, square: (1.0 + self.square) / 2.0 }
    }
}

/// Work on batches, in elements and in pairs of elements of one sequence.
#[derive(Clone, Copy, Default)]
struct Work {
    elements: f64,
    pairs: f64,
}

impl Work {
    /// Add the work on `count` sequences of the padded length `longest`.
    fn add(&mut self, count: usize, longest: i64) {
        let longest = longest as f64;
        self.elements += count as f64 * longest;
        self.pairs += count as f64 * longest * longest;
    }

    /// Share of this work in all work, for linear and quadratic work.
    fn part_of(self, all: Self) -> RemainingShares {
        RemainingShares { linear: self.elements / all.elements, square: self.pairs / all.pairs }
    }
}

/// Remaining share of the work on batches, with sequences batched by length and without any padding.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Remaining {
    /// With the sequences of each pool batched by length.
    pub(super) sorted: RemainingShares,
    /// Without padding.
    pub(super) unpadded: RemainingShares,
}

impl Remaining {
    /// Compute the remaining shares of the work for pools of batches, with at least one batch.
    pub(super) fn after(pools: &[Vec<Batch>]) -> Self {
        let (mut all, mut used, mut sorted) = (Work::default(), Work::default(), Work::default());
        for batches in pools {
            batches.iter().for_each(|batch| all.add(batch.count(), batch.longest()));
            add_sorted(batches, &mut sorted, &mut used);
        }
        let sorted = Work { elements: sorted.elements.min(all.elements), pairs: sorted.pairs.min(all.pairs) };
        Self { sorted: sorted.part_of(all), unpadded: used.part_of(all) }
    }
}

/// Add the work on a pool's sequences sorted by length, and without padding. The largest batches get the shortest
/// sequences, to minimize the number of long ones.
fn add_sorted(batches: &[Batch], sorted: &mut Work, used: &mut Work) {
    let mut lengths: Vec<i64> = batches.iter().flat_map(|batch| batch.lengths.iter().copied()).collect();
    lengths.sort_unstable();
    lengths.iter().for_each(|&length| used.add(1, length));
    let mut counts: Vec<usize> = batches.iter().map(Batch::count).collect();
    counts.sort_unstable_by_key(|&count| std::cmp::Reverse(count));
    let mut rest = &lengths[..];
    for count in counts {
        let (next, remaining) = rest.split_at(count.min(rest.len()));
        sorted.add(count, next.last().copied().unwrap_or(0));
        rest = remaining;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn batch(lengths: &[i64]) -> Batch {
        Batch { lengths: lengths.to_vec() }
    }

    #[test]
    fn lengths_are_those_of_the_sequences() {
        let found = |dims: Value| Batch::from_inputs(&dims).map(|b| (b.count(), b.longest(), b.lengths.iter().sum()));
        assert_eq!(found(json!([[[90, 16], [10, 16], [20, 16]], [], []])), Some((3, 90, 120)));
        assert_eq!(found(json!([[[9], [1], [2]], [], []])), None, "small");
        assert_eq!(found(json!([[[900, 16]], [], []])), None, "one");
        assert_eq!(found(json!([[[90, 16], []], []])), None);
        assert_eq!(found(json!([[[90], [-1]]])), None);
        assert_eq!(found(json!([[], [], []])), None, "more than 30 tensors, as torch.profiler writes them");
    }

    #[test]
    fn sorted_sequences_leave_less_padding() {
        let Remaining { sorted, unpadded } = Remaining::after(&[vec![batch(&[10, 100]), batch(&[100, 10])]]);
        // 20 + 200 of 400 elements, 200 + 20,000 of 40,000 pairs: nothing is padded then.
        assert_eq!(sorted, RemainingShares { linear: 0.55, square: 0.505 });
        assert_eq!(unpadded, sorted);
    }

    #[test]
    fn batches_that_cannot_be_sorted_stay_as_they_are() {
        let sorted = |pools: &[Vec<Batch>]| Remaining::after(pools).sorted.linear;
        assert_eq!(sorted(&[vec![batch(&[10, 100, 100])]]), 1.0, "one batch");
        assert_eq!(sorted(&[vec![batch(&[10, 100])], vec![batch(&[100, 10])]]), 1.0, "one of each pool");
    }

    #[test]
    fn the_largest_batches_get_the_shortest_sequences() {
        let small = batch(&[100, 40]);
        let large = batch(&[10, 3, 3, 3, 3, 3, 3, 3, 3, 3]);
        for batches in [vec![small.clone(), large.clone()], vec![large, small]] {
            assert_eq!(Remaining::after(&[batches]).sorted, RemainingShares { linear: 1.0, square: 1.0 });
        }
    }
}
