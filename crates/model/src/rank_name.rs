//! Detection of rank numbers in file names.

/// Rank (or worker, or GPU) number in a file name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RankInName {
    /// The number.
    pub number: i64,
    /// True if it numbers the GPUs of a host, so that another host may have it, too.
    pub is_local: bool,
}

impl RankInName {
    /// Find the rank in a file name: `rank3_snapshot.pickle`, `step_10/rank-3.pickle`, `local_rank=1.pickle`. Of
    /// several the last one; ranks of the job take precedence over those of a host.
    #[must_use]
    pub fn of_rank(name: &str) -> Option<Self> {
        Self::by_words(name, &[("rank", false)])
    }

    /// Find the rank in a file name; without one, the number of the worker, or of the GPU of a host:
    /// `snapshot_gpu1.pickle`.
    #[must_use]
    pub fn of_rank_or_gpu(name: &str) -> Option<Self> {
        Self::by_words(name, &[("rank", false), ("worker", false), ("gpu", true), ("device", true)])
    }

    /// Find a number after one of these words in a file name. The flag of a word is true for numbers of a host.
    fn by_words(name: &str, words: &[(&str, bool)]) -> Option<Self> {
        let name = name.to_ascii_lowercase();
        let number = |at: usize, (word, is_of_host): (&str, bool)| {
            let (before, rest) = (&name[..at], name[at + word.len()..].trim_start_matches(['_', '-', '=', '.', ' ']));
            let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
            let is_word = !before.ends_with(char::is_alphabetic);
            let is_local = is_of_host || before.trim_end_matches(['_', '-', '.', ' ']).ends_with("local");
            rest[..end].parse().ok().filter(|_| is_word).map(|number| Self { number, is_local })
        };
        let of_word = |&word: &(&str, bool)| -> Vec<Self> {
            name.rmatch_indices(word.0).filter_map(|(at, _)| number(at, word)).collect()
        };
        let all: Vec<Self> = words.iter().flat_map(of_word).collect();
        all.iter().find(|rank| !rank.is_local).or(all.first()).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::RankInName;

    #[test]
    fn ranks_are_read_from_file_names() {
        let parts = |rank: Option<RankInName>| rank.map(|rank| (rank.number, rank.is_local));
        for (name, rank, or_gpu) in [
            ("rank3_memory_snapshot.pickle", Some((3, false)), Some((3, false))),
            ("iteration_10/rank0_memory_snapshot.pickle", Some((0, false)), Some((0, false))),
            ("snapshot-rank-12.pickle.gz", Some((12, false)), Some((12, false))),
            ("host_gpu1.pickle", None, Some((1, true))),
            ("local_rank=7.pickle", Some((7, true)), Some((7, true))),
            ("rank9_local_rank1_gpu1.pickle", Some((9, false)), Some((9, false))),
            ("frank2.pickle", None, None),
            ("snapshot_100.pickle", None, None),
            ("rank.pickle", None, None),
            ("rank99999999999999999999.json", None, None),
        ] {
            assert_eq!(parts(RankInName::of_rank(name)), rank, "{name}");
            assert_eq!(parts(RankInName::of_rank_or_gpu(name)), or_gpu, "{name}");
        }
    }
}
