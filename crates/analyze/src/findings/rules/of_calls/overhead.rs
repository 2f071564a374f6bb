//! What a recorder adds to the steps that it records, where it measured that in the run: it is no time of the program.

use super::steps::Steps;
use super::thread::{Known, Thread, Time};
use stackline_model::{CallFrame, CallMetric, CallNodeId, CallTree};

impl Thread {
    /// Takes out of times what recording adds to steps, if that is more than chance: as much for each call of an operator, where it was
    /// called, for that is where the recorder runs. How much it adds, as a part of a step without it.
    pub(super) fn leave_out_overhead(&mut self, tree: &CallTree, steps: &Steps) -> Option<f64> {
        let fraction = self.overhead.fraction.filter(|fraction| fraction.low_ppm > 0)?;
        if steps.count == 0 || self.known == Known::Operators {
            return None;
        }
        let added = fraction.median_ppm as f64 / 1e6;
        let sampled: f64 = steps.of(&self.own).map(|own| own.ns as f64).sum();
        let calls = self.calls_of_process(tree, steps).max(1);
        let each_ns = sampled * added / (1.0 + added) / calls as f64;
        // By node, what of it is not yet taken out of samples and of measured times.
        let mut left = vec![[0.0_f64; 2]; tree.nodes.len()];
        for node in (1..left.len()).rev().filter(|&node| steps.inside[node]) {
            let mut above = left[node];
            let from_samples = above[0].min(self.own[node].computing().ns as f64);
            self.own[node] = self.own[node].without_computing(from_samples as u64);
            let from_measured = above[1].min(self.operators[node] as f64);
            self.operators[node] -= from_measured as u64;
            above = [above[0] - from_samples, above[1] - from_measured];
            if is_operator(tree, CallNodeId::new(node)) {
                let ns = self.calls[node] as f64 * each_ns;
                above = above.map(|left| left + ns);
            }
            let parent = &mut left[tree.nodes.parent[node].index()];
            *parent = [parent[0] + above[0], parent[1] + above[1]];
        }
        Some(added)
    }

    /// Calls of operators in steps on all threads of the process: the recorder's overhead is that of all.
    fn calls_of_process(&self, tree: &CallTree, steps: &Steps) -> u64 {
        let process = |thread: usize| tree.threads.get(thread).map(|thread| thread.process);
        let own = process(self.id.index());
        let of_steps = tree.metrics.iter().filter(|(node, thread, metric, _)| {
            let is_call = *metric == CallMetric::OperatorTime && is_operator(tree, *node);
            is_call && steps.inside[node.index()] && process(thread.index()) == own
        });
        of_steps.fold(0, |sum, (.., stats)| sum.saturating_add(stats.count))
    }
}

/// Whether the recorder runs at each call: spans are few.
fn is_operator(tree: &CallTree, node: CallNodeId) -> bool {
    matches!(tree.frame(node), Some(frame) if !matches!(frame, CallFrame::Span { .. }))
}

impl Time {
    /// It without so much of what is no waiting.
    fn without_computing(self, ns: u64) -> Self {
        let part = ns as f64 / self.computing().ns.max(1) as f64;
        let fewer = (self.samples.saturating_sub(self.wait_samples) as f64 * part).floor() as u64;
        Self { ns: self.ns.saturating_sub(ns), samples: self.samples.saturating_sub(fewer), ..self }
    }
}
