//! Planes: the data of one device or host, with the names to which its events refer by number.

use super::fields::{Fields, Value};
use prost::Message;
use rustc_hash::FxHashMap;

/// An argument of an event, or a property of a plane (`XStat`).
#[derive(Clone, PartialEq, Message)]
pub(super) struct Stat {
    /// Number of the name.
    #[prost(int64, tag = "1")]
    pub(super) name: i64,
    #[prost(oneof = "StatValue", tags = "2, 3, 4, 5, 6, 7")]
    pub(super) value: Option<StatValue>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
pub(super) enum StatValue {
    #[prost(double, tag = "2")]
    Float(f64),
    #[prost(uint64, tag = "3")]
    Unsigned(u64),
    #[prost(int64, tag = "4")]
    Signed(i64),
    /// Text as bytes, because C++ names are not always UTF-8.
    #[prost(bytes = "vec", tag = "5")]
    Text(Vec<u8>),
    #[prost(bytes = "vec", tag = "6")]
    Bytes(Vec<u8>),
    /// A text among the names, by number.
    #[prost(uint64, tag = "7")]
    Name(u64),
}

/// Common data of events of a kind (`XEventMetadata`).
#[derive(Clone, PartialEq, Message)]
pub(super) struct EventKindMessage {
    #[prost(bytes = "vec", tag = "2")]
    name: Vec<u8>,
    #[prost(bytes = "vec", tag = "4")]
    display_name: Vec<u8>,
    #[prost(message, repeated, tag = "5")]
    stats: Vec<Stat>,
}

#[derive(Clone, PartialEq, Message)]
struct NameMessage {
    #[prost(bytes = "vec", tag = "2")]
    name: Vec<u8>,
}

/// An event (`XEvent`).
#[derive(Clone, PartialEq, Message)]
pub(super) struct EventMessage {
    /// Number of the kind.
    #[prost(int64, tag = "1")]
    pub(super) kind: i64,
    #[prost(oneof = "At", tags = "2, 5")]
    pub(super) at: Option<At>,
    #[prost(int64, tag = "3")]
    pub(super) duration_ps: i64,
    #[prost(message, repeated, tag = "4")]
    pub(super) stats: Vec<Stat>,
}

#[derive(Clone, Copy, PartialEq, prost::Oneof)]
pub(super) enum At {
    /// Offset from the line's start, in ps.
    #[prost(int64, tag = "2")]
    OffsetPs(i64),
    /// Number of occurrences of an event that represents several and has no time.
    #[prost(int64, tag = "5")]
    Occurrences(i64),
}

/// Common data of all events of a kind: names and arguments.
#[derive(Clone, Debug, Default)]
pub(super) struct Kind {
    pub(super) name: String,
    /// Long form of a name that has a short one, as XLA operators have on TPUs.
    pub(super) long_name: Option<String>,
    pub(super) stats: Vec<Stat>,
}

/// A thread or stream (`XLine`) with undecoded events.
#[derive(Debug, Default)]
pub(super) struct Line<'a> {
    pub(super) id: i64,
    pub(super) name: String,
    /// Origin of its events' times, in ns.
    pub(super) began_ns: i64,
    pub(super) events: Vec<&'a [u8]>,
    /// True if a part of it is not a valid field, although it is complete.
    pub(super) is_damaged: bool,
}

impl<'a> Line<'a> {
    /// Parse a line of a plane. `is_whole` is false for a message that the end of the file cuts, which is not damage.
    fn parse(message: &'a [u8], is_whole: bool) -> Self {
        let mut line = Self::default();
        let mut display_name = String::new();
        let mut fields = Fields::new(message);
        for field in fields.by_ref() {
            match field {
                (1, Value::Number(id)) => line.id = id.cast_signed(),
                (2, Value::Bytes(name)) => line.name = text(name),
                (3, Value::Number(ns)) => line.began_ns = ns.cast_signed(),
                (4, Value::Bytes(event)) => line.events.push(event),
                (11, Value::Bytes(name)) => display_name = text(name),
                _ => {}
            }
        }
        if !display_name.is_empty() {
            line.name = display_name;
        }
        line.is_damaged = is_whole && !fields.is_whole();
        line
    }
}

/// A plane: a host or a device (`XPlane`).
#[derive(Debug, Default)]
pub(super) struct Plane<'a> {
    pub(super) name: String,
    pub(super) lines: Vec<Line<'a>>,
    pub(super) kinds: FxHashMap<i64, Kind>,
    names: FxHashMap<i64, Box<str>>,
    pub(super) stats: Vec<Stat>,
    /// Number of unreadable parts.
    pub(super) damaged: u64,
}

