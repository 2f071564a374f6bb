//! Choice of the edits that a sweep tries, from the events on the critical path.

use super::super::category::Category;
use super::super::path::ExactPath;
use super::super::wakeups::is_annotation;
use super::WhatIf;
use super::cancellation::Stop;
use super::edit::{Action, Edit};
use super::selector::{NameKind, Selector};
use rustc_hash::FxHashMap;
use stackline_model::names::module_name;
use stackline_model::{EventId, EventKind, StrId};

/// Possible edit of a critical-path segment, such as a faster kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Suggestion {
    Kernel(StrId),
    Collective(StrId),
    Operator(StrId),
    Module(StrId),
    Wait(StrId),
    Category(Category),
    Workers,
}

/// Possible edit, and the critical-path segments that it would change.
pub(super) struct Planned {
    pub(super) suggestion: Suggestion,
    /// Time of these segments in ns.
    pub(super) on_path_ns: i64,
    /// Positions on the path: disjoint half-open runs, ascending.
    pub(super) segments: Vec<(u32, u32)>,
    /// Enclosing candidates of the same kind for the same part of the path.
    pub(super) also: Vec<Suggestion>,
}

/// Maximum number of operators and modules of a deep stack, from the innermost on. (Plus the outermost
/// [`super::super::enclosing::DEPTH`] modules.)
const MAX_NEAREST: usize = 12;

/// Maximum difference of two equal edits, in percent.
const MAX_DIFFERENCE_PERCENT: i64 = 10;

/// True if two numbers differ by more than [`MAX_DIFFERENCE_PERCENT`] percent.
pub(super) fn differ(x: i64, y: i64) -> bool {
    (x - y).abs() * 100 > x.abs().max(y.abs()) * MAX_DIFFERENCE_PERCENT
}

impl Planned {
    /// True if two possible edits change the same part of the path.
    pub(super) fn changes_same_part(&self, other: &Self, path: &ExactPath) -> bool {
        if differ(self.on_path_ns, other.on_path_ns) {
            return false;
        }
        let shared = shared_ns(&self.segments, &other.segments, |i| path.segments.length_ns(i));
        !differ(shared, self.on_path_ns.max(other.on_path_ns))
    }

    /// True if events of the kind of this edit (operators or modules) can contain each other.
    fn nests(&self) -> bool {
        matches!(self.suggestion, Suggestion::Operator(_) | Suggestion::Module(_))
    }
}

/// Total time, in ns, of the path segments that are in both of two lists of runs.
fn shared_ns(a: &[(u32, u32)], b: &[(u32, u32)], length_ns: impl Fn(usize) -> i64) -> i64 {
    let (mut a, mut b) = (a.iter().peekable(), b.iter().peekable());
    let mut ns = 0;
    while let (Some(&&(from_a, to_a)), Some(&&(from_b, to_b))) = (a.peek(), b.peek()) {
        ns += (from_a.max(from_b)..to_a.min(to_b)).map(|i| length_ns(i as usize)).sum::<i64>();
        if to_a <= to_b {
            a.next()
        } else {
            b.next()
        };
    }
    ns
}

/// Merge possible edits of operators, and of modules, that change the same part of the path. The innermost represents
/// all. `planned` is sorted by time, largest first. Only edits with the same longest segment are compared.
pub(super) fn merge_equal_parts(planned: Vec<Planned>, path: &ExactPath, stop: Stop<'_>) -> Vec<Planned> {
    let length = |i: &u32| path.segments.length_ns(*i as usize);
    let mut groups: Vec<Vec<Planned>> = Vec::new();
    let mut by_longest: FxHashMap<(std::mem::Discriminant<Suggestion>, u32), Vec<usize>> = FxHashMap::default();
    for (iteration, plan) in planned.into_iter().enumerate() {
        if stop.is_requested_at(iteration) {
            break;
        }
        let segments = plan.segments.iter().flat_map(|&(from, to)| from..to);
        let longest = segments.max_by_key(|i| (length(i), std::cmp::Reverse(*i)));
        let Some(longest) = longest.filter(|_| plan.nests()) else {
            groups.push(vec![plan]);
            continue;
        };
        let near = by_longest.entry((std::mem::discriminant(&plan.suggestion), longest)).or_default();
        // A group contains candidates for the part of its first one; otherwise groups would grow inward without limit.
        // Times decrease from group to group.
        let found = near.iter().rev().take_while(|g| !differ(groups[**g][0].on_path_ns, plan.on_path_ns));
        match found.copied().find(|&g| plan.changes_same_part(&groups[g][0], path)) {
            Some(group) => groups[group].push(plan),
            None => {
                near.push(groups.len());
                groups.push(vec![plan]);
            }
        }
    }
    let innermost = |mut group: Vec<Planned>| {
        let mut last = group.pop()?;
        last.also = group.iter().map(|plan| plan.suggestion).collect();
        Some(last)
    };
    groups.into_iter().filter_map(innermost).collect()
}

