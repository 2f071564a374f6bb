//! What a recording says of processors, and of what it cost itself.

use super::subject::Ground;
use crate::critical_path::exact::Exact;
use crate::critical_path::exact::what_if::{Action, Edit, spans_of};
use serde_json::Value;
use stackline_model::{EventId, EventKind, INFERRED, RECORDING, Trace};
use std::collections::BTreeMap;

/// A recording, as its trace describes it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Recording {
    /// Processes of the machine that were recorded.
    pub processes: Vec<RecordedProcess>,
}

/// One process of a recording.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RecordedProcess {
    /// Its number.
    pub pid: i64,
    /// Whether it is one of the trace's; the others ran beside it.
    pub own: bool,
    /// What it may use, in processors; none if that is not known.
    pub usable: Option<f64>,
    /// When (ns since the base), and for how many ns its threads had run and waited for a processor by then.
    pub loads: Vec<(i64, f64, f64)>,
    /// What it costs to record an operator, in ns; none if it was not measured.
    pub cost: Option<OperatorCost>,
}

/// What it costs to record an operator, in ns.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OperatorCost {
    /// Of the recorder, when it begins and when it ends.
    pub recorder_ns: f64,
    /// Of `PyTorch`, to call the recorder; none if it could not be measured.
    pub torch_ns: Option<f64>,
    /// On so many operators it was measured.
    pub measured: f64,
}

impl OperatorCost {
    /// All of it, in ns.
    pub fn ns(&self) -> f64 {
        self.recorder_ns + self.torch_ns.unwrap_or(0.0)
    }
}

/// More per operator is damage.
const MOST_NS: f64 = 100_000.0;

impl Recording {
    /// What the trace of a recording says; `None` of other traces.
    pub fn of(trace: &Trace) -> Option<Self> {
        let value: Value = serde_json::from_str(trace.meta.entry(RECORDING)?).ok()?;
        let processes = value["processes"].as_array()?.iter().map(process).collect();
        Some(Self { processes })
    }

    /// The processes of the trace itself.
    pub fn own(&self) -> impl Iterator<Item = &RecordedProcess> {
        self.processes.iter().filter(|process| process.own)
    }

    /// Whether it is known of any of the trace's processes what it may use.
    pub fn knows_processors(&self) -> bool {
        self.own().any(|process| process.usable.is_some())
    }

    /// What one of the trace's processes may use, in processors: the most of those that had the number one after another.
    pub fn usable(&self, pid: i64) -> Option<f64> {
        self.numbered(pid).filter_map(|process| process.usable).max_by(f64::total_cmp)
    }

    /// How many threads of one of the trace's processes were ready to run at once, in the mean of a stretch of time; none if the
    /// system did not count.
    pub fn runnable(&self, pid: i64, from: i64, to: i64) -> Option<f64> {
        let busy = self.numbered(pid).filter_map(|process| Some(process.busy(to)? - process.busy(from)?));
        let busy: Vec<f64> = busy.collect();
        (!busy.is_empty() && to > from).then(|| busy.iter().sum::<f64>() / (to - from) as f64)
    }

    /// For how long threads of one of the trace's processes were ready to run and waited for a processor, all together in ns; 0 if
    /// the system did not count.
    pub(super) fn delayed(&self, pid: i64, from: i64, to: i64) -> f64 {
        let waited = |process: &RecordedProcess, at: i64| process.by(at, |load| load.2);
        self.numbered(pid)
            .filter_map(|process| Some(waited(process, to)? - waited(process, from)?))
            .sum::<f64>()
            .max(0.0)
    }

    fn numbered(&self, pid: i64) -> impl Iterator<Item = &RecordedProcess> {
        self.own().filter(move |process| process.pid == pid)
    }

    /// What it costs to record an operator: of the process in which most were measured.
    pub fn cost(&self) -> Option<OperatorCost> {
        self.own().filter_map(|process| process.cost).max_by(|a, b| a.measured.total_cmp(&b.measured))
    }
}

impl RecordedProcess {
    /// What its threads had done by a moment, in ns, taken as even between two looks. The first look holds what they did
    /// since they began, be that before the recording: as long as nothing is known, they did nothing.
    fn by(&self, at: i64, of: impl Fn(&(i64, f64, f64)) -> f64) -> Option<f64> {
        let next = self.loads.partition_point(|load| load.0 < at);
        let (Some(before), Some(after)) = (next.checked_sub(1).map(|i| &self.loads[i]), self.loads.get(next)) else {
            // Behind the last look nothing happens any more.
            return if next == 0 { self.loads.first() } else { self.loads.last() }.map(of);
        };
        let part = (at - before.0) as f64 / (after.0 - before.0).max(1) as f64;
        Some(of(before) + (of(after) - of(before)) * part)
    }

    /// ns that they had run or waited for a processor.
    fn busy(&self, at: i64) -> Option<f64> {
        self.by(at, |load| load.1 + load.2)
    }
}

