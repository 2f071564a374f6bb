//! Time that no finding covers: its calls, kernels, operators and functions, and the gain of removing
//! each.
//!
//! Rules cover known kinds of problems. Other causes may take most of a step, so a list without them misleads.

mod annotated_gaps;
mod concurrent_gpu_work;
mod concurrent_spans;
mod covered_events;
mod covered_gaps;
mod group_location;
mod groups;
mod merge_ranks;
mod path_part;
mod sampled_gaps;
mod waits;

use super::finding::{Candidate, RankedCandidate};
use super::gain::{gain_per_step, limit_to_step, recording_overhead_ns};
use super::large_group::{LARGE_PERCENT, LargeGroup, LargeKind, MAX_COVERED_PERCENT, Uncovered};
use super::missing_records::missing_record_count;
use super::recorded_operators::subtract_overhead;
use super::rule::RuleProperty;
use super::rule_context::{RuleContext, SharedContext};
use super::rules::properties_of;
use super::settings::DeclaredSettings;
use covered_events::CoveredEvents;
use groups::{Group, Groups};
pub(super) use merge_ranks::merge;
use rustc_hash::FxHashSet;
use stackline_critical_path::CriticalPathError;
use stackline_critical_path::exact::what_if::{Action, Chosen, Edit, Gain, Gains, Selector, spans_of};
use stackline_critical_path::exact::{Category, WindowChoice};
use stackline_model::gpu_calls::{CallKind, kind_of_name};
use stackline_model::{EventId, EventKind, Trace};
use stackline_timeline::source_location::SourceLocation;
use stackline_timeline::vocabulary::{aten, python, recorders};

/// Least share of these smaller groups, in percent.
const MIN_PERCENT: f64 = 3.0;
/// Largest number of named groups, unless more are always named.
const MAX_GROUPS: usize = 5;
/// Share of the window from which a function counts as the program's main loop, in percent.
const MAIN_LOOP_PERCENT: f64 = 90.0;
/// Number of replayed groups, the largest first.
const REPLAYED: usize = 16;
/// Length in ns of short windows (a test, a single kernel), in which everything is large, so that only calls are named.
const SHORTEST_NS: i64 = 1_000_000;

/// Events and locations that findings cover.
#[derive(Default)]
pub(super) struct Covered {
    events: FxHashSet<EventId>,
    /// Functions that are reported as slow, without their contents.
    functions: FxHashSet<EventId>,
    places: FxHashSet<SourceLocation>,
    /// Largest gain of a finding, in ns per step.
    gain_ns: i64,
}

impl Covered {
    /// Add the events of a finding and of its edits.
    pub(super) fn add(
        &mut self,
        shared: &SharedContext<'_>,
        RankedCandidate { rule, candidate, .. }: &RankedCandidate,
        gain: Option<Gain>,
    ) {
        let Candidate { place, events, gain_estimate, .. } = candidate;
        let are_slow_functions = properties_of(&rule.code).contains(&RuleProperty::SlowFunctions);
        let all = if are_slow_functions { &mut self.functions } else { &mut self.events };
        all.extend(events);
        for selector in gain_estimate.likely_edits().iter().filter_map(|edit| edit.selector.as_ref()) {
            all.extend(spans_of(shared.exact, selector));
        }
        if place.file.is_some() {
            self.places.insert(function_of(place));
        }
        self.gain_ns = self.gain_ns.max(gain.map_or(0, |gain| gain.likely_ns));
    }
}

/// File and function of a source location, without line, module and operator.
fn function_of(place: &SourceLocation) -> SourceLocation {
    SourceLocation { file: place.file.clone(), function: place.function.clone(), ..SourceLocation::default() }
}

