//! Self and inclusive times of Python functions per step, from recorded calls or from samples of CPU time.
//!
//! A trace of calls (`with_stack`) has the duration of each call; a recording has only samples. Modules are call paths,
//! and built-in functions are part of their callers.

use super::profile::{Cell, Profile, Row};
use super::units::Units;
use rustc_hash::FxHashMap;
use stackline_model::{EventId, EventKind, SampleMetric, StrId, Trace, TrackKind};
use stackline_timeline::frame_names::frame;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Python functions of one run by file and name, with their times.
pub(super) type Functions = BTreeMap<Arc<str>, Row>;

/// Measured by recorded calls. Times of different methods are not comparable.
pub(super) const BY_CALLS: &str = "calls";
/// Measured by samples of CPU time (in recordings of calls: of CPU time or wall time).
pub(super) const BY_SAMPLES: &str = "samples";

/// Times of Python functions per unit, and the method of measuring (`calls` or `samples`); `None` if the trace has
/// neither.
pub(super) fn functions(trace: &Trace, units: &Units) -> (Functions, Option<&'static str>) {
    let names: Vec<Option<Arc<str>>> = trace.strings.iter().map(|name| label(name).map(Arc::from)).collect();
    let name_of = |name: StrId| names.get(name.index()).and_then(Option::as_ref);
    if has_samples(trace) {
        return (by_samples(trace, units, &name_of), Some(BY_SAMPLES));
    }
    let called = by_calls(trace, units, &name_of);
    let known = (!called.is_empty()).then_some(BY_CALLS);
    (called, known)
}

/// Label of a function without its line, because lines move when a file changes. `None` for built-in functions.
fn label(name: &str) -> Option<String> {
    let (file, _, function) = frame(name)?;
    Some(format!("{file}: {function}"))
}

type NameOf<'n> = &'n dyn Fn(StrId) -> Option<&'n Arc<str>>;

/// Remove functions without times, and release the unused memory of the other rows.
fn shrunk(rows: FxHashMap<&Arc<str>, Row>) -> Functions {
    rows.into_iter().filter(|(_, row)| !row.is_empty()).map(|(name, row)| (Arc::clone(name), row.shrunk())).collect()
}

/// Self and inclusive times of Python functions, for traces that record each call. Self time excludes called functions
/// and operators.
fn by_calls<'n>(trace: &Trace, units: &Units, name_of: NameOf<'n>) -> Functions {
    let mut rows: FxHashMap<&Arc<str>, Row> = FxHashMap::default();
    // The innermost function or operator at or around each event.
    let mut enclosing = vec![EventId::NONE; trace.events.len()];
    let mut own = vec![0_i64; trace.events.len()];
    for track in trace.tracks.ids().filter(|&track| trace.tracks.get(track).kind == TrackKind::Thread) {
        // Parents come before their children.
        for &event in trace.track_events(track) {
            let parent = trace.events.parent[event.index()];
            let above = parent.some().map_or(EventId::NONE, |parent| enclosing[parent.index()]);
            let is_function = is_call(trace, event) && name_of(trace.events.name[event.index()]).is_some();
            let counts = is_function || trace.kind(event) == EventKind::Operator;
            enclosing[event.index()] = if counts { event } else { above };
            if !counts || !trace.events.is_timed(event) {
                continue;
            }
            let dur = trace.events.dur[event.index()];
            if is_function {
                own[event.index()] += dur;
            }
            if above.is_some() && trace.kind(above) != EventKind::Operator {
                own[above.index()] -= dur;
            }
        }
    }
    let is_function = |event: &EventId| enclosing[event.index()] == *event && is_call(trace, *event);
    for event in trace.events.ids().filter(is_function) {
        let name = trace.events.name[event.index()];
        let (Some(label), Some(unit)) = (name_of(name), units.of_event(trace, event)) else { continue };
        let is_inner = trace.ancestors(event).any(|e| trace.events.name[e.index()] == name);
        let cpu_total = if is_inner { 0 } else { trace.events.dur[event.index()] };
        rows.entry(label).or_default().add(unit, &Cell { count: 1, gpu: 0, cpu: own[event.index()].max(0), cpu_total });
    }
    shrunk(rows)
}

/// Test if an event is the call of a Python function with a duration.
fn is_call(trace: &Trace, event: EventId) -> bool {
    trace.kind(event) == EventKind::PythonFunction && trace.events.is_timed(event)
}

/// Test if the trace has samples of CPU time.
fn has_samples(trace: &Trace) -> bool {
    trace.samples().of_metric(SampleMetric::CpuTime).next().is_some()
}

/// Times of Python functions from samples of CPU time. Samples inside operators count only as inclusive time of the
/// calling functions.
fn by_samples<'n>(trace: &Trace, units: &Units, name_of: NameOf<'n>) -> Functions {
    let mut rows: FxHashMap<&Arc<str>, Row> = FxHashMap::default();
    let time = trace.attr(SampleMetric::CpuTime.key());
    for event in trace.events.ids().filter(|&event| trace.kind(event) == EventKind::Sample) {
        let (Some(ns), Some(unit)) = (time.i64(event), units.of_event(trace, event)) else { continue };
        let in_operator = trace.ancestors(event).any(|e| trace.kind(e) == EventKind::Operator);
        let mut seen = BTreeSet::new();
        for label in frames(trace, event).filter_map(name_of) {
            // Only the innermost function was running.
            let cpu = if seen.is_empty() && !in_operator { ns } else { 0 };
            if seen.insert(label) {
                rows.entry(label).or_default().add(unit, &Cell { count: 1, gpu: 0, cpu, cpu_total: ns });
            }
        }
    }
    shrunk(rows)
}

