//! Lengths of steps, and selection of the steps that a command covers.
//!
//! A step has two lengths. Its span on the CPU is the mark of the program. A step with its GPU work extends from the
//! end of all work launched before the step to the end of all work launched before its end. A host that runs ahead of
//! the GPU has begun the next step by then. So the lengths with GPU work add up to the program's time.
//!
//! Steps belong to a process. A window covers the steps of all processes of the trace, from the first start to the last
//! end.

use crate::Scope;
use crate::imports::Imports;
use crate::odd_steps::{is_unfinished, overlap_note, unfinished_note};
use crate::step_cycles::{Cycle, note_of_processes, numbered_steps, processes};
use crate::window_choice::{WindowChoice, annotation_span};
use stackline_model::format::duration;
use stackline_model::{EventId, GpuOpId, Key, LaunchedWork, RECORDING_FORMAT, Step, Trace};
use std::collections::{BTreeMap, BTreeSet};

/// Maximum number of warm-up steps.
const MAX_WARM_UPS: usize = 5;
/// Minimum number of other steps required to exclude a warm-up step.
const MIN_OTHER_STEPS: usize = 2;
/// Reason for an excluded warm-up step.
pub const WARM_UP: &str = "warm-up";
/// Reason for excluded last steps whose mark has no end.
const UNFINISHED: &str = "no recorded end";
/// Reason for excluded steps that a pause of the recording separates from the selected ones.
const OTHER_CYCLE: &str = "another cycle of the recording";
/// Reason for excluded steps of a process without selected steps: it ended earlier or began later.
pub const OTHER_PROCESS: &str = "another process, at another time";

/// Selected steps that a command covers, with their window and notes on excluded steps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepSelection {
    /// The window, as the critical path selects it.
    pub choice: WindowChoice,
    /// Number of steps; 0 if the trace has none, or if the whole trace is selected.
    pub steps: usize,
    /// Notes, for example on excluded steps.
    pub notes: Vec<String>,
    /// Numbers of excluded warm-up steps.
    pub warm_ups: Vec<i64>,
    /// Numbers of excluded last steps without a recorded end.
    pub unfinished: Vec<i64>,
    /// True if the default scope selects the same window; also if its steps were given by number.
    pub is_default: bool,
}

impl StepSelection {
    /// Select the steps of the scope; by default all steps except warm-up. In a trace without steps, select everything
    /// after the imports of a recorded program.
    #[must_use]
    pub fn select(trace: &Trace, scope: &Scope) -> Self {
        if scope.whole {
            return Self { is_default: false, ..Self::everything() };
        }
        let work = trace.launched_work();
        let window = |from, to| match has_work(trace, work, (from, to)) {
            false => WindowChoice::Steps(from, to),
            true => WindowChoice::StepsWithWork(from, to),
        };
        let shared = |cycle: &Cycle<'_>| note_of_processes(trace, &cycle.steps).into_iter().chain(cycle.note(trace));
        let overlaps = |numbers: (i64, i64)| overlap_note(trace, work, &numbered_steps(trace, numbers));
        let default = DefaultSteps::from_trace(trace, work);
        if let Some((from, to)) = scope.steps {
            let cycle = Cycle::from_trace(trace, scope.steps);
            let notes = missing_steps(trace, (from, to)).into_iter().chain(shared(&cycle));
            let notes = notes.chain(overlaps((from, to))).collect();
            let steps = most_steps(&timed_steps(trace, work, &cycle.steps), (from, to));
            let is_default = default.numbers() == Some((from, to));
            return Self { choice: window(from, to), steps, notes, is_default, ..Self::everything() };
        }
        let Some((from, to)) = default.numbers() else { return Self::without_imports(trace) };
        let DefaultSteps { cycle, of_processes, warm_ups } = &default;
        let several = of_processes.len() > 1;
        let unfinished = default.unfinished_after(trace, to);
        let notes = warm_ups.notes(trace, (from, to), several).into_iter().chain(unfinished_note(&unfinished));
        let notes = notes.chain(shared(cycle)).chain(overlaps((from, to))).collect();
        let steps = most_steps(of_processes, (from, to));
        let warm_ups = warm_ups.numbers_outside((from, to));
        Self { choice: window(from, to), steps, notes, warm_ups, unfinished, is_default: true }
    }

    /// Select the whole trace for the default scope.
    fn everything() -> Self {
        let (notes, warm_ups, unfinished) = (Vec::new(), Vec::new(), Vec::new());
        Self { choice: WindowChoice::Whole, steps: 0, notes, warm_ups, unfinished, is_default: true }
    }

