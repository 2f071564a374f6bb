//! Calls of a trace as a tree, and questions to it.

use crate::support::{read, read_mini};
use proptest::prelude::*;
use stackline_calls::{
    CallIndex, CallView, Measure, Part, TimeRange, TraceCallTree, ViewDirection, ViewOptions, calls_by_thread,
    source_lines, trace_calls, view_pruned,
};
use stackline_model::{
    CallMetric, CallNodeId, CallProcess, CallStats, CallThread, CallingContextTree, CallingContextTreeBuilder, Frame,
};
use stackline_testkit::demo;
use stackline_timeline::Scope;

/// A tree of spans: of each node its caller (a row before it), its name and its GPU time, if it is a kernel.
fn index(nodes: &[(usize, u8, Option<u16>)]) -> CallIndex {
    let mut builder = CallingContextTreeBuilder::new();
    let process = builder.process(CallProcess::default());
    let name = builder.text("");
    let thread = builder.thread(CallThread { process, tid: 0, torch_id: 0, name });
    let mut made = vec![CallingContextTree::ROOT];
    for &(caller, name, gpu) in nodes {
        let name = builder.text(&format!("n{}", name % 4));
        let frame = match gpu {
            Some(_) => Frame::Kernel { name },
            None if caller % 3 == 2 => Frame::backward(name),
            None => Frame::operator(name),
        };
        let frame = builder.frame(frame);
        let node = builder.child(made[caller % made.len()], frame);
        if let Some(ns) = gpu {
            builder.add(node, thread, CallMetric::GpuTime, &CallStats::from_value(u64::from(ns)));
        }
        made.push(node);
    }
    CallIndex::new(builder.finish(), 1)
}

fn name_path(index: &CallIndex, node: CallNodeId) -> Vec<String> {
    index.tree.path(node).into_iter().map(|node| index.name(node).to_owned()).collect()
}

/// True if names match parts, by definition.
fn matches(parts: &[&str], names: &[String]) -> bool {
    match parts {
        [] => names.is_empty(),
        ["**", rest @ ..] => (0..=names.len()).any(|skip| matches(rest, &names[skip..])),
        [part, rest @ ..] => names.first().is_some_and(|name| name == part) && matches(rest, &names[1..]),
    }
}

fn nodes() -> impl Strategy<Value = Vec<(usize, u8, Option<u16>)>> {
    proptest::collection::vec((0_usize..12, 0_u8..4, proptest::option::of(0_u16..1000)), 0..40)
}

proptest! {
    #[test]
    fn parts_add_up_to_the_total(nodes in nodes()) {
        let index = index(&nodes);
        let own: u64 = index.tree.nodes.ids().map(|node| index.value(Measure::Time, Part::Own, node).sum).sum();
        prop_assert_eq!(own, index.value(Measure::Time, Part::All, CallingContextTree::ROOT).sum);
        prop_assert_eq!(own, index.by_phase().values().map(|values| values[0].sum).sum::<u64>());
        for node in index.tree.nodes.ids() {
            let of = |part| index.value(Measure::Time, part, node);
            prop_assert_eq!(of(Part::All).sum, of(Part::Forward).sum + of(Part::Backward).sum);
            prop_assert_eq!(of(Part::All).count, of(Part::Forward).count + of(Part::Backward).count);
            let below: u64 = index.children.of_node(node).iter().map(|&c| index.value(Measure::Time, Part::All, c).sum).sum();
            prop_assert_eq!(of(Part::All).sum, of(Part::Own).sum + below);
        }
        for (_, total) in index.by_operator() {
            prop_assert_eq!(total.time.sum, total.phases.values().sum::<u64>());
        }
    }

    #[test]
    fn search_equals_its_definition(nodes in nodes(), parts in proptest::collection::vec(0_usize..5, 1..6)) {
        let index = index(&nodes);
        let words = ["n0", "n1", "n2", "**", "**"];
        let parts: Vec<&str> = parts.into_iter().map(|part| words[part]).collect();
        let found = index.search(&parts.join("/")).unwrap();
        let expected = index.tree.nodes.ids().skip(1).filter(|&node| matches(&parts, &name_path(&index, node)));
        prop_assert_eq!(found, expected.collect::<Vec<_>>());
    }

    #[test]
    fn breadth_first_has_each_node_once_and_callers_first(nodes in nodes()) {
        let index = index(&nodes);
        let order = index.breadth_first(&[CallingContextTree::ROOT]);
        let depths: Vec<usize> = order.iter().map(|&node| index.tree.path(node).len()).collect();
        prop_assert!(depths.is_sorted());
        let mut sorted = order;
        sorted.sort_unstable();
        prop_assert_eq!(sorted, index.tree.nodes.ids().collect::<Vec<_>>());
    }
}

