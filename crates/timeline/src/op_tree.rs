//! Forest of operators by nesting, and lookup of the GPU work of each operator or subtree.

use stackline_model::{EventId, EventKind, GpuOpId, Trace, TrackKind};

/// Forest of the operators of all CPU threads: parents before children, each subtree a contiguous range of nodes.
#[derive(Debug, Default)]
pub struct OpTree {
    /// Operator of each node.
    pub op: Vec<EventId>,
    /// Node of the innermost enclosing operator per node; [`ROOT`] if there is none.
    pub parent: Vec<u32>,
    /// One past the last descendant per node.
    pub end: Vec<u32>,
    /// Node per event; [`ROOT`] for events that are not operators.
    node: Vec<u32>,
}

/// Value for "no node", such as the parent of a root.
pub const ROOT: u32 = u32::MAX;

impl OpTree {
    /// Build the forest from the nesting of the trace. Roots and siblings are in order of start.
    pub fn new(trace: &Trace) -> Self {
        // Innermost operator at or above each event; parents come before children in a track's order.
        let mut around = vec![EventId::NONE; trace.events.len()];
        let mut ops: Vec<(EventId, EventId)> = Vec::new();
        for track in trace.tracks.ids().filter(|&t| trace.tracks.get(t).kind == TrackKind::Thread) {
            for &event in trace.track_events(track) {
                let parent = trace.events.parent[event.index()];
                let above = if parent.is_some() { around[parent.index()] } else { EventId::NONE };
                let is_op = trace.kind(event) == EventKind::Operator;
                around[event.index()] = if is_op { event } else { above };
                if is_op {
                    ops.push((event, above));
                }
            }
        }
        Self::from_parents(trace.events.len(), &ops)
    }

    /// Build the forest from pairs of (operator, enclosing operator), in depth-first order.
    fn from_parents(events: usize, ops: &[(EventId, EventId)]) -> Self {
        let mut position = vec![ROOT; events];
        for (i, (op, _)) in ops.iter().enumerate() {
            position[op.index()] = i as u32;
        }
        let above = |i: usize| ops[i].1.some().map_or(ROOT, |p| position[p.index()]);
        // Children as linked lists, built from back to front so that they end up in order.
        let (mut first_root, mut first, mut next) = (ROOT, vec![ROOT; ops.len()], vec![ROOT; ops.len()]);
        for i in (0..ops.len()).rev() {
            let head = match above(i) {
                ROOT => &mut first_root,
                parent => &mut first[parent as usize],
            };
            next[i] = std::mem::replace(head, i as u32);
        }
        let mut tree = Self { node: vec![ROOT; events], ..Self::default() };
        let mut stack: Vec<(u32, u32)> = Vec::new();
        let mut at = first_root;
        loop {
            while at != ROOT {
                let node = tree.op.len() as u32;
                let op = ops[at as usize].0;
                tree.parent.push(stack.last().map_or(ROOT, |&(_, parent)| parent));
                tree.op.push(op);
                tree.end.push(node + 1);
                tree.node[op.index()] = node;
                stack.push((at, node));
                at = first[at as usize];
            }
            let Some((done, node)) = stack.pop() else { break };
            tree.end[node as usize] = tree.op.len() as u32;
            at = next[done as usize];
        }
        tree
    }

    /// Number of operators in the forest.
    pub fn len(&self) -> usize {
        self.op.len()
    }

    /// True if the forest has no operators.
    pub fn is_empty(&self) -> bool {
        self.op.is_empty()
    }

    /// Forest node of an operator event; `None` for other events.
    pub fn node_of(&self, event: EventId) -> Option<u32> {
        self.node.get(event.index()).copied().filter(|&n| n != ROOT)
    }

    /// Group the GPU operations for which `include` is true by their launching operator.
    pub fn gpu_work(&self, trace: &Trace, include: &[bool]) -> GpuWork {
        let mut pairs: Vec<(u32, GpuOpId)> = trace
            .gpu
            .ids()
            .filter(|g| include[g.index()])
            .filter_map(|g| Some((self.node_of(trace.gpu.operator[g.index()].some()?)?, g)))
            .collect();
        pairs.sort_unstable();
        let mut offset = vec![0u32; self.len() + 1];
        for &(node, _) in &pairs {
            offset[node as usize + 1] += 1;
        }
        for node in 0..self.len() {
            offset[node + 1] += offset[node];
        }
        GpuWork { gpu: pairs.into_iter().map(|(_, g)| g).collect(), offset }
    }
}

/// GPU operations grouped by the operator that launched them, in the order of forest nodes.
#[derive(Debug)]
pub struct GpuWork {
    gpu: Vec<GpuOpId>,
    offset: Vec<u32>,
}

impl GpuWork {
    /// GPU operations that an operator itself launched.
    pub fn own(&self, node: u32) -> &[GpuOpId] {
        self.slice(node, node + 1)
    }

    /// GPU operations that an operator and all operators inside it launched.
    pub fn subtree(&self, tree: &OpTree, node: u32) -> &[GpuOpId] {
        self.slice(node, tree.end[node as usize])
    }

    /// GPU operations that the operators of nodes `from..to` launched.
    fn slice(&self, from: u32, to: u32) -> &[GpuOpId] {
        &self.gpu[self.offset[from as usize] as usize..self.offset[to as usize] as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subtrees_are_contiguous() {
        let e = EventId;
        let none = EventId::NONE;
        // 5 calls 1; 1 calls 2 and, after 3 started, 4; 3 is another root.
        let ops = [(e(5), none), (e(1), e(5)), (e(2), e(1)), (e(3), none), (e(4), e(1))];
        let tree = OpTree::from_parents(6, &ops);
        assert_eq!(tree.op, [e(5), e(1), e(2), e(4), e(3)]);
        assert_eq!(tree.parent, [ROOT, 0, 1, 1, ROOT]);
        assert_eq!(tree.end, [4, 4, 3, 4, 5]);
        assert_eq!(tree.node_of(e(4)), Some(3));
        assert_eq!(tree.node_of(e(0)), None);
        assert!(OpTree::from_parents(3, &[]).is_empty());
    }
}
