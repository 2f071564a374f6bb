//! What a step is, for all that looks at steps: how long each takes, and which of them a command looks at.
//!
//! A step has two lengths. Its span on the CPU is what the program marked. With its GPU work it ends when the work that it
//! launched has ended; a host that runs ahead of the GPU has begun the next one by then, which takes from there on. So all of
//! them together take as long as the program.

use crate::Scope;
use crate::critical_path::exact::WindowChoice;
use crate::imports::end_of_imports;
use stackline_model::words::duration;
use stackline_model::{GpuId, Key, Step, Trace};
use std::collections::{BTreeMap, BTreeSet};

/// Of so few steps beside the first none is left out.
const LEAST_OTHERS: usize = 2;

/// What a command looks at of a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Looked {
    /// The stretch, as the critical path takes it.
    pub choice: WindowChoice,
    /// How many steps that are; 0 if the trace has none, or all of it is looked at.
    pub steps: usize,
    /// What is to be said of it: what is left out.
    pub notes: Vec<String>,
}

impl Looked {
    /// The steps of the scope; by default all steps, without a first one that warms up. Of a trace without steps all, but for
    /// the imports with which a recorded program begins.
    #[must_use]
    pub fn at(trace: &Trace, scope: &Scope) -> Self {
        if scope.whole {
            return Self { choice: WindowChoice::Whole, steps: 0, notes: Vec::new() };
        }
        // Several processes may have steps of one number.
        let count = |from: i64, to: i64| {
            let timed = trace.steps.iter().filter(|s| s.end > s.start && (from..=to).contains(&s.number));
            timed.map(|s| s.number).collect::<BTreeSet<i64>>().len()
        };
        let stretch = |from, to| match trace.gpu.is_empty() {
            true => WindowChoice::Steps(from, to),
            false => WindowChoice::StepsWithWork(from, to),
        };
        if let Some((from, to)) = scope.steps {
            return Self { choice: stretch(from, to), steps: count(from, to), notes: Vec::new() };
        }
        let timed: Vec<(&Step, i64)> = trace
            .steps
            .iter()
            .zip(with_gpu_work(trace))
            .filter(|(s, _)| s.end > s.start)
            .map(|(s, (from, to))| (s, to.saturating_sub(from)))
            .collect();
        let [(first, length), rest @ ..] = timed.as_slice() else { return Self::without_imports(trace) };
        let lengths: Vec<i64> = rest.iter().map(|(_, length)| *length).collect();
        let is_warm_up = rest.len() >= LEAST_OTHERS && is_warm_up(*length, &lengths);
        // Other processes have a step of its number, too, while it warms up.
        let numbers = || timed.iter().map(|(s, _)| s.number).filter(|&number| !is_warm_up || number != first.number);
        let (Some(from), Some(to)) = (numbers().min(), numbers().max()) else { return Self::without_imports(trace) };
        let note = is_warm_up.then(|| {
            format!(
                "step {} took {} times as long as the middle one of those after it and is left out, as a first one that warms up: --steps says otherwise",
                first.number,
                length / middle(&lengths).unwrap_or(1).max(1)
            )
        });
        Self { choice: stretch(from, to), steps: count(from, to), notes: note.into_iter().collect() }
    }

    fn without_imports(trace: &Trace) -> Self {
        let whole = Self { choice: WindowChoice::Whole, steps: 0, notes: Vec::new() };
        let (Some(end), Some((start, _))) = (end_of_imports(trace), trace.span()) else { return whole };
        if end <= start {
            return whole;
        }
        let note = format!("the first {} are left out: the program imports modules until then", duration(end - start));
        Self { choice: WindowChoice::From(end), steps: 0, notes: vec![note] }
    }

