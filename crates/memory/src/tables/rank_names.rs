//! Ranks of memory files, found in their file names.

use stackline_model::RankInName;
use std::collections::BTreeSet;

/// Ranks of several files, as far as their names show them.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum RanksByName {
    /// Rank of each file; several files may have the same rank.
    Known(Vec<i64>),
    /// GPU numbers that repeat, from several hosts or several times.
    Repeated,
    /// Not every name has a number, or all have the same one.
    Unknown,
}

/// Rank of each file by its name; `None` if a name shows no rank, or two files have the same one.
pub fn unique_ranks(names: &[&str]) -> Option<Vec<i64>> {
    match ranks_by_name(names) {
        RanksByName::Known(ranks) if distinct(&ranks) == ranks.len() => Some(ranks),
        _ => None,
    }
}

/// Ranks from file names. Common folders are ignored.
pub(super) fn ranks_by_name(names: &[&str]) -> RanksByName {
    let shared = shared_folder(names);
    let found: Option<Vec<RankInName>> = names.iter().map(|name| RankInName::of_rank_or_gpu(&name[shared..])).collect();
    let Some(found) = found else { return RanksByName::Unknown };
    let ranks: Vec<i64> = found.iter().map(|rank| rank.number).collect();
    match distinct(&ranks) {
        0 | 1 => RanksByName::Unknown,
        distinct if distinct < ranks.len() && found.iter().any(|rank| rank.is_local) => RanksByName::Repeated,
        _ => RanksByName::Known(ranks),
    }
}

/// Number of distinct ranks.
pub(super) fn distinct(ranks: &[i64]) -> usize {
    ranks.iter().collect::<BTreeSet<_>>().len()
}

/// Length of the common folder of the files, with its slash.
fn shared_folder(names: &[&str]) -> usize {
    let Some(first) = names.first().map(|name| name.as_bytes()) else { return 0 };
    let common_length = |name: &&str| name.bytes().zip(first).take_while(|(own, of_first)| own == *of_first).count();
    let shared = names.iter().map(common_length).min().unwrap_or(0);
    first[..shared].iter().rposition(|byte| *byte == b'/').map_or(0, |slash| slash + 1)
}

#[cfg(test)]
mod tests {
    use super::{RanksByName, ranks_by_name, unique_ranks};

    #[test]
    fn gpu_numbers_are_ranks_only_on_one_host() {
        assert_eq!(ranks_by_name(&["gpu0.pickle", "gpu1.pickle"]), RanksByName::Known(vec![0, 1]));
        for names in [
            ["host0_gpu0", "host0_gpu1", "host1_gpu0", "host1_gpu1"],
            ["a/local_rank0", "a/local_rank1", "b/local_rank0", "b/local_rank1"],
        ] {
            assert_eq!(ranks_by_name(&names), RanksByName::Repeated, "{names:?}");
        }
        // A repeated rank of the job is an earlier file of that rank.
        let steps = ["step_1/rank0", "step_1/rank1", "step_2/rank0", "step_2/rank1"];
        assert_eq!(ranks_by_name(&steps), RanksByName::Known(vec![0, 1, 0, 1]));
        assert_eq!([unique_ranks(&steps), unique_ranks(&steps[..2])], [None, Some(vec![0, 1])]);
    }

    #[test]
    fn common_folders_are_not_ranks() {
        let names = ["/runs/rank8/gpu0.pickle", "/runs/rank8/gpu1.pickle"];
        assert_eq!(ranks_by_name(&names), RanksByName::Known(vec![0, 1]));
        assert_eq!(ranks_by_name(&["rank0.pickle"]), RanksByName::Unknown);
    }
}
