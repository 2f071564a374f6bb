//! Steps: their times, the spread between them, and GPU busy time.

use crate::summary::Summary;
use crate::{Analysis, Display, TableCommand};
use stackline_model::names::is_fill_launch;
use stackline_model::{EventId, EventKind, GpuOpId, Key, Step, StepIndex, Table, Trace, TrackKind, Unit};
use stackline_timeline::intervals::{total, union};
use stackline_timeline::stats;
use stackline_timeline::stats::percent;
use stackline_timeline::step_cycles::{Cycle, processes};
use stackline_timeline::steps::{StepSelection, between, explain_lengths, has_unrecorded_steps, with_gpu_work};
use stackline_timeline::{DefaultWindow, Scope};
use std::collections::{BTreeMap, BTreeSet};

/// The registered analysis.
pub(super) const STEPS: Analysis = Analysis {
    name: "steps",
    about: "Time and GPU busy time of each step, and the spread between steps",
    tables: &["steps", "steps_spread"],
    window: DefaultWindow::Own,
    commands: &[TableCommand::Steps],
    display: Display::All,
    run: |trace, scope| tables(trace, scope),
};

/// GPU work of one step: busy time, launched time and kernels, and numbers of missing records.
#[derive(Clone, Copy, Default)]
struct Work {
    /// Launch calls of the step without a recorded operation, or whose kernel has no plausible time. Fills are
    /// excluded, because profilers may omit them.
    unrecorded: i64,
    /// True if the file is truncated and the step is not known to be complete.
    is_cut_off: bool,
    /// Time in ns in the step's window in which any GPU runs an operation.
    busy_ns: i64,
    /// Sum of durations in ns of the GPU work that the step launched, at any time.
    launched_ns: i64,
    /// Number of kernels that it launched.
    kernels: i64,
    /// Number of kernels that it launched without plausible times.
    untimed: i64,
}

impl Work {
    /// Test if the step's GPU times are unknown: fewer than a tenth of its launches have known operations, or the file
    /// is cut off.
    fn is_unknown(&self) -> bool {
        self.is_cut_off || (self.unrecorded > 0 && MIN_KNOWN_DIVISOR * self.kernels < self.kernels + self.unrecorded)
    }
}

/// Minimum share of operations with known times for a step's GPU times to be known: one in this many.
pub(super) const MIN_KNOWN_DIVISOR: i64 = 10;
/// In a truncated file, minimum number of kernels of a complete step, in tenths of the step with the most kernels.
const COMPLETE_STEP_TENTHS: i64 = 9;

