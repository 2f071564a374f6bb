//! What a step is, for all that looks at steps: how long each takes, and which of them a command looks at.
//!
//! A step has two lengths. Its span on the CPU is what the program marked. With its GPU work it takes from when all that was
//! launched before it is done, to when all that was launched before its end is: a host that runs ahead of the GPU has begun the next
//! step by then. So all of them together take as long as the program.
//!
//! Steps belong to their process. One window holds those of all processes of the trace: from the first start to the last end.

use crate::Scope;
use crate::critical_path::exact::{WindowChoice, annotation_span};
use crate::imports::end_of_imports;
use crate::launch_times::LaunchTimes;
use crate::step_cycles::{Cycle, note_of_processes, numbered, processes};
use stackline_model::format::duration;
use stackline_model::{EventId, GpuId, Key, Step, Trace};
use std::collections::{BTreeMap, BTreeSet};

/// So many first steps may warm up.
const MOST_WARM_UPS: usize = 5;
/// Of so few steps beside the first none is left out.
const LEAST_OTHERS: usize = 2;
/// Why a first step is left out that warms up.
pub(crate) const WARM_UP: &str = "warm-up";
/// Why steps are left out between which and those that are looked at the recording pauses.
pub(crate) const OTHER_CYCLE: &str = "another cycle of the recording";
/// Why steps are left out whose process has none of those that are looked at: it ended before them, or began later.
pub(crate) const OTHER_PROCESS: &str = "another process, at another time";

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
        let work = LaunchedWork::from_trace(trace, is_timed(trace));
        let window = |from, to| match has_work(trace, &work, (from, to)) {
            false => WindowChoice::Steps(from, to),
            true => WindowChoice::StepsWithWork(from, to),
        };
        let cycle = Cycle::from_trace(trace, scope.steps);
        let of_processes = timed_steps(trace, &work, &cycle.steps);
        let shared = || note_of_processes(trace, &cycle.steps).into_iter().chain(cycle.note(trace));
        if let Some((from, to)) = scope.steps {
            let notes = missing_steps(trace, (from, to)).into_iter().chain(shared()).collect();
            let steps = most_steps(&of_processes, (from, to));
            return Self { choice: window(from, to), steps, notes, warm_ups: Vec::new() };
        }
        // Where steps of another cycle have the same numbers, numbers alone do not leave out the first ones of this cycle.
        let warm_ups = if cycle.has_same_numbers { WarmUps::default() } else { WarmUps::new(&of_processes) };
        let Some((from, to)) = warm_ups.others(&of_processes) else { return Self::without_imports(trace) };
        let several = of_processes.len() > 1;
        let notes = warm_ups.notes(trace, (from, to), several).into_iter().chain(shared()).collect();
        let steps = most_steps(&of_processes, (from, to));
        Self { choice: window(from, to), steps, notes, warm_ups: warm_ups.left_out((from, to)) }
    }

    fn without_imports(trace: &Trace) -> Self {
        let whole = Self { choice: WindowChoice::Whole, steps: 0, notes: Vec::new(), warm_ups: Vec::new() };
        let (Some(end), Some((start, _))) = (end_of_imports(trace), trace.span()) else { return whole };
        if end <= start {
            return whole;
        }
        let note =
            format!("the window excludes the first {}, in which the program imports modules", duration(end - start));
        Self { choice: WindowChoice::From(end), steps: 0, notes: vec![note], warm_ups: Vec::new() }
    }

    /// Why each of [`Trace::steps`] is none of those looked at; none for those that are.
    pub(crate) fn left_out(&self, trace: &Trace) -> Vec<Option<&'static str>> {
        let (WindowChoice::Steps(from, to) | WindowChoice::StepsWithWork(from, to)) = self.choice else {
            return vec![None; trace.steps.len()];
        };
        let numbered = numbered(trace, (from, to));
        let looked_at: BTreeSet<EventId> = numbered.iter().map(|step| step.event).collect();
        let processes: BTreeSet<Key> = numbered.iter().map(|step| trace.process_of(step)).collect();
        let why = |step: &Step| match () {
            () if looked_at.contains(&step.event) => None,
            () if self.warm_ups.contains(&step.number) => Some(WARM_UP),
            () if !processes.contains(&trace.process_of(step)) => Some(OTHER_PROCESS),
            () => Some(OTHER_CYCLE),
        };
        trace.steps.iter().map(why).collect()
    }

    /// From when to when its steps take, with their GPU work, in ns since the trace's base: the window of the critical path, too.
    /// Without GPU work of their own their spans on the CPU. `None` without steps.
    #[must_use]
    pub fn window(&self, trace: &Trace) -> Option<(i64, i64)> {
        match self.choice {
            WindowChoice::Steps(first, last) => host_window(&numbered(trace, (first, last))),
            WindowChoice::StepsWithWork(first, last) => {
                LaunchedWork::from_trace(trace, is_timed(trace)).window(trace, &numbered(trace, (first, last)))
            }
            _ => None,
        }
    }

    /// From when to when the critical path of its choice is, in ns since the trace's base: of steps, marked or inferred, of an annotation,
    /// or of all of the trace. `None` where the trace has none of these.
    #[must_use]
    pub fn path_window(&self, trace: &Trace) -> Option<(i64, i64)> {
        match self.choice {
            WindowChoice::Steps(..) | WindowChoice::StepsWithWork(..) => self.window(trace),
            WindowChoice::Between(from, to) => Some((from, to)),
            WindowChoice::Annotation { ref text, instances } => annotation_span(trace, text, instances),
            WindowChoice::From(from) => trace.span().map(|(_, end)| (from, end)),
            WindowChoice::Whole => trace.span(),
        }
    }
}

