//! Traces by process, for inputs whose tables contain several processes.

use super::row::{Appender, MAX_NS, NewRow, RecurringTexts, Value};
use crate::byte_offsets::ByteOffsets;
use crate::diagnostics::{self, Code};
use crate::{ReadOptions, resolve};
use rayon::prelude::*;
use rustc_hash::FxHashMap;
use stackline_model::{EventId, EventKind, Key, Phase, ReadReport, Trace, TrackId, TrackKind, flags};
use std::collections::{BTreeMap, BTreeSet};

/// Distance between the keys of processes with the same PID.
const NEXT_MACHINE: i64 = 1 << 32;

/// Key of rows whose process is unknown and ambiguous.
const UNKNOWN: i64 = i64::MAX;

/// Argument that a call shares with its launched operations.
const CORRELATION: &str = "correlation";

/// Diagnostics of the complete file: each of its processes may have missing data.
const FILE_DIAGNOSTICS: [Code; 3] = [diagnostics::TRUNCATED, diagnostics::TABLE_DAMAGED, diagnostics::TABLE_MISSING];

/// The only process with calls of a correlation ID, and the start of its first call; `None` if several processes have
/// such calls.
type Callers = FxHashMap<i64, Option<(i64, i64)>>;

/// Tolerance for clocks of devices, in ns: an operation that runs earlier than this before a call was not launched by
/// it.
const CLOCK_NS: i64 = 1_000_000;

/// Traces by process while the rows of a file are read, with the diagnostics of the file.
pub(crate) struct Processes<'o> {
    pub(crate) options: &'o ReadOptions,
    by_pid: BTreeMap<i64, ProcessTrace>,
    /// Processes with GPU API calls.
    callers: BTreeSet<i64>,
    /// Callers by correlation ID, created when the first operation without a process is read.
    by_correlation: Option<Callers>,
    /// Tables that cannot be read to their end, with the error.
    damaged: BTreeMap<String, String>,
    /// Number of rows with an undefined name and number of the first one's string, by their replacement name.
    nameless: BTreeMap<String, (u64, i64)>,
    /// Diagnostics of the complete file.
    report: ReadReport,
}

impl<'o> Processes<'o> {
    pub(crate) fn new(options: &'o ReadOptions) -> Self {
        Self {
            options,
            by_pid: BTreeMap::new(),
            callers: BTreeSet::new(),
            by_correlation: None,
            damaged: BTreeMap::new(),
            nameless: BTreeMap::new(),
            report: ReadReport::default(),
        }
    }

    /// Trace of the process with this PID, created if new. Rows without a PID (exports with few columns) belong to the
    /// only possible process.
    pub(crate) fn trace_of(&mut self, pid: Option<i64>) -> &mut ProcessTrace {
        let pid = pid.or_else(|| self.only_process()).unwrap_or(UNKNOWN);
        self.by_pid.entry(pid).or_insert_with(|| ProcessTrace::new(pid))
    }

    /// Process of rows without a PID: the only process with GPU API calls, or the only one at all.
    fn only_process(&self) -> Option<i64> {
        let mut known = self.by_pid.keys().copied().filter(|&pid| pid != UNKNOWN);
        let (callers, mut caller) = (self.callers.len(), self.callers.iter().copied());
        match (callers, known.next(), known.next()) {
            (1, ..) => caller.next(),
            (0, None, _) if !self.by_pid.contains_key(&UNKNOWN) => Some(0),
            (0, only, None) => only,
            _ => None,
        }
    }

