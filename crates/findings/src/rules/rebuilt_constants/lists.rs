//! Cost of `torch.tensor` of a Python list.
//!
//! PyTorch 2 reads a list twice (torch/csrc/utils/tensor_new.cpp): `infer_scalar_type` reads each number before the
//! allocation of the tensor (`aten::empty`), and `recursive_store` writes each one before `aten::to`. Only the second
//! pass is between two of its operators.

use super::{is_in_each_step, is_in_lists, is_of_loader};
use crate::constant_runs::tensor_call;
use crate::span_index::OperatorRuns;
use crate::{Fact, RuleContext};
use rustc_hash::{FxHashMap, FxHashSet};
use stackline_critical_path::exact::what_if::{Action, Chosen, Edit};
use stackline_model::EventId;
use stackline_timeline::sampling_error::share_bounds;
use stackline_timeline::source_location::SourceLocation;
use stackline_timeline::steps::upper_median;
use stackline_timeline::vocabulary::aten;
use stackline_timeline::vocabulary::aten::constants;
use std::collections::{BTreeMap, BTreeSet};

/// First words of the titles of findings on tensors from Python lists.
pub(super) const LISTS_TITLE: &str = "Tensor from a Python list";

/// Duration of the first pass as a multiple of the second: measured 1.1 to 1.3 for bool, int and float in
/// torch 2.15, 1.9 for NumPy scalars, and almost 0 for NumPy arrays.
const FIRST_PASS: f64 = 1.2;
const FIRST_PASS_AT_MOST: f64 = 2.0;

/// Largest time before a list, as a multiple of its second pass. A longer gap contains other work.
const MAX_GAP_RATIO: i64 = 4;

/// Index of calls of `torch.tensor(list)`: last operator of each call, with the first operator of the same call. For an
/// array, no allocation precedes the last operator.
#[derive(Default)]
pub(super) struct ListReads(FxHashMap<EventId, EventId>);

impl ListReads {
    /// Find the calls of `torch.tensor(list)` among outermost operators, by their sequence of operators.
    pub(super) fn new(context: &RuleContext<'_>, operators: &[EventId]) -> Self {
        let trace = context.trace();
        if !trace.strings.iter().any(|name| is_in_lists(constants::LISTS, name)) {
            return Self::default();
        }
        let events = &trace.events;
        let mut operators = operators.to_vec();
        operators.sort_unstable_by_key(|&e| (events.track[e.index()], events.start[e.index()], e));
        let is = |event: EventId, name: &str| aten::short_name(trace.name(event)) == Some(name);
        let mut found = FxHashMap::default();
        for (at, &last) in operators.iter().enumerate().filter(|&(_, &e)| is_in_lists(constants::LISTS, trace.name(e)))
        {
            let before = |count: usize| at.checked_sub(count).map(|at| operators[at]);
            let is_together = |e: &EventId| events.track[e.index()] == events.track[last.index()];
            let call = tensor_call(context, last);
            let first = match (before(1).filter(is_together), before(2).filter(is_together)) {
                (Some(to), Some(empty)) if is(to, "to") && is(empty, "empty") => Some(empty),
                (Some(empty), _) if is(empty, "empty") && call.is_some() => Some(empty),
                _ => None,
            };
            found.extend(first.filter(|&e| tensor_call(context, e) == call).map(|first| (last, first)));
        }
        Self(found)
    }

    /// Check if an operator is the last one of a call of `torch.tensor(list)`.
    pub(super) fn has(&self, operator: EventId) -> bool {
        self.0.contains_key(&operator)
    }
}

/// Python work outside of operators that creates tensors from lists at one line.
#[derive(Default)]
pub(super) struct Lists {
    /// First and last operator of each run, without other operators in between.
    pub(super) runs: Vec<(EventId, EventId)>,
    /// Total duration of the runs, in ns.
    runs_ns: i64,
    /// The same with the median duration for each run, in ns: longer runs were interrupted.
    usual_ns: i64,
    /// Gaps from the preceding operator to the first one, in which the thread may do other work as well.
    before: Vec<(EventId, EventId)>,
    gaps_ns: i64,
    /// Likely duration of the first pass in these gaps, in ns.
    pub(super) before_ns: f64,
    /// Largest duration of the first pass in these gaps, in ns.
    pub(super) most_ns: f64,
    /// Median duration of a call, in ns.
    call_ns: i64,
}

impl Lists {
    /// Measure the time that `torch.tensor` of Python lists takes at one line, outside of operators. `None` if the line
    /// makes no tensor from a list; zero if the time does not extend steps, or recorded calls contain it.
    pub(super) fn measure(
        context: &RuleContext<'_>,
        place: &SourceLocation,
        operators: &[EventId],
        reads: &ListReads,
    ) -> Option<Self> {
        if !operators.iter().any(|&e| reads.has(e)) {
            return None;
        }
        // Host time does not always extend steps on GPUs, and recorded calls include both
        // passes.
        if context.uses_gpu() || operators.iter().any(|&e| tensor_call(context, e).is_some()) {
            return Some(Self::default());
        }
        let events = &context.trace().events;
        let OperatorRuns { runs, neighbors, ns } = context.consecutive_runs(operators);
        let length = |&(first, last): &(EventId, EventId)| events.end(last) - events.start[first.index()];
        let usual = usual(runs.iter().map(length));
        let second_pass = Self::second_pass(context, operators, (&runs, reads));
        let gap = |&(before, first): &(EventId, EventId)| events.start[first.index()] - events.end(before);
        let first_operators = runs.iter().zip(neighbors);
        let before: Vec<_> = first_operators.filter_map(|(run, (before, _))| Some((before?, run.0))).collect();
        let gaps: Vec<f64> = before.iter().map(|pair| gap(pair).max(0) as f64).collect();
        let pass = |times: f64| gaps.iter().map(|gap| gap.min(times * second_pass as f64)).sum::<f64>();
        let gaps_ns: f64 = gaps.iter().sum();
        let seen = sampled_share(context, place, &before) * gaps_ns;
        let runs_count = runs.len() as i64;
        Some(Self {
            usual_ns: ns.min(usual.saturating_mul(runs_count)),
            runs_ns: ns,
            gaps_ns: gaps_ns as i64,
            before_ns: pass(FIRST_PASS).min(seen),
            most_ns: pass(FIRST_PASS_AT_MOST).min(seen),
            call_ns: usual + (pass(FIRST_PASS) as i64 / before.len().max(1) as i64),
            runs,
            before,
        })
    }