/// Find the largest groups of time that no finding covers.
pub(super) fn find<'a>(
    shared: &'a SharedContext<'a>,
    covered: &Covered,
    replay: (&Gains<'_, '_>, &WindowChoice),
    (step_ns, threads): (i64, usize),
) -> Result<Uncovered, CriticalPathError> {
    let context = RuleContext::new(shared, DeclaredSettings::NONE);
    let is_short = shared.window.length_ns() < SHORTEST_NS;
    let covered_events = CoveredEvents { context: &context, events: &covered.events, functions: &covered.functions };
    let groups = Groups::new(&context, covered_events);
    let by_path = 100.0 * groups.covered_ns as f64 / groups.path_ns.max(1) as f64;
    let by_gain = 100.0 * covered.gain_ns as f64 / step_ns.max(1) as f64;
    let covered_percent = by_path.max(by_gain).min(100.0);
    let is_most = covered_percent < MAX_COVERED_PERCENT && !is_short;
    let least = if is_most { MIN_PERCENT } else { LARGE_PERCENT };
    let is_large = |group: &Group| is_large(&context, group);
    let mut selected = selected_groups(&context, covered, (groups.distinct(&is_large), least));
    if is_short {
        selected.retain(|group| group.kind == LargeKind::Call && is_large(group));
    }
    let large_ns = (groups.path_ns as f64 * LARGE_PERCENT / 100.0) as i64;
    let groups_with_gains = with_gains((shared, &context), &selected, replay, (step_ns, threads))?;
    let found = groups::without_overlaps(groups_with_gains, &context, large_ns);
    let gains_much =
        |gain: Option<Gain>| gain.is_some_and(|gain| 100.0 * gain.likely_ns as f64 >= MIN_PERCENT * step_ns as f64);
    let is_small_named = |group: &Group, gain| is_most && (!group.kind.is_of_events() || gains_much(gain));
    // Removing a large group may still gain little. Small groups fill the remaining lines.
    let mut room = MAX_GROUPS.saturating_sub(found.iter().filter(|(group, _)| is_large(group)).count());
    let mut has_room = || {
        let has = room > 0;
        room = room.saturating_sub(1);
        has
    };
    let named =
        found.into_iter().filter(|(group, gain)| is_large(group) || (is_small_named(group, *gain) && has_room()));
    let row = |(group, gain): (&Group, Option<Gain>)| large_group(&context, (group, groups.path_ns), gain);
    let covered_percent = Some(covered_percent).filter(|_| !is_short);
    Ok(Uncovered { covered_percent, groups: named.map(row).collect() })
}

/// Select informative groups without a finding that take at least `least` percent of the window: the largest ones.
fn selected_groups(context: &RuleContext<'_>, covered: &Covered, (mut groups, least): (Vec<Group>, f64)) -> Vec<Group> {
    let is_covered = |group: &Group| {
        let place = || function_of(&context.place(group.longest(context)));
        group.kind == LargeKind::Frame && !group.is_compilation(context) && covered.places.contains(&place())
    };
    // Rules cover latencies, so a latency without a finding needs no report.
    let is_represented = |group: &Group| group.kind == LargeKind::Lag || is_covered(group);
    let is_spent_below = |group: &Group| 2 * group.innermost_ns < group.wall_ns && !group.is_compilation(context);
    // A library function is informative only if the time is spent in it.
    let is_wrapper =
        |group: &Group| group.kind == LargeKind::Frame && !context.is_own_name(group.name) && is_spent_below(group);
    groups.retain(|group| {
        context.percent_of_window(group.largest_ns()) >= least && !is_represented(group) && !is_wrapper(group)
    });
    // The function that contains the whole run is informative only if there is no other group.
    let is_all = |group: &Group| {
        group.kind == LargeKind::Frame
            && context.percent_of_window(group.wall_ns) >= MAIN_LOOP_PERCENT
            && is_spent_below(group)
    };
    if !groups.iter().all(is_all) {
        groups.retain(|group| !is_all(group));
    }
    groups.truncate(REPLAYED);
    groups
}

/// Replay the removal of each group; returns the groups with the gain per step, in listed order.
fn with_gains<'g>(
    (shared, context): (&SharedContext<'_>, &RuleContext<'_>),
    groups: &'g [Group],
    (gains, choice): (&Gains<'_, '_>, &WindowChoice),
    (step_ns, threads): (i64, usize),
) -> Result<Vec<(&'g Group, Option<Gain>)>, CriticalPathError> {
    let edits: Vec<Vec<Edit>> = groups.iter().map(|group| removal_edit(context, group).into_iter().collect()).collect();
    let replayed = gains.compute(choice, &edits, threads)?;
    let price = |(gain, edits): (Option<Gain>, &Vec<Edit>)| {
        let gain = gain.filter(|_| !edits.is_empty())?;
        let gain = subtract_overhead(gain, recording_overhead_ns(shared, edits, gain.likely_ns));
        Some(limit_to_step(gain_per_step(gain, (shared.steps as i64).max(1)), step_ns))
    };
    let mut found: Vec<(&Group, Option<Gain>)> =
        groups.iter().zip(replayed.into_iter().zip(&edits).map(price)).collect();
    found.sort_by_key(|(group, gain)| std::cmp::Reverse((group.weight(*gain), group.largest_ns())));
    Ok(found)
}

/// Check if a group takes so much of the window that it is always named.
fn is_large(context: &RuleContext<'_>, group: &Group) -> bool {
    // A call that only waits, without delaying the critical path, is normal for a program with a busy GPU.
    let waits = || kind_of_name(context.trace().strings.get(group.name)).is_some_and(CallKind::is_wait);
    let is_idle_wait =
        group.kind == LargeKind::Call && context.percent_of_window(group.path_ns) < LARGE_PERCENT && waits();
    context.percent_of_window(group.largest_ns()) >= LARGE_PERCENT && !is_idle_wait
}