    /// Process of an event without a PID: the only process, or the only caller of the event's correlation ID; else
    /// [`UNKNOWN`].
    fn process_of(&mut self, event: &Event<'_>) -> i64 {
        if let Some(only) = self.only_process() {
            return only;
        }
        let correlation = event.arguments.iter().find_map(|&(key, value)| match value {
            Value::Int(Some(id)) if key == CORRELATION && id > 0 => Some(id),
            _ => None,
        });
        let by_pid = &self.by_pid;
        let callers = self.by_correlation.get_or_insert_with(|| callers(by_pid));
        // A process without a record of its call may share the ID with another process, at another time.
        let is_after =
            |&(_, called): &(i64, i64)| event.times.0.is_some_and(|start| start >= called.saturating_sub(CLOCK_NS));
        let caller = correlation.and_then(|id| callers.get(&id).copied().flatten()).filter(is_after);
        let Some((pid, _)) = caller else { return UNKNOWN };
        diagnostics::PROCESS_BY_CORRELATION.count(&mut self.trace_of(Some(pid)).trace.report, None, event.name);
        pid
    }

    /// Create the trace of a process, and return its key: its PID, or a larger number if a process of another machine
    /// has the same PID.
    pub(crate) fn add_process(&mut self, pid: i64) -> i64 {
        let mut key = pid;
        while self.by_pid.contains_key(&key) {
            key = key.saturating_add(NEXT_MACHINE);
        }
        self.by_pid.insert(key, ProcessTrace::new(key));
        key
    }

    /// Process of an event: the given one, else the one that its table implies ([`Self::process_of`]).
    pub(crate) fn owner(&mut self, pid: Option<i64>, event: &Event<'_>) -> i64 {
        pid.unwrap_or_else(|| self.process_of(event))
    }

    /// Add an event to the trace of its process.
    pub(crate) fn push(&mut self, pid: Option<i64>, event: &Event<'_>) -> EventId {
        let pid = self.owner(pid, event);
        if event.kind.is_api_call() {
            self.callers.insert(pid);
        }
        self.trace_of(Some(pid)).push(event)
    }

    /// Traces of all processes read so far.
    pub(crate) fn all(&mut self) -> impl Iterator<Item = &mut ProcessTrace> {
        self.by_pid.values_mut()
    }

    /// Store the error of a table that could not be read to its end.
    pub(crate) fn note_damage(&mut self, table: &str, read: Result<(), stackline_sqlite::Error>) {
        match read {
            Ok(()) | Err(stackline_sqlite::Error::Stopped) => {}
            Err(error) => {
                self.damaged.entry(table.to_owned()).or_insert_with(|| error.to_string());
            }
        }
    }

    /// Reason why a file has no records of its kind: unreadable tables, truncation, else `otherwise`.
    pub(crate) fn reason_if_empty(&self, otherwise: &str) -> String {
        let tables: Vec<&str> = self.damaged.keys().map(String::as_str).collect();
        let tables = match tables[..] {
            [table] => format!("table {table}"),
            _ => format!("tables {}", tables.join(", ")),
        };
        match self.damaged.values().next() {
            Some(why) => {
                format!("the file is damaged and {tables} cannot be read ({why}); copy, export or record it again")
            }
            None if self.report.count_of(diagnostics::TRUNCATED.code) > 0 => {
                "the file is truncated before the first record; copy the complete file again".to_owned()
            }
            None => otherwise.to_owned(),
        }
    }

    /// Count an occurrence of a diagnostic of the complete file.
    pub(crate) fn count(&mut self, code: Code, example: &str) {
        code.count(&mut self.report, None, example);
    }

    /// Count a row that is named `called` (its kind), because the string of its own name (number `text`) is missing.
    pub(crate) fn count_nameless(&mut self, called: &str, text: i64) {
        match self.nameless.get_mut(called) {
            Some((count, _)) => *count += 1,
            None => drop(self.nameless.insert(called.to_owned(), (1, text))),
        }
    }

    /// Count several occurrences of a diagnostic of the complete file.
    pub(crate) fn count_many(&mut self, code: Code, count: u64, example: &str) {
        if count > 0 {
            code.count_many(&mut self.report, count, None, example);
        }
    }

