//! Suggestions that are one change of the program: the same change, about objects that the same line makes.

use super::Suggestion;
use stackline_model::MemoryTrace;
use std::collections::BTreeMap;

/// Suggestions (by their places in the list) that are about objects of the same call path, operator, name and kind of
/// change: what is made anew in every step of a loop stands together. Groups come in the order of their first member.
pub fn sites(trace: &MemoryTrace, suggestions: &[Suggestion]) -> Vec<Vec<usize>> {
    let mut groups: Vec<Vec<usize>> = Vec::new();
    let mut known = BTreeMap::new();
    for (at, suggestion) in suggestions.iter().enumerate() {
        let (objects, row) = (&trace.objects, suggestion.object.index());
        let made_by = (objects.stack[row], objects.operator[row], objects.name[row]);
        // Without any of them, nothing says that two objects are made by the same line.
        let alone = if made_by.0.is_none() && made_by.1.is_none() && made_by.2.is_none() { row } else { usize::MAX };
        let key = (suggestion.action.name(), suggestion.pattern, objects.device[row], made_by, alone);
        let group = *known.entry(key).or_insert_with(|| {
            groups.push(Vec::new());
            groups.len() - 1
        });
        groups[group].push(at);
    }
    groups
}
