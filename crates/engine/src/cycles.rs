//! Profiler cycles: successive traces of one process (by a profiler with a schedule) or of one rank (if its worker was
//! restarted). They are not ranks of a job. In a folder or archive, only the newest cycle of a process or rank is kept.

use stackline_ingest::{diagnostics, worker_in_name};
use stackline_model::{Key, ReadReport, Trace, TraceSet, TrackKind};
use std::collections::BTreeMap;

/// Identity of a profiler cycle: process, rank and time window.
#[derive(Clone, Debug)]
pub(crate) struct Cycle {
    name: String,
    rank: Option<i64>,
    /// True if the file contains its rank. A rank in a name may be that of a process within its host, and hosts may
    /// have different clocks.
    contains_rank: bool,
    pid: i64,
    /// First start and last end in ns since the epoch, or in the clock of the file.
    window: (i64, i64),
}

impl Cycle {
    /// Cycle of a trace; `None` without times or without a process number.
    pub(crate) fn from_trace(trace: &Trace) -> Option<Self> {
        let (start, end) = trace.span()?;
        let at = |time: i64| trace.meta.base_ns.saturating_add(time);
        let (name, rank) = (trace.meta.name.clone(), trace.meta.rank);
        let contains_rank = rank.is_some() && !diagnostics::is_rank_from_name(&trace.report);
        Some(Self { name, rank, contains_rank, pid: main_process(trace)?, window: (at(start), at(end)) })
    }

    /// True if this is an older cycle of the same process, or of the same rank.
    fn is_older_than(&self, other: &Self) -> bool {
        self.window.1 <= other.window.0
            && name_without_numbers(&self.name) == name_without_numbers(&other.name)
            && (self.has_process_of(other) || self.has_rank_of(other))
    }

    /// True if both traces have the same process and rank, and no different worker in their file names.
    fn has_process_of(&self, other: &Self) -> bool {
        let workers = worker_in_name(&self.name).zip(worker_in_name(&other.name));
        (self.rank, self.pid) == (other.rank, other.pid) && workers.is_none_or(|(own, other)| own == other)
    }

    /// True if both traces contain the same rank. A restarted worker keeps its rank but is another process.
    fn has_rank_of(&self, other: &Self) -> bool {
        self.contains_rank && other.contains_rank && self.rank == other.rank
    }
}

/// Older trace of a process or rank, left out because a newer trace of the same process or rank is kept.
#[derive(Clone, Debug)]
pub(crate) struct OlderTrace {
    name: String,
    /// True if the newer trace is of another process of the same rank.
    is_of_other_process: bool,
}

impl OlderTrace {
    /// Describe a trace that is left out, and its relation to the newer one.
    fn new(older: &Cycle, newer: &Cycle) -> Self {
        Self { name: older.name.clone(), is_of_other_process: !older.has_process_of(newer) }
    }
}

/// PID of the process with the first step, else of the one with most events on threads; `None` if that has no number.
fn main_process(trace: &Trace) -> Option<i64> {
    if let Some(step) = trace.steps.first() {
        return trace.process_of(step).as_int();
    }
    let mut events: BTreeMap<Key, usize> = BTreeMap::new();
    for track in trace.tracks.ids().filter(|&track| trace.tracks.get(track).kind == TrackKind::Thread) {
        *events.entry(trace.tracks.pid(track)).or_default() += trace.track_events(track).len();
    }
    let events = events.into_iter().filter(|&(_, count)| count > 0);
    let numbered = events.filter_map(|(process, count)| Some((count, process.as_int()?)));
    numbered.max_by_key(|&(count, pid)| (count, std::cmp::Reverse(pid))).map(|(_, pid)| pid)
}

/// Folder and file name of a trace, with `#` for each number in the file name, in which cycles differ by step or time.
fn name_without_numbers(name: &str) -> (&str, String) {
    let at = name.rfind(['/', '\\']).map_or(0, |at| at + 1);
    let (folder, file) = name.split_at(at);
    let mut without = String::new();
    for letter in file.chars() {
        match letter {
            '0'..='9' if without.ends_with('#') => {}
            '0'..='9' => without.push('#'),
            other => without.push(other),
        }
    }
    (folder, without)
}

