//! Several files of memory: the ranks of a job beside each other, or a series in time.

use super::compare::{PeakOf, highest_peaks};
use super::int;
use stackline_model::words::bytes as words;
use stackline_model::{MemoryTrace, Table, Unit};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// Owners that a row of a rank names.
const OWNERS: usize = 3;

/// A rank differs from the others if its peak does by more than this, in percent.
const DIFFERS: f64 = 1.0;

/// What is kept of a file: its highest peaks by source line.
#[derive(Clone, Debug)]
pub struct MemorySummary {
    /// The file, by its name below the folder.
    file: String,
    /// When its last call was, in ns since 1970, if its calls have such times.
    end_ns: Option<i64>,
    peaks: BTreeMap<String, PeakOf>,
}

impl MemorySummary {
    /// Of a trace, in which the file is called so.
    pub fn new(file: &str, trace: &MemoryTrace) -> Self {
        // Times since the start of a program tell nothing of several files.
        const YEAR_2001_NS: i64 = 1_000_000_000_000_000_000;
        let end_ns = trace.calls.start_ns.last().copied().filter(|ns| *ns > YEAR_2001_NS);
        Self { file: file.to_owned(), end_ns, peaks: highest_peaks(trace) }
    }

    /// The device with the highest peak.
    fn highest(&self) -> Option<(&String, &PeakOf)> {
        self.peaks.iter().rev().max_by_key(|(_, peak)| peak.bytes)
    }
}

/// What several files are to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrangement {
    /// Ranks of a job: their names have different numbers of ranks, or each file has a device of its own.
    Ranks,
    /// The same program at several times.
    Times,
}

/// Several files of memory.
#[derive(Clone, Debug)]
pub struct SeveralMemories {
    arrangement: Arrangement,
    /// By rank, or by time.
    files: Vec<(i64, MemorySummary)>,
    /// Files of ranks of which later ones are shown.
    left_out: usize,
}

impl SeveralMemories {
    /// Arranges files: by ranks if these can be told, otherwise by time, or by the numbers in their names where they have no times.
    pub fn new(mut files: Vec<MemorySummary>) -> Self {
        let have_times = files.iter().all(|file| file.end_ns.is_some());
        files.sort_by_cached_key(|file| (file.end_ns.filter(|_| have_times), natural(&file.file)));
        let Some(ranks) = ranks(&files) else {
            let files = (0i64..).zip(files).collect();
            return Self { arrangement: Arrangement::Times, files, left_out: 0 };
        };
        let all = files.len();
        // Of a rank the last one.
        let of_ranks: BTreeMap<i64, MemorySummary> = ranks.into_iter().zip(files).collect();
        let left_out = all - of_ranks.len();
        Self { arrangement: Arrangement::Ranks, files: of_ranks.into_iter().collect(), left_out }
    }

    /// What the files are to each other.
    pub fn arrangement(&self) -> Arrangement {
        self.arrangement
    }

    /// The file of a rank.
    ///
    /// # Errors
    /// The ranks that there are, if it is none of them; nothing if files are no ranks.
    pub fn file_of_rank(&self, rank: i64) -> Result<&str, Vec<i64>> {
        let known = || self.files.iter().map(|(rank, _)| *rank).collect();
        match (self.arrangement, self.files.iter().find(|(known, _)| *known == rank)) {
            (Arrangement::Ranks, Some((_, file))) => Ok(&file.file),
            (Arrangement::Ranks, None) => Err(known()),
            (Arrangement::Times, _) => Err(Vec::new()),
        }
    }

    /// The files to look at next: that of the rank that differs most, or the first and the last one in time.
    pub fn to_look_at(&self) -> Vec<&str> {
        let name = |at: usize| self.files.get(at).map(|(_, file)| &*file.file);
        let files = match self.arrangement {
            Arrangement::Ranks => vec![self.odd_one().map_or(0, |(at, _)| at)],
            Arrangement::Times => vec![0, self.files.len().saturating_sub(1)],
        };
        files.into_iter().filter_map(name).collect()
    }

    /// What the folder holds and what is found in it, as sentences.
    pub fn sentences(&self) -> Vec<String> {
        match self.arrangement {
            Arrangement::Ranks => self.sentences_of_ranks(),
            Arrangement::Times => self.sentences_of_times(),
        }
    }

