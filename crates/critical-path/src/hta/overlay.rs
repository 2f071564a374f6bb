//! Marks and arrows that show the critical path of method `hta` in a copy of the trace file (section 2.7 of the HTA
//! specification).

use super::graph::Edge;
use super::result::CriticalPath;
use crate::{EdgeKind, FlowEnd, FlowPair, Mark, Overlay, TrackKey};

/// Options of an overlay: which events and arrows the copy of the trace file contains.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OverlayMode {
    /// Omit complete events, except events on the path, annotations and Python frames. Takes precedence over
    /// `all_edges`.
    pub only_critical: bool,
    /// Show all edges of the graph, except launch edges of weight 0, as arrows. Otherwise arrows show the path's
    /// dependencies, launch delays and synchronizations.
    pub all_edges: bool,
}

impl CriticalPath {
    /// Create the marks and arrows that show the critical path in a copy of the trace file.
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

    /// Thread and time in µs of the arrow end at a graph node: the start or end of the node's event.
    ///
    /// On GPU tracks the end lies up to 1 µs before the span's end, so that it is inside the span. Times are cut to
    /// whole µs, as in HTA. So an arrow may point to a time less than 1 µs before the start of its span.
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

/// True if an edge is a launch delay of weight 0, which overlays never show.
fn is_free_launch(edge: &Edge) -> bool {
    edge.kind == EdgeKind::KernelLaunchDelay && edge.weight_us == 0.0
}

/// True if an overlay shows an edge of the path as an arrow: dependency, launch delay or synchronization.
fn is_shown(edge: &Edge) -> bool {
    matches!(edge.kind, EdgeKind::Dependency | EdgeKind::KernelLaunchDelay | EdgeKind::SyncDependency)
}
