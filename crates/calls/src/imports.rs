//! Folding of Python module imports into one row each, because import frames are many, deep, and rarely relevant.

use super::cct_from_trace::TraceCallTree;
use stackline_model::names::IMPORTS;
use stackline_model::vocabulary::is_own_code;
use stackline_model::{CallNodeId, CallNodes, CallThreadId, CallingContextTree, Frame, FrameId};
use std::collections::BTreeMap;

/// Name of the span that replaces an import and all its calls.
pub const IMPORT: &str = "import of modules";

/// Replace Python's import machinery by a span [`IMPORT`] per caller, which gets all values of library code below. User
/// code in imported modules keeps its own frames, because a program may do all its work there.
#[must_use]
pub fn fold_imports(tree: CallingContextTree) -> CallingContextTree {
    fold(tree).0
}

impl TraceCallTree {
    /// Fold module imports of a call tree ([`fold_imports`]), and move events to the nodes of the folded tree.
    #[must_use]
    pub fn with_imports_folded(self) -> Self {
        let Self { tree, mut events, steps, uncounted_calls } = self;
        let (tree, moved) = fold(tree);
        let Some(moved) = moved else { return Self { tree, events, steps, uncounted_calls } };
        events.iter_mut().for_each(|(node, _)| *node = moved[node.index()]);
        events.sort_unstable();
        let mut sums: BTreeMap<(CallNodeId, CallThreadId), u64> = BTreeMap::new();
        for (node, thread, count) in uncounted_calls {
            *sums.entry((moved[node.index()], thread)).or_default() += count;
        }
        let uncounted_calls = sums.into_iter().map(|((node, thread), count)| (node, thread, count)).collect();
        Self { tree, events, steps, uncounted_calls }
    }
}

/// Fold imports ([`fold_imports`]), and map each previous node to a node of the new tree; the map is `None` if nothing
/// was folded.
fn fold(mut tree: CallingContextTree) -> (CallingContextTree, Option<Vec<CallNodeId>>) {
    let is_import = |frame: &Frame| match *frame {
        Frame::Python { file, .. } => tree.strings.get(file).starts_with(IMPORTS),
        _ => false,
    };
    let imports: Vec<bool> = tree.frames.iter().map(is_import).collect();
    if !imports.contains(&true) {
        return (tree, None);
    }
    let is_users = |frame: &Frame| match *frame {
        Frame::Python { file, .. } => is_own_code(tree.strings.get(file)),
        _ => false,
    };
    let users: Vec<bool> = tree.frames.iter().map(is_users).collect();
    let name = tree.strings.intern(IMPORT);
    let span = tree.frames.push(Frame::Span { name });
    let (nodes, moved) = folded(&tree.nodes, (&imports, &users), span);
    let metrics = std::mem::take(&mut tree.metrics);
    let rows = metrics.iter().map(|(node, thread, metric, stats)| ((moved[node.index()], thread, metric), *stats));
    tree.nodes = nodes;
    tree.metrics = rows.collect();
    (tree, Some(moved))
}

/// Nodes of the tree after imports are folded, and the map from previous nodes to them.
fn folded(nodes: &CallNodes, (imports, users): (&[bool], &[bool]), span: FrameId) -> (CallNodes, Vec<CallNodeId>) {
    let holds = |of: &[bool], frame: FrameId| frame.some().is_some_and(|f| of.get(f.index()).copied().unwrap_or(false));

    let mut kept = CallNodes::default();
    let mut moved: Vec<CallNodeId> = Vec::with_capacity(nodes.len());
    // Import span of each remaining node, if it exists.
    let mut import_of: Vec<CallNodeId> = Vec::new();
    let mut within: Vec<bool> = Vec::with_capacity(nodes.len());
    for node in nodes.ids() {
        let (parent, frame) = (nodes.parent[node.index()], nodes.frame[node.index()]);
        let above = parent.some().map(|parent| (moved[parent.index()], within[parent.index()]));
        let is_import = holds(imports, frame);
        if let Some((place, true)) = above.filter(|_| is_import || !holds(users, frame)) {
            moved.push(place);
            within.push(true);
            continue;
        }
        let parent = above.map_or(CallNodeId::NONE, |(place, _)| place);
        within.push(is_import);
        if let Some(known) = import_of.get(parent.index()).and_then(|known| known.some()).filter(|_| is_import) {
            moved.push(known);
            continue;
        }
        let place = CallNodeId::new(kept.len());
        kept.parent.push(parent);
        kept.frame.push(if is_import { span } else { frame });
        import_of.push(CallNodeId::NONE);
        if let Some(import) = import_of.get_mut(parent.index()).filter(|_| is_import) {
            *import = place;
        }
        moved.push(place);
    }
    (kept, moved)
}

