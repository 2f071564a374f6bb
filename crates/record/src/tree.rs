//! Calling context tree of one thread: written only by its thread, read concurrently by the writer of the stream.
//!
//! Nodes and metrics are append-only tables that both access ([`SharedTree`]). The index for finding nodes belongs to
//! the owner ([`TreeOwner`]). There is no lock between them: the values of a metric are protected by a sequence lock
//! per thread.

use crate::prefetch::prefetch;
use crate::slots::{self, NodeSlot, Slot};
use hashbrown::HashTable;
use rustc_hash::{FxHashMap, FxHasher};
use stackline_recording::{Metric, Stats};
use std::hash::Hasher;
use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::sync::{Arc, OnceLock, Weak};

/// Index of a node in one thread's tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct NodeId(pub(crate) u32);

/// The root of each tree.
pub(crate) const ROOT: NodeId = NodeId(0);

/// Parent and frame of a node, which other threads read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Node {
    pub(crate) parent: u32,
    pub(crate) frame: u32,
}

/// Limit of additional keys of children. They are cleared when the limit is reached, and frames are then looked up
/// again.
const MAX_ALIASES: usize = 1 << 16;

/// Number of forward operators that are remembered for their backward nodes.
const SEQUENCES: usize = 1 << 17;

/// Part of a tree that its owner and the writer of the stream share.
#[derive(Debug)]
pub(crate) struct SharedTree {
    /// Number of the tree within the process.
    pub(crate) id: u32,
    pub(crate) nodes: boxcar::Vec<Node>,
    slots: boxcar::Vec<Arc<[Slot]>>,
    /// Odd while the owner changes a slot.
    version: AtomicU64,
    /// Forward operators by sequence number, as long as the owner exists.
    sequences: OnceLock<Weak<Box<[AtomicU64]>>>,
    /// Torch's id of the thread that ran these operators, 0 without one. No id is reused, so it distinguishes threads.
    forward_thread: AtomicU64,
}

impl SharedTree {
    /// Create a tree that has only the root.
    fn new(id: u32) -> Self {
        let nodes = boxcar::Vec::new();
        nodes.push(Node { parent: 0, frame: u32::MAX });
        let (version, forward_thread) = (AtomicU64::new(0), AtomicU64::new(0));
        Self { id, nodes, slots: boxcar::Vec::new(), version, sequences: OnceLock::new(), forward_thread }
    }

    /// All metric slots of the call tree with their stable numbers.
    pub(crate) fn slots(&self) -> impl Iterator<Item = (usize, NodeSlot<'_>)> {
        // A node has one or two slots.
        self.slots
            .iter()
            .flat_map(|(at, slots)| (0..slots.len()).map(move |nth| (2 * at + nth, NodeSlot::new(slots, nth))))
    }

    /// Read a consistent set of the metric values of a slot while its thread may write them.
    pub(crate) fn read(&self, place: &NodeSlot<'_>) -> Stats {
        loop {
            let before = self.version.load(Ordering::Acquire);
            let stats = place.values();
            fence(Ordering::Acquire);
            if before.is_multiple_of(2) && self.version.load(Ordering::Relaxed) == before {
                return stats;
            }
            std::hint::spin_loop();
        }
    }

    /// Set the torch id of the thread whose forward operators the tree has from now on, or 0. Returns the last one.
    pub(crate) fn set_forward_thread(&self, thread: u64) -> u64 {
        self.forward_thread.swap(thread, Ordering::AcqRel)
    }

    /// True if the tree has the forward operators of the thread with this torch id.
    pub(crate) fn has_forward_of(&self, thread: u64) -> bool {
        self.forward_thread.load(Ordering::Acquire) == thread
    }

    /// Node that ran the forward operator with this sequence number on the thread with this torch id, for other
    /// threads; `None` if unknown or overwritten, or if the tree belongs to another thread.
    pub(crate) fn forward(&self, thread: u64, sequence: u64) -> Option<NodeId> {
        let node = forward(&self.sequences.get()?.upgrade()?, sequence);
        // Read last: an entry of the next thread implies that the id has changed.
        node.filter(|_| self.has_forward_of(thread))
    }

    /// True if a later forward operator replaced the one with this sequence number.
    pub(crate) fn is_overwritten(&self, sequence: u64) -> bool {
        self.sequences.get().and_then(Weak::upgrade).is_some_and(|known| is_overwritten(&known, sequence))
    }

