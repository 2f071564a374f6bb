//! Several memory files: comparison of the ranks of a job, or a series in time.

use super::compare::{HighestPeak, highest_peaks};
use super::int;
use super::rank_names::{RanksByName, distinct, ranks_by_name};
use stackline_model::format::bytes as words;
use stackline_model::{MemoryTrace, Table, Unit};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

/// Maximum number of named files without allocations.
const NAMED: usize = 3;

/// Maximum number of owners in a row of a rank.
const MAX_OWNERS: usize = 3;

/// Least difference of a rank's peak from the median, in percent.
const MIN_DIFFERENCE_PERCENT: f64 = 1.0;

/// File of a memory trace, and the trace's position in it if the file is an archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemorySource {
    /// The file or archive.
    pub path: PathBuf,
    /// Position among the memory traces of an archive; none for a file with a single trace.
    pub member: Option<usize>,
}

/// Summary of a memory file: highest peaks by source line.
#[derive(Clone, Debug)]
pub struct MemorySummary {
    source: MemorySource,
    /// Name of the file below the folder.
    file: String,
    /// Time of the last call, in ns since 1970, if calls have such times.
    end_ns: Option<i64>,
    peaks: BTreeMap<String, HighestPeak>,
}

impl MemorySummary {
    /// Summarize a trace of this source and file name.
    pub fn new(source: MemorySource, file: &str, trace: &MemoryTrace) -> Self {
        // Times since the start of a program do not order several files.
        const YEAR_2001_NS: i64 = 1_000_000_000_000_000_000;
        let end_ns = trace.calls.start_ns.last().copied().filter(|ns| *ns > YEAR_2001_NS);
        Self { source, file: file.to_owned(), end_ns, peaks: highest_peaks(trace) }
    }

    /// Name and peak of the device with the highest memory peak; `None` without allocations.
    fn highest(&self) -> Option<(&String, &HighestPeak)> {
        self.peaks.iter().rev().max_by_key(|(_, peak)| peak.bytes)
    }

    /// Bytes of the highest peak of a file; `None` without allocations.
    fn bytes(&self) -> Option<u64> {
        self.highest().map(|(_, peak)| peak.bytes)
    }
}

/// Relation of several memory files: ranks of a job, or one program at several times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrangement {
    /// Ranks of a job: different numbers in the names, or one separate device per file.
    Ranks,
    /// One program at several times.
    Times,
}

/// Summaries of several memory files, ordered by rank or time.
#[derive(Clone, Debug)]
pub struct SeveralMemories {
    arrangement: Arrangement,
    /// Files by rank or time, with the rank if known.
    files: Vec<(Option<i64>, MemorySummary)>,
    /// Number of files of ranks that have later files.
    left_out: usize,
}

impl SeveralMemories {
    /// Arrange memory files by rank if known, else by time, or by the numbers in their names without times. Files with
    /// repeated GPU numbers have a row each.
    pub fn new(mut files: Vec<MemorySummary>) -> Self {
        let have_times = files.iter().all(|file| file.end_ns.is_some());
        files.sort_by_cached_key(|file| (file.end_ns.filter(|_| have_times), natural_sort_key(&file.file)));
        let all = files.len();
        let (arrangement, files) = match ranks(&files) {
            RanksByName::Unknown => (Arrangement::Times, without_ranks(files)),
            RanksByName::Repeated => (Arrangement::Ranks, without_ranks(files)),
            RanksByName::Known(ranks) => {
                // The last file of a rank remains.
                let of_ranks: BTreeMap<i64, MemorySummary> = ranks.into_iter().zip(files).collect();
                let files = of_ranks.into_iter().map(|(rank, file)| (Some(rank), file)).collect();
                (Arrangement::Ranks, files)
            }
        };
        let left_out = all - files.len();
        Self { arrangement, files, left_out }
    }

    /// Arrangement of several memory files: as ranks of a job, or as a series in time.
    pub fn arrangement(&self) -> Arrangement {
        self.arrangement
    }

