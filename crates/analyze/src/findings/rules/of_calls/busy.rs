//! SL043 of calls: what functions do in Python itself, outside of operators.

use super::super::busy_python;
use super::draft::{CallDraft, bounded, confidence, facts};
use super::kinds::Kinds;
use super::subject::Called;
use super::thread::{Known, Time};
use crate::critical_path::exact::what_if::Gain;
use crate::findings::Place;
use stackline_model::{CallFrameId, CallNodeId};
use std::collections::BTreeMap;

/// What a gain is that nobody can tell beforehand: half of the time, and all of it at most.
const HOPE: i64 = 2;

pub(super) fn find(called: &Called<'_>, kinds: &Kinds) -> Vec<CallDraft> {
    // Of programs with a GPU nobody knows from sums what waits for the host.
    if called.thread.known == Known::Operators || !called.thread.knows_computing() || called.uses_gpu {
        return Vec::new();
    }
    let functions = of_functions(called, &|node| kinds.is_taken(node));
    functions.into_values().filter_map(|lines| draft(called, &lines)).collect()
}

/// Time in Python by line, by function.
pub(super) type Functions = BTreeMap<Place, BTreeMap<Place, Time>>;

/// The own time of functions outside of operators, frameworks and what other rules have.
pub(super) fn of_functions(called: &Called<'_>, is_taken: &dyn Fn(CallNodeId) -> bool) -> Functions {
    let mut lines: BTreeMap<CallFrameId, Time> = BTreeMap::new();
    for node in called.nodes() {
        let computes = called.thread.computing(node);
        let is_other = is_taken(node) || called.in_operator[node.index()] || !called.is_users(node);
        if !is_other && computes.ns > 0 {
            lines.entry(called.line(node)).or_default().add(computes);
        }
    }
    let mut functions = Functions::new();
    for (line, time) in lines {
        let line = called.place(line);
        functions.entry(Place { line: None, ..line.clone() }).or_default().entry(line).or_default().add(time);
    }
    functions
}

fn draft(called: &Called<'_>, lines: &BTreeMap<Place, Time>) -> Option<CallDraft> {
    let mut time = Time::default();
    lines.values().for_each(|of_line| time.add(*of_line));
    let share = called.percent(time.ns);
    // Without steps it may be what is done once.
    if share < called.setting(&busy_python::RULE, "share") || called.steps.count == 0 {
        return None;
    }
    let (place, _) = lines.iter().max_by_key(|(_, time)| time.ns)?;
    let all = bounded(called, time);
    Some(CallDraft {
        rule: &busy_python::RULE,
        title: busy_python::title(share),
        place: place.clone(),
        facts: facts(called, time),
        confidence: confidence(time),
        gain: Gain { ns: all.ns / HOPE, low_ns: 0, high_ns: all.high_ns },
        is_hope: true,
        is_within_other: false,
        covers_ns: time.ns,
    })
}