#[cfg(test)]
mod tests {
    use super::{IMPORT, fold_imports};
    use crate::source_lines_and_imports;
    use stackline_model::{
        CallMetric, CallStats, CallThread, CallThreadId, CallingContextTree, CallingContextTreeBuilder, Frame,
    };

    #[test]
    fn import_is_one_row_including_its_calls() {
        let mut builder = CallingContextTreeBuilder::new();
        let python = |builder: &mut CallingContextTreeBuilder, function: &str, file: &str, line| {
            let (function, file) = (builder.text(function), builder.text(file));
            builder.frame(Frame::Python { function, file, line, first_line: 1 })
        };
        let main = python(&mut builder, "<module>", "train.py", 3);
        let find = python(&mut builder, "_find_and_load", "<frozen importlib._bootstrap>", 9);
        let exec = python(&mut builder, "exec_module", "<frozen importlib._bootstrap_external>", 5);
        let step = python(&mut builder, "step", "train.py", 8);
        let numpy = python(&mut builder, "<module>", "/env/lib/python3.11/site-packages/numpy/__init__.py", 1);
        let own = python(&mut builder, "<module>", "/srv/me/model.py", 2);
        let process = builder.process(Default::default());
        let name = builder.text("main");
        let thread = builder.thread(CallThread { process, tid: 1, torch_id: 0, name });
        let mut put = |path: &[_], ns| {
            let node = path.iter().fold(CallingContextTree::ROOT, |node, &frame| builder.child(node, frame));
            let stats = CallStats { count: 1, sum: ns, min: ns, max: ns, ..CallStats::default() };
            builder.add(node, thread, CallMetric::CpuTime, &stats);
        };
        put(&[main, find, numpy, find, exec], 5);
        put(&[main, exec, numpy], 7);
        put(&[main, find], 11);
        put(&[main, find, own, find, numpy], 17);
        put(&[main, find, own, step], 19);
        put(&[main, step], 13);
        let tree = fold_imports(builder.finish());
        let rows: Vec<(Vec<String>, CallThreadId, u64)> = tree
            .metrics
            .iter()
            .map(|(node, thread, _, stats)| {
                let up = |node: &stackline_model::CallNodeId| tree.nodes.parent[node.index()].some();
                let frames = std::iter::successors(Some(node), up).filter_map(|n| tree.nodes.frame[n.index()].some());
                let mut path: Vec<String> = frames.map(|f| tree.frames[f.index()].name(&tree.strings)).collect();
                path.reverse();
                (path, thread, stats.sum)
            })
            .collect();
        let path = |name: &str| vec!["<module>".to_owned(), name.to_owned()];
        let users =
            |names: &[&str]| [&path(IMPORT)[..], &names.iter().map(|&n| n.to_owned()).collect::<Vec<_>>()].concat();
        let mut rows = rows;
        rows.sort();
        let mut expected = [
            (path(IMPORT), thread, 23),
            (users(&["<module>", IMPORT]), thread, 17),
            (users(&["<module>", "step"]), thread, 19),
            (path("step"), thread, 13),
        ];
        expected.sort();
        assert_eq!(rows, expected);
        let (lines, imports) = source_lines_and_imports(&tree, CallMetric::CpuTime);
        let own = lines.iter().filter(|line| line.exclusive.sum > 0);
        let own: Vec<(&str, u32, u64)> = own.map(|line| (&*line.file, line.line, line.exclusive.sum)).collect();
        assert_eq!((own, imports), (vec![("train.py", 8, 32)], 40));
    }
}