    /// Memory file of a rank of the job.
    ///
    /// # Errors
    /// The existing ranks, if it is none of them; an empty list if no rank is known.
    pub fn file_of_rank(&self, rank: i64) -> Result<&MemorySource, Vec<i64>> {
        let file = self.files.iter().find(|(known, _)| *known == Some(rank));
        file.map(|(_, file)| &file.source).ok_or_else(|| self.files.iter().filter_map(|(rank, _)| *rank).collect())
    }

    /// Files to open next, with their ranks if known: the rank that differs most, or the first and last file in time.
    pub fn suggested_files(&self) -> Vec<(Option<i64>, &MemorySource)> {
        let mut files = match self.arrangement {
            Arrangement::Ranks => vec![self.outlier().map_or(0, |(at, _)| at)],
            Arrangement::Times => {
                let mut with_peak = (0..self.files.len()).filter(|at| self.files[*at].1.bytes().is_some());
                [with_peak.next(), with_peak.next_back()].into_iter().flatten().collect()
            }
        };
        if files.is_empty() {
            files.push(0);
        }
        files.into_iter().filter_map(|at| self.files.get(at)).map(|(rank, file)| (*rank, &file.source)).collect()
    }

    /// Summary of several memory files in sentences.
    pub fn sentences(&self) -> Vec<String> {
        match self.arrangement {
            Arrangement::Ranks => self.sentences_of_ranks(),
            Arrangement::Times => self.sentences_of_times(),
        }
    }

    /// Tables of several memory files. For ranks: peaks with owners, and the differences of the rank that differs most.
    /// For times: peaks, and growth by source line.
    pub fn tables(&self) -> Vec<Table> {
        match self.arrangement {
            Arrangement::Ranks => [Some(self.ranks_table()), self.difference_table()].into_iter().flatten().collect(),
            Arrangement::Times => vec![self.series_table(), self.growth_table()],
        }
    }

    /// Index of the rank that differs most from the median peak, and its difference in percent; none below
    /// [`MIN_DIFFERENCE_PERCENT`].
    fn outlier(&self) -> Option<(usize, f64)> {
        let median = self.median()? as f64;
        let differs = |(at, (_, file)): (usize, &(Option<i64>, MemorySummary))| {
            Some((at, 100.0 * (file.bytes()? as f64 - median) / median))
        };
        let odd =
            self.files.iter().enumerate().rev().filter_map(differs).max_by(|a, b| a.1.abs().total_cmp(&b.1.abs()))?;
        (odd.1.abs() >= MIN_DIFFERENCE_PERCENT).then_some(odd)
    }

    /// Median of the highest peaks (the lower one of two); none if it is 0.
    fn median(&self) -> Option<u64> {
        median(self.files.iter().filter_map(|(_, file)| file.bytes())).filter(|bytes| *bytes > 0)
    }

    /// True if each file is known to belong to a different rank of a job.
    fn knows_ranks(&self) -> bool {
        self.files.iter().all(|(rank, _)| rank.is_some())
    }

    /// Sentences on files of ranks: median peak, the rank that differs most, and files left out.
    fn sentences_of_ranks(&self) -> Vec<String> {
        let (count, median) = (self.files.len(), words(self.median().unwrap_or(0)));
        let mut sentences = vec![if self.knows_ranks() {
            format!("The files are {count} ranks of one job, one file each. The median peak is {median}.")
        } else {
            format!(
                "The table has one row for each of {count} memory files. Their GPU numbers are not ranks, because file \
                 names repeat a number (several hosts or times). The median peak is {median}."
            )
        }];
        sentences.push(match (self.outlier(), self.knows_ranks()) {
            (Some((at, percent)), _) => self.outlier_sentence(at, percent),
            (None, true) => {
                format!("The peak of no rank differs from the median by {MIN_DIFFERENCE_PERCENT:.0} % or more.")
            }
            (None, false) => {
                format!("The peak of no file differs from the median by {MIN_DIFFERENCE_PERCENT:.0} % or more.")
            }
        });
        sentences.extend(self.sentence_of_empty_files());
        if self.left_out > 0 {
            sentences.push(format!(
                "Only the last file of each rank is shown ({} left out). Pass the files of one rank to \
                 see its memory over time.",
                self.left_out
            ));
        }
        sentences
    }

