//! Sampled Python spans: durations of Python functions between operators, from samples.

use super::calls::{Calls, Sample};
use rustc_hash::FxHashMap;
use stackline_recording::{FrameKey, Metric};

/// A time range in which samples saw a thread at one Python call path, outside of operators.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SampledSpan {
    pub(super) start: i64,
    pub(super) end: i64,
    /// Index of the process's tree, and node in it.
    pub(super) tree: usize,
    pub(super) node: u32,
}

/// Sampled Python spans of the thread with the calls of tree `index`, in time order. No span contains the start or end
/// of a call or launch. A sample covers half of the time to each of its neighbors.
pub(super) fn sampled_spans(calls: &Calls, shown: &[Vec<usize>], index: usize) -> Vec<SampledSpan> {
    let thread = &calls.threads[index];
    let mut samples: Vec<(i64, u64, usize, u32)> = Vec::new();
    for &tree in &shown[index] {
        let is_time = |sample: &&Sample| matches!(sample.metric, Metric::CpuTime | Metric::WallTime | Metric::WaitTime);
        samples.extend(calls.threads[tree].samples.iter().filter(is_time).map(|s| (s.at, s.value, tree, s.node)));
    }
    samples.sort_unstable();
    let calls_of_thread = thread.calls.iter().flat_map(|call| [call.start, call.end]);
    let launches = thread.launches.iter().flat_map(|launch| [launch.start, launch.end]);
    let mut edges: Vec<i64> = calls_of_thread.chain(launches).collect();
    edges.sort_unstable();
    let middle = |a: i64, b: i64| a + (b - a) / 2;
    let span_of = |(i, &(at, value, tree, node)): (usize, &(i64, u64, usize, u32))| {
        let half = (value / 2).cast_signed();
        let edge = edges.partition_point(|&edge| edge <= at);
        let before = [
            edge.checked_sub(1).map(|edge| edges[edge]),
            i.checked_sub(1).map(|before| middle(samples[before].0, at)),
            Some(at.saturating_sub(half)),
        ];
        let after = [
            edges.get(edge).copied(),
            samples.get(i + 1).map(|&(next, ..)| middle(at, next)),
            Some(at.saturating_add(half)),
        ];
        let (start, end) = (before.into_iter().flatten().max()?, after.into_iter().flatten().min()?);
        let node = without_openmp(calls, tree, node);
        (end > start && ends_in_python(calls, tree, node)).then_some(SampledSpan { start, end, tree, node })
    };
    samples.iter().enumerate().filter_map(span_of).collect()
}

/// For each call tree, the trees with samples of the same thread. A thread without calls shows its own samples. If
/// several threads had one number after each other, the first one is used.
pub(super) fn shown_threads(calls: &Calls) -> Vec<Vec<usize>> {
    let mut first: FxHashMap<u32, usize> = FxHashMap::default();
    for (tree, thread) in calls.threads.iter().enumerate().filter(|(_, thread)| thread.has_calls()) {
        first.entry(thread.thread.tid).or_insert(tree);
    }
    let mut shown = vec![Vec::new(); calls.threads.len()];
    for (tree, thread) in calls.threads.iter().enumerate().filter(|(_, thread)| !thread.samples.is_empty()) {
        shown[first.get(&thread.thread.tid).copied().unwrap_or(tree)].push(tree);
    }
    shown
}

/// Node of a sample, without frames of OpenMP libraries.
fn without_openmp(calls: &Calls, tree: usize, node: u32) -> u32 {
    match calls.threads[tree].nodes.get(node as usize) {
        Some(&(parent, frame)) if calls.is_openmp(frame) => parent,
        _ => node,
    }
}

/// Check if a path ends in Python, ignoring native code that Python called.
fn ends_in_python(calls: &Calls, tree: usize, node: u32) -> bool {
    let nodes = &calls.threads[tree].nodes;
    let mut at = node;
    while at != 0 {
        let Some(&(parent, frame)) = nodes.get(at as usize) else { return false };
        match calls.frames.get(frame as usize) {
            Some(FrameKey::Native { .. } | FrameKey::Unmapped { .. }) => at = parent,
            // A frame at line 0 has an unknown function.
            Some(&FrameKey::Python { first_line, .. }) => return first_line > 0,
            _ => return false,
        }
    }
    false
}