#[test]
fn tree_time_equals_trace_time() {
    let text = demo::generate(&demo::Config { steps: 3, layers: 1, ..demo::Config::default() });
    let trace = read(text);
    let made = trace_calls(&trace, &Scope::default());
    let steps: Vec<u32> = (0..trace.steps.len() as u32).collect();
    let launched = |gpu: &stackline_model::GpuOpId| steps.contains(&trace.gpu.step[gpu.index()]);
    let total: i64 =
        trace.gpu.ids().filter(launched).map(|g| trace.events.dur[trace.gpu.event[g.index()].index()]).sum();
    let index = CallIndex::new(made.tree, made.steps);
    assert_eq!(index.steps, 3);
    assert_eq!(index.value(Measure::Gpu, Part::All, CallingContextTree::ROOT).sum, total as u64);
    // Each event is one call, and the tree is the same whenever it is made.
    let calls: u64 = index.tree.nodes.ids().map(|node| index.calls(node)).sum();
    assert_eq!(calls, made.events.len() as u64);
    assert_eq!(trace_calls(&trace, &Scope::default()).tree.nodes, index.tree.nodes);
    let one = trace_calls(&trace, &Scope::from_steps(Some((trace.steps[1].number, trace.steps[1].number))));
    assert_eq!(one.steps, 1);
    // What ran backward stands below what it differentiates, which has a file.
    let backward = index.tree.nodes.ids().filter(|&n| matches!(index.tree.frame(n), Some(Frame::Backward { .. })));
    let backward: Vec<CallNodeId> = backward.collect();
    assert!(backward.len() > 5);
    for node in backward {
        assert_eq!(index.phase(node).name(), "backward");
        assert!(index.source(node).is_some(), "{:?}", name_path(&index, node));
    }
}

#[test]
fn an_empty_trace_has_a_root() {
    let TraceCallTree { tree, events, steps, .. } = trace_calls(&stackline_model::Trace::default(), &Scope::default());
    assert_eq!((tree.nodes.len(), events.len(), steps), (1, 0, 0));
    let index = CallIndex::new(tree, steps);
    assert!(index.operators().is_empty() && index.search("**").unwrap().is_empty() && !index.is_training());
}

/// A function that is called twice, and calls an operator at line 5 and one at line 7, as stacks say.
fn lines() -> TraceCallTree {
    let trace = read_mini(
        r#"file stackFrames={"5": {"name": "train.py(5): step"}, "7": {"name": "train.py(7): step"}, "9": {"name": "train.py(9): step"}}
        1/1  python_function  train.py(1): step  0..100
        1/1  cpu_op           aten::mm           10..30    .sf=5
        1/1  cpu_op           aten::add          50..70    .sf=7
        1/1  python_function  train.py(1): step  200..300
        1/1  cpu_op           aten::mm           210..230  .sf=5
        1/1  cpu_op           aten::add          250..270  .sf=7
        1/1  -                train.py(1): step  P@290     .sf=9"#,
    );
    calls_by_thread(&trace, TimeRange::Whole)
}

#[test]
fn functions_are_split_by_call_site_line() {
    let calls = lines();
    let costs = source_lines(&calls.tree, CallMetric::HostTime);
    let costs: Vec<_> = costs.iter().map(|line| (line.line, line.exclusive.sum, line.function.as_str())).collect();
    // Of the function's own 60 µs a call, 10 + 20 / 2 are at line 5 and 20 / 2 + 30 at line 7; 20 each in operators. In the second
    // call a sample saw it at line 9, 20 µs after the last operator: half of these are there, and all that comes after.
    assert_eq!(costs, [(5, 80_000, "step"), (7, 100_000, "step"), (9, 20_000, "step")]);
    // The tree of rules has a function once, at the line that names it.
    let text = demo::generate(&demo::Config { steps: 1, layers: 1, ..demo::Config::default() });
    let trace = read(text);
    assert!(trace_calls(&trace, &Scope::default()).uncounted_calls.is_empty());
}

#[test]
fn calls_count_the_frame_not_its_callees() {
    let calls = lines();
    let seen = |shape: ViewDirection, by_line: bool| {
        let options = ViewOptions { shape, by_line, ..ViewOptions::new(CallMetric::HostTime) };
        let view = view_pruned(&calls.tree, &options, 0.0, &calls.uncounted_calls);
        let row = |view: &CallView, row: usize| (view.label(row).short(), view.nodes[row].calls);
        (1..view.nodes.len()).map(|at| row(&view, at)).collect::<Vec<_>>()
    };
    let row = |name: &str, calls: u64| (name.to_owned(), calls);
    let by_line = [
        row("step train.py:7", 2),
        row("aten::add", 2),
        row("step train.py:5", 2),
        row("aten::mm", 2),
        row("step train.py:9", 1),
    ];
    assert_eq!(seen(ViewDirection::TopDown, true), by_line);
    // A call that went on at another line is one call of its function.
    assert_eq!(seen(ViewDirection::TopDown, false), [row("step train.py", 2), row("aten::add", 2), row("aten::mm", 2)]);
    assert_eq!(seen(ViewDirection::Flat, false), [row("step train.py", 2), row("aten::add", 2), row("aten::mm", 2)]);
}
