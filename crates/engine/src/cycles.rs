//! Profiler cycles: successive traces of one process, from a profiler with a schedule. They are not ranks of a job. In
//! a folder or archive, only the newest cycle of a process is kept.

use stackline_ingest::{diagnostics, worker_in_name};
use stackline_model::{Key, ReadReport, Trace, TraceSet, TrackKind};
use std::collections::BTreeMap;

/// Identity of a cycle: process and time window.
#[derive(Clone, Debug)]
pub(crate) struct Cycle {
    name: String,
    rank: Option<i64>,
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
        Some(Self { name, rank, pid: main_process(trace)?, window: (at(start), at(end)) })
    }

    /// True if this is an older cycle of the same process.
    fn is_older_than(&self, other: &Self) -> bool {
        let workers = worker_in_name(&self.name).zip(worker_in_name(&other.name));
        (self.rank, self.pid) == (other.rank, other.pid)
            && self.window.1 <= other.window.0
            && name_without_numbers(&self.name) == name_without_numbers(&other.name)
            && workers.is_none_or(|(own, other)| own == other)
    }
}

/// Process of the first step, else the one with most events on threads.
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

/// Folder of a name, and its last part with `#` for each number: names of cycles differ in the number of the step, or
/// in the time.
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

/// Index of the newest cycle of the same process, for each older cycle.
fn newest(cycles: &[Option<Cycle>]) -> Vec<Option<usize>> {
    let mut processes: BTreeMap<(Option<i64>, i64), Vec<PositionedCycle<'_>>> = BTreeMap::new();
    for (at, cycle) in cycles.iter().enumerate() {
        if let Some(cycle) = cycle {
            processes.entry((cycle.rank, cycle.pid)).or_default().push((at, cycle));
        }
    }
    let mut newest = vec![None; cycles.len()];
    for own in processes.values() {
        for (at, cycle) in own {
            let newer = own.iter().filter(|(_, other)| cycle.is_older_than(other));
            newest[*at] = newer.max_by_key(|(at, other)| (other.window, *at)).map(|(at, _)| *at);
        }
    }
    newest
}

/// Traces to keep of a folder or archive, and the names of older cycles by the index of the newest one.
pub(crate) fn older(cycles: &[Option<Cycle>]) -> (Vec<bool>, BTreeMap<usize, Vec<String>>) {
    let newest = newest(cycles);
    let mut names: BTreeMap<usize, Vec<String>> = BTreeMap::new();
    for (cycle, newer) in cycles.iter().zip(&newest) {
        if let (Some(cycle), Some(newer)) = (cycle, newer) {
            names.entry(*newer).or_default().push(cycle.name.clone());
        }
    }
    (newest.iter().map(Option::is_none).collect(), names)
}

/// Remove older cycles from the traces of a folder or archive, with a note in the read reports of the newest ones.
pub(crate) fn keep_newest(set: &mut TraceSet) {
    if set.traces.len() < 2 {
        return;
    }
    let cycles: Vec<Option<Cycle>> = set.traces.iter().map(Cycle::from_trace).collect();
    let (stays, names) = older(&cycles);
    for (at, names) in names {
        note(&mut set.traces[at].report, &names);
    }
    let mut stays = stays.into_iter();
    set.traces.retain(|_| stays.next().unwrap_or(true));
}

/// Note older cycles that are left out.
pub(crate) fn note(report: &mut ReadReport, names: &[String]) {
    if let Some(first) = names.first() {
        diagnostics::note_older_cycles(report, names.len() as u64, first);
    }
}

/// Traces of a job, added one after another.
#[derive(Debug, Default)]
pub(crate) struct Taken(Vec<Option<Cycle>>);

/// Relation of a further trace to the earlier ones.
pub(crate) enum Further {
    /// Trace of another process.
    Process,
    /// Newer cycle of the process of the trace at this index, which it replaces.
    Newer {
        /// Index of the replaced trace.
        at: usize,
        /// Name of the replaced trace.
        older: String,
    },
    /// Older cycle of a process.
    Older,
}

impl Taken {
    /// Add a trace, unless it is an older cycle.
    pub(crate) fn add(&mut self, cycle: Option<Cycle>) -> Further {
        if let Some(own) = &cycle {
            for (at, known) in self.0.iter_mut().enumerate() {
                match known {
                    Some(known) if own.is_older_than(known) => return Further::Older,
                    Some(older) if older.is_older_than(own) => {
                        let older = std::mem::replace(older, own.clone()).name;
                        return Further::Newer { at, older };
                    }
                    _ => {}
                }
            }
        }
        self.0.push(cycle);
        Further::Process
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cycle(name: &str, pid: i64, window: (i64, i64)) -> Option<Cycle> {
        Some(Cycle { name: name.to_owned(), rank: None, pid, window })
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
    fn newer_cycles_replace_older_ones_while_reading() {
        let mut taken = Taken::default();
        let mut add = |name, window| taken.add(cycle(name, 7, window));
        assert!(matches!(add("t2.json", (10, 15)), Further::Process));
        assert!(matches!(add("t1.json", (0, 5)), Further::Older));
        assert!(matches!(add("t3.json", (20, 25)), Further::Newer { at: 0, older } if older == "t2.json"));
        assert!(matches!(taken.add(cycle("t4.json", 8, (30, 35))), Further::Process));
    }
}