    /// Frame ids from the root (excluded) to a node.
    pub(crate) fn path(&self, node: NodeId) -> Vec<u32> {
        let mut frames = Vec::new();
        let mut at = node.0;
        while let Some(node) = self.nodes.get(at as usize).filter(|_| at != 0) {
            frames.push(node.frame);
            at = node.parent;
        }
        frames.reverse();
        frames
    }
}

/// Look up the node of a forward operator by sequence number in the table `sequences`; `None` if unknown or
/// overwritten.
#[inline]
fn forward(sequences: &[AtomicU64], sequence: u64) -> Option<NodeId> {
    let entry = sequences.get(sequence as usize % SEQUENCES)?.load(Ordering::Acquire);
    let node = (entry >> 32) as u32;
    (node != 0 && entry as u32 == sequence as u32).then_some(NodeId(node))
}

/// True if the table entry of a sequence number has a later one: numbers only grow.
fn is_overwritten(sequences: &[AtomicU64], sequence: u64) -> bool {
    let entry = sequences.get(sequence as usize % SEQUENCES).map_or(0, |entry| entry.load(Ordering::Acquire));
    entry >> 32 != 0 && (entry as u32).wrapping_sub(sequence as u32).cast_signed() > 0
}

/// Key by which a child is found below its parent: a frame id, or values that are cheaper to get than the frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Key(pub(crate) u64, pub(crate) u64);

impl Key {
    /// Key of a call-tree child by the id of its frame.
    pub(crate) fn frame(frame: u32) -> Self {
        Self(u64::from(frame), u64::MAX)
    }
}

/// A node's data for the thread that owns the tree. Two entries share a cache line.
#[derive(Debug)]
#[repr(align(32))]
struct Entry {
    /// The last requested child, which is usually requested again.
    last_child: u32,
    /// The sibling that was requested after this node the last time, because programs repeat themselves.
    next_sibling: u32,
    key: Key,
    /// Slots of the metrics [`Metric::OperatorTime`] and [`Metric::CallTime`]; other metrics have a separate table.
    slots: Option<Arc<[Slot; 2]>>,
}

/// Tree as its owning thread uses it: it alone adds nodes and values.
#[derive(Debug)]
pub(crate) struct TreeOwner {
    pub(crate) shared: Arc<SharedTree>,
    entries: Vec<Entry>,
    /// Parent of each node.
    parents: Vec<u32>,
    index: HashTable<u32>,
    /// Child of a node by frame, and additional keys of children: code that is compiled repeatedly (`exec`) has the
    /// same frames under other keys.
    by_frame: FxHashMap<(u32, u32), u32>,
    aliases: FxHashMap<(u32, Key), u32>,
    limit: u32,
    /// Node that ran the forward operator of a sequence number: the low half is the number, the high half the node.
    /// Empty until the first one. Boxed, so that it is freed with its owner, while other threads hold weak
    /// references.
    sequences: Arc<Box<[AtomicU64]>>,
    /// Node for calls that don't fit, 0 while there is space.
    overflow: u32,
    /// Number of calls that did not fit.
    pub(crate) overflows: Arc<AtomicU64>,
}

/// Hash of a node's parent and key, for the index of children.
fn hash(parent: u32, key: Key) -> u64 {
    let mut hasher = FxHasher::default();
    hasher.write_u64(key.0);
    hasher.write_u64(key.1 ^ u64::from(parent) << 7);
    hasher.finish()
}

impl TreeOwner {
    /// Create an empty call tree with at most `limit` nodes.
    pub(crate) fn new(id: u32, limit: u32) -> Self {
        let root = Entry { key: Key(0, 0), last_child: 0, next_sibling: 0, slots: None };
        Self {
            shared: Arc::new(SharedTree::new(id)),
            entries: vec![root],
            parents: vec![0],
            index: HashTable::new(),
            by_frame: FxHashMap::default(),
            aliases: FxHashMap::default(),
            limit,
            sequences: Arc::default(),
            overflow: 0,
            overflows: Arc::default(),
        }
    }

    /// True if there is no space for another node.
    pub(crate) fn is_full(&self) -> bool {
        self.entries.len() >= self.limit as usize
    }

