//! Overhead that recording adds to operators: in spans, in windows, and in the gains of edits.

use stackline_critical_path::exact::what_if::{Action, Case, Edit, Gain, own_loading, spans_of};
use stackline_critical_path::exact::{Exact, Window};
use stackline_model::format::duration;
use stackline_model::{EventId, EventKind, INFERRED, Trace};
use stackline_timeline::recording::{OperatorCost, Recording};
use std::collections::BTreeMap;

/// Index of recorded operators by track and start, with the overhead of recording one.
#[derive(Debug)]
pub(super) struct RecordedOperators {
    cost: OperatorCost,
    /// Start times of recorded operators and annotations by track, ascending.
    starts: Vec<Vec<i64>>,
}

impl RecordedOperators {
    /// Index the recorded operators and annotations of a trace; `None` if the recording overhead is unknown.
    pub(super) fn from_trace(trace: &Trace, recording: Option<&Recording>) -> Option<Self> {
        let cost = recording?.operator_cost()?;
        let inferred = trace.attr(INFERRED);
        let mut starts = vec![Vec::new(); trace.tracks.len()];
        for event in trace.events.ids() {
            let is_recorded = matches!(trace.kind(event), EventKind::Operator | EventKind::Annotation);
            if is_recorded && inferred.get(event).is_none() {
                starts[trace.events.track[event.index()].index()].push(trace.events.start[event.index()]);
            }
        }
        starts.iter_mut().for_each(|of_track| of_track.sort_unstable());
        Some(Self { cost, starts })
    }

    /// Overhead of recording one operator, in ns.
    pub(super) fn cost(&self) -> OperatorCost {
        self.cost
    }

    /// Number of operators that began on the track of a span while it ran, including the span itself.
    fn count_within(&self, trace: &Trace, span: EventId) -> usize {
        let starts = &self.starts[trace.events.track[span.index()].index()];
        let at = |moment: i64| starts.partition_point(|&start| start < moment);
        at(trace.events.end(span)).saturating_sub(at(trace.events.start[span.index()]))
    }

    /// Overhead of recording all operators in the spans, in ns; nested spans count once.
    pub(super) fn overhead_ns(&self, trace: &Trace, spans: impl IntoIterator<Item = EventId>) -> f64 {
        self.removed_in(trace, &spans.into_iter().map(|span| (span, 1.0)).collect()).cost_ns
    }

    /// Recording overhead in spans and duration of these spans, each times its removed share (0 to 1); nested spans
    /// count once.
    fn removed_in(&self, trace: &Trace, spans: &BTreeMap<EventId, f64>) -> RemovedOperators {
        let outermost = |span: EventId| !trace.ancestors(span).any(|around| spans.contains_key(&around));
        let mut removable = RemovedOperators::default();
        for (&span, part) in spans.iter().filter(|(span, _)| outermost(**span)) {
            let operators = self.count_within(trace, span);
            if operators > 0 {
                removable.cost_ns += operators as f64 * part * self.cost.ns();
                removable.length_ns += trace.events.dur[span.index()] as f64 * part;
            }
        }
        removable
    }

    /// Overhead and duration of the recorded operators that edits remove; for a scaled span, the removed share of both.
    pub(super) fn removed_by(&self, exact: &Exact<'_>, edits: &[Edit]) -> RemovedOperators {
        let mut parts: BTreeMap<EventId, f64> = BTreeMap::new();
        for edit in edits.iter().filter(|edit| edit.case == Case::Likely) {
            let part = match edit.action {
                Action::Scale(factor) => (1.0 - factor).max(0.0),
                Action::Remove | Action::AddLoaderWorkers(_) => 1.0,
                _ => continue,
            };
            // The training process no longer records operators that move to workers.
            if let Action::AddLoaderWorkers(_) = edit.action {
                parts.extend(own_loading(exact).into_iter().map(|event| (event, 1.0)));
                continue;
            }
            for event in edit.selector.iter().flat_map(|selector| spans_of(exact, selector)) {
                let known = parts.entry(event).or_insert(0.0);
                *known = part.max(*known);
            }
        }
        self.removed_in(exact.trace(), &parts)
    }

