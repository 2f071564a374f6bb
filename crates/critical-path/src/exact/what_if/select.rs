//! Search for the events of a trace that a selector matches.

use super::super::Exact;
use super::super::category::{Categories, Category};
use super::super::enclosing::AncestorCache;
use super::super::graph::NodeKind;
use super::super::sampled_waits::HostPart;
use super::cancellation::Stop;
use super::index::{Index, ThreadRange, is_kind, module_class};
use super::listed::Chosen;
use super::sampled::{PartialGap, partial_gaps, subtract_gaps};
use super::selector::{NameKind, Selector, Target};
use crate::CriticalPathError;
use crate::nearest::nearest;
use rustc_hash::{FxHashMap, FxHashSet};
use stackline_model::gpu_calls::kind_of_name;
use stackline_model::names::module_name;
use stackline_model::{EventId, EventKind, RECORDING, StrId};
use stackline_timeline::kernel_type::{KernelType, NameTypes, RULES};
use stackline_timeline::name_pattern::Pattern;

/// Parts of a trace that a selector matches.
#[derive(Clone, Debug, Default)]
pub(super) struct Selected {
    /// Nodes of GPU work, ascending.
    pub(super) gpu: Vec<u32>,
    /// Time ranges of threads, disjoint, sorted by lane and time.
    pub(super) ranges: Vec<ThreadRange>,
    /// Calls that wait.
    pub(super) calls: Vec<EventId>,
    /// Nodes of returns from waits.
    pub(super) returns: Vec<u32>,
    /// Lags of these categories.
    pub(super) lags: Vec<Category>,
    /// Gaps between operators of which samples show selected parts.
    pub(super) partly: Vec<PartialGap>,
    /// True if the time ranges are modules or annotations, which include their GPU work.
    pub(super) owns_gpu: bool,
    /// True if the time ranges are spans of a name, which include their launches and waits.
    pub(super) is_of_name: bool,
    /// True if the time ranges lie between operators and are scaled in part, including the sampled waits in them.
    pub(super) is_between: bool,
    /// Number of selected events, operations or time ranges.
    pub(super) count: usize,
}

/// Find the parts of a trace that a selector matches. After a stop request, the result may be incomplete.
pub(super) fn select(
    exact: &Exact<'_>,
    index: &Index,
    selector: &Selector,
    stop: Stop<'_>,
) -> Result<Selected, CriticalPathError> {
    let mut selected = match &selector.target {
        Target::Names(what, pattern) => {
            // A name that equals a whole name of the trace selects that name, even if it is part of others or contains
            // a `*`.
            let whole = selector.whole_name().filter(|(_, name)| exact.trace.strings.iter().any(|s| s == *name));
            let whole = whole.map(|(whole, _)| named(exact, index, (*what, &whole), stop));
            let found = whole.filter(|found| found.count > 0);
            let found = found.unwrap_or_else(|| named(exact, index, (*what, pattern), stop));
            // The plain name of a function selects its frame, if the frame is unique.
            let functions = if found.count == 0 { functions(exact, index, selector) } else { Vec::new() };
            match functions[..] {
                [only] => named(exact, index, (*what, &Pattern::exactly(only)), stop),
                [] => found,
                _ => {
                    let frames = functions.iter().map(|&frame| frame.to_owned()).collect();
                    return Err(CriticalPathError::AmbiguousFunction { selector: selector.text.clone(), frames });
                }
            }
        }
        Target::Stream(pattern) => select_stream(exact, index, pattern),
        Target::Categories(categories) => select_categories(exact, categories, stop),
        Target::Events(chosen) => select_chosen(exact, index, chosen),
        Target::Listed(listed) => select_chosen(exact, index, &listed.resolve(exact.trace)),
    };
    if selected.count == 0 {
        let nearest = names_like(exact, index, selector);
        return Err(CriticalPathError::NothingSelected { selector: selector.text.clone(), nearest });
    }
    selected.gpu.sort_unstable();
    Ok(selected)
}

/// Frame names of the function that a frame selector names without wildcards.
fn functions<'a>(exact: &'a Exact<'_>, index: &Index, selector: &Selector) -> Vec<&'a str> {
    let Some(function) = selector.function() else { return Vec::new() };
    let found = names(exact, |name| function.matches_name(name)).into_iter();
    let is_frame = |id: StrId| index.named(id).iter().any(|&e| is_of_kind(exact, e, NameKind::Frame));
    found.filter(|(id, _)| is_frame(*id)).map(|(_, name)| name).collect()
}