    /// Select everything after the module imports at the start of a recorded program.
    fn without_imports(trace: &Trace) -> Self {
        let whole = Self::everything();
        let (Some(imports), Some((start, _))) = (Imports::from_trace(trace), trace.span()) else { return whole };
        let Some(end) = imports.end_since(start) else { return whole };
        let (excluded, covered) = (end.saturating_sub(start), imports.ns_until(end));
        let during = match excluded.saturating_sub(covered) {
            0 => String::new(),
            rest => format!(" for {} and starts up outside of imports for {}", duration(covered), duration(rest)),
        };
        let excluded = duration(excluded);
        let note = format!(
            "the analyzed time window excludes the first {excluded}, in which the program imports modules{during}"
        );
        Self { choice: WindowChoice::From(end), notes: vec![note], ..whole }
    }

    /// For each of [`Trace::steps`], the reason why the selection excludes the step; `None` for selected steps.
    ///
    /// Lengths of steps are known independent of their window, so all steps of a recording with unrecorded steps are
    /// selected, except warm-up.
    pub fn exclusion_reasons(&self, trace: &Trace) -> Vec<Option<&'static str>> {
        let (WindowChoice::Steps(from, to) | WindowChoice::StepsWithWork(from, to)) = self.choice else {
            return vec![None; trace.steps.len()];
        };
        let numbered = numbered_steps(trace, (from, to));
        let selected: BTreeSet<EventId> = numbered.iter().map(|step| step.event).collect();
        let processes: BTreeSet<Key> = numbered.iter().map(|step| trace.process_of(step)).collect();
        let why = |step: &Step| match () {
            () if selected.contains(&step.event) => None,
            () if self.warm_ups.contains(&step.number) => Some(WARM_UP),
            () if self.unfinished.contains(&step.number) => Some(UNFINISHED),
            () if !processes.contains(&trace.process_of(step)) => Some(OTHER_PROCESS),
            () if has_unrecorded_steps(trace) => None,
            () => Some(OTHER_CYCLE),
        };
        trace.steps.iter().map(why).collect()
    }

    /// Window of the selected steps with their GPU work, in ns since the trace's base; also the window of the critical
    /// path. Steps without GPU work use their spans on the CPU. `None` without steps.
    #[must_use]
    pub fn window(&self, trace: &Trace) -> Option<(i64, i64)> {
        match self.choice {
            WindowChoice::Steps(first, last) => host_window(&numbered_steps(trace, (first, last))),
            WindowChoice::StepsWithWork(first, last) => {
                trace.launched_work().window(trace, &numbered_steps(trace, (first, last)))
            }
            _ => None,
        }
    }

    /// Window of the critical path, in ns since the trace's base: marked or inferred steps, an annotation, or the whole
    /// trace. `None` if the trace has none of these.
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

/// Test if only some steps of a program were recorded (`record --every`).
#[must_use]
pub fn has_unrecorded_steps(trace: &Trace) -> bool {
    trace.meta.format == RECORDING_FORMAT && !trace.pauses().is_empty()
}

/// Note that the trace has only some of the requested step numbers; `None` if the trace has both ends of the range, or
/// no step in it.
fn missing_steps(trace: &Trace, (from, to): (i64, i64)) -> Option<String> {
    let numbers = || trace.steps.iter().map(|step| step.number).filter(|number| (from..=to).contains(number));
    let (first, last) = (numbers().min()?, numbers().max()?);
    let has = if first == last { format!("step {first}") } else { format!("steps {first} to {last}") };
    ((first, last) != (from, to)).then(|| format!("steps {from} to {to} are selected, but the trace has only {has}"))
}

/// Describe the default window of tables over several traces: text and notes, from the selection of each trace. `None`
/// if no trace has steps.
#[must_use]
pub fn default_window(selections: &[StepSelection]) -> Option<(String, Vec<String>)> {
    let first = selections.iter().find(|selection| selection.steps > 0)?;
    match selections.iter().all(|selection| selection.choice == first.choice) {
        true => Some((first.choice.in_words(), first.notes.clone())),
        false => Some(("the selected steps of each rank, which differ between ranks".to_owned(), Vec::new())),
    }
}

/// Window on the CPU from the first start to the last end of some steps, in ns since the trace's base; `None` without
/// steps.
fn host_window(steps: &[&Step]) -> Option<(i64, i64)> {
    Some((steps.iter().map(|step| step.start).min()?, steps.iter().map(|step| step.end).max()?))
}

