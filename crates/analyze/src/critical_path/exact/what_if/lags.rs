//! How long dependencies take that did not bind: what the trace shows of others of their kind.

use super::super::category::LONG_GAP_NS;
use super::super::graph::{ActivityGraph, Dependency, NodeKind};

/// Slack of an edge that is gone, in ns. Far from overflow when a shift is taken off.
pub(super) const GONE: i64 = i64::MAX / 4;

/// How much is taken for what the trace does not tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// Lags that did not bind are short; inferred dependencies bind only where something else would allow it, too.
    Optimistic = 0,
    /// Lags that did not bind are the usual ones, inferred dependencies hold.
    Usual = 1,
    /// Lags that did not bind are as long as any, what inferred dependencies might hide holds as well, and work of several streams
    /// that never ran at the same time does not begin to.
    Pessimistic = 2,
}

/// What decides the lag of an edge that did not bind.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Class {
    Launch = 0,
    Queue = 1,
    Other = 2,
    Overlap = 3,
    /// Room on the device.
    Capacity = 4,
    /// Inferred, and did not bind.
    DoubtfulQueue = 5,
    DoubtfulOther = 6,
}

const CLASSES: usize = 7;

/// Lags by class, in ns.
pub(super) type Lags = [i64; CLASSES];

/// The class of a dependency of such a node.
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

/// Fewer lags than this say little about the shortest and the longest.
const ENOUGH: usize = 100;
/// The longest launch and the longest gap to expect where a trace does not show enough of them, in ns.
const LONG_LAGS: [i64; 2] = [20_000, 4_000];

/// Lags of edges that did not bind: the least, the median and the greatest of those of their class that did.
pub(super) fn lag_tables(graph: &ActivityGraph) -> [Lags; 3] {
    let mut seen = [Vec::new(), Vec::new()];
    for node in 0..graph.len() as u32 {
        let Some(edge) = graph.release(node) else { continue };
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
        let (least, longest) = if list.len() < ENOUGH { (0, at(100).max(LONG_LAGS[class])) } else { (at(0), at(100)) };
        for (table, lag) in tables.iter_mut().zip([least, at(50), longest]) {
            table[class] = lag;
        }
    }
    // Only the pessimist keeps apart what was apart.
    tables[Mode::Optimistic as usize][Class::Capacity as usize] = -GONE;
    tables[Mode::Usual as usize][Class::Capacity as usize] = -GONE;
    for table in &mut tables {
        table[Class::DoubtfulQueue as usize] = table[Class::Queue as usize];
    }
    for class in [Class::DoubtfulQueue, Class::DoubtfulOther] {
        tables[Mode::Optimistic as usize][class as usize] = -GONE;
    }
    tables
}
