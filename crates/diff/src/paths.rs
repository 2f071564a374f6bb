//! Call paths that are equal between runs: modules by class and position among siblings, functions without lines.

use super::profile::{Cell, MOST_FRAMES, Row};
use super::units::Units;
use rustc_hash::FxHashMap;
use stackline_model::names::{MODULE_PREFIX, STEP_PREFIX};
use stackline_model::{EventId, EventKind, StrId, Trace, TrackKind};
use stackline_timeline::classify::is_module_call;
use std::collections::BTreeMap;
use std::sync::Arc;

/// "No path".
const TOP: u32 = u32::MAX;

/// Frames of call paths in a trace: the most informative kind of records that it has.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Modules, annotations, outermost operators.
    Modules,
    /// Python functions, annotations, outermost operators.
    Functions,
    /// Annotations and operators, nested.
    Operators,
    /// All spans, in traces without these kinds.
    Spans,
}

/// Node in the tree of call paths: its parent and its last frame.
struct Node {
    above: u32,
    label: String,
    /// Number of frames of the path.
    frames: usize,
    is_operator: bool,
}

/// All call paths of a trace, as a tree.
pub(super) struct Paths {
    kind: Kind,
    nodes: Vec<Node>,
    /// Innermost path at or above each event.
    enclosing: Vec<u32>,
    /// Events that are the last frame of their path.
    ends: Vec<EventId>,
}

impl Paths {
    /// Build the tree of call paths of all host threads, and find the innermost path at or above each event.
    pub(super) fn new(trace: &Trace) -> Self {
        let mut paths =
            Self { kind: kind(trace), nodes: Vec::new(), enclosing: vec![TOP; trace.events.len()], ends: Vec::new() };
        let mut index = Index::default();
        for track in trace.tracks.ids().filter(|&t| trace.tracks.get(t).kind == TrackKind::Thread) {
            // Parents come before their children.
            for &event in trace.track_events(track) {
                let above = trace.events.parent[event.index()];
                let above = if above.is_some() { paths.enclosing[above.index()] } else { TOP };
                let belongs = paths.is_path_frame(trace, event, above);
                let node = if belongs { index.node(trace, &mut paths.nodes, above, event) } else { above };
                paths.enclosing[event.index()] = node;
                if belongs {
                    paths.ends.push(event);
                }
            }
        }
        paths
    }

    /// Name of the kind of frames in the call paths, such as `modules`; stable between versions.
    pub(super) fn kind(&self) -> &'static str {
        match self.kind {
            Kind::Modules => "modules",
            Kind::Functions => "functions",
            Kind::Operators => "operators",
            Kind::Spans => "spans",
        }
    }

    /// Test if an event is a frame of call paths. `above` is the path of its parent.
    fn is_path_frame(&self, trace: &Trace, event: EventId, above: u32) -> bool {
        let is_span = trace.events.is_timed(event);
        if !is_span || trace.name(event).starts_with(STEP_PREFIX) {
            return false;
        }
        let outermost = above == TOP || !self.nodes[above as usize].is_operator;
        match (self.kind, trace.kind(event)) {
            (Kind::Spans, kind) => kind != EventKind::Recording,
            (Kind::Operators, EventKind::Operator) => true,
            (_, EventKind::Operator) => outermost,
            (_, EventKind::Annotation) => true,
            (Kind::Modules, EventKind::PythonFunction) => is_module_call(trace.name(event)),
            (Kind::Functions, EventKind::PythonFunction) => true,
            _ => false,
        }
    }

    /// Times (inclusive, in ns) and calls of each call path in each step.
    pub(super) fn rows(&self, trace: &Trace, units: &Units, counted: &[bool]) -> BTreeMap<Arc<str>, Row> {
        let mut rows: Vec<Row> = vec![Row::default(); self.nodes.len()];
        for &event in &self.ends {
            let Some(unit) = units.of_event(trace, event) else { continue };
            let dur = trace.events.dur[event.index()];
            let cell = Cell { count: 1, cpu: dur, cpu_total: dur, gpu: 0 };
            rows[self.enclosing[event.index()] as usize].add(unit, &cell);
        }
        for gpu in trace.gpu.ids().filter(|gpu| counted[gpu.index()]) {
            let Some(unit) = units.of_gpu(trace, gpu) else { continue };
            let Some(from) = trace.gpu.launcher(gpu) else { continue };
            let time = trace.events.dur[trace.gpu.event[gpu.index()].index()];
            let mut node = self.enclosing[from.index()];
            while node != TOP {
                rows[node as usize].add(unit, &Cell { gpu: time, ..Cell::default() });
                node = self.nodes[node as usize].above;
            }
        }
        let mut out: BTreeMap<Arc<str>, Row> = BTreeMap::new();
        let has_row = |node: u32, row: &Row| !row.is_empty() && self.nodes[node as usize].frames <= MOST_FRAMES;
        for (node, row) in (0u32..).zip(rows).filter(|(node, row)| has_row(*node, row)) {
            let into = out.entry(self.text(node).into()).or_default();
            match into.is_empty() {
                true => *into = row.shrunk(),
                false => row.iter().for_each(|(unit, cell)| into.add(unit, cell)),
            }
        }
        out
    }

    /// Number of call paths that are too long for a row.
    pub(super) fn long_paths(&self) -> usize {
        self.nodes.iter().filter(|node| node.frames > MOST_FRAMES).count()
    }

    /// Text of a call path: labels of all frames, outermost first, joined by ` > `.
    fn text(&self, node: u32) -> String {
        let up = |&node: &u32| Some(self.nodes[node as usize].above).filter(|&above| above != TOP);
        let mut labels: Vec<&str> =
            std::iter::successors(Some(node), up).map(|node| self.nodes[node as usize].label.as_str()).collect();
        labels.reverse();
        labels.join(" > ")
    }
}