/// Window on the CPU of the steps in a range of numbers, in ns since the trace's base, over all processes.
pub fn host_window_of(trace: &Trace, numbers: (i64, i64)) -> Option<(i64, i64)> {
    host_window(&numbered_steps(trace, numbers))
}

/// Steps at the ends of a window with GPU work. The first is the step with which the window begins, after the GPU work
/// of earlier steps. The others are the last steps of each process, in order of end.
pub fn bounding_steps(trace: &Trace, numbers: (i64, i64)) -> Option<(&Step, Vec<&Step>)> {
    let steps = numbered_steps(trace, numbers);
    let mut last: BTreeMap<Key, &Step> = BTreeMap::new();
    for &step in &steps {
        let known = last.entry(trace.process_of(step)).or_insert(step);
        if step.end >= known.end {
            *known = step;
        }
    }
    let mut last: Vec<&Step> = last.into_values().collect();
    last.sort_by_key(|step| (step.end, step.start));
    // Within a process, GPU work completes in the order of steps.
    if last.len() < 2 {
        return Some((steps.into_iter().min_by_key(|step| step.start)?, last));
    }
    let work = trace.launched_work();
    let first = steps.into_iter().min_by_key(|step| (work.work_end(trace, step, step.start), step.start))?;
    Some((first, last))
}

/// Test if GPU work changes the window of steps compared to their spans on the CPU. False if the steps launched no work
/// and no earlier work reaches into them, or if earlier work outlasts all of theirs.
fn has_work(trace: &Trace, work: &LaunchedWork, numbers: (i64, i64)) -> bool {
    let steps = numbered_steps(trace, numbers);
    let (Some(host), Some(window)) = (host_window(&steps), work.window(trace, &steps)) else {
        return !trace.gpu.is_empty();
    };
    let mut launchers = processes(trace, steps).into_iter().map(Some).chain([None]);
    let has_launched = launchers.any(|process| work.has_launched(process, host));
    window.0 < window.1 && (has_launched || window != host)
}

/// Number and length with GPU work (ns) of each step, in time order.
type Lengths = Vec<(i64, i64)>;

/// Number and length with GPU work (ns) of the given steps, by process; without steps of zero duration on the CPU.
fn timed_steps(trace: &Trace, work: &LaunchedWork, steps: &[&Step]) -> BTreeMap<Key, Lengths> {
    let mut of_processes: BTreeMap<Key, Lengths> = BTreeMap::new();
    for step in steps.iter().filter(|step| step.end > step.start) {
        let (from, to) = work.span(trace, step);
        of_processes.entry(trace.process_of(step)).or_default().push((step.number, to.saturating_sub(from)));
    }
    of_processes
}

/// Largest number of steps of one process in a range of step numbers. Steps of several processes run concurrently.
fn most_steps(of_processes: &BTreeMap<Key, Lengths>, (from, to): (i64, i64)) -> usize {
    let count = |steps: &Lengths| steps.iter().filter(|(number, _)| (from..=to).contains(number)).count();
    of_processes.values().map(count).max().unwrap_or(0)
}

/// Steps that the default scope considers, and the warm-up steps among them.
struct DefaultSteps<'a> {
    cycle: Cycle<'a>,
    of_processes: BTreeMap<Key, Lengths>,
    warm_ups: WarmUps,
}

impl<'a> DefaultSteps<'a> {
    /// Collect the timed and finished steps of the cycle with the most steps, and find the warm-up steps among them.
    fn from_trace(trace: &'a Trace, work: &LaunchedWork) -> Self {
        let cycle = Cycle::from_trace(trace, None);
        let ended: Vec<&Step> = cycle.steps.iter().copied().filter(|step| !is_unfinished(trace, step)).collect();
        let mut of_processes = timed_steps(trace, work, &ended);
        // If another cycle has the same numbers, numbers cannot exclude steps of this cycle.
        if of_processes.is_empty() || cycle.has_same_numbers {
            of_processes = timed_steps(trace, work, &cycle.steps);
        }
        // If another cycle has the same numbers, numbers cannot exclude the first steps of this cycle.
        let warm_ups = match () {
            () if cycle.has_same_numbers => WarmUps::default(),
            // Each cycle may be a single step, so the steps of all cycles are compared.
            () if has_unrecorded_steps(trace) => {
                WarmUps::new(&timed_steps(trace, work, &trace.steps.iter().collect::<Vec<_>>()))
            }
            () => WarmUps::new(&of_processes),
        };
        Self { cycle, of_processes, warm_ups }
    }

    /// First and last step number of the default scope, without warm-up; `None` without steps.
    fn numbers(&self) -> Option<(i64, i64)> {
        self.warm_ups.regular_numbers(&self.of_processes)
    }