    /// Find or create the child of `parent` with this key; `frame` returns the frame id of a new child. The argument of
    /// `frame` is true if the tree is full: then it returns a known frame, or otherwise `overflow`, the frame of the
    /// overflow node, which is the result.
    #[inline]
    pub(crate) fn child(&mut self, parent: NodeId, key: Key, overflow: u32, frame: impl FnOnce(bool) -> u32) -> NodeId {
        let last = self.entries[parent.0 as usize].last_child;
        if last != 0 {
            let cached = &self.entries[last as usize];
            if cached.key == key {
                return NodeId(last);
            }
            let next = cached.next_sibling;
            if next != 0 && self.entries[next as usize].key == key {
                self.entries[parent.0 as usize].last_child = next;
                return NodeId(next);
            }
        }
        self.look_up(parent, last, key, overflow, frame)
    }

    /// Find or create a child by the indices, for [`Self::child`]: a child that is neither the one that was requested
    /// `last` nor the one after it.
    fn look_up(
        &mut self,
        parent: NodeId,
        last: u32,
        key: Key,
        overflow: u32,
        frame: impl FnOnce(bool) -> u32,
    ) -> NodeId {
        let found = self.index.find(hash(parent.0, key), |&node| {
            self.entries[node as usize].key == key && self.parents[node as usize] == parent.0
        });
        let node = match found.or_else(|| self.aliases.get(&(parent.0, key))) {
            Some(&node) => node,
            None => return self.insert(parent, key, overflow, frame),
        };
        self.entries[parent.0 as usize].last_child = node;
        if last != 0 {
            self.entries[last as usize].next_sibling = node;
        }
        NodeId(node)
    }

    /// Add a child with a new key, or find the child with the same frame; the overflow node if the tree is full.
    #[cold]
    fn insert(&mut self, parent: NodeId, key: Key, overflow: u32, frame: impl FnOnce(bool) -> u32) -> NodeId {
        let full = self.is_full();
        let frame = frame(full);
        let known = self.by_frame.get(&(parent.0, frame)).filter(|_| !full || frame != overflow);
        if let Some(&node) = known {
            if self.aliases.len() >= MAX_ALIASES {
                self.aliases.clear();
            }
            self.aliases.insert((parent.0, key), node);
            return NodeId(node);
        }
        if full {
            self.overflows.fetch_add(1, Ordering::Relaxed);
            if self.overflow == 0 {
                // A key that is never requested, so that each call that doesn't fit is counted.
                self.overflow = self.push(ROOT.0, Key(u64::MAX, u64::MAX), overflow);
            }
            return NodeId(self.overflow);
        }
        let node = self.push(parent.0, key, frame);
        self.entries[parent.0 as usize].last_child = node;
        NodeId(node)
    }

    /// Append a node to the tree and to its indices, and return its id.
    fn push(&mut self, parent: u32, key: Key, frame: u32) -> u32 {
        let node = self.shared.nodes.push(Node { parent, frame }) as u32;
        self.entries.push(Entry { key, last_child: 0, next_sibling: 0, slots: None });
        self.parents.push(parent);
        self.by_frame.insert((parent, frame), node);
        let (entries, parents) = (&self.entries, &self.parents);
        self.index
            .insert_unique(hash(parent, key), node, |&node| hash(parents[node as usize], entries[node as usize].key));
        node
    }

    /// Add the exclusive and inclusive time of one call in ns.
    #[inline]
    pub(crate) fn add_call(&mut self, node: NodeId, own_ns: u64, call_ns: u64) {
        let entry = &mut self.entries[node.0 as usize];
        let slots = match &mut entry.slots {
            Some(slots) => &**slots,
            none => &**none.insert(make_slots(&self.shared, node)),
        };
        let version = self.shared.version.load(Ordering::Relaxed);
        self.shared.version.store(version + 1, Ordering::Relaxed);
        fence(Ordering::Release);
        slots::add_call(slots, own_ns, call_ns);
        self.shared.version.store(version + 2, Ordering::Release);
    }

    /// Prefetch the time slots of a node, which [`Self::add_call`] changes at the end of the call that begins. Waiting
    /// for that memory took a fifth of the recorder's time.
    #[inline]
    pub(crate) fn prefetch_call(&self, node: NodeId) {
        if let Some(slots) = &self.entries[node.0 as usize].slots {
            slots.iter().for_each(prefetch);
        }
    }