/// Create tables `steps` and `steps_spread`. The spread excludes steps such as warm-up unless steps are selected by
/// number.
fn tables(trace: &Trace, scope: &Scope) -> Vec<Table> {
    // Steps that share the window of other tables. Where only some steps were recorded, all selected ones are listed,
    // as without a selection.
    let in_cycle = scope.steps.filter(|_| !has_unrecorded_steps(trace));
    let cycle = in_cycle.map(|numbers| Cycle::from_trace(trace, Some(numbers)));
    let in_scope: Option<BTreeSet<EventId>> =
        cycle.as_ref().map(|cycle| cycle.steps.iter().map(|step| step.event).collect());
    let is_in_scope = |step: &Step| match &in_scope {
        Some(events) => events.contains(&step.event),
        None => scope.steps.is_none_or(|(from, to)| (from..=to).contains(&step.number)),
    };
    let selected: Vec<(usize, &Step)> = trace.steps.iter().enumerate().filter(|(_, step)| is_in_scope(step)).collect();
    let work = work(trace);
    let us = |(from, to): (i64, i64)| to.saturating_sub(from) as f64 / 1e3;
    let time_us: Vec<f64> = selected.iter().map(|(_, s)| us((s.start, s.end))).collect();
    let spans = with_gpu_work(trace);
    // Explicitly selected steps all count.
    let left_out = match scope.steps {
        Some(_) => vec![None; trace.steps.len()],
        None => StepSelection::select(trace, scope).exclusion_reasons(trace),
    };
    let left_out: Vec<Option<&str>> = selected.iter().map(|(i, _)| left_out[*i]).collect();
    let with_gpu = |(i, _): &(usize, &Step)| spans.get(*i).copied().map(us).filter(|_| !work[*i].is_unknown());
    let with_gpu_us: Vec<Option<f64>> = selected.iter().map(with_gpu).collect();
    let has_gpu = trace.gpu.ids().any(|gpu| trace.events.is_plausible(trace.gpu.event[gpu.index()]));
    let gaps = between(trace, &spans);
    let between_us = selected.iter().map(|(i, _)| gaps[*i].map(|ns| ns as f64 / 1e3)).collect();
    let counted: Vec<usize> = (0..selected.len()).filter(|&at| left_out[at].is_none()).collect();
    let of_counted: Vec<Option<f64>> = counted.iter().map(|&at| with_gpu_us[at]).collect();
    let unknown = if has_gpu { unknown_gpu_note(&of_counted) } else { None };
    let times = Times { time_us, with_gpu_us: Some(with_gpu_us).filter(|_| has_gpu), between_us };
    let steps = steps(trace, &selected, &times, &work);
    let steps = if left_out.iter().all(Option::is_none) { steps } else { add_left_out_column(steps, &left_out) };
    let notes = cycle.and_then(|cycle| cycle.note(trace)).into_iter().map(|note| sentence(&note));
    let notes = trace.gpu_records().note().into_iter().chain(notes);
    let spread = spread(trace, &selected, &counted, &times, &work);
    let empty = outlasted_note(counted.iter().map(|&at| selected[at]), &spans, &work);
    vec![notes.fold(steps, Table::note), unknown.into_iter().chain(empty).fold(spread, Table::note)]
}

/// Add column `left_out` to the table of steps: the reason why other tables exclude a step.
fn add_left_out_column(steps: Table, left_out: &[Option<&str>]) -> Table {
    steps.text("left_out", left_out.iter().map(|why| why.map(str::to_owned))).note(
        "Column left_out: reason why a step is excluded from the table steps_spread and from other analyses. --whole \
         includes all steps.",
    )
}

/// Note on steps without a length because GPU work of an earlier step ends after all of theirs; `None` without any.
fn outlasted_note<'s>(
    steps: impl Iterator<Item = (usize, &'s Step)>,
    spans: &[(i64, i64)],
    work: &[Work],
) -> Option<String> {
    let is_outlasted = |&(at, _): &(usize, &Step)| spans[at].0 >= spans[at].1 && work[at].kernels > 0;
    let found: Vec<i64> = steps.filter(is_outlasted).map(|(_, step)| step.number).collect();
    let first = found.first()?;
    let which =
        if found.len() == 1 { format!("step {first}") } else { format!("{} steps, first step {first}", found.len()) };
    Some(format!(
        "with_gpu is 0 in {which}, because GPU work of an earlier step ends after their own work. If operations of one \
         stream overlap (stream_overlap in the read report), a duration is too long: --clip-overlaps shortens it."
    ))
}

