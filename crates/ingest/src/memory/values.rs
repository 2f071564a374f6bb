//! Plain data as pickles and JSON hold it: numbers, texts, lists and dicts in one compact table. What is shared in the
//! file is stored once here, too.

mod packed;

use packed::Packed;
use rustc_hash::FxHashMap;
use stackline_model::{StrId, StringTable};

/// A value: eight bytes, whatever it is. Only meaningful together with the [`Values`] that it came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Value(u64);

/// A list, tuple or dict of [`Values`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(u32);

/// What a value is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// `None`, `null`.
    None,
    /// A truth value.
    Bool(bool),
    /// An integer.
    Int(i128),
    /// A number with a fraction.
    Float(f64),
    /// Text.
    Text(StrId),
    /// Bytes, kept as text (what is not UTF-8 became U+FFFD).
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
    /// Kind and storage in the upper bits; below the number of items, of a packed dict that of its set of keys.
    word: u32,
}

const COUNT_BITS: u32 = 28;
const MOST_ITEMS: u32 = (1 << COUNT_BITS) - 1;

impl Node {
    /// `None` if it has more items than there are numbers for.
    fn new(kind: NodeKind, storage: Storage, start: u32, count: u32) -> Option<Self> {
        let word = (kind as u32) << (COUNT_BITS + 2) | (storage as u32) << COUNT_BITS | count;
        (count <= MOST_ITEMS).then_some(Self { start, word })
    }

    fn kind(self) -> NodeKind {
        [NodeKind::List, NodeKind::Tuple, NodeKind::Dict][(self.word >> (COUNT_BITS + 2)).min(2) as usize]
    }

    fn storage(self) -> Storage {
        [Storage::Items, Storage::Long, Storage::Packed][(self.word >> COUNT_BITS & 3).min(2) as usize]
    }

    fn count(self) -> u32 {
        self.word & MOST_ITEMS
    }
}

/// Where the items of a node lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Storage {
    /// In the table of all items: of a dict keys and values in turn.
    Items,
    /// In a list of its own: one that grows to millions of items would leave its earlier places behind, twice its size.
    Long,
    /// A dict whose keys are shared with others and whose values are packed.
    Packed,
}

/// Lists that outgrow their place with so many items get one of their own.
const LONG: u32 = 256;

/// Entries of a dict among which a key is looked for.
pub const MOST_KEYS: usize = 4096;

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
    pub const TRUE: Self = Self(CONSTANT | 2 << TAG_BITS);

    pub(super) fn bool(value: bool) -> Self {
        Self(CONSTANT | (1 + u64::from(value)) << TAG_BITS)
    }

    pub(super) fn text(id: StrId) -> Self {
        Self(TEXT | u64::from(id.0) << TAG_BITS)
    }

    pub(super) fn bytes(id: StrId) -> Self {
        Self(BYTES | u64::from(id.0) << TAG_BITS)
    }

    fn at(tag: u64, index: usize) -> Self {
        Self(tag | (index as u64) << TAG_BITS)
    }

    fn payload(self) -> usize {
        (self.0 >> TAG_BITS) as usize
    }
}

impl From<NodeId> for Value {
    fn from(node: NodeId) -> Self {
        Self::at(NODE, node.0 as usize)
    }
}

/// The table that values live in.
#[derive(Default, Debug)]
pub struct Values {
    /// All texts.
    pub strings: StringTable,
    nodes: Vec<Node>,
    /// For how many items those have room that have more room than items.
    rooms: FxHashMap<NodeId, u32>,
    items: Vec<Value>,
    wide: Vec<i128>,
    floats: Vec<f64>,
    long: Vec<Vec<Value>>,
    /// Items of `long`.
    long_items: usize,
    packed: Packed,
}

impl Values {
    /// What `value` is.
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

    /// The items of a list or tuple. Of a dict see [`Self::entries`].
    pub fn items(&self, node: NodeId) -> &[Value] {
        let node = self.nodes[node.0 as usize];
        let start = node.start as usize;
        match node.storage() {
            Storage::Items => &self.items[start..start + node.count() as usize],
            Storage::Long => &self.long[start],
            Storage::Packed => &[],
        }
    }

