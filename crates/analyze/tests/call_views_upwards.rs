//! Inverted trees, computed only as far as they are visible.

use proptest::prelude::*;
use stackline_calls::{CallView, ViewDirection, ViewOptions, view, view_upwards};
use stackline_model::{
    CallMetric, CallProcess, CallStats, CallThread, CallingContextTree, CallingContextTreeBuilder, Frame,
};
use std::collections::BTreeMap;

fn tree(hits: &[(String, u64)]) -> CallingContextTree {
    let mut builder = CallingContextTreeBuilder::new();
    let process = builder.process(CallProcess::default());
    let name = builder.text("main");
    let thread = builder.thread(CallThread { process, tid: 1, torch_id: 0, name });
    for (path, value) in hits {
        let node = path.chars().fold(CallingContextTree::ROOT, |node, letter| {
            let name = builder.text(&letter.to_string());
            let frame = builder.frame(Frame::operator(name));
            builder.child(node, frame)
        });
        builder.add(node, thread, CallMetric::OperatorTime, &CallStats::from_value(*value));
    }
    builder.finish()
}

/// Rows by the frames between them and the root.
fn by_path(view: &CallView) -> BTreeMap<String, (CallStats, CallStats)> {
    let mut paths: Vec<String> = Vec::new();
    for (row, node) in view.nodes.iter().enumerate() {
        let above = if row == 0 { String::new() } else { paths[node.parent].clone() };
        paths.push(above + &view.label(row).name);
    }
    paths.into_iter().zip(view.nodes.iter().map(|node| (node.inclusive, node.exclusive))).collect()
}

proptest! {
    /// Wide rows are equal to those of the whole view, and there are no others.
    #[test]
    fn upward_view_equals_full_view_above_the_threshold(
        hits in prop::collection::vec(("[a-d]{1,8}", 1_u64..1000), 1..40),
        least in prop_oneof![Just(0.0), 0.0..0.5],
        below in "[a-d]{0,3}",
        hide in prop::option::of(prop::sample::select(vec!["^[ab]", "^d"])),
    ) {
        let tree = tree(&hits);
        let hide = hide.map(|text| regex_lite::Regex::new(text).unwrap());
        let options = ViewOptions { shape: ViewDirection::BottomUp, hide, ..ViewOptions::new(CallMetric::OperatorTime) };
        let whole = view(&tree, &options);
        let labels: Vec<_> = below.chars().map(|letter| {
            whole.labels.iter().find(|label| label.name == letter.to_string()).cloned().unwrap_or_default()
        }).collect();
        let part = view_upwards(&tree, &options, &[], &labels, least).unwrap();
        let rows = by_path(&whole);
        let Some(&(all, own)) = rows.get(&below) else {
            prop_assert_eq!((part.nodes.len(), part.nodes[0].inclusive.sum), (1, 0));
            return Ok(());
        };
        prop_assert_eq!((part.total, part.nodes[0].inclusive, part.nodes[0].exclusive), (whole.total, all, own));
        let is_wide = |stats: &CallStats| stats.sum as f64 >= all.sum as f64 * least;
        let expected: BTreeMap<String, _> = rows
            .iter()
            .filter(|(path, (stats, _))| path.len() > below.len() && path.starts_with(&below) && is_wide(stats))
            .map(|(path, values)| (path[below.len()..].to_owned(), *values))
            .collect();
        let small_callers: u32 = part.small_callers.iter().sum();
        // As the root of a whole, it has no name.
        let mut nameless = part;
        nameless.nodes[0].label = 0;
        let mut found = by_path(&nameless);
        found.remove("");
        prop_assert_eq!(&found, &expected);
        let is_known = |path: &str| path == below || rows.get(path).is_some_and(|(stats, _)| is_wide(stats));
        let left_out = rows.iter().filter(|(path, (stats, _))| {
            path.len() > below.len() && path.starts_with(&below) && !is_wide(stats) && is_known(&path[..path.len() - 1])
        });
        prop_assert_eq!(small_callers as usize, left_out.count());
    }
}