/// Resolve a name pattern of a selector to the trace's synchronizations, kernels or spans.
fn named(exact: &Exact<'_>, index: &Index, (what, pattern): (NameKind, &Pattern), stop: Stop<'_>) -> Selected {
    match what {
        NameKind::Sync | NameKind::Wait => syncs(exact, index, (what, pattern), stop),
        NameKind::Kernel | NameKind::Collective => kernels(exact, index, what, pattern),
        _ => spans(exact, index, (what, pattern), stop),
    }
}

/// Resolve a name pattern to GPU operations; for collectives, only to communicating ones.
fn kernels(exact: &Exact<'_>, index: &Index, what: NameKind, pattern: &Pattern) -> Selected {
    let mut gpu = Vec::new();
    for (name, _) in names(exact, |name| pattern.matches(name)) {
        gpu.extend(
            index.named(name).iter().filter(|&&e| is_of_kind(exact, e, what)).filter_map(|&e| node(exact, index, e)),
        );
    }
    if what == NameKind::Collective {
        let mut types = NameTypes::new(exact.trace, RULES);
        let event = |n: &u32| exact.trace.gpu.event[exact.graph.place[*n as usize] as usize];
        gpu.retain(|n| types.of_event(event(n)) == KernelType::Communication);
    }
    Selected { count: gpu.len(), gpu, ..Selected::default() }
}

/// Graph node of a GPU event; `None` for other events and for operations without node.
fn node(exact: &Exact<'_>, index: &Index, event: EventId) -> Option<u32> {
    let gpu = exact.trace.gpu.of_event(event)?;
    index.gpu_node.get(gpu.index()).copied().filter(|&n| n != super::super::graph::NONE)
}

/// Names in the trace that pass a test, with their IDs.
fn names<'a>(exact: &'a Exact<'_>, test: impl Fn(&str) -> bool) -> Vec<(StrId, &'a str)> {
    let all = exact.trace.strings.iter().enumerate();
    all.filter(|(_, name)| test(name)).map(|(i, name)| (StrId::new(i), name)).collect()
}

/// True if an event has the kind that a selector names; any Python frame for modules, any API call for waits.
fn is_of_kind(exact: &Exact<'_>, event: EventId, what: NameKind) -> bool {
    let trace = exact.trace;
    match what {
        NameKind::Kernel | NameKind::Collective => trace.kind(event).is_gpu_work(),
        NameKind::Operator => is_kind(trace, event, EventKind::Operator),
        NameKind::Module | NameKind::Frame => is_kind(trace, event, EventKind::PythonFunction),
        NameKind::Annotation => is_kind(trace, event, EventKind::Annotation),
        NameKind::Sync | NameKind::Wait => trace.kind(event).is_api_call(),
    }
}

/// True if the pattern of a selector matches a span name. For modules, the name without prefix and the class count as
/// well.
fn matches_pattern((what, pattern): (NameKind, &Pattern), name: &str) -> bool {
    match what {
        NameKind::Module => module_name(name).is_some_and(|module| {
            pattern.matches(module) || pattern.matches(module_class(module)) || pattern.matches(name)
        }),
        _ => pattern.matches(name),
    }
}

/// Find the operators, modules, annotations or frames that a selector matches; for listed events, events of any kind.
///
/// Empty for selectors of GPU work, waits, streams and categories.
pub fn spans_of(exact: &Exact<'_>, selector: &Selector) -> Vec<EventId> {
    let (what, pattern) = match &selector.target {
        Target::Events(chosen) => return chosen.events.clone(),
        Target::Listed(listed) => return listed.resolve(exact.trace).events,
        Target::Names(
            what @ (NameKind::Operator | NameKind::Module | NameKind::Annotation | NameKind::Frame),
            pattern,
        ) => (*what, pattern),
        _ => return Vec::new(),
    };
    let of = |pattern: &Pattern| -> Vec<EventId> {
        let matching_names: FxHashSet<StrId> =
            names(exact, |name| matches_pattern((what, pattern), name)).into_iter().map(|(name, _)| name).collect();
        let is_meant =
            |&e: &EventId| matching_names.contains(&exact.trace.events.name[e.index()]) && is_of_kind(exact, e, what);
        exact.trace.events.ids().filter(is_meant).collect()
    };
    // Same order of preference as in `select`.
    let whole = selector.whole_name().map(|(whole, _)| of(&whole)).filter(|found| !found.is_empty());
    whole.unwrap_or_else(|| of(pattern))
}