    /// Create a slot for another metric of a node, and return its index for [`Self::add_value`]; the caller caches it.
    pub(crate) fn make_slot(&mut self, node: NodeId, metric: Metric) -> u32 {
        self.shared.slots.push(Arc::new([Slot::new(node.0, metric)])) as u32
    }

    /// Add one value to a metric slot, under the version that readers check.
    pub(crate) fn add_value(&mut self, slot: u32, value: u64) {
        let version = self.shared.version.load(Ordering::Relaxed);
        self.shared.version.store(version + 1, Ordering::Relaxed);
        fence(Ordering::Release);
        if let Some([slot, ..]) = self.shared.slots.get(slot as usize).map(|slots| &**slots) {
            slot.add(value);
        }
        self.shared.version.store(version + 2, Ordering::Release);
    }

    /// Remember the node that runs the forward operator of a sequence number. The last one with a number counts.
    #[inline]
    pub(crate) fn remember_forward(&mut self, sequence: u64, node: NodeId) {
        if self.sequences.is_empty() {
            self.sequences = Arc::new((0..SEQUENCES).map(|_| AtomicU64::new(0)).collect());
            let _ = self.shared.sequences.set(Arc::downgrade(&self.sequences));
        }
        let entry = u64::from(node.0) << 32 | u64::from(sequence as u32);
        self.sequences[sequence as usize % SEQUENCES].store(entry, Ordering::Release);
    }

    /// Node that ran the forward operator with this sequence number, for the owning thread; `None` if unknown or
    /// overwritten.
    #[inline]
    pub(crate) fn forward(&self, sequence: u64) -> Option<NodeId> {
        forward(&self.sequences, sequence)
    }

    /// True if a later forward operator replaced the one with this number, for the thread that owns the tree.
    pub(crate) fn is_overwritten(&self, sequence: u64) -> bool {
        is_overwritten(&self.sequences, sequence)
    }

    /// Clear the table of forward operators, because another thread continues the tree.
    pub(crate) fn forget_forward(&self) {
        for entry in self.sequences.iter() {
            if entry.load(Ordering::Relaxed) != 0 {
                entry.store(0, Ordering::Release);
            }
        }
    }
}

/// Create a node's slots for exclusive and inclusive operator time, and add them to the shared tree.
#[cold]
fn make_slots(shared: &SharedTree, node: NodeId) -> Arc<[Slot; 2]> {
    let slots = Arc::new([Metric::OperatorTime, Metric::CallTime].map(|metric| Slot::new(node.0, metric)));
    shared.slots.push(Arc::<[Slot; 2]>::clone(&slots));
    slots
}

#[cfg(test)]
mod tests {
    use super::{Key, MAX_ALIASES, ROOT, SEQUENCES, TreeOwner};
    use proptest::prelude::*;
    use stackline_recording::{Metric, Stats};
    use std::collections::HashMap;

    proptest! {
        /// Compare with a map from whole paths to their values.
        #[test]
        fn a_tree_is_a_map_of_paths(calls in proptest::collection::vec(
            (proptest::collection::vec(0_u64..4, 1..6), 0_u64..1 << 40, prop_oneof![4 => Just(0), 1 => 0_u64..1 << 40]), 0..200)) {
            let mut owner = TreeOwner::new(0, u32::MAX);
            let mut truth: HashMap<Vec<u64>, [Stats; 2]> = HashMap::new();
            for (path, own, called) in &calls {
                let node = path.iter().fold(ROOT, |node, &key| owner.child(node, Key(key, 1), 0, |_| key as u32));
                owner.add_call(node, *own, own + called);
                let [of_own, of_call] = truth.entry(path.clone()).or_default();
                of_own.add(*own);
                of_call.add(own + called);
            }
            let mut seen = 0;
            for (_, place) in owner.shared.slots() {
                let slot = place.slot();
                let path: Vec<u64> = owner.shared.path(super::NodeId(slot.node)).into_iter().map(u64::from).collect();
                let expected = truth.get(&path).map(|both| both[usize::from(slot.metric == Metric::CallTime)]);
                prop_assert_eq!(Some(owner.shared.read(&place)), expected);
                seen += 1;
            }
            prop_assert_eq!(seen, 2 * truth.len());
        }
    }

