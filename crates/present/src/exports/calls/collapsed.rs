//! Collapsed stacks: one line `frame;frame;frame weight` per call path, the input of flame graph tools.

use super::{title, weighted_stacks};
use stackline_model::{CallMetric, CallingContextTree};
use std::collections::BTreeMap;
use std::io::{self, Write};

/// Write the stacks of all threads together as collapsed stacks, in the order of their text.
///
/// # Errors
/// If `out` cannot be written to.
pub fn write(tree: &CallingContextTree, metric: CallMetric, out: &mut dyn Write) -> io::Result<()> {
    for (stack, weight) in stacks(tree, metric) {
        writeln!(out, "{stack} {weight}")?;
    }
    Ok(())
}

/// Collapsed stacks of a call tree with their summed weights in a metric.
pub(super) fn stacks(tree: &CallingContextTree, metric: CallMetric) -> BTreeMap<String, u64> {
    // The separator, and line breaks, cannot be part of a name.
    let clean = |text: String| text.replace(';', ":").replace(['\n', '\r'], " ");
    let titles: Vec<String> = tree.frames.iter().map(|frame| clean(title(tree, frame))).collect();
    let mut stacks: BTreeMap<String, u64> = BTreeMap::new();
    for stack in weighted_stacks(tree, metric) {
        let names =
            tree.path(stack.node).into_iter().map(|node| titles[tree.nodes.frame[node.index()].index()].as_str());
        let text = names.collect::<Vec<_>>().join(";");
        let text = if text.is_empty() { "(nothing)".to_owned() } else { text };
        let weight = stacks.entry(text).or_default();
        *weight = weight.saturating_add(stack.stats.sum);
    }
    stacks
}
