//! Data types of method `ctda`'s dependency graph: nodes, their time pieces, and edges with the time until which a node
//! waits for another.

use serde::{Deserialize, Serialize};
use stackline_timeline::phase_rules::Phase;

/// Kind of an edge of the dependency graph, such as a launch (section 3.2.2 of the paper).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
#[repr(u8)]
pub enum CtdaEdgeKind {
    /// Order in a thread or in a stream.
    Sequence = 0,
    /// Launch: between a launch call and its GPU work.
    Call = 1,
    /// Synchronization: of the host with a device, a stream or an event, or of a stream with an event of another
    /// stream.
    Sync = 2,
    /// Order between threads that share the GIL.
    CrossThread = 3,
}

impl CtdaEdgeKind {
    /// All kinds, in the order of the discriminants.
    pub const ALL: [Self; 4] = [Self::Sequence, Self::Call, Self::Sync, Self::CrossThread];

    /// Name in files and tables, such as `CROSS_THREAD`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Sequence => "SEQUENCE",
            Self::Call => "CALL",
            Self::Sync => "SYNC",
            Self::CrossThread => "CROSS_THREAD",
        }
    }
}

/// Edge of the dependency graph, with the time from which its target no longer waits for its source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CtdaEdge {
    /// Node that must come first.
    pub from: u32,
    /// Node that depends on `from`.
    pub to: u32,
    /// Kind of the edge.
    pub kind: CtdaEdgeKind,
    /// Effective end of `from` for `to` in ns since the trace's base: the time from which `to` no longer waits. For a
    /// launch, the end of the launch call.
    pub at_ns: i64,
}

/// Graph node of method `ctda`: a sequence of events of one thread or GPU stream.
#[derive(Clone, Debug, PartialEq)]
pub struct CtdaNode {
    /// True for GPU work.
    pub is_gpu: bool,
    /// Phase; that of the launching node for GPU work.
    pub phase: Phase,
    /// Track: a row of the events' tracks.
    pub track: u32,
    /// Start in ns since the trace's base.
    pub start_ns: i64,
    /// End in ns since the trace's base.
    pub end_ns: i64,
    /// Start of the synchronizing call with which the node begins, or that it follows, in ns since the trace's base.
    pub sync_ns: Option<i64>,
    /// First piece of the node.
    pub first_piece: u32,
    /// Number of pieces of the node.
    pub pieces: u32,
}

/// Time range of one event in a node. The pieces of a node are disjoint and in time order.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CtdaPiece {
    /// Start in ns since the trace's base.
    pub start_ns: i64,
    /// End in ns since the trace's base.
    pub end_ns: i64,
    /// Event: a row of the path's events.
    pub event: u32,
}

/// Dependency graph of method `ctda`: nodes, their time pieces, and edges.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CtdaGraph {
    /// Host nodes in time order per logical thread, then GPU nodes per stream.
    pub nodes: Vec<CtdaNode>,
    /// Pieces of all nodes.
    pub pieces: Vec<CtdaPiece>,
    /// Edges, sorted by (to, from, kind).
    pub edges: Vec<CtdaEdge>,
}

impl CtdaGraph {
    /// Time pieces of a dependency graph node.
    pub fn pieces_of(&self, node: &CtdaNode) -> &[CtdaPiece] {
        let first = node.first_piece as usize;
        self.pieces.get(first..first + node.pieces as usize).unwrap_or(&[])
    }

    /// Edges into a node, found by binary search.
    pub(crate) fn edges_into(&self, node: u32) -> &[CtdaEdge] {
        let from = self.edges.partition_point(|e| e.to < node);
        let to = from + self.edges[from..].partition_point(|e| e.to == node);
        &self.edges[from..to]
    }

    /// Number of edges of each kind, in the order of [`CtdaEdgeKind::ALL`].
    pub fn edges_by_kind(&self) -> [(CtdaEdgeKind, usize); 4] {
        CtdaEdgeKind::ALL.map(|kind| (kind, self.edges.iter().filter(|e| e.kind == kind).count()))
    }
}
