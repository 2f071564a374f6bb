//! Groups of events by kind and name, with their time on the critical path and on their thread.

use super::annotated_gaps::AnnotatedGaps;
use super::covered_events::CoveredEvents;
use super::covered_gaps::CoveredGaps;
use super::path_part::{GroupKey, Part};
use super::sampled_gaps::SampledGaps;
use super::waits::CallsInProgress;
use crate::large_group::LargeKind;
use crate::rule_context::RuleContext;
use rustc_hash::{FxHashMap, FxHashSet};
use stackline_critical_path::exact::what_if::Gain;
use stackline_critical_path::exact::{Category, PathSegment, UNRECORDED_RULE};
use stackline_model::gpu_calls::is_kernel_launch;
use stackline_model::{EventId, EventKind, StrId, TrackId};
use std::cmp::{Ordering, Reverse};
use std::collections::BTreeMap;

/// Events of one kind and name, or critical-path time without an event.
#[derive(Clone, Debug)]
pub(super) struct Group {
    pub(super) kind: LargeKind,
    /// Name; for time without an event that of the annotation around it, if any.
    pub(super) name: StrId,
    /// Outermost events of the window that no finding covers, ascending.
    pub(super) events: Vec<EventId>,
    /// Time of the path in the events, their callees and launched work, without time that findings cover.
    pub(super) path_ns: i64,
    /// Part of `path_ns` in waits of unknown cause, while calls were in progress.
    pub(super) wait_ns: i64,
    /// Time of the window in the events, on the track with most of it.
    pub(super) wall_ns: i64,
    /// Track of `wall_ns`; none for time without an event.
    pub(super) track: Option<TrackId>,
    /// For functions: time of the path that is in no called function.
    pub(super) innermost_ns: i64,
    /// Critical-path segments of the group, ascending.
    segments: Vec<Part>,
}

impl Group {
    /// Build a group from critical-path time, without the fields that [`set_events`] sets.
    fn from_path((kind, name): GroupKey, parts: &[Part]) -> Self {
        let path_ns = parts.iter().map(|part| part.ns).sum();
        let wait_ns = parts.iter().map(|part| part.wait_ns).sum();
        Self {
            kind,
            name,
            events: Vec::new(),
            path_ns,
            wait_ns,
            wall_ns: 0,
            track: None,
            innermost_ns: 0,
            segments: parts.to_vec(),
        }
    }

    /// Name of the group in lists: that of its events, or a title with the annotation around the time.
    pub(super) fn title(&self, context: &RuleContext<'_>) -> String {
        let name = context.trace().strings.get(self.name);
        match self.kind.title() {
            None => name.to_owned(),
            Some(title) if self.name.is_some() => format!("{title} in {name}"),
            Some(title) => title.to_owned(),
        }
    }

    /// Check if the group's events are compilations of torch.compile.
    pub(super) fn is_compilation(&self, context: &RuleContext<'_>) -> bool {
        context.compilations().contains(self.name)
    }

    /// Number of events, or of critical-path segments.
    pub(super) fn count(&self) -> usize {
        if self.kind.is_of_events() { self.events.len() } else { self.segments.len() }
    }

    /// Positions of the group's segments in the list of critical-path segments.
    pub(super) fn positions(&self) -> impl Iterator<Item = u32> {
        self.segments.iter().map(|part| part.at)
    }

    /// Critical-path segments of the group's events.
    pub(super) fn parts(&self) -> &[Part] {
        &self.segments
    }

    /// Time in ns by which groups are selected and sorted. Calls also count by their own time, because the path
    /// contains the cause of their wait instead.
    pub(super) fn largest_ns(&self) -> i64 {
        if self.kind == LargeKind::Call { self.path_ns.max(self.wall_ns) } else { self.path_ns }
    }

    /// Longest event of the group; [`EventId::NONE`] if the group has no events.
    pub(super) fn longest(&self, context: &RuleContext<'_>) -> EventId {
        let longest = self.events.iter().copied().max_by_key(|&event| (context.dur(event), Reverse(event)));
        longest.unwrap_or(EventId::NONE)
    }

    /// Sort weight: the gain, or the time of waits or gaps of unknown content, whose gain is unknown.
    pub(super) fn weight(&self, gain: Option<Gain>) -> i64 {
        let unknown = if self.kind.is_of_events() { self.wait_ns } else { self.path_ns };
        gain.map_or(0, |gain| gain.likely_ns).max(unknown)
    }

