//! Builder that appends rows of tables and binary formats to a trace as events.

use crate::diagnostics;
use stackline_model::{AttrType, AttrValue, EventId, EventKind, NewEvent, Phase, StrId, StringTable, Trace, TrackId};

/// Number of rows between two checks for a stop request.
pub(crate) const ROWS_BETWEEN_CHECKS: u32 = 4096;
/// Limit on times in ns (the year 2065 as epoch time); larger ones are invalid.
pub(crate) const MAX_NS: i64 = 3_000_000_000_000_000_000;

/// Value of an event argument.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Value<'a> {
    Int(Option<i64>),
    Float(Option<f64>),
    Text(&'a str),
    Json(&'a str),
}

/// Fields of a new event except its offset, which is the number of earlier rows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NewRow {
    /// Start in ns since the trace's base.
    pub(crate) start: i64,
    /// Duration in ns.
    pub(crate) dur: i64,
    pub(crate) track: TrackId,
    pub(crate) name: StrId,
    pub(crate) category: StrId,
    pub(crate) kind: EventKind,
    pub(crate) phase: Phase,
    pub(crate) flags: u8,
}

/// Builder that appends rows with their arguments to a trace.
#[derive(Debug, Default)]
pub(crate) struct Appender {
    fields: Vec<(StrId, AttrType)>,
    values: Vec<u64>,
    recurring: RecurringTexts,
}

/// Cache of the last string ID of each column, for texts that mostly recur from row to row.
#[derive(Debug, Default)]
pub(crate) struct RecurringTexts(Vec<StrId>);

impl RecurringTexts {
    /// Intern a text, without a search if the previous row had the same text in this column (`place`).
    #[inline]
    pub(crate) fn intern(&mut self, strings: &mut StringTable, place: usize, text: &str) -> StrId {
        if let Some(known) = self.0.get(place).and_then(|known| known.some())
            && strings.get(known) == text
        {
            return known;
        }
        if self.0.len() <= place {
            self.0.resize(place + 1, StrId::NONE);
        }
        self.0[place] = strings.intern(text);
        self.0[place]
    }
}

impl Appender {
    /// Append a row; arguments without a value are omitted.
    pub(crate) fn push(&mut self, trace: &mut Trace, row: NewRow, arguments: &[(&str, Value<'_>)]) -> EventId {
        let source_index = u32::try_from(trace.report.records).unwrap_or(u32::MAX);
        trace.report.records += 1;
        self.fields.clear();
        self.values.clear();
        for (place, (key, value)) in arguments.iter().enumerate() {
            let value = match *value {
                Value::Int(value) => value.map(AttrValue::Int),
                Value::Float(value) => value.map(AttrValue::Float),
                Value::Text(text) => Some(AttrValue::Str(trace.strings.intern(text))),
                Value::Json(text) => Some(AttrValue::Json(trace.strings.intern(text))),
            };
            if let Some((kind, raw)) = value.map(AttrValue::to_raw) {
                self.fields.push((self.recurring.intern(&mut trace.strings, place, key), kind));
                self.values.push(raw);
            }
        }
        let NewRow { start, dur, track, name, category, kind, phase, flags } = row;
        let id = trace.events.push(NewEvent { start, dur, track, name, category, kind, phase, flags, source_index });
        if !trace.attrs.push(&self.fields, &self.values) {
            diagnostics::TABLE_FULL.count(&mut trace.report, None, "");
        }
        id
    }
}
