//! Source location of a finding's edit, if it differs from that of the symptom. It is a constructor call, a caller of a
//! shared wrapper, or a library function that the wrapper runs.

use super::finding::Finding;
use super::rule::RuleProperty;
use super::rules::properties_of;
use stackline_model::vocabulary::is_in_package;
use stackline_model::{EventId, EventKind, StrId, Trace};
use stackline_timeline::frame_names::matches_parts;
use stackline_timeline::source_location::{SourceLocation, SourceLocations};
use stackline_timeline::vocabulary::python::OPTIMIZER_STEP;
use std::collections::{BTreeMap, BTreeSet};

/// Least number of findings at one source location that may be a wrapper.
const MIN_SHARING_FINDINGS: usize = 3;

/// Largest number of events per finding whose callers are read.
const MAX_EVENTS: usize = 64;

/// Set the fix location of findings for which the trace shows a better location than that of the symptom.
pub(super) fn fill_in(trace: &Trace, findings: &mut [&mut Finding]) {
    let places = SourceLocations::new(trace);
    for finding in findings.iter_mut() {
        finding.change = constructor(trace, &places, finding).filter(|place| *place != finding.place);
    }
    for group in findings_by_location(findings) {
        let callers: Vec<Option<StrId>> = group.iter().map(|&at| caller(&places, &findings[at].events)).collect();
        let distinct: BTreeSet<StrId> = callers.iter().flatten().copied().collect();
        // A single common caller is as unspecific as the location itself.
        let frames = match distinct.len() {
            0 | 1 => group.iter().map(|&at| model_function(&places, &findings[at].events)).collect(),
            _ => callers,
        };
        for (&at, frame) in group.iter().zip(frames) {
            let change = frame.map(|frame| places.frame_location(frame));
            findings[at].change = findings[at].change.take().or(change);
        }
    }
}

/// Name of the innermost model-library function around most events of a finding. Unlike the user's own functions, that
/// function shows which work a wrapper runs.
fn model_function(places: &SourceLocations<'_>, events: &[EventId]) -> Option<StrId> {
    let mut counts: BTreeMap<StrId, usize> = BTreeMap::new();
    let first_events = || events.iter().take(MAX_EVENTS);
    for frame in first_events().filter_map(|&event| places.model_frames(event).first().copied()) {
        *counts.entry(frame).or_default() += 1;
    }
    let (frame, count) = counts.into_iter().max_by_key(|&(frame, count)| (count, std::cmp::Reverse(frame)))?;
    (2 * count > first_events().count()).then_some(frame)
}

/// Group findings by file, line and function; returns groups of at least [`MIN_SHARING_FINDINGS`] findings, as indexes.
fn findings_by_location(findings: &[&mut Finding]) -> Vec<Vec<usize>> {
    let mut by_place: BTreeMap<SourceLocation, Vec<usize>> = BTreeMap::new();
    for (at, finding) in findings.iter().enumerate().filter(|(_, finding)| finding.place.file.is_some()) {
        let line = SourceLocation { module: None, operator: None, ..finding.place.clone() };
        by_place.entry(line).or_default().push(at);
    }
    by_place.into_values().filter(|group| group.len() >= MIN_SHARING_FINDINGS).collect()
}

/// Name of the user function that calls the innermost user function around events; `None` unless all events have the
/// same caller.
fn caller(places: &SourceLocations<'_>, events: &[EventId]) -> Option<StrId> {
    let mut callers = events.iter().take(MAX_EVENTS).map(|&event| places.own_frames(event).get(1).copied());
    let first = callers.next()??;
    callers.all(|caller| caller == Some(first)).then_some(first)
}

/// Source location of the recorded constructor call of a finding's object, if there is exactly one.
fn constructor(trace: &Trace, places: &SourceLocations<'_>, finding: &Finding) -> Option<SourceLocation> {
    let (parts, library) = properties_of(&finding.rule.code).iter().find_map(|property| match *property {
        RuleProperty::Constructor { frame, library } => Some((frame, library)),
        _ => None,
    })?;
    let is_match: Vec<bool> =
        trace.strings.iter().map(|name| matches_parts(name, parts) && is_in_package(name, library)).collect();
    if !is_match.contains(&true) {
        return None;
    }
    let name = |event: EventId| trace.events.name[event.index()];
    let is_call = |&e: &EventId| trace.kind(e) == EventKind::PythonFunction && is_match[name(e).index()];
    // Excludes constructor calls within the library, such as iterators that a loader creates.
    let is_called = |e: &EventId| {
        let mut around = trace.ancestors(*e).filter(|&e| trace.kind(e) == EventKind::PythonFunction);
        around.next().is_some_and(|caller| !is_in_package(trace.strings.get(name(caller)), library))
    };
    let calls = trace.events.ids().filter(is_call).filter(is_called);
    // `Optimizer.step#AdamW.step` belongs to the file `adamw.py`.
    let class = finding.events.iter().find_map(|&event| class_of_step(trace, event));
    let is_its = |&e: &EventId| {
        let name = trace.strings.get(name(e)).to_ascii_lowercase();
        class.as_ref().is_none_or(|class| name.contains(&format!("/{class}.py(")))
    };
    let mut found: Vec<SourceLocation> = calls.filter(is_its).map(|e| places.place(places.key(e))).collect();
    found.iter_mut().for_each(|place| (place.module, place.operator) = (None, None));
    found.sort_unstable();
    found.dedup();
    let [place] = &found[..] else { return None };
    place.file.is_some().then(|| place.clone())
}

/// Optimizer class whose step contains an event, in lower case.
fn class_of_step(trace: &Trace, event: EventId) -> Option<String> {
    let launch = stackline_timeline::source_location::launch_of(trace, event);
    let around = std::iter::once(launch).chain(trace.ancestors(launch));
    let class = around.map(|e| trace.name(e)).find_map(|name| name.strip_prefix(OPTIMIZER_STEP)?.split('.').next());
    class.map(str::to_ascii_lowercase)
}

impl Finding {
    /// Source location of the edit: by default the location of the finding.
    pub fn fix_location(&self) -> &SourceLocation {
        self.change.as_ref().unwrap_or(&self.place)
    }
}