    /// Critical-path segments in the events, their callees and launched work, including time that findings cover.
    /// Excludes waits of unknown cause.
    pub(super) fn parts_inside(&self, context: &RuleContext<'_>) -> Vec<Part> {
        let events: FxHashSet<EventId> = self.events.iter().copied().collect();
        // Cached, because paths return to the same spans.
        let mut known: FxHashMap<EventId, bool> = FxHashMap::default();
        let mut is_inside = |event: EventId| {
            let inside = || events.contains(&event) || context.stack(event).any(|around| events.contains(&around));
            *known.entry(event).or_insert_with(inside)
        };
        let segments = (0u32..).zip(context.path().segments.iter());
        let ran = segments.filter(|(_, segment)| segment.category != Category::Unknown && segment.event.is_some());
        let inside = ran.filter(|(_, segment)| is_inside(segment.event));
        let part = |(at, segment): (u32, PathSegment)| Part {
            at,
            ns: segment.end - segment.start,
            wait_ns: 0,
            event: segment.event,
        };
        inside.map(part).collect()
    }

    /// Critical-path time that two groups share, in ns.
    fn shared_ns(&self, other: &Self) -> i64 {
        shared_ns(&self.segments, &other.segments)
    }

    /// Check if a narrower group contains most of the group's path, and so is more specific.
    fn is_represented_by(&self, narrower: &Self) -> bool {
        if narrower.path_ns == 0 || 2 * narrower.path_ns < self.path_ns {
            return false;
        }
        let shared = self.shared_ns(narrower);
        let is_within = 10 * shared >= 9 * narrower.path_ns;
        let is_same = 10 * shared >= 9 * self.path_ns;
        is_within && (!is_same || (narrower.kind, narrower.name) < (self.kind, self.name))
    }
}

/// Critical-path time that two lists of segments share, in ns.
fn shared_ns(some: &[Part], others: &[Part]) -> i64 {
    let (mut some, mut others) = (some.iter().peekable(), others.iter().peekable());
    let mut shared = 0;
    while let (Some(part), Some(other)) = (some.peek(), others.peek()) {
        match part.at.cmp(&other.at) {
            Ordering::Less => some.next(),
            Ordering::Greater => others.next(),
            Ordering::Equal => {
                shared += part.ns;
                some.next();
                others.next()
            }
        };
    }
    shared
}

/// All groups of uncovered time in a window, with the length of the critical path and its covered part.
pub(super) struct Groups {
    all: Vec<Group>,
    /// Length of the path, and the part that findings cover, in ns.
    pub(super) path_ns: i64,
    pub(super) covered_ns: i64,
}

/// Critical-path segments by group.
#[derive(Default)]
struct PathByGroup {
    parts: BTreeMap<GroupKey, Vec<Part>>,
    /// By function name: time of the path that is in no called function.
    innermost: FxHashMap<StrId, i64>,
    /// Length of the path, and the part that findings cover, in ns.
    path_ns: i64,
    covered_ns: i64,
}

