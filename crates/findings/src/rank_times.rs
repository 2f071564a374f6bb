//! Step times of ranks, and the comparison of the slowest rank with the others.

use std::cmp::Reverse;

/// Step time of one of several ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RankTimes {
    /// The rank.
    pub rank: i64,
    /// Length of a step in ns.
    pub step_ns: i64,
    /// Number of analyzed steps.
    pub steps: usize,
    /// Exposed collective time: GPU time with only collectives, per step, in ns; none without collectives.
    pub exposed_collectives_ns: Option<i64>,
    /// True if part of the trace is missing.
    pub is_incomplete: bool,
}

/// Comparison of the slowest rank with the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slowness {
    /// All ranks are equally slow.
    Equal,
    /// The rank arrives last at collectives, and the slightly longer step of another rank counts as equal.
    LastAtCollectives,
    /// The rank has the longest step.
    Longest,
}

impl Slowness {
    /// Text that follows a rank's number in a sentence, such as `the slowest` in "rank 3, the slowest".
    #[must_use]
    pub fn in_words(self) -> &'static str {
        match self {
            Self::Equal => "as slow as the other ranks",
            Self::LastAtCollectives => "the last to arrive at collectives",
            Self::Longest => "the slowest",
        }
    }
}

/// Step lengths within one part in this number of the longest step count as equal.
const TOLERANCE_DIVISOR: i64 = 100;

impl RankTimes {
    /// Rank with the longest step. Ranks that train together have equal step lengths: then the rank that the others
    /// wait for, with the least exposed collective time.
    #[must_use]
    pub fn slowest(ranks: &[Self]) -> Option<&Self> {
        let longest = ranks.iter().map(|rank| rank.step_ns).max()?;
        let is_as_long = |rank: &&Self| longest - rank.step_ns <= longest / TOLERANCE_DIVISOR;
        let key = |rank: &&Self| (rank.exposed_collectives_ns.unwrap_or(i64::MAX), Reverse(rank.step_ns), rank.rank);
        ranks.iter().filter(is_as_long).min_by_key(key)
    }

    /// Comparison of this rank, the slowest one, with the other ranks.
    #[must_use]
    pub fn slowness(&self, ranks: &[Self]) -> Slowness {
        match () {
            () if Self::are_equal(ranks) => Slowness::Equal,
            () if ranks.iter().any(|other| other.step_ns > self.step_ns) => Slowness::LastAtCollectives,
            () => Slowness::Longest,
        }
    }

    /// Check if all ranks are equally slow: steps and exposed collective times differ by no more than the tolerance of
    /// steps.
    fn are_equal(ranks: &[Self]) -> bool {
        let range = |of: &dyn Fn(&Self) -> i64| {
            let (least, most) = (ranks.iter().map(of).min(), ranks.iter().map(of).max());
            most.unwrap_or(0) - least.unwrap_or(0)
        };
        let longest = ranks.iter().map(|rank| rank.step_ns).max().unwrap_or(0);
        ranks.len() > 1
            && range(&|rank| rank.step_ns) <= longest / TOLERANCE_DIVISOR
            && range(&|rank| rank.exposed_collectives_ns.unwrap_or(0)) <= longest / TOLERANCE_DIVISOR
    }

    /// Check that the trace shows how long this rank waits for the others: collectives recorded, no records missing.
    pub(super) fn is_comparable(&self) -> bool {
        self.exposed_collectives_ns.is_some() && !self.is_incomplete
    }
}

#[cfg(test)]
mod tests {
    use super::RankTimes;
    use super::Slowness::{Equal, LastAtCollectives, Longest};

    #[test]
    fn slowest_rank_is_compared_with_the_others() {
        let rank = |rank: i64, step_ns: i64, exposed: i64| RankTimes {
            rank,
            step_ns,
            steps: 8,
            exposed_collectives_ns: Some(exposed),
            is_incomplete: false,
        };
        let compared =
            |ranks: &[RankTimes]| RankTimes::slowest(ranks).map(|slowest| (slowest.rank, slowest.slowness(ranks)));
        assert_eq!(compared(&[rank(0, 2980, 2354), rank(1, 2963, 517)]), Some((1, LastAtCollectives)));
        assert_eq!(compared(&[rank(0, 2980, 517), rank(1, 2963, 2354)]), Some((0, Longest)));
        assert_eq!(compared(&[rank(0, 2980, 2354), rank(1, 2000, 517)]), Some((0, Longest)));
        assert_eq!(compared(&[rank(0, 2980, 530), rank(1, 2963, 517)]), Some((1, Equal)));
        let silent = |steps: [i64; 2]| steps.map(|ns| RankTimes { exposed_collectives_ns: None, ..rank(ns, ns, 0) });
        assert_eq!(compared(&silent([2963, 2980])), Some((2980, Equal)));
        assert_eq!(compared(&silent([2000, 2980])), Some((2980, Longest)), "without collectives the longest step");
    }
}