    /// The entries of a dict, in the order of the file (a key may occur again: the last one counts).
    pub fn entries(&self, dict: NodeId) -> impl DoubleEndedIterator<Item = (Value, Value)> + '_ {
        let node = self.nodes[dict.0 as usize];
        let is_packed = node.storage() == Storage::Packed;
        let packed = if is_packed { self.packed.entries(node.count(), node.start) } else { Vec::new() };
        self.items(dict).chunks_exact(2).map(|pair| (pair[0], pair[1])).chain(packed)
    }

    /// The value behind a text key. Of very large dicts only the last [`MOST_KEYS`] entries are looked at: the formats have
    /// some twenty, and a damaged file may refer to a large one from everywhere.
    pub fn get(&self, dict: NodeId, key: StrId) -> Option<Value> {
        let wanted = Value::text(key);
        let node = self.nodes[dict.0 as usize];
        if node.storage() == Storage::Packed {
            return self.packed.get(node.count(), node.start, wanted);
        }
        self.entries(dict).rev().take(MOST_KEYS).find(|(key, _)| *key == wanted).map(|(_, value)| value)
    }

    /// Items of all lists, tuples and dicts: what is shared counts once.
    pub fn item_count(&self) -> usize {
        self.items.len() + self.packed.items + self.long_items
    }

    /// The value behind a text key.
    pub fn find(&self, dict: NodeId, key: &str) -> Option<Value> {
        self.get(dict, self.strings.find(key)?)
    }

    /// The node of a list or tuple.
    pub fn as_list(&self, value: Value) -> Option<NodeId> {
        match self.kind(value) {
            Kind::List(node) | Kind::Tuple(node) => Some(node),
            _ => None,
        }
    }

    /// The node of a dict.
    pub fn as_dict(&self, value: Value) -> Option<NodeId> {
        if let Kind::Dict(node) = self.kind(value) { Some(node) } else { None }
    }

    /// The text of a text.
    pub fn as_text(&self, value: Value) -> Option<StrId> {
        if let Kind::Text(text) = self.kind(value) { Some(text) } else { None }
    }

    /// An integer, or a float without a fraction.
    pub fn as_int(&self, value: Value) -> Option<i128> {
        match self.kind(value) {
            Kind::Int(value) => Some(value),
            // Exact up to 2^53; above, floats have no fraction and convert as they are.
            Kind::Float(value) if value.is_finite() && value.fract() == 0.0 => Some(value as i128),
            _ => None,
        }
    }

    /// Bytes of memory that the table takes.
    pub fn memory(&self) -> u64 {
        let of = |count: usize, size: usize| (count * size) as u64;
        of(self.nodes.len(), size_of::<Node>())
            + of(self.items.len(), size_of::<Value>())
            + of(self.wide.len(), 16)
            + of(self.floats.len(), 8)
            + of(self.rooms.len(), 12)
            + of(self.strings.len(), 16)
            + of(self.long_items, size_of::<Value>())
            + of(self.long.len(), size_of::<Vec<Value>>())
            + self.packed.memory()
    }

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

    pub(super) fn float(&mut self, value: f64) -> Value {
        self.floats.push(value);
        Value::at(FLOAT, self.floats.len() - 1)
    }

    /// A new list, tuple or dict; `None` if the table is full (2^32 items).
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

    pub(super) fn node_kind(&self, node: NodeId) -> NodeKind {
        self.nodes[node.0 as usize].kind()
    }

    /// Adds items to a list or dict; `None` if the table is full. What does not fit behind the items that are there
    /// moves to the end, with as much room again.
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

    /// Makes of a packed dict one with its own keys.
    fn unpack(&mut self, node: NodeId) -> Option<()> {
        let old = self.nodes[node.0 as usize];
        let first = u32::try_from(self.items.len()).ok()?;
        let entries = self.packed.entries(old.count(), old.start);
        self.items.extend(entries.into_iter().flat_map(|(key, value)| [key, value]));
        let count = u32::try_from(self.items.len()).ok()? - first;
        self.nodes[node.0 as usize] = Node::new(old.kind(), Storage::Items, first, count)?;
        Some(())
    }

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
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn integers_come_back(value in any::<i128>(), shift in 0..127u32) {
            let mut values = Values::default();
            let stored = values.int(value >> shift);
            prop_assert_eq!(values.kind(stored), Kind::Int(value >> shift));
        }

        #[test]
        fn lists_grow_in_any_order(steps in proptest::collection::vec((0..4usize, 0..6u8), 0..60)) {
            let mut values = Values::default();
            let nodes: Vec<NodeId> = (0..4).map(|_| values.node(NodeKind::List, &[]).unwrap()).collect();
            let mut expected = vec![Vec::new(); 4];
            for (number, (list, count)) in steps.into_iter().enumerate() {
                let more: Vec<Value> = (0..count).map(|at| values.int(i128::from(at) + 100 * number as i128)).collect();
                values.extend(nodes[list], &more).unwrap();
                expected[list].extend(more);
            }
            for (node, expected) in nodes.iter().zip(expected) {
                prop_assert_eq!(values.items(*node), expected.as_slice());
            }
        }
    }

    /// Dicts with equal keys share them; one that gets more entries, or a key twice, keeps its own.
    #[test]
    fn dicts_are_packed_and_unpacked() {
        let mut values = Values::default();
        let [a, b] = ["a", "b"].map(|name| Value::text(values.strings.intern(name)));
        let numbers: Vec<Value> = [0, -1, 1 << 50, i128::MAX].map(|number| values.int(number)).into();
        let mut dicts = Vec::new();
        for number in &numbers {
            let dict = values.node(NodeKind::Dict, &[]).unwrap();
            values.extend(dict, &[a, *number, b, Value::NONE]).unwrap();
            dicts.push(dict);
        }
        for (dict, number) in dicts.iter().zip(&numbers) {
            assert_eq!(values.entries(*dict).collect::<Vec<_>>(), [(a, *number), (b, Value::NONE)]);
            assert_eq!((values.find(*dict, "a"), values.find(*dict, "c")), (Some(*number), None));
        }
        assert!(values.items.is_empty(), "all are packed");
        let c = Value::text(values.strings.intern("c"));
        values.extend(dicts[1], &[c, numbers[2], a, numbers[0]]).unwrap();
        let expected = [(a, numbers[1]), (b, Value::NONE), (c, numbers[2]), (a, numbers[0])];
        assert_eq!(values.entries(dicts[1]).collect::<Vec<_>>(), expected);
        assert_eq!(values.find(dicts[1], "a"), Some(numbers[0]));
        assert_eq!(values.find(dicts[2], "a"), Some(numbers[2]), "others stay what they were");
    }

    /// A list that grows while others are made takes its own size, not that of all places where it was.
    #[test]
    fn long_lists_leave_nothing_behind() {
        let mut values = Values::default();
        let list = values.node(NodeKind::List, &[]).unwrap();
        for round in 0..1000 {
            let other = values.node(NodeKind::Tuple, &[Value::NONE]).unwrap();
            values.extend(list, &[other.into(); 100]).unwrap();
            assert_eq!(values.items(list).len(), 100 * (round + 1));
        }
        assert!(values.memory() < 100_000 * 9 + 1000 * 40, "{}", values.memory());
        assert_eq!(values.item_count(), values.items.len() + values.items(list).len());
    }

    #[test]
    fn a_node_keeps_what_it_is_in_eight_bytes() {
        assert_eq!(size_of::<Node>(), 8);
        for kind in [NodeKind::List, NodeKind::Tuple, NodeKind::Dict] {
            for storage in [Storage::Items, Storage::Long, Storage::Packed] {
                let node = Node::new(kind, storage, u32::MAX, MOST_ITEMS).unwrap();
                assert_eq!(
                    (node.kind(), node.storage(), node.start, node.count()),
                    (kind, storage, u32::MAX, MOST_ITEMS)
                );
            }
        }
        assert!(Node::new(NodeKind::List, Storage::Items, 0, MOST_ITEMS + 1).is_none());
    }

    #[test]
    fn constants_differ() {
        let values = Values::default();
        assert_eq!(values.kind(Value::NONE), Kind::None);
        assert_eq!(values.kind(Value::bool(false)), Kind::Bool(false));
        assert_eq!(values.kind(Value::bool(true)), Kind::Bool(true));
    }

    #[test]
    fn the_last_of_equal_keys_counts() {
        let mut values = Values::default();
        let key = Value::text(values.strings.intern("a"));
        let (one, two) = (values.int(1), values.int(2));
        let dict = values.node(NodeKind::Dict, &[key, one, key, two]).unwrap();
        assert_eq!(values.find(dict, "a"), Some(two));
        assert_eq!(values.find(dict, "b"), None);
    }
}
