//! Arguments of events, without loss. A layout (keys and types) that many events share is stored once, so an attribute
//! takes eight bytes.

use crate::{AttrLayoutId, EventId, StrId, StringTable};
use hashbrown::HashTable;
use rustc_hash::FxHasher;
use std::hash::{Hash, Hasher};

/// Type of an attribute's eight bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum AttrType {
    /// JSON `null`, or a value that could not be read (counted in the read report).
    Null = 0,
    /// `true` or `false`.
    Bool = 1,
    /// An integer that fits `i64`.
    Int = 2,
    /// An integer above `i64::MAX` that fits `u64` (NCCL communicator ids).
    Uint = 3,
    /// A number with fraction or exponent.
    Float = 4,
    /// Text.
    Str = 5,
    /// An array, an object, or a number beyond 64 bits, as compact JSON text.
    Json = 6,
}

impl AttrType {
    /// Attribute type with this discriminant; `None` for an unknown number.
    pub fn from_u8(value: u8) -> Option<Self> {
        [Self::Null, Self::Bool, Self::Int, Self::Uint, Self::Float, Self::Str, Self::Json].get(value as usize).copied()
    }
}

/// One attribute value. Text is interned in the trace's [`StringTable`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum AttrValue {
    /// See [`AttrType::Null`].
    Null,
    /// See [`AttrType::Bool`].
    Bool(bool),
    /// See [`AttrType::Int`].
    Int(i64),
    /// See [`AttrType::Uint`].
    Uint(u64),
    /// See [`AttrType::Float`].
    Float(f64),
    /// See [`AttrType::Str`].
    Str(StrId),
    /// See [`AttrType::Json`].
    Json(StrId),
}

impl AttrValue {
    /// Type and payload of an attribute value as they are stored.
    pub fn to_raw(self) -> (AttrType, u64) {
        match self {
            Self::Null => (AttrType::Null, 0),
            Self::Bool(b) => (AttrType::Bool, u64::from(b)),
            Self::Int(i) => (AttrType::Int, i as u64),
            Self::Uint(u) => (AttrType::Uint, u),
            Self::Float(f) => (AttrType::Float, f.to_bits()),
            Self::Str(s) => (AttrType::Str, u64::from(s.0)),
            Self::Json(s) => (AttrType::Json, u64::from(s.0)),
        }
    }

    /// Decode an attribute value from its type and stored payload, the inverse of [`Self::to_raw`].
    pub fn from_raw(kind: AttrType, raw: u64) -> Self {
        match kind {
            AttrType::Null => Self::Null,
            AttrType::Bool => Self::Bool(raw != 0),
            AttrType::Int => Self::Int(raw as i64),
            AttrType::Uint => Self::Uint(raw),
            AttrType::Float => Self::Float(f64::from_bits(raw)),
            AttrType::Str => Self::Str(StrId(raw as u32)),
            AttrType::Json => Self::Json(StrId(raw as u32)),
        }
    }

    /// Attribute value as an integer: integers that fit `i64`, Booleans as 0 or 1, and floats with an integral value
    /// below 9e15. `None` for all others.
    pub fn as_i64(self) -> Option<i64> {
        match self {
            Self::Int(i) => Some(i),
            Self::Bool(b) => Some(i64::from(b)),
            Self::Float(f) if f.fract() == 0.0 && f.abs() < 9.0e15 => Some(f as i64),
            _ => None,
        }
    }

    /// Attribute value as a float, if it is an integer or a float; `None` for Booleans, texts and null.
    pub fn as_f64(self) -> Option<f64> {
        match self {
            Self::Int(i) => Some(i as f64),
            Self::Uint(u) => Some(u as f64),
            Self::Float(f) => Some(f),
            _ => None,
        }
    }

    /// The interned text of a string or JSON value.
    pub fn text_id(self) -> Option<StrId> {
        match self {
            Self::Str(s) | Self::Json(s) => Some(s),
            _ => None,
        }
    }

    /// Text of an attribute value that is a string or JSON; `None` for other types.
    pub fn as_str(self, strings: &StringTable) -> Option<&str> {
        self.text_id().map(|s| strings.get(s))
    }
}

/// Layout of attributes: keys of an event's arguments in file order, with their types.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct AttrLayout {
    /// Key and type of each attribute, in file order.
    pub fields: Vec<(StrId, AttrType)>,
}

/// Attributes of all events: a layout and a range of values per event.
#[derive(Clone, Debug, Default)]
pub struct AttrTable {
    shapes: Vec<AttrLayout>,
    index: HashTable<u32>,
    /// Layout of each event.
    shape: Vec<AttrLayoutId>,
    /// Start of each event's values.
    offset: Vec<u32>,
    values: Vec<u64>,
}