    /// Median duration of writing the first list of each run to its tensor, in ns: the second pass over the list.
    fn second_pass(
        context: &RuleContext<'_>,
        operators: &[EventId],
        (runs, reads): (&[(EventId, EventId)], &ListReads),
    ) -> i64 {
        let events = &context.trace().events;
        let starts: FxHashSet<EventId> = runs.iter().map(|run| run.0).collect();
        let first = |last: &EventId| Some((*reads.0.get(last)?, *last));
        let first_operators = operators.iter().filter_map(first).filter(|(first, _)| starts.contains(first));
        usual(first_operators.map(|(first, last)| events.start[last.index()] - events.end(first)))
    }

    /// Total time of creating tensors from lists in the window, in ns.
    pub(super) fn ns(&self) -> i64 {
        self.runs_ns + self.before_ns as i64
    }

    /// Fact with the median duration of a call; none if it was not measured.
    pub(super) fn fact(&self) -> Option<Fact> {
        (self.call_ns > 0).then(|| Fact::time("median duration of a torch.tensor(list) call", self.call_ns))
    }

    /// Edit of the lower bound: shortens each run by the median duration, because longer runs were interrupted.
    pub(super) fn lower_bound_edit(&self, context: &RuleContext<'_>) -> Option<Edit> {
        let left = 1.0 - self.usual_ns as f64 / self.runs_ns.max(1) as f64;
        let chosen = Chosen { ranges: self.runs.clone(), ..Chosen::default() };
        context.edit_of(Action::Scale(left.clamp(0.0, 1.0)), "time in torch.tensor(list) in each step", chosen)
    }

    /// Edit that shortens the gaps before the first operators, by a total in ns; `None` for 0.
    pub(super) fn without_before(&self, context: &RuleContext<'_>, ns: f64) -> Option<Edit> {
        let left = (1.0 - ns / (self.gaps_ns as f64).max(1.0)).clamp(0.0, 1.0);
        let chosen = Chosen { between: self.before.clone(), ..Chosen::default() };
        context
            .edit_of(Action::Scale(left), "time before the first operator of torch.tensor(list)", chosen)
            .filter(|_| ns > 0.0)
    }
}

/// Upper bound of a line's share of the time between operators (0 to 1), from CPU time samples; 1 without samples.
fn sampled_share(context: &RuleContext<'_>, place: &SourceLocation, between: &[(EventId, EventId)]) -> f64 {
    let (mut seen, mut all) = (0, 0);
    for host_gap in context.host_gaps().containing(between) {
        all += host_gap.cpu.events.len();
        seen += host_gap.cpu.events.iter().filter(|&&sample| context.line_of(sample) == *place).count();
    }
    share_bounds(seen, all).1
}

/// Upper median of times, in ns; 0 without times.
fn usual(times: impl Iterator<Item = i64>) -> i64 {
    upper_median(&times.collect::<Vec<i64>>()).unwrap_or(0)
}

/// Lines that create tensors from lists in each step, with little other work between the preceding operator and their
/// first one.
pub(in crate::rules) fn list_lines(context: &RuleContext<'_>) -> BTreeSet<SourceLocation> {
    let trace = context.trace();
    let mut operators = context.outermost(&context.operators());
    operators.retain(|&operator| !is_of_loader(context, operator));
    let reads = ListReads::new(context, &operators);
    if reads.0.is_empty() {
        return BTreeSet::new();
    }
    let last_operators: Vec<EventId> = operators.iter().copied().filter(|&e| reads.has(e)).collect();
    let mut by_line: BTreeMap<SourceLocation, Vec<EventId>> = BTreeMap::new();
    for (place, of) in context.by_place(&last_operators) {
        by_line.entry(SourceLocation { operator: None, module: None, ..place }).or_default().extend(of);
    }
    by_line.retain(|_, of| is_in_each_step(context, of));
    let is_alone = |last_operators: &Vec<EventId>| {
        let first_operators: Vec<EventId> = last_operators.iter().map(|last| reads.0[last]).collect();
        let OperatorRuns { runs, neighbors, .. } = context.consecutive_runs(&first_operators);
        let events = &trace.events;
        let first_operators = runs.iter().map(|run| run.0).zip(neighbors.iter().map(|(before, _)| *before));
        let gap = |(first, before): (EventId, Option<EventId>)| Some(events.start[first.index()] - events.end(before?));
        let gaps = usual(first_operators.filter_map(gap));
        let pass = |last: &EventId| events.start[last.index()] - events.end(reads.0[last]);
        gaps <= MAX_GAP_RATIO * usual(last_operators.iter().map(pass))
    };
    by_line.into_iter().filter(|(_, last_operators)| is_alone(last_operators)).map(|(place, _)| place).collect()
}
