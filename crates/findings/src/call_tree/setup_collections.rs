//! Garbage collections due to Dynamo, which starts and ends compilations outside of their spans.

use super::steps::{Steps, below};
use crate::rules::garbage_collection;
use stackline_model::names::is_recompilation;
use stackline_model::{CallNodeId, CallingContextTree, Frame};

/// File from which Dynamo compiles. Compiled code does not run in it.
const COMPILES: &str = "torch/_dynamo/convert_frame.py";

impl Steps {
    /// Exclude garbage collections during Dynamo's compilations from the steps, as one-time work. Keeps those within a
    /// recompilation span, which belong to SL026.
    pub(super) fn leave_out_setup_collections(&mut self, tree: &CallingContextTree) {
        let span = |node: CallNodeId| match tree.frame(node) {
            Some(Frame::Span { name }) => Some(tree.strings.get(*name)),
            _ => None,
        };
        let compiles = below(tree, |node| match tree.frame(node) {
            Some(Frame::Python { file, .. }) => tree.strings.get(*file).ends_with(COMPILES),
            _ => false,
        });
        let compiles_again = below(tree, |node| span(node).is_some_and(is_recompilation));
        let is_collection = |node: CallNodeId| span(node).is_some_and(garbage_collection::is_collection);
        let collects =
            below(tree, |node| compiles[node.index()] && !compiles_again[node.index()] && is_collection(node));
        for (node, _) in collects.iter().enumerate().filter(|(_, collects)| **collects) {
            self.inside[node] = false;
            self.is_once[node] = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{TestTree, summaries, training};

    const DYNAMO: &str = "train.py:50 <module> > train.py:22 main > /v/site-packages/torch/_dynamo/convert_frame.py";

    fn collections(mut made: TestTree, path: &str) -> Vec<i64> {
        made.cpu(path, 100);
        let found = made.found();
        summaries(&found).into_iter().filter(|(code, ..)| *code == "SL025").map(|(.., ms)| ms).collect()
    }

    #[test]
    fn collections_caused_by_compilation_are_excluded_from_steps() {
        let collection = stackline_model::names::COLLECTION;
        let in_step = format!("train.py:50 <module> > train.py:22 main > {collection}");
        assert_eq!(collections(training(), &in_step), [10]);
        assert!(collections(training(), &format!("{DYNAMO}:2190 _compile > {collection}")).is_empty());
    }
}
