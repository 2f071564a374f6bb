//! What a step is, for all that looks at steps: how long each takes, and which of them a command looks at.
//!
//! A step has two lengths. Its span on the CPU is what the program marked. With its GPU work it takes from when all that was
//! launched before it is done, to when all that was launched before its end is: a host that runs ahead of the GPU has begun the next
//! step by then. So all of them together take as long as the program.

use crate::Scope;
use crate::critical_path::exact::WindowChoice;
use crate::imports::end_of_imports;
use crate::launch_times::LaunchTimes;
use stackline_model::words::duration;
use stackline_model::{GpuId, Key, Step, Trace};
use std::collections::BTreeMap;

/// So many first steps may warm up.
const MOST_WARM_UPS: usize = 5;
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
    /// Numbers of first steps that warm up, and are left out.
    pub warm_ups: Vec<i64>,
}

impl Looked {
    /// The steps of the scope; by default all steps, without first ones that warm up. Of a trace without steps all, but for
    /// the imports with which a recorded program begins.
    #[must_use]
    pub fn at(trace: &Trace, scope: &Scope) -> Self {
        if scope.whole {
            return Self { choice: WindowChoice::Whole, steps: 0, notes: Vec::new(), warm_ups: Vec::new() };
        }
        let work = LaunchedWork::of(trace, is_timed(trace));
        let of_processes = timed_steps(trace, &work);
        // Ranks of one trace have steps of one number, which run side by side.
        let count = |from: i64, to: i64| {
            let of_process = |steps: &Vec<(i64, i64)>| steps.iter().filter(|(n, _)| (from..=to).contains(n)).count();
            of_processes.values().map(of_process).max().unwrap_or(0)
        };
        let stretch = |from, to| match has_work(trace, &work, (from, to)) {
            false => WindowChoice::Steps(from, to),
            true => WindowChoice::StepsWithWork(from, to),
        };
        if let Some((from, to)) = scope.steps {
            let notes = missing_steps(trace, (from, to)).into_iter().collect();
            return Self { choice: stretch(from, to), steps: count(from, to), notes, warm_ups: Vec::new() };
        }
        let warm_ups: BTreeMap<i64, f64> = of_processes.values().flat_map(|steps| warm_ups(steps)).collect();
        let numbers = || of_processes.values().flatten().map(|&(n, _)| n).filter(|n| !warm_ups.contains_key(n));
        let (Some(from), Some(to)) = (numbers().min(), numbers().max()) else { return Self::without_imports(trace) };
        let note = |(number, times): (&i64, &f64)| {
            format!(
                "step {number} took {times:.1} times as long as the middle one of those after it and is left out, as a first one that warms up: --steps says otherwise"
            )
        };
        Self {
            choice: stretch(from, to),
            steps: count(from, to),
            notes: warm_ups.iter().map(note).collect(),
            warm_ups: warm_ups.into_keys().collect(),
        }
    }

    fn without_imports(trace: &Trace) -> Self {
        let whole = Self { choice: WindowChoice::Whole, steps: 0, notes: Vec::new(), warm_ups: Vec::new() };
        let (Some(end), Some((start, _))) = (end_of_imports(trace), trace.span()) else { return whole };
        if end <= start {
            return whole;
        }
        let note = format!("the first {} are left out: the program imports modules until then", duration(end - start));
        Self { choice: WindowChoice::From(end), steps: 0, notes: vec![note], warm_ups: Vec::new() }
    }

    /// From when to when its steps take, with their GPU work, in ns since the trace's base: the window of the critical path, too.
    /// Without GPU work of their own their spans on the CPU. `None` without steps.
    #[must_use]
    pub fn window(&self, trace: &Trace) -> Option<(i64, i64)> {
        match self.choice {
            WindowChoice::Steps(first, last) => {
                first_and_last(trace, (first, last)).map(|(from, to)| (from.start, to.end))
            }
            WindowChoice::StepsWithWork(first, last) => {
                let (from, to) = first_and_last(trace, (first, last))?;
                let work = LaunchedWork::of(trace, is_timed(trace));
                Some((work.done(trace, from, from.start), work.done(trace, to, to.end)))
            }
            _ => None,
        }
    }
}

/// That a trace has only some of the steps that were asked for, if so.
fn missing_steps(trace: &Trace, (from, to): (i64, i64)) -> Option<String> {
    let numbers = || trace.steps.iter().map(|step| step.number).filter(|number| (from..=to).contains(number));
    let (first, last) = (numbers().min()?, numbers().max()?);
    let has = if first == last { first.to_string() } else { format!("{first} to {last}") };
    ((first, last) != (from, to)).then(|| format!("of steps {from} to {to} the trace has {has}"))
}

