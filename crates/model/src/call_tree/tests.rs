//! Tests of the call tree's values against brute-force sums over call paths.

use super::*;
use crate::{CallProcessId, CallThreadId, Frame};
use proptest::prelude::*;
use std::collections::{HashMap, HashSet};

/// Value: names along its path, thread, and true for the second metric.
type Hit = (Vec<u8>, u8, bool, u64);

fn hits() -> impl Strategy<Value = Vec<Hit>> {
    let path = proptest::collection::vec(0_u8..4, 1..6);
    proptest::collection::vec((path, 0_u8..3, any::<bool>(), 0_u64..1 << 40), 0..80)
}

fn metric(second: bool) -> CallMetric {
    if second { CallMetric::CpuTime } else { CallMetric::OperatorTime }
}

fn build(hits: &[Hit]) -> CallingContextTree {
    let mut builder = CallingContextTreeBuilder::new();
    let process = builder.process(CallProcess::default());
    let name = builder.text("main");
    let threads: Vec<CallThreadId> =
        (0..3).map(|tid| builder.thread(CallThread { process, tid, torch_id: 0, name })).collect();
    for (path, thread, second, value) in hits {
        let node = path.iter().fold(CallingContextTree::ROOT, |node, part| {
            let name = builder.text(&part.to_string());
            let frame = builder.frame(Frame::operator(name));
            builder.child(node, frame)
        });
        let add = if value % 3 == 0 { CallingContextTreeBuilder::add_sums } else { CallingContextTreeBuilder::add };
        add(&mut builder, node, threads[usize::from(*thread)], metric(*second), &CallStats::from_value(*value));
    }
    builder.finish()
}

fn names(tree: &CallingContextTree, node: CallNodeId) -> Vec<u8> {
    let name = |node: CallNodeId| tree.frame(node).map(|frame| frame.name(&tree.strings)).unwrap_or_default();
    tree.path(node).into_iter().map(|node| name(node).parse().unwrap()).collect()
}

fn sum<'a>(hits: impl Iterator<Item = &'a Hit>) -> CallStats {
    hits.fold(CallStats::default(), |mut sum, hit| {
        sum.merge(&CallStats::from_value(hit.3));
        sum
    })
}

proptest! {
    #[test]
    fn values_are_those_of_all_paths(hits in hits(), second: bool, threads in 1_u32..8) {
        let tree = build(&hits);
        prop_assert_eq!(tree.check(), Ok(()));
        let is_included = |thread: u32| threads >> thread & 1 == 1;
        let exclusive = tree.exclusive(metric(second), |thread| is_included(thread.0));
        let inclusive = tree.inclusive(metric(second), &exclusive);
        let counts = |hit: &&Hit| hit.2 == second && is_included(u32::from(hit.1));
        for node in tree.nodes.ids() {
            let path = names(&tree, node);
            let own = sum(hits.iter().filter(counts).filter(|hit| hit.0 == path));
            let below = sum(hits.iter().filter(counts).filter(|hit| hit.0.starts_with(&path)));
            prop_assert_eq!(exclusive[node.index()], own);
            prop_assert_eq!(inclusive[node.index()], below);
        }
    }

    #[test]
    fn nodes_are_the_distinct_beginnings_of_paths(hits in hits()) {
        let tree = build(&hits);
        let mut beginnings: Vec<Vec<u8>> =
            hits.iter().flat_map(|hit| (1..=hit.0.len()).map(|end| hit.0[..end].to_vec())).collect();
        beginnings.push(Vec::new());
        beginnings.sort();
        beginnings.dedup();
        let mut found: Vec<Vec<u8>> = tree.nodes.ids().map(|node| names(&tree, node)).collect();
        found.sort();
        prop_assert_eq!(found, beginnings);
    }

    #[test]
    fn children_are_the_nodes_with_this_parent(hits in hits()) {
        let tree = build(&hits);
        let children = tree.children();
        for node in tree.nodes.ids() {
            let expected: Vec<CallNodeId> =
                tree.nodes.ids().filter(|other| tree.nodes.parent[other.index()] == node).collect();
            prop_assert_eq!(children.of_node(node), expected.as_slice());
        }
    }

    #[test]
    fn callers_account_for_each_path_with_the_frame_once(hits in hits(), is_included in 0_u8..4) {
        let tree = build(&hits);
        let matches = |frame: FrameId| tree.frames[frame.index()].name(&tree.strings) == is_included.to_string();
        let exclusive = tree.exclusive(CallMetric::OperatorTime, |_| true);
        let callers = tree.callers(matches, &tree.inclusive(CallMetric::OperatorTime, &exclusive));
        let mut expected: HashMap<Option<u8>, CallStats> = HashMap::new();
        for hit in hits.iter().filter(|hit| !hit.2) {
            if let Some(at) = hit.0.iter().position(|&part| part == is_included) {
                let caller = at.checked_sub(1).map(|before| hit.0[before]);
                expected.entry(caller).or_default().merge(&CallStats::from_value(hit.3));
            }
        }
        let name = |frame: &Frame| frame.name(&tree.strings).parse().unwrap();
        let found: HashMap<Option<u8>, CallStats> = callers
            .into_iter()
            .filter(|(_, stats)| stats.count > 0)
            .map(|(frame, stats)| (tree.frames.get(frame.index()).map(name), stats))
            .collect();
        prop_assert_eq!(found, expected);
    }

    #[test]
    fn deviation_equals_the_textbook_formula(values in proptest::collection::vec(0_u64..1 << 30, 1..50)) {
        let mut stats = CallStats::default();
        values.iter().for_each(|&value| stats.merge(&CallStats::from_value(value)));
        let mean = values.iter().sum::<u64>() as f64 / values.len() as f64;
        let variance = values.iter().map(|&value| (value as f64 - mean).powi(2)).sum::<f64>() / values.len() as f64;
        prop_assert!((stats.standard_deviation() - variance.sqrt()).abs() <= 1e-6 * variance.sqrt().max(1.0));
    }
}