    /// The tables: of ranks their peaks and owners, and how the one that differs most does; of times the peaks, and growth by source line.
    pub fn tables(&self) -> Vec<Table> {
        match self.arrangement {
            Arrangement::Ranks => [Some(self.ranks_table()), self.difference_table()].into_iter().flatten().collect(),
            Arrangement::Times => vec![self.series_table(), self.growth_table()],
        }
    }

    /// The position of the rank that differs most from the median peak, and how much, in percent; none if it is next to nothing.
    fn odd_one(&self) -> Option<(usize, f64)> {
        let median = self.median()? as f64;
        let differs = |(_, file): &(i64, MemorySummary)| {
            let bytes = file.highest().map_or(0, |(_, peak)| peak.bytes);
            100.0 * (bytes as f64 - median) / median
        };
        let all = self.files.iter().map(differs).enumerate();
        let odd = all.rev().max_by(|a, b| a.1.abs().total_cmp(&b.1.abs()))?;
        (odd.1.abs() >= DIFFERS).then_some(odd)
    }

    /// The median of the highest peaks, the lower one of two; none if that is nothing.
    fn median(&self) -> Option<u64> {
        median(self.files.iter().map(|(_, file)| file.highest().map_or(0, |(_, peak)| peak.bytes))).filter(|m| *m > 0)
    }

    fn sentences_of_ranks(&self) -> Vec<String> {
        let median = self.median().unwrap_or(0);
        let mut said =
            vec![format!("{} ranks of a job, a file each; the median peak is {}.", self.files.len(), words(median))];
        said.push(match self.odd_one() {
            Some((at, percent)) => {
                let (rank, file) = &self.files[at];
                let bytes = file.highest().map_or(0, |(_, peak)| peak.bytes);
                let most = self.differences(at).into_iter().next().filter(|(_, own, usual)| own != usual);
                let most = most.map_or_else(String::new, |(place, own, usual)| {
                    format!("; most of the difference: {place}, {} beside {}", words(own), words(usual))
                });
                format!("Rank {rank} differs most: its peak is {} ({percent:+.1} %){most}.", words(bytes))
            }
            None => format!("No rank's peak differs from it by {DIFFERS:.0} % or more."),
        });
        if self.left_out > 0 {
            said.push(format!(
                "Of ranks with several files the last one is shown ({} left out); give the files of one rank to see them over time.",
                self.left_out
            ));
        }
        said
    }

    fn ranks_table(&self) -> Table {
        let rows: Vec<_> = self.files.iter().map(|(rank, file)| (*rank, file, file.highest())).collect();
        let median = self.median();
        let percent = |peak: &PeakOf| Some(100.0 * (peak.bytes as f64 / median? as f64 - 1.0));
        let owners = |peak: &PeakOf| {
            let mut places: Vec<(&String, u64)> = peak.places.iter().map(|(place, sum)| (place, sum.0)).collect();
            places.sort_by_key(|(place, bytes)| (Reverse(*bytes), *place));
            let named = places.into_iter().take(OWNERS).map(|(place, bytes)| format!("{place} {}", words(bytes)));
            named.collect::<Vec<_>>().join(", ")
        };
        Table::new("memory_ranks", "Highest peak of each rank, and who holds it")
            .i64("rank", Unit::None, rows.iter().map(|(rank, ..)| *rank))
            .i64("bytes", Unit::Bytes, rows.iter().map(|(.., highest)| highest.map(|(_, peak)| int(peak.bytes))))
            .f64("beside_median", Unit::Percent, rows.iter().map(|(.., highest)| highest.and_then(|(_, p)| percent(p))))
            .text("owners", rows.iter().map(|(.., highest)| highest.map(|(_, peak)| owners(peak))))
            .text("device", rows.iter().map(|(.., highest)| highest.map(|(device, _)| device.clone())))
            .text("file", rows.iter().map(|(_, file, _)| Some(file.file.clone())))
            .note("bytes: those asked for, at the highest peak. beside_median: how much more than the median of the ranks.")
    }