/// Convert bytes to text, with U+FFFD in place of invalid UTF-8.
pub(super) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

impl<'a> Plane<'a> {
    /// Parse a plane from its protobuf message; unreadable parts are counted.
    pub(super) fn parse(message: &'a [u8]) -> Self {
        let mut plane = Self::default();
        let mut fields = Fields::new(message);
        let mut is_cut = false;
        for (number, value) in fields.by_ref() {
            is_cut |= matches!(value, Value::Cut(_));
            match (number, value) {
                (2, Value::Bytes(name)) => plane.name = text(name),
                (3, Value::Bytes(line)) => plane.lines.push(Line::parse(line, true)),
                (3, Value::Cut(line)) => plane.lines.push(Line::parse(line, false)),
                (4, Value::Bytes(entry)) => plane.kind(entry),
                (5, Value::Bytes(entry)) => plane.named(entry),
                (6, Value::Bytes(stat)) => match Stat::decode(stat) {
                    Ok(stat) => plane.stats.push(stat),
                    Err(_) => plane.damaged += 1,
                },
                _ => {}
            }
        }
        plane.damaged += u64::from(!fields.is_whole() && !is_cut);
        plane
    }

    /// Add an entry of the plane's map of event kinds by number; unreadable entries are counted as damaged.
    fn kind(&mut self, entry: &[u8]) {
        let Some((key, Ok(kind))) = map_entry(entry).map(|(key, value)| (key, EventKindMessage::decode(value))) else {
            self.damaged += 1;
            return;
        };
        let (name, display) = (text(&kind.name), text(&kind.display_name));
        let has_both = !display.is_empty() && display != name;
        let (name, long_name) = if has_both { (display, Some(name)) } else { (name, None) };
        self.kinds.insert(key, Kind { name, long_name: long_name.filter(|n| !n.is_empty()), stats: kind.stats });
    }

    /// Add an entry of the plane's map of argument names by number; unreadable entries are counted as damaged.
    fn named(&mut self, entry: &[u8]) {
        match map_entry(entry).map(|(key, value)| (key, NameMessage::decode(value))) {
            Some((key, Ok(name))) => {
                self.names.insert(key, text(&name.name).into());
            }
            _ => self.damaged += 1,
        }
    }

    /// Name of an argument or property by its number; empty if the plane has none.
    pub(super) fn name_of(&self, number: i64) -> &str {
        self.names.get(&number).map_or("", |name| name)
    }

    /// Value of the plane's property with this name.
    pub(super) fn stat(&self, name: &str) -> Option<&StatValue> {
        self.stats.iter().find(|stat| self.name_of(stat.name) == name)?.value.as_ref()
    }

    /// Integer value of the plane's property with this name; `None` if the property is missing or has another type.
    pub(super) fn int(&self, name: &str) -> Option<i64> {
        match self.stat(name)? {
            StatValue::Unsigned(number) => i64::try_from(*number).ok(),
            StatValue::Signed(number) => Some(*number),
            StatValue::Float(_) | StatValue::Text(_) | StatValue::Bytes(_) | StatValue::Name(_) => None,
        }
    }

    /// Value of the plane's property with this name as a floating-point number, also from an integer; `None` for texts.
    pub(super) fn float(&self, name: &str) -> Option<f64> {
        match self.stat(name)? {
            StatValue::Float(number) => Some(*number),
            StatValue::Unsigned(number) => Some(*number as f64),
            StatValue::Signed(number) => Some(*number as f64),
            StatValue::Text(_) | StatValue::Bytes(_) | StatValue::Name(_) => None,
        }
    }

    /// Text value of the plane's property with this name; `None` if the property is missing or has another type.
    pub(super) fn words(&self, name: &str) -> Option<String> {
        match self.stat(name)? {
            StatValue::Text(bytes) => Some(text(bytes)),
            StatValue::Name(number) => Some(self.name_of(number.cast_signed()).to_owned()),
            StatValue::Float(_) | StatValue::Unsigned(_) | StatValue::Signed(_) | StatValue::Bytes(_) => None,
        }
    }
}

/// Decode the integer key and the bytes of the value of a protobuf map entry; `None` if the entry is damaged.
fn map_entry(entry: &[u8]) -> Option<(i64, &[u8])> {
    let (mut key, mut message) = (0, &[][..]);
    let mut fields = Fields::new(entry);
    for field in fields.by_ref() {
        match field {
            (1, Value::Number(number)) => key = number.cast_signed(),
            (2, Value::Bytes(bytes)) => message = bytes,
            _ => {}
        }
    }
    fields.is_whole().then_some((key, message))
}