    /// From when to when its steps take, with their GPU work, in ns since the trace's base; `None` without steps.
    #[must_use]
    pub fn window(&self, trace: &Trace) -> Option<(i64, i64)> {
        let &(WindowChoice::StepsWithWork(first, last) | WindowChoice::Steps(first, last)) = &self.choice else {
            return None;
        };
        let all = trace.steps.iter().zip(with_gpu_work(trace));
        let chosen = all.filter(|(step, _)| (first..=last).contains(&step.number));
        let (start, end): (Vec<i64>, Vec<i64>) = chosen.map(|(_, span)| span).unzip();
        Some((start.into_iter().min()?, end.into_iter().max()?))
    }
}

/// What a program did before its first step, in ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StartUp {
    /// From the trace's first event to the first step.
    pub before_ns: i64,
    /// Of this, until the last import before the program's own first operator is done; `None` if no imports were recorded.
    pub imports_ns: Option<i64>,
}

impl StartUp {
    /// What comes before the first step, if that is long enough to be told: half of a step or more.
    #[must_use]
    pub fn of(trace: &Trace) -> Option<Self> {
        let (start, _) = trace.span()?;
        let first = trace.steps.iter().map(|step| step.start).min()?;
        let lengths: Vec<i64> = with_gpu_work(trace).iter().map(|(from, to)| to.saturating_sub(*from)).collect();
        let before_ns = first.saturating_sub(start);
        if before_ns < middle(&lengths)? / 2 || before_ns <= 0 {
            return None;
        }
        let imports_ns = end_of_imports(trace).map(|end| end.min(first).saturating_sub(start));
        Some(Self { before_ns, imports_ns })
    }
}

impl std::fmt::Display for StartUp {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} before the first step", duration(self.before_ns))?;
        match self.imports_ns {
            Some(ns) => write!(f, ", of which the first {} import modules", duration(ns)),
            None => Ok(()),
        }
    }
}

/// From when to when each of [`Trace::steps`] takes with its GPU work, in ns.
pub(crate) fn with_gpu_work(trace: &Trace) -> Vec<(i64, i64)> {
    spans(trace, |gpu| trace.events.is_timed(trace.gpu.event[gpu.index()]))
}

/// A first step that takes so many times as long as the middle one of the others is a warm-up; a last one that takes less than
/// one part in so many is cut off.
pub(crate) const FAR_OFF: i64 = 2;

/// The same, where only some GPU work is waited for.
pub(crate) fn spans(trace: &Trace, counts: impl Fn(GpuId) -> bool) -> Vec<(i64, i64)> {
    let mut ends: Vec<i64> = trace.steps.iter().map(|step| step.end).collect();
    for gpu in trace.gpu.ids().filter(|&gpu| counts(gpu)) {
        if let Some(end) = ends.get_mut(trace.gpu.step[gpu.index()] as usize) {
            *end = (*end).max(trace.events.end(trace.gpu.event[gpu.index()]));
        }
    }
    // Merged traces have steps of several processes.
    let mut before: BTreeMap<Key, i64> = BTreeMap::new();
    let span = |(step, end): (&Step, i64)| {
        let last = before.entry(trace.tracks.pid(trace.events.track[step.event.index()])).or_insert(step.start);
        let from = step.start.max(*last);
        *last = end.max(*last);
        (from, end.max(from))
    };
    trace.steps.iter().zip(ends).map(span).collect()
}

/// Whether the first step is a warm-up beside the others.
pub(crate) fn is_warm_up(first: i64, others: &[i64]) -> bool {
    middle(others).is_some_and(|middle| first > middle.saturating_mul(FAR_OFF))
}

/// The middle one of some lengths, the longer of two; none of none.
pub(crate) fn middle(lengths: &[i64]) -> Option<i64> {
    let mut sorted = lengths.to_vec();
    sorted.sort_unstable();
    sorted.get(sorted.len() / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warm_ups_take_far_longer() {
        assert!(is_warm_up(201, &[100, 90, 300]) && !is_warm_up(200, &[100, 90, 300]));
        assert!(!is_warm_up(1, &[]) && !is_warm_up(i64::MAX, &[i64::MAX]));
    }
}
