//! Save a critical path as JSON and restore it. Reading executes nothing from the file, and checks the graph before
//! use.

use super::HtaOptions;
use super::breakdown::data_load_patterns;
use super::graph::{Edge, Graph, NO_EVENT, NodeTable};
use super::longest_path::{LongestPath, longest_path};
use super::result::CriticalPath;
use crate::{CriticalPathError, EdgeKind, PathEvents, Warning};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::borrow::Cow;
use std::io::{Read, Write};

/// Format name in the file.
const FORMAT: &str = "stackline-critical-path";
/// Version of the format.
const VERSION: u32 = 1;

/// Content of the file. Columns instead of records, because graphs have hundreds of thousands of edges.
#[derive(Serialize, Deserialize)]
struct Saved<'a> {
    format: Cow<'a, str>,
    version: u32,
    method: Cow<'a, str>,
    rule_set: Cow<'a, str>,
    options: Cow<'a, HtaOptions>,
    window_start_ns: i64,
    window_end_ns: i64,
    rows: usize,
    warnings: Cow<'a, [Warning]>,
    events: Cow<'a, PathEvents>,
    nodes: SavedNodes<'a>,
    edges: SavedEdges,
    path: SavedPath<'a>,
    /// Data of the caller about the trace, such as its read report.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    source: Option<Value>,
}

/// Columns of the graph's nodes in the file.
#[derive(Serialize, Deserialize)]
struct SavedNodes<'a> {
    event: Cow<'a, [u32]>,
    time_ns: Cow<'a, [i64]>,
    is_start: Cow<'a, [bool]>,
}

/// Columns of the graph's edges in the file.
#[derive(Serialize, Deserialize)]
struct SavedEdges {
    from: Vec<u32>,
    to: Vec<u32>,
    weight_us: Vec<f64>,
    /// -1 for none.
    attributed: Vec<i64>,
    kind: Vec<EdgeKind>,
}

/// Nodes, edges and weight of the critical path in the file.
#[derive(Serialize, Deserialize)]
struct SavedPath<'a> {
    nodes: Cow<'a, [u32]>,
    edges: Cow<'a, [u32]>,
    weight_us: f64,
}

impl CriticalPath {
    /// Write the critical path and its graph as JSON for [`Self::restore`].
    pub fn save(&self, out: impl Write) -> std::io::Result<()> {
        self.save_with(None::<&()>, out)
    }

    /// Write the critical path, its graph, and data of the caller about the trace as JSON ([`Self::restore_with`]).
    pub fn save_with(&self, source: Option<&impl Serialize>, out: impl Write) -> std::io::Result<()> {
        let edges = &self.graph.edges;
        let saved = Saved {
            format: FORMAT.into(),
            version: VERSION,
            method: self.method.as_str().into(),
            rule_set: self.rule_set.as_str().into(),
            options: Cow::Borrowed(&self.options),
            window_start_ns: self.window_start_ns,
            window_end_ns: self.window_end_ns,
            rows: self.rows,
            warnings: self.warnings.as_slice().into(),
            events: Cow::Borrowed(&self.events),
            nodes: SavedNodes {
                event: self.graph.nodes.event.as_slice().into(),
                time_ns: self.graph.nodes.time_ns.as_slice().into(),
                is_start: self.graph.nodes.is_start.as_slice().into(),
            },
            edges: SavedEdges {
                from: edges.iter().map(|e| e.from).collect(),
                to: edges.iter().map(|e| e.to).collect(),
                weight_us: edges.iter().map(|e| e.weight_us).collect(),
                attributed: edges
                    .iter()
                    .map(|e| if e.attributed == NO_EVENT { -1 } else { e.attributed.into() })
                    .collect(),
                kind: edges.iter().map(|e| e.kind).collect(),
            },
            path: SavedPath {
                nodes: self.path.nodes.as_slice().into(),
                edges: self.path.edges.as_slice().into(),
                weight_us: self.path.weight_us,
            },
            source: source.map(serde_json::to_value).transpose()?,
        };
        let mut out = std::io::BufWriter::new(out);
        serde_json::to_writer(&mut out, &saved)?;
        out.flush()
    }

    /// Restore a critical path from a file of [`Self::save`]. All functions of [`CriticalPath`] work on the result; only
    /// the trace is missing.
    pub fn restore(input: impl Read) -> Result<Self, CriticalPathError> {
        Self::restore_with::<Value>(input).map(|(path, _)| path)
    }

