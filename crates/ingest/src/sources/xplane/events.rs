//! Conversion of lines and their events into a trace, in the same way as XProf does for its own traces.

use super::plane::{At, EventMessage, Kind, Line, Plane, Stat, StatValue};
use super::programs::{Programs, Stacks};
use crate::sources::row::{Appender, MAX_NS, NewRow, ROWS_BETWEEN_CHECKS, Value};
use crate::sources::xprof::HLO_OPERATOR;
use crate::{Error, ReadOptions, diagnostics};
use prost::Message;
use rustc_hash::FxHashMap;
use stackline_model::{
    CONTEXT_FLOW, EventId, EventKind, FUSED_OPERATORS, Key, LinkKind, Phase, StrId, Trace, TrackId, TrackKind, flags,
};
use std::borrow::Cow;

/// Limit in ns (12 days) above which times of lines are epoch times, not times since the start of the profile.
const EPOCH_NS: i64 = 1_000_000_000_000_000;
/// Process number of the host in XProf's traces; devices are numbered from 1.
const HOST: i64 = 701;
/// Process numbers of all other planes start after this.
const OTHERS: i64 = 2000;
const HOST_NAME: &str = "/host:CPU";

/// Origin of all times in ns: the start of the earliest line, if most lines have epoch times. 0 if they are relative to
/// the profile's start.
pub(super) fn origin(planes: &[Plane<'_>]) -> i64 {
    let lines = planes.iter().flat_map(|plane| &plane.lines);
    let began: Vec<i64> = lines.filter(|line| !line.events.is_empty()).map(|line| line.began_ns).collect();
    let epochs = || began.iter().copied().filter(|ns| (EPOCH_NS..=MAX_NS).contains(ns));
    if epochs().count() * 2 > began.len() { epochs().min().unwrap_or(0) } else { 0 }
}

/// Writer of planes into a trace.
pub(super) struct Writer<'p> {
    trace: Trace,
    rows: Appender,
    programs: Programs<'p>,
    stacks: Stacks,
    contexts: Contexts,
    /// Origin of the lines' times, in ns.
    origin: i64,
    /// Number of processes that are neither the host nor a numbered device.
    others: i64,
    /// Thread number of each line.
    threads: FxHashMap<(Key, i64), i64>,
    events_read: u32,
}

impl<'p> Writer<'p> {
    pub(super) fn new(mut trace: Trace, programs: Programs<'p>, origin: i64) -> Self {
        if origin != 0 {
            trace.meta.base_ns = origin;
        }
        let (rows, stacks, contexts) = (Appender::default(), Stacks::default(), Contexts::default());
        let threads = FxHashMap::default();
        Self { trace, rows, programs, stacks, contexts, origin, others: 0, threads, events_read: 0 }
    }

    /// Finish the trace, and count damaged XLA programs. Returns the trace and the contexts for its arrows.
    pub(super) fn finish(mut self) -> (Trace, Contexts) {
        let damaged = self.programs.damaged();
        diagnostics::DAMAGED_HEADER.count_many(&mut self.trace.report, damaged, None, "a program of XLA");
        (self.trace, self.contexts)
    }

    /// Add the lines of a plane to the trace, as one process with a thread for each line.
    pub(super) fn plane(&mut self, plane: &Plane<'_>, options: &ReadOptions) -> Result<(), Error> {
        if plane.lines.iter().all(|line| line.events.is_empty()) {
            return Ok(());
        }
        let pid = self.process(plane);
        for line in plane.lines.iter().filter(|line| !line.events.is_empty()) {
            if line.is_damaged {
                let example = format!("of {}, {}", plane.name, line.name);
                diagnostics::DAMAGED_EVENT.count(&mut self.trace.report, None, &example);
            }
            let track = self.thread(pid, line);
            for event in &line.events {
                self.events_read = self.events_read.wrapping_add(1);
                if self.events_read.is_multiple_of(ROWS_BETWEEN_CHECKS) && options.is_cancelled() {
                    return Err(Error::Cancelled);
                }
                match EventMessage::decode(*event) {
                    Ok(event) => self.event(plane, line.began_ns, track, &event),
                    Err(_) => {
                        self.trace.report.records += 1;
                        let example = format!("of {}, {}", plane.name, line.name);
                        diagnostics::DAMAGED_EVENT.count(&mut self.trace.report, None, &example);
                    }
                }
            }
        }
        Ok(())
    }