/// Names of the frames of a sample, innermost first.
fn frames(trace: &Trace, sample: EventId) -> impl Iterator<Item = StrId> {
    let stacks = &trace.stacks;
    std::iter::once(trace.events.name[sample.index()]).chain(stacks.names(stacks.of_event(sample)))
}

/// For functions whose file path differs between the sides: name on the second side, and name on the first side. Paths
/// match by their ends, because a program that was copied or installed elsewhere has the same functions.
pub(super) fn aligned_names(before: &[&Profile], after: &[&Profile]) -> BTreeMap<Arc<str>, Arc<str>> {
    let names = |side: &[&Profile]| -> BTreeSet<Arc<str>> {
        side.iter().flat_map(|profile| profile.functions.keys().map(Arc::clone)).collect()
    };
    let (a, b) = (names(before), names(after));
    let mut free: BTreeMap<String, Vec<&Arc<str>>> = BTreeMap::new();
    for name in a.difference(&b) {
        free.entry(file_and_name(name)).or_default().push(name);
    }
    let mut found: BTreeMap<Arc<str>, Vec<Arc<str>>> = BTreeMap::new();
    for name in b.difference(&a) {
        if let Some(best) = free.get(&file_and_name(name)).and_then(|names| most_similar(name, names)) {
            found.entry(best).or_default().push(Arc::clone(name));
        }
    }
    // Ambiguous matches are ignored.
    found
        .into_iter()
        .filter_map(|(name, of)| Some((Arc::clone(<&[_; 1]>::try_from(&of[..]).ok()?.first()?), name)))
        .collect()
}

/// Strip folders: `train.py: step` from `/data/me/train.py: step`.
fn file_and_name(name: &str) -> String {
    let (file, function) = split_label(name);
    format!("{}: {function}", file.rsplit(['/', '\\']).next().unwrap_or(file))
}

/// Split a label into file and function: `train.py` and `step` for `train.py: step`.
fn split_label(name: &str) -> (&str, &str) {
    name.rsplit_once(": ").unwrap_or((name, ""))
}

/// The name in `among` whose file path shares the most trailing folders with that of `name`; `None` for a tie.
fn most_similar(name: &str, among: &[&Arc<str>]) -> Option<Arc<str>> {
    let folders = |name: &str| split_label(name).0.rsplit(['/', '\\']).map(str::to_owned).collect::<Vec<_>>();
    let own = folders(name);
    let shared_folders = |other: &str| own.iter().zip(folders(other)).take_while(|(a, b)| *a == b).count();
    let most = among.iter().map(|other| shared_folders(other)).max()?;
    let mut best = among.iter().filter(|other| shared_folders(other) == most);
    best.next().filter(|_| best.next().is_none()).map(|name| Arc::clone(name))
}

/// Replace function names in a call path by those of the other side; `None` if nothing changes.
pub(super) fn renamed_path(path: &str, names: &BTreeMap<Arc<str>, Arc<str>>) -> Option<Arc<str>> {
    let parts = || path.split(" > ");
    let other = |part: &'_ str| names.get(part).map(|name| name.to_string());
    parts().any(|part| names.contains_key(part)).then(|| {
        let renamed: Vec<String> = parts().map(|part| other(part).unwrap_or_else(|| part.to_owned())).collect();
        renamed.join(" > ").into()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn profile(names: &[&str]) -> Profile {
        let row = || [Cell { count: 1, gpu: 0, cpu: 5, cpu_total: 5 }].iter().collect::<Row>();
        Profile { functions: names.iter().map(|&name| (name.into(), row())).collect(), ..Profile::default() }
    }

    fn map(before: &[&str], after: &[&str]) -> Vec<(String, String)> {
        let names = aligned_names(&[&profile(before)], &[&profile(after)]);
        names.iter().map(|(b, a)| (b.to_string(), a.to_string())).collect()
    }

    #[test]
    fn function_labels_exclude_lines() {
        assert_eq!(label("src/train.py(12): Model.step"), label("src/train.py(340): Model.step"));
        assert_eq!(label("src/train.py(12): Model.step").as_deref(), Some("src/train.py: Model.step"));
        assert_eq!(label("<built-in function sleep>"), None);
    }

    #[test]
    fn functions_align_across_folders() {
        let pair = |b: &str, a: &str| (b.to_owned(), a.to_owned());
        assert_eq!(map(&["/a/x/t.py: f"], &["/b/x/t.py: f"]), [pair("/b/x/t.py: f", "/a/x/t.py: f")]);
        assert_eq!(
            map(&["/a/x/t.py: f", "/a/y/t.py: f"], &["/b/x/t.py: f", "/b/y/t.py: f"]),
            [pair("/b/x/t.py: f", "/a/x/t.py: f"), pair("/b/y/t.py: f", "/a/y/t.py: f")]
        );
        // Equal candidates are ambiguous; names on both sides are taken; a different function does not match.
        assert_eq!(map(&["/a/x/t.py: f", "/a/y/t.py: f"], &["/b/z/t.py: f"]), []);
        assert_eq!(map(&["t.py: f"], &["t.py: f", "/b/t.py: f"]), []);
        assert_eq!(map(&["/a/t.py: f"], &["/b/t.py: g", "/b/u.py: f"]), []);
        assert_eq!(map(&["/a/t.py: f"], &["/b/t.py: f", "/c/t.py: f"]), []);
    }
}
