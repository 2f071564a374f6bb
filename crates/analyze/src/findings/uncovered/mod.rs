//! Time that no finding covers: which calls, kernels, operators and functions it is in, and what removing each would
//! gain.
//!
//! Rules know kinds of fault. What no rule knows may still take most of a step, so that a list without it misleads.

mod covered_events;
mod group_location;
mod groups;
mod meanwhile;
mod of_ranks;
mod waits;

use super::finding::Candidate;
use super::gain::{edits_of, recording_ns, scaled, without};
use super::rank::{RankedCandidate, within_step};
use super::rule_context::{RuleContext, SharedContext};
use super::rules;
use super::source_location::SourceLocation;
use crate::critical_path::CriticalPathError;
use crate::critical_path::exact::what_if::{Action, Chosen, Edit, Gain, Gains, Selector, spans_of};
use crate::critical_path::exact::{Category, WindowChoice};
use crate::vocabulary::{aten, python, recorders};
use covered_events::CoveredEvents;
use groups::{Group, Groups};
pub(super) use of_ranks::merge;
use rustc_hash::{FxHashMap, FxHashSet};
use stackline_model::gpu_calls::{CallKind, kind_of_name};
use stackline_model::{EventId, EventKind, Trace};

/// What a group of events of one name is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LargeKind {
    /// Calls of the GPU's runtime or driver.
    Call,
    /// Operators of a framework, with all that they call and launch.
    Operator,
    /// Work of a GPU.
    Gpu,
    /// Functions of Python.
    Frame,
    /// Waits whose cause is not recorded.
    Wait,
    /// Time of Python threads in which no call is recorded.
    UnrecordedPython,
    /// The same of threads of which nobody knows whether they run Python.
    UnrecordedHost,
    /// The same of threads that run no Python, such as the autograd engine's.
    UnrecordedNative,
    /// Latencies: from launches to operations, between operations of a queue, from the end of a wait to the thread that
    /// waited.
    Lag,
}

impl LargeKind {
    /// Stable text name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Call => "gpu_api_call",
            Self::Operator => "operator",
            Self::Gpu => "gpu_work",
            Self::Frame => "function",
            Self::Wait => "wait",
            Self::UnrecordedPython => "unrecorded_python",
            Self::UnrecordedHost => "unrecorded_host",
            Self::UnrecordedNative => "unrecorded_native",
            Self::Lag => "latency",
        }
    }

    /// Whether it is time in events; else it is time of the critical path in which no event ran.
    pub fn is_of_events(self) -> bool {
        matches!(self, Self::Call | Self::Operator | Self::Gpu | Self::Frame)
    }

    /// What time in no event is called; none of events, which have names.
    fn title(self) -> Option<&'static str> {
        match self {
            Self::Call | Self::Operator | Self::Gpu | Self::Frame => None,
            Self::Wait => Some("waits, cause not recorded"),
            Self::UnrecordedPython => Some("Python time without recorded calls"),
            Self::UnrecordedHost => Some("host time without recorded calls"),
            Self::UnrecordedNative => Some("time of native threads without recorded calls"),
            Self::Lag => Some("latency of launches, queues and waits"),
        }
    }

    /// In words, of so many.
    pub fn words(self, count: usize) -> &'static str {
        match (self, count) {
            (Self::Call, 1) => "GPU API call",
            (Self::Call, _) => "GPU API calls",
            (Self::Operator, 1) => "operator",
            (Self::Operator, _) => "operators",
            (Self::Gpu, 1) => "GPU operation",
            (Self::Gpu, _) => "GPU operations",
            (Self::Frame, 1) => "call",
            (Self::Frame, _) => "calls",
            (Self::Wait, 1) => "wait",
            (Self::Wait, _) => "waits",
            (Self::UnrecordedPython | Self::UnrecordedHost | Self::UnrecordedNative, 1) => "gap",
            (Self::UnrecordedPython | Self::UnrecordedHost | Self::UnrecordedNative, _) => "gaps",
            (Self::Lag, 1) => "latency",
            (Self::Lag, _) => "latencies",
        }
    }
}

