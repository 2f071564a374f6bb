//! The traces that an export becomes: one for each process.

use super::device::EventRecord;
use crate::ReadOptions;
use crate::problems::{self, Code};
use stackline_model::{
    AttrType, AttrValue, EventId, EventKind, Key, NewEvent, Phase, ReadReport, Trace, TrackId, TrackKind, flags,
};
use std::collections::BTreeMap;

/// Rows that are read between two checks whether the caller wants to stop.
pub(super) const ROWS_BETWEEN_CHECKS: u32 = 4096;
/// Times beyond this (the year 2065 as epoch time) are no times.
pub(super) const MAX_NS: i64 = 3_000_000_000_000_000_000;

/// A process by its number, from what exports call `globalPid` or `globalTid`: the number stands above 24 bits of a thread's.
pub(super) fn pid_of(global: i64) -> i64 {
    (global >> 24) & 0xff_ffff
}

/// The thread's number in a `globalTid`.
pub(super) fn tid_of(global: i64) -> i64 {
    global & 0xff_ffff
}

/// Traces by process, while they are read.
pub(super) struct Processes<'o> {
    pub(super) options: &'o ReadOptions,
    by_pid: BTreeMap<i64, ProcessTrace>,
    /// What is said of the file as a whole.
    report: ReadReport,
}

impl<'o> Processes<'o> {
    pub(super) fn new(options: &'o ReadOptions) -> Self {
        Self { options, by_pid: BTreeMap::new(), report: ReadReport::default() }
    }

    /// The process with this number. Rows without one (exports of few columns) are of the first process that is known.
    pub(super) fn of(&mut self, pid: Option<i64>) -> &mut ProcessTrace {
        let pid = pid.or_else(|| self.by_pid.keys().next().copied()).unwrap_or(0);
        self.by_pid.entry(pid).or_insert_with(|| ProcessTrace::new(pid))
    }

    /// Puts an event into the trace of its process.
    pub(super) fn push(&mut self, pid: Option<i64>, event: &Event<'_>) -> EventId {
        self.of(pid).push(event)
    }

    pub(super) fn all(&mut self) -> impl Iterator<Item = &mut ProcessTrace> {
        self.by_pid.values_mut()
    }

    pub(super) fn note_damage(&mut self, table: &str, read: Result<(), stackline_sqlite::Error>) {
        match read {
            Ok(()) | Err(stackline_sqlite::Error::Stopped) => {}
            Err(error) => self.count(problems::TABLE_DAMAGED, &format!("{table}: {error}")),
        }
    }

    pub(super) fn count(&mut self, code: Code, example: &str) {
        code.count(&mut self.report, None, example);
    }

    /// Takes away processes that the export does not know: rows of a file that breaks off within them.
    pub(super) fn retain_known(&mut self, is_known: impl Fn(i64) -> bool) {
        for (pid, process) in std::mem::take(&mut self.by_pid) {
            if is_known(pid) {
                self.by_pid.insert(pid, process);
            } else {
                let rows = process.trace.report.records;
                problems::DANGLING_RECORD.count_many(&mut self.report, rows, None, &format!("of process {pid}"));
            }
        }
    }

    /// The traces of all processes that called the GPU's interface, with the numbers of these; of all others if none did.
    pub(super) fn traces(self, name: &str) -> Vec<(i64, Trace)> {
        let mut report = self.report;
        let mut kept: Vec<ProcessTrace> = self.by_pid.into_values().filter(|p| !p.trace.events.is_empty()).collect();
        let uses_gpu: Vec<bool> = kept.iter().map(ProcessTrace::uses_gpu).collect();
        if uses_gpu.contains(&true) {
            for (other, _) in kept.iter().zip(&uses_gpu).filter(|(_, uses_gpu)| !**uses_gpu) {
                problems::OTHER_PROCESS.count(&mut report, None, &other.name());
            }
            let mut uses_gpu = uses_gpu.into_iter();
            kept.retain(|_| uses_gpu.next() == Some(true));
        }
        let several = kept.len() > 1;
        kept.sort_by_key(|process| (process.device.is_none(), process.device, process.pid));
        let mut traces: Vec<(i64, Trace)> = Vec::with_capacity(kept.len());
        for (rank, mut process) in (0..).zip(kept) {
            process.trace.meta.format = super::FORMAT.to_owned();
            process.trace.meta.name = name.to_owned();
            if several {
                process.trace.meta.name = format!("{name}/{}", process.name());
                if process.device.is_some() {
                    process.trace.meta.rank = Some(rank);
                    problems::RANK_BY_DEVICE.count(&mut report, None, &format!("{} is rank {rank}", process.name()));
                }
            }
            traces.push((process.pid, process.trace));
        }
        if let Some((_, first)) = traces.first_mut() {
            first.report.merge(report);
        }
        traces
    }
}