    /// Count processes that are missing from the file's process list. In a damaged file they are dropped, because their
    /// rows may be garbage.
    pub(crate) fn note_unlisted(&mut self, is_listed: impl Fn(i64) -> bool) {
        let is_damaged = !self.damaged.is_empty() || self.report.count_of(diagnostics::TRUNCATED.code) > 0;
        let unlisted: Vec<i64> = self.by_pid.keys().copied().filter(|&pid| pid != UNKNOWN && !is_listed(pid)).collect();
        for pid in unlisted {
            let example = format!("process {pid}");
            if !is_damaged {
                diagnostics::PROCESS_NOT_LISTED.count(&mut self.report, None, &example);
            } else if let Some(process) = self.by_pid.remove(&pid) {
                let rows = process.trace.report.records;
                diagnostics::PROCESS_LEFT_OUT.count_many(&mut self.report, rows, None, &example);
            }
        }
    }

    /// Take the processes with events, and count damaged tables, missing names and unassigned rows in the report.
    fn take_kept(&mut self) -> Vec<ProcessTrace> {
        for (table, why) in &self.damaged {
            diagnostics::TABLE_DAMAGED.count(&mut self.report, None, &format!("{table}: {why}"));
        }
        let nameless =
            self.nameless.iter().map(|(called, (count, text))| format!("{count} × {called} (missing string {text})"));
        let (nameless, rows) =
            (nameless.collect::<Vec<_>>().join(", "), self.nameless.values().map(|(count, _)| count));
        diagnostics::TEXT_MISSING.count_many(&mut self.report, rows.sum(), None, &nameless);
        let mut kept = std::mem::take(&mut self.by_pid);
        if let Some(unknown) = kept.get_mut(&UNKNOWN).filter(|process| !process.trace.events.is_empty()) {
            // The operations ran on devices of several processes and belong to no rank.
            unknown.device = None;
            let (events, rows) = (&unknown.trace.events, unknown.trace.events.len() as u64);
            let first = unknown.trace.strings.get(events.name[0]);
            if events.flags.iter().all(|bits| bits & flags::NO_TIME != 0) {
                diagnostics::ROWS_LEFT_OUT.count_many(&mut self.report, rows, None, first);
                kept.remove(&UNKNOWN);
            } else {
                diagnostics::PROCESS_UNKNOWN.count_many(&mut self.report, rows, None, first);
            }
        }
        kept.into_values().filter(|process| !process.trace.events.is_empty()).collect()
    }

    /// Traces of all processes with GPU API calls, with their PIDs; of all other processes if there are none.
    pub(crate) fn traces(mut self, format: &str, name: &str) -> Vec<(i64, Trace)> {
        let mut kept: Vec<ProcessTrace> = self.take_kept();
        let mut report = self.report;
        let uses_gpu: Vec<bool> = kept.iter().map(ProcessTrace::uses_gpu).collect();
        if uses_gpu.contains(&true) {
            for (other, _) in kept.iter().zip(&uses_gpu).filter(|(_, uses_gpu)| !**uses_gpu) {
                diagnostics::OTHER_PROCESS.count(&mut report, None, &other.name());
            }
            let mut uses_gpu = uses_gpu.into_iter();
            kept.retain(|_| uses_gpu.next() == Some(true));
        }
        let several = kept.len() > 1;
        kept.sort_by_key(|process| (process.device.is_none(), process.device, process.pid));
        let mut traces: Vec<(i64, Trace)> = Vec::with_capacity(kept.len());
        for (rank, mut process) in (0..).zip(kept) {
            process.trace.meta.format = format.to_owned();
            process.trace.meta.name = name.to_owned();
            if several {
                process.trace.meta.name = format!("{name}/{}", process.name());
                if process.device.is_some() {
                    process.trace.meta.rank = Some(rank);
                    diagnostics::RANK_BY_DEVICE.count(&mut report, None, &format!("{} is rank {rank}", process.name()));
                }
            }
            traces.push((process.pid, process.trace));
        }
        let mut of_all = ReadReport { problems: report.problems.clone(), ..ReadReport::default() };
        of_all.problems.retain(|problem| FILE_DIAGNOSTICS.iter().any(|code| code.code == problem.code));
        if let Some(((_, first), others)) = traces.split_first_mut() {
            first.report.merge(report);
            others.iter_mut().for_each(|(_, trace)| trace.report.merge(of_all.clone()));
        }
        traces
    }
}