/// The steps that tables of some traces are of by default, in words, and what is to be said of them: what is left out; from what is
/// looked at of each. `None` where no trace has steps.
#[must_use]
pub fn default_window(looked: &[Looked]) -> Option<(String, Vec<String>)> {
    let first = looked.iter().find(|looked| looked.steps > 0)?;
    match looked.iter().all(|looked| looked.choice == first.choice) {
        true => Some((first.choice.in_words(), first.notes.clone())),
        false => Some(("the steps of each rank".to_owned(), Vec::new())),
    }
}

/// The step of these numbers that begins first, and the one that ends last.
fn first_and_last(trace: &Trace, (first, last): (i64, i64)) -> Option<(&Step, &Step)> {
    let chosen = |step: &&Step| (first..=last).contains(&step.number);
    let from = trace.steps.iter().filter(chosen).min_by_key(|step| step.start)?;
    Some((from, trace.steps.iter().filter(chosen).max_by_key(|step| step.end)?))
}

/// Whether GPU work makes the window of steps another one than their spans on the CPU: not where they launched none and none from
/// before them reaches into them, nor where work from before outlasts all of theirs.
fn has_work(trace: &Trace, work: &LaunchedWork, numbers: (i64, i64)) -> bool {
    let Some((from, to)) = first_and_last(trace, numbers) else { return !trace.gpu.is_empty() };
    let has_launched = [Some(process_of(trace, to)), None].iter().any(|p| work.has_launched(*p, (from.start, to.end)));
    let (start, end) = (work.done(trace, from, from.start), work.done(trace, to, to.end));
    start < end && (has_launched || (start, end) != (from.start, to.end))
}

fn is_timed(trace: &Trace) -> impl Fn(GpuId) -> bool {
    |gpu| trace.events.is_timed(trace.gpu.event[gpu.index()])
}

/// Numbers and lengths with GPU work of the steps of each process that take any time, in time order.
fn timed_steps(trace: &Trace, work: &LaunchedWork) -> BTreeMap<Key, Vec<(i64, i64)>> {
    let mut of_processes: BTreeMap<Key, Vec<(i64, i64)>> = BTreeMap::new();
    let spans = trace.steps.iter().map(|step| work.span(trace, step));
    for (step, (from, to)) in trace.steps.iter().zip(spans).filter(|(step, _)| step.end > step.start) {
        of_processes.entry(process_of(trace, step)).or_default().push((step.number, to.saturating_sub(from)));
    }
    of_processes
}

/// First steps of a process that warm up, one after another: a compiler may need several.
fn warm_ups(steps: &[(i64, i64)]) -> Vec<(i64, f64)> {
    (0..steps.len().min(MOST_WARM_UPS)).map_while(|at| warm_up(&steps[at..])).collect()
}

/// The number of the first of steps if that warms up, and how many times as long it takes as the middle one of the others. One
/// whose number comes again cannot be left out by it.
fn warm_up(steps: &[(i64, i64)]) -> Option<(i64, f64)> {
    let [(first, length), rest @ ..] = steps else { return None };
    let others: Vec<i64> = rest.iter().map(|(_, length)| *length).collect();
    let is_one = rest.len() >= LEAST_OTHERS && is_warm_up(*length, &others) && rest.iter().all(|(n, _)| n != first);
    is_one.then(|| (*first, *length as f64 / middle(&others).unwrap_or(1).max(1) as f64))
}

/// Whether such long steps come again, such as those that evaluate: at least two, and one in ten. Those that follow at once warm
/// up, too.
fn comes_again(length: i64, others: &[i64]) -> bool {
    let is_as_long = |other: &&i64| other.saturating_mul(4) >= length.saturating_mul(3);
    let again = others.iter().skip_while(is_as_long).filter(is_as_long).count();
    again >= 2 && 10 * again >= others.len()
}

