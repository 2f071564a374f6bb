//! Call-tree nodes of the native frames between the interpreter loop or enclosing operator and an operator.
//!
//! The same segments recur. A whole segment is one key: its nodes are created when it is first seen; afterwards one
//! lookup finds the last node.

use crate::process::Process;
use crate::tree::{Key, NodeId, TreeOwner};
use dlmonitor::native::{self, LEAST_STACK, NativeStack, Registers, Segment, WalkEnd};
use dlmonitor::{OpenOperator, PythonFrame};
use rustc_hash::FxHashMap;
use stackline_recording::FrameKey;

/// Bits of the keys of native frames; other keys do not have both.
const NATIVE_KEY: u64 = 3 << 62;
/// Limit of cached segments. The cache is cleared when it is full.
const MAX_SEGMENTS: usize = 1 << 17;

/// Reader of one thread's native stack, with a cache from stack segments to call-tree nodes.
#[derive(Debug)]
pub(crate) struct NativeFrames {
    stack: NativeStack,
    /// Address range of the thread's stack.
    begin: usize,
    end: usize,
    /// Last node of each segment, by its parent and the hash of its addresses.
    segments: FxHashMap<(u32, u64), NodeId>,
}

impl NativeFrames {
    /// Create the native-stack reader of the calling thread.
    pub(crate) fn new() -> Self {
        let (begin, end) = stack_bounds();
        Self { stack: NativeStack::new(), begin, end, segments: FxHashMap::default() }
    }

    /// Assign this native-stack reader to the calling thread, by reading the bounds of that thread's stack.
    pub(crate) fn enter(&mut self) {
        (self.begin, self.end) = stack_bounds();
    }

    // Never inlined, so that equal stacks look equal from this function.
    /// Find or create the node of the innermost native frame between `parent` and an operator that begins; `parent` if
    /// the stack cannot be read. `operator` is the operator's frame id, by which cached segments are distinguished.
    #[inline(never)]
    pub(crate) fn node(
        &mut self,
        tree: &mut TreeOwner,
        process: &Process,
        (parent, operator): (NodeId, u32),
        open: &[OpenOperator],
        opened: &OpenOperator,
        newest: Option<PythonFrame>,
    ) -> NodeId {
        let at = Registers::here();
        // The address of an object on the heap has no position on the stack.
        if !(at.sp..self.end).contains(&opened.handle) {
            return parent;
        }
        let mark = dlmonitor::interpreter().map_or(0, |interpreter| interpreter.stack_mark(newest));
        let enclosing = open.last().map_or(0, |open| open.handle);
        let segment = Segment { at, from: opened.handle, bounds: [mark, enclosing], end: self.end };
        let hint = u64::from(parent.0) << 32 | u64::from(operator);
        match self.stack.cached_value(&segment, hint) {
            Some(node) => NodeId(node),
            None => self.walk(tree, process, parent, &segment, hint),
        }
    }

    /// Walk the stack of a segment that is not cached, and cache its node; `parent` if the stack cannot be read.
    fn walk(
        &mut self,
        tree: &mut TreeOwner,
        process: &Process,
        parent: NodeId,
        segment: &Segment,
        hint: u64,
    ) -> NodeId {
        if segment.at.sp.saturating_sub(self.begin) < LEAST_STACK || !self.stack.prepare() {
            process.count_without_native_frames();
            return parent;
        }
        let ended = self.stack.walk_segment(segment);
        if ended.is_none_or(|ended| ended == WalkEnd::Lost) {
            return parent;
        }
        let frames = self.stack.frames();
        let key = (parent.0, hash(frames));
        let node = match self.segments.get(&key) {
            Some(&node) => node,
            None if frames.is_empty() => parent,
            None => self.insert(tree, process, parent, key),
        };
        self.stack.cache_value(segment, hint, node.0);
        node
    }

    /// Add nodes for all frames of the walked segment below `parent`, cache the last one by `key`, and return it.
    #[cold]
    fn insert(&mut self, tree: &mut TreeOwner, process: &Process, parent: NodeId, key: (u32, u64)) -> NodeId {
        let outermost_first = self.stack.frames().iter().rev();
        let node = outermost_first.fold(parent, |node, &address| native_child(tree, process, node, address));
        if self.segments.len() >= MAX_SEGMENTS {
            self.segments.clear();
        }
        self.segments.insert(key, node);
        node
    }
}

/// Address range of the calling thread's stack; empty if unknown.
fn stack_bounds() -> (usize, usize) {
    native::stack_bounds().unwrap_or_default()
}

/// Hash of a segment. Equal hashes would merge two segments; all 64 bits depend on all addresses.
#[inline]
fn hash(frames: &[usize]) -> u64 {
    frames.iter().fold(u64::from(native::generation()), |hash, &address| {
        let mixed = u128::from(hash ^ address as u64) * u128::from(0x9e37_79b9_7f4a_7c15_u64);
        (mixed >> 64) as u64 ^ mixed as u64
    })
}

/// Find or create the child of `parent` for a native address.
fn native_child(tree: &mut TreeOwner, process: &Process, parent: NodeId, address: usize) -> NodeId {
    let module = native::module_at(address);
    let tag = NATIVE_KEY | module.as_ref().map_or(0, |module| u64::from(module.id) + 1);
    tree.child(parent, Key(address as u64, tag), process.overflow, |full| {
        process.native_frame(full, address, module.as_deref())
    })
}

impl Process {
    /// Intern the frame of a native address, as an offset in `module` if that is known.
    #[cold]
    pub(crate) fn native_frame(&self, full: bool, address: usize, module: Option<&native::Module>) -> u32 {
        self.intern(full, |frames| match module {
            Some(module) => FrameKey::Native {
                library: frames.library(module),
                offset: address.wrapping_sub(module.range.start) as u64,
            },
            None => FrameKey::Unmapped { address: address as u64 },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::hash;

    #[test]
    fn hashes_depend_on_order_and_on_each_address() {
        let base = [0x7f00_0000_1000, 0x7f00_0000_2000, 0x7f00_0000_3000];
        let mut all = vec![hash(&base), hash(&base[..2]), hash(&[base[1], base[0], base[2]])];
        for at in 0..3 {
            for bit in 0..47 {
                let mut other = base;
                other[at] ^= 1 << bit;
                all.push(hash(&other));
            }
        }
        let count = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), count);
    }
}