/// Select at most `most` possible edits, alternating between their kinds in the order of time on the path. Also returns
/// the number of the others.
pub(super) fn select_fairly(planned: Vec<Planned>, most: usize) -> (Vec<Planned>, usize) {
    let mut seen: FxHashMap<std::mem::Discriminant<Suggestion>, usize> = FxHashMap::default();
    let mut ranked: Vec<(usize, Planned)> = Vec::with_capacity(planned.len());
    for plan in planned {
        let before = seen.entry(std::mem::discriminant(&plan.suggestion)).or_default();
        ranked.push((*before, plan));
        *before += 1;
    }
    let by_time = |p: &Planned| (std::cmp::Reverse(p.on_path_ns), p.suggestion);
    ranked.sort_by_key(|(before, plan)| (*before, by_time(plan)));
    let left_out = ranked.len().saturating_sub(most);
    ranked.truncate(most);
    let mut kept: Vec<Planned> = ranked.into_iter().map(|(_, plan)| plan).collect();
    kept.sort_by_key(by_time);
    (kept, left_out)
}

impl WhatIf<'_, '_> {
    /// Find possible edits of the events on the path, with their time on the path, largest first.
    pub(super) fn suggestions(&self, path: &ExactPath, stop: Stop<'_>) -> Vec<Planned> {
        let mut found: FxHashMap<Suggestion, (i64, Vec<(u32, u32)>)> = FxHashMap::default();
        let mut seen = Vec::new();
        for (i, segment) in (0u32..).zip(path.segments.iter()) {
            if stop.is_requested_at(i as usize) {
                break;
            }
            seen.clear();
            self.suggest(segment.category, segment.event, &mut seen);
            seen.sort_unstable();
            seen.dedup();
            for &suggestion in &seen {
                let (ns, segments) = found.entry(suggestion).or_default();
                *ns += segment.end - segment.start;
                match segments.last_mut().filter(|(_, to)| *to == i) {
                    Some((_, to)) => *to += 1,
                    None => segments.push((i, i + 1)),
                }
            }
        }
        let mut all: Vec<Planned> = found
            .into_iter()
            .filter(|(suggestion, _)| !self.is_nameless(*suggestion))
            .map(|(suggestion, (on_path_ns, mut segments))| {
                segments.shrink_to_fit();
                Planned { suggestion, on_path_ns, segments, also: Vec::new() }
            })
            .collect();
        all.sort_unstable_by_key(|plan| (std::cmp::Reverse(plan.on_path_ns), plan.suggestion));
        all
    }

    /// True if a candidate has no name to select it by.
    fn is_nameless(&self, suggestion: Suggestion) -> bool {
        use Suggestion::{Collective, Kernel, Module, Operator, Wait};
        match suggestion {
            Kernel(name) | Collective(name) | Operator(name) | Module(name) | Wait(name) => {
                self.exact.trace.strings.get(name).trim().is_empty()
            }
            Suggestion::Category(_) | Suggestion::Workers => false,
        }
    }

    /// Add the possible edits of a path segment, given by its cause and event, to a list.
    fn suggest(&self, category: Category, event: EventId, found: &mut Vec<Suggestion>) {
        let trace = self.exact.trace;
        let name = |e: EventId| trace.events.name[e.index()];
        match category {
            Category::GpuCommunication => {
                found.extend(event.some().map(|e| Suggestion::Collective(name(e))));
                found.extend(event.some().map(|e| Suggestion::Kernel(name(e))));
            }
            Category::GpuCompute | Category::GpuCopy => {
                found.extend(event.some().map(|e| Suggestion::Kernel(name(e))));
            }
            Category::GpuQueue
            | Category::LaunchLatency
            | Category::HostRuntime
            | Category::HostBlocked
            | Category::ThreadHandover => {
                found.push(Suggestion::Category(category));
            }
            Category::HostDataLoading => found.extend([Suggestion::Category(category), Suggestion::Workers]),
            // Only calls that waited: the time of other calls is their own work (`host_runtime`).
            Category::SyncReturn => found.extend(event.some().map(|e| Suggestion::Wait(self.name_of_sync(e)))),
            Category::HostPython | Category::HostOperator => found.push(Suggestion::Category(category)),
            Category::Profiler | Category::Unknown => {}
        }
        if event.is_none() || trace.kind(event).is_gpu_work() {
            let gpu = event.some().and_then(|e| trace.gpu_operation(e));
            self.modules_around(gpu.map_or(EventId::NONE, |g| trace.gpu.module[g.index()]), found);
            return;
        }
        let enclosing = self.exact.enclosing();
        let operators = enclosing.operators(trace, event).take(MAX_NEAREST);
        // Old traces record steps as operators.
        found.extend(operators.filter(|&e| !is_annotation(trace, e)).map(|e| Suggestion::Operator(name(e))));
        self.modules_around(event, found);
    }

    /// Add edits of the modules around an event, including itself, to a list: the innermost and the outermost ones.
    fn modules_around(&self, event: EventId, found: &mut Vec<Suggestion>) {
        let trace = self.exact.trace;
        let Some(event) = event.some() else { return };
        let enclosing = self.exact.enclosing();
        let is_module =
            |e: &EventId| trace.kind(*e) == EventKind::PythonFunction && module_name(trace.name(*e)).is_some();
        let innermost = enclosing.places_outwards(trace, event).take(MAX_NEAREST);
        let around = innermost.chain(enclosing.shown_places(trace, event)).filter(is_module);
        found.extend(around.map(|e| Suggestion::Module(trace.events.name[e.index()])));
    }

