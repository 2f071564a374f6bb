//! Shares of flat and grouped views over random trees: none is more than the whole.

use proptest::prelude::*;
use stackline_calls::{Grouping, ViewDirection, ViewOptions, view};
use stackline_model::{
    CallMetric, CallNodeId, CallProcess, CallStats, CallThread, CallingContextTree, CallingContextTreeBuilder, Frame,
};

/// A call: its caller (a row before it), its kind, its name, and its time without other calls.
type Row = (usize, u8, u8, u16);

/// A tree as a recorder writes it: calls of operators hold those below them, but for backward nodes below their forward
/// operator, which run later.
fn tree(rows: &[Row]) -> CallingContextTree {
    let mut builder = CallingContextTreeBuilder::new();
    let process = builder.process(CallProcess::default());
    let name = builder.text("main");
    let thread = builder.thread(CallThread { process, tid: 0, torch_id: 0, name });
    let mut made: Vec<(CallNodeId, usize, u8, u64)> = vec![(CallingContextTree::ROOT, 0, 0, 0)];
    for &(caller, kind, name, own) in rows {
        let caller = caller % made.len();
        let text = match kind {
            1 => builder.text("autograd::engine::evaluate_function: X"),
            _ => builder.text(&format!("n{name}")),
        };
        let frame = match kind {
            0 => Frame::operator(text),
            1 => Frame::operator(text),
            2 => Frame::backward(text),
            3 => Frame::Module { path: text, class: text },
            _ => Frame::Python { function: text, file: text, line: u32::from(own % 3), first_line: 1 },
        };
        let frame = builder.frame(frame);
        let node = builder.child(made[caller].0, frame);
        made.push((node, caller, kind, if kind <= 2 { u64::from(own) + 1 } else { 0 }));
    }
    let mut inside: Vec<u64> = made.iter().map(|row| row.3).collect();
    for at in (1..made.len()).rev() {
        let (_, caller, kind, _) = made[at];
        let is_linked = kind == 2 && made[caller].2 != 1;
        if !is_linked {
            inside[caller] += inside[at];
        }
    }
    for (&(node, _, kind, own), &inside) in made.iter().zip(&inside).skip(1) {
        if kind <= 2 {
            builder.add(node, thread, CallMetric::OperatorTime, &CallStats::from_value(own));
            builder.add(node, thread, CallMetric::CallTime, &CallStats::from_value(inside));
        }
    }
    builder.finish()
}

fn rows() -> impl Strategy<Value = Vec<Row>> {
    proptest::collection::vec((0_usize..20, 0_u8..6, 0_u8..3, 0_u16..1000), 1..40)
}

proptest! {
    #[test]
    fn no_share_is_more_than_the_whole(rows in rows(), hidden in proptest::option::of(0_u8..3), focus in proptest::option::of(0_u8..3)) {
        let tree = tree(&rows);
        let pattern = |name: Option<u8>| name.map(|name| regex_lite::Regex::new(&format!("^n{name}")).unwrap());
        let groups = [Grouping::Module, Grouping::Function, Grouping::Phase, Grouping::Operator, Grouping::File];
        for metric in [CallMetric::OperatorTime, CallMetric::CallTime] {
            for by in std::iter::once(None).chain(groups.map(Some)) {
                for shape in [ViewDirection::Flat, ViewDirection::TopDown] {
                    let (hide, focus) = (pattern(hidden), pattern(focus));
                    let options = ViewOptions { shape, by, hide, focus, by_line: false, ..ViewOptions::new(metric) };
                    let view = view(&tree, &options);
                    for (row, node) in view.nodes.iter().enumerate() {
                        let name = &view.label(row).name;
                        prop_assert!(node.inclusive.sum <= view.total.sum, "{metric:?} {by:?} {shape:?} {name}: {} of {}", node.inclusive.sum, view.total.sum);
                    }
                    let of_groups: u64 = view.nodes.iter().filter(|node| node.depth == 1).map(|node| node.inclusive.sum).sum();
                    prop_assert!(by.is_none() || of_groups <= view.total.sum, "{metric:?} {by:?} {shape:?}: {of_groups} of {}", view.total.sum);
                    let own: u64 = view.nodes.iter().map(|node| node.exclusive.sum).sum();
                    prop_assert!(metric == CallMetric::CallTime || own <= view.total.sum);
                    prop_assert!(view.nodes.iter().all(|node| node.exclusive.sum <= view.total.sum), "{metric:?} {by:?} {shape:?}");
                }
            }
        }
    }

    /// By definition: a function has all that was measured at and below its outermost calls.
    #[test]
    fn flat_rows_contain_their_outermost_calls(rows in rows()) {
        let tree = tree(&rows);
        let options = ViewOptions { shape: ViewDirection::Flat, by_line: false, ..ViewOptions::new(CallMetric::OperatorTime) };
        let view = view(&tree, &options);
        let own = tree.exclusive(CallMetric::OperatorTime, |_| true);
        for (row, node) in view.nodes.iter().enumerate().skip(1) {
            let label = view.label(row);
            let is_below = |node: &CallNodeId| tree.path(*node).into_iter().filter_map(|at| tree.frame(at)).any(|frame| {
                frame.kind().name() == label.kind && frame.name(&tree.strings) == label.name
            });
            let sum: u64 = tree.nodes.ids().filter(is_below).map(|node| own[node.index()].sum).sum();
            prop_assert_eq!(node.inclusive.sum, sum);
        }
    }
}

/// A function that calls itself by way of another one, and a backward node that takes longer than its forward operator.
#[test]
fn calls_within_calls_count_once() {
    let f_g_f: [Row; 3] = [(0, 0, 0, 9), (1, 0, 1, 4), (2, 0, 0, 4)];
    let flat = ViewOptions { shape: ViewDirection::Flat, ..ViewOptions::new(CallMetric::CallTime) };
    let row = |rows: &[Row], name: &str| {
        let view = view(&tree(rows), &flat);
        let found = (1..view.nodes.len()).find(|&row| view.label(row).name == name).unwrap();
        (view.nodes[found].inclusive.sum, view.total.sum)
    };
    assert_eq!((row(&f_g_f, "n0"), row(&f_g_f, "n1")), ((20, 20), (10, 20)));
    let backward: [Row; 2] = [(0, 0, 0, 9), (1, 2, 1, 29)];
    assert_eq!((row(&backward, "n0"), row(&backward, "n1")), ((40, 40), (30, 40)));
}
