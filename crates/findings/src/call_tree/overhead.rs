//! Exclusion of the recorder's overhead from times of a call tree, if the recorder measured the overhead in the run.

use super::steps::Steps;
use super::thread::{Thread, Time, TimeSource};
use stackline_model::{CallMetric, CallNodeId, CallingContextTree, Frame};

impl Thread {
    /// Subtract significant overhead from times, equally per operator call at its call site, where the recorder runs.
    /// Returns the overhead as a share of a step without overhead; `None` if nothing is subtracted.
    pub(super) fn leave_out_overhead(&mut self, tree: &CallingContextTree, steps: &Steps) -> Option<f64> {
        let fraction = self.overhead.fraction.filter(|fraction| fraction.low_ppm > 0)?;
        if steps.count == 0 || self.known == TimeSource::Operators {
            return None;
        }
        let added = fraction.median_ppm as f64 / 1e6;
        let sampled: f64 = steps.select(&self.own).map(|own| own.ns as f64).sum();
        let calls = self.calls_of_process(tree, steps).max(1);
        let each_ns = sampled * added / (1.0 + added) / calls as f64;
        // For each node: overhead not yet subtracted from samples and from elapsed times.
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

    /// Number of operator calls in steps on all threads of the process, which share the recorder's overhead.
    fn calls_of_process(&self, tree: &CallingContextTree, steps: &Steps) -> u64 {
        let process = |thread: usize| tree.threads.get(thread).map(|thread| thread.process);
        let own = process(self.id.index());
        let of_steps = tree.metrics.iter().filter(|(node, thread, metric, _)| {
            let is_call = *metric == CallMetric::OperatorTime && is_operator(tree, *node);
            is_call && steps.inside[node.index()] && process(thread.index()) == own
        });
        of_steps.fold(0, |sum, (.., stats)| sum.saturating_add(stats.count))
    }
}

/// Check if a node's calls count as operator calls, at each of which the recorder runs. Spans are rare, and do not
/// count.
fn is_operator(tree: &CallingContextTree, node: CallNodeId) -> bool {
    matches!(tree.frame(node), Some(frame) if !matches!(frame, Frame::Span { .. }))
}

impl Time {
    /// Subtract `ns` of computing, with its share of the samples, from a time.
    fn without_computing(self, ns: u64) -> Self {
        let part = ns as f64 / self.computing().ns.max(1) as f64;
        let fewer = (self.samples.saturating_sub(self.wait_samples) as f64 * part).floor() as u64;
        Self { ns: self.ns.saturating_sub(ns), samples: self.samples.saturating_sub(fewer), ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{MS, TestTree, summaries};
    use crate::Findings;

    /// Steps that measure the cost of recording only count their spans.
    #[test]
    fn unrecorded_steps_are_excluded() {
        let of = |recorded: u64, unrecorded: u64| {
            let mut made = TestTree::new();
            made.overhead(unrecorded, None);
            let at = "train.py:50 <module> > train.py:";
            made.calls(&format!("{at}21 main > aten::mm"), 2 * recorded, 40 * recorded);
            made.cpu(&format!("{at}21 main > aten::mm"), 40 * recorded);
            made.waits(&format!("{at}22 main > /usr/lib/python3.11/queue.py:171 Queue.get"), 60 * recorded);
            let step = format!("{at}23 main > Optimizer.step#SGD.step");
            made.calls(&step, recorded + unrecorded, 0);
            made.calls(&format!("{step} > aten::add_"), 4000 * recorded, 20 * recorded);
            made.cpu(&format!("{step} > aten::add_"), 20 * recorded);
            made.found()
        };
        let (all, some) = (of(10, 0), of(8, 2));
        assert_eq!((all.steps, all.step_ns), (10, 120 * MS as i64));
        assert_eq!((some.steps, some.step_ns), (8, 120 * MS as i64));
        assert_eq!(summaries(&all), summaries(&some));
        assert!(summaries(&all).contains(&("SL039", Some(22), 60)), "{:?}", summaries(&all));
        let optimizer =
            |found: &Findings| found.findings.iter().find(|f| f.rule.code == "SL015").unwrap().title.clone();
        assert_eq!(optimizer(&all), "Unfused optimizer: SGD calls 4000 operators per step, mean 5.0 µs each");
        assert_eq!(optimizer(&some), optimizer(&all));
    }

    /// Steps of 100 ms, 40 of them waiting, to which recording adds 25 ms where many small operators are called.
    #[test]
    fn measured_overhead_is_subtracted() {
        let of = |percent: i64| {
            let mut made = TestTree::new();
            made.overhead(2, Some(percent));
            let at = "train.py:50 <module> > train.py:";
            made.calls(&format!("{at}21 main > aten::mm"), 16, 8 * 40);
            made.cpu(&format!("{at}21 main > aten::mm"), 8 * 40);
            made.waits(&format!("{at}22 main > /usr/lib/python3.11/queue.py:171 Queue.get"), 8 * 40);
            let step = format!("{at}23 main > Optimizer.step#SGD.step");
            made.calls(&step, 10, 8 * 25);
            made.calls(&format!("{step} > aten::add_"), 80_000, 8 * 20);
            // The recorder runs between the operators.
            made.cpu(&step, 8 * 25);
            made.cpu(&format!("{step} > aten::add_"), 8 * 20);
            made.found()
        };
        let (with, without) = (of(4), of(25));
        assert_eq!((with.step_ns, without.step_ns / 100_000), (125 * MS as i64, 1000));
        for (found, product) in [(&with, 32.0), (&without, 40.0)] {
            assert!(summaries(found).contains(&("SL039", Some(22), 40)), "{:?}", summaries(found));
            let named = found.uncovered.groups.iter().find(|group| group.name == "aten::mm").unwrap();
            assert_eq!(named.percent.round(), product);
        }
        let note_text = "recording made steps 25.0 % longer. Stackline subtracts this overhead from the times, with \
                         the same amount for each operator call";
        assert!(without.notes.iter().any(|note| note == note_text), "{:?}", without.notes);
    }
}