    /// Track of a line, named on first use. As in XProf's traces, thread numbers are the low half of the hosts'
    /// numbers, unless two would be equal.
    fn thread(&mut self, pid: Key, line: &Line<'_>) -> TrackId {
        let short = line.id & i64::from(u32::MAX);
        let is_own = *self.threads.entry((pid, short)).or_insert(line.id) == line.id;
        let tid = Key::Int(if is_own { short } else { line.id });
        let track = self.trace.tracks.track(pid, tid, TrackKind::Thread);
        let name = &mut self.trace.tracks.tracks[track.index()].name;
        if name.is_none() {
            *name = self.trace.strings.intern(&line.name);
        }
        track
    }

    /// Process key of a plane, added to the trace if new. All planes called host form one process: older versions have
    /// separate planes for CUPTI and Python's tracer.
    fn process(&mut self, plane: &Plane<'_>) -> Key {
        let number = |name: &str| name.rsplit(':').next().and_then(|part| part.parse::<i64>().ok());
        let is_taken = |pid: i64, trace: &Trace| {
            let taken = trace.tracks.processes.iter().find(|process| process.pid == Key::Int(pid));
            taken.is_some_and(|process| trace.strings.get(process.name) != plane.name)
        };
        let (pid, name) = if plane.name.starts_with("/host:") {
            (HOST, HOST_NAME)
        } else {
            let own = plane.name.strip_prefix("/device:").and_then(number).and_then(|n| n.checked_add(1));
            let own = own.filter(|&pid| (1..HOST).contains(&pid) && !is_taken(pid, &self.trace));
            let pid = own.unwrap_or_else(|| {
                self.others += 1;
                OTHERS + self.others
            });
            (pid, plane.name.as_str())
        };
        let name = self.trace.strings.intern(name);
        let process = self.trace.tracks.process(Key::Int(pid));
        let process = &mut self.trace.tracks.processes[process.index()];
        (process.name, process.sort_index) = (name, Some(pid));
        Key::Int(pid)
    }