/// Nesting: outer (10 in total) calls inner (4) twice; the Python frame above has no own time.
#[test]
fn times_of_calls_do_not_add_up() {
    let mut builder = CallingContextTreeBuilder::new();
    let process = builder.process(CallProcess::default());
    let name = builder.text("f");
    let thread = builder.thread(CallThread { process, tid: 1, torch_id: 0, name });
    let python = builder.frame(Frame::Python { function: name, file: name, line: 3, first_line: 1 });
    let line = builder.child(CallingContextTree::ROOT, python);
    let mut operator = |name: &str, parent| {
        let name = builder.text(name);
        let frame = builder.frame(Frame::operator(name));
        builder.child(parent, frame)
    };
    let outer = operator("outer", line);
    let inner = operator("inner", outer);
    builder.add(outer, thread, CallMetric::CallTime, &CallStats::from_value(10));
    builder.add(inner, thread, CallMetric::CallTime, &CallStats::from_value(2));
    builder.add(inner, thread, CallMetric::CallTime, &CallStats::from_value(2));
    let tree = builder.finish();
    let exclusive = tree.exclusive(CallMetric::CallTime, |_| true);
    let inclusive = tree.inclusive(CallMetric::CallTime, &exclusive);
    assert_eq!([line, outer, inner].map(|node| inclusive[node.index()].sum), [10, 10, 4]);
    assert_eq!(tree.measured(), [CallMetric::CallTime]);
}

#[test]
fn broken_handles_are_found() {
    let whole = build(&[(vec![1, 2], 0, false, 5)]);
    let broken = |change: fn(&mut CallingContextTree)| {
        let mut tree = whole.clone();
        change(&mut tree);
        tree.check()
    };
    assert!(broken(|tree| tree.nodes.parent[1] = CallNodeId(1)).is_err());
    assert!(broken(|tree| tree.nodes.frame[1] = FrameId(9)).is_err());
    assert!(broken(|tree| tree.metrics.node[0] = CallNodeId(9)).is_err());
    assert!(broken(|tree| tree.metrics.thread[0] = CallThreadId(9)).is_err());
    assert!(broken(|tree| tree.threads[0].process = CallProcessId(9)).is_err());
    assert!(broken(|tree| tree.frames = vec![Frame::operator(crate::StrId(99)); 2].into()).is_err());
    assert!(broken(|tree| tree.nodes.frame[0] = FrameId(0)).is_err());
}

#[test]
fn metrics_are_declared_once() {
    let mut strings = StringTable::default();
    let declared: HashSet<String> = CallMetric::ALL.iter().map(|metric| metric.name(&strings).to_owned()).collect();
    assert_eq!(declared.len(), CallMetric::ALL.len());
    assert!(!declared.contains(""));
    assert_eq!((CallMetric::Freed.unit(), CallMetric::Launches.unit()), (crate::Unit::Bytes, crate::Unit::None));
    let not_times: Vec<&str> =
        CallMetric::ALL.iter().filter(|metric| !metric.is_time()).map(|metric| metric.name(&strings)).collect();
    assert_eq!(not_times, ["call_time", "allocated", "freed", "launches", "copied"]);
    for metric in crate::SampleMetric::ALL {
        let unit = metric.call_metric().map_or(crate::Unit::None, CallMetric::unit);
        assert_eq!(metric.unit(), unit.suffix(), "{metric:?}");
    }
    // A counter has the name and unit of its source, and is never a time of its own.
    let counter = CallMetric::Counter(strings.intern("delay"), crate::Unit::Ns);
    assert_eq!((counter.name(&strings), counter.title(&strings), counter.unit()), ("delay", "delay", crate::Unit::Ns));
    assert!(counter.adds_up() && !counter.is_time());
}

#[test]
fn roles_have_distinct_names() {
    for role in [CallRole::Main, CallRole::Fork, CallRole::Spawn] {
        assert_eq!(CallRole::from_name(role.name()), Some(role));
    }
}
