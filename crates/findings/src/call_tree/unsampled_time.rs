//! Time without samples: the recorder does not interrupt a thread in all waits, and a thread may have no processor.
//! Operators and spans have elapsed times, and some of these exceed the sampled time significantly.

use super::thread::{Thread, Time, TimeSource, inclusive, is_stackline_recording, outermost};
use stackline_model::{CallNodeId, CallingContextTree, FrameKind};
use stackline_timeline::sampling_error::count_bounds;

impl Thread {
    /// Add time without samples, of each outermost operator, and of each outermost span without its operators. The
    /// time is divided among nested operators or spans whose elapsed time exceeds their sampled time.
    pub(super) fn add_unsampled(&mut self, tree: &CallingContextTree) {
        if self.known != TimeSource::Cpu || !is_stackline_recording(tree) {
            return;
        }
        let operator = self.outermost(tree, |kind| kind == FrameKind::Operator);
        let span = self.outermost(tree, |kind| kind != FrameKind::Operator);
        let unsampled = self.unsampled(tree, &operator, &span);
        let beyond = self.beyond_samples(tree);
        // Operators in spans have their own time without samples.
        let top: Vec<Option<CallNodeId>> =
            operator.into_iter().zip(span).map(|(operator, span)| operator.or(span)).collect();
        let mut all = vec![0_u64; tree.nodes.len()];
        for (top, beyond) in top.iter().zip(&beyond) {
            if let Some(top) = top {
                all[top.index()] = all[top.index()].saturating_add(*beyond);
            }
        }
        let mut left = unsampled.clone();
        for (node, (top, beyond)) in top.iter().zip(beyond).enumerate() {
            let Some(top) = top.map(CallNodeId::index) else { continue };
            let part = beyond as f64 / all[top].max(1) as f64;
            let ns = ((unsampled[top] as f64 * part) as u64).min(left[top]);
            left[top] -= ns;
            self.own[node].add(Time::unsampled(ns));
        }
        self.own.iter_mut().zip(left).for_each(|(own, ns)| own.add(Time::unsampled(ns)));
    }

    /// Significant excess of elapsed over sampled time of each outermost operator and span, in ns.
    fn unsampled(
        &self,
        tree: &CallingContextTree,
        operator: &[Option<CallNodeId>],
        span: &[Option<CallNodeId>],
    ) -> Vec<u64> {
        let measured = inclusive(tree, self.operators.clone(), |sum, ns| *sum = sum.saturating_add(ns));
        let sampled = inclusive(tree, self.own.clone(), Time::add);
        // Weight of one sample, in ns.
        let each = sampled.first().map_or(0.0, |all| all.ns as f64 / all.samples.max(1) as f64);
        let unsampled = |elapsed_ns: f64, seen: Time| {
            let (_, most) = count_bounds(usize::try_from(seen.samples).unwrap_or(usize::MAX));
            if elapsed_ns > most * each { (elapsed_ns as u64).saturating_sub(seen.ns) } else { 0 }
        };
        let is_outermost = |node: CallNodeId| operator[node.index()] == Some(node);
        let of_operators = |node: CallNodeId| {
            let at = node.index();
            if is_outermost(node) { (measured[at], sampled[at]) } else { (0, Time::default()) }
        };
        let in_operators = inclusive(tree, tree.nodes.ids().map(of_operators).collect(), |(sum, seen), (ns, more)| {
            *sum = sum.saturating_add(ns);
            seen.add(more);
        });
        let of_node = |node: CallNodeId| {
            let at = node.index();
            if is_outermost(node) {
                return unsampled(measured[at] as f64, sampled[at]);
            }
            if operator[at].is_some() || span[at] != Some(node) {
                return 0;
            }
            let (ns, seen) = in_operators[at];
            unsampled(measured[at] as f64 - ns as f64, sampled[at].without(seen))
        };
        tree.nodes.ids().map(of_node).collect()
    }

    /// Excess of elapsed over sampled time of each operator and span, without nested ones, in ns.
    fn beyond_samples(&self, tree: &CallingContextTree) -> Vec<u64> {
        let mut innermost: Vec<CallNodeId> = vec![CallingContextTree::ROOT; tree.nodes.len()];
        let mut seen = vec![0_u64; tree.nodes.len()];
        for node in tree.nodes.ids().skip(1) {
            let at = node.index();
            let above = innermost[tree.nodes.parent[at].index()];
            innermost[at] = if self.calls[at] > 0 { node } else { above };
            let seen = &mut seen[innermost[at].index()];
            *seen = seen.saturating_add(self.own[at].ns);
        }
        self.operators.iter().zip(seen).map(|(elapsed, seen)| elapsed.saturating_sub(seen)).collect()
    }

    /// For each node: the outermost node with calls and a frame of the given kinds, at or above it.
    fn outermost(&self, tree: &CallingContextTree, is_of: impl Fn(FrameKind) -> bool) -> Vec<Option<CallNodeId>> {
        let is_it = |node: CallNodeId| {
            self.calls[node.index()] > 0 && tree.frame(node).is_some_and(|frame| is_of(frame.kind()))
        };
        let found = outermost(tree, |node| is_it(node).then_some(()));
        found.into_iter().map(|found| found.map(|(node, ())| node)).collect()
    }
}
