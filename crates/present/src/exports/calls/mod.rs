//! Calling context trees in the formats of other tools: one file per format.
//!
//! Those tools know stacks with weights. Each row of the tree's metrics is one: the stack of its node with its sum.

mod collapsed;
mod firefox;
mod flamegraph;
mod pprof;
mod pprof_proto;
mod speedscope;
#[cfg(test)]
mod tests;

pub use collapsed::write as write_collapsed;
pub use firefox::write as write_firefox;
pub use flamegraph::write as write_flamegraph;
pub use pprof::write as write_pprof;
pub use speedscope::write as write_speedscope;

use stackline_model::{CallMetric, CallNodeId, CallStats, CallThreadId, CallingContextTree, Frame};

/// A call path on a thread, with the value of a metric as its weight.
#[derive(Clone, Copy, Debug)]
struct WeightedStack {
    node: CallNodeId,
    thread: CallThreadId,
    stats: CallStats,
}

/// Call paths with weights that add up to the total of a metric. For times that include callees, call paths below a
/// measured call are omitted.
fn weighted_stacks(tree: &CallingContextTree, metric: CallMetric) -> Vec<WeightedStack> {
    let exclusive = tree.exclusive(metric, |_| true);
    let path_holds =
        |node: CallNodeId| tree.path(node).iter().any(|&above| above != node && exclusive[above.index()].count > 0);
    let rows = tree.metrics.iter().filter(|row| row.2 == metric && row.3.sum > 0);
    rows.filter(|row| metric.adds_up() || !path_holds(row.0))
        .map(|(node, thread, _, &stats)| WeightedStack { node, thread, stats })
        .collect()
}

/// Display name of a frame; for Python frames with file name and line, as in py-spy.
fn title(tree: &CallingContextTree, frame: &Frame) -> String {
    let name = frame.title(&tree.strings);
    match *frame {
        Frame::Python { file, line, .. } => {
            let file = tree.strings.get(file);
            let file = file.rsplit('/').next().unwrap_or(file);
            format!("{name} ({file}:{line})")
        }
        _ => name,
    }
}

/// Display name of a thread in an export: rank, process, thread name and thread ID.
fn thread_title(tree: &CallingContextTree, thread: CallThreadId) -> String {
    let Some(row) = tree.threads.get(thread.index()) else { return "thread".to_owned() };
    let process = tree.processes.get(row.process.index());
    let rank = process.and_then(|p| p.rank).map_or_else(String::new, |rank| format!("rank {rank}, "));
    format!("{rank}process {}, {} {}", tree.process_title(row.process), tree.strings.get(row.name), row.tid)
}

/// Display name of the whole run: the command line of its first process.
fn run_title(tree: &CallingContextTree) -> String {
    tree.processes.first().map_or_else(|| "recording".to_owned(), |process| process.command.join(" "))
}