    /// By source line what a rank holds at its peak, and the median of the others; largest difference first.
    fn differences(&self, at: usize) -> Vec<(String, u64, u64)> {
        let places = |file: &MemorySummary| file.highest().map(|(_, peak)| peak.places.clone()).unwrap_or_default();
        let own = places(&self.files[at].1);
        let others: Vec<_> = self
            .files
            .iter()
            .enumerate()
            .filter(|(other, _)| *other != at)
            .map(|(_, (_, file))| places(file))
            .collect();
        let names: BTreeSet<&String> = others.iter().chain([&own]).flat_map(BTreeMap::keys).collect();
        let bytes = |of: &BTreeMap<String, (u64, u64)>, place: &String| of.get(place).map_or(0, |sum| sum.0);
        let row = |place: &String| {
            let usual = median(others.iter().map(|other| bytes(other, place))).unwrap_or(0);
            (place.clone(), bytes(&own, place), usual)
        };
        let mut rows: Vec<_> = names.into_iter().map(row).filter(|(_, own, usual)| own != usual).collect();
        rows.sort_by_key(|(place, own, usual)| (Reverse(own.abs_diff(*usual)), place.clone()));
        rows
    }

    fn difference_table(&self) -> Option<Table> {
        let (at, _) = self.odd_one()?;
        let (rank, rows) = (self.files[at].0, self.differences(at));
        let title = format!("Rank {rank} beside the median of the other ranks, by source line");
        Some(
            Table::new("memory_rank_difference", &title)
                .text("place", rows.iter().map(|row| Some(row.0.clone())))
                .i64("change", Unit::Bytes, rows.iter().map(|row| int(row.1).saturating_sub(int(row.2))))
                .i64("bytes", Unit::Bytes, rows.iter().map(|row| int(row.1)))
                .i64("usual_bytes", Unit::Bytes, rows.iter().map(|row| int(row.2))),
        )
    }

    fn sentences_of_times(&self) -> Vec<String> {
        let count = self.files.len();
        let highest =
            |at: Option<&(i64, MemorySummary)>| at.and_then(|(_, file)| file.highest()).map_or(0, |(_, p)| p.bytes);
        let (first, last) = (highest(self.files.first()), highest(self.files.last()));
        let sign = if last < first { "-" } else { "+" };
        let mut said = vec![format!(
            "{count} files of memory as a series in time: the highest peak is {} in the first and {} in the last one ({sign}{}).",
            words(first),
            words(last),
            words(last.abs_diff(first))
        )];
        if let Some(row) = self.growth().into_iter().find(|row| row.change() > 0) {
            said.push(format!(
                "Most growth: {}, {} to {}; it grows in {} of {} steps from file to file.",
                row.place,
                words(row.first()),
                words(row.last()),
                row.grows(),
                count - 1
            ));
        }
        said
    }

    fn series_table(&self) -> Table {
        let bytes: Vec<u64> =
            self.files.iter().map(|(_, file)| file.highest().map_or(0, |(_, peak)| peak.bytes)).collect();
        let change = |at: usize| at.checked_sub(1).map(|before| int(bytes[at]).saturating_sub(int(bytes[before])));
        Table::new("memory_series", "Highest peak of each file, in the order of time")
            .text("file", self.files.iter().map(|(_, file)| Some(file.file.clone())))
            .i64("bytes", Unit::Bytes, bytes.iter().map(|bytes| int(*bytes)))
            .i64("change", Unit::Bytes, (0..bytes.len()).map(change))
            .text("device", self.files.iter().map(|(_, file)| file.highest().map(|(device, _)| device.clone())))
            .note("bytes: those asked for, at the highest peak.")
    }

    /// What each line holds at the highest peak of each file, in order, largest growth first.
    fn growth(&self) -> Vec<Growth> {
        let peaks: Vec<&PeakOf> =
            self.files.iter().filter_map(|(_, file)| file.highest()).map(|(_, peak)| peak).collect();
        let places: BTreeSet<&String> = peaks.iter().flat_map(|peak| peak.places.keys()).collect();
        let of = |place: &String| Growth {
            place: place.clone(),
            bytes: peaks.iter().map(|peak| peak.places.get(place).map_or(0, |sum| sum.0)).collect(),
        };
        let mut rows: Vec<Growth> = places.into_iter().map(of).filter(|row| row.first() != row.last()).collect();
        rows.sort_by_key(|row| (Reverse(row.change()), row.place.clone()));
        rows
    }

    fn growth_table(&self) -> Table {
        let rows = self.growth();
        Table::new("memory_growth", "Growth from the first file to the last one, by source line")
            .text("place", rows.iter().map(|row| Some(row.place.clone())))
            .i64("change", Unit::Bytes, rows.iter().map(Growth::change))
            .i64("first_bytes", Unit::Bytes, rows.iter().map(|row| int(row.first())))
            .i64("last_bytes", Unit::Bytes, rows.iter().map(|row| int(row.last())))
            .i64("grows", Unit::None, rows.iter().map(|row| int(row.grows() as u64)))
            .note("grows: in how many steps from a file to the next one the line holds more at the highest peak.")
    }
}