/// A row that becomes an event.
pub(super) struct Event<'a> {
    pub(super) track: (Key, Key, TrackKind),
    /// Start and end, ns since the recording began.
    pub(super) times: (Option<i64>, Option<i64>),
    pub(super) name: &'a str,
    pub(super) category: &'a str,
    pub(super) kind: EventKind,
    pub(super) phase: Phase,
    /// Arguments; those without a value are left out.
    pub(super) arguments: &'a [(&'static str, Value<'a>)],
}

/// The value of an argument.
#[derive(Clone, Copy, Debug)]
pub(super) enum Value<'a> {
    Int(Option<i64>),
    Float(Option<f64>),
    Text(&'a str),
    Json(&'a str),
}

/// One process.
pub(super) struct ProcessTrace {
    pub(super) pid: i64,
    pub(super) trace: Trace,
    /// The first GPU that it used, by its number in the machine where the export tells it.
    pub(super) device: Option<i64>,
    /// Records of events on streams, by their number: the stream and the call that recorded.
    pub(super) records: BTreeMap<i64, EventRecord>,
    fields: Vec<(stackline_model::StrId, AttrType)>,
    values: Vec<u64>,
}

impl ProcessTrace {
    fn new(pid: i64) -> Self {
        let (trace, records) = (Trace::default(), BTreeMap::new());
        Self { pid, trace, device: None, records, fields: Vec::new(), values: Vec::new() }
    }

    /// Whether it called the GPU's interface, or ran something on a GPU.
    fn uses_gpu(&self) -> bool {
        let is_of_gpu = |kind: &EventKind| kind.is_api_call() || kind.is_gpu_work() || *kind == EventKind::Sync;
        self.trace.events.kind.iter().any(is_of_gpu)
    }

    fn name(&self) -> String {
        let process = self.trace.tracks.processes.iter().find(|process| process.pid == Key::Int(self.pid));
        match process.and_then(|process| process.name.some()) {
            Some(name) => format!("{} {}", self.trace.strings.get(name), self.pid),
            None => format!("process {}", self.pid),
        }
    }

    /// Its position is how many events came before it.
    fn push(&mut self, event: &Event<'_>) -> EventId {
        let trace = &mut self.trace;
        let (start, dur, mut bits) = times(event, &mut trace.report);
        if !matches!(event.phase, Phase::Instant) && event.times.1.is_some() {
            bits |= flags::HAS_DURATION;
        }
        let (pid, tid, kind) = event.track;
        let track: TrackId = trace.tracks.track(pid, tid, kind);
        let (name, category) = (trace.strings.intern(event.name), trace.strings.intern(event.category));
        let source_index = u32::try_from(trace.report.records).unwrap_or(u32::MAX);
        trace.report.records += 1;
        self.fields.clear();
        self.values.clear();
        for (key, value) in event.arguments {
            let value = match *value {
                Value::Int(value) => value.map(AttrValue::Int),
                Value::Float(value) => value.map(AttrValue::Float),
                Value::Text(text) => Some(AttrValue::Str(trace.strings.intern(text))),
                Value::Json(text) => Some(AttrValue::Json(trace.strings.intern(text))),
            };
            if let Some((kind, raw)) = value.map(AttrValue::to_raw) {
                self.fields.push((trace.strings.intern(key), kind));
                self.values.push(raw);
            }
        }
        let id = trace.events.push(NewEvent {
            start,
            dur,
            track,
            name,
            category,
            kind: event.kind,
            phase: event.phase,
            flags: bits,
            source_index,
        });
        if !trace.attrs.push(&self.fields, &self.values) {
            problems::TABLE_FULL.count(&mut trace.report, None, "");
        }
        id
    }
}

/// Spans of threads that were open when the recording ended go on to the last time of a thread that is believed.
pub(super) fn close_open(trace: &mut Trace) {
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
        problems::UNFINISHED.count(&mut trace.report, None, name);
    }
}

/// Start, duration and flags of a row; what is wrong with its times is counted.
fn times(event: &Event<'_>, report: &mut ReadReport) -> (i64, i64, u8) {
    let is_time = |ns: i64| ns.unsigned_abs() <= MAX_NS.unsigned_abs();
    match event.times {
        (None, _) => {
            problems::NO_TIME.count(report, None, event.name);
            (0, 0, flags::NO_TIME)
        }
        (Some(start), end) if !is_time(start) || end.is_some_and(|end| !is_time(end)) => {
            problems::BAD_TIME.count(report, None, event.name);
            (0, 0, flags::NO_TIME)
        }
        (Some(start), _) if event.phase == Phase::Instant => (start, 0, 0),
        // Nobody knows how long it ran: what is on a GPU counts nowhere then.
        (Some(start), None) if event.track.2 == TrackKind::Stream => {
            problems::NO_DURATION.count(report, None, event.name);
            (start, 0, flags::NO_TIME)
        }
        (Some(start), None) => (start, 0, flags::UNFINISHED),
        (Some(start), Some(end)) if end < start => {
            problems::NEGATIVE_DURATION.count(report, None, event.name);
            (start, 0, flags::CLAMPED)
        }
        (Some(start), Some(end)) => (start, end - start, 0),
    }
}