/// GPU work of each step of the trace, with the launches whose operations have no record or no plausible time.
fn work(trace: &Trace) -> Vec<Work> {
    let is_cut_off = trace.report.breaks_off().is_some() && !trace.gpu.is_empty();
    let mut work = vec![Work { is_cut_off, ..Work::default() }; trace.steps.len()];
    let mut spans = Vec::with_capacity(trace.gpu.len());
    for gpu in trace.gpu_by_start() {
        let event = trace.gpu.event[gpu.index()];
        if !trace.events.is_plausible(event) {
            continue;
        }
        spans.push((trace.events.start[event.index()], trace.events.end(event)));
        if let Some(step) = work.get_mut(trace.gpu.step[gpu.index()] as usize) {
            step.launched_ns = step.launched_ns.saturating_add(trace.events.dur[event.index()]);
            step.is_cut_off = false;
            step.kernels += i64::from(trace.kind(event) == EventKind::Kernel);
        }
    }
    let busy = union(spans);
    for (step, work) in trace.steps.iter().zip(&mut work) {
        let from = busy.partition_point(|s| s.1 <= step.start);
        let to = busy.partition_point(|s| s.0 < step.end);
        let inside: Vec<_> =
            busy[from..to.max(from)].iter().map(|s| (s.0.max(step.start), s.1.min(step.end))).collect();
        work.busy_ns = total(&inside);
    }
    let is_without_time = |gpu: &GpuOpId| {
        let event = trace.gpu.event[gpu.index()];
        trace.kind(event) == EventKind::Kernel && !trace.events.is_plausible(event)
    };
    let untimed = trace.gpu.ids().filter(is_without_time).filter_map(|gpu| trace.gpu.launch[gpu.index()].some());
    let is_fill = |call: &EventId| is_fill_launch(trace.name(*call));
    let index = StepIndex::new(trace);
    let without = trace.unrecorded_launches().iter().copied().filter(|call| !is_fill(call));
    for (call, is_untimed) in without.map(|call| (call, false)).chain(untimed.map(|call| (call, true))) {
        let (track, at) = (trace.events.track[call.index()], trace.events.start[call.index()]);
        if let Some(step) = index.running(at, trace.tracks.pid(track)) {
            work[step as usize].unrecorded += 1;
            work[step as usize].untimed += i64::from(is_untimed);
        }
    }
    if is_cut_off {
        for step in possibly_cut_off(trace, &work) {
            work[step].is_cut_off = true;
        }
    }
    work
}

/// Steps of a truncated file that are not known to be complete. Records are not sorted by time, so any step may lack
/// some. Two similar steps are complete if they have about as many kernels as any similar step has kernels and
/// launches. A step without similar ones is complete if the file does not end within its records.
fn possibly_cut_off(trace: &Trace, work: &[Work]) -> Vec<usize> {
    let last = trace.events.ids().rfind(|&event| trace.events.is_plausible(event));
    let spans = with_gpu_work(trace);
    let ends_within = |step: usize| {
        let (start, (_, end)) = (trace.steps[step].start, spans[step]);
        last.is_some_and(|last| (start..=end).contains(&trace.events.start[last.index()]))
    };
    let mut found = Vec::new();
    for of_kind in similar_steps(trace) {
        // Launches without a record show what the file lacks; kernels without times are in the file.
        let most = of_kind.iter().map(|&step| work[step].kernels + work[step].unrecorded).max().unwrap_or(0);
        let is_short = |step: &usize| 10 * (work[*step].kernels + work[*step].untimed) < COMPLETE_STEP_TENTHS * most;
        let is_known = match of_kind[..] {
            [only] => !ends_within(only),
            _ => of_kind.iter().filter(|step| !is_short(step)).count() > 1,
        };
        found.extend(of_kind.into_iter().filter(|step| !is_known || is_short(step)));
    }
    found
}

/// Groups of steps with the same process and kind of mark: `eval_step` launches less than `train_step` and is still
/// complete.
fn similar_steps(trace: &Trace) -> Vec<Vec<usize>> {
    let kind = |step: &Step| trace.name(step.event).chars().filter(|c| !c.is_ascii_digit()).collect::<String>();
    let mut groups: BTreeMap<(Key, String), Vec<usize>> = BTreeMap::new();
    for (at, step) in trace.steps.iter().enumerate() {
        groups.entry((trace.process_of(step), kind(step))).or_default().push(at);
    }
    groups.into_values().collect()
}

/// Note on the number of steps whose GPU work is unknown (`None` in `with_gpu_us`); no note if all are known.
fn unknown_gpu_note(with_gpu_us: &[Option<f64>]) -> Option<String> {
    let (unknown, all) = (with_gpu_us.iter().filter(|us| us.is_none()).count(), with_gpu_us.len());
    match unknown {
        0 => None,
        _ if unknown == all => Some(
            "The spread of with_gpu and gpu_busy is unknown: GPU records are missing, so the GPU work of no step is \
             known to be complete."
                .to_owned(),
        ),
        _ => Some(format!(
            "The spread of with_gpu and gpu_busy excludes {unknown} of {all} steps, because too many of their GPU \
             records are missing."
        )),
    }
}

