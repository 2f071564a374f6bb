//! Selection of the part of a calling context tree that belongs to one rank of a distributed job.

use crate::NoCalls;
use stackline_model::{CallMetrics, CallProcessId, CallThreadId, CallingContextTree};

/// Ranks that occur in a calling context tree, ascending.
#[must_use]
pub fn ranks_of_calls(tree: &CallingContextTree) -> Vec<i64> {
    let mut known: Vec<i64> = tree.processes.iter().filter_map(|process| process.rank.map(i64::from)).collect();
    known.sort_unstable();
    known.dedup();
    known
}

/// Restrict a calling context tree to the processes of one rank and the values of their threads. All frames and nodes
/// stay.
///
/// # Errors
/// An error if no process has that rank.
pub fn calls_of_rank(mut tree: CallingContextTree, rank: i64) -> Result<CallingContextTree, NoCalls> {
    let known = ranks_of_calls(&tree);
    if !known.contains(&rank) {
        return Err(NoCalls::NoRank(rank, known));
    }
    let (mut processes, mut threads) = (Vec::new(), Vec::new());
    let mut new_process: Vec<Option<CallProcessId>> = Vec::new();
    for process in std::mem::take(&mut tree.processes) {
        let is_of_rank = process.rank.map(i64::from) == Some(rank);
        new_process.push(is_of_rank.then(|| CallProcessId::new(processes.len())));
        processes.extend(is_of_rank.then_some(process));
    }
    let mut new_thread: Vec<Option<CallThreadId>> = Vec::new();
    for mut thread in std::mem::take(&mut tree.threads) {
        let process = new_process.get(thread.process.index()).copied().flatten();
        new_thread.push(process.map(|_| CallThreadId::new(threads.len())));
        if let Some(process) = process {
            thread.process = process;
            threads.push(thread);
        }
    }
    let rows = std::mem::take(&mut tree.metrics);
    let of_rank = rows.iter().filter_map(|(node, thread, metric, stats)| {
        let thread = new_thread.get(thread.index()).copied().flatten()?;
        Some(((node, thread, metric), *stats))
    });
    tree.metrics = of_rank.collect::<CallMetrics>();
    (tree.processes, tree.threads) = (processes, threads);
    Ok(tree)
}