    /// Sentence on the file at an index whose peak differs from the median, with the source line of the largest
    /// difference.
    fn outlier_sentence(&self, at: usize, percent: f64) -> String {
        let bytes = self.files[at].1.bytes().unwrap_or(0);
        let most = self.differences(at).into_iter().next().filter(|(_, own, usual)| own != usual);
        let (name, peak) = (self.name(at), words(bytes));
        match most {
            None => format!("{name} differs most from the median: its peak is {peak} ({percent:+.1} %)."),
            Some((place, own, usual)) => format!(
                "{name} differs most from the median: its peak is {peak} ({percent:+.1} %). The source line with the \
                 largest difference is {place}: {} instead of {}.",
                words(own),
                words(usual)
            ),
        }
    }

    /// Displayed name of the file at an index: its rank, or its file name.
    fn name(&self, at: usize) -> String {
        let (rank, file) = &self.files[at];
        rank.map_or_else(|| file.file.clone(), |rank| format!("Rank {rank}"))
    }

    /// Sentence on files without allocations, which are not compared; `None` without such files.
    fn sentence_of_empty_files(&self) -> Option<String> {
        let empty = || self.files.iter().filter(|(_, file)| file.bytes().is_none());
        let named: Vec<&str> = empty().take(NAMED).map(|(_, file)| &*file.file).collect();
        let count = empty().count();
        let more = if count > named.len() { format!(" and {} more", count - named.len()) } else { String::new() };
        (count > 0).then(|| format!("Files without allocations were not compared: {}{more}.", named.join(", ")))
    }

    /// Table of the highest peak of each rank or file, its difference from the median, and the lines that own most of
    /// it.
    fn ranks_table(&self) -> Table {
        let rows: Vec<_> = self.files.iter().map(|(rank, file)| (*rank, file, file.highest())).collect();
        let median = self.median();
        let percent = |peak: &HighestPeak| Some(100.0 * (peak.bytes as f64 / median? as f64 - 1.0));
        let owners = |peak: &HighestPeak| {
            let mut places: Vec<(&String, u64)> = peak.places.iter().map(|(place, sum)| (place, sum.0)).collect();
            places.sort_by_key(|(place, bytes)| (Reverse(*bytes), *place));
            let named = places.into_iter().take(MAX_OWNERS).map(|(place, bytes)| format!("{place} {}", words(bytes)));
            named.collect::<Vec<_>>().join(", ")
        };
        let (title, note) = if self.knows_ranks() {
            (
                "Highest memory peak of each rank, and the source lines that allocated most of it",
                "Column bytes: requested bytes at the highest peak. Column difference_to_median: difference \
                 of the peak from the median of all ranks.",
            )
        } else {
            (
                "Highest memory peak of each file, and the source lines that allocated most of it",
                "Column bytes: requested bytes at the highest peak. Column difference_to_median: difference \
                 of the peak from the median of all files.",
            )
        };
        Table::new("memory_ranks", title)
            .i64("rank", Unit::None, rows.iter().map(|(rank, ..)| *rank))
            .i64("bytes", Unit::Bytes, rows.iter().map(|(.., highest)| highest.map(|(_, peak)| int(peak.bytes))))
            .f64(
                "difference_to_median",
                Unit::Percent,
                rows.iter().map(|(.., highest)| highest.and_then(|(_, p)| percent(p))),
            )
            .text("owners", rows.iter().map(|(.., highest)| highest.map(|(_, peak)| owners(peak))))
            .text("device", rows.iter().map(|(.., highest)| highest.map(|(device, _)| device.clone())))
            .text("file", rows.iter().map(|(_, file, _)| Some(file.file.clone())))
            .note(note)
    }