/// Hash of a layout's keys and types, for the index of layouts.
fn hash(fields: &[(StrId, AttrType)]) -> u64 {
    let mut hasher = FxHasher::default();
    fields.hash(&mut hasher);
    hasher.finish()
}

impl AttrTable {
    /// Create an empty table of event attributes.
    pub fn new() -> Self {
        Self::default()
    }

    /// Rebuild a table from its columns (see [`Self::columns`]), after a check that they are consistent.
    pub fn from_columns(shapes: Vec<AttrLayout>, shape: Vec<AttrLayoutId>, values: Vec<u64>) -> Result<Self, String> {
        let mut table = Self { shapes, shape, values, ..Self::default() };
        let lengths: Vec<usize> = table.shapes.iter().map(|shape| shape.fields.len()).collect();
        let mut offset = 0usize;
        table.offset.reserve_exact(table.shape.len());
        for id in &table.shape {
            let length = lengths.get(id.index()).ok_or_else(|| {
                format!(
                    "the stored table of event arguments is inconsistent: it refers to layout {id:?}, which does \
                         not exist"
                )
            })?;
            table.offset.push(
                u32::try_from(offset)
                    .map_err(|_| "the table of event arguments has more than 2^32 values".to_owned())?,
            );
            offset += length;
        }
        if offset != table.values.len() {
            return Err(format!(
                "the stored table of event arguments is inconsistent: its events require {offset} values, but it has {}",
                table.values.len()
            ));
        }
        for (id, shape) in table.shapes.iter().enumerate() {
            let shapes = &table.shapes;
            table.index.insert_unique(hash(&shape.fields), id as u32, |&o| hash(&shapes[o as usize].fields));
        }
        Ok(table)
    }

    /// Layouts, layout per event, and all values in the order of events.
    pub fn columns(&self) -> (&[AttrLayout], &[AttrLayoutId], &[u64]) {
        (&self.shapes, &self.shape, &self.values)
    }

    /// Append the attributes of the next event. `false` if they were dropped, because the table is full (2^32 values).
    pub fn push(&mut self, fields: &[(StrId, AttrType)], values: &[u64]) -> bool {
        let fits = u32::try_from(self.values.len() + values.len()).is_ok();
        let (fields, values) = if fits { (fields, values) } else { (&[][..], &[][..]) };
        let shape = self.shape_id(fields);
        self.shape.push(shape);
        self.offset.push(self.values.len() as u32);
        self.values.extend_from_slice(values);
        fits
    }

    /// Add attributes to existing events: event, key, value, ascending by event. It copies the table, so call it once.
    pub fn append(&mut self, additions: &[(EventId, StrId, AttrValue)]) {
        if additions.is_empty() {
            return;
        }
        let mut rest = additions;
        let mut grown = Self::new();
        for row in 0..self.len() {
            let event = EventId::new(row);
            let (mut fields, mut values) = (Vec::new(), Vec::new());
            let count = rest.iter().take_while(|(e, ..)| *e == event).count();
            let (own, later) = rest.split_at(count);
            rest = later;
            for (key, value) in self.of_event(event).chain(own.iter().map(|&(_, key, value)| (key, value))) {
                let (kind, raw) = value.to_raw();
                fields.push((key, kind));
                values.push(raw);
            }
            grown.push(&fields, &values);
        }
        *self = grown;
    }

    /// Id of the layout with these keys and types, which is added if it is new.
    fn shape_id(&mut self, fields: &[(StrId, AttrType)]) -> AttrLayoutId {
        // Adjacent events often share a layout, so the previous one is compared before hashing.
        if let Some(&last) = self.shape.last()
            && self.shapes[last.index()].fields == fields
        {
            return last;
        }
        let Self { shapes, index, .. } = self;
        let hash_value = hash(fields);
        if let Some(&found) = index.find(hash_value, |&id| shapes[id as usize].fields == fields) {
            return AttrLayoutId(found);
        }
        let id = shapes.len() as u32;
        shapes.push(AttrLayout { fields: fields.to_vec() });
        index.insert_unique(hash_value, id, |&other| hash(&shapes[other as usize].fields));
        AttrLayoutId(id)
    }

    /// Number of events in the attribute table.
    pub fn len(&self) -> usize {
        self.shape.len()
    }

    /// True if the attribute table has no events.
    pub fn is_empty(&self) -> bool {
        self.shape.is_empty()
    }