/// Events of one name that take much time and that no finding is about.
#[derive(Clone, Debug, PartialEq)]
pub struct LargeGroup {
    /// What they are.
    pub kind: LargeKind,
    /// Of several ranks that which they are of; none of a single one.
    pub rank: Option<i64>,
    /// Their name.
    pub name: String,
    /// Where most of their time is.
    pub place: SourceLocation,
    /// What of the share that it is told by ([`LargeGroup::is_of_window`]) is there; none of time in no event.
    pub place_percent: Option<f64>,
    /// How many there are in the window, without those that findings are about.
    pub count: usize,
    /// Their time within the window on the thread or stream that has most of it, in percent of the window.
    pub percent: f64,
    /// Time of the critical path in them and in what they call and launch, in percent of it, also where findings cover
    /// it; of events without waits whose cause is not recorded.
    pub path_percent: f64,
    /// Waits on the path whose cause is not recorded, in percent of it: calls that were in progress meanwhile have
    /// them.
    pub wait_percent: f64,
    /// Of time without recorded calls: the operator or annotation of other threads of the process that runs for most of
    /// it, and for how much, in percent.
    pub meanwhile: Option<(String, f64)>,
    /// Of time without recorded calls: its longest gap, in ns, if that is most of several.
    pub longest_gap_ns: Option<i64>,
    /// What could record it; empty of what is recorded.
    pub advice: &'static str,
    /// What a step gains if they, what they call and the GPU work that they launch are removed, in ns; none if that
    /// cannot be replayed.
    pub gain: Option<Gain>,
    /// The edits whose replay that is, as text that `what-if` reads; none where nothing is replayed.
    pub edits: Vec<String>,
}

impl LargeGroup {
    /// Whether it is a call that takes so much of the window or of its path that it is named in any case.
    fn is_large_call(&self) -> bool {
        self.kind == LargeKind::Call && self.percent.max(self.path_percent) >= LARGE_PERCENT
    }

    /// Whether it is told by its part of the window (`percent`), else by that of the path (`path_percent`).
    pub fn is_of_window(&self) -> bool {
        match self.kind {
            LargeKind::Call => self.percent > self.path_percent || self.is_wait(),
            LargeKind::Frame => true,
            kind => self.is_wait() && kind.is_of_events(),
        }
    }

    /// Whether most of its time on the path is waits of unknown cause.
    pub fn is_wait(&self) -> bool {
        self.kind == LargeKind::Wait || self.wait_percent > self.path_percent
    }
}

/// Time that no finding covers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Uncovered {
    /// Part of the critical path in events that findings are about, in percent; none where that was not looked at.
    pub covered_percent: Option<f64>,
    /// What takes most of the rest: most gain first, and what is not recorded by its time.
    pub groups: Vec<LargeGroup>,
}

impl Uncovered {
    /// Whether findings cover less than half of the critical path.
    pub fn is_most(&self) -> bool {
        self.covered_percent.is_some_and(|percent| percent < MOST_PERCENT)
    }
}

/// A group that takes this much of the window is named in any case, in percent.
const LARGE_PERCENT: f64 = 20.0;
/// Where findings cover less than this of the critical path, smaller groups are named, too, in percent,
const MOST_PERCENT: f64 = 50.0;
/// down to this, in percent,
const LEAST_PERCENT: f64 = 3.0;
/// and so many in all, if there are not more that are named in any case.
const NAMED: usize = 5;
/// A function that runs for this part of the window is the program's main loop, in percent.
const ALL_PERCENT: f64 = 90.0;
/// So many groups are replayed, the largest first.
const REPLAYED: usize = 16;
/// In shorter windows (a test, a single kernel) everything is large: only calls are named, in ns.
const SHORTEST_NS: i64 = 1_000_000;

/// The rule that says which function is slow, and not why.
const ONLY_WHERE: &str = "SL005";

/// What findings are about.
#[derive(Default)]
pub(super) struct Covered {
    events: FxHashSet<EventId>,
    /// Functions that are known to be slow, without what in them is.
    functions: FxHashSet<EventId>,
    places: FxHashSet<SourceLocation>,
    /// The most that one of them gains, in ns a step.
    gain_ns: i64,
}

impl Covered {
    /// Takes over what a finding shows and what its edits change.
    pub(super) fn add(
        &mut self,
        shared: &SharedContext<'_>,
        RankedCandidate { rule, candidate, .. }: &RankedCandidate,
        gain: Option<Gain>,
    ) {
        let Candidate { place, events, .. } = candidate;
        let all = if rule.code == ONLY_WHERE { &mut self.functions } else { &mut self.events };
        all.extend(events);
        for selector in edits_of(candidate).iter().filter_map(|edit| edit.selector.as_ref()) {
            all.extend(spans_of(shared.exact, selector));
        }
        if place.file.is_some() {
            self.places.insert(function_of(place));
        }
        self.gain_ns = self.gain_ns.max(gain.map_or(0, |gain| gain.ns));
    }
}