/// Time, time with GPU work, and gap to the next step of each selected step, in µs.
struct Times {
    /// Span on the CPU.
    time_us: Vec<f64>,
    /// Length with launched GPU work, if the file has any of it; `None` in traces without GPUs.
    with_gpu_us: Option<Vec<Option<f64>>>,
    /// Gap from the end of a step with its GPU work to the start of the next step of its process; `None` for last
    /// steps.
    between_us: Vec<Option<f64>>,
}

/// Process of each selected step as text; `None` if all steps of the trace belong to one process.
fn process_names(trace: &Trace, selected: &[(usize, &Step)]) -> Option<Vec<String>> {
    let several = processes(trace, &trace.steps).len() > 1;
    several.then(|| selected.iter().map(|(_, step)| trace.key_text(trace.process_of(step))).collect())
}

/// Convert a note to a sentence: capitalize the first letter and add a period.
fn sentence(note: &str) -> String {
    let mut letters = note.chars();
    letters.next().map_or_else(String::new, |first| format!("{}{}.", first.to_uppercase(), letters.as_str()))
}

/// Minimum ratio of time between steps to time in steps, for a row `between`.
const MIN_BETWEEN_RATIO: f64 = 0.05;

/// Create table `steps`: one row per selected step, with its time and GPU work. Unknown GPU values are empty.
fn steps(trace: &Trace, selected: &[(usize, &Step)], times: &Times, work: &[Work]) -> Table {
    let Times { time_us, with_gpu_us, .. } = times;
    let with_gpu = |at: usize| with_gpu_us.as_ref().and_then(|all| all.get(at).copied().flatten());
    // Relative to the trace's start, as in the critical path of the whole trace.
    let origin = trace.span().map_or(0, |span| span.0);
    // Missing GPU records are not zero.
    let has_gpu = with_gpu_us.is_some();
    let known = |i: &usize| Some(&work[*i]).filter(|work| has_gpu && !work.is_unknown());
    let busy: Vec<Option<f64>> = selected.iter().map(|(i, _)| known(i).map(|work| work.busy_ns as f64 / 1e3)).collect();
    let has_launches = trace.gpu.launch.iter().any(|launch| launch.some().is_some());
    // Marks on a device's track have its process, which launches nothing.
    let is_of_host = |i: &usize| {
        let track = trace.events.track[trace.steps[*i].event.index()];
        trace.tracks.get(track).kind == TrackKind::Thread
    };
    let launched = |i: &usize| known(i).filter(|_| has_launches && is_of_host(i));
    let table = Table::new("steps", "Steps: time and GPU work");
    let table = match process_names(trace, selected) {
        Some(processes) => table.text("process", processes),
        None => table,
    };
    let table = table
        .i64("step", Unit::None, selected.iter().map(|(_, s)| s.number))
        .f64("start_us", Unit::Us, selected.iter().map(|(_, s)| s.start.saturating_sub(origin) as f64 / 1e3))
        .f64("time_us", Unit::Us, time_us.iter().copied())
        .f64("with_gpu_us", Unit::Us, (0..selected.len()).map(with_gpu))
        .f64("gpu_busy_us", Unit::Us, busy.iter().copied())
        .f64("gpu_busy_percent", Unit::Percent, busy.iter().zip(time_us).map(|(b, t)| b.and_then(|b| percent(b, *t))))
        .f64(
            "launched_gpu_us",
            Unit::Us,
            selected.iter().map(|(i, _)| launched(i).map(|work| work.launched_ns as f64 / 1e3)),
        )
        .i64(
            "launched_kernels",
            Unit::None,
            selected.iter().map(|(i, _)| launched(i).map(|work| work.kernels + work.untimed)),
        );
    if selected.is_empty() {
        return table.note(no_steps(trace));
    }
    let lengths = explain_lengths("Column time_us", "Column with_gpu_us");
    table.note(format!(
        "{lengths} Column gpu_busy_us: time in the span in which any GPU runs an operation. Column launched_gpu_us: \
         summed durations of the operations that the step launched, which may run after its end."
    ))
}