/// Cycle with the index of its trace.
type PositionedCycle<'a> = (usize, &'a Cycle);

/// For each older cycle, the index of the newest cycle of the same process or rank; `None` for the newest ones.
fn newest(cycles: &[Option<Cycle>]) -> Vec<Option<usize>> {
    let mut groups: BTreeMap<(Option<i64>, Option<i64>), Vec<PositionedCycle<'_>>> = BTreeMap::new();
    for (at, cycle) in cycles.iter().enumerate() {
        if let Some(cycle) = cycle {
            let pid = cycle.rank.is_none().then_some(cycle.pid);
            groups.entry((cycle.rank, pid)).or_default().push((at, cycle));
        }
    }
    let mut newest = vec![None; cycles.len()];
    for own in groups.values() {
        for (at, cycle) in own {
            let newer = own.iter().filter(|(_, other)| cycle.is_older_than(other));
            newest[*at] = newer.max_by_key(|(at, other)| (other.window, *at)).map(|(at, _)| *at);
        }
    }
    newest
}

/// Select the traces of a folder or archive to keep: true per trace without a newer cycle. Also list the older traces
/// by the index of the newest one.
pub(crate) fn split_off_older(cycles: &[Option<Cycle>]) -> (Vec<bool>, BTreeMap<usize, Vec<OlderTrace>>) {
    let newest = newest(cycles);
    let mut left_out: BTreeMap<usize, Vec<OlderTrace>> = BTreeMap::new();
    for (cycle, newest) in cycles.iter().zip(&newest) {
        let newer = newest.and_then(|at| Some((at, cycles.get(at)?.as_ref()?)));
        if let (Some(cycle), Some((at, newer))) = (cycle, newer) {
            left_out.entry(at).or_default().push(OlderTrace::new(cycle, newer));
        }
    }
    (newest.iter().map(Option::is_none).collect(), left_out)
}

/// Remove older cycles from the traces of a folder or archive, with a note in the read reports of the newest ones.
pub(crate) fn keep_newest(set: &mut TraceSet) {
    if set.traces.len() < 2 {
        return;
    }
    let cycles: Vec<Option<Cycle>> = set.traces.iter().map(Cycle::from_trace).collect();
    let (stays, left_out) = split_off_older(&cycles);
    for (at, older) in left_out {
        note(&mut set.traces[at].report, &older);
    }
    let mut stays = stays.into_iter();
    set.traces.retain(|_| stays.next().unwrap_or(true));
}

/// Add notes on older traces that were left out to a read report.
pub(crate) fn note(report: &mut ReadReport, older: &[OlderTrace]) {
    let (restarted, cycles): (Vec<&OlderTrace>, Vec<&OlderTrace>) =
        older.iter().partition(|trace| trace.is_of_other_process);
    if let Some(first) = cycles.first() {
        diagnostics::note_older_cycles(report, cycles.len() as u64, &first.name);
    }
    if let Some(first) = restarted.first() {
        diagnostics::note_earlier_processes(report, restarted.len() as u64, &first.name);
    }
}

/// Profiler cycles of the traces of a job that were read so far.
#[derive(Debug, Default)]
pub(crate) struct SeenCycles(Vec<Option<Cycle>>);

/// Relation of the next trace of a job to the earlier traces: another process, or a newer or older cycle.
pub(crate) enum CycleRelation {
    /// Trace of another process.
    Process,
    /// Newer cycle of the process or rank of the trace at this index, which it replaces.
    Newer {
        /// Index of the replaced trace.
        at: usize,
        /// The replaced trace.
        older: OlderTrace,
    },
    /// Older cycle of a process or rank.
    Older(OlderTrace),
}