/// Process and start of the first API call of each correlation ID; `None` for an ID of several processes.
fn callers(by_pid: &BTreeMap<i64, ProcessTrace>) -> Callers {
    let mut callers = Callers::default();
    for (&pid, ProcessTrace { trace, .. }) in by_pid {
        let ids = trace.attr(CORRELATION);
        for event in trace.events.ids().filter(|&e| trace.kind(e).is_api_call() && !trace.events.has(e, flags::NO_TIME))
        {
            let Some(id) = ids.i64(event) else { continue };
            let start = trace.events.start[event.index()];
            let earlier = |(own, first): (i64, i64)| (own == pid).then(|| (pid, first.min(start)));
            callers.entry(id).and_modify(|own| *own = own.and_then(earlier)).or_insert(Some((pid, start)));
        }
    }
    callers
}

/// A row of a table that becomes a trace event.
pub(crate) struct Event<'a> {
    pub(crate) track: (Key, Key, TrackKind),
    /// Start and end, in ns since the start of the recording.
    pub(crate) times: (Option<i64>, Option<i64>),
    pub(crate) name: &'a str,
    pub(crate) category: &'a str,
    pub(crate) kind: EventKind,
    pub(crate) phase: Phase,
    /// Arguments; those without a value are omitted.
    pub(crate) arguments: &'a [(&'a str, Value<'a>)],
}

/// A call, such as cudaEventRecord, that recorded a GPU event on a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EventRecord {
    pub(crate) stream: i64,
    pub(crate) correlation: i64,
}

/// Trace of one process, while it is read.
pub(crate) struct ProcessTrace {
    pub(crate) pid: i64,
    pub(crate) trace: Trace,
    /// The first GPU that the process used, by its number in the machine if the export contains it.
    pub(crate) device: Option<i64>,
    /// Records of events on streams by event number: the stream and the recording call.
    pub(crate) records: BTreeMap<i64, EventRecord>,
    rows: Appender,
    category: RecurringTexts,
}

impl ProcessTrace {
    fn new(pid: i64) -> Self {
        let (trace, records) = (Trace::default(), BTreeMap::new());
        Self { pid, trace, device: None, records, rows: Appender::default(), category: RecurringTexts::default() }
    }

    /// Check if the process has GPU API calls, GPU work, or samples of GPU instructions.
    fn uses_gpu(&self) -> bool {
        let is_of_gpu = |kind: &EventKind| {
            kind.is_api_call() || kind.is_gpu_work() || matches!(kind, EventKind::Sync | EventKind::Sample)
        };
        self.trace.events.kind.iter().any(is_of_gpu)
    }

    /// Numbers of the devices with work of the process.
    pub(crate) fn devices(&self) -> impl Iterator<Item = i64> {
        let tracks = &self.trace.tracks;
        let streams = tracks.tracks.iter().filter(|track| track.kind == TrackKind::Stream);
        streams.filter_map(|track| tracks.processes[track.process.index()].pid.as_int())
    }

    /// Label of the process: its name and PID, or a description if it has no name.
    fn name(&self) -> String {
        let process = self.trace.tracks.processes.iter().find(|process| process.pid == Key::Int(self.pid));
        match process.and_then(|process| process.name.some()) {
            Some(name) => format!("{} {}", self.trace.strings.get(name), self.pid),
            None if self.pid == UNKNOWN => "operations without a process".to_owned(),
            None if self.pid >= NEXT_MACHINE => {
                format!("process {} ({})", self.pid % NEXT_MACHINE, self.pid / NEXT_MACHINE + 1)
            }
            None => format!("process {}", self.pid),
        }
    }