impl PathByGroup {
    /// Walk the critical path, and assign each segment that no finding covers to the groups of its event.
    fn new(context: &RuleContext<'_>, covered: CoveredEvents<'_, '_>, calls: &CallsInProgress) -> Self {
        let mut found = Self::default();
        let (gaps, is_python) = (CoveredGaps::new(context, covered.events), super::is_python(context));
        let mut sampled = SampledGaps::new(context, covered.events);
        let mut annotated = AnnotatedGaps::new(context);
        // Cached per event, because paths return to the same spans.
        let mut known: FxHashMap<EventId, bool> = FxHashMap::default();
        for (at, segment) in (0u32..).zip(context.path().segments.iter()) {
            let ns = segment.end - segment.start;
            let wait_ns = if segment.category == Category::Unknown { ns } else { 0 };
            let event = event_of(&segment, calls);
            let part = Part { at, ns, wait_ns, event: event.unwrap_or(EventId::NONE) };
            found.path_ns += ns;
            // Time between recorded steps is no wait of the program; a note states it.
            if segment.rule == UNRECORDED_RULE {
                continue;
            }
            let keys = match event {
                Some(event) if *known.entry(event).or_insert_with(|| covered.is_covered(event)) => {
                    found.covered_ns += ns;
                    continue;
                }
                _ if gaps.contains(context.trace(), &segment, event) => {
                    found.covered_ns += ns;
                    continue;
                }
                Some(event) if covered.is_in_function(event) => {
                    found.covered_ns += ns;
                    found.put(call_key(context, event), part);
                    continue;
                }
                _ => match event.and_then(|event| compilation_key(context, event)) {
                    Some(key) => {
                        event.into_iter().for_each(|event| found.put_innermost(context, event, ns));
                        vec![key]
                    }
                    None => match (sampled.functions_of(context, &segment, event), event) {
                        (Some(functions), _) if functions.is_covered => {
                            found.covered_ns += ns;
                            continue;
                        }
                        (Some(functions), _) => {
                            functions.innermost.iter().for_each(|name| found.add_innermost(*name, ns));
                            functions.keys.clone()
                        }
                        (None, Some(event)) => {
                            found.put_innermost(context, event, ns);
                            keys(context, event)
                        }
                        (None, None) => Vec::new(),
                    },
                },
            };
            // No event, or only an event such as the annotation of a step.
            match keys.is_empty() {
                true => annotated.add(context, kind_without_event(&segment, is_python), part),
                false => found.put(keys, part),
            }
        }
        annotated.by_group(found.path_ns).for_each(|(key, part)| found.put([key], part));
        found
    }

    /// Add a segment to each of the given groups.
    fn put(&mut self, keys: impl IntoIterator<Item = GroupKey>, part: Part) {
        for key in keys {
            self.parts.entry(key).or_default().push(part);
        }
    }

    /// Add time to the innermost Python function around an event; nothing without a function.
    fn put_innermost(&mut self, context: &RuleContext<'_>, event: EventId, ns: i64) {
        if let Some(function) = functions_around(context, event).next() {
            self.add_innermost(context.trace().events.name[function.index()], ns);
        }
    }

    /// Add time in ns to a function that the path is in without a called function.
    fn add_innermost(&mut self, function: StrId, ns: i64) {
        *self.innermost.entry(function).or_default() += ns;
    }

    /// Build the groups from their critical-path segments, without lists of events.
    fn groups(&self) -> BTreeMap<GroupKey, Group> {
        let group = |(&key, parts): (&GroupKey, &Vec<Part>)| {
            let innermost = self.innermost.get(&key.1).filter(|_| key.0 == LargeKind::Frame);
            (key, Group { innermost_ns: innermost.copied().unwrap_or(0), ..Group::from_path(key, parts) })
        };
        self.parts.iter().map(group).collect()
    }
}

impl Groups {
    /// Build groups of time that no finding covers.
    pub(super) fn new(context: &RuleContext<'_>, covered: CoveredEvents<'_, '_>) -> Self {
        let calls_by_name = calls_of_launching_threads(context);
        let all_calls = calls_by_name.iter().flat_map(|(_, calls)| calls.iter().copied());
        let path = PathByGroup::new(context, covered, &CallsInProgress::new(context.trace(), all_calls));
        let mut groups = path.groups();
        for (name, calls) in calls_by_name {
            if !is_mostly_covered(context, covered, &calls) {
                let key = (LargeKind::Call, name);
                groups.entry(key).or_insert_with(|| Group::from_path(key, &[]));
            }
        }
        let mut all: Vec<Group> = groups.into_values().collect();
        set_events(context, covered, &mut all);
        all.retain(|group| group.count() > 0);
        all.sort_by_key(|group| (Reverse(group.largest_ns()), group.kind, group.name));
        Self { all, path_ns: path.path_ns, covered_ns: path.covered_ns }
    }

    /// Groups without those that a narrower group represents, largest first. Keeps calls that are large: the narrower
    /// group covers their time on the path, which may be little of their time.
    pub(super) fn distinct(&self, is_large: &dyn Fn(&Group) -> bool) -> Vec<Group> {
        // Groups further down the list are never named.
        const MAX_CANDIDATES: usize = 64;
        let first = &self.all[..self.all.len().min(MAX_CANDIDATES)];
        let is_call = |group: &Group| group.kind == LargeKind::Call && is_large(group);
        let is_new = |group: &&Group| is_call(group) || !first.iter().any(|other| group.is_represented_by(other));
        first.iter().filter(is_new).cloned().collect()
    }
}