fn function_of(place: &SourceLocation) -> SourceLocation {
    SourceLocation { file: place.file.clone(), function: place.function.clone(), ..SourceLocation::default() }
}

/// What takes most of the time that findings do not cover.
pub(super) fn find<'a>(
    shared: &'a SharedContext<'a>,
    covered: &Covered,
    replay: (&Gains<'_, '_>, &WindowChoice),
    (step_ns, threads): (i64, usize),
) -> Result<Uncovered, CriticalPathError> {
    // Groups need nothing of a rule.
    let Some(rule) = rules::of_traces().next() else { return Ok(Uncovered::default()) };
    let context = RuleContext::new(shared, rule);
    let is_short = shared.window.length_ns() < SHORTEST_NS;
    let told = CoveredEvents { context: &context, events: &covered.events, functions: &covered.functions };
    let groups = Groups::new(&context, told);
    let by_path = 100.0 * groups.covered_ns as f64 / groups.path_ns.max(1) as f64;
    let by_gain = 100.0 * covered.gain_ns as f64 / step_ns.max(1) as f64;
    let covered_percent = by_path.max(by_gain).min(100.0);
    let is_most = covered_percent < MOST_PERCENT && !is_short;
    let least = if is_most { LEAST_PERCENT } else { LARGE_PERCENT };
    let is_large = |group: &Group| is_large(&context, group);
    let mut wanted = wanted(&context, covered, (groups.distinct(&is_large), least));
    if is_short {
        wanted.retain(|group| group.kind == LargeKind::Call && is_large(group));
    }
    let large_ns = (groups.path_ns as f64 * LARGE_PERCENT / 100.0) as i64;
    let priced = priced((shared, &context), &wanted, replay, (step_ns, threads))?;
    let found = groups::apart(priced, &context, large_ns);
    let gains_much =
        |gain: Option<Gain>| gain.is_some_and(|gain| 100.0 * gain.ns as f64 >= LEAST_PERCENT * step_ns as f64);
    let is_small_named = |group: &Group, gain| is_most && (!group.kind.is_of_events() || gains_much(gain));
    // What removing gains little may be large all the same: small ones have what room is left.
    let mut room = NAMED.saturating_sub(found.iter().filter(|(group, _)| is_large(group)).count());
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

/// Of groups those that take this much of the window, in percent, and that tell something new.
fn wanted(context: &RuleContext<'_>, covered: &Covered, (mut groups, least): (Vec<Group>, f64)) -> Vec<Group> {
    let is_covered = |group: &Group| {
        let place = || function_of(&context.place(group.longest(context)));
        group.kind == LargeKind::Frame && covered.places.contains(&place())
    };
    // Rules know latencies: where none fires there is nothing to say of them.
    let is_told = |group: &Group| group.kind == LargeKind::Lag || is_covered(group);
    let is_spent_below = |group: &Group| 2 * group.innermost_ns < group.wall_ns;
    // A function of a library says something only if it is where the time is spent.
    let is_wrapper =
        |group: &Group| group.kind == LargeKind::Frame && !context.is_own_name(group.name) && is_spent_below(group);
    groups.retain(|group| {
        context.percent_of_window(group.largest_ns()) >= least && !is_told(group) && !is_wrapper(group)
    });
    // The function that all of it runs in says nothing, unless there is nothing else.
    let is_all = |group: &Group| {
        group.kind == LargeKind::Frame
            && context.percent_of_window(group.wall_ns) >= ALL_PERCENT
            && is_spent_below(group)
    };
    if !groups.iter().all(is_all) {
        groups.retain(|group| !is_all(group));
    }
    groups.truncate(REPLAYED);
    groups
}

/// Groups with what a step gains if they are removed, in the order in which they are listed.
fn priced<'g>(
    (shared, context): (&SharedContext<'_>, &RuleContext<'_>),
    groups: &'g [Group],
    (gains, choice): (&Gains<'_, '_>, &WindowChoice),
    (step_ns, threads): (i64, usize),
) -> Result<Vec<(&'g Group, Option<Gain>)>, CriticalPathError> {
    let edits: Vec<Vec<Edit>> = groups.iter().map(|group| removal(context, group).into_iter().collect()).collect();
    let replayed = gains.compute(choice, &edits, threads)?;
    let price = |(gain, edits): (Option<Gain>, &Vec<Edit>)| {
        let gain = gain.filter(|_| !edits.is_empty())?;
        let gain = scaled(without(gain, recording_ns(shared, edits, gain.ns)), (shared.steps as i64).max(1));
        Some(within_step(gain, step_ns))
    };
    let mut found: Vec<(&Group, Option<Gain>)> =
        groups.iter().zip(replayed.into_iter().zip(&edits).map(price)).collect();
    found.sort_by_key(|(group, gain)| std::cmp::Reverse((group.weight(*gain), group.largest_ns())));
    Ok(found)
}

