//! Ranks of traces: selection of one rank, and checks that traces belong to one job.

use crate::Error;
use stackline_ingest::diagnostics;
use stackline_model::{Trace, TraceMeta, TraceSet};

/// Rank of each trace: the rank that its file states, if all files state different ones, or else the index of the trace
/// in the set.
pub fn ranks(set: &TraceSet) -> Vec<i64> {
    let named: Option<Vec<i64>> = set.traces.iter().map(|t| t.meta.rank).collect();
    match named {
        Some(named) if is_distinct(&named) => named,
        _ => (0..set.traces.len() as i64).collect(),
    }
}

/// True if no rank occurs twice.
fn is_distinct(ranks: &[i64]) -> bool {
    let mut sorted = ranks.to_vec();
    sorted.sort_unstable();
    sorted.windows(2).all(|w| w[0] != w[1])
}

/// Sentence for a note: the rank in the file of a trace, and the position that is used instead.
fn position_note(trace: &Trace, position: usize) -> String {
    match trace.meta.rank {
        Some(rank) => format!("{} contains rank {rank}, but is treated as rank {position}", trace.meta.name),
        None => format!("{} contains no rank number and is treated as rank {position}", trace.meta.name),
    }
}

/// Add a note to the first trace's read report if the ranks are positions of traces. Runs keep the note.
pub(crate) fn note_positions(set: &mut TraceSet) {
    let numbers = ranks(set);
    let by_position = |(trace, number): (&Trace, &i64)| trace.meta.rank != Some(*number);
    let count = set.traces.iter().zip(&numbers).filter(|&pair| by_position(pair)).count();
    let known = set.traces.iter().any(|t| diagnostics::is_rank_by_position(&t.report));
    if set.traces.len() < 2 || count == 0 || known {
        return;
    }
    let at = set.traces.iter().zip(&numbers).position(by_position).unwrap_or(0);
    let example = position_note(&set.traces[at], at);
    diagnostics::note_rank_by_position(&mut set.traces[0].report, count as u64, &example);
}

/// Index, within a set, of the trace with the wanted rank.
///
/// # Errors
/// If the rank does not exist.
pub fn position_of_rank(set: &TraceSet, requested: i64) -> Result<usize, Error> {
    let mut available = ranks(set);
    available.iter().position(|&rank| rank == requested).ok_or_else(|| {
        available.sort_unstable();
        Error::NoRank { requested, available }
    })
}

/// Keep only the trace of one rank. A trace without a rank in its file gets its index as rank, so that a run made of it
/// keeps it.
pub(crate) fn select_rank(set: TraceSet, requested: i64) -> Result<TraceSet, Error> {
    let at = position_of_rank(&set, requested)?;
    let several = set.traces.len() > 1;
    let mut traces: Vec<Trace> = set.traces.into_iter().nth(at).into_iter().collect();
    for trace in &mut traces {
        if several && trace.meta.rank != Some(requested) && !diagnostics::is_rank_by_position(&trace.report) {
            let example = position_note(trace, at);
            diagnostics::note_rank_by_position(&mut trace.report, 1, &example);
        }
        trace.meta.rank = Some(requested);
    }
    Ok(TraceSet { traces })
}

/// Traces of one job, checked when they are added: each has another rank, and all state the same number of ranks.
#[derive(Clone, Debug, Default)]
pub struct Job(Vec<(String, Option<i64>, Option<i64>)>);

impl Job {
    /// Add a trace to the job, unless its rank or number of ranks contradicts the others.
    ///
    /// # Errors
    /// The reason, if the trace cannot belong to the same job.
    pub fn add(&mut self, meta: &TraceMeta) -> Result<(), String> {
        let (name, rank, size) = (&meta.name, meta.rank, meta.world_size);
        self.0.push((name.clone(), rank, size));
        let [before @ .., _] = self.0.as_slice() else { return Ok(()) };
        if before.is_empty() {
            return Ok(());
        }
        if let Some((nameless, ..)) = self.0.iter().find(|(_, rank, _)| rank.is_none()) {
            return Err(format!("{nameless} has no rank number"));
        }
        if let Some((other, ..)) = before.iter().find(|(_, other, _)| *other == rank) {
            return Err(format!("{other} and {name} are both rank {}", rank.unwrap_or_default()));
        }
        let is_other = |known: &&(String, Option<i64>, Option<i64>)| known.2.zip(size).is_some_and(|(a, b)| a != b);
        match before.iter().find(is_other) {
            Some((other, _, Some(ranks))) => {
                let size = size.unwrap_or_default();
                Err(format!("{other} belongs to a job of {ranks} ranks, but {name} belongs to a job of {size} ranks"))
            }
            _ => Ok(()),
        }
    }

