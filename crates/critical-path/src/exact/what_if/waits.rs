//! Times of synchronization calls in predictions: how long they take with and without waiting for the GPU.
//!
//! A trace shows one of the two for each call; the other one is estimated from other calls of the same name. A polling
//! loop ends at some point within its period.

use super::super::Exact;
use super::super::graph::{Dependency, NodeKind};
use super::index::waiting_call;
use super::lags::Mode;
use crate::gpu_dependency::Reason;
use rustc_hash::FxHashMap;
use stackline_model::{EventId, StrId};

/// Times of a call with an actual or possible wait.
#[derive(Clone, Copy)]
struct Wait {
    /// True if the call waited.
    waited: bool,
    /// Time of the return, or of the call itself, in ns.
    time: i64,
    /// Usual times of calls of the same name, by mode.
    back: [i64; 3],
    own: [i64; 3],
    /// Time from one query to the next in ns; 0 for other calls.
    period: i64,
}

/// Calls that wait, or may wait after an edit, for the GPU, by graph node.
#[derive(Default)]
pub(super) struct Waits(FxHashMap<u32, Wait>);

impl Waits {
    /// Collect the calls with an actual or possible wait, and estimate their times from calls of the same name.
    pub(super) fn new(exact: &Exact<'_>) -> Self {
        let graph = &exact.graph;
        let mut found: Vec<(u32, StrId, Wait)> = Vec::new();
        let mut seen: FxHashMap<StrId, [Vec<i64>; 2]> = FxHashMap::default();
        for node in 0..graph.len() as u32 {
            let polls = |d: Dependency| d == Dependency::Sync(Reason::Polling);
            let edges = graph.edges_into(node);
            if !edges.iter().any(|e| matches!(e.dependency, Dependency::Sync(_))) {
                continue;
            }
            let call = waiting_call(exact, node);
            let (start, end) = (graph.start[node as usize], graph.end[node as usize]);
            let waited = graph.kind[node as usize] == NodeKind::SyncReturn;
            let returns = if call.is_some() { exact.trace.events.end(call) } else { end };
            let time = if waited { end - start } else { (returns - start).max(0) };
            let name = if call.is_some() { exact.trace.events.name[call.index()] } else { StrId::NONE };
            seen.entry(name).or_default()[usize::from(waited)].push(time);
            let period = if edges.iter().any(|e| polls(e.dependency)) { query_interval(exact, node, call) } else { 0 };
            found.push((node, name, Wait { waited, time, back: [0; 3], own: [0; 3], period }));
        }
        for lists in seen.values_mut().flatten() {
            lists.sort_unstable();
        }
        let at = |list: &[i64], percent: usize| list.get(list.len().saturating_sub(1) * percent / 100).copied();
        let waits = found.into_iter().map(|(node, name, mut wait)| {
            let none = [Vec::new(), Vec::new()];
            let [own, back] = seen.get(&name).unwrap_or(&none);
            for (i, percent) in [0, 50, 100].into_iter().enumerate() {
                // Without data: from 0 to twice the recorded time.
                let instead = [0, wait.time, 2 * wait.time][i];
                wait.own[i] = at(own, percent).unwrap_or(instead);
                wait.back[i] = at(back, percent).unwrap_or(instead);
            }
            (node, wait)
        });
        Self(waits.collect())
    }

    /// Change in ns of a call's own time if an edit makes it wait for the GPU (`waits`), or no longer wait.
    pub(super) fn change(&self, node: u32, mode: Mode, waits: bool) -> i64 {
        let Some(wait) = self.0.get(&node) else { return 0 };
        match (wait.waited, waits) {
            (true, true) if wait.period > 0 => match mode {
                Mode::Usual => 0,
                Mode::Optimistic => -wait.time.min(wait.period),
                Mode::Pessimistic => wait.period,
            },
            (true, false) => wait.own[mode as usize] - wait.time,
            (false, true) => wait.back[mode as usize] - wait.time,
            _ => 0,
        }
    }
}

/// Time in ns between the starts of the last query of a polling loop and the query before it; 0 if unknown.
fn query_interval(exact: &Exact<'_>, node: u32, call: EventId) -> i64 {
    const MAX_QUERIES: usize = 8;
    let trace = exact.trace;
    if call.is_none() {
        return 0;
    }
    let lane = &exact.lanes[exact.graph.place[node as usize] as usize];
    let start = trace.events.start[call.index()];
    let last = lane.piece_at(start).unwrap_or(0);
    let name = trace.events.name[call.index()];
    let is_query = |e: EventId| e.is_some() && e != call && trace.events.name[e.index()] == name;
    let before = lane.pieces[..last].iter().rev().take(MAX_QUERIES).find(|p| is_query(p.event));
    before.map_or(0, |p| start - trace.events.start[p.event.index()])
}