    /// Lines whose bytes at the peak of one rank differ from the median of the other ranks, largest difference first.
    /// Each row has the line, its bytes, and the median.
    fn differences(&self, at: usize) -> Vec<(String, u64, u64)> {
        let places = |file: &MemorySummary| file.highest().map(|(_, peak)| peak.places.clone()).unwrap_or_default();
        let own = places(&self.files[at].1);
        let others: Vec<_> = self
            .files
            .iter()
            .enumerate()
            .filter(|(other, (_, file))| *other != at && file.bytes().is_some())
            .map(|(_, (_, file))| places(file))
            .collect();
        let names: BTreeSet<&String> = others.iter().chain([&own]).flat_map(BTreeMap::keys).collect();
        let bytes = |sums: &BTreeMap<String, (u64, u64)>, place: &String| sums.get(place).map_or(0, |sum| sum.0);
        let row = |place: &String| {
            let usual = median(others.iter().map(|other| bytes(other, place))).unwrap_or(0);
            (place.clone(), bytes(&own, place), usual)
        };
        let mut rows: Vec<_> = names.into_iter().map(row).filter(|(_, own, usual)| own != usual).collect();
        rows.sort_by_key(|(place, own, usual)| (Reverse(own.abs_diff(*usual)), place.clone()));
        rows
    }

    /// Table of the lines of the rank that differs most, compared with the median of the others; `None` without such a
    /// rank.
    fn difference_table(&self) -> Option<Table> {
        let (at, _) = self.outlier()?;
        let (name, rows) = (self.name(at), self.differences(at));
        let title = match self.knows_ranks() {
            true => format!("Memory of {name} by source line, compared with the median of the other ranks"),
            false => format!("Memory of {name} by source line, compared with the median of the other files"),
        };
        Some(
            Table::new("memory_rank_difference", &title)
                .text("place", rows.iter().map(|row| Some(row.0.clone())))
                .i64("change", Unit::Bytes, rows.iter().map(|row| int(row.1).saturating_sub(int(row.2))))
                .i64("bytes", Unit::Bytes, rows.iter().map(|row| int(row.1)))
                .i64("usual_bytes", Unit::Bytes, rows.iter().map(|row| int(row.2))),
        )
    }

    /// Sentences on files in time order: first and last peak, and the source line that grew most.
    fn sentences_of_times(&self) -> Vec<String> {
        let peaks: Vec<u64> = self.files.iter().filter_map(|(_, file)| file.bytes()).collect();
        let mut sentences = Vec::new();
        if let [only] = &peaks[..] {
            sentences.push(format!(
                "Only 1 of {} memory files contains allocations. Its highest peak is {}.",
                self.files.len(),
                words(*only)
            ));
        }
        if let [first, .., last] = &peaks[..] {
            let sign = if last < first { "-" } else { "+" };
            sentences.push(format!(
                "{} memory files in time order: the highest peak is {} in the first and {} in the last ({sign}{}).",
                peaks.len(),
                words(*first),
                words(*last),
                words(last.abs_diff(*first))
            ));
        }
        sentences.extend(self.sentence_of_empty_files());
        let grows = self.growth().into_iter().find(|row| peaks.len() > 1 && row.change() > 0);
        if let Some(row) = grows {
            sentences.push(format!(
                "The memory of source line {} grew most, from {} to {}. The memory of this line grew in {} of the {} \
                    intervals between files.",
                row.place,
                words(row.first()),
                words(row.last()),
                row.grows(),
                peaks.len() - 1
            ));
        }
        sentences
    }

    /// Table of the highest peak of each file in time order, with its change since the previous file.
    fn series_table(&self) -> Table {
        let bytes: Vec<Option<i64>> = self.files.iter().map(|(_, file)| file.bytes().map(int)).collect();
        let change = |at: usize| {
            let before = bytes[..at].iter().rev().copied().flatten().next()?;
            Some(bytes[at]?.saturating_sub(before))
        };
        Table::new("memory_series", "Highest memory peak of each file, in time order")
            .text("file", self.files.iter().map(|(_, file)| Some(file.file.clone())))
            .i64("bytes", Unit::Bytes, bytes.iter().copied())
            .i64("change", Unit::Bytes, (0..bytes.len()).map(change))
            .text("device", self.files.iter().map(|(_, file)| file.highest().map(|(device, _)| device.clone())))
            .note("Column bytes: requested bytes at the highest peak.")
    }

