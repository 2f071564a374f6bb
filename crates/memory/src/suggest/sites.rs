//! Groups of suggestions that are one change of the program: the same action for objects of the same line.

use super::Suggestion;
use crate::patterns::PatternMatch;
use crate::source_location::frame_of;
use rustc_hash::FxHashMap;
use stackline_model::{MemoryDeviceId, MemoryObjectId, MemoryStackId, MemoryTrace, StrId};
use std::collections::BTreeMap;

/// Allocation site: line, operator and device. Names count only without a line: layers of one line have different
/// names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Site {
    device: MemoryDeviceId,
    /// Function, file and line.
    line: Option<(StrId, StrId, u32)>,
    operator: StrId,
    name: StrId,
    /// Distinguishes objects without line, operator and name.
    alone: u32,
}

/// Lookup of allocation sites. Each call path is analyzed once.
pub(crate) struct Sites<'a> {
    trace: &'a MemoryTrace,
    lines: FxHashMap<MemoryStackId, Option<(StrId, StrId, u32)>>,
}

impl<'a> Sites<'a> {
    /// Create an empty lookup for the call paths of a trace.
    pub(crate) fn new(trace: &'a MemoryTrace) -> Self {
        Self { trace, lines: FxHashMap::default() }
    }

    /// Allocation site of a pattern's match; for a leaked activation, the line that called the model, independent of
    /// lines and operators within it.
    pub(crate) fn of_match(&mut self, found: &PatternMatch) -> Site {
        match found.model_call.some() {
            Some(stack) => self.called_from(found.object, stack),
            None => self.site_of(found.object),
        }
    }

    /// Allocation site of all objects that one call of a model allocates: the line of that call.
    pub(crate) fn called_from(&mut self, object: MemoryObjectId, model_call: MemoryStackId) -> Site {
        let (device, line) = (self.trace.objects.device[object.index()], self.line(model_call));
        Site { device, line, operator: StrId::NONE, name: StrId::NONE, alone: u32::MAX }
    }

    /// Function, file and line of a call path's most informative frame; `None` if the path is unknown.
    fn line(&mut self, stack: MemoryStackId) -> Option<(StrId, StrId, u32)> {
        let trace = self.trace;
        let line =
            || frame_of(trace, stack).map(|frame| (frame.function(), frame.file().into(), frame.line().unwrap_or(0)));
        *self.lines.entry(stack).or_insert_with(line)
    }

    /// Allocation site of an object: its line, operator and device; without a line also its name.
    pub(crate) fn site_of(&mut self, object: MemoryObjectId) -> Site {
        let (objects, row) = (&self.trace.objects, object.index());
        let (operator, name, device) = (objects.operator[row], objects.name[row], objects.device[row]);
        let line = self.line(self.trace.objects.stack[row]);
        let name = if line.is_some() { StrId::NONE } else { name };
        let is_known = line.is_some() || operator.is_some() || name.is_some();
        let alone = if is_known { u32::MAX } else { object.0 };
        Site { device, line, operator, name, alone }
    }
}

/// Group suggestions (by index) for objects of the same line and operator, with the same kind of change. Such objects
/// are allocations in every step or layer. Groups are in the order of their first member.
pub fn sites(trace: &MemoryTrace, suggestions: &[Suggestion]) -> Vec<Vec<usize>> {
    let mut groups: Vec<Vec<usize>> = Vec::new();
    let mut known = BTreeMap::new();
    let mut sites = Sites::new(trace);
    for (at, suggestion) in suggestions.iter().enumerate() {
        let key = (suggestion.action.name(), suggestion.pattern, sites.site_of(suggestion.object));
        let group = *known.entry(key).or_insert_with(|| {
            groups.push(Vec::new());
            groups.len() - 1
        });
        groups[group].push(at);
    }
    groups
}

/// Merge suggestions of the same site and kind of change into one, led by the one with the most bytes.
pub fn grouped(trace: &MemoryTrace, suggestions: Vec<Suggestion>) -> Vec<Suggestion> {
    let groups = sites(trace, &suggestions);
    let mut left: Vec<Option<Suggestion>> = suggestions.into_iter().map(Some).collect();
    let mut made = Vec::with_capacity(groups.len());
    for group in groups {
        let mut members: Vec<Suggestion> = group.into_iter().filter_map(|at| left[at].take()).collect();
        // A stable sort: the first of equal ones leads.
        members.sort_by_key(|member| std::cmp::Reverse(member.bytes));
        let mut members = members.into_iter();
        made.extend(members.next().map(|first| Suggestion { more: members.collect(), ..first }));
    }
    made
}
