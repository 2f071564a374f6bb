//! Compact table of plain data from pickles and JSON: numbers, strings, lists and dicts. Parts that the file shares are
//! stored once.

mod packed;

use hashbrown::HashTable;
use packed::Packed;
use rustc_hash::{FxBuildHasher, FxHashMap};
use stackline_model::{StrId, StringTable};
use std::hash::BuildHasher;

/// Reference of eight bytes to a parsed value, only meaningful together with the [`Values`] that contain it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Value(u64);

/// Number of a list, tuple or dict in [`Values`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(u32);

/// Type and content of a value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// `None`, `null`.
    None,
    /// A boolean.
    Bool(bool),
    /// An integer.
    Int(i128),
    /// A number with a fraction.
    Float(f64),
    /// A string.
    Text(StrId),
    /// Bytes as text, with U+FFFD in place of invalid UTF-8.
    Bytes(StrId),
    /// A list.
    List(NodeId),
    /// A tuple.
    Tuple(NodeId),
    /// A dict.
    Dict(NodeId),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NodeKind {
    List,
    Tuple,
    Dict,
}

/// A list, tuple or dict in eight bytes: a snapshot has one for each of millions of events.
#[derive(Clone, Copy, Debug)]
struct Node {
    start: u32,
    /// Kind and storage in the upper bits; number of items, or key set of a packed dict, in the lower bits.
    word: u32,
}

const COUNT_BITS: u32 = 28;
const MOST_ITEMS: u32 = (1 << COUNT_BITS) - 1;

impl Node {
    /// Create the node of a list or dict; `None` if the number of items does not fit.
    fn new(kind: NodeKind, storage: Storage, start: u32, count: u32) -> Option<Self> {
        let word = (kind as u32) << (COUNT_BITS + 2) | (storage as u32) << COUNT_BITS | count;
        (count <= MOST_ITEMS).then_some(Self { start, word })
    }

    fn kind(self) -> NodeKind {
        [NodeKind::List, NodeKind::Tuple, NodeKind::Dict][(self.word >> (COUNT_BITS + 2)).min(2) as usize]
    }

    fn storage(self) -> Storage {
        [Storage::Items, Storage::Long, Storage::Packed, Storage::Shared][(self.word >> COUNT_BITS & 3) as usize]
    }

    /// Number of items; for a packed dict the number of its key set.
    fn count(self) -> u32 {
        self.word & MOST_ITEMS
    }
}

/// Storage of the items of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Storage {
    /// In the table of all items; a dict has alternating keys and values.
    Items,
    /// In a separate list. A list that grows to millions of items would otherwise leave twice its size unused in the
    /// table.
    Long,
    /// Dict with shared keys and packed values.
    Packed,
    /// Like `Items`, shared by all lists with the same items and copied before it grows.
    Shared,
}

/// Identity of a list's stored items: equal for lists that share them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ItemsId {
    start: u32,
    word: u32,
}

/// Immutable items that lists share; a growing list first gets its own copy.
#[derive(Clone, Copy, Debug)]
struct SharedItems {
    start: u32,
    count: u32,
}

impl SharedItems {
    /// Items of this shared list, out of the table of all items.
    fn items_in(self, items: &[Value]) -> &[Value] {
        &items[self.start as usize..(self.start + self.count) as usize]
    }
}

/// Lists that outgrow their space with this many items get separate storage.
const LONG: u32 = 256;

/// Limit on the entries of a dict in which a key is searched.
const MOST_KEYS: usize = 4096;

const TAG_BITS: u32 = 3;
const TAG: u64 = (1 << TAG_BITS) - 1;
const CONSTANT: u64 = 0;
const INT: u64 = 1;
const WIDE: u64 = 2;
const FLOAT: u64 = 3;
const TEXT: u64 = 4;
const BYTES: u64 = 5;
const NODE: u64 = 6;

impl Value {
    /// `None`.
    pub const NONE: Self = Self(CONSTANT);
    /// `True`, `true`.
    pub(crate) const TRUE: Self = Self(CONSTANT | 2 << TAG_BITS);

    /// Value of a boolean.
    pub(super) fn bool(value: bool) -> Self {
        Self(CONSTANT | (1 + u64::from(value)) << TAG_BITS)
    }

    /// Value of an interned string.
    pub(super) fn text(id: StrId) -> Self {
        Self(TEXT | u64::from(id.0) << TAG_BITS)
    }