    /// Numbers, after the last one of the default scope, of steps without a recorded end.
    fn unfinished_after(&self, trace: &Trace, last: i64) -> Vec<i64> {
        let found = self.cycle.steps.iter().filter(|step| step.number > last && is_unfinished(trace, step));
        found.map(|step| step.number).collect::<BTreeSet<i64>>().into_iter().collect()
    }
}

/// Warm-up steps of all processes.
#[derive(Default)]
struct WarmUps {
    /// By step number: for each process with such a step, ratio to the median of the later steps, and the process.
    found: BTreeMap<i64, Vec<(f64, Key)>>,
}

impl WarmUps {
    /// Find the warm-up steps of each process.
    fn new(of_processes: &BTreeMap<Key, Lengths>) -> Self {
        let mut found: BTreeMap<i64, Vec<(f64, Key)>> = BTreeMap::new();
        for (&process, steps) in of_processes {
            for (number, times) in warm_ups(steps) {
                found.entry(number).or_default().push((times, process));
            }
        }
        Self { found }
    }

    /// First and last number of the steps that are not warm-up; `None` if there are none.
    fn regular_numbers(&self, of_processes: &BTreeMap<Key, Lengths>) -> Option<(i64, i64)> {
        let numbers = || of_processes.values().flatten().map(|&(n, _)| n).filter(|n| !self.found.contains_key(n));
        Some((numbers().min()?, numbers().max()?))
    }

    /// Numbers of the warm-up steps outside of a range of step numbers. Warm-up steps of one process may be among the
    /// steps of another.
    fn numbers_outside(&self, (from, to): (i64, i64)) -> Vec<i64> {
        self.found.keys().copied().filter(|number| !(from..=to).contains(number)).collect()
    }

    /// Notes on the warm-up steps, one for each: excluded, or included despite its length.
    fn notes(&self, trace: &Trace, range: (i64, i64), several: bool) -> Vec<String> {
        let left_out = self.numbers_outside(range);
        let note = |number: i64, times: f64, process: Key| {
            let of = if several { format!(" of process {}", trace.key_text(process)) } else { String::new() };
            match left_out.contains(&number) {
                true => format!(
                    "step {number}{of} took {times:.1} times as long as the median of the later steps and is excluded \
                     as warm-up; use --steps to include it"
                ),
                false => format!(
                    "step {number}{of} took {times:.1} times as long as the median of the later steps, as in a \
                     warm-up. It is included, because other processes have regular steps with this or a lower number"
                ),
            }
        };
        let mut notes = Vec::new();
        for (&number, of_processes) in &self.found {
            notes.extend(of_processes.iter().map(|&(times, process)| note(number, times, process)));
        }
        notes
    }
}

/// Find the consecutive warm-up steps at the start of a process, as numbers and ratios to the median of later steps.
/// Compilation may need several.
fn warm_ups(steps: &[(i64, i64)]) -> Vec<(i64, f64)> {
    (0..steps.len().min(MAX_WARM_UPS)).map_while(|at| warm_up(&steps[at..])).collect()
}

/// Check if the first step is warm-up; returns its number and its ratio to the median of the others. A number that
/// occurs again cannot be excluded.
fn warm_up(steps: &[(i64, i64)]) -> Option<(i64, f64)> {
    let [(first, length), rest @ ..] = steps else { return None };
    let others: Vec<i64> = rest.iter().map(|(_, length)| *length).collect();
    let is_one = rest.len() >= MIN_OTHER_STEPS && is_warm_up(*length, &others) && rest.iter().all(|(n, _)| n != first);
    is_one.then(|| (*first, *length as f64 / upper_median(&others).unwrap_or(1).max(1) as f64))
}

/// Test if steps about as long as `length` recur, as evaluation steps do: at least twice, and in one of ten steps. Long
/// steps that follow immediately are warm-up, too.
fn recurs(length: i64, others: &[i64]) -> bool {
    let is_as_long = |other: &&i64| other.saturating_mul(4) >= length.saturating_mul(3);
    let again = others.iter().skip_while(is_as_long).filter(is_as_long).count();
    again >= 2 && 10 * again >= others.len()
}

/// Time of a program before its first step, in ns, and the part of it in imports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StartUp {
    /// Time from the trace's first event to the first step.
    pub before_ns: i64,
    /// Part of this time that imports of modules take before the program's own first operator; `None` if no imports
    /// were recorded.
    pub imports_ns: Option<i64>,
}