/// Resolve a name pattern to thread time of operators, modules, annotations or frames; for frames also to sampled gaps.
fn spans(exact: &Exact<'_>, index: &Index, (what, pattern): (NameKind, &Pattern), stop: Stop<'_>) -> Selected {
    let mut ranges = Vec::new();
    for (iteration, (name, _)) in names(exact, |name| matches_pattern((what, pattern), name)).into_iter().enumerate() {
        if stop.is_requested_at(iteration) {
            break;
        }
        for &event in index.named(name).iter().filter(|&&e| is_of_kind(exact, e, what)) {
            if let Some(lane) = index.lane(exact.trace, event) {
                ranges.push((lane, exact.trace.events.start[event.index()], exact.trace.events.end(event)));
            }
        }
    }
    let count = ranges.len();
    let owns_gpu = matches!(what, NameKind::Module | NameKind::Annotation);
    let mut ranges = outermost(ranges);
    let mut gaps = Vec::new();
    if what == NameKind::Frame && exact.trace.meta.entry(RECORDING).is_some() {
        let matching_names: FxHashSet<StrId> =
            names(exact, |name| matches_pattern((what, pattern), name)).into_iter().map(|(name, _)| name).collect();
        gaps = partial_gaps(exact, index, &ranges, &|name| matching_names.contains(&name));
        ranges = subtract_gaps(&ranges, &gaps);
    }
    Selected { ranges, partly: gaps, owns_gpu, is_of_name: true, count, ..Selected::default() }
}

/// Merge time ranges of the same thread that contain or overlap each other.
pub(super) fn outermost(mut ranges: Vec<ThreadRange>) -> Vec<ThreadRange> {
    ranges.sort_unstable_by_key(|&(lane, from, to)| (lane, from, std::cmp::Reverse(to)));
    let mut kept: Vec<ThreadRange> = Vec::with_capacity(ranges.len());
    for (lane, from, to) in ranges {
        match kept.last_mut() {
            // A range that ends after the enclosing one extends it.
            Some(last) if last.0 == lane && from < last.2 => last.2 = last.2.max(to),
            _ => kept.push((lane, from, to)),
        }
    }
    kept
}

/// Resolve a name pattern to calls that wait for the GPU, by the name of the call or of an event around it.
fn syncs(exact: &Exact<'_>, index: &Index, (what, pattern): (NameKind, &Pattern), stop: Stop<'_>) -> Selected {
    let trace = exact.trace;
    let fitting: FxHashSet<StrId> = names(exact, |name| pattern.matches(name)).into_iter().map(|(id, _)| id).collect();
    let fits = |e: EventId| fitting.contains(&trace.events.name[e.index()]);
    let mut calls = waiting_calls(exact, index, what);
    let mut around = AncestorCache::new(trace);
    let mut iteration = 0;
    calls.retain(|&call| {
        iteration += 1;
        !stop.is_requested_at(iteration) && around.any(trace, call, fits)
    });
    Selected { count: calls.len(), calls, ..Selected::default() }
}

/// Calls that wait for the GPU or query it; for [`NameKind::Wait`] only calls that waited.
fn waiting_calls(exact: &Exact<'_>, index: &Index, what: NameKind) -> Vec<EventId> {
    let waited = |node: u32| exact.graph.kind[node as usize] == NodeKind::SyncReturn;
    let blocking = index.sync_nodes.iter().filter(|(node, _)| what == NameKind::Sync || waited(*node));
    let mut calls: Vec<EventId> = blocking.map(|(_, call)| *call).filter(|c| c.is_some()).collect();
    if what == NameKind::Sync {
        for (name, _) in names(exact, |name| kind_of_name(name).is_some()) {
            calls.extend(index.named(name).iter().copied().filter(|&e| index.is_sync(exact.trace, e)));
        }
    }
    calls.sort_unstable();
    calls.dedup();
    calls
}

