//! What a recorder's own overhead does to sums: it leaves operators out in some steps to measure it, and takes time in the others.
//!
//! Samples and calls of spans are those of all steps; calls and times of operators, and times of spans around them, of the recorded ones.

use super::steps::Steps;
use super::thread::{Known, Thread, Time};
use stackline_model::{CallFrame, CallNodeId, CallTree};

/// Of the time of operators at least this part is their own: overhead also lies beside them, and is known by an interval.
const LEAST_OWN: f64 = 0.25;

impl Thread {
    /// Adds, where operators were left out in some steps, as much as they take in the others.
    pub(super) fn add_unrecorded(&mut self, tree: &CallTree, steps: &Steps) {
        if steps.recorded == 0 || steps.recorded >= steps.count {
            return;
        }
        let factor = steps.count as f64 / steps.recorded as f64;
        let of_all = |recorded: u64| (recorded as f64 * factor).round() as u64;
        for node in tree.nodes.ids().filter(|node| steps.inside[node.index()]) {
            let at = node.index();
            let ns = of_all(self.operators[at]);
            if self.known == Known::Operators {
                self.own[at].add(Time::measured(ns.saturating_sub(self.operators[at])));
            }
            self.operators[at] = ns;
            if !matches!(tree.frame(node), Some(CallFrame::Span { .. })) {
                self.calls[at] = of_all(self.calls[at]);
            }
        }
    }

    /// Takes what recording adds to steps out of the times of operators, where the recorder measured that and it is more than chance.
    /// How much it adds, as a part of a step without it.
    pub(super) fn leave_out_overhead(&mut self, tree: &CallTree, steps: &Steps, in_operator: &[bool]) -> Option<f64> {
        let fraction = self.overhead.fraction.filter(|fraction| fraction.low_ppm > 0)?;
        if steps.recorded == 0 || self.known == Known::Operators {
            return None;
        }
        let added = fraction.median_ppm as f64 / 1e6;
        let recorded_part = steps.recorded as f64 / steps.count.max(1) as f64;
        let inside = || tree.nodes.ids().map(CallNodeId::index).filter(|&at| steps.inside[at]);
        let in_operators = || inside().filter(|&at| in_operator[at]);
        let sampled: f64 = inside().map(|at| self.own[at].ns as f64).sum();
        // All steps as they would take without it: unrecorded ones are so already.
        let without = sampled / (1.0 + added * recorded_part);
        let own_part = |ns: f64, overhead: f64| (1.0 - overhead / ns.max(1.0)).clamp(LEAST_OWN, 1.0);
        let of_samples =
            own_part(in_operators().map(|at| self.own[at].ns as f64).sum(), without * added * recorded_part);
        let of_measured = own_part(in_operators().map(|at| self.operators[at] as f64).sum(), without * added);
        let nodes: Vec<usize> = in_operators().collect();
        for at in nodes {
            self.own[at] = self.own[at].scaled(of_samples);
            self.operators[at] = (self.operators[at] as f64 * of_measured) as u64;
        }
        Some(added)
    }
}