    /// Value of a byte string, interned as text.
    pub(super) fn bytes(id: StrId) -> Self {
        Self(BYTES | u64::from(id.0) << TAG_BITS)
    }

    /// Value of a tag and an index into the table of that tag.
    fn at(tag: u64, index: usize) -> Self {
        Self(tag | (index as u64) << TAG_BITS)
    }

    /// Bits above the tag: an index, a string number or a constant.
    fn payload(self) -> usize {
        (self.0 >> TAG_BITS) as usize
    }
}

impl From<NodeId> for Value {
    fn from(node: NodeId) -> Self {
        Self::at(NODE, node.0 as usize)
    }
}

/// Table of the parsed values of one document.
#[derive(Default, Debug)]
pub struct Values {
    /// All strings.
    pub strings: StringTable,
    nodes: Vec<Node>,
    /// Capacity of nodes whose capacity exceeds their items.
    rooms: FxHashMap<NodeId, u32>,
    items: Vec<Value>,
    /// Shared items, hashed by content.
    shared: HashTable<SharedItems>,
    wide: Vec<i128>,
    floats: Vec<f64>,
    long: Vec<Vec<Value>>,
    /// Number of items in `long`.
    long_items: usize,
    packed: Packed,
}

impl Values {
    /// Type and content of a value parsed from a pickle or JSON.
    pub fn kind(&self, value: Value) -> Kind {
        match value.0 & TAG {
            INT => Kind::Int(i128::from(value.0.cast_signed() >> TAG_BITS)),
            WIDE => Kind::Int(self.wide[value.payload()]),
            FLOAT => Kind::Float(self.floats[value.payload()]),
            TEXT => Kind::Text(StrId(value.payload() as u32)),
            BYTES => Kind::Bytes(StrId(value.payload() as u32)),
            NODE => {
                let node = NodeId(value.payload() as u32);
                match self.nodes[value.payload()].kind() {
                    NodeKind::List => Kind::List(node),
                    NodeKind::Tuple => Kind::Tuple(node),
                    NodeKind::Dict => Kind::Dict(node),
                }
            }
            _ if value == Value::NONE => Kind::None,
            _ => Kind::Bool(value.payload() == 2),
        }
    }

    /// Items of a list or tuple; use [`Self::entries`] for a dict.
    pub fn items(&self, node: NodeId) -> &[Value] {
        let node = self.nodes[node.0 as usize];
        let start = node.start as usize;
        match node.storage() {
            Storage::Items | Storage::Shared => &self.items[start..start + node.count() as usize],
            Storage::Long => &self.long[start],
            Storage::Packed => &[],
        }
    }

    /// Identity of a list's stored items, equal for lists that share them.
    pub(crate) fn items_id(&self, list: NodeId) -> ItemsId {
        let Node { start, word } = self.nodes[list.0 as usize];
        ItemsId { start, word }
    }