/// Resolve a stream pattern, such as `7` or `0/7` (device and stream), to the GPU operations of the streams.
fn select_stream(exact: &Exact<'_>, index: &Index, pattern: &Pattern) -> Selected {
    let rows = &exact.trace.gpu;
    let with_device = pattern.text().contains('/');
    // Streams are few and operations many.
    let mut known: FxHashMap<(i32, i64), bool> = FxHashMap::default();
    let mut is_selected = |i: &usize| {
        let (device, stream) = (rows.device[*i], rows.stream[*i]);
        *known.entry((device, stream)).or_insert_with(|| {
            pattern.matches(&if with_device { format!("{device}/{stream}") } else { stream.to_string() })
        })
    };
    let nodes = (0..rows.len()).filter(&mut is_selected).map(|i| index.gpu_node[i]);
    let gpu: Vec<u32> = nodes.filter(|&n| n != super::super::graph::NONE).collect();
    Selected { count: gpu.len(), gpu, ..Selected::default() }
}

/// Resolve individually selected events: GPU operations, waiting calls, and the thread time of other events. GPU work
/// is included if all of them are modules and annotations. Time ranges contain thread time only.
fn select_chosen(exact: &Exact<'_>, index: &Index, chosen: &Chosen) -> Selected {
    let Chosen { events, ranges, between } = chosen;
    let trace = exact.trace;
    let mut found = Selected { owns_gpu: true, ..Selected::default() };
    let waiting: FxHashSet<EventId> = index.sync_nodes.iter().map(|(_, call)| *call).collect();
    for &event in events {
        let kind = trace.kind(event);
        if kind.is_gpu_work() {
            found.gpu.extend(node(exact, index, event));
        } else if waiting.contains(&event) {
            found.calls.push(event);
        } else if let Some(lane) = index.lane(trace, event).filter(|_| trace.events.dur[event.index()] > 0) {
            found.ranges.push((lane, trace.events.start[event.index()], trace.events.end(event)));
            let owns = kind == EventKind::Annotation || module_name(trace.name(event)).is_some();
            found.owns_gpu &= owns;
        }
    }
    let (start, end) = (|event: EventId| trace.events.start[event.index()], |event| trace.events.end(event));
    let whole = ranges.iter().map(|&(first, last)| (first, last, start(first), end(last)));
    let between_two = between.iter().map(|&(before, after)| (before, after, end(before), start(after)));
    for (first, last, from, to) in whole.chain(between_two) {
        let lane = index.lane(trace, first).filter(|&lane| from < to && index.lane(trace, last) == Some(lane));
        found.ranges.extend(lane.map(|lane| (lane, from, to)));
    }
    let is_time_alone = !ranges.is_empty() || !between.is_empty();
    found.is_between = !between.is_empty();
    found.owns_gpu &= !found.ranges.is_empty() && found.gpu.is_empty() && !is_time_alone;
    found.count = found.gpu.len() + found.calls.len() + found.ranges.len();
    found.ranges = outermost(std::mem::take(&mut found.ranges));
    found
}

/// Resolve causes of path time to the GPU operations, returns from waits, thread time and lags with these causes.
fn select_categories(exact: &Exact<'_>, selected: &[Category], stop: Stop<'_>) -> Selected {
    let graph = &exact.graph;
    let mut categories = Categories::new(exact);
    let mut found = Selected { lags: selected.to_vec(), ..Selected::default() };
    for node in 0..graph.len() as u32 {
        let kind = graph.kind[node as usize];
        match kind {
            NodeKind::Gpu => {
                let event = exact.trace.gpu.event[graph.place[node as usize] as usize];
                if selected.contains(&categories.gpu_category(event)) {
                    found.gpu.push(node);
                }
            }
            NodeKind::SyncReturn | NodeKind::Resume if selected.contains(&Categories::return_category(kind)) => {
                found.returns.push(node);
            }
            _ => {}
        }
    }
    for (number, lane) in exact.lanes.iter().enumerate() {
        for (i, piece) in lane.pieces.iter().enumerate() {
            if stop.is_requested_at(i) {
                break;
            }
            let (lane_number, end) = (number as u32, lane.piece_end(i));
            if end == i64::MAX {
                continue;
            }
            let (category, evidence) = categories.host_category(number, piece.event);
            let whole = HostPart { start: piece.start, end, category, evidence, rule: "" };
            for part in exact.host_parts(number, whole).filter(|part| selected.contains(&part.category)) {
                match found.ranges.last_mut() {
                    Some(last) if (last.0, last.2) == (lane_number, part.start) => last.2 = part.end,
                    _ => found.ranges.push((lane_number, part.start, part.end)),
                }
            }
        }
    }
    let is_lag = |c: &&Category| matches!(c, Category::GpuQueue | Category::LaunchLatency | Category::ThreadHandover);
    found.count = found.gpu.len() + found.returns.len() + found.ranges.len() + selected.iter().filter(is_lag).count();
    found
}