    /// Add an event to the trace, with its arguments, and source lines and context from its XLA program.
    fn event(&mut self, plane: &Plane<'_>, began_ns: i64, track: TrackId, event: &EventMessage) {
        let nameless;
        let kind = match plane.kinds.get(&event.kind) {
            Some(kind) => kind,
            None => {
                diagnostics::NO_NAME.count(&mut self.trace.report, None, &plane.name);
                nameless = Kind { name: format!("event {} without a name", event.kind), ..Kind::default() };
                &nameless
            }
        };
        let is_host = !plane.name.starts_with("/device:");
        let time = self.time(began_ns, event, is_host, &kind.name);
        let found = Arguments::new(plane, event, kind);
        let origin = found
            .operator
            .as_deref()
            .and_then(|operator| self.programs.source((found.program, found.module.as_deref()), operator, &kind.name));
        let mut arguments: Vec<(&str, Value<'_>)> = found.values();
        let (line, fused);
        if let Some(found) = &origin {
            let has = |key: &str, arguments: &[(&str, Value<'_>)]| arguments.iter().any(|(own, _)| *own == key);
            if !has("op_name", &arguments) {
                arguments.push(("op_name", Value::Text(&found.source.operator)));
            }
            if let Some(place) = found.source.places.first().filter(|_| !has("source", &arguments)) {
                line = format!("{}:{}", place.file, place.line);
                arguments.push(("source", Value::Text(&line)));
            }
            if !found.source.fused.is_empty() {
                fused = serde_json::json!(found.source.fused).to_string();
                arguments.push((FUSED_OPERATORS, Value::Json(&fused)));
            }
        }
        let (phase, kind_of) =
            if time.is_point { (Phase::Instant, EventKind::Instant) } else { (Phase::Complete, EventKind::Other) };
        let row = NewRow {
            start: time.start,
            dur: time.dur,
            track,
            name: self.trace.strings.intern(&kind.name),
            category: StrId::NONE,
            kind: kind_of,
            phase,
            flags: time.flags,
        };
        let id = self.rows.push(&mut self.trace, row, &arguments);
        if let Some(origin) = &origin {
            self.stacks.attach(&mut self.trace, id, origin);
        }
        self.contexts.note(&found, id, time.start);
    }

    /// Start and duration of an event in ns. Start and end are rounded, not the duration, so that adjacent events stay
    /// adjacent.
    fn time(&mut self, began_ns: i64, event: &EventMessage, is_host: bool, name: &str) -> Time {
        let report = &mut self.trace.report;
        let no_time = Time { start: 0, dur: 0, flags: flags::NO_TIME, is_point: false };
        let offset_ps = match event.at {
            // An offset of 0 is not written.
            None => 0,
            Some(At::OffsetPs(offset)) => offset,
            Some(At::Occurrences(_)) => {
                diagnostics::NO_TIME.count(report, None, name);
                return no_time;
            }
        };
        let to_ns = |ps: i128| i64::try_from((ps + 500).div_euclid(1000)).unwrap_or(i64::MAX);
        let began = began_ns.saturating_sub(self.origin);
        let start = began.saturating_add(to_ns(offset_ps.into()));
        let end = began.saturating_add(to_ns(i128::from(offset_ps) + i128::from(event.duration_ps)));
        if [start, end].iter().any(|ns| ns.unsigned_abs() > MAX_NS.unsigned_abs()) {
            diagnostics::BAD_TIME.count(report, None, name);
            return no_time;
        }
        if event.duration_ps < 0 {
            diagnostics::NEGATIVE_DURATION.count(report, None, name);
            return Time { start, dur: 0, flags: flags::CLAMPED | flags::HAS_DURATION, is_point: false };
        }
        if event.duration_ps == 0 && is_host {
            return Time { start, dur: 0, flags: 0, is_point: true };
        }
        Time { start, dur: end - start, flags: flags::HAS_DURATION, is_point: false }
    }
}

struct Time {
    start: i64,
    dur: i64,
    flags: u8,
    is_point: bool,
}

/// Limit on the arguments of an event; further ones are garbage.
const MOST_ARGUMENTS: usize = 256;

/// Arguments of an event, with those that identify its source in the program.
struct Arguments<'a> {
    values: Vec<(&'a str, ArgumentValue<'a>)>,
    long_name: Option<&'a str>,
    operator: Option<Cow<'a, str>>,
    module: Option<Cow<'a, str>>,
    program: Option<i64>,
    /// Kind and number of the context that the event produces, and of the one that it consumes.
    produced: [Option<i64>; 2],
    consumed: [Option<i64>; 2],
}

#[derive(Clone, Debug)]
enum ArgumentValue<'a> {
    Int(i64),
    Float(f64),
    Text(Cow<'a, str>),
}

impl<'a> Arguments<'a> {
    /// Collect the arguments of an event, then those of its kind, up to the limit.
    fn new(plane: &'a Plane<'_>, event: &'a EventMessage, kind: &'a Kind) -> Self {
        let mut found = Self {
            values: Vec::with_capacity(event.stats.len() + kind.stats.len()),
            long_name: kind.long_name.as_deref(),
            operator: None,
            module: None,
            program: None,
            produced: [None; 2],
            consumed: [None; 2],
        };
        for stat in event.stats.iter().chain(&kind.stats).take(MOST_ARGUMENTS) {
            found.add(plane, stat);
        }
        found
    }

    /// Add an argument, unless the event already has one of this name; XProf's own arguments only set contexts.
    fn add(&mut self, plane: &'a Plane<'_>, stat: &'a Stat) {
        let (name, Some(value)) = (plane.name_of(stat.name), &stat.value) else { return };
        let value = match value {
            StatValue::Float(number) => ArgumentValue::Float(*number),
            StatValue::Signed(number) => ArgumentValue::Int(*number),
            StatValue::Unsigned(number) => match i64::try_from(*number) {
                Ok(number) => ArgumentValue::Int(number),
                Err(_) => ArgumentValue::Text(number.to_string().into()),
            },
            StatValue::Text(bytes) => ArgumentValue::Text(String::from_utf8_lossy(bytes)),
            StatValue::Name(number) => ArgumentValue::Text(plane.name_of(number.cast_signed()).into()),
            StatValue::Bytes(_) => return,
        };
        let raw = match stat.value {
            Some(StatValue::Unsigned(number)) => Some(number.cast_signed()),
            Some(StatValue::Signed(number)) => Some(number),
            _ => None,
        };
        match name {
            "_pt" => self.produced[0] = raw,
            "_p" => self.produced[1] = raw,
            "_ct" => self.consumed[0] = raw,
            "_c" => self.consumed[1] = raw,
            // Other names with this prefix are XProf's own.
            _ if name.is_empty() || name.starts_with('_') => {}
            // Arguments of the event take precedence over those of its kind.
            _ if self.values.iter().any(|(own, _)| *own == name) => {}
            _ => {
                match (name, &value) {
                    (HLO_OPERATOR, ArgumentValue::Text(text)) => self.operator = Some(text.clone()),
                    ("hlo_module", ArgumentValue::Text(text)) => self.module = Some(text.clone()),
                    // Program IDs of TPUs use all 64 bits.
                    ("program_id", _) => self.program = raw,
                    _ => {}
                }
                self.values.push((name, value));
            }
        }
    }

    /// Arguments as values of the trace, with the long name of the kind if any.
    fn values(&self) -> Vec<(&'a str, Value<'_>)> {
        let own = self.values.iter().map(|(name, value)| {
            let value = match value {
                ArgumentValue::Int(number) => Value::Int(Some(*number)),
                ArgumentValue::Float(number) => Value::Float(Some(*number)),
                ArgumentValue::Text(text) => Value::Text(text),
            };
            (*name, value)
        });
        own.chain(self.long_name.map(|name| ("long_name", Value::Text(name)))).collect()
    }
}

/// Producing and consuming events of XProf's contexts, to link them by arrows. XProf writes a kind and a number at
/// both; numbers are reused.
#[derive(Default)]
pub(super) struct Contexts {
    /// Producing events, with their starts in ns.
    produced: FxHashMap<(i64, i64), Vec<(i64, EventId)>>,
    consumed: Vec<((i64, i64), i64, EventId)>,
}

impl Contexts {
    /// Store an event as producer and consumer of the contexts in its arguments.
    fn note(&mut self, arguments: &Arguments<'_>, event: EventId, start: i64) {
        if let [Some(kind), Some(number)] = arguments.produced {
            self.produced.entry((kind, number)).or_default().push((start, event));
        }
        if let [Some(kind), Some(number)] = arguments.consumed {
            self.consumed.push(((kind, number), start, event));
        }
    }

    /// Add arrows from the last earlier producer to each consumer. Contexts from before the profile have no producer.
    pub(super) fn link(mut self, trace: &mut Trace) {
        let category = trace.strings.intern(CONTEXT_FLOW);
        self.produced.values_mut().for_each(|events| events.sort_unstable());
        let mut links = Vec::new();
        for (context, start, to) in self.consumed {
            let before = self
                .produced
                .get(&context)
                .map_or(&[][..], |events| &events[..events.partition_point(|&(at, event)| (at, event) < (start, to))]);
            if let Some(&(_, from)) = before.last() {
                links.push((from, to, category));
            }
        }
        trace.links.set(LinkKind::Flow, links);
    }
}