    /// Entries of a dict, in file order. Of duplicate keys the last entry is valid.
    pub fn entries(&self, dict: NodeId) -> impl DoubleEndedIterator<Item = (Value, Value)> + '_ {
        let node = self.nodes[dict.0 as usize];
        let is_packed = node.storage() == Storage::Packed;
        let packed = if is_packed { self.packed.entries(node.count(), node.start) } else { Vec::new() };
        self.items(dict).chunks_exact(2).map(|pair| (pair[0], pair[1])).chain(packed)
    }

    /// Value of a string key in a dict; `None` if missing. Only the last `MOST_KEYS` entries are searched, because a
    /// damaged file may refer to a large dict many times.
    pub fn get(&self, dict: NodeId, key: StrId) -> Option<Value> {
        let key_text = Value::text(key);
        let node = self.nodes[dict.0 as usize];
        if node.storage() == Storage::Packed {
            return self.packed.get(node.count(), node.start, key_text);
        }
        self.entries(dict).rev().take(MOST_KEYS).find(|(key, _)| *key == key_text).map(|(_, value)| value)
    }

    /// Number of items of all lists, tuples and dicts; shared items count once.
    pub(crate) fn item_count(&self) -> usize {
        self.items.len() + self.packed.items + self.long_items
    }

    /// Value of a string key in a parsed dict; `None` if the key is missing.
    pub fn find(&self, dict: NodeId, key: &str) -> Option<Value> {
        self.get(dict, self.strings.find(key)?)
    }

    /// Node of a value that is a list or tuple; `None` for other values.
    pub fn as_list(&self, value: Value) -> Option<NodeId> {
        match self.kind(value) {
            Kind::List(node) | Kind::Tuple(node) => Some(node),
            _ => None,
        }
    }

    /// Node of a value that is a dict; `None` for other values.
    pub(crate) fn as_dict(&self, value: Value) -> Option<NodeId> {
        if let Kind::Dict(node) = self.kind(value) { Some(node) } else { None }
    }

    /// String number of a value that is a string; `None` for other values.
    pub fn as_text(&self, value: Value) -> Option<StrId> {
        if let Kind::Text(text) = self.kind(value) { Some(text) } else { None }
    }

    /// Value as an integer, if it is one or a float without a fraction.
    pub fn as_int(&self, value: Value) -> Option<i128> {
        match self.kind(value) {
            Kind::Int(value) => Some(value),
            // Exact up to 2^53; above, floats have no fraction and convert as they are.
            Kind::Float(value) if value.is_finite() && value.fract() == 0.0 => Some(value as i128),
            _ => None,
        }
    }

    /// Memory of the table of parsed values, in bytes.
    pub fn memory(&self) -> u64 {
        let size_of_items = |count: usize, size: usize| (count * size) as u64;
        size_of_items(self.nodes.len(), size_of::<Node>())
            + size_of_items(self.items.len(), size_of::<Value>())
            + size_of_items(self.wide.len(), 16)
            + size_of_items(self.floats.len(), 8)
            + size_of_items(self.rooms.len(), 12)
            + size_of_items(self.shared.len(), size_of::<SharedItems>())
            + size_of_items(self.strings.len(), 16)
            + size_of_items(self.long_items, size_of::<Value>())
            + size_of_items(self.long.len(), size_of::<Vec<Value>>())
            + self.packed.memory()
    }

    /// Store an integer as a value; large ones go to a separate table.
    pub(super) fn int(&mut self, value: i128) -> Value {
        let inline = i64::try_from(value).ok().filter(|v| v << TAG_BITS >> TAG_BITS == *v);
        match inline {
            Some(value) => Value((value << TAG_BITS).cast_unsigned() | INT),
            None => {
                self.wide.push(value);
                Value::at(WIDE, self.wide.len() - 1)
            }
        }
    }

    /// Store a floating-point number as a value.
    pub(super) fn float(&mut self, value: f64) -> Value {
        self.floats.push(value);
        Value::at(FLOAT, self.floats.len() - 1)
    }

    /// Store a list, tuple or dict with these items; `None` if the table is full (2^32 items).
    pub(super) fn node(&mut self, kind: NodeKind, items: &[Value]) -> Option<NodeId> {
        let id = u32::try_from(self.nodes.len()).ok()?;
        if kind == NodeKind::Dict
            && let Some((keys, start)) = self.packed.add(items)
        {
            self.nodes.push(Node::new(kind, Storage::Packed, start, keys)?);
            return Some(NodeId(id));
        }
        let start = u32::try_from(self.items.len()).ok()?;
        let count = u32::try_from(items.len()).ok()?;
        start.checked_add(count)?;
        self.nodes.push(Node::new(kind, Storage::Items, start, count)?);
        self.items.extend_from_slice(items);
        Some(NodeId(id))
    }

    /// Fill an empty list with items that other lists may share, and return true if the list was shared. A snapshot has
    /// one call-path list per event, but few distinct ones. Longer lists, and lists of scalars, are seldom equal and
    /// are not shared.
    fn share(&mut self, list: NodeId, items: &[Value]) -> Option<bool> {
        let is_of_nodes = items.iter().all(|item| item.0 & TAG == NODE);
        if items.is_empty() || items.len() > LONG as usize || !is_of_nodes {
            return Some(false);
        }
        let hash = |items: &[Value]| FxBuildHasher.hash_one(items);
        let known = self.shared.find(hash(items), |known| known.items_in(&self.items) == items).copied();
        let shared = match known {
            Some(known) => known,
            None => {
                let start = u32::try_from(self.items.len()).ok()?;
                let count = u32::try_from(items.len()).ok()?;
                start.checked_add(count)?;
                self.items.extend_from_slice(items);
                let new = SharedItems { start, count };
                self.shared.insert_unique(hash(items), new, |known| hash(known.items_in(&self.items)));
                new
            }
        };
        self.nodes[list.0 as usize] = Node::new(NodeKind::List, Storage::Shared, shared.start, shared.count)?;
        Some(true)
    }

    /// Type of a node of a parsed pickle or JSON document: list, tuple or dict.
    pub(super) fn node_kind(&self, node: NodeId) -> NodeKind {
        self.nodes[node.0 as usize].kind()
    }

    /// Append items to a list or dict; `None` if the table is full. A node that outgrows its space moves to the end and
    /// doubles its capacity.
    pub(super) fn extend(&mut self, node: NodeId, more: &[Value]) -> Option<()> {
        let old = self.nodes[node.0 as usize];
        let (kind, start, has_room) = (old.kind(), old.start, self.rooms.contains_key(&node));
        match old.storage() {
            Storage::Long => {
                self.long[start as usize].extend_from_slice(more);
                self.long_items += more.len();
                return Some(());
            }
            Storage::Packed => self.unpack(node)?,
            Storage::Shared => self.unshare(node)?,
            Storage::Items if kind == NodeKind::List && old.count() == 0 && !has_room && self.share(node, more)? => {
                return Some(());
            }
            Storage::Items if kind == NodeKind::Dict && old.count() == 0 && !has_room => {
                if let Some((keys, start)) = self.packed.add(more) {
                    self.nodes[node.0 as usize] = Node::new(kind, Storage::Packed, start, keys)?;
                    return Some(());
                }
            }
            Storage::Items if kind == NodeKind::List && !has_room && old.count() >= LONG => {
                let items = &self.items[start as usize..(start + old.count()) as usize];
                let list = u32::try_from(self.long.len()).ok()?;
                self.long.push([items, more].concat());
                self.long_items += old.count() as usize + more.len();
                self.nodes[node.0 as usize] = Node::new(kind, Storage::Long, list, 0)?;
                return Some(());
            }
            Storage::Items => {}
        }
        self.extend_items(node, more)
    }

    /// Store the entries of a packed dict as plain items, so that the dict can grow; `None` if the table is full.
    fn unpack(&mut self, node: NodeId) -> Option<()> {
        let old = self.nodes[node.0 as usize];
        let first = u32::try_from(self.items.len()).ok()?;
        let entries = self.packed.entries(old.count(), old.start);
        self.items.extend(entries.into_iter().flat_map(|(key, value)| [key, value]));
        let count = u32::try_from(self.items.len()).ok()? - first;
        self.nodes[node.0 as usize] = Node::new(old.kind(), Storage::Items, first, count)?;
        Some(())
    }

    /// Give a list its own copy of shared items, so that the list can grow; `None` if the table is full.
    fn unshare(&mut self, node: NodeId) -> Option<()> {
        let old = self.nodes[node.0 as usize];
        let first = u32::try_from(self.items.len()).ok()?;
        first.checked_add(old.count())?;
        let start = old.start as usize;
        self.items.extend_from_within(start..start + old.count() as usize);
        self.nodes[node.0 as usize] = Node::new(old.kind(), Storage::Items, first, old.count())?;
        Some(())
    }

    /// Append items to a node in the table of all items; a node without space moves to the end with twice the capacity.
    fn extend_items(&mut self, node: NodeId, more: &[Value]) -> Option<()> {
        let old = self.nodes[node.0 as usize];
        let (start, len) = (old.start, old.count());
        let room = self.rooms.get(&node).copied().unwrap_or(len);
        let new_len = len.checked_add(u32::try_from(more.len()).ok()?)?;
        let (mut new_start, mut new_room) = (start, room.max(new_len));
        if new_len <= room {
            let first = (start + len) as usize;
            self.items[first..first + more.len()].copy_from_slice(more);
        } else if (start + room) as usize == self.items.len() && room == len {
            start.checked_add(new_len)?;
            self.items.extend_from_slice(more);
        } else {
            new_start = u32::try_from(self.items.len()).ok()?;
            new_room = if len == 0 { new_len } else { new_len.checked_mul(2)? };
            new_start.checked_add(new_room)?;
            self.items.extend_from_within(start as usize..(start + len) as usize);
            self.items.extend_from_slice(more);
            self.items.resize((new_start + new_room) as usize, Value::NONE);
        }
        self.nodes[node.0 as usize] = Node::new(old.kind(), Storage::Items, new_start, new_len)?;
        if new_room > new_len {
            self.rooms.insert(node, new_room);
        } else {
            self.rooms.remove(&node);
        }
        Some(())
    }
}

#[cfg(test)]
mod tests;
