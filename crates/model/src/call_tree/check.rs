//! Integrity checks that make unchecked indexing of a tree safe.

use super::CallingContextTree;
use crate::{CallMetric, StrId};

impl CallingContextTree {
    /// Check that every handle refers to an existing row, that parents come before their children, and that the rows of
    /// metrics ascend.
    ///
    /// # Errors
    /// A sentence with the violated rule.
    pub fn check(&self) -> Result<(), String> {
        self.check_nodes()?;
        self.check_metrics()?;
        let text = |id: StrId| id.is_none() || id.index() < self.strings.len();
        all(&self.frames, |frame| frame.texts().into_iter().all(text), "table call_frames")?;
        all(&self.threads, |t| t.process.index() < self.processes.len() && text(t.name), "table call_threads")
    }

    /// Check that row 0 is a root, that parents come before their children, and that the frames of nodes exist.
    fn check_nodes(&self) -> Result<(), String> {
        let nodes = &self.nodes;
        if nodes.parent.len() != nodes.frame.len() {
            return Err("the columns of table call_nodes differ in length".to_owned());
        }
        if nodes.parent.first().is_some_and(|p| p.is_some()) || nodes.frame.first().is_some_and(|f| f.is_some()) {
            return Err("the root in table call_nodes has a parent or a frame".to_owned());
        }
        for row in 1..nodes.len() {
            if nodes.parent[row].index() >= row {
                return Err(format!("row {row} of table call_nodes comes before its parent"));
            }
            if nodes.frame[row].index() >= self.frames.len() {
                return Err(format!("row {row} of column call_nodes.frame refers to an entry that does not exist"));
            }
        }
        Ok(())
    }

    /// Check that the nodes, threads and counter names of metrics exist, and that rows ascend by node and thread.
    fn check_metrics(&self) -> Result<(), String> {
        let metrics = &self.metrics;
        let rows = metrics.node.len();
        if metrics.thread.len() != rows || metrics.metric.len() != rows || metrics.stats.len() != rows {
            return Err("the columns of table call_metrics differ in length".to_owned());
        }
        all(&metrics.node, |node| node.index() < self.nodes.len(), "column call_metrics.node")?;
        all(&metrics.thread, |thread| thread.index() < self.threads.len(), "column call_metrics.thread")?;
        let known =
            |metric: &CallMetric| !matches!(metric, CallMetric::Counter(name, _) if name.index() >= self.strings.len());
        all(&metrics.metric, known, "column call_metrics.metric")?;
        let key = |row: usize| (metrics.node[row], metrics.thread[row]);
        match (1..rows).find(|&row| key(row - 1) > key(row)) {
            Some(row) => Err(format!("table call_metrics is not sorted at row {row}")),
            None => Ok(()),
        }
    }
}

/// Check that `holds` is true for all values of a column; otherwise the error names the first row with an invalid
/// reference.
fn all<T>(values: &[T], holds: impl Fn(&T) -> bool, column: &str) -> Result<(), String> {
    match values.iter().position(|value| !holds(value)) {
        None => Ok(()),
        Some(row) => Err(format!("row {row} of {column} refers to an entry that does not exist")),
    }
}