/// That a trace has only some of the steps that were asked for, if so.
fn missing_steps(trace: &Trace, (from, to): (i64, i64)) -> Option<String> {
    let numbers = || trace.steps.iter().map(|step| step.number).filter(|number| (from..=to).contains(number));
    let (first, last) = (numbers().min()?, numbers().max()?);
    let has = if first == last { first.to_string() } else { format!("{first} to {last}") };
    ((first, last) != (from, to)).then(|| format!("of steps {from} to {to}, the trace has only {has}"))
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

/// From the first start to the last end of steps on the CPU.
fn host_window(steps: &[&Step]) -> Option<(i64, i64)> {
    Some((steps.iter().map(|step| step.start).min()?, steps.iter().map(|step| step.end).max()?))
}

/// From the start of the first to the end of the last of the steps of these numbers on the CPU, in ns since the trace's base; of several
/// processes, of them all.
pub(crate) fn host_window_of(trace: &Trace, numbers: (i64, i64)) -> Option<(i64, i64)> {
    host_window(&numbered(trace, numbers))
}

/// Of the steps of these numbers the one with whose start their window begins, where GPU work of the steps before is waited for, and the
/// last one of each process, that which ends last at the end.
pub(crate) fn ends_with_work(trace: &Trace, numbers: (i64, i64)) -> Option<(&Step, Vec<&Step>)> {
    let steps = numbered(trace, numbers);
    let mut last: BTreeMap<Key, &Step> = BTreeMap::new();
    for &step in &steps {
        let known = last.entry(trace.process_of(step)).or_insert(step);
        if step.end >= known.end {
            *known = step;
        }
    }
    let mut last: Vec<&Step> = last.into_values().collect();
    last.sort_by_key(|step| (step.end, step.start));
    // Within a process work is done in the order of steps.
    if last.len() < 2 {
        return Some((steps.into_iter().min_by_key(|step| step.start)?, last));
    }
    let work = LaunchedWork::from_trace(trace, is_timed(trace));
    let first = steps.into_iter().min_by_key(|step| (work.done(trace, step, step.start), step.start))?;
    Some((first, last))
}

/// Whether GPU work makes the window of steps another one than their spans on the CPU: not where they launched none and none from
/// before them reaches into them, nor where work from before outlasts all of theirs.
fn has_work(trace: &Trace, work: &LaunchedWork, numbers: (i64, i64)) -> bool {
    let steps = numbered(trace, numbers);
    let (Some(host), Some(window)) = (host_window(&steps), work.window(trace, &steps)) else {
        return !trace.gpu.is_empty();
    };
    let mut launchers = processes(trace, steps).into_iter().map(Some).chain([None]);
    let has_launched = launchers.any(|process| work.has_launched(process, host));
    window.0 < window.1 && (has_launched || window != host)
}

fn is_timed(trace: &Trace) -> impl Fn(GpuId) -> bool {
    |gpu| trace.events.is_timed(trace.gpu.event[gpu.index()])
}

/// Numbers and lengths with GPU work of steps, in time order.
type Lengths = Vec<(i64, i64)>;

/// Those of the steps of each process that take any time.
fn timed_steps(trace: &Trace, work: &LaunchedWork, steps: &[&Step]) -> BTreeMap<Key, Lengths> {
    let mut of_processes: BTreeMap<Key, Lengths> = BTreeMap::new();
    for step in steps.iter().filter(|step| step.end > step.start) {
        let (from, to) = work.span(trace, step);
        of_processes.entry(trace.process_of(step)).or_default().push((step.number, to.saturating_sub(from)));
    }
    of_processes
}

/// How many steps of these numbers the process has that has most: those of one number run side by side.
fn most_steps(of_processes: &BTreeMap<Key, Lengths>, (from, to): (i64, i64)) -> usize {
    let count = |steps: &Lengths| steps.iter().filter(|(number, _)| (from..=to).contains(number)).count();
    of_processes.values().map(count).max().unwrap_or(0)
}

/// First steps that warm up, of all processes.
#[derive(Default)]
struct WarmUps {
    /// By number, how many times as long it takes as the middle one of those after it, and the process whose step that is.
    found: BTreeMap<i64, (f64, Key)>,
}

impl WarmUps {
    fn new(of_processes: &BTreeMap<Key, Lengths>) -> Self {
        let mut found = BTreeMap::new();
        for (&process, steps) in of_processes {
            found.extend(warm_ups(steps).into_iter().map(|(number, times)| (number, (times, process))));
        }
        Self { found }
    }

    /// The first and last number of the other steps.
    fn others(&self, of_processes: &BTreeMap<Key, Lengths>) -> Option<(i64, i64)> {
        let numbers = || of_processes.values().flatten().map(|&(n, _)| n).filter(|n| !self.found.contains_key(n));
        Some((numbers().min()?, numbers().max()?))
    }

    /// The numbers that a range leaves out: those of one process may lie among the steps of another.
    fn left_out(&self, (from, to): (i64, i64)) -> Vec<i64> {
        self.found.keys().copied().filter(|number| !(from..=to).contains(number)).collect()
    }

    /// A sentence for each.
    fn notes(&self, trace: &Trace, range: (i64, i64), several: bool) -> Vec<String> {
        let left_out = self.left_out(range);
        let note = |(number, &(times, process)): (&i64, &(f64, Key))| {
            let of = if several { format!(" of process {}", trace.key_text(process)) } else { String::new() };
            let said = match left_out.contains(number) {
                true => "is excluded as warm-up; use --steps to include it",
                false => "looks like warm-up, but is included because other processes have steps before its number",
            };
            format!("step {number}{of} took {times:.1} times as long as the median of the later steps and {said}")
        };
        self.found.iter().map(note).collect()
    }
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
    pub fn from_trace(trace: &Trace) -> Option<Self> {
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
    let (numbers, with_work) = match *choice {
        WindowChoice::Steps(from, to) => ((from, to), false),
        WindowChoice::StepsWithWork(from, to) => ((from, to), true),
        _ => return None,
    };
    let steps = numbered(trace, numbers);
    if processes(trace, steps.iter().copied()).len() > 1 {
        return None;
    }
    let work = with_work.then(|| LaunchedWork::from_trace(trace, is_timed(trace)));
    let span = |step: &Step| work.as_ref().map_or((step.start, step.end), |work| work.span(trace, step));
    let lengths = steps.iter().map(|step| span(step)).map(|(from, to)| to.saturating_sub(from));
    let all = lengths.fold(0i64, i64::saturating_add);
    all.checked_div(steps.len() as i64)
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
    let work = LaunchedWork::from_trace(trace, counts);
    trace.steps.iter().map(|step| work.span(trace, step)).collect()
}

/// Until when the GPUs are busy with what was launched before a moment.
struct LaunchedWork {
    /// By process; of streams without recorded launches by none: when each operation was launched, in order, and when it and all
    /// before it are done.
    of_processes: BTreeMap<Option<Key>, Vec<(i64, i64)>>,
}

impl LaunchedWork {
    fn from_trace(trace: &Trace, counts: impl Fn(GpuId) -> bool) -> Self {
        let mut of_processes: BTreeMap<Option<Key>, Vec<(i64, i64)>> = BTreeMap::new();
        if trace.steps.is_empty() {
            return Self { of_processes };
        }
        let times = LaunchTimes::new(trace);
        for gpu in trace.gpu.ids().filter(|&gpu| counts(gpu)) {
            let (launched, event) = (times.launch_of(gpu), trace.gpu.event[gpu.index()]);
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

    /// The window of steps with their GPU work, of all of their processes: from when the first of these is done with all that it launched
    /// before its first step, to when the last is done with all that it launched before the end of its last step.
    fn window(&self, trace: &Trace, steps: &[&Step]) -> Option<(i64, i64)> {
        let starts = steps.iter().map(|step| self.done(trace, step, step.start));
        let ends = steps.iter().map(|step| self.done(trace, step, step.end));
        Some((starts.min()?, ends.max()?))
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
        let own = until(Some(trace.process_of(step)));
        moment.max(own.unwrap_or(i64::MIN)).max(until(None).unwrap_or(i64::MIN))
    }
}

/// How long after the end of each step the next one of its process begins, in ns; none of last ones, nor where the recording pauses between
/// the two.
pub(crate) fn between(trace: &Trace, spans: &[(i64, i64)]) -> Vec<Option<i64>> {
    let pauses = trace.pauses();
    let cycle = |step: &Step| pauses.partition_point(|pause| pause.end <= step.start);
    let mut begins: BTreeMap<Key, (i64, usize)> = BTreeMap::new();
    let mut between = vec![None; spans.len()];
    for (at, &(from, to)) in spans.iter().enumerate().rev() {
        let step = &trace.steps[at];
        let next = begins.insert(trace.process_of(step), (from, cycle(step)));
        let next = next.filter(|(_, of)| *of == cycle(step));
        between[at] = next.map(|(next, _)| next.saturating_sub(to).max(0));
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
