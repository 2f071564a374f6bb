//! Lags of dependencies that did not determine a start, estimated from those of the same kind that did.

use super::super::category::LONG_GAP_NS;
use super::super::graph::{ActivityGraph, Dependency, NodeKind};

/// Slack of a removed edge in ns, far from overflow when a shift is subtracted.
pub(super) const REMOVED_EDGE_SLACK: i64 = i64::MAX / 4;

/// Assumption about unknown times and dependencies: for the prediction, its upper or its lower bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// Upper bound: lags that did not bind are short. Inferred dependencies bind only if another prerequisite allows
    /// the start as well.
    Optimistic = 0,
    /// Prediction: lags that did not bind have their usual length, and inferred dependencies hold.
    Usual = 1,
    /// Lower bound: lags that did not bind have the maximum length. Dependencies that inferred ones may hide hold as
    /// well. Work of streams that never ran concurrently stays separate.
    Pessimistic = 2,
}

/// Class of dependencies whose unknown lags have the same estimate.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Class {
    Launch = 0,
    Queue = 1,
    Other = 2,
    Overlap = 3,
    /// Capacity of the device.
    Capacity = 4,
    /// Inferred edges that did not bind.
    DoubtfulQueue = 5,
    DoubtfulOther = 6,
}

const CLASSES: usize = 7;

/// Estimated lag of each class of dependencies, in ns.
pub(super) type Lags = [i64; CLASSES];

/// Class of a dependency on which a node of this kind depends.
pub(super) fn class_of(kind: NodeKind, dependency: Dependency) -> Class {
    match dependency {
        _ if kind != NodeKind::Gpu => Class::Other,
        Dependency::Launch | Dependency::LaunchByOperator => Class::Launch,
        Dependency::Overlap => Class::Overlap,
        Dependency::Gpu(_) => Class::Queue,
        _ if dependency.is_stream_order() => Class::Queue,
        _ => Class::Other,
    }
}

/// Minimum number of lags for a reliable minimum and maximum.
const MIN_LAGS: usize = 100;
/// Longest expected launch and longest expected gap in traces with too few of them, in ns.
const LONG_LAGS: [i64; 2] = [20_000, 4_000];

/// Estimate the lags of dependencies that did not determine a start, for each mode. The estimates are the minimum,
/// median and maximum of the binding edges of their class (launch or stream order), without exceptionally long ones.
pub(super) fn lag_tables(graph: &ActivityGraph) -> [Lags; 3] {
    let mut seen = [Vec::new(), Vec::new()];
    for node in 0..graph.len() as u32 {
        let Some(edge) = graph.binding_edge(node) else { continue };
        let lag = graph.start[node as usize] - graph.end[edge.from as usize];
        let class = class_of(graph.kind[node as usize], edge.dependency) as usize;
        if let Some(list) = seen.get_mut(class).filter(|_| (0..=LONG_GAP_NS).contains(&lag)) {
            list.push(lag);
        }
    }
    let mut tables = [[0; CLASSES]; 3];
    for (class, mut list) in seen.into_iter().enumerate() {
        list.sort_unstable();
        let at = |percent: usize| list.get((list.len().saturating_sub(1)) * percent / 100).copied().unwrap_or(0);
        let (least, longest) =
            if list.len() < MIN_LAGS { (0, at(100).max(LONG_LAGS[class])) } else { (at(0), at(100)) };
        for (table, lag) in tables.iter_mut().zip([least, at(50), longest]) {
            table[class] = lag;
        }
    }
    // Only the lower bound keeps work separate that never ran concurrently.
    tables[Mode::Optimistic as usize][Class::Capacity as usize] = -REMOVED_EDGE_SLACK;
    tables[Mode::Usual as usize][Class::Capacity as usize] = -REMOVED_EDGE_SLACK;
    for table in &mut tables {
        table[Class::DoubtfulQueue as usize] = table[Class::Queue as usize];
    }
    for class in [Class::DoubtfulQueue, Class::DoubtfulOther] {
        tables[Mode::Optimistic as usize][class as usize] = -REMOVED_EDGE_SLACK;
    }
    tables
}