/// Row of the report for a group: its shares of the window and of the critical path, location, gain and advice.
fn large_group(context: &RuleContext<'_>, (group, path_ns): (&Group, i64), gain: Option<Gain>) -> LargeGroup {
    let of_path = |ns: i64| 100.0 * ns as f64 / path_ns.max(1) as f64;
    let is_of_events = group.kind.is_of_events();
    let mut row = LargeGroup {
        kind: group.kind,
        rank: None,
        name: group.title(context),
        place: SourceLocation::default(),
        place_percent: None,
        count: group.count(),
        percent: context.percent_of_window(group.wall_ns),
        // Time of the path that waits during an event does not belong to the event; a wait group is that path.
        path_percent: of_path(match is_of_events {
            // Spans of a recording lack calls without a sample, which the time of the group includes.
            true => {
                let inside: i64 = group.parts_inside(context).iter().map(|part| part.ns).sum();
                inside.max(group.path_ns - group.wait_ns)
            }
            false => group.path_ns,
        }),
        wait_percent: of_path(group.wait_ns),
        concurrent_span: concurrent_spans::longest_span(context, group)
            .map(|(name, percent)| (context.trace().strings.get(name).to_owned(), percent)),
        concurrent_gpu_work: concurrent_gpu_work::during_waits(context, group),
        longest_gap_ns: longest_gap(group),
        advice: "",
        gain,
        edits: replayed_edits(context, group, gain),
    };
    if is_of_events {
        let is_of_window = row.is_of_window();
        let (place, part) = group_location::largest(context, group, is_of_window);
        let share = if is_of_window { row.percent } else { row.path_percent };
        row.place_percent = place.file.is_some().then_some(part * share);
        row.place = place;
    }
    row.advice = match () {
        () if row.is_wait() && lacks_handing_thread(context, group) => FRAMES_ADVICE,
        () if row.is_wait() => wait_advice(context),
        // The missing part of the trace may contain the calls.
        () if missing_record_count(context.trace()) > 0 => "",
        () => gap_advice(context, group.kind),
    };
    row
}

/// Longest of several gaps without recorded calls, in ns, if it takes more than half of their time.
fn longest_gap(group: &Group) -> Option<i64> {
    use LargeKind::{UnrecordedHost, UnrecordedNative, UnrecordedPython};
    let is_gaps = matches!(group.kind, UnrecordedPython | UnrecordedHost | UnrecordedNative);
    let longest = group.parts().iter().map(|part| part.ns).max()?;
    (is_gaps && group.parts().len() > 1 && 2 * longest > group.path_ns).then_some(longest)
}

/// Text of the edits that remove a group, if their gain was replayed.
fn replayed_edits(context: &RuleContext<'_>, group: &Group, gain: Option<Gain>) -> Vec<String> {
    let edit = gain.and_then(|_| removal_edit(context, group));
    edit.into_iter().map(|edit| edit.exact_text(context.trace())).collect()
}

/// Check if a program is known to run Python.
fn is_python(context: &RuleContext<'_>) -> bool {
    let is_mark = |name: &str| python::MARKS.iter().any(|mark| name.starts_with(mark));
    let has_options = || python::PROFILER_OPTIONS.iter().any(|option| context.trace().meta.entry(option).is_some());
    has_frames(context) || context.recording().is_some() || has_options() || context.trace().strings.iter().any(is_mark)
}

/// True if the trace records Python functions.
fn has_frames(context: &RuleContext<'_>) -> bool {
    context.trace().events.kind.contains(&EventKind::PythonFunction)
}

/// Check if torch.profiler could have recorded waits of streams, which only CUPTI supports, and did not.
fn lacks_stream_waits(context: &RuleContext<'_>) -> bool {
    let trace = context.trace();
    // Calls of other vendors also have the category `cuda_runtime`.
    let is_cuda = |e: EventId| trace.kind(e).is_api_call() && trace.name(e).starts_with("cuda");
    trace.meta.format != "nsys" && !trace.events.kind.contains(&EventKind::Sync) && trace.events.ids().any(is_cuda)
}

/// True if the trace records GPU API calls or operators.
fn has_calls(context: &RuleContext<'_>) -> bool {
    context.trace().events.kind.iter().any(|kind| kind.is_api_call() || *kind == EventKind::Operator)
}

/// Advice how to record the Python code of a thread.
const FRAMES_ADVICE: &str =
    "record Python frames: torch.profiler with with_stack=True, or `stackline record --mode trace`";

