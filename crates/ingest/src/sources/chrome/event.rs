//! Parser of one record of the event list into a scratch record.

use super::builder::Builder;
use super::record::{Time, parse_number};
use crate::decimal::{parse_micros, whole_micros};
use crate::diagnostics::{self, Code};
use crate::scan::{Cursor, Fail, RawStr, RawValue};
use crate::text::dirt;
use stackline_model::{AttrValue, Key, ReadReport, StrId};

/// Limit on times in ns (the year 2065 as epoch time); sums and differences of smaller ones fit `i64`.
const MAX_START_NS: u64 = 3_000_000_000_000_000_000;
/// Limit on durations in ns (31 years); larger ones are overflowed counters.
const MAX_DURATION_NS: u64 = 1_000_000_000_000_000_000;

/// Reader of event records into the scratch record of a builder.
pub(super) struct EventReader<'b> {
    pub(super) builder: &'b mut Builder,
    /// Stream offset of the slice.
    pub(super) base: u64,
}

/// Limit on foreign text that is skipped in search of the next key, in bytes.
const FOREIGN_LIMIT: usize = 64 << 10;

impl EventReader<'_> {
    /// Read the object at the cursor into the builder's scratch record. Diagnostics go to `pending`, and the caller
    /// merges them once the record is complete (a record at the window's end is read again).
    pub(super) fn read(&mut self, cursor: &mut Cursor<'_>) -> Result<(), Fail> {
        self.builder.raw.clear();
        self.builder.pending.clear();
        cursor.at += 1;
        let mut seen = 0u32;
        while let Some(key) = self.next_key(cursor)? {
            self.member(cursor, key, &mut seen)?;
            self.expect_end_of_value(cursor)?;
        }
        Ok(())
    }

    /// Next key of an object, after commas and foreign text; `None` after the object's end.
    #[inline]
    fn next_key<'a>(&mut self, cursor: &mut Cursor<'a>) -> Result<Option<RawStr<'a>>, Fail> {
        loop {
            match cursor.peek()? {
                b'}' => {
                    cursor.at += 1;
                    return Ok(None);
                }
                b',' => {
                    cursor.at += 1;
                    if self.extra_commas(cursor)? == b'}' {
                        continue;
                    }
                }
                _ => {}
            }
            if let Some(key) = self.key(cursor)? {
                return Ok(Some(key));
            }
        }
    }

    /// Add a diagnostic of the current record, at a position in the slice.
    fn problem(&mut self, code: Code, at: usize) {
        self.builder.pending.push((code, self.base + at as u64));
    }

    /// Skip extra commas, and return the byte that follows.
    #[inline]
    fn extra_commas(&mut self, cursor: &mut Cursor<'_>) -> Result<u8, Fail> {
        match cursor.peek()? {
            b',' | b'}' => self.skip_commas(cursor),
            other => Ok(other),
        }
    }

    /// Skip and count extra commas, and return the byte that follows.
    #[cold]
    fn skip_commas(&mut self, cursor: &mut Cursor<'_>) -> Result<u8, Fail> {
        loop {
            match cursor.peek()? {
                b',' => {
                    self.problem(diagnostics::EXTRA_COMMA, cursor.at);
                    cursor.at += 1;
                }
                b'}' => {
                    self.problem(diagnostics::EXTRA_COMMA, cursor.at);
                    return Ok(b'}');
                }
                other => return Ok(other),
            }
        }
    }

    /// Read the next key; `None` if foreign text was skipped instead.
    #[inline]
    fn key<'a>(&mut self, cursor: &mut Cursor<'a>) -> Result<Option<RawStr<'a>>, Fail> {
        match cursor.key() {
            Ok((key, repaired)) => {
                if repaired {
                    self.problem(diagnostics::MISSING_QUOTE, cursor.at);
                }
                Ok(Some(key))
            }
            Err(Fail::End) => Err(Fail::End),
            Err(Fail::Bad(_)) => self.skip_foreign(cursor).map(|()| None),
        }
    }

    /// Skip and count foreign text, up to the next key or the end of the object.
    #[cold]
    fn skip_foreign(&mut self, cursor: &mut Cursor<'_>) -> Result<(), Fail> {
        let from = cursor.at;
        // A quote without a key would be found again: skip the quote.
        if cursor.bytes.get(cursor.at) == Some(&b'"') {
            cursor.at += 1;
        }
        cursor.skip_to_key(FOREIGN_LIMIT)?;
        self.problem(diagnostics::FOREIGN_TEXT, from);
        Ok(())
    }

    /// Skip foreign text between a value and the next comma or the end of the object.
    #[inline]
    fn expect_end_of_value(&mut self, cursor: &mut Cursor<'_>) -> Result<(), Fail> {
        match cursor.peek()? {
            b',' | b'}' => Ok(()),
            _ => self.skip_foreign(cursor),
        }
    }

    /// Read the value of a record's member into the scratch record. `seen` has a bit for each member so far.
    fn member(&mut self, cursor: &mut Cursor<'_>, key: RawStr<'_>, seen: &mut u32) -> Result<(), Fail> {
        if key.escaped {
            let (text, _) = crate::text::decode(key.raw);
            let plain = RawStr { raw: text.as_bytes(), escaped: false, bare_quotes: false };
            return self.member(cursor, plain, seen);
        }
        let bit = match key.raw {
            b"ph" => 0,
            b"cat" => 1,
            b"name" => 2,
            b"pid" => 3,
            b"tid" => 4,
            b"ts" => 5,
            b"dur" => 6,
            b"args" => 7,
            b"id" => 8,
            b"sf" => 9,
            b"id2" => return self.scoped_id(cursor),
            _ => return self.extra(cursor, key),
        };
        if *seen & (1 << bit) != 0 {
            self.problem(diagnostics::DUPLICATE_KEY, cursor.at);
            if bit == 7 {
                self.forget_args();
            }
        }
        *seen |= 1 << bit;
        if bit == 7 && cursor.peek()? == b'{' {
            let from = self.builder.raw.fields.len();
            self.args(cursor)?;
            self.builder.raw.args = from..self.builder.raw.fields.len();
            return Ok(());
        }
        let at = cursor.at;
        let value = cursor.value()?;
        match bit {
            0 => self.builder.raw.head.phase = phase_letter(value),
            1 => self.builder.raw.head.category = self.text(value, at),
            2 => self.builder.raw.head.name = self.text(value, at),
            3 => self.builder.raw.head.pid = self.id_key(value, at),
            4 => self.builder.raw.head.tid = self.id_key(value, at),
            5 => self.builder.raw.head.ts = self.time(value, at, MAX_START_NS),
            6 => self.builder.raw.head.dur = self.time(value, at, MAX_DURATION_NS),
            7 => {
                let value = self.attr_value(value, at);
                self.push_extra(b"args", value);
            }
            8 => self.builder.raw.head.id = self.id_key(value, at),
            _ => self.builder.raw.head.stack = self.id_key(value, at),
        }
        Ok(())
    }

    /// Drop the arguments of the record read so far: a second `args` object follows, and the last one is valid.
    #[cold]
    fn forget_args(&mut self) {
        let range = std::mem::take(&mut self.builder.raw.args);
        self.builder.raw.fields.drain(range.clone());
        self.builder.raw.values.drain(range);
    }

    /// Read `id2`: an ID with its scope, `{"local": ..}` (within the process) or `{"global": ..}`. The original value
    /// is kept, too.
    #[cold]
    fn scoped_id(&mut self, cursor: &mut Cursor<'_>) -> Result<(), Fail> {
        let mut ahead = Cursor { bytes: cursor.bytes, at: cursor.at };
        let is_object = ahead.peek()? == b'{';
        let plain = RawStr { raw: b"id2", escaped: false, bare_quotes: false };
        self.extra(cursor, plain)?;
        ahead.at += 1;
        if is_object && let Ok((scope, _)) = ahead.key() {
            let at = ahead.at;
            let value = ahead.value()?;
            self.builder.raw.head.id = self.id_key(value, at);
            self.builder.raw.head.id_is_local = scope.raw == b"local";
        }
        Ok(())
    }

    /// Read the value of an unknown member as the attribute `$KEY` of the scratch record.
    fn extra(&mut self, cursor: &mut Cursor<'_>, key: RawStr<'_>) -> Result<(), Fail> {
        cursor.peek()?;
        let at = cursor.at;
        let value = cursor.value()?;
        let value = self.attr_value(value, at);
        self.push_extra(key.raw, value);
        Ok(())
    }

    /// Append the attribute `$KEY` to the scratch record.
    fn push_extra(&mut self, key: &[u8], value: AttrValue) {
        let builder = &mut *self.builder;
        let id = builder.keys.outer(key, &mut builder.trace.strings);
        builder.raw.push(id, value);
    }

    /// Read the members of an event's `args` object as attributes.
    fn args(&mut self, cursor: &mut Cursor<'_>) -> Result<(), Fail> {
        cursor.at += 1;
        while let Some(key) = self.next_key(cursor)? {
            let builder = &mut *self.builder;
            let (id, marks) = builder.keys.intern(key, &mut builder.text, &mut builder.trace.strings);
            cursor.peek()?;
            let at = cursor.at;
            if marks != 0 {
                self.dirty(marks, at);
            }
            let value = cursor.value()?;
            let value = self.attr_value(value, at);
            self.builder.raw.push(id, value);
            self.expect_end_of_value(cursor)?;
        }
        Ok(())
    }

    /// Attribute for a JSON value; text that is not JSON is counted, and a value such as `nan` becomes null.
    #[inline]
    fn attr_value(&mut self, value: RawValue<'_>, at: usize) -> AttrValue {
        match value {
            RawValue::Int(value) => AttrValue::Int(value),
            RawValue::Number(text) => self.number(text),
            RawValue::Str(raw) => AttrValue::Str(self.string(raw, at)),
            RawValue::Json(raw) => {
                let builder = &mut *self.builder;
                let (id, marks) = builder.text.json(&mut builder.trace.strings, raw);
                if marks != 0 {
                    self.dirty(marks, at);
                }
                if marks & dirt::NOT_JSON == 0 { AttrValue::Json(id) } else { AttrValue::Str(id) }
            }
            RawValue::Bool(b) => AttrValue::Bool(b),
            RawValue::Null => AttrValue::Null,
            RawValue::Odd(text) => {
                self.problem(if text.is_empty() { diagnostics::MISSING_VALUE } else { diagnostics::ODD_VALUE }, at);
                AttrValue::Null
            }
        }
    }

    /// Attribute for the text of a number; an integer beyond 64 bits stays text.
    #[inline]
    fn number(&mut self, text: &[u8]) -> AttrValue {
        parse_number(text).unwrap_or_else(|| {
            let text = String::from_utf8_lossy(text);
            AttrValue::Json(self.builder.trace.strings.intern(&text))
        })
    }

    /// Intern a string, and add diagnostics of its repairs.
    #[inline]
    fn string(&mut self, raw: RawStr<'_>, at: usize) -> StrId {
        let builder = &mut *self.builder;
        let (id, marks) = builder.text.string(&mut builder.trace.strings, raw);
        if raw.bare_quotes {
            self.problem(diagnostics::BARE_QUOTE, at);
        }
        if marks != 0 {
            self.dirty(marks, at);
        }
        id
    }

    /// Add the diagnostics for the repairs of a text (bits of [`dirt`]).
    #[cold]
    fn dirty(&mut self, marks: u8, at: usize) {
        for code in codes_of(marks) {
            self.problem(code, at);
        }
    }

    /// Intern a JSON value as text, for names and categories of events.
    #[inline]
    fn text(&mut self, value: RawValue<'_>, at: usize) -> StrId {
        match value {
            RawValue::Str(raw) => self.string(raw, at),
            RawValue::Number(text) | RawValue::Json(text) => {
                let text = String::from_utf8_lossy(text);
                self.builder.trace.strings.intern(&text)
            }
            RawValue::Int(value) => self.builder.trace.strings.intern(&value.to_string()),
            RawValue::Bool(b) => self.builder.trace.strings.intern(if b { "true" } else { "false" }),
            RawValue::Null => StrId::NONE,
            RawValue::Odd(text) => {
                self.problem(if text.is_empty() { diagnostics::MISSING_VALUE } else { diagnostics::ODD_VALUE }, at);
                StrId::NONE
            }
        }
    }

    /// Convert the id of a process, thread or flow to a key.
    #[inline]
    fn id_key(&mut self, value: RawValue<'_>, at: usize) -> Key {
        match value {
            RawValue::Int(value) => Key::Int(value),
            RawValue::Number(text) => match parse_number(text).and_then(AttrValue::as_i64) {
                Some(number) => Key::Int(number),
                None => Key::Str(self.text(value, at)),
            },
            other => self.text(other, at).some().map_or(Key::None, Key::Str),
        }
    }

    /// Time in ns from a JSON value in µs; invalid and larger than `limit` (in ns) counts as bad.
    #[inline]
    fn time(&mut self, value: RawValue<'_>, at: usize, limit: u64) -> Time {
        let parsed = match value {
            RawValue::Int(micros) => whole_micros(micros),
            RawValue::Number(text) => parse_micros(text),
            RawValue::Str(raw) => {
                self.problem(diagnostics::TIME_AS_TEXT, at);
                parse_micros(raw.raw)
            }
            RawValue::Null => return Time::Missing,
            _ => None,
        };
        match parsed {
            Some(nanos) if nanos.ns.unsigned_abs() <= limit => {
                if nanos.was_ns {
                    self.problem(diagnostics::TIME_IN_NS, at);
                }
                Time::At(nanos)
            }
            _ => {
                self.problem(diagnostics::BAD_TIME, at);
                Time::Bad
            }
        }
    }
}

/// Diagnostics for the repairs of a text (bits of [`dirt`]).
pub(super) fn codes_of(marks: u8) -> impl Iterator<Item = Code> {
    let codes = [
        (dirt::INVALID_UTF8, diagnostics::INVALID_UTF8),
        (dirt::CONTROL, diagnostics::CONTROL),
        (dirt::BACKSLASH, diagnostics::BACKSLASH),
        (dirt::NOT_JSON, diagnostics::NOT_JSON_ARG),
    ];
    codes.into_iter().filter(move |(bit, _)| marks & bit != 0).map(|(_, code)| code)
}

/// Phase letter of a record; 0 if the value is not a text.
fn phase_letter(value: RawValue<'_>) -> u8 {
    match value {
        RawValue::Str(raw) if raw.escaped => crate::text::decode(raw.raw).0.bytes().next().unwrap_or(0),
        RawValue::Str(raw) => raw.raw.first().copied().unwrap_or(0),
        _ => 0,
    }
}

/// Add the diagnostics of a complete record to the report.
pub(super) fn merge(report: &mut ReadReport, pending: &mut Vec<(Code, u64)>, example: &str) {
    for (code, offset) in pending.drain(..) {
        code.count(report, Some(offset), example);
    }
}