    /// Name by which a wait is selected: that of the outermost of the nearest operators around the waiting call.
    ///
    /// Without an operator, the name of the call itself.
    fn name_of_sync(&self, call: EventId) -> StrId {
        let trace = self.exact.trace;
        let enclosing = self.exact.enclosing();
        let outermost = enclosing.operators(trace, call).take(MAX_NEAREST).last();
        trace.events.name[outermost.unwrap_or(call).index()]
    }

    /// Convert a possible edit to an edit, such as one that halves a kernel's time; `None` if the edit is invalid.
    pub(super) fn edit(&self, suggestion: Suggestion) -> Option<Edit> {
        let strings = &self.exact.trace.strings;
        let on = |kind: &str, what: NameKind, name: StrId, action: Action| {
            Edit::on(action, Selector::exactly(kind, what, strings.get(name))).ok()
        };
        let half = Action::Scale(0.5);
        match suggestion {
            Suggestion::Kernel(name) => on("kernel", NameKind::Kernel, name, half),
            Suggestion::Collective(name) => on("collective", NameKind::Collective, name, Action::Overlap),
            Suggestion::Operator(name) => on("operator", NameKind::Operator, name, half),
            Suggestion::Module(name) => on("module", NameKind::Module, name, half),
            Suggestion::Wait(name) => on("wait", NameKind::Wait, name, Action::Remove),
            Suggestion::Workers => Edit::more_workers(1).ok(),
            Suggestion::Category(category) => {
                let action = match category {
                    Category::GpuQueue | Category::LaunchLatency | Category::HostBlocked => Action::Remove,
                    _ => half,
                };
                Edit::new(action, &format!("category:{}", category.name())).ok()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exact::PathSegments;

    fn planned(suggestion: Suggestion, on_path_ns: i64) -> Planned {
        Planned { suggestion, on_path_ns, segments: Vec::new(), also: Vec::new() }
    }

    #[test]
    fn nested_modules_of_one_path_part_are_merged() {
        let segment = |start, end| crate::exact::PathSegment {
            start,
            end,
            category: Category::HostPython,
            track: stackline_model::TrackId::NONE,
            event: EventId::NONE,
            evidence: crate::gpu_dependency::Evidence::Exact,
            rule: "gap",
            node: 0,
        };
        let window = crate::exact::Window { start: 0, end: 200, anchor: 0 };
        let mut segments = PathSegments::new(200, 8);
        for latest_first in [segment(100, 200), segment(5, 100), segment(0, 5)] {
            segments.push_front(&latest_first);
        }
        let path = ExactPath { window, segments };
        let module = |i, on_path_ns, segments: (u32, u32)| Planned {
            segments: vec![segments],
            ..planned(Suggestion::Module(StrId::new(i)), on_path_ns)
        };
        // Around both; around the first two segments; inside that; the last segment.
        let all = vec![module(0, 200, (0, 3)), module(3, 100, (2, 3)), module(1, 100, (0, 2)), module(2, 95, (1, 2))];
        let found = merge_equal_parts(all, &path, Stop::NEVER);
        let kept: Vec<_> = found.iter().map(|p| (p.suggestion, p.also.clone())).collect();
        let of = |i| Suggestion::Module(StrId::new(i));
        assert_eq!(kept, [(of(0), vec![]), (of(3), vec![]), (of(2), vec![of(1)])]);
    }

    #[test]
    fn shared_time_counts_common_segments() {
        let length = |i: usize| 10i64.pow(i as u32);
        assert_eq!(shared_ns(&[(0, 3), (5, 6)], &[(2, 4), (4, 6)], length), 100_100);
        assert_eq!(shared_ns(&[(0, 6)], &[(1, 2), (3, 4)], length), 1_010);
        assert_eq!(shared_ns(&[], &[(1, 2)], length) + shared_ns(&[(1, 2)], &[(2, 3)], length), 0);
    }

    #[test]
    fn candidates_are_balanced_by_kind_and_omissions_are_counted() {
        let module = |i| planned(Suggestion::Module(StrId::new(i)), 1000 - i as i64);
        let kernel = |i| planned(Suggestion::Kernel(StrId::new(i)), 100 - i as i64);
        let all = (0..50).map(module).chain((0..3).map(kernel)).chain([planned(Suggestion::Workers, 1)]);
        let (kept, left_out) = select_fairly(all.collect(), 10);
        let count = |test: fn(&Suggestion) -> bool| kept.iter().filter(|p| test(&p.suggestion)).count();
        assert_eq!((kept.len(), left_out), (10, 44));
        assert_eq!(count(|s| matches!(s, Suggestion::Kernel(_))), 3);
        assert_eq!(count(|s| matches!(s, Suggestion::Workers)), 1);
        assert!(kept.is_sorted_by_key(|p| std::cmp::Reverse(p.on_path_ns)));
    }
}
