//! The dependency graph: nodes with the pieces of time that they are made of, and edges that say until when a node had
//! to wait for another.

use super::rules::Phase;
use serde::{Deserialize, Serialize};

/// What an edge means (section 3.2.2 of the paper).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
#[repr(u8)]
pub enum CtdaEdgeKind {
    /// Order in a thread or in a stream.
    Sequence = 0,
    /// From the calls that launch to what they launched.
    Call = 1,
    /// Synchronisation: of the host with a device, a stream or an event, or of a stream with an event of another.
    Sync = 2,
    /// Order between threads that share the interpreter's lock.
    CrossThread = 3,
}

impl CtdaEdgeKind {
    /// Every kind, in the order of the discriminants.
    pub const ALL: [Self; 4] = [Self::Sequence, Self::Call, Self::Sync, Self::CrossThread];

    /// The name in files and tables, such as `CROSS_THREAD`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Sequence => "SEQUENCE",
            Self::Call => "CALL",
            Self::Sync => "SYNC",
            Self::CrossThread => "CROSS_THREAD",
        }
    }
}

/// An edge between two nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CtdaEdge {
    /// Node that must come first.
    pub from: u32,
    /// Node that depends on it.
    pub to: u32,
    /// What it means.
    pub kind: CtdaEdgeKind,
    /// Effective end of `from` for `to` in ns since the trace's base: when `to` no longer had to wait for it. For a
    /// launch, the end of the launching call.
    pub at_ns: i64,
}

/// A node: events that run one after the other.
#[derive(Clone, Debug, PartialEq)]
pub struct CtdaNode {
    /// Whether it is work of a GPU.
    pub is_gpu: bool,
    /// Its phase; that of the launching node for GPU work.
    pub phase: Phase,
    /// Where it ran: a row of the events' tracks.
    pub track: u32,
    /// Start in ns since the trace's base.
    pub start_ns: i64,
    /// End in ns since the trace's base.
    pub end_ns: i64,
    /// Start of the synchronising call that it begins with or follows, in ns since the trace's base.
    pub sync_ns: Option<i64>,
    /// First of its pieces.
    pub first_piece: u32,
    /// Number of its pieces.
    pub pieces: u32,
}

/// A stretch of time of one event in a node. Those of a node are disjoint and in order of time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CtdaPiece {
    /// Start in ns since the trace's base.
    pub start_ns: i64,
    /// End in ns since the trace's base.
    pub end_ns: i64,
    /// What ran: a row of the path's events.
    pub event: u32,
}

/// Nodes, pieces and edges.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CtdaGraph {
    /// Nodes: those of the host in order of time per logical thread, then those of the GPU per stream.
    pub nodes: Vec<CtdaNode>,
    /// Pieces of all nodes.
    pub pieces: Vec<CtdaPiece>,
    /// Edges by (to, from, kind).
    pub edges: Vec<CtdaEdge>,
}

impl CtdaGraph {
    /// The pieces of a node.
    pub fn pieces_of(&self, node: &CtdaNode) -> &[CtdaPiece] {
        let first = node.first_piece as usize;
        self.pieces.get(first..first + node.pieces as usize).unwrap_or(&[])
    }

    /// The edges to a node, by binary search.
    pub fn edges_to(&self, node: u32) -> &[CtdaEdge] {
        let from = self.edges.partition_point(|e| e.to < node);
        let to = from + self.edges[from..].partition_point(|e| e.to == node);
        &self.edges[from..to]
    }

    /// Number of edges of each kind, in the order of [`CtdaEdgeKind::ALL`].
    pub fn edges_by_kind(&self) -> [(CtdaEdgeKind, usize); 4] {
        CtdaEdgeKind::ALL.map(|kind| (kind, self.edges.iter().filter(|e| e.kind == kind).count()))
    }
}