/// Groups in their order that share less than half of their path with earlier ones, and large calls.
///
/// Also keeps callees of a function with enough of the path to be named on their own. Kernel launches do not represent
/// the operators that launch. Operators share the time of their callees, which is part of their listed time.
pub(super) fn without_overlaps<'g>(
    groups: Vec<(&'g Group, Option<Gain>)>,
    context: &RuleContext<'_>,
    large_ns: i64,
) -> Vec<(&'g Group, Option<Gain>)> {
    let is_call = |group: &Group| group.kind == LargeKind::Call;
    let is_launch = |group: &Group| is_call(group) && is_kernel_launch(context.trace().strings.get(group.name));
    let is_operator = |group: &Group| group.kind == LargeKind::Operator;
    let inside = |group: &Group| if is_operator(group) { group.parts_inside(context) } else { Vec::new() };
    let ns = |parts: &[Part]| parts.iter().map(|part| part.ns).sum::<i64>();
    let mut kept: Vec<(&Group, Option<Gain>)> = Vec::new();
    let mut kept_inside: Vec<Vec<Part>> = Vec::new();
    for (group, gain) in groups {
        let own = inside(group);
        let is_nested = |other: &Vec<Part>| 2 * shared_ns(&own, other) > ns(&own).min(ns(other));
        let is_large_in = |function: &Group| {
            function.kind == LargeKind::Frame && group.kind != LargeKind::Frame && group.path_ns >= large_ns
        };
        let is_new = |(before, _): &(&Group, Option<Gain>)| {
            2 * group.shared_ns(before) <= group.path_ns.min(before.path_ns)
                || group.path_ns == 0
                || is_launch(before)
                || is_large_in(before)
        };
        let is_distinct = || kept.iter().all(is_new) && !kept_inside.iter().any(is_nested);
        if (is_call(group) && super::is_large(context, group)) || is_distinct() {
            kept.push((group, gain));
            kept_inside.push(own);
        }
    }
    kept
}

/// Event of a critical-path segment. For a wait of unknown cause, the call in progress during all of it, never the
/// operation that follows.
fn event_of(segment: &PathSegment, calls: &CallsInProgress) -> Option<EventId> {
    if segment.category == Category::Unknown { calls.around(segment.start, segment.end) } else { segment.event.some() }
}

/// Kind of a critical-path segment without an event, depending on the use of Python in the program.
fn kind_without_event(segment: &PathSegment, is_python: bool) -> LargeKind {
    match segment.category {
        // Loaders run Python on any thread.
        Category::HostPython | Category::HostDataLoading if is_python => LargeKind::UnrecordedPython,
        Category::HostPython | Category::HostDataLoading => LargeKind::UnrecordedHost,
        Category::HostOperator | Category::HostRuntime => LargeKind::UnrecordedNative,
        // The work of a thread before it signals another one is not recorded either.
        Category::Unknown | Category::HostBlocked | Category::ThreadHandover => LargeKind::Wait,
        _ => LargeKind::Lag,
    }
}

/// Python functions around an event, innermost first.
fn functions_around(context: &RuleContext<'_>, event: EventId) -> impl Iterator<Item = EventId> {
    context.stack(event).filter(|&e| context.trace().kind(e) == EventKind::PythonFunction)
}

/// Group key of the outermost compilation around an event: its time does not belong to the parts of the compiler.
fn compilation_key(context: &RuleContext<'_>, event: EventId) -> Option<GroupKey> {
    let (trace, compilations) = (context.trace(), context.compilations());
    if compilations.is_empty() {
        return None;
    }
    let outermost = context.stack(event).filter(|&around| compilations.is_span(trace, around)).last()?;
    let kind = if trace.kind(outermost) == EventKind::PythonFunction { LargeKind::Frame } else { LargeKind::Operator };
    Some((kind, trace.events.name[outermost.index()]))
}