/// What a line holds at the highest peaks of files.
struct Growth {
    place: String,
    bytes: Vec<u64>,
}

impl Growth {
    fn first(&self) -> u64 {
        self.bytes.first().copied().unwrap_or(0)
    }

    fn last(&self) -> u64 {
        self.bytes.last().copied().unwrap_or(0)
    }

    fn change(&self) -> i64 {
        int(self.last()).saturating_sub(int(self.first()))
    }

    fn grows(&self) -> usize {
        self.bytes.windows(2).filter(|two| two[1] > two[0]).count()
    }
}

/// The middle one, the lower one of two.
fn median(values: impl Iterator<Item = u64>) -> Option<u64> {
    let mut sorted: Vec<u64> = values.collect();
    sorted.sort_unstable();
    sorted.get(sorted.len().checked_sub(1)? / 2).copied()
}

/// The rank of each file: by the numbers in their names, if there are at least two different ones; or by their devices, if each file has
/// one alone and no two the same.
fn ranks(files: &[MemorySummary]) -> Option<Vec<i64>> {
    let distinct = |ranks: &[i64]| ranks.iter().collect::<BTreeSet<_>>().len();
    let by_name: Option<Vec<i64>> = files.iter().map(|file| rank_in(&file.file)).collect();
    if let Some(ranks) = by_name.filter(|ranks| distinct(ranks) > 1) {
        return Some(ranks);
    }
    let device = |file: &MemorySummary| match file.peaks.keys().collect::<Vec<_>>()[..] {
        [only] => only.rsplit_once(':').and_then(|(_, number)| number.parse().ok()),
        _ => None,
    };
    let by_device: Option<Vec<i64>> = files.iter().map(device).collect();
    by_device.filter(|ranks| ranks.len() > 1 && distinct(ranks) == ranks.len())
}

/// The number of the rank in a file's name: `rank3_snapshot.pickle`, `step_10/rank-3.pickle`, `snapshot_gpu1.pickle`.
fn rank_in(file: &str) -> Option<i64> {
    const WORDS: [&str; 4] = ["rank", "worker", "gpu", "device"];
    let name = file.to_ascii_lowercase();
    WORDS.iter().find_map(|word| {
        let (at, _) = name.rmatch_indices(word).find(|(at, _)| !name[..*at].ends_with(|c: char| c.is_alphabetic()))?;
        let rest = name[at + word.len()..].trim_start_matches(['_', '-', '=', '.', ' ']);
        let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        rest[..end].parse().ok()
    })
}

/// A name in parts that are compared as people order them: numbers by their values.
fn natural(name: &str) -> Vec<(String, u64)> {
    let mut parts = vec![(String::new(), 0)];
    let mut digits = String::new();
    for c in name.chars().chain(['\0']) {
        if c.is_ascii_digit() {
            digits.push(c);
            continue;
        }
        if !digits.is_empty() {
            if let Some(last) = parts.last_mut() {
                last.1 = std::mem::take(&mut digits).parse().unwrap_or(u64::MAX);
            }
            parts.push((String::new(), 0));
        }
        if let Some(last) = parts.last_mut() {
            last.0.push(c);
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::{natural, rank_in};

    #[test]
    fn names_of_files_tell_ranks() {
        for (name, rank) in [
            ("rank3_memory_snapshot.pickle", Some(3)),
            ("iteration_10/rank0_memory_snapshot.pickle", Some(0)),
            ("snapshot-rank-12.pickle.gz", Some(12)),
            ("host_gpu1.pickle", Some(1)),
            ("local_rank=7.pickle", Some(7)),
            ("frank2.pickle", None),
            ("snapshot_100.pickle", None),
            ("rank.pickle", None),
        ] {
            assert_eq!(rank_in(name), rank, "{name}");
        }
    }

    #[test]
    fn numbers_in_names_are_compared_as_numbers() {
        let mut names = ["step_100.pickle", "step_20.pickle", "step_3.pickle"];
        names.sort_by_key(|name| natural(name));
        assert_eq!(names, ["step_3.pickle", "step_20.pickle", "step_100.pickle"]);
    }
}