fn process_of(trace: &Trace, step: &Step) -> Key {
    trace.tracks.pid(trace.events.track[step.event.index()])
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

/// How long the steps of a stretch take in the mean, each with its GPU work where the stretch has it, in ns: less than their part of the
/// stretch where time lies between them. `None` where steps of several processes run side by side, or there are none.
pub(crate) fn mean_step_ns(trace: &Trace, choice: &WindowChoice) -> Option<i64> {
    let (numbers, work) = match *choice {
        WindowChoice::Steps(from, to) => (from..=to, false),
        WindowChoice::StepsWithWork(from, to) => (from..=to, true),
        _ => return None,
    };
    let spans =
        if work { with_gpu_work(trace) } else { trace.steps.iter().map(|step| (step.start, step.end)).collect() };
    let mut process = None;
    let mut lengths = Vec::new();
    for (step, (from, to)) in trace.steps.iter().zip(spans).filter(|(step, _)| numbers.contains(&step.number)) {
        if *process.get_or_insert_with(|| process_of(trace, step)) != process_of(trace, step) {
            return None;
        }
        lengths.push(to.saturating_sub(from));
    }
    let all = lengths.iter().fold(0i64, |all, &one| all.saturating_add(one));
    all.checked_div(lengths.len() as i64)
}

/// From when to when each of [`Trace::steps`] takes with its GPU work, in ns.
pub(crate) fn with_gpu_work(trace: &Trace) -> Vec<(i64, i64)> {
    spans(trace, is_timed(trace))
}

/// A first step that takes so many times as long as the middle one of the others is a warm-up; a last one that takes less than
/// one part in so many is cut off.
pub(crate) const FAR_OFF: i64 = 2;

/// The same, where only some GPU work is waited for.
pub(crate) fn spans(trace: &Trace, counts: impl Fn(GpuId) -> bool) -> Vec<(i64, i64)> {
    let work = LaunchedWork::of(trace, counts);
    trace.steps.iter().map(|step| work.span(trace, step)).collect()
}

/// Until when the GPUs are busy with what was launched before a moment.
struct LaunchedWork {
    /// By process; of streams without recorded launches by none: when each operation was launched, in order, and when it and all
    /// before it are done.
    of_processes: BTreeMap<Option<Key>, Vec<(i64, i64)>>,
}

impl LaunchedWork {
    fn of(trace: &Trace, counts: impl Fn(GpuId) -> bool) -> Self {
        let mut of_processes: BTreeMap<Option<Key>, Vec<(i64, i64)>> = BTreeMap::new();
        if trace.steps.is_empty() {
            return Self { of_processes };
        }
        let times = LaunchTimes::new(trace);
        for gpu in trace.gpu.ids().filter(|&gpu| counts(gpu)) {
            let (launched, event) = (times.of(gpu), trace.gpu.event[gpu.index()]);
            of_processes.entry(launched.process).or_default().push((launched.at, trace.events.end(event)));
        }
        for work in of_processes.values_mut() {
            work.sort_unstable();
            let mut until = i64::MIN;
            work.iter_mut().for_each(|(_, end)| {
                until = until.max(*end);
                *end = until;
            });
        }
        Self { of_processes }
    }

    /// From when all that was launched before a step is done to when all that was launched before its end is.
    fn span(&self, trace: &Trace, step: &Step) -> (i64, i64) {
        let from = self.done(trace, step, step.start);
        (from, self.done(trace, step, step.end).max(from))
    }

    /// Whether a process launched any in a stretch.
    fn has_launched(&self, process: Option<Key>, (from, to): (i64, i64)) -> bool {
        let Some(work) = self.of_processes.get(&process) else { return false };
        work.get(work.partition_point(|&(launched, _)| launched < from)).is_some_and(|&(launched, _)| launched < to)
    }

    /// When all that the step's process launched before a moment is done; not before that moment.
    fn done(&self, trace: &Trace, step: &Step, moment: i64) -> i64 {
        let until = |process: Option<Key>| {
            let work = self.of_processes.get(&process)?;
            let before = work.partition_point(|&(launched, _)| launched < moment);
            Some(work[..before].last()?.1)
        };
        let own = until(Some(process_of(trace, step)));
        moment.max(own.unwrap_or(i64::MIN)).max(until(None).unwrap_or(i64::MIN))
    }
}

/// How long after the end of each step the next one of its process begins, in ns; none of last ones.
pub(crate) fn between(trace: &Trace, spans: &[(i64, i64)]) -> Vec<Option<i64>> {
    let mut begins: BTreeMap<Key, i64> = BTreeMap::new();
    let mut between = vec![None; spans.len()];
    for (at, &(from, to)) in spans.iter().enumerate().rev() {
        let next = begins.insert(process_of(trace, &trace.steps[at]), from);
        between[at] = next.map(|next| next.saturating_sub(to).max(0));
    }
    between
}

/// Whether the first step is a warm-up beside the others, in their order.
pub(crate) fn is_warm_up(first: i64, others: &[i64]) -> bool {
    middle(others).is_some_and(|middle| first > middle.saturating_mul(FAR_OFF)) && !comes_again(first, others)
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
