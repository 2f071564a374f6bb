//! Critical path by method `ctda` (cross-thread dependency-aware) with its graph; can be used without the trace.

use super::build::Nodes;
use super::gpu::Gpu;
use super::graph::{CtdaEdge, CtdaGraph, CtdaNode, CtdaPiece};
use super::marks::MarkKind;
use super::path::CtdaStep;
use super::{CtdaOptions, RULE_SET};
use crate::events::EventsBuilder;
use crate::{PathEvents, Warning};
use stackline_model::{EventId, Trace, TrackId};

/// Critical path of method `ctda` with its dependency graph and the data to present both.
#[derive(Clone, Debug, PartialEq)]
pub struct CtdaPath {
    /// Settings of the analysis.
    pub options: CtdaOptions,
    /// Start of the window in ns since the trace's base.
    pub window_start_ns: i64,
    /// End of the window in ns since the trace's base.
    pub window_end_ns: i64,
    /// Number of events in the analysis.
    pub rows: usize,
    /// Events of the graph's pieces.
    pub events: PathEvents,
    /// Category per event.
    pub categories: Categories,
    /// Dependency graph.
    pub graph: CtdaGraph,
    /// Nodes of the path, in time order.
    pub steps: Vec<CtdaStep>,
    /// Warnings for readers.
    pub warnings: Vec<Warning>,
}

/// Category of each event of the path's graph, as in the source trace.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Categories {
    /// Category per event: a row of `names`.
    pub of_event: Vec<u32>,
    /// Distinct categories.
    pub names: Vec<String>,
}

impl Categories {
    /// Category of an event; empty without one.
    pub fn get(&self, event: u32) -> &str {
        let name = self.of_event.get(event as usize).and_then(|&n| self.names.get(n as usize));
        name.map_or("", String::as_str)
    }

    /// Append the category of the next event, by its name.
    fn add(&mut self, name: &str) {
        let known = self.names.iter().position(|n| n == name);
        let row = known.unwrap_or_else(|| {
            self.names.push(name.to_owned());
            self.names.len() - 1
        });
        self.of_event.push(row as u32);
    }
}

impl CtdaPath {
    /// Name of the method.
    pub const METHOD: &'static str = "ctda";

    /// Version of the rules of method `ctda`.
    pub fn rule_set(&self) -> &'static str {
        RULE_SET
    }

    /// Length of the window in ns.
    pub fn window_ns(&self) -> i64 {
        self.window_end_ns.saturating_sub(self.window_start_ns)
    }

    /// Time pieces of the path in time order, limited to the time that is on the path.
    pub fn path_pieces(&self) -> impl Iterator<Item = (&CtdaStep, CtdaPiece)> + '_ {
        self.steps.iter().flat_map(|step| {
            let node = self.graph.nodes.get(step.node as usize);
            let pieces = node.map_or(&[][..], |n| self.graph.pieces_of(n));
            pieces.iter().filter_map(move |piece| {
                let (start_ns, end_ns) = (piece.start_ns.max(step.from_ns), piece.end_ns.min(step.to_ns));
                (end_ns > start_ns).then_some((step, CtdaPiece { start_ns, end_ns, event: piece.event }))
            })
        })
    }

    /// Time on the path in which events ran, in ns.
    pub fn executed_ns(&self) -> i64 {
        self.path_pieces().map(|(_, p)| p.end_ns - p.start_ns).sum()
    }

    /// Critical path coverage ratio (section 4.2 of the paper): executed time of the path divided by the length of the
    /// window.
    pub fn cpcr(&self) -> f64 {
        let window = self.window_ns();
        if window <= 0 { 0.0 } else { self.executed_ns() as f64 / window as f64 }
    }
}

/// Convert nodes and edges into a graph that can be used without the trace.
pub(super) fn pack(
    trace: &Trace,
    nodes: &Nodes,
    gpu: &Gpu,
    edges: Vec<CtdaEdge>,
) -> (CtdaGraph, PathEvents, Categories) {
    let mut packer = Packer {
        trace,
        builder: EventsBuilder::new(trace, trace.events.len()),
        categories: Categories::default(),
        graph: CtdaGraph { edges, ..CtdaGraph::default() },
    };
    for lane in &nodes.lanes {
        for node in &lane.chain.nodes {
            let first = packer.graph.pieces.len();
            for piece in lane.chain.pieces[node.pieces.clone()].iter().filter(|p| p.event.is_some()) {
                packer.piece(piece.start, piece.end, piece.event, -1);
            }
            let sync = node.sync.map(|mark| &lane.marks[mark]);
            let row = CtdaNode {
                is_gpu: false,
                phase: node.phase,
                track: packer.builder.track_row(lane.tracks[node.thread as usize]),
                start_ns: node.start,
                end_ns: node.end,
                sync_ns: sync.filter(|m| matches!(m.kind, MarkKind::Sync(_))).map(|m| m.start),
                first_piece: first as u32,
                pieces: (packer.graph.pieces.len() - first) as u32,
            };
            packer.graph.nodes.push(row);
        }
    }
    for node in &nodes.gpu {
        let first = packer.graph.pieces.len();
        let mut now = i64::MIN;
        for op in &gpu.ops[node.ops.start as usize..node.ops.end as usize] {
            // Operations of a stream may overlap slightly; overlapping time counts once.
            if op.end > now.max(op.start) {
                let stream = stream_number(trace, gpu.streams[node.stream as usize], node.stream);
                packer.piece(op.start.max(now), op.end, op.event, stream);
                now = op.end;
            }
        }
        let row = CtdaNode {
            is_gpu: true,
            phase: node.phase,
            track: packer.builder.track_row(gpu.streams[node.stream as usize]),
            start_ns: node.start,
            end_ns: node.end,
            sync_ns: None,
            first_piece: first as u32,
            pieces: (packer.graph.pieces.len() - first) as u32,
        };
        packer.graph.nodes.push(row);
    }
    (packer.graph, packer.builder.finish(), packer.categories)
}

/// Number of a GPU stream in the trace; the given position of the stream if the trace has no number.
fn stream_number(trace: &Trace, track: TrackId, position: u32) -> i64 {
    let number = trace.tracks.get(track).stream;
    if number >= 0 { number } else { i64::from(position) }
}

/// Builder of the graph, event table and categories that do not need the trace.
struct Packer<'a> {
    trace: &'a Trace,
    builder: EventsBuilder<'a>,
    categories: Categories,
    graph: CtdaGraph,
}

impl Packer<'_> {
    /// Append a time piece to the graph, and its event to the tables if the event is new.
    fn piece(&mut self, start_ns: i64, end_ns: i64, event: EventId, stream: i64) {
        let row = self.builder.row_for(event.0, event, stream);
        if row as usize == self.categories.of_event.len() {
            self.categories.add(self.trace.category(event));
        }
        self.graph.pieces.push(CtdaPiece { start_ns, end_ns, event: row });
    }
}
