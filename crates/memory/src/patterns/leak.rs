//! Memory leak: never freed. If the trace ends before the program, the object is merely alive, and the match says so by
//! its certainty.

use super::{Certainty, Pattern, PatternMatch};
use crate::Facts;

pub(super) fn detect(facts: &Facts<'_>, found: &mut Vec<PatternMatch>) {
    for object in facts.trace.objects.ids() {
        let Some(bytes) = facts.bytes(object) else { continue };
        if facts.trace.objects.freed_by[object.index()].is_some() {
            continue;
        }
        let from = facts.trace.objects.allocated_by[object.index()];
        let kernels = facts.kernels_in(facts.trace.life(object));
        let certainty = if facts.trace.saw_end { Certainty::Exact } else { Certainty::Partial };
        let leak = PatternMatch::new(Pattern::MemoryLeak, object, bytes);
        found.push(PatternMatch { from, kernels, certainty, ..leak });
    }
}
