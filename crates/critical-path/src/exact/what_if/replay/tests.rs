use super::super::super::graph::{NewEdge, NodeKind};
use super::*;
use crate::gpu_dependency::Reason;
use proptest::prelude::*;
use stackline_model::EventId;

/// Random node: on the GPU or not, delay after its last predecessor, duration, and edges as (distance to the earlier
/// node, kind).
type Drawn = (bool, i64, i64, Vec<(usize, u8)>);

fn dependency(from: NodeKind, to: NodeKind, kind: u8) -> Dependency {
    match (from, to) {
        (NodeKind::Gpu, NodeKind::Gpu) => {
            [Dependency::Stream, Dependency::Gpu(Reason::Event), Dependency::Gpu(Reason::CopyEngine)][kind as usize % 3]
        }
        (_, NodeKind::Gpu) => Dependency::Launch,
        _ => Dependency::Program,
    }
}

/// Graph of threads and GPU work without waits of threads, in which every node starts as soon as possible.
fn graph(drawn: &[Drawn]) -> ActivityGraph {
    let mut graph = ActivityGraph::default();
    let mut edges = Vec::new();
    for (i, (is_gpu, lag, length, before)) in drawn.iter().enumerate() {
        let kind = if *is_gpu { NodeKind::Gpu } else { NodeKind::Host };
        let mut from: Vec<(usize, u8)> = before.iter().filter(|(n, _)| *n < i).map(|&(n, k)| (i - 1 - n, k)).collect();
        // Thread nodes depend on threads only, because waits for the GPU have times of their own.
        from.retain(|(n, _)| *is_gpu || graph.kind[*n] == NodeKind::Host);
        from.sort_unstable();
        from.dedup_by_key(|(n, _)| *n);
        let ready = from.iter().map(|(n, _)| graph.end[*n]).max().unwrap_or(0);
        let start = ready + lag;
        let node = graph.push(kind, i as u32, (start, start + length), EventId::NONE);
        for (n, k) in from {
            let dependency = dependency(graph.kind[n], kind, k);
            edges.push(NewEdge { to: node, from: n as u32, dependency });
        }
    }
    graph.connect(edges);
    graph
}

fn plan(graph: &ActivityGraph) -> Plan {
    Plan::of_graph(graph, Waits::default(), LockContention::no_contention(graph.len()), &FxHashMap::default())
}

fn drawn() -> impl Strategy<Value = Vec<Drawn>> {
    let edges = proptest::collection::vec((0usize..12, any::<u8>()), 0..4);
    proptest::collection::vec((any::<bool>(), 0i64..30_000, 0i64..200_000, edges), 1..60)
}

proptest! {
    /// Without edits no node moves, under any assumption.
    #[test]
    fn replay_without_edits_equals_observation(drawn in drawn()) {
        let plan = plan(&graph(&drawn));
        let mut changes = Changes::none(&plan);
        changes.replay_from_start();
        for mode in [Mode::Optimistic, Mode::Usual, Mode::Pessimistic] {
            let mut shifts = Vec::new();
            plan.replay(&changes, mode, (plan.len() as u32, Stop::NEVER), &mut shifts);
            prop_assert!(shifts.iter().all(|&s| s == 0), "{mode:?} {shifts:?}");
        }
    }

    /// Shorter nodes delay no end, and the gain is at most the removed time.
    #[test]
    fn shortening_delays_nothing(drawn in drawn(), parts in proptest::collection::vec((0usize..60, 0i64..=100), 1..8)) {
        let graph = graph(&drawn);
        let plan = plan(&graph);
        let mut changes = Changes::none(&plan);
        let mut taken = 0;
        for (node, percent) in parts {
            let node = node % graph.len();
            let at = plan.position[node];
            let left = graph.end[node] - graph.start[node] + changes.time[at as usize];
            changes.add_time(&plan, at, -left * percent / 100);
            taken += left * percent / 100;
        }
        let mut shifts = Vec::new();
        plan.replay(&changes, Mode::Usual, (plan.len() as u32, Stop::NEVER), &mut shifts);
        prop_assert!(shifts.iter().all(|&s| -taken <= s && s <= 0), "{taken} {shifts:?}");
    }

    /// A longer node hastens no end, and delays ends by at most the added time.
    #[test]
    fn longer_nodes_never_finish_earlier(drawn in drawn(), node in 0usize..60, more in 0i64..500_000) {
        let graph = graph(&drawn);
        let plan = plan(&graph);
        let mut changes = Changes::none(&plan);
        changes.add_time(&plan, plan.position[node % graph.len()], more);
        let mut shifts = Vec::new();
        plan.replay(&changes, Mode::Usual, (plan.len() as u32, Stop::NEVER), &mut shifts);
        prop_assert!(shifts.iter().all(|&s| 0 <= s && s <= more), "{more} {shifts:?}");
    }
}