    /// True if there is no trace yet.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Reason why traces cannot be ranks of one job, such as two files with the same rank; `None` if they can. Traces whose
/// files state no rank are ignored.
pub fn rank_conflict<'m>(traces: impl IntoIterator<Item = &'m TraceMeta>) -> Option<String> {
    let mut job = Job::default();
    let mut named = traces.into_iter().filter(|meta| meta.rank.is_some());
    named.find_map(|meta| job.add(meta).err())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(ranks: &[Option<i64>]) -> TraceSet {
        let trace = |&rank: &Option<i64>| {
            let mut trace = Trace::default();
            trace.meta.rank = rank;
            trace
        };
        TraceSet { traces: ranks.iter().map(trace).collect() }
    }

    #[test]
    fn ranks_come_from_names_or_positions() {
        assert_eq!(ranks(&set(&[Some(3), Some(1)])), [3, 1]);
        assert_eq!(ranks(&set(&[Some(3), None])), [0, 1]);
        assert_eq!(ranks(&set(&[Some(3), Some(3)])), [0, 1]);
    }

    #[test]
    fn ranks_by_position_are_noted_once() {
        let note =
            |set: &TraceSet| set.traces.iter().map(|t| t.report.count_of("rank_by_position")).collect::<Vec<_>>();
        let mut twice = set(&[Some(0), Some(0), None]);
        note_positions(&mut twice);
        note_positions(&mut twice);
        assert_eq!(note(&twice), [2, 0, 0], "the first is where it says it is");
        assert!(twice.traces[0].report.problems[0].example.contains("contains rank 0, but is treated as rank 1"));
        for mut sound in [set(&[Some(3), Some(1)]), set(&[None])] {
            note_positions(&mut sound);
            assert!(note(&sound).iter().all(|&n| n == 0));
        }
        let one = select_rank(twice, 2).unwrap();
        assert_eq!((note(&one), one.traces[0].meta.rank), (vec![1], Some(2)));
    }

    #[test]
    fn traces_of_one_job() {
        let meta = |name: &str, rank: Option<i64>, world_size: Option<i64>| TraceMeta {
            name: name.to_owned(),
            rank,
            world_size,
            ..TraceMeta::default()
        };
        let added = |metas: &[TraceMeta]| {
            let mut job = Job::default();
            metas.iter().try_for_each(|meta| job.add(meta))
        };
        assert_eq!(added(&[meta("a", None, None)]), Ok(()), "one alone need not say");
        assert_eq!(
            added(&[meta("a", Some(1), Some(8)), meta("b", Some(0), None), meta("c", Some(2), Some(8))]),
            Ok(())
        );
        let reason = |metas: &[TraceMeta]| added(metas).unwrap_err();
        assert_eq!(reason(&[meta("a", None, None), meta("b", Some(0), None)]), "a has no rank number");
        assert_eq!(reason(&[meta("a", Some(0), None), meta("b", Some(0), None)]), "a and b are both rank 0");
        let sizes = reason(&[meta("a", Some(0), Some(8)), meta("b", Some(1), Some(2))]);
        assert_eq!(sizes, "a belongs to a job of 8 ranks, but b belongs to a job of 2 ranks");
        let (first, second, nameless) = (meta("a", Some(0), None), meta("b", Some(0), None), meta("c", None, None));
        assert_eq!(rank_conflict([&first, &nameless, &second]).as_deref(), Some("a and b are both rank 0"));
        assert_eq!(rank_conflict([&first, &nameless]), None, "c names no rank");
    }

    #[test]
    fn unknown_ranks_list_the_available_ones() {
        let one = select_rank(set(&[Some(3), Some(1)]), 1).unwrap();
        assert_eq!((one.traces.len(), one.traces[0].meta.rank), (1, Some(1)));
        let error = select_rank(set(&[Some(3), Some(1)]), 2).unwrap_err();
        assert!(error.to_string().contains("ranks 1, 3"), "{error}");
    }
}