/// Check if most of a group's time is the unrecorded Python work of a thread before it hands over to another thread,
/// such as that of autograd. The GPU is not the cause.
fn lacks_handing_thread(context: &RuleContext<'_>, group: &Group) -> bool {
    let segments = (0u32..).zip(context.path().segments.iter());
    let handovers = segments.filter(|(_, segment)| segment.category == Category::ThreadHandover);
    let part_of = |at: u32| group.parts().binary_search_by_key(&at, |part| part.at).ok();
    let ns: i64 = handovers.filter_map(|(at, _)| part_of(at)).map(|part| group.parts()[part].ns).sum();
    2 * ns > group.path_ns && is_python(context) && !has_frames(context) && context.recording().is_none()
}

/// Advice how to record the cause of waits on the path.
fn wait_advice(context: &RuleContext<'_>) -> &'static str {
    let has_operators = || context.trace().strings.iter().any(|name| name.starts_with(aten::PREFIX));
    let recorder = recorders::recorder_of(context.trace()).filter(|tool| !tool.records_host_code(context.trace()));
    match recorder {
        _ if context.uses_gpu() && !has_calls(context) => {
            "also record calls of the host (torch.profiler: ProfilerActivity.CPU; nsys: --trace=cuda,nvtx; rocprofv3: \
                  --hip-trace)"
        }
        Some(recorder) => recorder.between_calls,
        None if context.uses_gpu() && lacks_stream_waits(context) => {
            "start recording earlier; record all processes that use this GPU; record stream waits (torch.profiler: \
             experimental_config=_ExperimentalConfig(enable_cuda_sync_events=True))"
        }
        None if context.uses_gpu() => "start recording earlier, and record all processes that use this GPU",
        None if has_operators() => "record all threads and processes: `stackline record` also samples waiting threads",
        None => "record all threads and processes of the program",
    }
}

/// Advice how to record the calls of a thread; empty for recorded kinds.
fn gap_advice(context: &RuleContext<'_>, kind: LargeKind) -> &'static str {
    match kind {
        LargeKind::UnrecordedPython if context.recording().is_some() => {
            "no CPU samples were taken in the gaps between recorded calls: use `stackline record` with a higher \
             --sample-hz, or with --wall-hz 99 to sample waits, too"
        }
        LargeKind::UnrecordedPython if !has_frames(context) => FRAMES_ADVICE,
        LargeKind::UnrecordedPython => "use `stackline record`, which also samples threads between recorded calls",
        LargeKind::UnrecordedHost => host_gap_advice(context.trace()),
        LargeKind::UnrecordedNative if context.recording().is_none() && !has_frames(context) => {
            "for Python code of these threads, record with torch.profiler and with_stack=True; for native code, use \
            `perf record`"
        }
        LargeKind::UnrecordedNative => "use `perf record` or py-spy --native to see the code that native threads run",
        _ => "",
    }
}

/// Advice how to record a program that may run Python: with its own recorder, otherwise with a sampling profiler.
fn host_gap_advice(trace: &Trace) -> &'static str {
    let has_operators = || trace.strings.iter().any(|name| name.starts_with(aten::PREFIX));
    match recorders::recorder_of(trace) {
        Some(recorder) if !recorder.records_host_code(trace) => recorder.between_calls,
        None if has_operators() => {
            "for a Python program, record with torch.profiler and with_stack=True; for other programs, use `perf \
             record`"
        }
        _ => "use `perf record` to see the code that runs between recorded calls",
    }
}

/// Edit that removes the events, the waiting calls in them and the GPU work that they launch.
fn removal_edit(context: &RuleContext<'_>, group: &Group) -> Option<Edit> {
    if !group.kind.is_of_events() {
        return None;
    }
    let mut events = group.events.clone();
    let name = context.trace().strings.get(group.name);
    // Spans of a recording contain only sampled calls; the selector of the name includes the others.
    if group.kind == LargeKind::Frame && context.recording().is_some() {
        return Edit::on(Action::Remove, Selector::parse(&format!("frame:{name}")).ok()?).ok();
    }
    // Removing a launch call does not remove its kernels: another call would have to launch them.
    let is_launch =
        group.kind == LargeKind::Call && matches!(kind_of_name(name), Some(CallKind::Launch | CallKind::GraphLaunch));
    if group.kind != LargeKind::Gpu && !is_launch {
        events.extend(group.events.iter().flat_map(|&event| context.launched_in(event)));
        events.extend(context.waiting_calls_in(&group.events));
    }
    events.sort_unstable();
    events.dedup();
    let chosen = Chosen { events, ..Chosen::default() };
    Edit::on(Action::Remove, Selector::new(format!("{}:{name}", group.kind.name()), chosen)).ok()
}