/// Whether a group is named in any case.
fn is_large(context: &RuleContext<'_>, group: &Group) -> bool {
    // A call that does nothing but wait, and whose wait costs nothing, is how a program on a busy GPU looks.
    let waits = || kind_of_name(context.trace().strings.get(group.name)).is_some_and(CallKind::is_wait);
    let is_idle_wait =
        group.kind == LargeKind::Call && context.percent_of_window(group.path_ns) < LARGE_PERCENT && waits();
    context.percent_of_window(group.largest_ns()) >= LARGE_PERCENT && !is_idle_wait
}

fn large_group(context: &RuleContext<'_>, (group, path_ns): (&Group, i64), gain: Option<Gain>) -> LargeGroup {
    let of_path = |ns: i64| 100.0 * ns as f64 / path_ns.max(1) as f64;
    let named = || context.trace().strings.get(group.name).to_owned();
    let is_of_events = group.kind.is_of_events();
    let mut row = LargeGroup {
        kind: group.kind,
        rank: None,
        name: group.kind.title().map_or_else(named, str::to_owned),
        place: SourceLocation::default(),
        place_percent: None,
        count: group.count(),
        percent: context.percent_of_window(group.wall_ns),
        // An event does not take the path that waits meanwhile; a wait is that path.
        path_percent: of_path(if is_of_events { path_inside(context, group) } else { group.path_ns }),
        wait_percent: of_path(group.wait_ns),
        meanwhile: meanwhile::longest_span(context, group)
            .map(|(name, percent)| (context.trace().strings.get(name).to_owned(), percent)),
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
        () if row.is_wait() => wait_advice(context),
        // What would show it may be in the part that is missing.
        () if super::rank::lost(context.trace()) > 0 => "",
        () => gap_advice(context, group.kind),
    };
    row
}

/// The longest of several gaps without recorded calls, where it takes more than half of their time.
fn longest_gap(group: &Group) -> Option<i64> {
    use LargeKind::{UnrecordedHost, UnrecordedNative, UnrecordedPython};
    let is_gaps = matches!(group.kind, UnrecordedPython | UnrecordedHost | UnrecordedNative);
    let longest = group.parts().iter().map(|part| part.ns).max()?;
    (is_gaps && group.parts().len() > 1 && 2 * longest > group.path_ns).then_some(longest)
}

/// The edits of a gain, as text.
fn replayed_edits(context: &RuleContext<'_>, group: &Group, gain: Option<Gain>) -> Vec<String> {
    let edit = gain.and_then(|_| removal(context, group));
    edit.into_iter().map(|edit| edit.exact_text(context.trace())).collect()
}

/// Time of the path in the events of a group and in what they call and launch, in ns.
fn path_inside(context: &RuleContext<'_>, group: &Group) -> i64 {
    let events: FxHashSet<EventId> = group.events.iter().copied().collect();
    // Paths come back to the same spans.
    let mut known: FxHashMap<EventId, bool> = FxHashMap::default();
    let mut is_inside = |event: EventId| {
        let inside = || events.contains(&event) || context.stack(event).any(|around| events.contains(&around));
        *known.entry(event).or_insert_with(inside)
    };
    let hops = context.path().hops.iter().filter(|hop| hop.category != Category::Unknown && hop.event.is_some());
    hops.filter(|hop| is_inside(hop.event)).map(|hop| hop.end - hop.start).sum()
}