/// Most informative kind of records that a trace has: modules, functions, operators or other spans.
fn kind(trace: &Trace) -> Kind {
    let mut kind = Kind::Spans;
    for event in trace.events.ids() {
        match trace.kind(event) {
            EventKind::PythonFunction if is_module_call(trace.name(event)) => return Kind::Modules,
            EventKind::PythonFunction => kind = Kind::Functions,
            EventKind::Operator if kind == Kind::Spans => kind = Kind::Operators,
            _ => {}
        }
    }
    kind
}

/// Index to find or create the node of an event's call path, by parent node and name.
#[derive(Default)]
struct Index {
    by_name: FxHashMap<(u32, StrId), u32>,
    by_label: FxHashMap<(u32, String), u32>,
    /// Number of modules per class below a node.
    modules: FxHashMap<(u32, String), usize>,
}

impl Index {
    /// Find or create the node of the call path that ends with an event below the path `above`.
    fn node(&mut self, trace: &Trace, nodes: &mut Vec<Node>, above: u32, event: EventId) -> u32 {
        let name = trace.events.name[event.index()];
        if let Some(&node) = self.by_name.get(&(above, name)) {
            return node;
        }
        let label = self.label(above, trace.name(event));
        let next = nodes.len() as u32;
        let node = *self.by_label.entry((above, label.clone())).or_insert(next);
        if node == next {
            let frames = nodes.get(above as usize).map_or(1, |node| node.frames + 1);
            nodes.push(Node { above, label, frames, is_operator: trace.kind(event) == EventKind::Operator });
        }
        self.by_name.insert((above, name), node);
        node
    }

    /// Label of a frame that is equal in other runs. PyTorch numbers modules of a class over the whole model, and lines
    /// move when a file changes.
    fn label(&mut self, above: u32, name: &str) -> String {
        if let Some(module) = name.strip_prefix(MODULE_PREFIX) {
            let class = class(module.trim_start());
            let count = self.modules.entry((above, class.to_owned())).or_default();
            *count += 1;
            return if *count == 1 { class.to_owned() } else { format!("{class}#{count}") };
        }
        without_line(name)
    }
}

/// Class of a module name without its number: `Linear` for `Linear_12`.
fn class(module: &str) -> &str {
    match module.rsplit_once('_') {
        Some((class, number)) if !class.is_empty() && number.parse::<u32>().is_ok() => class,
        _ => module,
    }
}

/// Name of a Python frame without its line number: `train.py: step` for `train.py(12): step`.
fn without_line(name: &str) -> String {
    let Some((head, function)) = name.rsplit_once("): ") else { return name.to_owned() };
    match head.rsplit_once('(') {
        Some((file, line)) if line.parse::<u32>().is_ok() => format!("{file}: {function}"),
        _ => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_do_not_depend_on_lines_and_numbers() {
        let mut index = Index::default();
        assert_eq!(index.label(0, "nn.Module: Linear_7"), "Linear");
        assert_eq!(index.label(0, "nn.Module: Linear_9"), "Linear#2");
        assert_eq!(index.label(1, "nn.Module: Linear_9"), "Linear");
        assert_eq!(index.label(1, "nn.Module: My_Block"), "My_Block");
        assert_eq!(index.label(1, "train.py(12): step"), "train.py: step");
        assert_eq!(index.label(1, "f(x): y"), "f(x): y");
    }
}