    /// Restore a critical path and the caller's data from a file of [`Self::save_with`]. The data is `None` in files of
    /// [`Self::save`].
    pub fn restore_with<S: DeserializeOwned>(input: impl Read) -> Result<(Self, Option<S>), CriticalPathError> {
        let fail = |reason: String| CriticalPathError::Restore { reason };
        let saved: Saved<'_> =
            serde_json::from_reader(std::io::BufReader::new(input)).map_err(|e| fail(e.to_string()))?;
        if saved.format != FORMAT || saved.version != VERSION {
            return Err(fail(format!(
                "the file has the format {}, version {}, which this version of Stackline cannot read",
                saved.format, saved.version
            )));
        }
        let nodes = NodeTable {
            event: saved.nodes.event.into_owned(),
            time_ns: saved.nodes.time_ns.into_owned(),
            is_start: saved.nodes.is_start.into_owned(),
        };
        let edges = saved.edges.rows().map_err(fail)?;
        let path = LongestPath {
            nodes: saved.path.nodes.into_owned(),
            edges: saved.path.edges.into_owned(),
            weight_us: saved.path.weight_us,
        };
        let restored = Self {
            method: saved.method.into_owned(),
            rule_set: saved.rule_set.into_owned(),
            options: saved.options.into_owned(),
            window_start_ns: saved.window_start_ns,
            window_end_ns: saved.window_end_ns,
            rows: saved.rows,
            events: saved.events.into_owned(),
            graph: Graph { nodes, edges },
            path,
            warnings: saved.warnings.into_owned(),
        };
        restored.check().map_err(fail)?;
        let source = saved.source.map(serde_json::from_value).transpose().map_err(|e| fail(e.to_string()))?;
        Ok((restored, source))
    }

    /// Search the longest path of the graph again. The result equals [`Self::path`] unless the graph was edited.
    pub fn recompute(&mut self) {
        self.path = longest_path(self.graph.nodes.len(), &self.graph.edges).unwrap_or_default();
    }

    /// Check that columns, references and path of a restored result are consistent, and that the graph has no cycle.
    fn check(&self) -> Result<(), String> {
        self.events.check()?;
        data_load_patterns(&self.options.data_load_events).map_err(|e| e.to_string())?;
        let (nodes, edges) = (&self.graph.nodes, &self.graph.edges);
        if nodes.time_ns.len() != nodes.len() || nodes.is_start.len() != nodes.len() {
            return Err("the columns of the table of graph nodes differ in length".to_owned());
        }
        let events = self.events.len();
        let node = |n: u32| (n as usize) < nodes.len();
        let event = |e: u32| (e as usize) < events;
        if !nodes.event.iter().all(|&e| event(e)) {
            return Err("a node of the dependency graph refers to an event that does not exist".to_owned());
        }
        if !edges.iter().all(|e| node(e.from) && node(e.to) && (e.attributed == NO_EVENT || event(e.attributed))) {
            return Err("an edge of the dependency graph refers to a node or event that does not exist".to_owned());
        }
        let connected =
            self.path.nodes.len() == self.path.edges.len() + 1
                && self.path.nodes.windows(2).zip(&self.path.edges).all(|(pair, &e)| {
                    edges.get(e as usize).is_some_and(|edge| (edge.from, edge.to) == (pair[0], pair[1]))
                });
        if !connected {
            return Err("the critical path does not follow the edges of the dependency graph".to_owned());
        }
        longest_path(nodes.len(), edges).map(|_| ()).map_err(|_| "the dependency graph has a cycle".to_owned())
    }
}

impl SavedEdges {
    /// Convert the columns of the file to edges; an error for columns of different lengths or invalid events.
    fn rows(&self) -> Result<Vec<Edge>, String> {
        let n = self.from.len();
        if [self.to.len(), self.weight_us.len(), self.attributed.len(), self.kind.len()].iter().any(|&l| l != n) {
            return Err("the columns of the table of graph edges differ in length".to_owned());
        }
        let row = |i: usize| {
            let attributed = match self.attributed[i] {
                -1 => NO_EVENT,
                event => u32::try_from(event).map_err(|_| {
                    format!("an edge of the dependency graph has the event number {event}, which is invalid")
                })?,
            };
            let (from, to, weight_us, kind) = (self.from[i], self.to[i], self.weight_us[i], self.kind[i]);
            Ok(Edge { from, to, weight_us, attributed, kind })
        };
        (0..n).map(row).collect()
    }
}