/// Whether a program is known to run Python.
fn is_python(context: &RuleContext<'_>) -> bool {
    let is_mark = |name: &str| python::MARKS.iter().any(|mark| name.starts_with(mark));
    let has_options = || python::PROFILER_OPTIONS.iter().any(|option| context.trace().meta.entry(option).is_some());
    has_frames(context) || context.recording().is_some() || has_options() || context.trace().strings.iter().any(is_mark)
}

/// Whether functions of Python are recorded.
fn has_frames(context: &RuleContext<'_>) -> bool {
    context.trace().events.kind.contains(&EventKind::PythonFunction)
}

/// Whether waits of streams could have been recorded by torch.profiler and were not: CUPTI alone can.
fn lacks_stream_waits(context: &RuleContext<'_>) -> bool {
    let trace = context.trace();
    // Other vendors' calls, too, have the category `cuda_runtime`.
    let is_cuda = |e: EventId| trace.kind(e).is_api_call() && trace.name(e).starts_with("cuda");
    trace.meta.format != "nsys" && !trace.events.kind.contains(&EventKind::Sync) && trace.events.ids().any(is_cuda)
}

/// Whether anything of the host is recorded.
fn has_calls(context: &RuleContext<'_>) -> bool {
    context.trace().events.kind.iter().any(|kind| kind.is_api_call() || *kind == EventKind::Operator)
}

/// What could record what the path waits for.
fn wait_advice(context: &RuleContext<'_>) -> &'static str {
    let has_operators = || context.trace().strings.iter().any(|name| name.starts_with(aten::PREFIX));
    let recorder = recorders::recorder_of(context.trace()).filter(|recorder| !recorder.has_between(context.trace()));
    match recorder {
        _ if context.uses_gpu() && !has_calls(context) => {
            "also record host activity (torch.profiler: ProfilerActivity.CPU; nsys: --trace=cuda,nvtx; \
                  rocprofv3: --hip-trace)"
        }
        Some(recorder) => recorder.between_calls,
        None if context.uses_gpu() && lacks_stream_waits(context) => {
            "start recording earlier, record all processes that use this GPU, and record waits of streams with \
                  _ExperimentalConfig(enable_cuda_sync_events=True)"
        }
        None if context.uses_gpu() => "start recording earlier, and record all processes that use this device",
        None if has_operators() => "record all threads and processes; `stackline record` samples waiting threads",
        None => "record all threads and processes of the program",
    }
}

/// What could record the calls of a thread; empty of kinds that are recorded.
fn gap_advice(context: &RuleContext<'_>, kind: LargeKind) -> &'static str {
    match kind {
        LargeKind::UnrecordedPython if context.recording().is_some() => {
            "no CPU time sample is in it: use `stackline record` with a higher --sample-hz, or with --real-hz 99 for \
                 waits"
        }
        LargeKind::UnrecordedPython if !has_frames(context) => {
            "record with_stack=True, or with `stackline record --mode trace`"
        }
        LargeKind::UnrecordedPython => "`stackline record` samples what threads do between recorded calls",
        LargeKind::UnrecordedHost => host_gap_advice(context.trace()),
        LargeKind::UnrecordedNative if context.recording().is_none() && !has_frames(context) => {
            "record with_stack=True for the Python code of these threads; `perf record` shows their native code"
        }
        LargeKind::UnrecordedNative => "`perf record` or py-spy --native shows the code of these threads",
        _ => "",
    }
}

/// What could record the calls of a program that may run Python: what its own recorder can, else a sampling profiler.
fn host_gap_advice(trace: &Trace) -> &'static str {
    let has_operators = || trace.strings.iter().any(|name| name.starts_with(aten::PREFIX));
    match recorders::recorder_of(trace) {
        Some(recorder) if !recorder.has_between(trace) => recorder.between_calls,
        None if has_operators() => {
            "record a Python program with_stack=True; `perf record` shows the code of other programs"
        }
        _ => "`perf record` shows the code of these threads",
    }
}

/// As if the events, the calls in them that wait for the GPU and the GPU work that they launch were not there.
fn removal(context: &RuleContext<'_>, group: &Group) -> Option<Edit> {
    if !group.kind.is_of_events() {
        return None;
    }
    let mut events = group.events.clone();
    let name = context.trace().strings.get(group.name);
    // Kernels are not gone because one call launches them: another one would have to.
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