    /// Growth of memory per source line over the files: bytes at the highest peak of each file. Largest growth first.
    fn growth(&self) -> Vec<Growth> {
        let peaks: Vec<&HighestPeak> =
            self.files.iter().filter_map(|(_, file)| file.highest()).map(|(_, peak)| peak).collect();
        let places: BTreeSet<&String> = peaks.iter().flat_map(|peak| peak.places.keys()).collect();
        let growth_of = |place: &String| Growth {
            place: place.clone(),
            bytes: peaks.iter().map(|peak| peak.places.get(place).map_or(0, |sum| sum.0)).collect(),
        };
        let mut rows: Vec<Growth> = places.into_iter().map(growth_of).filter(|row| row.first() != row.last()).collect();
        rows.sort_by_key(|row| (Reverse(row.change()), row.place.clone()));
        rows
    }

    /// Table of the source lines whose bytes at the highest peak differ between the first and the last file.
    fn growth_table(&self) -> Table {
        let rows = self.growth();
        Table::new("memory_growth", "Growth of the highest memory peak from the first to the last file, by source line")
            .text("place", rows.iter().map(|row| Some(row.place.clone())))
            .i64("change", Unit::Bytes, rows.iter().map(Growth::change))
            .i64("first_bytes", Unit::Bytes, rows.iter().map(|row| int(row.first())))
            .i64("last_bytes", Unit::Bytes, rows.iter().map(|row| int(row.last())))
            .i64("grows", Unit::None, rows.iter().map(|row| int(row.grows() as u64)))
            .note(
                "Column grows: number of files in which the line owns more bytes at the highest peak than in the \
                 previous file.",
            )
    }
}

/// Bytes of a line at the highest peaks of the files.
struct Growth {
    place: String,
    bytes: Vec<u64>,
}

impl Growth {
    /// Bytes of the line in the first file.
    fn first(&self) -> u64 {
        self.bytes.first().copied().unwrap_or(0)
    }

    /// Bytes of the line in the last file.
    fn last(&self) -> u64 {
        self.bytes.last().copied().unwrap_or(0)
    }

    /// Growth of the line from the first to the last file, in bytes.
    fn change(&self) -> i64 {
        int(self.last()).saturating_sub(int(self.first()))
    }

    /// Number of files in which the line has more bytes than in the previous one.
    fn grows(&self) -> usize {
        self.bytes.windows(2).filter(|two| two[1] > two[0]).count()
    }
}

/// Median of sizes, of two middle ones the lower; `None` without sizes.
fn median(values: impl Iterator<Item = u64>) -> Option<u64> {
    let mut sorted: Vec<u64> = values.collect();
    sorted.sort_unstable();
    sorted.get(sorted.len().checked_sub(1)? / 2).copied()
}

/// Files without ranks, in the same order.
fn without_ranks(files: Vec<MemorySummary>) -> Vec<(Option<i64>, MemorySummary)> {
    files.into_iter().map(|file| (None, file)).collect()
}

/// Rank of each file: from at least two different numbers in their names; else from their devices, if each file has a
/// single one and no two are the same.
fn ranks(files: &[MemorySummary]) -> RanksByName {
    let names: Vec<&str> = files.iter().map(|file| &*file.file).collect();
    let by_name = ranks_by_name(&names);
    if by_name != RanksByName::Unknown {
        return by_name;
    }
    let device = |file: &MemorySummary| match file.peaks.keys().collect::<Vec<_>>()[..] {
        [only] => only.rsplit_once(':').and_then(|(_, number)| number.parse().ok()),
        _ => None,
    };
    match files.iter().map(device).collect::<Option<Vec<i64>>>() {
        Some(ranks) if ranks.len() > 1 && distinct(&ranks) == ranks.len() => RanksByName::Known(ranks),
        _ => RanksByName::Unknown,
    }
}

/// Name in parts for natural sorting: numbers compare by value.
fn natural_sort_key(name: &str) -> Vec<(String, u64)> {
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
    use super::natural_sort_key;

    #[test]
    fn numbers_in_names_sort_numerically() {
        let mut names = ["step_100.pickle", "step_20.pickle", "step_3.pickle"];
        names.sort_by_key(|name| natural_sort_key(name));
        assert_eq!(names, ["step_3.pickle", "step_20.pickle", "step_100.pickle"]);
    }
}