    /// Append an event to the trace of the process; invalid times are counted. The event's offset is the number of
    /// earlier events.
    fn push(&mut self, event: &Event<'_>) -> EventId {
        let trace = &mut self.trace;
        let (start, dur, mut bits) = times(event, &mut trace.report);
        if !matches!(event.phase, Phase::Instant) && event.times.1.is_some() {
            bits |= flags::HAS_DURATION;
        }
        let (pid, tid, kind) = event.track;
        let track: TrackId = trace.tracks.track(pid, tid, kind);
        let name = trace.strings.intern(event.name);
        let category = self.category.intern(&mut trace.strings, 0, event.category);
        let &Event { kind, phase, .. } = event;
        let row = NewRow { start, dur, track, name, category, kind, phase, flags: bits };
        self.rows.push(trace, row, event.arguments)
    }
}

/// Seal the traces of several processes, in parallel if the options permit it.
pub(crate) fn seal_all(traces: &mut [(i64, Trace)], options: &ReadOptions) {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(options.threads.min(traces.len())).build();
    match pool {
        Ok(pool) if traces.len() > 1 && options.threads != 1 => {
            pool.install(|| traces.par_iter_mut().for_each(|(_, trace)| seal(trace, options)));
        }
        _ => traces.iter_mut().for_each(|(_, trace)| seal(trace, options)),
    }
}

/// Mark unset times, close open spans, and run the passes over the complete trace.
pub(crate) fn seal(trace: &mut Trace, options: &ReadOptions) {
    resolve::unset::mark(trace, &ByteOffsets::default());
    resolve::host::mark(trace, &ByteOffsets::default());
    close_open(trace);
    resolve::resolve(trace, Vec::new(), &ByteOffsets::default(), options);
}

/// Extend spans that were open at the end of the recording to the last plausible time of a thread.
fn close_open(trace: &mut Trace) {
    let events = &trace.events;
    let on_host = |e: EventId| trace.tracks.get(events.track[e.index()]).kind != TrackKind::Stream;
    let is_believed =
        |&e: &EventId| on_host(e) && !events.has(e, flags::UNFINISHED | flags::NO_TIME | flags::IMPLAUSIBLE);
    let end = events.ids().filter(is_believed).map(|e| events.end(e)).max().unwrap_or(0);
    let open: Vec<EventId> = events.ids().filter(|&e| events.has(e, flags::UNFINISHED)).collect();
    for event in open {
        let row = event.index();
        trace.events.dur[row] = end.saturating_sub(trace.events.start[row]).max(0);
        trace.events.flags[row] |= flags::HAS_DURATION;
        let name = trace.strings.get(trace.events.name[row]);
        diagnostics::UNFINISHED.count(&mut trace.report, None, name);
    }
}

/// Start and duration in ns, and flags, of a row; invalid times are counted.
fn times(event: &Event<'_>, report: &mut ReadReport) -> (i64, i64, u8) {
    let is_time = |ns: i64| ns.unsigned_abs() <= MAX_NS.unsigned_abs();
    match event.times {
        (None, _) => {
            diagnostics::NO_TIME.count(report, None, event.name);
            (0, 0, flags::NO_TIME)
        }
        (Some(start), end) if !is_time(start) || end.is_some_and(|end| !is_time(end)) => {
            diagnostics::BAD_TIME.count(report, None, event.name);
            (0, 0, flags::NO_TIME)
        }
        (Some(start), _) if matches!(event.phase, Phase::Instant | Phase::Sample) => (start, 0, 0),
        // The duration is unknown, so GPU work is excluded from all totals.
        (Some(start), None) if event.track.2 == TrackKind::Stream => {
            diagnostics::NO_DURATION.count(report, None, event.name);
            (start, 0, flags::NO_TIME)
        }
        (Some(start), None) => (start, 0, flags::UNFINISHED),
        (Some(start), Some(end)) if end < start => {
            diagnostics::NEGATIVE_DURATION.count(report, None, event.name);
            (start, 0, flags::CLAMPED)
        }
        (Some(start), Some(end)) => (start, end - start, 0),
    }
}