    #[test]
    fn full_trees_count_omitted_calls() {
        let mut owner = TreeOwner::new(0, 3);
        let nodes: Vec<_> = (0..10).map(|key| owner.child(ROOT, Key(key, 0), 77, |_| key as u32)).collect();
        assert_eq!(owner.shared.path(nodes[9]), [77]);
        assert_eq!(owner.child(ROOT, Key(0, 0), 77, |_| 0), nodes[0]);
        assert_eq!(owner.overflows.load(std::sync::atomic::Ordering::Relaxed), 8);
        assert_eq!(owner.child(ROOT, Key::frame(77), 77, |_| 77), nodes[9]);
        assert_eq!(owner.overflows.load(std::sync::atomic::Ordering::Relaxed), 9, "its own frame has no place either");
    }

    #[test]
    fn frames_have_one_node_for_all_keys() {
        let mut owner = TreeOwner::new(0, 10);
        let mut looked_at = 0;
        let mut child = |owner: &mut TreeOwner, parent, key| {
            owner.child(parent, Key(key, 0), 77, |_| {
                looked_at += 1;
                5
            })
        };
        let first = child(&mut owner, ROOT, 1);
        for key in 0..3 * MAX_ALIASES as u64 {
            assert_eq!(child(&mut owner, ROOT, key), first);
            assert_eq!(child(&mut owner, ROOT, key), first, "and it is remembered");
        }
        assert!(owner.aliases.len() <= MAX_ALIASES);
        assert_eq!(owner.shared.nodes.count(), 2);
        assert_ne!(child(&mut owner, first, 1), first, "below another node");
        assert_eq!(looked_at, 3 * MAX_ALIASES + 1);
    }

    #[test]
    fn values_are_read_from_one_moment() {
        let mut owner = TreeOwner::new(0, 10);
        let node = owner.child(ROOT, Key(1, 0), 0, |_| 5);
        owner.add_call(node, 3, 3);
        let shared = std::sync::Arc::clone(&owner.shared);
        let reader = std::thread::spawn(move || {
            let place = shared.slots().nth(1).unwrap().1;
            loop {
                let stats = shared.read(&place);
                assert_eq!(stats.sum, stats.count * 3);
                assert_eq!(stats.sum_of_squares, u128::from(stats.count) * 9);
                if stats.count > 200_000 {
                    return;
                }
            }
        });
        for _ in 0..200_001 {
            owner.add_call(node, 3, 3);
        }
        reader.join().unwrap();
    }

    #[test]
    fn last_operator_with_a_sequence_number_is_the_forward() {
        let mut owner = TreeOwner::new(0, 10);
        let [outer, inner] = [1, 2].map(|key| owner.child(ROOT, Key(key, 0), 0, |_| 0));
        owner.shared.set_forward_thread(3);
        owner.remember_forward(7, outer);
        owner.remember_forward(7, inner);
        assert_eq!((owner.shared.forward(3, 7), owner.forward(7)), (Some(inner), Some(inner)));
        assert_eq!((owner.shared.forward(3, 8), owner.shared.forward(4, 7)), (None, None));
        owner.forget_forward();
        assert_eq!(owner.shared.forward(3, 7), None);
        owner.remember_forward(7, outer);
        let shared = std::sync::Arc::clone(&owner.shared);
        drop(owner);
        assert_eq!(shared.forward(3, 7), None, "nobody owns the tree any more");
    }

    #[test]
    fn numbers_beyond_the_bound_are_distinguished_from_unknown_ones() {
        let mut owner = TreeOwner::new(0, 10);
        let node = owner.child(ROOT, Key(1, 0), 0, |_| 0);
        for sequence in 5..5 + SEQUENCES as u64 + 3 {
            owner.remember_forward(sequence, node);
        }
        for sequence in 5..8 {
            assert_eq!(owner.forward(sequence), None);
            assert!(owner.is_overwritten(sequence) && owner.shared.is_overwritten(sequence));
        }
        // The first that is still remembered, and one in the future.
        for sequence in [8, 8 + SEQUENCES as u64] {
            assert!(!owner.is_overwritten(sequence), "{sequence}");
        }
        assert_eq!(owner.forward(8), Some(node));
        owner.forget_forward();
        assert!(!owner.is_overwritten(5), "forgotten with its thread, not for the bound");
    }
}