    /// Recording overhead in a window on the thread with most recorded operators, in ns; at most half of the window.
    pub(super) fn window_overhead_ns(&self, window: Window) -> i64 {
        let count = |starts: &Vec<i64>| {
            let at = |moment: i64| starts.partition_point(|&start| start < moment);
            at(window.end).saturating_sub(at(window.start))
        };
        let most = self.starts.iter().map(count).max().unwrap_or(0);
        ((most as f64 * self.cost.ns()) as i64).min(window.length_ns() / 2)
    }
}

/// Recording overhead and total duration of the operators that edits remove.
#[derive(Clone, Copy, Debug, Default)]
pub struct RemovedOperators {
    /// Overhead of recording them, in ns.
    cost_ns: f64,
    /// Total duration of their spans, in ns.
    length_ns: f64,
}

impl RemovedOperators {
    /// Overhead in a gain, in ns. If spans of several threads overlap, the gain is smaller than their total duration,
    /// and so is the overhead in it.
    pub(super) fn overhead_in_gain(self, gain_ns: i64) -> i64 {
        (self.cost_ns * (gain_ns.max(0) as f64 / self.length_ns.max(1.0)).min(1.0)) as i64
    }

    /// Subtract the recording overhead from a replayed gain, as findings do.
    pub fn without_overhead(self, gain: Gain) -> Gain {
        subtract_overhead(gain, self.overhead_in_gain(gain.likely_ns))
    }

    /// Sentence after a replayed gain over `steps` steps, about the overhead that findings subtract. None without
    /// overhead.
    pub fn sentence(self, gain_ns: i64, steps: usize) -> Option<String> {
        let removable = self.overhead_in_gain(gain_ns);
        let per_step = |ns: i64| duration(ns / steps.max(1) as i64);
        let a_step = if steps > 0 { " per step" } else { "" };
        (removable > 0).then(|| {
            format!(
                "{} of the gain{a_step} is time that recording added to the removed operators. `stackline findings` \
                 subtracts that time and reports a gain of {}{a_step}",
                per_step(removable),
                per_step(gain_ns - removable.min(gain_ns))
            )
        })
    }
}

/// Recording overhead and total duration of the operators that edits remove; none if the overhead is unknown.
pub fn removed_operators(exact: &Exact<'_>, edits: &[Edit]) -> Option<RemovedOperators> {
    let recording = Recording::from_trace(exact.trace());
    Some(RecordedOperators::from_trace(exact.trace(), recording.as_ref())?.removed_by(exact, edits))
}

/// Subtract `recording`, an overhead in ns, from a gain and its bounds.
///
/// The overhead was measured while the program ran, except for the part of `PyTorch`. So the bounds assume half and one
/// and a half times of it. Gain and lower bound are reduced at most to 0, and stay unchanged if they are negative. The
/// lower bound is at most the gain. The upper bound is reduced at most to the gain, also to a negative one.
pub(super) fn subtract_overhead(gain: Gain, recording: i64) -> Gain {
    let likely_ns = gain.likely_ns - recording.min(gain.likely_ns.max(0));
    let low_ns = (gain.low_ns - recording - recording / 2).max(gain.low_ns.min(0)).min(likely_ns);
    Gain { likely_ns, low_ns, high_ns: (gain.high_ns - recording / 2).max(likely_ns), ..gain }
}

#[cfg(test)]
mod tests {
    use super::{Gain, RemovedOperators, subtract_overhead};

    #[test]
    fn overlapping_spans_share_the_overhead() {
        let removable = RemovedOperators { cost_ns: 1_000.0, length_ns: 20_000.0 };
        assert_eq!(
            [10_000, 20_000, 30_000, -5, 0].map(|gain| removable.overhead_in_gain(gain)),
            [500, 1_000, 1_000, 0, 0]
        );
        assert_eq!(RemovedOperators::default().overhead_in_gain(7), 0);
    }

    #[test]
    fn gain_without_recording_overhead_is_not_negative() {
        let gain = Gain::new;
        assert_eq!(subtract_overhead(gain(100, 90, 110), 0), gain(100, 90, 110));
        assert_eq!(subtract_overhead(gain(100, 90, 110), 40), gain(60, 30, 90));
        // More than the whole gain; a change that costs time stays unchanged.
        assert_eq!(subtract_overhead(gain(100, 90, 110), 300), gain(0, 0, 0));
        assert_eq!(subtract_overhead(gain(100, -20, 110), 40), gain(60, -20, 90));
        assert_eq!(subtract_overhead(gain(-5, -9, 3), 40), gain(-5, -9, -5));
    }
}