fn process(value: &Value) -> RecordedProcess {
    let number = |value: &Value| value.as_f64().filter(|number| number.is_finite() && *number >= 0.0);
    let load = |load: &Value| Some((load[0].as_i64()?, number(&load[1])?, number(&load[2])?));
    let mut loads: Vec<_> = value["loads"].as_array().into_iter().flatten().filter_map(load).collect();
    loads.sort_unstable_by_key(|load| load.0);
    let cost = &value["cost"];
    let within = |value: &Value| number(value).filter(|ns| *ns <= MOST_NS);
    RecordedProcess {
        pid: value["pid"].as_i64().unwrap_or(0),
        own: value["own"].as_bool().unwrap_or(false),
        usable: number(&value["usable_milli"]).filter(|milli| *milli > 0.0).map(|milli| milli / 1e3),
        loads,
        cost: within(&cost["begin_ns"]).zip(within(&cost["end_ns"])).map(|(begin, end)| OperatorCost {
            recorder_ns: begin + end,
            torch_ns: within(&cost["torch_ns"]),
            measured: number(&cost["measured"]).unwrap_or(0.0),
        }),
    }
}

/// How many operators were recorded in spans, and what that cost.
#[derive(Debug)]
pub(super) struct RecordedOperators {
    cost: OperatorCost,
    /// Per track the starts of what was recorded with its begin and end, ascending.
    starts: Vec<Vec<i64>>,
}

impl RecordedOperators {
    /// `None` if it is not known what recording costs.
    pub(super) fn of(trace: &Trace, recording: Option<&Recording>) -> Option<Self> {
        let cost = recording?.cost()?;
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

    pub(super) fn cost(&self) -> OperatorCost {
        self.cost
    }

    /// Operators that began on the track of a span while it ran, itself among them.
    fn within(&self, trace: &Trace, span: EventId) -> usize {
        let starts = &self.starts[trace.events.track[span.index()].index()];
        let at = |moment: i64| starts.partition_point(|&start| start < moment);
        at(trace.events.end(span)).saturating_sub(at(trace.events.start[span.index()]))
    }

    /// What the recording of all operators in some spans cost, in ns; what lies in another one of them counts there.
    pub(super) fn ns_in(&self, trace: &Trace, spans: impl IntoIterator<Item = EventId>) -> f64 {
        self.gone_of(trace, &spans.into_iter().map(|span| (span, 1.0)).collect()).cost_ns
    }

    fn gone_of(&self, trace: &Trace, spans: &BTreeMap<EventId, f64>) -> Gone {
        let outermost = |span: EventId| !trace.ancestors(span).any(|around| spans.contains_key(&around));
        let mut gone = Gone::default();
        for (&span, part) in spans.iter().filter(|(span, _)| outermost(**span)) {
            let operators = self.within(trace, span);
            if operators > 0 {
                gone.cost_ns += operators as f64 * part * self.cost.ns();
                gone.length_ns += trace.events.dur[span.index()] as f64 * part;
            }
        }
        gone
    }

    /// What the recording cost of operators that edits do away with: of a span that is scaled, the part that goes.
    pub(super) fn gone_with(&self, exact: &Exact<'_>, edits: &[Edit]) -> Gone {
        let mut parts: BTreeMap<EventId, f64> = BTreeMap::new();
        for edit in edits {
            let part = match edit.action {
                Action::Scale(factor) => (1.0 - factor).max(0.0),
                Action::Remove => 1.0,
                _ => continue,
            };
            for event in edit.selector.iter().flat_map(|selector| spans_of(exact, selector)) {
                let known = parts.entry(event).or_insert(0.0);
                *known = part.max(*known);
            }
        }
        self.gone_of(exact.trace(), &parts)
    }
}

/// Recorded operators that edits do away with.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Gone {
    /// What it cost to record them, in ns.
    cost_ns: f64,
    /// Length of the spans that they were in, in ns.
    length_ns: f64,
}

impl Gone {
    /// The recording's part of a gain, in ns. Where spans of several threads lie side by side less is gained than they are long,
    /// and so much less of what recording them cost.
    pub(super) fn of_gain(self, gain_ns: i64) -> i64 {
        (self.cost_ns * (gain_ns.max(0) as f64 / self.length_ns.max(1.0)).min(1.0)) as i64
    }
}

impl Ground<'_> {
    /// How much of the window the recording of its operators took on the thread that has most of them, in ns: half of it at most.
    pub(super) fn recording_of_window(&self, operators: &RecordedOperators) -> i64 {
        let count = |starts: &Vec<i64>| {
            let at = |moment: i64| starts.partition_point(|&start| start < moment);
            at(self.window.end).saturating_sub(at(self.window.start))
        };
        let most = operators.starts.iter().map(count).max().unwrap_or(0);
        ((most as f64 * operators.cost.ns()) as i64).min(self.window.length_ns() / 2)
    }
}

#[cfg(test)]
mod tests {
    use super::Gone;

    #[test]
    fn what_lies_side_by_side_cost_a_part() {
        let gone = Gone { cost_ns: 1_000.0, length_ns: 20_000.0 };
        assert_eq!([10_000, 20_000, 30_000, -5, 0].map(|gain| gone.of_gain(gain)), [500, 1_000, 1_000, 0, 0]);
        assert_eq!(Gone::default().of_gain(7), 0);
    }
}
