//! Ranks by the names of files.

use std::collections::BTreeSet;

/// The ranks that names of files tell.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum RanksByName {
    /// The rank of each file; several files may be of one rank.
    Known(Vec<i64>),
    /// Numbers of GPUs of a host that come more than once: of several hosts, or of several times.
    Repeated,
    /// Not each name has a number, or all have the same one.
    Unknown,
}

/// The rank of each file, if no two files are of the same one.
pub fn unique_ranks(names: &[&str]) -> Option<Vec<i64>> {
    match ranks_by_name(names) {
        RanksByName::Known(ranks) if distinct(&ranks) == ranks.len() => Some(ranks),
        _ => None,
    }
}

/// The ranks that names tell. Folders that all files share tell nothing.
pub(super) fn ranks_by_name(names: &[&str]) -> RanksByName {
    let shared = shared_folder(names);
    let told: Option<Vec<RankInName>> = names.iter().map(|name| rank_in(&name[shared..])).collect();
    let Some(told) = told else { return RanksByName::Unknown };
    let ranks: Vec<i64> = told.iter().map(|rank| rank.number).collect();
    match distinct(&ranks) {
        0 | 1 => RanksByName::Unknown,
        distinct if distinct < ranks.len() && told.iter().any(|rank| rank.is_local) => RanksByName::Repeated,
        _ => RanksByName::Known(ranks),
    }
}

pub(super) fn distinct(ranks: &[i64]) -> usize {
    ranks.iter().collect::<BTreeSet<_>>().len()
}

/// The length of the folder that all of these files are in, its slash included.
fn shared_folder(names: &[&str]) -> usize {
    let Some(first) = names.first().map(|name| name.as_bytes()) else { return 0 };
    let alike = |name: &&str| name.bytes().zip(first).take_while(|(own, of_first)| own == *of_first).count();
    let shared = names.iter().map(alike).min().unwrap_or(0);
    first[..shared].iter().rposition(|byte| *byte == b'/').map_or(0, |slash| slash + 1)
}

/// A number in the name of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct RankInName {
    number: i64,
    /// Whether it is one of a host's GPUs, which another host may have, too.
    is_local: bool,
}

/// The number of the rank in a file's name: `rank3_snapshot.pickle`, `step_10/rank-3.pickle`; else that of a GPU of its host:
/// `snapshot_gpu1.pickle`, `local_rank=1.pickle`.
fn rank_in(file: &str) -> Option<RankInName> {
    const WORDS: [(&str, bool); 4] = [("rank", false), ("worker", false), ("gpu", true), ("device", true)];
    let name = file.to_ascii_lowercase();
    let number = |at: usize, (word, is_of_host): (&str, bool)| {
        let (before, rest) = (&name[..at], name[at + word.len()..].trim_start_matches(['_', '-', '=', '.', ' ']));
        let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let is_word = !before.ends_with(char::is_alphabetic);
        let is_local = is_of_host || before.trim_end_matches(['_', '-', '.', ' ']).ends_with("local");
        rest[..end].parse().ok().filter(|_| is_word).map(|number| RankInName { number, is_local })
    };
    let of_word = |word: (&'static str, bool)| name.rmatch_indices(word.0).filter_map(move |(at, _)| number(at, word));
    let all: Vec<RankInName> = WORDS.into_iter().flat_map(of_word).collect();
    all.iter().find(|rank| !rank.is_local).or(all.first()).copied()
}

#[cfg(test)]
mod tests {
    use super::{RanksByName, rank_in, ranks_by_name, unique_ranks};

    #[test]
    fn names_of_files_tell_ranks() {
        for (name, rank) in [
            ("rank3_memory_snapshot.pickle", Some((3, false))),
            ("iteration_10/rank0_memory_snapshot.pickle", Some((0, false))),
            ("snapshot-rank-12.pickle.gz", Some((12, false))),
            ("host_gpu1.pickle", Some((1, true))),
            ("local_rank=7.pickle", Some((7, true))),
            ("rank9_local_rank1_gpu1.pickle", Some((9, false))),
            ("frank2.pickle", None),
            ("snapshot_100.pickle", None),
            ("rank.pickle", None),
        ] {
            assert_eq!(rank_in(name).map(|rank| (rank.number, rank.is_local)), rank, "{name}");
        }
    }

    #[test]
    fn numbers_of_gpus_are_ranks_of_one_host_alone() {
        assert_eq!(ranks_by_name(&["gpu0.pickle", "gpu1.pickle"]), RanksByName::Known(vec![0, 1]));
        for names in [
            ["host0_gpu0", "host0_gpu1", "host1_gpu0", "host1_gpu1"],
            ["a/local_rank0", "a/local_rank1", "b/local_rank0", "b/local_rank1"],
        ] {
            assert_eq!(ranks_by_name(&names), RanksByName::Repeated, "{names:?}");
        }
        // A rank of the job that comes again is an earlier file of it.
        let steps = ["step_1/rank0", "step_1/rank1", "step_2/rank0", "step_2/rank1"];
        assert_eq!(ranks_by_name(&steps), RanksByName::Known(vec![0, 1, 0, 1]));
        assert_eq!([unique_ranks(&steps), unique_ranks(&steps[..2])], [None, Some(vec![0, 1])]);
    }

    #[test]
    fn folders_of_all_files_are_no_ranks() {
        let names = ["/runs/rank8/gpu0.pickle", "/runs/rank8/gpu1.pickle"];
        assert_eq!(ranks_by_name(&names), RanksByName::Known(vec![0, 1]));
        assert_eq!(ranks_by_name(&["rank0.pickle"]), RanksByName::Unknown);
    }
}