impl SeenCycles {
    /// Add the cycle of the next trace, unless it is older than a known one, and return its relation to the earlier
    /// traces.
    pub(crate) fn add(&mut self, cycle: Option<Cycle>) -> CycleRelation {
        if let Some(own) = &cycle {
            for (at, known) in self.0.iter_mut().enumerate() {
                match known {
                    Some(known) if own.is_older_than(known) => {
                        return CycleRelation::Older(OlderTrace::new(own, known));
                    }
                    Some(known) if known.is_older_than(own) => {
                        let older = OlderTrace::new(known, own);
                        *known = own.clone();
                        return CycleRelation::Newer { at, older };
                    }
                    _ => {}
                }
            }
        }
        self.0.push(cycle);
        CycleRelation::Process
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cycle(name: &str, pid: i64, window: (i64, i64)) -> Option<Cycle> {
        Some(Cycle { name: name.to_owned(), rank: None, contains_rank: false, pid, window })
    }

    /// Cycle of rank 3, from the file or from its name.
    fn of_rank(name: &str, contains_rank: bool, pid: i64, window: (i64, i64)) -> Option<Cycle> {
        cycle(name, pid, window).map(|cycle| Cycle { rank: Some(3), contains_rank, ..cycle })
    }

    #[test]
    fn cycles_follow_one_another_in_one_process() {
        let worker = |time: i64, pid: i64, window| cycle(&format!("host_{pid}.{time}.pt.trace.json"), pid, window);
        let cycles = [worker(10, 7, (0, 5)), worker(30, 7, (20, 25)), worker(20, 7, (10, 15)), worker(11, 8, (0, 5))];
        assert_eq!(newest(&cycles), [Some(1), None, Some(1), None]);
        let names = |names: [&str; 2]| [cycle(names[0], 7, (0, 5)), cycle(names[1], 7, (10, 15))];
        assert_eq!(newest(&names(["trace_100.json", "trace_20.json"])), [Some(1), None]);
        for other in [
            ["before.json", "after.json"],
            ["a/trace.json", "b/trace.json"],
            ["a_1.2.pt.trace.json", "a_2.3.pt.trace.json"],
        ] {
            assert_eq!(newest(&names(other)), [None; 2], "{other:?}");
        }
        let at_once = [cycle("a1.json", 7, (0, 5)), cycle("a2.json", 7, (4, 9))];
        assert_eq!(newest(&at_once), [None; 2]);
    }

    #[test]
    fn restarted_worker_continues_its_rank() {
        let worker = |contains_rank| {
            let cycle =
                |pid, time, window| of_rank(&format!("host_{pid}.{time}.pt.trace.json"), contains_rank, pid, window);
            [cycle(7, 10, (0, 5)), cycle(7, 20, (10, 15)), cycle(9, 30, (20, 25))]
        };
        let (stays, left_out) = split_off_older(&worker(true));
        assert_eq!(stays, [false, false, true]);
        assert!(left_out[&2].len() == 2 && left_out[&2].iter().all(|trace| trace.is_of_other_process));
        assert_eq!(newest(&worker(false)), [Some(1), None, None], "numbers in names may be those of another host");
        let at_once = [of_rank("a_1.json", true, 7, (0, 5)), of_rank("a_2.json", true, 9, (4, 9))];
        assert_eq!(newest(&at_once), [None; 2]);
    }

    #[test]
    fn newer_cycles_replace_older_ones_while_reading() {
        let mut taken = SeenCycles::default();
        let mut add = |name, window| taken.add(cycle(name, 7, window));
        assert!(matches!(add("t2.json", (10, 15)), CycleRelation::Process));
        assert!(matches!(add("t1.json", (0, 5)), CycleRelation::Older(older) if older.name == "t1.json"));
        assert!(matches!(add("t3.json", (20, 25)), CycleRelation::Newer { at: 0, older } if older.name == "t2.json"));
        assert!(matches!(taken.add(cycle("t4.json", 8, (30, 35))), CycleRelation::Process));
    }
}