/// Keys of the groups that an event on the critical path belongs to: those of its own name, its operators and
/// functions.
fn keys(context: &RuleContext<'_>, event: EventId) -> Vec<GroupKey> {
    let trace = context.trace();
    let name = |event: EventId| trace.events.name[event.index()];
    let mut keys = Vec::with_capacity(4);
    if trace.kind(event).is_gpu_work() {
        keys.push((LargeKind::Gpu, name(event)));
    } else if trace.kind(event).is_api_call() {
        keys.push((LargeKind::Call, name(event)));
    }
    let operators = || context.stack(event).filter(|&e| context.is_operator(e));
    keys.extend(operators().next().map(|e| (LargeKind::Operator, name(e))));
    keys.extend(operators().last().map(|e| (LargeKind::Operator, name(e))));
    // The user's own function, and the library function in which the time is spent.
    keys.extend(functions_around(context, event).next().map(|e| (LargeKind::Frame, name(e))));
    keys.extend(
        functions_around(context, event).find(|&e| context.is_own_frame(e)).map(|e| (LargeKind::Frame, name(e))),
    );
    keys.sort_unstable();
    keys.dedup();
    keys
}

/// Group key of a call in a function that is only reported as slow, so that the call is not yet reported.
fn call_key(context: &RuleContext<'_>, event: EventId) -> Option<GroupKey> {
    let trace = context.trace();
    trace.kind(event).is_api_call().then(|| (LargeKind::Call, trace.events.name[event.index()]))
}

/// Check if findings cover most of the time of calls with one name; then they represent all of these calls.
fn is_mostly_covered(context: &RuleContext<'_>, covered: CoveredEvents<'_, '_>, calls: &[EventId]) -> bool {
    let covered: i64 = calls.iter().filter(|&&call| covered.is_covered(call)).map(|&call| context.dur(call)).sum();
    2 * covered >= context.total(calls)
}

/// Calls of the GPU runtime by name, on threads that launch work. Other threads may wait all the time without delaying
/// any work.
fn calls_of_launching_threads(context: &RuleContext<'_>) -> Vec<(StrId, Vec<EventId>)> {
    let trace = context.trace();
    let mut by_name: BTreeMap<StrId, Vec<EventId>> = BTreeMap::new();
    let mut launches: FxHashMap<TrackId, bool> = FxHashMap::default();
    for event in context.named(&[EventKind::Runtime, EventKind::Driver], |_| true) {
        let track = trace.events.track[event.index()];
        if *launches.entry(track).or_insert_with(|| context.is_on_launching_thread(event)) {
            by_name.entry(trace.events.name[event.index()]).or_default().push(event);
        }
    }
    by_name.into_iter().collect()
}

/// Set, for each group, its uncovered events and their time on the track with most of it.
fn set_events(context: &RuleContext<'_>, covered: CoveredEvents<'_, '_>, groups: &mut [Group]) {
    let (trace, compilations) = (context.trace(), context.compilations());
    let at: FxHashMap<GroupKey, usize> = groups.iter().enumerate().map(|(i, g)| ((g.kind, g.name), i)).collect();
    for event in trace.events.ids() {
        let kind = match trace.kind(event) {
            kind if kind.is_gpu_work() => LargeKind::Gpu,
            kind if kind.is_api_call() => LargeKind::Call,
            EventKind::Operator => LargeKind::Operator,
            EventKind::Annotation if compilations.is_span(trace, event) => LargeKind::Operator,
            EventKind::PythonFunction => LargeKind::Frame,
            _ => continue,
        };
        let Some(&i) = at.get(&(kind, trace.events.name[event.index()])).filter(|_| context.is_in_window(event)) else {
            continue;
        };
        // Calls in a function that is only reported as slow are still listed.
        if !covered.is_covered(event) && (kind == LargeKind::Call || !covered.is_in_function(event)) {
            groups[i].events.push(event);
        }
    }
    let (from, to) = context.window();
    for group in groups {
        if !group.kind.is_of_events() {
            group.wall_ns = group.path_ns;
            continue;
        }
        let mut by_track: FxHashMap<TrackId, i64> = FxHashMap::default();
        group.events = context.outermost(&group.events);
        for &event in &group.events {
            let ns = trace.events.end(event).min(to) - trace.events.start[event.index()].max(from);
            *by_track.entry(trace.events.track[event.index()]).or_default() += ns.max(0);
        }
        let widest = by_track.into_iter().max_by_key(|&(track, ns)| (ns, Reverse(track)));
        (group.track, group.wall_ns) = widest.map_or((None, 0), |(track, ns)| (Some(track), ns));
        // Spans of a recording contain only sampled calls, and the path also those without a sample.
        if group.kind == LargeKind::Frame && context.recording().is_some() {
            group.wall_ns = group.wall_ns.max(group.path_ns);
        }
    }
}