impl StartUp {
    /// Measure the time before the first step. `None` without steps, if shorter than half of a median step, or if the
    /// recording paused before the step.
    #[must_use]
    pub fn from_trace(trace: &Trace) -> Option<Self> {
        let (start, _) = trace.span()?;
        let first = trace.steps.iter().map(|step| step.start).min()?;
        if trace.pauses().iter().any(|pause| pause.end <= first) {
            return None;
        }
        let lengths: Vec<i64> = with_gpu_work(trace).iter().map(|(from, to)| to.saturating_sub(*from)).collect();
        let before_ns = first.saturating_sub(start);
        if before_ns < upper_median(&lengths)? / 2 || before_ns <= 0 {
            return None;
        }
        let imports_ns = Imports::from_trace(trace).map(|imports| imports.ns_until(first)).filter(|&ns| ns > 0);
        Some(Self { before_ns, imports_ns })
    }
}

impl std::fmt::Display for StartUp {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let before = duration(self.before_ns);
        write!(f, "{before} before the first step")?;
        let Some(imports) = self.imports_ns else { return Ok(()) };
        let rest = self.before_ns.saturating_sub(imports).max(0);
        write!(f, ", of which {} import modules and {} are outside of imports", duration(imports), duration(rest))
    }
}

/// Mean length of the steps in a window, in ns, with GPU work if the window includes it. Time between steps is
/// excluded. `None` if there are no steps, or if steps of several processes run concurrently.
pub fn mean_step_ns(trace: &Trace, choice: &WindowChoice) -> Option<i64> {
    let (numbers, with_work) = match *choice {
        WindowChoice::Steps(from, to) => ((from, to), false),
        WindowChoice::StepsWithWork(from, to) => ((from, to), true),
        _ => return None,
    };
    let steps = numbered_steps(trace, numbers);
    if processes(trace, steps.iter().copied()).len() > 1 {
        return None;
    }
    let work = with_work.then(|| trace.launched_work());
    let span = |step: &Step| work.map_or((step.start, step.end), |work| work.span(trace, step));
    let lengths = steps.iter().map(|step| span(step)).map(|(from, to)| to.saturating_sub(from));
    let all = lengths.fold(0i64, i64::saturating_add);
    all.checked_div(steps.len() as i64)
}

/// Explain the two lengths of a step in one line, under the names that a table gives them.
#[must_use]
pub fn explain_lengths(time: &str, with_gpu: &str) -> String {
    format!(
        "{time}: the step's span on the CPU. {with_gpu}: from the end of the previous step's GPU work to the end of \
         the step's own GPU work."
    )
}

/// Start and end of each of [`Trace::steps`] with its GPU work, in ns: from the end of earlier work to the end of its
/// own.
pub fn with_gpu_work(trace: &Trace) -> Vec<(i64, i64)> {
    spans_with(trace, trace.launched_work())
}

/// Ratio of a first step to the median of the others, above which the step is warm-up. A last step that takes less than
/// the median divided by this number is cut off.
pub const WARM_UP_RATIO: i64 = 2;

/// Start and end of each step with its GPU work, in ns; only GPU operations for which `counts` is true are included.
pub fn spans(trace: &Trace, counts: impl Fn(GpuOpId) -> bool) -> Vec<(i64, i64)> {
    spans_with(trace, &LaunchedWork::from_trace(trace, counts))
}

/// Start and end of each step with its GPU work in `work`, in ns.
fn spans_with(trace: &Trace, work: &LaunchedWork) -> Vec<(i64, i64)> {
    trace.steps.iter().map(|step| work.span(trace, step)).collect()
}

/// Time from the end of each step to the start of the next step of its process, in ns. `None` for last steps, and
/// across a pause of the recording.
pub fn between(trace: &Trace, spans: &[(i64, i64)]) -> Vec<Option<i64>> {
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

/// Test if a step of length `first` is warm-up compared to the lengths of later steps, which are in time order.
pub fn is_warm_up(first: i64, others: &[i64]) -> bool {
    upper_median(others).is_some_and(|middle| first > middle.saturating_mul(WARM_UP_RATIO)) && !recurs(first, others)
}

/// Upper median of lengths; `None` if there are none.
pub fn upper_median(lengths: &[i64]) -> Option<i64> {
    let mut sorted = lengths.to_vec();
    sorted.sort_unstable();
    sorted.get(sorted.len() / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warm_up_steps_are_much_longer() {
        assert!(is_warm_up(201, &[100, 90, 300]) && !is_warm_up(200, &[100, 90, 300]));
        assert!(!is_warm_up(1, &[]) && !is_warm_up(i64::MAX, &[i64::MAX]));
    }
}