/// Note that explains why the table of steps is empty.
fn no_steps(trace: &Trace) -> &'static str {
    match trace.steps.is_empty() {
        true => {
            "The trace has no steps, because no profiler, framework or optimizer marked them. Use --step-annotation \
             to count spans of a given name as steps."
        }
        false => "The trace has none of the selected steps.",
    }
}

/// Measured values of steps in µs (such as `time` or `gpu_busy`): one row of table `steps_spread`.
struct Measure {
    process: Option<String>,
    name: &'static str,
    us: Vec<f64>,
}

/// Values in µs per measure (`time`, `with_gpu`, `gpu_busy`, `between`) of the steps at the positions `at`.
fn measures(selected: &[(usize, &Step)], at: &[usize], times: &Times, work: &[Work]) -> Vec<(&'static str, Vec<f64>)> {
    let time_us: Vec<f64> = at.iter().map(|&at| times.time_us[at]).collect();
    let between_us: Vec<f64> = at.iter().filter_map(|&at| times.between_us[at]).collect();
    let is_between = between_us.iter().sum::<f64>() > MIN_BETWEEN_RATIO * time_us.iter().sum::<f64>();
    let mut measures = vec![("time", time_us)];
    if let Some(with_gpu_us) = &times.with_gpu_us {
        let known = at.iter().map(|&at| &work[selected[at].0]).filter(|work| !work.is_unknown());
        measures.push(("with_gpu", at.iter().filter_map(|&at| with_gpu_us[at]).collect()));
        measures.push(("gpu_busy", known.map(|work| work.busy_ns as f64 / 1e3).collect()));
    }
    measures.extend(is_between.then_some(("between", between_us)));
    measures.retain(|(_, values)| !values.is_empty());
    measures
}

/// Create table `steps_spread`: statistics of step times over the steps at the positions `counted`, per process and
/// measure.
fn spread(trace: &Trace, selected: &[(usize, &Step)], counted: &[usize], times: &Times, work: &[Work]) -> Table {
    let of_all = |process: Option<&String>, at: &[usize]| -> Vec<Measure> {
        let measure = |(name, us)| Measure { process: process.cloned(), name, us };
        measures(selected, at, times, work).into_iter().map(measure).collect()
    };
    let processes = process_names(trace, selected);
    let measures: Vec<Measure> = match &processes {
        None => of_all(None, counted),
        Some(names) => {
            let mut by_process: BTreeMap<&String, Vec<usize>> = BTreeMap::new();
            counted.iter().for_each(|&at| by_process.entry(&names[at]).or_default().push(at));
            let mut by_process: Vec<(&String, Vec<usize>)> = by_process.into_iter().collect();
            // In the order of their first steps.
            by_process.sort_by_key(|(_, at)| at.first().copied());
            by_process.iter().flat_map(|(name, at)| of_all(Some(*name), at)).collect()
        }
    };
    let stats: Vec<Summary> = measures.iter().map(|measure| Summary::from_values(&measure.us)).collect();
    let quantile = |q: f64| {
        measures.iter().map(move |measure| {
            let mut sorted = measure.us.clone();
            sorted.sort_by(f64::total_cmp);
            stats::quantile(&sorted, q)
        })
    };
    let table = Table::new("steps_spread", "Spread between steps");
    let table = match processes {
        Some(_) => table.text("process", measures.iter().map(|measure| measure.process.clone())),
        None => table,
    };
    table
        .text("measure", measures.iter().map(|measure| Some(measure.name.to_owned())))
        .i64("steps", Unit::None, stats.iter().map(|s| s.count as i64))
        .f64("mean_us", Unit::Us, stats.iter().map(|s| s.mean))
        .f64("median_us", Unit::Us, stats.iter().map(|s| s.median))
        .f64("std_us", Unit::Us, stats.iter().map(|s| s.std))
        .f64("min_us", Unit::Us, stats.iter().map(|s| s.min))
        .f64("p90_us", Unit::Us, quantile(0.9))
        .f64("max_us", Unit::Us, stats.iter().map(|s| s.max))
        .f64("spread_percent", Unit::Percent, stats.iter().map(|s| percent(s.max - s.min, s.median)))
}