    /// Key and value of each attribute of `event`, in file order.
    pub fn of_event(&self, event: EventId) -> impl ExactSizeIterator<Item = (StrId, AttrValue)> + '_ {
        let (fields, values) = match self.shape.get(event.index()) {
            Some(shape) => {
                let fields = &self.shapes[shape.index()].fields[..];
                let start = self.offset[event.index()] as usize;
                (fields, &self.values[start..start + fields.len()])
            }
            None => (&[][..], &[][..]),
        };
        fields.iter().zip(values).map(|(&(key, kind), &raw)| (key, AttrValue::from_raw(kind, raw)))
    }

    /// Random access to one key over all events. Empty if no event has it (`key` as found in the string table).
    pub fn column(&self, key: Option<StrId>) -> AttrColumn<'_> {
        // The last of duplicate keys wins, as in every JSON reader.
        let position = self
            .shapes
            .iter()
            .map(|s| key.and_then(|k| s.fields.iter().rposition(|&(f, _)| f == k)).map_or(NO_POSITION, |p| p as u32))
            .collect();
        AttrColumn { table: self, position }
    }
}

const NO_POSITION: u32 = u32::MAX;

/// Values of one attribute key over all events: see [`AttrTable::column`].
#[derive(Debug)]
pub struct AttrColumn<'a> {
    table: &'a AttrTable,
    position: Vec<u32>,
}

impl AttrColumn<'_> {
    /// Value at `event`; `None` if the event lacks the key or the value is null.
    pub fn get(&self, event: EventId) -> Option<AttrValue> {
        let shape = self.table.shape.get(event.index())?.index();
        let position = self.position[shape];
        if position == NO_POSITION {
            return None;
        }
        let (_, kind) = self.table.shapes[shape].fields[position as usize];
        let raw = self.table.values[(self.table.offset[event.index()] + position) as usize];
        Some(AttrValue::from_raw(kind, raw)).filter(|v| *v != AttrValue::Null)
    }

    /// Value of the attribute at an event as an integer ([`AttrValue::as_i64`]); `None` if missing or not an integer.
    pub fn i64(&self, event: EventId) -> Option<i64> {
        self.get(event)?.as_i64()
    }

    /// Value of the attribute at an event as a float ([`AttrValue::as_f64`]); `None` if missing or not a number.
    pub fn f64(&self, event: EventId) -> Option<f64> {
        self.get(event)?.as_f64()
    }

    /// Interned text of the attribute at an event; `None` if it is missing, or neither string nor JSON.
    pub fn text(&self, event: EventId) -> Option<StrId> {
        self.get(event)?.text_id()
    }

    /// True if at least one layout of attributes contains the key.
    pub fn exists(&self) -> bool {
        self.position.iter().any(|&p| p != NO_POSITION)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layouts_are_shared_and_values_survive_a_round_trip() {
        let mut strings = StringTable::new();
        let (a, b) = (strings.intern("a"), strings.intern("b"));
        let mut table = AttrTable::new();
        table.push(&[(a, AttrType::Int), (b, AttrType::Float)], &[7, 2.5f64.to_bits()]);
        table.push(&[], &[]);
        table.push(&[(a, AttrType::Int), (b, AttrType::Float)], &[-1i64 as u64, 0]);
        let column = table.column(Some(a));
        assert_eq!(column.i64(EventId(0)), Some(7));
        assert_eq!(column.i64(EventId(1)), None);
        assert_eq!(column.i64(EventId(2)), Some(-1));
        assert_eq!(column.i64(EventId(9)), None);
        assert!(!table.column(None).exists());
        let (shapes, shape, values) = table.columns();
        assert_eq!(shapes.len(), 2);
        let again = AttrTable::from_columns(shapes.to_vec(), shape.to_vec(), values.to_vec()).unwrap();
        assert_eq!(again.of_event(EventId(0)).collect::<Vec<_>>(), table.of_event(EventId(0)).collect::<Vec<_>>());
        assert!(AttrTable::from_columns(shapes.to_vec(), shape.to_vec(), vec![1]).is_err());
    }

    #[test]
    fn attributes_can_be_added_later() {
        let mut strings = StringTable::new();
        let (a, b) = (strings.intern("a"), strings.intern("b"));
        let mut table = AttrTable::new();
        table.push(&[(a, AttrType::Int)], &[7]);
        table.push(&[], &[]);
        table.append(&[(EventId(1), b, AttrValue::Int(5))]);
        assert_eq!(table.of_event(EventId(0)).collect::<Vec<_>>(), [(a, AttrValue::Int(7))]);
        assert_eq!(table.of_event(EventId(1)).collect::<Vec<_>>(), [(b, AttrValue::Int(5))]);
    }
}