/// Similar names of the requested kind, for a selector without match.
fn names_like(exact: &Exact<'_>, index: &Index, selector: &Selector) -> Vec<String> {
    match &selector.target {
        Target::Stream(_) => {
            let rows = &exact.trace.gpu;
            let mut streams: Vec<(i32, i64)> = rows.device.iter().copied().zip(rows.stream.iter().copied()).collect();
            streams.sort_unstable();
            streams.dedup();
            streams.into_iter().take(8).map(|(d, s)| format!("stream:{d}/{s}")).collect()
        }
        Target::Events(..) | Target::Listed(..) => Vec::new(),
        Target::Categories(_) => {
            let occur = Category::ALL
                .into_iter()
                .filter(|&c| c != Category::Unknown && select_categories(exact, &[c], Stop::NEVER).count > 0);
            occur.map(|c| format!("category:{}", c.name())).collect()
        }
        Target::Names(what @ (NameKind::Sync | NameKind::Wait), pattern) => {
            nearest(names_around_syncs(exact, index, *what), pattern.text())
        }
        Target::Names(what, pattern) => {
            let mut types = NameTypes::new(exact.trace, RULES);
            let mut occurs = |id: StrId| {
                let communicates =
                    |e: EventId, types: &mut NameTypes<'_>| types.of_event(e) == KernelType::Communication;
                let of_kind = |e: EventId| is_selectable(exact, e, *what);
                let mut events = index.named(id).iter().copied();
                events.any(|e| of_kind(e) && (*what != NameKind::Collective || communicates(e, &mut types)))
            };
            let all = names(exact, |_| true).into_iter().filter(|(id, _)| occurs(*id));
            let shown =
                all.map(|(_, name)| if *what == NameKind::Module { module_name(name).unwrap_or(name) } else { name });
            let mut near = nearest(shown, pattern.text());
            if *what == NameKind::Frame {
                // Names of the function come first, all in a form that can be typed.
                let functions = functions(exact, index, selector);
                near.retain(|name| !functions.contains(&name.as_str()));
                let all = functions.into_iter().map(str::to_owned).chain(near);
                near = all.map(|name| format!("frame:{name}")).collect();
            }
            selectors_of_other_kinds(exact, index, (*what, pattern))
                .into_iter()
                .chain(near)
                .take(MAX_SUGGESTIONS)
                .collect()
        }
    }
}

/// Maximum number of suggested names.
const MAX_SUGGESTIONS: usize = 3;

/// Selectors of other kinds that match the same name.
fn selectors_of_other_kinds(exact: &Exact<'_>, index: &Index, (what, pattern): (NameKind, &Pattern)) -> Vec<String> {
    let finds = |other: NameKind| {
        let fits = |name: &str| {
            pattern.matches(if other == NameKind::Module { module_name(name).unwrap_or("") } else { name })
        };
        names(exact, fits).iter().any(|(id, _)| index.named(*id).iter().any(|&e| is_selectable(exact, e, other)))
    };
    // A pattern that matches everything does not show the intended name.
    if pattern.matches("") {
        return Vec::new();
    }
    let others = [NameKind::Kernel, NameKind::Operator, NameKind::Module, NameKind::Annotation, NameKind::Frame];
    let found = others.into_iter().filter(|&other| other != what && finds(other));
    found.map(|other| format!("{}:{}", other.name(), pattern.selector_text())).collect()
}

/// Names by which waiting calls can be selected: their own, and those of operators and frames around them.
fn names_around_syncs<'a>(exact: &'a Exact<'_>, index: &Index, what: NameKind) -> Vec<&'a str> {
    let trace = exact.trace;
    let mut found: Vec<StrId> = Vec::new();
    let mut seen = FxHashSet::default();
    for call in waiting_calls(exact, index, what) {
        let around = std::iter::once(call).chain(trace.ancestors(call));
        found.extend(around.map(|e| trace.events.name[e.index()]).filter(|&name| seen.insert(name)));
    }
    found.into_iter().map(|name| trace.strings.get(name)).collect()
}

/// True if an event has the kind that a selector names; for modules, the name must be that of a module.
fn is_selectable(exact: &Exact<'_>, event: EventId, what: NameKind) -> bool {
    is_of_kind(exact, event, what) && (what != NameKind::Module || module_name(exact.trace.name(event)).is_some())
}
