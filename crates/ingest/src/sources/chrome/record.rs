//! Scratch record of the event reader, and data shared by all records.

use crate::decimal::Nanos;
use crate::scan::RawStr;
use crate::text::TextReader;
use stackline_model::{AttrType, AttrValue, Key, StrId, StringTable};

/// Time field of a record: missing, invalid or valid.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Time {
    /// The record has no time.
    #[default]
    Missing,
    /// The time is not a number, or does not fit.
    Bad,
    /// A valid time.
    At(Nanos),
}

/// Members that every record may have: phase, name, category, IDs and times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RecordHead {
    /// Phase letter; 0 if there is none.
    pub(super) phase: u8,
    pub(super) name: StrId,
    pub(super) category: StrId,
    pub(super) pid: Key,
    pub(super) tid: Key,
    pub(super) ts: Time,
    pub(super) dur: Time,
    pub(super) id: Key,
    /// True if the ID is only valid within its process (`id2: {"local": ..}`).
    pub(super) id_is_local: bool,
    pub(super) stack: Key,
}

impl RecordHead {
    /// Head of a record without members.
    pub(super) const EMPTY: Self = Self {
        phase: 0,
        name: StrId::NONE,
        category: StrId::NONE,
        pid: Key::None,
        tid: Key::None,
        ts: Time::Missing,
        dur: Time::Missing,
        id: Key::None,
        id_is_local: false,
        stack: Key::None,
    };
}

/// An undecoded record; reused for all records.
#[derive(Debug)]
pub(super) struct RawEvent {
    pub(super) head: RecordHead,
    /// Attributes: the members of `args`, then other members of the record with `$` before their name.
    pub(super) fields: Vec<(StrId, AttrType)>,
    pub(super) values: Vec<u64>,
    /// Range of the attributes from `args`.
    pub(super) args: std::ops::Range<usize>,
}

impl Default for RawEvent {
    fn default() -> Self {
        Self { head: RecordHead::EMPTY, fields: Vec::new(), values: Vec::new(), args: 0..0 }
    }
}

impl RawEvent {
    /// Remove all members of the record.
    pub(super) fn clear(&mut self) {
        self.head = RecordHead::EMPTY;
        self.fields.clear();
        self.values.clear();
        self.args = 0..0;
    }

    /// Append an attribute to the record.
    pub(super) fn push(&mut self, key: StrId, value: AttrValue) {
        let (kind, raw) = value.to_raw();
        self.fields.push((key, kind));
        self.values.push(raw);
    }
}

/// Cache of string numbers of argument keys, which repeat from event to event.
pub(super) struct KeyCache {
    slots: Vec<StrId>,
    /// Cache for members of the record itself, whose string numbers are those of `$` and the key.
    outer: Vec<StrId>,
}

impl Default for KeyCache {
    fn default() -> Self {
        Self { slots: vec![StrId::NONE; 256], outer: vec![StrId::NONE; 64] }
    }
}

impl KeyCache {
    /// String number of a key, and the repairs of its text (bits of [`crate::text::dirt`]).
    #[inline]
    pub(super) fn intern(&mut self, key: RawStr<'_>, text: &mut TextReader, strings: &mut StringTable) -> (StrId, u8) {
        let raw = key.raw;
        let (first, last) = (raw.first().copied().unwrap_or(0), raw.last().copied().unwrap_or(0));
        let slot = (usize::from(first) * 7 + usize::from(last) * 13 + raw.len() * 31) & 255;
        let cached = self.slots[slot];
        if cached.is_some() && strings.get(cached).as_bytes() == raw && !key.escaped {
            return (cached, 0);
        }
        let (id, marks) = text.string(strings, key);
        // A repaired key is not cached, so that each repair is counted.
        if marks == 0 {
            self.slots[slot] = id;
        }
        (id, marks)
    }

    /// Interned name `$KEY` for a member of an event record outside of `args`.
    pub(super) fn outer(&mut self, key: &[u8], strings: &mut StringTable) -> StrId {
        let slot = (usize::from(key.first().copied().unwrap_or(0)) + key.len() * 31) & 63;
        let cached = self.outer[slot];
        if cached.is_some() && strings.get(cached).as_bytes().get(1..) == Some(key) {
            return cached;
        }
        let id = strings.intern(&format!("${}", String::from_utf8_lossy(key)));
        self.outer[slot] = id;
        id
    }
}

/// Parse a JSON number; `None` for an integer beyond 64 bits or text that is not a number.
#[inline]
pub(super) fn parse_number(text: &[u8]) -> Option<AttrValue> {
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    let negative = digits.len() < text.len();
    let text = std::str::from_utf8(text).ok()?;
    if let Ok(value) = text.parse::<i64>() {
        return Some(if negative && value == 0 { AttrValue::Float(-0.0) } else { AttrValue::Int(value) });
    }
    if let Ok(value) = text.parse::<u64>() {
        return Some(AttrValue::Uint(value));
    }
    let integral = digits.iter().all(u8::is_ascii_digit);
    text.parse::<f64>().ok().filter(|v| v.is_finite() && !integral).map(AttrValue::Float)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_keep_their_type_and_value() {
        assert_eq!(parse_number(b"10159970886766084423"), Some(AttrValue::Uint(10_159_970_886_766_084_423)));
        assert_eq!(parse_number(b"1750000000000000001"), Some(AttrValue::Int(1_750_000_000_000_000_001)));
        assert_eq!(parse_number(b"-9223372036854775808"), Some(AttrValue::Int(i64::MIN)));
        assert_eq!(parse_number(b"99999999999999999999"), None);
        assert_eq!(parse_number(b"0.25"), Some(AttrValue::Float(0.25)));
        assert_eq!(parse_number(b"1e3"), Some(AttrValue::Float(1000.0)));
        assert_eq!(parse_number(b"1e999"), None);
        assert_eq!(parse_number(b"1-2"), None);
    }
}
