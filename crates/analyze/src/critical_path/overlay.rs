//! The critical path as marks and arrows on top of the trace file (section 2.7).

use super::graph::{Edge, EdgeKind};
use super::{CriticalPath, TrackKey};

/// What an overlay shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OverlayMode {
    /// Leave out complete events that are neither on the path nor annotations nor Python frames. Takes precedence over
    /// `all_edges`.
    pub only_critical: bool,
    /// Arrows for all edges of the graph, except launch edges of weight 0, instead of the path's dependencies, launch
    /// delays and synchronisation.
    pub all_edges: bool,
}

/// One end of an arrow.
#[derive(Clone, Debug, PartialEq)]
pub struct FlowEnd {
    /// Process as in the source.
    pub pid: TrackKey,
    /// Thread as in the source.
    pub tid: TrackKey,
    /// Whole µs in the file's own time.
    pub ts_us: i64,
}

/// An arrow between two events.
#[derive(Clone, Debug, PartialEq)]
pub struct FlowPair {
    /// Running number from 0.
    pub id: u64,
    /// Where it starts.
    pub from: FlowEnd,
    /// Where it ends.
    pub to: FlowEnd,
    /// Weight of the edge in whole µs.
    pub weight_us: i64,
    /// Whether the edge is on the path.
    pub critical: bool,
    /// HTA's text for the kind of edge.
    pub kind: &'static str,
}

/// An event of the trace file to be marked, with what tells whether it is the one meant.
#[derive(Clone, Debug, PartialEq)]
pub struct Mark {
    /// Position in the file's event list.
    pub index: u32,
    /// The event's name.
    pub name: String,
    /// The event's start in ns, as the path has it.
    pub start_ns: i64,
    /// What reading may have added to it, ns: in the file it starts as much earlier, or there.
    pub clock_shift_ns: i64,
}

/// What to mark in the trace file and what to add to it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Overlay {
    /// The events on the path, by ascending position.
    pub critical: Vec<Mark>,
    /// Arrows to add.
    pub flows: Vec<FlowPair>,
    /// Whether to leave out complete events that are not on the path.
    pub only_critical: bool,
}

impl CriticalPath {
    /// Marks and arrows, for whoever writes the trace file anew.
    pub fn overlay(&self, mode: OverlayMode) -> Overlay {
        let mut on_path = vec![false; self.graph.edges.len()];
        for &edge in &self.path.edges {
            if let Some(mark) = on_path.get_mut(edge as usize) {
                *mark = true;
            }
        }
        let edges: Vec<u32> = if mode.all_edges && !mode.only_critical {
            (0..self.graph.edges.len() as u32).filter(|&e| !is_free_launch(&self.graph.edges[e as usize])).collect()
        } else {
            self.path
                .edges
                .iter()
                .copied()
                .filter(|&e| self.graph.edges.get(e as usize).is_some_and(is_shown))
                .collect()
        };
        let flow = |(id, &e): (usize, &u32)| {
            let edge = &self.graph.edges[e as usize];
            FlowPair {
                id: id as u64,
                from: self.flow_end(edge.from),
                to: self.flow_end(edge.to),
                weight_us: edge.weight_us as i64,
                critical: on_path[e as usize],
                kind: edge.kind.overlay_text(),
            }
        };
        let flows = edges.iter().enumerate().map(flow).collect();
        let mark = |&row: &u32| Mark {
            index: self.events.index[row as usize],
            name: self.events.name(row).to_owned(),
            start_ns: self.events.start_ns[row as usize],
            clock_shift_ns: self.events.track(row).map_or(0, |track| track.clock_shift_ns),
        };
        let critical = self.path_events().iter().map(mark).collect();
        Overlay { critical, flows, only_critical: mode.only_critical }
    }

    /// An arrow touches a span at its start or end; on GPU tracks up to 1 µs before the end, so that it stays inside.
    /// HTA cuts to whole µs, and so does this: where spans start between two, an arrow ends less than 1 µs ahead of its span.
    fn flow_end(&self, node: u32) -> FlowEnd {
        let (event, is_start) = (self.graph.nodes.event[node as usize], self.graph.nodes.is_start[node as usize]);
        let row = event as usize;
        let (start, dur) = (self.events.start_ns[row], self.events.dur_ns[row]);
        let inset = if self.events.on_device[row] { dur.min(1_000) } else { 0 };
        let time = if is_start { start } else { start.saturating_add(dur).saturating_sub(inset) };
        let Some(track) = self.events.track(event).cloned() else {
            return FlowEnd { pid: TrackKey::Missing, tid: TrackKey::Missing, ts_us: time / 1000 };
        };
        FlowEnd { pid: track.pid, tid: track.tid, ts_us: time.saturating_sub(track.clock_shift_ns) / 1000 }
    }
}

fn is_free_launch(edge: &Edge) -> bool {
    edge.kind == EdgeKind::KernelLaunchDelay && edge.weight_us == 0.0
}

fn is_shown(edge: &Edge) -> bool {
    matches!(edge.kind, EdgeKind::Dependency | EdgeKind::KernelLaunchDelay | EdgeKind::SyncDependency)
}
